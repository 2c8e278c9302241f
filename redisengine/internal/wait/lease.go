package wait

import (
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// LeasesGranted sets the shard's lease timer to the time at, when the first of the
// new leases ends.
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
				return // the configuration changed, or the server is down: the next caller steps
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
