package wait

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/link"
	"github.com/dulymq/duly/redisengine/internal/store"
)

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
			// Until its first call is sent.
			h.busy.begin()
			h.Tasks.Go(w.run)
		}
		d := h.watched[marker]
		if d == nil {
			d = &watchedShard{}
			h.watched[marker] = d
		}
		d.v, d.q, d.s, d.state, d.group = v, q, s, g, group
		w.shards[marker] = d
		// The blocking call in flight does not watch this marker, so it must end.
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
		// The marker may belong to the view of the other door by now.
		if d == nil || d.v != v {
			continue
		}
		if w := h.watches[d.group]; w != nil {
			delete(w.shards, marker)
		}
		delete(h.watched, marker)
	}
}

// failurePause is the pause of a watcher after a failed call. Since a refusal may be permanent, the
// pauses grow, up to Recheck.
const failurePause = 100 * time.Millisecond

// run makes one blocking call after another. While calls fail, the poll every two seconds finds the
// jobs.
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

		// An unreachable server answers soon after its failover, so that pause stays short.
		if rest = min(2*rest, store.Recheck); err == nil || duly.CodeOf(err) == duly.CodeUnavailable {
			rest = failurePause
		}
	}
}

// nudge ends a blocking call that lacks a watched marker. The call may not have reached the server
// yet, so nudge repeats until the call has ended.
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

// next returns the markers for the next call, or nil if the watcher ends.
func (w *watcher) next() (keys []string) {
	w.h.mu.Lock()
	defer w.h.mu.Unlock()
	w.asked, w.nudged = nil, false
	w.turns++
	if len(w.shards) == 0 || w.h.ctx.Err() != nil {
		// If the group gets a watched shard again, watch starts another watcher.
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
	// No waiter is left here, but another process may have a waiter.
	if d == nil || h.ctx.Err() != nil {
		h.mu.Unlock()
		h.putMarkerBack(marker, member, score)
		return
	}

	at, s, unknown := d.v.door, d.s, d.q.Version == guessed
	h.mu.Unlock()
	// The queue exists now, because another process has created it.
	if unknown {
		// If this fails, the next poll tries again.
		if q, _ := h.Read(h.ctx, at.Ref); q != nil {
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

// startTick starts the timer that rechecks all shards every two seconds. The caller holds the lock.
func (h *Hub) startTick() {
	if h.tick == nil && !h.closed {
		h.tick = h.Local().AfterFunc(h.recheck, h.recheckAll)
	}
}

// recheckAll looks at all watched shards.
func (h *Hub) recheckAll() {
	h.Go(func() {
		shards, unknown := h.watchedShards()
		ctx, cancel := context.WithTimeout(h.ctx, lookLimit)
		defer cancel()
		var others sync.WaitGroup
		others.Go(func() { h.findUnknown(ctx, unknown) })
		// The next look covers shards that did not answer.
		_ = h.look(ctx, shards, true, func(i int, l lookResult) { h.apply(ctx, shards[i], l, false) })
		others.Wait()
		h.mu.Lock()
		defer h.mu.Unlock()
		// The next poll is scheduled after this one, so that two polls never overlap.
		h.tick = nil
		if len(h.views) > 0 {
			h.startTick()
		}
	})
}

// watchedShards returns the watched shards, group by group, and the unknown queues with waiters.
func (h *Hub) watchedShards() (shards []*watchedShard, unknown []duly.QueueRef) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.watches {
		for _, d := range w.shards {
			// No shard has the version of a guess, so a look would only find it stale.
			if d.q.Version != guessed {
				shards = append(shards, d.copied())
			}
		}
	}
	for d, v := range h.views {
		if v.q == nil && !slices.Contains(unknown, d.Ref) {
			unknown = append(unknown, d.Ref)
		}
	}
	return shards, unknown
}

// findUnknown asks which unknown queues exist now, with one request per namespace, and polls these
// queues. A namespace on a node that is down does not delay the others.
func (h *Hub) findUnknown(ctx context.Context, refs []duly.QueueRef) {
	names := map[string][]string{}
	for _, ref := range refs {
		// A waiter of a removed group was woken.
		if !ref.IsGroup() {
			names[ref.Namespace] = append(names[ref.Namespace], ref.Name)
		}
	}

	var all sync.WaitGroup
	for namespace, names := range names {
		all.Go(func() {
			msg, err := h.Link.Do(ctx, h.Link.B().Hmget().Key(h.ConfigsKey(namespace)).Field(names...).Build())
			if err != nil {
				// The next look asks again.
				return
			}
			for i, m := range codec.Elements(&msg) {
				known := h.Cache.Get(duly.QueueRef{Namespace: namespace, Name: names[i]})
				// The queue has its jobs at the other door.
				if known != nil && known.Value == codec.Text(&m) {
					continue
				}
				if !m.IsNil() {
					h.refresh(ctx, duly.QueueRef{Namespace: namespace, Name: names[i]})
				}
			}
		})
	}

	all.Wait()
}
