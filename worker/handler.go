package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
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

// HandlerOption changes how one queue is handled.
type HandlerOption func(*route)

// Timeout bounds how long the handler may run, at least 1 ms. When it has
// passed the handler's context ends with [ErrTimeout], the lease is not
// extended any more, and an error that the handler then returns is a nack.
func Timeout(d time.Duration) HandlerOption {
	return func(r *route) { r.timeout, r.timeoutSet = d, true }
}

// With adds middleware for this queue alone, inside of that added by Use.
func With(m ...Middleware) HandlerOption {
	return func(r *route) { r.middleware = append(r.middleware, m...) }
}

// Weight sets the queue's share of the slots, 1…1 000 000. Queues that have a
// backlog share the slots in proportion to their weights. Default 1.
// Config.StrictOrder excludes it.
func Weight(n int) HandlerOption {
	return func(r *route) { r.weight, r.weightSet = n, true }
}

// route is how one queue is handled.
type route struct {
	queue      string
	every      bool        // for all queues, and queue is empty
	handler    HandlerFunc // wrapped by build
	middleware []Middleware
	timeout    time.Duration
	timeoutSet bool
	weight     int
	weightSet  bool
	batch      *batching // instead of handler; nil without batches
	from       duly.From
	fromSet    bool
}

const maxWeight = 1_000_000

// validate names what is wrong with the route of a worker with so many slots.
func (r *route) validate(f *contract.BadFields, slots int) {
	if !r.every {
		f.Take(contract.ValidateQueue(duly.QueueRef{Name: r.queue}))
	}
	switch {
	case r.batch != nil:
		r.batch.validate(f, r.queue, slots)
		if len(r.middleware) > 0 {
			f.Add("middleware", "of queue %s is set, but a batch handler takes none; wrap the function itself", r.queue)
		}
	case r.handler == nil:
		f.Add("handler", "of queue %s is nil", r.queue)
	}
	if slices.ContainsFunc(r.middleware, func(m Middleware) bool { return m == nil }) {
		f.Add("middleware", "of queue %s is nil", r.queue)
	}
	r.validateFrom(f)
	if r.timeoutSet && r.timeout < time.Millisecond {
		f.Add("timeout", "of queue %s is %s, must be at least 1ms", r.queue, duly.FormatDuration(r.timeout))
	}
	if r.weightSet && (r.weight < 1 || r.weight > maxWeight) {
		f.Add("weight", "of queue %s is %d, must be between 1 and %d", r.queue, r.weight, maxWeight)
	}
}

// build wraps the handler: the first middleware is the outermost.
func (r *route) build(all []Middleware) {
	if r.batch != nil {
		return
	}
	chain := slices.Concat(all, r.middleware)
	for _, m := range slices.Backward(chain) {
		r.handler = m(r.handler)
	}
}
