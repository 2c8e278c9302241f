package worker

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/dulymq/duly"
)

// HandlerFunc handles one delivery. Its result settles the job: nil acks it, and an error nacks it,
// unless the error chooses another settlement ([RetryAfter], [Bury], [Snooze], [Release],
// [Overloaded]). A HandlerFunc must be safe for concurrent use. It must return soon after its
// context has ended. The package's documentation says when the context ends.
type HandlerFunc func(ctx context.Context, d *Delivery) error

// Call runs a handler for one delivery outside a Worker, for example in a test, and returns the
// outcome to settle. Call neither recovers a panic nor extends the lease.
func Call(ctx context.Context, h HandlerFunc, d duly.Delivery) duly.SettleRequest {
	delivery := &Delivery{Delivery: d}
	jobCtx := &jobContext{Context: ctx, delivery: delivery}
	delivery.ctx = jobCtx
	err := h(jobCtx, delivery)

	out := decide(err, context.Cause(ctx))
	out.Receipt = d.Receipt
	if out.As == duly.Ack {
		out.Result = delivery.result
	}
	return out
}

// Middleware wraps a handler. It may read the delivery and the error, change the context,
// or skip the handler.
type Middleware func(next HandlerFunc) HandlerFunc

// Job is a delivery with its body decoded.
type Job[T any] struct {
	// Delivery is a copy. SetResult sets the result of the original too.
	Delivery
	// Value is the body.
	Value T
}

// JSON returns a handler that decodes the body as JSON. It buries a job whose body it
// cannot decode, because every retry would fail: the job waits among the dead jobs for a
// version that can decode it. It ignores unknown members, so producers may be newer than
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
