package enginetest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/dulymq/duly"
)

// expiringContext is the context of a call whose deadline passes when the context is polled for the
// nth time, which is before or during the call.
type expiringContext struct {
	context.Context
	left  atomic.Int32
	ended chan struct{}
}

func expireAtPoll(n int) *expiringContext {
	l := &expiringContext{Context: context.Background(), ended: make(chan struct{})}
	l.left.Store(int32(n))
	return l
}

func (l *expiringContext) poll() {
	if l.left.Add(-1) == 0 {
		close(l.ended)
	}
}

// Done implements context.Context.
func (l *expiringContext) Done() <-chan struct{} {
	l.poll()
	return l.ended
}

// Err implements context.Context.
func (l *expiringContext) Err() error {
	l.poll()
	select {
	case <-l.ended:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// callsPastDeadline checks the errors of calls whose deadline passes. If the call may have run, the
// error is unavailable and wraps the context's error. The context's error alone says that nothing
// was done.
func callsPastDeadline(s *scene) {
	calls := []struct {
		name string
		call func(ctx context.Context, i int, d duly.Delivery) error
	}{
		{"push", func(ctx context.Context, i int, _ duly.Delivery) error {
			_, err := s.Engine.Push(ctx, []duly.Job{{Queue: s.queue, ID: fmt.Sprint("pushed-", i)}})
			return err
		}},
		{"reserve", func(ctx context.Context, _ int, _ duly.Delivery) error {
			_, err := s.Engine.Reserve(ctx, duly.ReserveParams{Queues: []string{s.queue}, Max: 1})
			return err
		}},
		{"settle", func(ctx context.Context, _ int, d duly.Delivery) error {
			_, err := s.Engine.Settle(ctx, "", []duly.SettleRequest{{Receipt: d.Receipt, As: duly.Bury}})
			return err
		}},
		{"delete", func(ctx context.Context, _ int, d duly.Delivery) error { return s.Engine.Delete(ctx, s.ref(), d.ID) }},
		{"configure", func(ctx context.Context, i int, _ duly.Delivery) error {
			return s.Engine.Configure(ctx, s.ref(), duly.QueueConfig{MaxJobs: 1000 + i})
		}},
		{"extend", func(ctx context.Context, _ int, d duly.Delivery) error {
			_, err := s.Engine.Extend(ctx, "", []duly.Receipt{d.Receipt}, time.Minute)
			return err
		}},
	}
	const polls = 7
	// The deadline passes at a different poll in each round, so that it hits every step of a
	// call.
	for _, c := range calls {
		for n := range polls {
			// One leased job and one ready job, so that each of the calls has work to do.
			s.push(duly.Job{ID: fmt.Sprint(c.name, "-", n)})
			d := s.take()
			s.push(duly.Job{ID: fmt.Sprint(c.name, "-ready-", n)})
			before := s.summary()
			err := c.call(expireAtPoll(n), n, d)
			s.Quiet()
			switch {
			case err == nil:
			// A call that reports success needs no further check.
			case errors.Is(err, duly.ErrUnavailable) && errors.Is(err, context.DeadlineExceeded):
			case err == context.DeadlineExceeded && s.summary() == before:
			default:
				s.Errorf("%s whose deadline passes at poll %d returns %v, want an error without a change; "+
					"the queue was %s and is %s", c.name, n, err, before, s.summary())
			}
			// Remove the jobs before the next round.
			for _, d := range s.takeAll() {
				s.ack(d)
			}
			// Fails if the call has settled the delivery.
			s.settle(duly.SettleRequest{Receipt: d.Receipt, As: duly.Ack})
		}
	}
}

// summary returns the queue's counters and configuration as text.
func (s *scene) summary() string { return fmt.Sprintf("%+v %+v", s.stats(), s.config()) }
