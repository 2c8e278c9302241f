package redisengine

import (
	"context"
	"slices"
	"sync"

	"github.com/dulymq/duly"
)

// startTick starts the look of every two seconds. The caller holds the lock.
func (h *hub) startTick() {
	if h.tick == nil && !h.closed {
		h.tick = h.e.local().AfterFunc(h.recheck, h.lookAround)
	}
}

// lookLimit is how long one look at everything waits for a node that stands
// still: the others are looked at no more seldom than that.
const lookLimit = 2 * recheck

// lookAround looks at everything that is watched.
func (h *hub) lookAround() {
	h.spawn(func() {
		shards, unknown := h.all()
		ctx, cancel := context.WithTimeout(h.ctx, lookLimit)
		defer cancel()
		var beside sync.WaitGroup
		beside.Go(func() { h.askFor(ctx, unknown) })
		// Those that did not answer are looked at again by the next look.
		_ = h.look(ctx, shards, true, func(i int, l looked) { h.heed(ctx, shards[i], l, false) })
		beside.Wait()
		h.mu.Lock()
		defer h.mu.Unlock()
		h.tick = nil
		if len(h.views) > 0 {
			h.startTick()
		}
	})
}

// all lists the watched shards, group by group, and the queues that are waited
// for and not known.
func (h *hub) all() (shards []*watched, unknown []duly.QueueRef) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.watches {
		for _, d := range w.shards {
			if d.q.version != guessed {
				shards = append(shards, d.copied())
			}
		}
	}
	for ref, v := range h.views {
		if v.q == nil {
			unknown = append(unknown, ref)
		}
	}
	return shards, unknown
}

// askFor asks, with one request for each namespace, which of the queues that
// were not known are there by now, and looks at these. A namespace whose node is
// down keeps no other back.
func (h *hub) askFor(ctx context.Context, refs []duly.QueueRef) {
	names := map[string][]string{}
	for _, ref := range refs {
		names[ref.Namespace] = append(names[ref.Namespace], ref.Name)
	}
	var all sync.WaitGroup
	for namespace, names := range names {
		all.Go(func() {
			msg, err := h.e.link.Do(ctx, h.e.link.B().Hmget().Key(h.e.configsKey(namespace)).Field(names...).Build())
			if err != nil {
				return // the next look asks again
			}
			for i, m := range elements(&msg) {
				if !m.IsNil() {
					h.refresh(ctx, duly.QueueRef{Namespace: namespace, Name: names[i]})
				}
			}
		})
	}
	all.Wait()
}

// refresh reads the configuration of a queue that somebody waits for, and
// looks at it if it is there.
func (h *hub) refresh(ctx context.Context, ref duly.QueueRef) {
	if q, err := h.e.reread(ctx, ref); err == nil && q != nil && !q.gone {
		h.lookAt(ctx, q)
	}
}

// lookAt looks at all shards of one queue whose configuration was just read.
// Shards that have another one were not told, as whoever changed it has died:
// they are now, and wake by it whoever may be woken.
func (h *hub) lookAt(ctx context.Context, q *queue) {
	shards := q.watched(h.e)
	behind := make([]bool, len(shards))
	_ = h.look(ctx, shards, false, func(i int, l looked) {
		if behind[i] = l.other; !l.other {
			h.heed(ctx, shards[i], l, false)
		}
	})
	if slices.Contains(behind, true) {
		_ = h.e.agree(ctx, q, &stale{value: untold}) // where it fails, the next look comes here again
	}
}

// watched is a queue's shards as a look takes them.
func (q *queue) watched(e *Engine) []*watched {
	shards := make([]*watched, len(q.shards))
	for i, s := range q.shards {
		shards[i] = e.watched(q, s)
	}
	return shards
}

// lookOnce tells whether one of the queues may have a deliverable job, with one
// look for all of them.
func (e *Engine) lookOnce(ctx context.Context, refs []duly.QueueRef) (ready bool, err error) {
	g := e.glance(ctx, refs, true)
	if g.err != nil && !g.ready { // no answer is "nothing" while a part of them is not known
		g = e.glance(ctx, refs, false)
	}
	if g.ready {
		return true, nil
	}
	return false, g.err
}

// glance is what one look at queues has told.
type glance struct {
	mu       sync.Mutex
	ready    bool // one of them may have a deliverable job
	answered int  // shards
	changed  []duly.QueueRef
	err      error // of those that did not answer
}

// glance looks at queues. Those that it finds changed are looked at once more,
// each by itself.
func (e *Engine) glance(ctx context.Context, refs []duly.QueueRef, once bool) *glance {
	var shards []*watched
	for _, ref := range refs {
		if q := e.queues.get(ref); q != nil {
			shards = append(shards, q.watched(e)...)
		}
	}
	g := &glance{}
	g.err = e.hub.look(ctx, shards, once, func(i int, l looked) { g.heed(shards[i].q.ref, l) })
	for _, ref := range g.changed {
		if g.ready {
			break
		}
		ready, err := e.lookAgain(ctx, ref)
		g.ready = ready
		if err != nil {
			g.err = err
		}
	}
	return g
}

func (g *glance) heed(ref duly.QueueRef, l looked) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.answered++
	g.ready = g.ready || l.deliverable > 0
	if l.other && !slices.Contains(g.changed, ref) {
		g.changed = append(g.changed, ref)
	}
}

// lookAgain looks at a queue until its shards have the configuration that this
// process has.
func (e *Engine) lookAgain(ctx context.Context, ref duly.QueueRef) (ready bool, err error) {
	err = e.with(ctx, ref, func(q *queue) error {
		if q == nil {
			return nil
		}
		looks := make([]looked, len(q.shards))
		if err := e.hub.look(ctx, q.watched(e), false, func(i int, l looked) { looks[i] = l }); err != nil {
			return err
		}
		for i, l := range looks {
			if l.other {
				return &stale{shard: q.shards[i], value: untold}
			}
			ready = ready || l.deliverable > 0
		}
		return nil
	})
	return ready, err
}
