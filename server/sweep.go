package server

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/route"
)

// minSweepGap is the shortest time between two sweeps, however short the leases are.
const minSweepGap = time.Second

// sweeper sweeps all queues at its start, and then at an interval. Without the sweep at the start, a
// server that restarts more often than that would never find a tick or an expired lease. It also
// sweeps when the first lease of this process may have run out, because its worker may have died,
// and no other worker may be reserving.
type sweeper struct {
	maintainer contract.Maintainer
	clock      duly.Clock
	every      time.Duration
	log        *slog.Logger
	// swept, if set, is called after each sweep without an error.
	swept func(ctx context.Context)

	mu      sync.Mutex
	next    time.Duration // time of the next sweep, on the monotonic clock
	earlier chan struct{} // signals that next has become earlier
}

func newSweeper(m contract.Maintainer, c duly.Clock, every time.Duration, log *slog.Logger) *sweeper {
	return &sweeper{
		maintainer: m, clock: c, every: every, log: log,
		next: c.Mono(), earlier: make(chan struct{}, 1),
	}
}

// leased notes that a lease of length d begins now.
func (s *sweeper) leased(d time.Duration) {
	// For a longer lease, the sweep after the next one is early enough.
	if d >= s.every {
		return
	}

	end := s.clock.Mono() + max(d, minSweepGap)
	s.mu.Lock()
	defer s.mu.Unlock()
	if end >= s.next {
		return
	}
	s.next = end
	select {
	case s.earlier <- struct{}{}:
	default:
	}
}

// untilNext returns the time until the next sweep.
func (s *sweeper) untilNext() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next - s.clock.Mono()
}

// run sweeps until ctx ends.
func (s *sweeper) run(ctx context.Context) {
	if s.maintainer == nil {
		return
	}
	timer := s.clock.NewTimer(s.untilNext())
	defer timer.Stop()

	failed := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.earlier:
			timer.Reset(s.untilNext())
			continue
		case <-timer.C:
		}

		// The timer may have fired for an earlier value of next.
		if left := s.untilNext(); left > 0 {
			timer.Reset(left)
			continue
		}
		failed = s.sweep(ctx, failed)
		timer.Reset(s.untilNext())
	}
}

// sweep sweeps once and reports whether the sweep failed. It logs the first of several failures.
func (s *sweeper) sweep(ctx context.Context, failedBefore bool) (failed bool) {
	s.mu.Lock()
	s.next = s.clock.Mono() + s.every
	s.mu.Unlock()

	// next is set before the sweep, so that a lease that begins during the sweep can make it
	// earlier.
	err := s.maintainer.Sweep(ctx)
	if err != nil {
		if ctx.Err() == nil && !failedBefore {
			s.log.Error("the queues were not swept; the sweep will be repeated", "code", string(duly.CodeOf(err)), "error", route.Fault(err))
		}
		return true
	}
	if s.swept != nil {
		s.swept(ctx)
	}
	return false
}
