package wait

import (
	"context"
	"slices"
	"sync"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// startTick starts the look of every two seconds. The caller holds the lock.
func (h *Hub) startTick() {
	if h.tick == nil && !h.closed {
		h.tick = h.Local().AfterFunc(h.Recheck, h.recheckAll)
	}
}

// lookLimit is how long one look at everything waits for a node that stands
// still: the others are looked at no more seldom than that.
const lookLimit = 2 * store.Recheck

// recheckAll looks at everything that is watched.
func (h *Hub) recheckAll() {
	h.Go(func() {
		shards, unknown := h.watchedShards()
		ctx, cancel := context.WithTimeout(h.ctx, lookLimit)
		defer cancel()
		var beside sync.WaitGroup
		beside.Go(func() { h.findUnknown(ctx, unknown) })
		// Those that did not answer are looked at again by the next look.
		_ = h.look(ctx, shards, true, func(i int, l lookResult) { h.apply(ctx, shards[i], l, false) })
		beside.Wait()
		h.Mu.Lock()
		defer h.Mu.Unlock()
		h.tick = nil
		if len(h.Views) > 0 {
			h.startTick()
		}
	})
}

// watchedShards lists the watched shards, group by group, and the queues that are waited
// for and not known.
func (h *Hub) watchedShards() (shards []*watchedShard, unknown []duly.QueueRef) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	for _, w := range h.Watches {
		for _, d := range w.Shards {
			if d.q.Version != guessed {
				shards = append(shards, d.copied())
			}
		}
	}
	for ref, v := range h.Views {
		if v.Q == nil {
			unknown = append(unknown, ref)
		}
	}
	return shards, unknown
}

// findUnknown asks, with one request for each namespace, which of the queues that
// were not known are there by now, and looks at these. A namespace whose node is
// down keeps no other back.
func (h *Hub) findUnknown(ctx context.Context, refs []duly.QueueRef) {
	names := map[string][]string{}
	for _, ref := range refs {
		names[ref.Namespace] = append(names[ref.Namespace], ref.Name)
	}
	var all sync.WaitGroup
	for namespace, names := range names {
		all.Go(func() {
			msg, err := h.Link.Do(ctx, h.Link.B().Hmget().Key(h.ConfigsKey(namespace)).Field(names...).Build())
			if err != nil {
				return // the next look asks again
			}
			for i, m := range codec.Elements(&msg) {
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
func (h *Hub) refresh(ctx context.Context, ref duly.QueueRef) {
	if q, err := h.Read(ctx, ref); err == nil && q != nil && !q.Tomb {
		h.lookAt(ctx, q)
	}
}

// lookAt looks at all shards of one queue whose configuration was just read.
// Shards that have another one were not told, as whoever changed it has died:
// they are now, and wake by it whoever may be woken.
func (h *Hub) lookAt(ctx context.Context, q *catalog.Queue) {
	shards := h.watchesOf(q)
	behind := make([]bool, len(shards))
	_ = h.look(ctx, shards, false, func(i int, l lookResult) {
		if behind[i] = l.stale; !l.stale {
			h.apply(ctx, shards[i], l, false)
		}
	})
	if slices.Contains(behind, true) {
		_ = h.Sync(ctx, q, &catalog.Stale{Value: catalog.UnknownConfig}) // where it fails, the next look comes here again
	}
}

// watched is a queue's shards as a look takes them.
func (h *Hub) watchesOf(q *catalog.Queue) []*watchedShard {
	shards := make([]*watchedShard, len(q.Shards))
	for i, s := range q.Shards {
		shards[i] = h.watchOf(q, s)
	}
	return shards
}

// lookOnce tells whether one of the queues may have a deliverable job, with one
// look for all of them.
func (h *Hub) lookOnce(ctx context.Context, refs []duly.QueueRef) (ready bool, err error) {
	g := h.lookAtQueues(ctx, refs, true)
	if g.err != nil && !g.ready { // no answer is "nothing" while a part of them is not known
		g = h.lookAtQueues(ctx, refs, false)
	}
	if g.ready {
		return true, nil
	}
	return false, g.err
}

// lookSummary is what one look at queues has told.
type lookSummary struct {
	mu       sync.Mutex
	ready    bool // one of them may have a deliverable job
	answered int  // shards
	changed  []duly.QueueRef
	err      error // of those that did not answer
}

// lookAtQueues looks at queues. Those that it finds changed are looked at once more,
// each by itself.
func (h *Hub) lookAtQueues(ctx context.Context, refs []duly.QueueRef, once bool) *lookSummary {
	var shards []*watchedShard
	for _, ref := range refs {
		if q := h.Cache.Get(ref); q != nil {
			shards = append(shards, h.watchesOf(q)...)
		}
	}
	g := &lookSummary{}
	g.err = h.look(ctx, shards, once, func(i int, l lookResult) { g.add(shards[i].q.Ref, l) })
	for _, ref := range g.changed {
		if g.ready {
			break
		}
		ready, err := h.lookAgain(ctx, ref)
		g.ready = ready
		if err != nil {
			g.err = err
		}
	}
	return g
}

func (g *lookSummary) add(ref duly.QueueRef, l lookResult) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.answered++
	g.ready = g.ready || l.deliverable > 0
	if l.stale && !slices.Contains(g.changed, ref) {
		g.changed = append(g.changed, ref)
	}
}

// lookAgain looks at a queue until its shards have the configuration that this
// process has.
func (h *Hub) lookAgain(ctx context.Context, ref duly.QueueRef) (ready bool, err error) {
	err = h.With(ctx, ref, func(q *catalog.Queue) error {
		if q == nil {
			return nil
		}
		looks := make([]lookResult, len(q.Shards))
		if err := h.look(ctx, h.watchesOf(q), false, func(i int, l lookResult) { looks[i] = l }); err != nil {
			return err
		}
		for i, l := range looks {
			if l.stale {
				return &catalog.Stale{Shard: q.Shards[i], Value: catalog.UnknownConfig}
			}
			ready = ready || l.deliverable > 0
		}
		return nil
	})
	return ready, err
}
