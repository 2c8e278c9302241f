package wait

import (
	"time"

	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// leaseTimer steps a shard of which this process has handed out leases, when the
// first of them ends.
type leaseTimer struct {
	q     *catalog.Queue
	s     *catalog.Shard
	fires time.Duration // monotonic
	timer clock.Timer
}

// LeasesGranted notes that leases were handed out which end from at on.
func (h *Hub) LeasesGranted(q *catalog.Queue, s *catalog.Shard, at int64, r store.Reading) {
	if h.Settings.Manual {
		return
	}
	fires := h.Until(at, r)
	h.Mu.Lock()
	defer h.Mu.Unlock()
	if k := h.leaseTimers[s]; h.closed || k != nil && k.fires <= fires {
		return
	} else if k != nil {
		k.timer.Stop()
	}
	k := &leaseTimer{q: q, s: s, fires: fires}
	h.leaseTimers[s] = k
	k.timer = h.Local().At(fires, func() { h.stepShard(k) })
}

// stepShard steps a shard. What the step has left decides when the next one is
// due.
func (h *Hub) stepShard(k *leaseTimer) {
	h.Go(func() {
		h.Mu.Lock()
		if h.leaseTimers[k.s] == k {
			delete(h.leaseTimers, k.s)
		}
		h.Mu.Unlock()
		for {
			asked := h.Local().Mono()
			r, err := h.Call(h.ctx, k.q, k.s, store.ScriptStep, k.s.Limits)
			if err != nil {
				return // another configuration, or no server: whoever asks next steps
			}
			if codec.Integer(&r.Rest[0]) == 0 {
				if at := codec.Integer(&r.Rest[2]); at > 0 {
					h.LeasesGranted(k.q, k.s, at, store.Reading{Now: codec.Integer(&r.Rest[1]) * 1000, Sent: asked, Received: h.Local().Mono()})
				}
				return
			}
		}
	})
}
