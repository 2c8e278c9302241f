package worker

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/dulymq/duly"
)

// HandlerFunc handles one delivery. What it returns settles the job: nil is
// an ack, an error a nack, unless the error steers otherwise ([RetryAfter],
// [Bury], [Snooze], [Release]). It may be called by several goroutines at
// once. It must return soon after its context has ended; see the package's
// documentation for when that is.
type HandlerFunc func(ctx context.Context, d *Delivery) error

// Call runs a handler for one delivery outside of a Worker, for example in a
// test, and returns the outcome to settle. It neither recovers a panic nor
// extends the lease.
func Call(ctx context.Context, h HandlerFunc, d duly.Delivery) duly.SettleRequest {
	delivery := &Delivery{Delivery: d}
	within := &jobContext{Context: ctx, delivery: delivery}
	delivery.ctx = within
	err := h(within, delivery)

	out := decide(err, context.Cause(ctx))
	out.Receipt = d.Receipt
	if out.As == duly.Ack {
		out.Result = delivery.result
	}
	return out
}

// Middleware wraps a handler: it may look at the delivery and the error,
// change the context, or leave the handler out.
type Middleware func(next HandlerFunc) HandlerFunc

// Job is a delivery with its body decoded.
type Job[T any] struct {
	// Delivery is a copy; SetResult counts as on the original.
	Delivery
	// Value is the body.
	Value T
}

// JSON makes a handler of one that takes its body as JSON. A body that cannot
// be decoded buries the job, with the reason, because no other try would end
// differently: it waits among the dead jobs until a version that can read it
// is there. Unknown members are ignored, so that producers may be newer than
// workers.
func JSON[T any](h func(ctx context.Context, job *Job[T]) error) HandlerFunc {
	return func(ctx context.Context, d *Delivery) error {
		job := &Job[T]{Delivery: *d}
		if err := json.Unmarshal(d.Body, &job.Value); err != nil {
			return Bury(fmt.Errorf("body is not the JSON that this handler takes: %w", err))
		}

		err := h(ctx, job)
		if job.result != nil {
			d.result = job.result
		}
		return err
	}
}
