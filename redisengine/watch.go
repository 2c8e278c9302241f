package redisengine

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/redisengine/internal/link"
)

// watch is one blocking call after the other on the markers of one group's
// shards. It runs while there are any.
type watch struct {
	h     *hub
	group string
	// shards are the watched ones; asked are the markers of the call that is
	// on its way. What is no longer watched stays in that call until it ends:
	// a marker that it takes for nobody is put back.
	shards map[string]*watched
	asked  map[string]bool
	turns  uint64 // calls so far
	nudged bool   // the call on its way is to end early
}

// watched is a shard with waiters.
type watched struct {
	v     *view
	q     *queue
	s     *shard
	gear  *gear // of the shard
	group string
}

func (e *Engine) watched(q *queue, s *shard) *watched {
	return &watched{q: q, s: s, gear: e.gear(q, s), group: e.link.Group(s.tag)}
}

// copied is for those who read it without the lock: watch may give it another
// queue meanwhile.
func (d *watched) copied() *watched {
	return &watched{q: d.q, s: d.s, gear: d.gear, group: d.group}
}

// watch begins to watch the shards of a view. The caller holds the lock.
func (h *hub) watch(v *view) {
	h.startTick()
	q := v.watches()
	if q == nil || h.closed {
		return
	}
	for _, s := range q.shards {
		g, group := h.e.gear(q, s), h.e.link.Group(s.tag)
		marker := g.name("marker")
		w := h.watches[group]
		if w == nil {
			w = &watch{h: h, group: group, shards: map[string]*watched{}}
			h.watches[group] = w
			h.busy.begin() // until its first call is on its way
			h.e.work.begin(w.run)
		}
		d := h.watched[marker]
		if d == nil {
			d = &watched{}
			h.watched[marker] = d
		}
		d.v, d.q, d.s, d.gear, d.group = v, q, s, g, group
		w.shards[marker] = d
		if w.asked != nil && !w.asked[marker] && !w.nudged {
			w.nudged = true
			turn := w.turns
			h.busy.begin()
			h.e.work.begin(func() { w.nudge(turn) })
		}
	}
}

// unwatch stops watching the shards of a view. The caller holds the lock.
func (h *hub) unwatch(v *view) {
	q := v.watches()
	if q == nil {
		return
	}
	for _, s := range q.shards {
		marker := s.name("marker")
		d := h.watched[marker]
		if d == nil || d.v != v {
			continue
		}
		if w := h.watches[d.group]; w != nil {
			delete(w.shards, marker)
		}
		delete(h.watched, marker)
	}
}

// restAfterFailure is how long a watch waits after a call that has failed. A
// refusal may stay for ever: after each the next wait is longer, up to recheck.
const restAfterFailure = 100 * time.Millisecond

// run makes one blocking call after the other. What the tick looks at meanwhile
// is what a call that fails would have told.
func (w *watch) run() {
	h := w.h
	rest := restAfterFailure
	for busy := true; ; {
		keys := w.next()
		if busy {
			h.busy.end()
		}
		if keys == nil {
			return
		}
		marker, member, score, ok, err := h.e.link.Block(h.ctx, w.group, keys, link.MaxBlock)
		h.busy.begin()
		busy = true
		switch {
		case ok:
			w.taken(marker, member, int64(score))
		case h.ctx.Err() != nil:
		case err != nil:
			_ = clock.Sleep(h.ctx, clock.System(), rest)
		}
		if rest = min(2*rest, recheck); err == nil || duly.CodeOf(err) == duly.CodeUnavailable {
			rest = restAfterFailure
		}
	}
}

// nudge ends a blocking call that does not ask for everything that is watched.
// It may be on its way to the server still, so it is ended until it has ended.
func (w *watch) nudge(turn uint64) {
	defer w.h.busy.end()
	for {
		w.h.mu.Lock()
		ended := w.turns != turn
		w.h.mu.Unlock()
		if ended {
			return
		}
		w.h.e.link.Unblock(w.group)
		if clock.Sleep(w.h.ctx, clock.System(), time.Millisecond) != nil {
			return
		}
	}
}

// next lists the markers to ask for, none if the watch is over.
func (w *watch) next() (keys []string) {
	w.h.mu.Lock()
	defer w.h.mu.Unlock()
	w.asked, w.nudged = nil, false
	w.turns++
	if len(w.shards) == 0 || w.h.ctx.Err() != nil {
		delete(w.h.watches, w.group)
		return nil
	}
	w.asked = make(map[string]bool, len(w.shards))
	for marker := range w.shards {
		w.asked[marker] = true
		keys = append(keys, marker)
	}
	return keys
}

// taken does what a marker says.
func (w *watch) taken(marker, member string, score int64) {
	h := w.h
	h.mu.Lock()
	d := w.shards[marker]
	if d == nil || h.ctx.Err() != nil {
		h.mu.Unlock()
		h.restore(marker, member, score)
		return
	}
	ref, s, unknown := d.v.ref, d.s, d.q.version == guessed
	h.mu.Unlock()
	if unknown { // until now: somebody has made it
		_, _ = h.e.reread(h.ctx, ref) // where it fails, the look asks again
	}
	switch {
	case member != "now":
		h.keep(marker, score)
	case !h.offer(ref, s.index, int(score)):
		h.mark(s, member, int64(score))
	}
}

// restore gives a marker back that this process has no use for, unless the queue
// is gone. Where another was set meanwhile, the higher number of jobs and the
// sooner moment stand.
func (h *hub) restore(marker, member string, score int64) {
	_, _ = h.e.link.Run(h.e.ctx, restoring(marker, member, score))
}

func restoring(marker, member string, score int64) link.Call {
	config := strings.TrimSuffix(marker, "marker") + "config"
	return link.Call{Script: scriptMark.Script, Keys: []string{config, marker}, Args: []string{member, strconv.FormatInt(score, 10)}}
}

// heed acts on a look. keeper: this process keeps the shard's next moment.
func (h *hub) heed(ctx context.Context, d *watched, l looked, keeper bool) {
	if l.other {
		h.refresh(ctx, d.q.ref)
		return
	}
	if l.deliverable > 0 && !h.offer(d.q.ref, d.s.index, l.deliverable) && keeper {
		h.mark(d.s, "now", int64(l.deliverable))
	}
	if at := l.keep(); keeper && at != 0 {
		h.hold(d.s, at, h.e.until(at, l.clock))
	}
}
