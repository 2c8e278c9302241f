package redisengine

import (
	"time"

	"github.com/dulymq/duly/internal/clock"
)

// keeper steps a shard of which this process has handed out leases, when the
// first of them ends.
type keeper struct {
	q     *queue
	s     *shard
	fires time.Duration // monotonic
	timer clock.Timer
}

// leased notes that leases were handed out which end from at on.
func (h *hub) leased(q *queue, s *shard, at int64, r reading) {
	if h.e.cfg.Manual {
		return
	}
	fires := h.e.until(at, r)
	h.mu.Lock()
	defer h.mu.Unlock()
	if k := h.keepers[s]; h.closed || k != nil && k.fires <= fires {
		return
	} else if k != nil {
		k.timer.Stop()
	}
	k := &keeper{q: q, s: s, fires: fires}
	h.keepers[s] = k
	k.timer = h.e.local().At(fires, func() { h.takeBack(k) })
}

// takeBack steps a shard. What the step has left decides when the next one is
// due.
func (h *hub) takeBack(k *keeper) {
	h.spawn(func() {
		h.mu.Lock()
		if h.keepers[k.s] == k {
			delete(h.keepers, k.s)
		}
		h.mu.Unlock()
		for {
			asked := h.e.local().Mono()
			r, err := h.e.call(h.ctx, k.q, k.s, scriptStep, k.s.limits)
			if err != nil {
				return // another configuration, or no server: whoever asks next steps
			}
			if integer(&r.rest[0]) == 0 {
				if at := integer(&r.rest[2]); at > 0 {
					h.leased(k.q, k.s, at, reading{integer(&r.rest[1]) * 1000, asked, h.e.local().Mono()})
				}
				return
			}
		}
	})
}
