package main

import (
	"context"

	"github.com/failsafe-go/failsafe-go/adaptivelimiter"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/worker"
)

// limiter is a worker.Limiter whose limit follows the latency of the handlers. Latency is a
// good signal for a queue whose jobs take about the same time while the service is idle.
type limiter struct {
	adaptivelimiter.AdaptiveLimiter[any]
}

// newLimiter returns a limiter between 1 and most that begins at start.
func newLimiter(start, most uint) limiter {
	return limiter{adaptivelimiter.NewBuilder[any]().WithLimits(1, most, start).Build()}
}

// Done implements worker.Limiter. The results arrive by the middleware, because failsafe-go
// measures from the start of a handler.
func (l limiter) Done(worker.Finished) {}

// middleware measures every handler.
func (l limiter) middleware(next worker.HandlerFunc) worker.HandlerFunc {
	return func(ctx context.Context, d *worker.Delivery) (err error) {
		// The limit may have fallen since the worker reserved the job. The job runs then, but
		// is not measured, because the worker cancels no handler for a lower limit.
		permit, ok := l.TryAcquirePermit()
		if !ok {
			return next(ctx, d)
		}

		finish := permit.Drop // also after a panic
		defer func() { finish() }()
		err = next(ctx, d)
		// A job that was not handled says nothing about the latency of the service.
		if worker.Settling(ctx, err) == duly.Ack {
			finish = permit.Record
		}
		return err
	}
}
