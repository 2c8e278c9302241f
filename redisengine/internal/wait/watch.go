package wait

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/link"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// watcher makes one blocking call after the other on the markers of one group's
// shards. It runs while there are any.
type watcher struct {
	h     *Hub
	group string
	// Shards are the watched ones; asked are the markers of the call that is
	// on its way. What is no longer watched stays in that call until it ends:
	// a marker that it takes for nobody is put back.
	shards map[string]*watchedShard
	asked  map[string]bool
	turns  uint64 // calls so far
	nudged bool   // the call on its way is to end early
}

// watchedShard is a shard with waiters.
type watchedShard struct {
	v     *waitedQueue
	q     *catalog.Queue
	s     *catalog.Shard
	state *catalog.State // of the shard
	group string
}

func (h *Hub) watchOf(q *catalog.Queue, s *catalog.Shard) *watchedShard {
	return &watchedShard{q: q, s: s, state: h.State(q, s), group: h.Link.Group(s.Tag)}
}

// copied returns a copy for use without the lock: watch may give the original
// another queue.
func (d *watchedShard) copied() *watchedShard {
	return &watchedShard{q: d.q, s: d.s, state: d.state, group: d.group}
}

// watch starts to watch the shards of a queue. The caller holds the lock.
func (h *Hub) watch(v *waitedQueue) {
	h.startTick()
	q := v.watches()
	if q == nil || h.closed {
		return
	}

	for _, s := range q.Shards {
		g, group := h.State(q, s), h.Link.Group(s.Tag)
		marker := g.Name("marker")
		w := h.watches[group]
		if w == nil {
			w = &watcher{h: h, group: group, shards: map[string]*watchedShard{}}
			h.watches[group] = w
			h.busy.begin() // until its first call is on its way
			h.Tasks.Go(w.run)
		}
		d := h.watched[marker]
		if d == nil {
			d = &watchedShard{}
			h.watched[marker] = d
		}
		d.v, d.q, d.s, d.state, d.group = v, q, s, g, group
		w.shards[marker] = d
		if w.asked != nil && !w.asked[marker] && !w.nudged {
			w.nudged = true
			turn := w.turns
			h.busy.begin()
			h.Tasks.Go(func() { w.nudge(turn) })
		}
	}
}

// unwatch stops watching the shards of a queue. The caller holds the lock.
func (h *Hub) unwatch(v *waitedQueue) {
	q := v.watches()
	if q == nil {
		return
	}
	for _, s := range q.Shards {
		marker := s.Name("marker")
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

// failurePause is the pause of a watcher after a failed call. A refusal may be
// permanent, so each pause is longer than the one before, up to Recheck.
const failurePause = 100 * time.Millisecond

// run makes one blocking call after the other. While calls fail, the look of every
// two seconds finds jobs.
func (w *watcher) run() {
	h := w.h
	rest := failurePause
	for busy := true; ; {
		keys := w.next()
		if busy {
			h.busy.end()
		}
		if keys == nil {
			return
		}

		marker, member, score, ok, err := h.Link.Block(h.ctx, w.group, keys, link.MaxBlock)
		h.busy.begin()
		busy = true
		switch {
		case ok:
			w.handle(marker, member, int64(score))
		case h.ctx.Err() != nil:
		case err != nil:
			_ = clock.Sleep(h.ctx, clock.System(), rest)
		}

		if rest = min(2*rest, store.Recheck); err == nil || duly.CodeOf(err) == duly.CodeUnavailable {
			rest = failurePause
		}
	}
}

// nudge ends a blocking call that does not ask for everything that is watched. The
// call may still be on its way to the server, so nudge repeats until it has ended.
func (w *watcher) nudge(turn uint64) {
	defer w.h.busy.end()
	for {
		w.h.mu.Lock()
		ended := w.turns != turn
		w.h.mu.Unlock()
		if ended {
			return
		}
		w.h.Link.Unblock(w.group)
		if clock.Sleep(w.h.ctx, clock.System(), time.Millisecond) != nil {
			return
		}
	}
}

// next returns the markers to ask for, none if the watcher ends.
func (w *watcher) next() (keys []string) {
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

// handle acts on a marker that was taken.
func (w *watcher) handle(marker, member string, score int64) {
	h := w.h
	h.mu.Lock()
	d := w.shards[marker]
	if d == nil || h.ctx.Err() != nil {
		h.mu.Unlock()
		h.putMarkerBack(marker, member, score)
		return
	}

	at, s, unknown := d.v.door, d.s, d.q.Version == guessed
	h.mu.Unlock()
	if unknown { // until now: somebody has made it
		if q, _ := h.Read(h.ctx, at.Ref); q != nil { // where it fails, the look asks again
			at = doorOf(q)
		}
	}

	switch {
	case member != "now":
		h.takeOver(marker, score)
	case !h.wake(at, s.Index, int(score)):
		h.PutMarker(s, member, int64(score))
	}
}

// putMarkerBack gives a marker back that this process has no use for, unless the
// queue is gone. Where another was set meanwhile, the higher number of jobs and the
// sooner moment stand.
func (h *Hub) putMarkerBack(marker, member string, score int64) {
	_, _ = h.Link.Run(h.Store.Ctx, markerCall(marker, member, score))
}

func markerCall(marker, member string, score int64) link.Call {
	config := strings.TrimSuffix(marker, "marker") + "config"
	if topic, _, ok := strings.Cut(marker, "}:@"); ok { // of a group: the configuration is the topic's
		config = topic + "}:config"
	}
	return link.Call{Script: store.ScriptMark.Script, Keys: []string{config, marker}, Args: []string{member, strconv.FormatInt(score, 10)}}
}

// apply acts on a look. With keeper set, this process keeps the shard's next
// moment.
func (h *Hub) apply(ctx context.Context, d *watchedShard, l lookResult, keeper bool) {
	if l.stale {
		h.refresh(ctx, d.q.Ref)
		return
	}
	if l.deliverable > 0 && !h.wake(doorOf(d.q), d.s.Index, l.deliverable) && keeper {
		h.PutMarker(d.s, "now", int64(l.deliverable))
	}
	if at := l.keepUntil(); keeper && at != 0 {
		h.SetDueTimer(d.s, at, h.Until(at, l.clock))
	}
}
