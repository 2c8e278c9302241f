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

// apply acts on the result of a poll. If keeper is set, this process sets the timer for the shard's
// next time.
func (h *Hub) apply(ctx context.Context, d *watchedShard, l lookResult, keeper bool) {
	if l.stale {
		h.refresh(ctx, d.q.Ref)
		return
	}
	// A process with keeper set has taken the marker, so it must return one if it has no waiter.
	if l.deliverable > 0 && !h.wake(doorOf(d.q), d.s.Index, l.deliverable) && keeper {
		h.PutMarker(d.s, "now", int64(l.deliverable))
	}
	h.startTicks(d, l)
	if at := l.keepUntil(); keeper && at != 0 {
		h.SetDueTimer(d.s, at, h.Until(at, l.clock))
	}
}

// refresh reads the configuration of a queue with waiters, and looks at the queue if it exists.
func (h *Hub) refresh(ctx context.Context, ref duly.QueueRef) {
	if q, err := h.Read(ctx, ref); err == nil && q != nil && !q.Tomb {
		h.lookAt(ctx, q)
	}
}

// lookAt looks at all shards of a queue whose configuration was just read. A shard keeps an old
// configuration if the process that changed it died. lookAt sends it the new one, which also
// wakes waiters.
func (h *Hub) lookAt(ctx context.Context, q *catalog.Queue) {
	shards := h.watchesOf(q)
	behind := make([]bool, len(shards))
	_ = h.look(ctx, shards, false, func(i int, l lookResult) {
		if behind[i] = l.stale; !l.stale {
			h.apply(ctx, shards[i], l, false)
		}
	})
	if slices.Contains(behind, true) {
		// If this fails, the next poll tries again.
		_ = h.Sync(ctx, q, &catalog.Stale{Value: catalog.UnknownConfig})
	}
}

// wake wakes waiters for the deliverable jobs of a shard, minus those that were already woken. It
// returns false if this process has no waiter.
func (h *Hub) wake(d Door, shard, n int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	v := h.views[d]
	if v == nil {
		return false
	}
	// The next waiter must poll, because jobs may be left for it.
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

// WakeAnother wakes one more waiter for a shard, in addition to those already woken.
func (h *Hub) WakeAnother(d Door, shard int) {
	h.mu.Lock()
	// wake subtracts the outstanding waiters, so they are added here.
	n := 1 + h.waiters.Outstanding(d, shard)
	h.mu.Unlock()
	if q := h.Cache.Get(d.Ref); q != nil && shard < len(q.Shards) && !h.wake(d, shard, n) {
		h.PutMarker(q.Shards[shard], "now", 1)
	}
}

// WakeupLife is how long a woken caller has until its Reserve. Its Reserve may also go to another
// server process, or never come.
const WakeupLife = 100 * time.Millisecond

// startExpiryTimer starts the timer for the next wake-up that expires, if none runs. The caller
// holds the lock.
func (h *Hub) startExpiryTimer() {
	if h.expiryTimer == nil && !h.closed {
		h.expiryTimer = h.Local().AfterFunc(WakeupLife, h.recheckExpired)
	}
}

// recheckExpired polls the shards whose woken waiters did not reserve.
func (h *Hub) recheckExpired() {
	h.Go(func() {
		shards := h.expiredShards()
		ctx, cancel := context.WithTimeout(h.ctx, lookLimit)
		defer cancel()
		// If this fails, the poll every two seconds finds the jobs.
		_ = h.look(ctx, shards, true, func(i int, l lookResult) {
			d, n := shards[i], l.deliverable
			// A stale result has no number of jobs. The next poll returns it.
			if l.stale {
				h.refresh(ctx, d.q.Ref)
				n = 1
			}
			if n > 0 && !h.wake(doorOf(d.q), d.s.Index, n) {
				h.PutMarker(d.s, "now", int64(n))
			}
		})
	})
}

// expiredShards removes expired wake-ups and returns their shards, group by group.
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
	// Shards of one group must be adjacent to share a request.
	slices.SortFunc(shards, func(a, b *watchedShard) int {
		return cmp.Or(strings.Compare(a.group, b.group), strings.Compare(a.s.Name("marker"), b.s.Name("marker")))
	})
	return slices.CompactFunc(shards, func(a, b *watchedShard) bool { return a.s == b.s })
}

// SetDueTimer sets this process's timer for a time of a shard, unless its timer for the shard fires
// earlier, because the poll after that timer finds the next time. It does not matter which of two
// concurrent looks comes last. fires is monotonic.
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
	// The hub is closed, so another process must set a timer.
	if closed {
		h.PutMarker(s, "later", at)
	}
}

// dueTimerFired handles a due timer. If this process has no waiter any more, another process takes
// over. The due time may not have come by the server's clock, because the timer does not account
// for the time that replies were in flight. takeOver therefore polls first: a Reserve that comes
// too early would find no job, and no other poll would follow.
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
		// An earlier timer replaced this timer, or this process has given it to another one.
		case !kept:
		case d != nil:
			h.takeOver(marker, m.at)
		default:
			h.PutMarker(m.s, "later", m.at)
		}
	})
}

// takeOver makes this process responsible for a shard's next time, after a marker or a timer. A
// poll returns how far off that time is by the server's clock, and which other time needs a timer.
func (h *Hub) takeOver(marker string, at int64) {
	// Each change of the configuration costs a round, and several in a row are rare.
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
		err := h.look(h.ctx, []*watchedShard{d}, false, func(_ int, found lookResult) { l = found })
		if err == nil && !l.stale {
			h.apply(h.ctx, d, l, true)
			return
		}
		// The due time is valid under any configuration.
		if err == nil {
			err = h.Sync(h.ctx, d.q, &catalog.Stale{Value: catalog.UnknownConfig})
		}
		if err != nil {
			h.SetDueTimer(d.s, at, h.Local().Mono()+h.recheck)
			return
		}
	}

	// The queue is gone, or its configuration keeps changing. The process that writes the last
	// configuration announces the next due time again, unless it did so before this process took
	// the timer.
	h.keepDueTimer(marker, at)
}

// keepDueTimer sets the timer again for a shard that still exists, and looks again soon.
func (h *Hub) keepDueTimer(marker string, at int64) {
	h.mu.Lock()
	d := h.watched[marker]
	var s *catalog.Shard
	if d != nil && h.Cache.Get(d.q.Ref) != nil {
		s = d.s
	}
	h.mu.Unlock()
	// SetDueTimer takes the lock itself.
	if s != nil {
		h.SetDueTimer(s, at, h.Local().Mono()+WakeupLife)
	}
}
