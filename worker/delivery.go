package worker

import (
	"context"
	"encoding/json"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// Delivery is one delivery of a job to a handler. Its methods may be called only by the handler's
// goroutine.
type Delivery struct {
	duly.Delivery
	ctx    context.Context
	result []byte
}

// Kind returns the kind of the job, see [HandleKind]. It is empty for a job without a kind.
func (d *Delivery) Kind() string { return d.Headers[duly.KindHeader] }

// Context returns the context of the delivery, which also ends when its lease is lost. Batch
// handlers need it. A [HandlerFunc] gets the context as a parameter.
func (d *Delivery) Context() context.Context {
	if d.ctx == nil {
		return context.Background()
	}
	return d.ctx
}

// SetResult sets the result that is stored with the finished job, at most 64 KiB. For a larger
// result it returns [duly.ErrTooLarge]. The result is stored if the job is acked and retained
// ([duly.Retain]). If it is called repeatedly, the last result counts.
func (d *Delivery) SetResult(result []byte) error {
	if len(result) > duly.MaxResult {
		return contract.TooLarge("result", "has %d bytes, may have at most %d", len(result), duly.MaxResult)
	}
	d.result = result
	return nil
}

// SetResultJSON is like SetResult but with v as JSON.
func (d *Delivery) SetResultJSON(v any) error {
	result, err := json.Marshal(v)
	if err != nil {
		return contract.Invalid("result", "can't be written as JSON: %v", err)
	}
	return d.SetResult(result)
}

// FromContext returns the delivery of a handler's context, or of a context derived from it.
func FromContext(ctx context.Context) (*Delivery, bool) {
	d, ok := ctx.Value(deliveryKey{}).(*Delivery)
	return d, ok
}

type deliveryKey struct{}

// jobContext is the context of one handler. It embeds a cancelable context of the standard
// library, so that derived contexts and context.Cause work as usual. It adds the delivery,
// and a deadline on the worker's clock.
type jobContext struct {
	context.Context
	delivery *Delivery
	deadline time.Time // zero if there is no Timeout
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

// Err implements context.Context. After a Timeout it returns the error of a deadline.
func (c *jobContext) Err() error {
	err := c.Context.Err()
	if err != nil && !c.deadline.IsZero() && context.Cause(c.Context) == ErrTimeout {
		return context.DeadlineExceeded
	}
	return err
}
