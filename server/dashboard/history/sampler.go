package history

import (
	"context"
	"slices"
	"time"
)

// saveEvery is the time between two writes of the file.
const saveEvery = time.Minute

// share is the part of the time that looks may take: one of share parts.
const share = 10

// Run looks at every namespace that people have opened, until ctx ends. Then it writes the file.
func (h *History) Run(ctx context.Context) {
	saved := h.cfg.Clock.Mono()
	for ctx.Err() == nil {
		begin := h.cfg.Clock.Mono()
		names := h.names()
		for _, name := range names {
			h.Observe(name, h.cfg.Look(ctx, name))
		}
		if now := h.cfg.Clock.Mono(); now-saved >= saveEvery {
			saved = now
			h.upkeep()
			h.save()
		}
		h.rest(ctx, len(names) == 0, h.cfg.Clock.Mono()-begin)
	}
	h.save()
}

// rest waits for the next round. Looks happen at whole steps of the wall clock, so each step has the same number.
func (h *History) rest(ctx context.Context, idle bool, took time.Duration) {
	if idle {
		select {
		case <-h.visited:
		case <-ctx.Done():
			return
		}
	}
	pause := (share - 1) * took
	next := h.cfg.Clock.Now().Add(pause).Truncate(every).Add(every)
	timer := h.cfg.Clock.NewTimer(next.Sub(h.cfg.Clock.Now()))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// names returns the namespaces to look at, by name.
func (h *History) names() (list []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.cfg.Clock.Now()
	for name, n := range h.namespaces {
		if now.Sub(n.Visit) < Unused {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}
