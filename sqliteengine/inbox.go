package sqliteengine

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/dulymq/duly"
)

// How much one transaction takes of what waits: a bound on how long the first
// of its callers waits for the last.
const (
	maxTxItems = 2000
	maxTxBytes = 2 * duly.MaxBatchBytes
)

// op is one operation on its way through the writer.
type op struct {
	ctx context.Context
	// run does it, in a transaction with others. It may be called again if that
	// transaction could not be committed, so it begins by forgetting what it
	// did before.
	run func(t *tx) error
	// items and bytes are how much it is.
	items, bytes int
	// needs is how much room it takes on the disk.
	needs needs
	// joins is with what it shares statements.
	joins   joins
	reserve *reserve // of a Reserve, for those before it
	// orphaned is called when it was done and its caller has gone.
	orphaned func()
	// ended is called in place of an answer: nobody waits for one.
	ended func(error)

	state atomic.Int32
	done  chan error
	err   error
}

// The states of an op: answered by the writer, or abandoned by its caller,
// whichever comes first.
const (
	opWaits int32 = iota
	opAnswered
	opAbandoned
)

// answer tells the caller how it went.
func (o *op) answer(err error) {
	switch {
	case o.ended != nil:
		o.ended(err)
	case o.state.CompareAndSwap(opWaits, opAnswered):
		o.done <- err
	case err == nil && o.orphaned != nil:
		o.orphaned()
	}
}

// skip is the error of an operation whose caller has gone before it ran.
func (o *op) skip() error {
	if o.ctx == nil {
		return nil
	}
	return o.ctx.Err()
}

// inbox is what waits for the writer.
type inbox struct {
	mu     sync.Mutex
	ops    []*op
	looks  bool // somebody wants the watched queues to be looked at
	closed bool
	bell   chan struct{} // holds one ring
}

// put adds an operation; false after the engine was closed.
func (b *inbox) put(o *op) bool {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return false
	}
	b.ops = append(b.ops, o)
	b.mu.Unlock()
	b.ring()
	return true
}

// close lets nothing more in; what is in it is still taken.
func (b *inbox) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.ring()
}

func (b *inbox) ring() {
	select {
	case b.bell <- struct{}{}:
	default:
	}
}

// gather yields the processor for as long as that brings more operations, until
// there are as many as were answered before. It waits for nobody.
func (b *inbox) gather(answered int) {
	for before := -1; ; {
		b.mu.Lock()
		n := len(b.ops)
		b.mu.Unlock()
		if n == before || n >= answered {
			return
		}
		before = n
		runtime.Gosched()
	}
}

// wantLook asks the writer for a look at the watched queues.
func (b *inbox) wantLook() {
	b.mu.Lock()
	b.looks = true
	b.mu.Unlock()
	b.ring()
}

// take takes as much as one transaction may hold, and at least one operation
// if there is any.
func (b *inbox) take(into []*op) (ops []*op, looks, closed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, items, bytes := 0, 0, 0
	for n < len(b.ops) && (n == 0 || items+b.ops[n].items <= maxTxItems && bytes+b.ops[n].bytes <= maxTxBytes) {
		items, bytes = items+b.ops[n].items, bytes+b.ops[n].bytes
		n++
	}
	into = append(into[:0], b.ops[:n]...)
	if n == len(b.ops) {
		clear(b.ops)
		b.ops = b.ops[:0]
	} else {
		b.ops = append(b.ops[:0], b.ops[n:]...)
		clear(b.ops[len(b.ops):cap(b.ops)])
	}
	looks, b.looks = b.looks, false
	return into, looks, b.closed
}

// write runs an operation and waits for its answer. When the caller's context
// ends first it waits no longer; the operation may still happen.
func (e *Engine) write(ctx context.Context, o *op) error {
	if err := e.alive(ctx); err != nil {
		return err
	}
	o.ctx, o.done = ctx, make(chan error, 1)
	if !e.submit(o) {
		return duly.ErrClosed
	}
	select {
	case err := <-o.done:
		return err
	case <-ctx.Done():
	}
	if o.state.CompareAndSwap(opWaits, opAbandoned) {
		return duly.Unanswered(ctx.Err())
	}
	return <-o.done // it was answered at the same moment
}

// change is write for an operation on one queue, a short form for most of
// them.
func (e *Engine) change(ctx context.Context, run func(t *tx) error) error {
	return e.write(ctx, &op{items: 1, run: run})
}

// add is change for an operation that takes room on the disk.
func (e *Engine) add(ctx context.Context, n needs, run func(t *tx) error) error {
	return e.write(ctx, &op{items: 1, run: run, needs: n})
}

// submit hands an operation to the writer; false if the engine is closed.
func (e *Engine) submit(o *op) bool { return e.inbox.put(o) }
