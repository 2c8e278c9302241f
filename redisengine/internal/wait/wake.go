package wait

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/redisengine/internal/catalog"
)

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

// refresh reads the configuration of a queue that somebody waits for, and looks at
// the queue if it exists.
func (h *Hub) refresh(ctx context.Context, ref duly.QueueRef) {
	if q, err := h.Read(ctx, ref); err == nil && q != nil && !q.Tomb {
		h.lookAt(ctx, q)
	}
}

// lookAt looks at all shards of a queue whose configuration was just read. A shard
// keeps an old configuration if the process that changed it died. lookAt sends it the
// new one, which also wakes waiters.
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

// wake wakes waiters for the deliverable jobs of a shard, less those that are on
// their way already. It returns false if nobody waits here.
func (h *Hub) wake(d Door, shard, n int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	v := h.views[d]
	if v == nil {
		return false
	}
	v.quiet = false
	if pause := h.waiters.Pause(d, h.Local().Mono()); pause > 0 && !h.closed {
		h.wakeLater(laterKey{d, shard}, n, pause)
		return true
	}
	h.waiters.Wake(d, shard, n, h.Local().Mono())
	if _, outstanding := h.waiters.NextExpiry(d); outstanding {
		h.startExpiryTimer()
	}
	return true
}

// WakeAnother wakes one waiter more for a shard than are on their way to it.
func (h *Hub) WakeAnother(d Door, shard int) {
	h.mu.Lock()
	n := 1 + h.waiters.Outstanding(d, shard)
	h.mu.Unlock()
	if q := h.Cache.Get(d.Ref); q != nil && shard < len(q.Shards) && !h.wake(d, shard, n) {
		h.PutMarker(q.Shards[shard], "now", 1)
	}
}

// WakeupLife is how long a woken caller has until its Reserve. The Reserve may come
// from another process, as with a client of a server, or never.
const WakeupLife = 100 * time.Millisecond

// startExpiryTimer starts the timer for the next wake-up that expires, if none
// runs. The caller holds the lock.
func (h *Hub) startExpiryTimer() {
	if h.expiryTimer == nil && !h.closed {
		h.expiryTimer = h.Local().AfterFunc(WakeupLife, h.recheckExpired)
	}
}

// recheckExpired looks at the shards whose woken waiters did not reserve.
func (h *Hub) recheckExpired() {
	h.Go(func() {
		shards := h.expiredShards()
		ctx, cancel := context.WithTimeout(h.ctx, lookLimit)
		defer cancel()
		// Where it fails, the tick looks.
		_ = h.look(ctx, shards, true, func(i int, l lookResult) {
			d, n := shards[i], l.deliverable
			if l.stale { // the result has no number of jobs; the next look returns it
				h.refresh(ctx, d.q.Ref)
				n = 1
			}
			if n > 0 && !h.wake(doorOf(d.q), d.s.Index, n) {
				h.PutMarker(d.s, "now", int64(n))
			}
		})
	})
}

// expiredShards forgets expired wake-ups and returns their shards, group by group.
func (h *Hub) expiredShards() (shards []*watchedShard) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.expiryTimer = nil
	expired, more := h.waiters.Expire(h.Local().Mono())
	if more {
		h.startExpiryTimer()
	}
	for _, w := range expired {
		q := h.Cache.Get(w.Key.Ref)
		if s := q.Shard(w.Tag); s != nil {
			shards = append(shards, h.watchOf(q, s))
		}
	}
	slices.SortFunc(shards, func(a, b *watchedShard) int {
		return cmp.Or(strings.Compare(a.group, b.group), strings.Compare(a.s.Name("marker"), b.s.Name("marker")))
	})
	return slices.CompactFunc(shards, func(a, b *watchedShard) bool { return a.s == b.s })
}

// SetDueTimer lets this process keep a moment of a shard, unless its timer for the
// shard fires sooner: the look that follows finds the next moment. So it does not
// matter which of two concurrent looks comes last. fires is monotonic.
func (h *Hub) SetDueTimer(s *catalog.Shard, at int64, fires time.Duration) {
	marker := s.Name("marker")
	h.mu.Lock()
	closed := h.closed
	if old := h.dueTimers[marker]; !closed && (old == nil || fires < old.fires) {
		if old != nil {
			old.timer.Stop()
		}
		m := &dueTimer{s: s, at: at, fires: fires}
		h.dueTimers[marker] = m
		m.timer = h.Local().At(fires, func() { h.dueTimerFired(m) })
	}
	h.mu.Unlock()
	if closed { // somebody else has to keep it
		h.PutMarker(s, "later", at)
	}
}

// dueTimerFired is called when a kept moment has come. If nobody waits here any
// more, another process keeps it. By the server's clock it may still lie ahead,
// because this timer does not know how long replies were in flight. A Reserve that
// came too early would find nothing, and nobody would look again.
func (h *Hub) dueTimerFired(m *dueTimer) {
	h.Go(func() {
		marker := m.s.Name("marker")
		h.mu.Lock()
		kept, d := h.dueTimers[marker] == m, h.watched[marker]
		if kept {
			delete(h.dueTimers, marker)
		}
		h.mu.Unlock()
		switch {
		case !kept: // an earlier timer replaced it, or this process gave it back
		case d != nil:
			h.takeOver(marker, m.at)
		default:
			h.PutMarker(m.s, "later", m.at)
		}
	})
}

// takeOver makes this process the one that keeps a shard's next moment, after a
// marker or a timer. A look asks how far off the moment is by the server's clock,
// and which other moment has to be kept.
func (h *Hub) takeOver(marker string, at int64) {
	for range 3 {
		h.mu.Lock()
		d := h.watched[marker]
		if d != nil {
			d = d.copied()
		}

		h.mu.Unlock()
		if d == nil {
			h.putMarkerBack(marker, "later", at)
			return
		}

		var l lookResult
		err := h.look(h.ctx, []*watchedShard{d}, false, func(_ int, told lookResult) { l = told })
		if err == nil && !l.stale {
			h.apply(h.ctx, d, l, true)
			return
		}
		if err == nil { // the due time holds under any configuration
			err = h.Sync(h.ctx, d.q, &catalog.Stale{Value: catalog.UnknownConfig})
		}
		if err != nil {
			h.SetDueTimer(d.s, at, h.Local().Mono()+h.recheck)
			return
		}
	}

	// The queue is gone, or its configuration keeps changing. The process that writes
	// the last configuration announces the next due time again, unless it did so before
	// this process took the timer.
	h.keepDueTimer(marker, at)
}

// keepDueTimer keeps the moment of a shard that still exists, and looks again soon.
func (h *Hub) keepDueTimer(marker string, at int64) {
	h.mu.Lock()
	d := h.watched[marker]
	var s *catalog.Shard
	if d != nil && h.Cache.Get(d.q.Ref) != nil {
		s = d.s
	}
	h.mu.Unlock()
	if s != nil {
		h.SetDueTimer(s, at, h.Local().Mono()+WakeupLife)
	}
}
