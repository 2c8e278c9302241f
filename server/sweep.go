package server

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/server/route"
)

// leastSweep is the shortest time between two sweeps, however short the leases
// are.
const leastSweep = time.Second

// sweeper looks at the heads of all queues every so often, and when the first
// of the leases that this process has handed out may have ended: its holder
// may be gone, and nobody else may be asking.
type sweeper struct {
	maintainer duly.Maintainer
	clock      clock.Clock
	every      time.Duration
	log        *slog.Logger
	// swept, if set, is called after each sweep that went well.
	swept func(ctx context.Context)

	mu     sync.Mutex
	next   time.Duration // monotonic
	sooner chan struct{}
}

func newSweeper(m duly.Maintainer, c clock.Clock, every time.Duration, log *slog.Logger) *sweeper {
	return &sweeper{maintainer: m, clock: c, every: every, log: log, next: c.Mono() + every, sooner: make(chan struct{}, 1)}
}

// leased notes that a lease of that length begins now.
func (s *sweeper) leased(d time.Duration) {
	if d >= s.every {
		return // the next sweep but one at the latest sees its end
	}
	end := s.clock.Mono() + max(d, leastSweep)
	s.mu.Lock()
	defer s.mu.Unlock()
	if end >= s.next {
		return
	}
	s.next = end
	select {
	case s.sooner <- struct{}{}:
	default:
	}
}

// plan is how long it is until the next sweep.
func (s *sweeper) plan() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next - s.clock.Mono()
}

// run sweeps until ctx ends.
func (s *sweeper) run(ctx context.Context) {
	if s.maintainer == nil {
		return
	}
	timer := s.clock.NewTimer(s.plan())
	defer timer.Stop()
	failed := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.sooner:
			timer.Reset(s.plan())
			continue
		case <-timer.C:
		}
		if s.plan() > 0 { // it fired for a plan of before
			timer.Reset(s.plan())
			continue
		}
		s.mu.Lock()
		s.next = s.clock.Mono() + s.every
		s.mu.Unlock()
		err := s.maintainer.Sweep(ctx)
		if err != nil && ctx.Err() == nil && !failed { // once, not every time
			s.log.Error("the queues were not swept", "code", string(duly.CodeOf(err)), "error", route.Fault(err))
		}
		failed = err != nil
		if !failed && s.swept != nil {
			s.swept(ctx)
		}
		timer.Reset(s.plan())
	}
}
