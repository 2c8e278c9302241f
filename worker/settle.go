package worker

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/dulymq/duly"
)

// settler sends what was decided. While one Settle is under way the next
// outcomes gather and go out as one call, so its calls are as large as the
// load and the store make them, and nothing waits for a timer.
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

	failures int   // calls in a row
	limit    int   // outcomes of the next call
	spare    batch // the last call's slices, for the next outcomes
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
		for ctx.Err() == nil && gather(s.table.waiting) > 0 {
			s.send(ctx, s.take())
		}
	}
}

// take takes what has gathered, as much as fits into a call.
func (s *settler) take() batch {
	t := s.table
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.pending
	n := s.fitting(b.outcomes)
	t.pending, s.spare = s.spare, batch{}
	t.pending.flights = append(t.pending.flights, b.flights[n:]...)
	t.pending.outcomes = append(t.pending.outcomes, b.outcomes[n:]...)
	t.sending = n
	return batch{b.flights[:n], b.outcomes[:n]}
}

// fitting is how many of the outcomes one call can carry.
func (s *settler) fitting(outcomes []duly.Outcome) int {
	size := 0
	for i := range outcomes {
		size += len(outcomes[i].Result) + len(outcomes[i].Error)
		if i == s.limit || i > 0 && size > duly.MaxBatchBytes {
			return i
		}
	}
	return len(outcomes)
}

func (s *settler) send(ctx context.Context, b batch) {
	var answers []error
	err := s.store.call(ctx, opSettle, s.timeout, func(ctx context.Context) (err error) {
		answers, err = s.engine.Settle(ctx, s.namespace, b.outcomes)
		return whole(answers, len(b.outcomes), err)
	})
	switch {
	case err == nil:
		s.limit = duly.MaxBatch
		s.answered(ctx, b, answers)
	case ctx.Err() != nil:
	case fatal(err):
		s.log.Error("outcomes given up", "count", len(b.flights), "error", err)
		for i := range b.flights {
			s.settled(b, i, err)
		}
		s.table.sent(batch{}, false)
		s.fail(err)
	default:
		s.repeat(ctx, b, err)
	}
}

// repeat brings the outcomes back after a call that failed as a whole and
// waits a moment. Settling again is safe: what the first call did is answered
// as lease_lost. A call that the store did answer, but with an error, is made
// smaller each time, and an outcome that fails by itself goes behind the
// others, so that it can't hold them up.
func (s *settler) repeat(ctx context.Context, b batch, err error) {
	alone := len(b.flights) == 1
	if !errors.Is(err, duly.ErrUnavailable) && err != errCallTimeout {
		s.limit = max(1, len(b.flights)/2)
	} else {
		alone = false
	}
	s.failures++
	s.table.sent(b, alone)
	s.store.rest(ctx, s.failures, err)
}

// answered looks at the answer for each outcome. Those that part of a store
// could not take are sent again.
func (s *settler) answered(ctx context.Context, b batch, answers []error) {
	var again batch
	var lost int
	var failed, refused error
	for i, err := range answers {
		switch {
		case err == nil:
		case errors.Is(err, duly.ErrLeaseLost):
			if !b.flights[i].canceled() {
				lost++
			}
		case !fatal(err) && !errors.Is(err, duly.ErrTooLarge):
			again.add(b.flights[i], b.outcomes[i])
			failed = err
			continue
		default:
			refused = err
		}
		s.settled(b, i, err)
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
	s.spare = b.empty()
}

func (s *settler) settled(b batch, i int, err error) {
	if s.observer.Settled != nil {
		s.observer.Settled(&b.flights[i].delivery, b.outcomes[i].As, err)
	}
}

// sent ends a Settle; again is what it has not settled, which goes before or
// behind what has gathered.
func (t *table) sent(again batch, behind bool) {
	t.mu.Lock()
	t.sending = 0
	if n := len(again.flights); n > 0 {
		first, second := again, t.pending
		if behind {
			first, second = second, first
		}
		t.pending = batch{
			append(first.flights[:len(first.flights):len(first.flights)], second.flights...),
			append(first.outcomes[:len(first.outcomes):len(first.outcomes)], second.outcomes...),
		}
		t.decided.raise()
	}
	t.mu.Unlock()
	t.freed.raise()
}
