package worker

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/batch"
)

// settler settles finished jobs. While one Settle is in flight the next outcomes
// queue and go out as one call. The size of the calls so follows the load and the
// speed of the store, and nothing waits for a timer.
type settler struct {
	engine    duly.Engine
	namespace string
	timeout   time.Duration
	log       *slog.Logger
	observer  *Observer
	store     *store
	table     *table
	// fail ends the worker for an error that will not pass.
	fail func(error)

	failures int                  // calls in a row
	limit    int                  // outcomes of the next call
	taken    []settlement         // of the call under way
	outcomes []duly.SettleRequest // of taken
}

// run settles until ctx ends, which gives up what is not settled by then.
func (s *settler) run(ctx context.Context) {
	s.limit = duly.MaxBatch
	for {
		select {
		case <-s.table.decided:
		case <-ctx.Done():
			return
		}
		for ctx.Err() == nil && s.table.pending.Gather(s.limit) > 0 {
			s.take()
			s.send(ctx)

			clear(s.taken) // no flight is kept longer than needed
			clear(s.outcomes)
		}
	}
}

// take takes what waits, as much as fits into a call.
func (s *settler) take() {
	t := s.table
	t.mu.Lock()
	defer t.mu.Unlock()
	s.taken = t.pending.Take(s.taken, batch.Limits{Items: s.limit, Bytes: duly.MaxBatchBytes})
	t.sending = len(s.taken)

	s.outcomes = s.outcomes[:0]
	for i := range s.taken {
		s.outcomes = append(s.outcomes, s.taken[i].outcome)
	}
}

// send makes one Settle for what was taken.
func (s *settler) send(ctx context.Context) {
	var answers []error
	err := s.store.call(ctx, opSettle, s.timeout, func(ctx context.Context) (err error) {
		answers, err = s.engine.Settle(ctx, s.namespace, s.outcomes)
		return whole(answers, len(s.outcomes), err)
	})
	switch {
	case err == nil:
		s.limit = duly.MaxBatch
		s.answered(ctx, answers)
	case ctx.Err() != nil:
	case fatal(err):
		s.log.Error("outcomes given up", "count", len(s.taken), "error", err)
		for i := range s.taken {
			s.settled(i, err)
		}
		s.table.sent(nil, false)
		s.fail(err)
	default:
		s.repeat(ctx, err)
	}
}

// repeat brings the outcomes back after a call that failed as a whole and
// waits a moment. Settling again is safe: what the first call did is answered
// as lease_lost. A call that the store did answer, but with an error, is made
// smaller each time, and an outcome that fails by itself goes behind the
// others, so that it can't hold them up.
func (s *settler) repeat(ctx context.Context, err error) {
	alone := len(s.taken) == 1
	if !errors.Is(err, duly.ErrUnavailable) && err != errCallTimeout {
		s.limit = max(1, len(s.taken)/2)
	} else {
		alone = false
	}
	s.failures++
	s.table.sent(s.taken, alone)
	s.store.rest(ctx, s.failures, err)
}

// answered looks at the answer for each outcome. Those that part of a store
// could not take are sent again.
func (s *settler) answered(ctx context.Context, answers []error) {
	var again []settlement
	var lost int
	var failed, refused error
	for i, err := range answers {
		switch {
		case err == nil:
		case errors.Is(err, duly.ErrLeaseLost):
			if !s.taken[i].flight.canceled() {
				lost++
			}
		case !fatal(err) && !errors.Is(err, duly.ErrTooLarge):
			again = append(again, s.taken[i])
			failed = err
			continue
		default:
			refused = err
		}
		s.settled(i, err)
	}
	if lost > 0 {
		s.log.Warn("outcomes refused: their leases are lost, or a call whose answer was lost has settled them", "count", lost)
	}
	if refused != nil {
		s.log.Error("an outcome was refused, its job comes back when the lease ends", "error", refused)
	}
	s.table.sent(again, true)
	if failed != nil {
		s.failures++
		s.store.rest(ctx, s.failures, failed)
		return
	}
	s.failures = 0
}

func (s *settler) settled(i int, err error) {
	if s.observer.Settled != nil {
		s.observer.Settled(&s.taken[i].flight.delivery, s.taken[i].outcome.As, err)
	}
}

// sent ends a Settle; again is what it has not settled, which goes before or
// behind what has gathered.
func (t *table) sent(again []settlement, behind bool) {
	t.mu.Lock()
	t.sending = 0
	if behind {
		t.pending.Put(again...)
	} else {
		t.pending.PutFirst(again...)
	}
	if len(again) > 0 {
		t.decided.raise()
	}
	t.mu.Unlock()
	t.freed.raise()
}
