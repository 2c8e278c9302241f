package enginetest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/dulymq/duly"
)

// leaving is the context of a caller whose deadline passes when it is looked at
// for the nth time: before a call, or somewhere in its middle.
type leaving struct {
	context.Context
	left  atomic.Int32
	ended chan struct{}
}

func leavingAt(n int) *leaving {
	l := &leaving{Context: context.Background(), ended: make(chan struct{})}
	l.left.Store(int32(n))
	return l
}

func (l *leaving) look() {
	if l.left.Add(-1) == 0 {
		close(l.ended)
	}
}

// Done implements context.Context.
func (l *leaving) Done() <-chan struct{} {
	l.look()
	return l.ended
}

// Err implements context.Context.
func (l *leaving) Err() error {
	l.look()
	select {
	case <-l.ended:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// leavingCallers: a deadline that passes during a call is answered unavailable,
// around the context's error; that error alone says that nothing was done.
func leavingCallers(s *scene) {
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
	const looks = 7
	for _, c := range calls {
		for n := range looks {
			s.push(duly.Job{ID: fmt.Sprint(c.name, "-", n)})
			d := s.take()
			s.push(duly.Job{ID: fmt.Sprint(c.name, "-ready-", n)})
			before := s.told()
			err := c.call(leavingAt(n), n, d)
			s.Quiet()
			switch {
			case err == nil:
			case errors.Is(err, duly.ErrUnavailable) && errors.Is(err, context.DeadlineExceeded):
			case err == context.DeadlineExceeded && s.told() == before:
			default:
				s.Errorf("%s, left at look %d, is answered %v; the queue was %s and is %s", c.name, n, err, before, s.told())
			}
			for _, d := range s.takeAll() {
				s.ack(d)
			}
			s.settle(duly.SettleRequest{Receipt: d.Receipt, As: duly.Ack}) // unless it was
		}
	}
}

// told is all that the queue tells of itself, in short.
func (s *scene) told() string { return fmt.Sprintf("%+v %+v", s.stats(), s.config()) }
