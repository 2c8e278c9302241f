package wait

import (
	"time"

	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// leaseTimer steps a shard when the first of the leases ends that this process has
// handed out.
type leaseTimer struct {
	q     *catalog.Queue
	s     *catalog.Shard
	fires time.Duration // monotonic
	timer clock.Timer
}

// LeasesGranted notes that leases were handed out, the first of which ends at the
// time at.
func (h *Hub) LeasesGranted(q *catalog.Queue, s *catalog.Shard, at int64, r store.Reading) {
	if h.Settings.Manual {
		return
	}
	fires := h.Until(at, r)
	h.mu.Lock()
	defer h.mu.Unlock()
	if k := h.leaseTimers[s]; h.closed || k != nil && k.fires <= fires {
		return
	} else if k != nil {
		k.timer.Stop()
	}
	k := &leaseTimer{q: q, s: s, fires: fires}
	h.leaseTimers[s] = k
	k.timer = h.Local().At(fires, func() { h.stepShard(k) })
}

// stepShard steps a shard. What the step has left decides when the next one is due.
func (h *Hub) stepShard(k *leaseTimer) {
	h.Go(func() {
		h.mu.Lock()
		if h.leaseTimers[k.s] == k {
			delete(h.leaseTimers, k.s)
		}

		h.mu.Unlock()
		for {
			asked := h.Local().Mono()
			more, now, at, err := h.StepShard(h.ctx, k.q, k.s)
			if err != nil {
				return // another configuration, or no server: whoever asks next steps
			}

			if !more {
				if at > 0 {
					h.LeasesGranted(k.q, k.s, at, store.Reading{Now: now * 1000, Sent: asked, Received: h.Local().Mono()})
				}
				return
			}
		}
	})
}

// dueTimer is a shard's next due moment, which this process keeps: when it has
// come, the process looks.
type dueTimer struct {
	s     *catalog.Shard
	at    int64         // on the server's clock, in ms
	fires time.Duration // monotonic
	timer clock.Timer
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
		case !kept: // a sooner one stands in its place, or it was handed back
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
		if err == nil { // the moment stands, whatever the configuration is
			err = h.Sync(h.ctx, d.q, &catalog.Stale{Value: catalog.UnknownConfig})
		}
		if err != nil {
			h.SetDueTimer(d.s, at, h.Local().Mono()+h.recheck)
			return
		}
	}

	// The queue is gone, or its configuration keeps changing. Who gives the shard
	// the last one says anew what the next moment is, unless that came before
	// the moment was handed to this process.
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
