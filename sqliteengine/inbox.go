package sqliteengine

import (
	"context"
	"sync/atomic"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/batch"
)

// txLimits bounds one transaction, and so how long the first of its callers waits
// for the last.
var txLimits = batch.Limits{Items: 2000, Bytes: 2 * duly.MaxBatchBytes}

// op is one operation on its way through the writer.
type op struct {
	batch.Call
	// run does it, in a transaction with others. It may be called again if that
	// transaction could not be committed, so it begins by forgetting what it
	// did before.
	run func(t *tx) error
	// needs is how much room it takes on the disk.
	needs needs
	// joins is with what it shares statements.
	joins   joins
	reserve *reserve // of a Reserve, for those before it
	// orphaned is called when it was done and its caller has left.
	orphaned func()
	// ended is called in place of an answer: nobody waits for one.
	ended func(error)

	err error
}

// items is the part of an operation's call that says how large it is.
func items(n int) batch.Call { return batch.Call{Items: n} }

// answer ends the operation.
func (o *op) answer(err error) {
	switch {
	case o.ended != nil:
		o.ended(err)
	case !o.Answer(err) && err == nil && o.orphaned != nil:
		o.orphaned()
	}
}

// begin marks the operation as being done, or returns why it must be skipped: its
// caller has left.
func (o *op) begin() error {
	if o.Context() == nil || o.Send() { // nil: the writer's own
		return nil
	}
	return o.Context().Err()
}

// inbox holds what waits for the writer.
type inbox struct {
	batch.Queue[*op]
	looks atomic.Bool   // the watched queues must be looked at
	bell  chan struct{} // holds one ring
}

func (b *inbox) init() {
	b.bell = make(chan struct{}, 1)
	b.Size = func(o *op) (items, bytes int) { return o.Items, o.Bytes }
}

// close lets nothing more in; what is in it is still taken.
func (b *inbox) close() {
	b.Close()
	b.ring()
}

func (b *inbox) ring() {
	select {
	case b.bell <- struct{}{}:
	default:
	}
}

// wantLook asks the writer for a look at the watched queues.
func (b *inbox) wantLook() {
	b.looks.Store(true)
	b.ring()
}

// write runs an operation and waits for its answer. When the caller's context
// ends first it waits no longer; the operation may still happen.
func (e *Engine) write(ctx context.Context, o *op) error {
	if err := e.alive(ctx); err != nil {
		return err
	}
	o.Begin(ctx)
	if !e.enqueue(o) {
		return duly.ErrClosed
	}
	return o.Wait()
}

// submit hands an operation to the writer for which nobody waits. It returns false
// if the engine is closed.
func (e *Engine) submit(o *op) bool {
	o.Begin(context.Background())
	return e.enqueue(o)
}

func (e *Engine) enqueue(o *op) bool {
	ok := e.inbox.Put(o)
	if ok {
		e.inbox.ring()
	}
	return ok
}

// change is write for an operation on one queue, a short form for most of
// them.
func (e *Engine) change(ctx context.Context, run func(t *tx) error) error {
	return e.write(ctx, &op{Call: items(1), run: run})
}

// add is change for an operation that takes room on the disk.
func (e *Engine) add(ctx context.Context, n needs, run func(t *tx) error) error {
	return e.write(ctx, &op{Call: items(1), run: run, needs: n})
}
