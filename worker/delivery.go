package worker

import (
	"context"
	"encoding/json"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// Delivery is one handing-out of a job to a handler. Its methods are for the
// handler's goroutine.
type Delivery struct {
	duly.Delivery
	ctx    context.Context
	result []byte
}

// Context returns the context that the delivery is handled with, which also ends when
// its lease is lost. It is for batch handlers; a [HandlerFunc] is called with it.
func (d *Delivery) Context() context.Context {
	if d.ctx == nil {
		return context.Background()
	}
	return d.ctx
}

// SetResult sets what is kept with the finished job, at most 64 KiB, else
// [duly.ErrTooLarge]. It counts only if the job is acked and is retained
// ([duly.Retain]); the last call wins.
func (d *Delivery) SetResult(result []byte) error {
	if len(result) > duly.MaxResult {
		return contract.TooLarge("result", "has %d bytes, may have at most %d", len(result), duly.MaxResult)
	}
	d.result = result
	return nil
}

// SetResultJSON is SetResult with v as JSON.
func (d *Delivery) SetResultJSON(v any) error {
	result, err := json.Marshal(v)
	if err != nil {
		return contract.Invalid("result", "can't be written as JSON: %v", err)
	}
	return d.SetResult(result)
}

// FromContext returns the delivery that a context belongs to: that of a handler,
// or one derived from it.
func FromContext(ctx context.Context) (*Delivery, bool) {
	d, ok := ctx.Value(deliveryKey{}).(*Delivery)
	return d, ok
}

type deliveryKey struct{}

// jobContext is the context of one handler. It stands on a cancelable context
// of the standard library, so that contexts derived from it, and
// context.Cause, work as they do everywhere; it adds the delivery, and a
// deadline that goes by the worker's clock.
type jobContext struct {
	context.Context
	delivery *Delivery
	deadline time.Time // zero without a Timeout
}

// Value implements context.Context.
func (c *jobContext) Value(key any) any {
	if _, ok := key.(deliveryKey); ok {
		return c.delivery
	}
	return c.Context.Value(key)
}

// Deadline implements context.Context.
func (c *jobContext) Deadline() (time.Time, bool) {
	return c.deadline, !c.deadline.IsZero()
}

// Err implements context.Context. After a Timeout it is the error that a
// deadline ends with.
func (c *jobContext) Err() error {
	err := c.Context.Err()
	if err != nil && !c.deadline.IsZero() && context.Cause(c.Context) == ErrTimeout {
		return context.DeadlineExceeded
	}
	return err
}
