package worker

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/batch"
)

// settler settles the outcomes of handlers. While one Settle is in flight, the next outcomes queue
// up and go out in one call. So the calls grow with the load and with the latency of the store, and
// no outcome waits for a timer.
type settler struct {
	engine    duly.Engine
	namespace string
	timeout   time.Duration
	log       *slog.Logger
	observer  *Observer
	health    *engineHealth
	tracker   *tracker
	fail      func(error) // stops the worker with an error

	failures int                  // number of failed calls in a row
	maxItems int                  // maximum number of outcomes in the next call
	batch    []settlement         // outcomes of the call in flight
	outcomes []duly.SettleRequest // the batch in the form of the call
}

// loop settles until ctx ends. At the end it gives up the outcomes that are still unsettled.
func (s *settler) loop(ctx context.Context) {
	s.maxItems = duly.MaxBatch
	for {
		select {
		case <-s.tracker.outcomes:
		case <-ctx.Done():
			return
		}

		for ctx.Err() == nil && s.tracker.pending.Gather(s.maxItems) > 0 {
			s.fillBatch()
			s.send(ctx)

			// The jobs must not stay in memory until the next call.
			clear(s.batch)
			clear(s.outcomes)
		}
	}
}

// fillBatch takes as many pending outcomes as fit into a call.
func (s *settler) fillBatch() {
	t := s.tracker
	t.mu.Lock()
	defer t.mu.Unlock()
	s.batch = t.pending.Take(s.batch, batch.Limits{Items: s.maxItems, Bytes: duly.MaxBatchBytes})
	t.settling = len(s.batch)

	s.outcomes = s.outcomes[:0]
	for i := range s.batch {
		s.outcomes = append(s.outcomes, s.batch[i].outcome)
	}
}

// send sends one Settle for the batch.
func (s *settler) send(ctx context.Context) {
	var answers []error
	err := s.health.call(ctx, opSettle, s.timeout, func(ctx context.Context) (err error) {
		answers, err = s.engine.Settle(ctx, s.namespace, s.outcomes)
		return checkAnswers(answers, len(s.outcomes), err)
	})

	switch {
	case err == nil:
		s.maxItems = duly.MaxBatch
		s.apply(ctx, answers)
	// Run is ending, so the jobs come back when their leases end.
	case ctx.Err() != nil:
	case fatal(err):
		s.log.Error("outcomes given up; their jobs come back when their leases end", "count", len(s.batch), "error", err)
		for i := range s.batch {
			s.report(i, err)
		}
		s.tracker.settled(nil, false)
		s.fail(err)
	default:
		s.retryLater(ctx, err)
	}
}

// retryLater queues the outcomes of a failed call again and pauses. The retry is safe: for
// an outcome that the first call has settled, the engine answers lease_lost.
func (s *settler) retryLater(ctx context.Context, err error) {
	behind := false
	if !errors.Is(err, duly.ErrUnavailable) && err != errCallTimeout {
		// The store has answered with an error, perhaps because of one outcome. Smaller calls
		// isolate that outcome. At the end of the queue it does not delay the other outcomes.
		behind = len(s.batch) == 1
		s.maxItems = max(1, len(s.batch)/2)
	}
	s.failures++
	s.tracker.settled(s.batch, behind)
	s.health.pause(ctx, s.failures, err)
}

// apply applies the answer for each outcome. It queues those again that a part of the store
// could not settle.
func (s *settler) apply(ctx context.Context, answers []error) {
	var retry []settlement
	var lost int
	var failed, refused error
	for i, err := range answers {
		switch {
		case err == nil:
		case errors.Is(err, duly.ErrLeaseLost):
			// The log knows already that a canceled job was removed.
			if !s.batch[i].job.canceled() {
				lost++
			}
		case !fatal(err) && !errors.Is(err, duly.ErrTooLarge):
			// Only the part of the store with this outcome failed. The other outcomes are settled.
			retry = append(retry, s.batch[i])
			failed = err
			continue
		default:
			// The same outcome would be refused again.
			refused = err
		}
		s.report(i, err)
	}

	if lost > 0 {
		s.log.Warn("outcomes refused: their leases are lost, or an earlier call whose answer was lost has settled them",
			"count", lost)
	}
	if refused != nil {
		s.log.Error("an outcome was refused; its job comes back when the lease ends", "error", refused)
	}

	s.tracker.settled(retry, true)
	if failed != nil {
		s.failures++
		s.health.pause(ctx, s.failures, failed)
		return
	}
	s.failures = 0
}

// report reports the answer for an outcome to the observer.
func (s *settler) report(i int, err error) {
	if s.observer.Settled != nil {
		s.observer.Settled(&s.batch[i].job.delivery, s.batch[i].outcome.As, err)
	}
}

// settled records the end of a Settle. It queues the outcomes of retry before the waiting outcomes,
// or behind them.
func (t *tracker) settled(retry []settlement, behind bool) {
	t.mu.Lock()
	t.settling = 0
	// The outcomes of a failed call are the oldest, so normally they go first.
	if behind {
		t.pending.Put(retry...)
	} else {
		t.pending.PutFirst(retry...)
	}
	if len(retry) > 0 {
		t.outcomes.notify()
	}
	t.mu.Unlock()
	t.slotFree.notify()
}
