package wait

import (
	"time"

	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// longestLeaseSleep bounds a lease timer, so that a step of the server's clock is noticed. A process
// with leases may have no waiter, and then it makes no look.
const longestLeaseSleep = time.Minute

// LeasesGranted sets the shard's lease timer to at, when the first of the new leases ends.
func (h *Hub) LeasesGranted(q *catalog.Queue, s *catalog.Shard, at int64, r store.Reading) {
	if h.Settings.Manual {
		return
	}
	fires := min(h.Until(at, r), h.Local().Mono()+longestLeaseSleep)
	h.mu.Lock()
	defer h.mu.Unlock()
	// An earlier timer finds the later lease in its step.
	if k := h.leaseTimers[s]; h.closed || k != nil && k.fires <= fires {
		return
	} else if k != nil {
		k.timer.Stop()
	}
	k := &leaseTimer{q: q, s: s, fires: fires}
	h.leaseTimers[s] = k
	k.timer = h.Local().At(fires, func() { h.stepShard(k) })
}

// stepShard steps a shard. The remaining leases decide when the next step is due.
func (h *Hub) stepShard(k *leaseTimer) {
	h.Go(func() {
		h.mu.Lock()
		// A newer timer for the shard stays.
		if h.leaseTimers[k.s] == k {
			delete(h.leaseTimers, k.s)
		}

		h.mu.Unlock()
		for {
			asked := h.Local().Mono()
			more, now, at, err := h.StepShard(h.ctx, k.q, k.s)
			if err != nil {
				// The configuration changed, or the server is down: the next caller steps.
				return
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
