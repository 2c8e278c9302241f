package batch

import (
	"context"
	"runtime/debug"
	"sync"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// minHalf is the smallest half for which a second batch is worth its cost.
const minHalf = 16

// Batcher joins concurrent calls into batches. Its senders run while calls wait.
// It is safe for concurrent use. Send, Go and Limits must be set before the first call.
type Batcher[T Caller] struct {
	// Send runs a batch and fills in the results of its calls. ctx has the values
	// of the first caller's context and never ends. An error applies to every call.
	// If calls fail for different reasons, Send sets [Call.Err] of each and returns
	// nil. Send may not keep calls.
	Send func(ctx context.Context, calls []T) error
	// Go runs f on a goroutine that the owner waits for. It returns false, without
	// running f, after the owner was closed.
	Go func(f func()) bool
	// Limits is the maximum size of a batch.
	Limits Limits
	// InFlight is the number of concurrent batches. Default 1.
	InFlight int
	// Together, if set, reports whether a call can share a batch with the first
	// call of that batch.
	Together func(first, call T) bool
	// Panicked, if set, is called after a panic in Send with its value and stack. The calls of
	// the batch fail with an internal error, and the next batch is sent.
	Panicked func(value any, stack []byte)

	mu       sync.Mutex
	queue    []T   // waiting calls, the oldest first
	idle     int   // items of calls that were queued while no batch was in flight
	spare    [][]T // memory for the next batches
	senders  int
	inFlight int // number of batches in flight
	held     int // number of calls to Hold without a release
	last     int // number of calls in the last batch
}

// Do queues a call and waits for its result. It returns the error of [Call.Wait], or
// [duly.ErrClosed] if the owner was closed.
func (b *Batcher[T]) Do(ctx context.Context, call T) error {
	c := call.part()
	c.Begin(ctx)
	if !b.enqueue(call) {
		return duly.ErrClosed
	}
	return c.Wait()
}

// DoAlone is like Do, with a separate batch that doesn't wait for other batches.
func (b *Batcher[T]) DoAlone(ctx context.Context, call T) error {
	c := call.part()
	c.Begin(ctx)
	begun := b.Go(func() {
		if c.Send() {
			calls := []T{call}
			answer(calls, b.send(calls))
		}
	})
	if !begun {
		return duly.ErrClosed
	}
	return c.Wait()
}

// Waiting returns how many calls wait to be sent.
func (b *Batcher[T]) Waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.queue)
}

// Sending returns the number of batches in flight.
func (b *Batcher[T]) Sending() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.inFlight
}

// Hold prevents senders from starting until release is called, as if batches were in flight.
// Tests use it to choose the calls of a batch. It returns nil if a sender is running.
func (b *Batcher[T]) Hold() (release func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.senders > 0 {
		return nil
	}

	b.held++
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.held--; len(b.queue) > 0 {
			b.start()
		}
	}
}

// enqueue queues a call. It returns false if the owner was closed.
func (b *Batcher[T]) enqueue(call T) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queue = append(b.queue, call)
	if b.inFlight+b.held == 0 {
		b.idle += call.part().Items
	}

	// If no sender runs, no earlier call is waiting either.
	if !b.start() {
		b.queue, b.idle = nil, 0
		return false
	}
	return true
}

// start starts another sender, unless enough are running. It returns false if no sender is running.
// The caller holds the lock.
func (b *Batcher[T]) start() bool {
	// The release starts the sender.
	if b.held > 0 {
		return true
	}
	if b.senders < max(1, b.InFlight) && b.Go(b.run) {
		b.senders++
	}
	return b.senders > 0
}

// run sends batches until no call waits.
func (b *Batcher[T]) run() {
	for {
		b.gather()
		calls := b.take()
		if len(calls) == 0 {
			return
		}

		err := b.send(calls)

		b.mu.Lock()
		// This comes before the answers, so that the next calls of these callers count as queued
		// while no batch is in flight.
		b.inFlight--
		b.mu.Unlock()
		answer(calls, err)

		// The slice is reused and must not keep the calls alive.
		clear(calls)
		b.mu.Lock()
		b.spare = append(b.spare, calls[:0])
		b.mu.Unlock()
	}
}

// send runs a batch. A panic becomes the error of the batch. Otherwise it would end the process,
// although the callers' goroutines did nothing wrong.
func (b *Batcher[T]) send(calls []T) (err error) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if b.Panicked != nil {
			b.Panicked(p, debug.Stack())
		}
		err = contract.Errorf(duly.CodeInternal, "the operation failed: %v", p)
	}()
	return b.Send(values(calls), calls)
}

// values returns the context for a batch.
func values[T Caller](calls []T) context.Context {
	return context.WithoutCancel(calls[0].part().ctx)
}

func answer[T Caller](calls []T, err error) {
	for _, call := range calls {
		call.part().Answer(err)
	}
}

// gather waits for the callers of the last batch to queue their next calls. After a batch with
// one call it doesn't wait.
func (b *Batcher[T]) gather() {
	b.mu.Lock()
	last := b.last
	b.mu.Unlock()
	if last > 1 {
		Gather(last, b.Waiting)
	}
}

// take removes the calls of the next batch from the queue. If there are none, this sender ends.
func (b *Batcher[T]) take() []T {
	b.mu.Lock()
	defer b.mu.Unlock()

	items := b.Limits.Items
	// Callers that return together from one batch are sent as two halves, so that the server
	// works on one while the other is prepared.
	if b.InFlight > 1 && b.inFlight == 0 && b.idle >= 2*minHalf {
		items = min(items, b.items()-b.idle/2)
	}
	b.idle = 0

	var calls []T
	if len(b.queue) > 0 {
		calls = b.pick(Limits{items, b.Limits.Bytes})
	}
	if len(calls) == 0 {
		b.senders--
		return nil
	}

	b.inFlight++
	b.last = len(calls)
	if len(b.queue) > 0 {
		b.start()
	}
	return calls
}

// pick removes the first call from the queue, and later calls that fit into the same batch. It
// drops calls whose callers have left. The caller holds the lock.
func (b *Batcher[T]) pick(limits Limits) (calls []T) {
	if last := len(b.spare) - 1; last >= 0 {
		calls, b.spare = b.spare[last], b.spare[:last]
	}

	rest := b.queue[:0]
	items, bytes, full := 0, 0, false
	for _, call := range b.queue {
		c := call.part()
		if len(calls) > 0 && b.Together != nil && !b.Together(calls[0], call) {
			rest = append(rest, call)
			continue
		}
		// After a call that did not fit, later calls wait as well, to keep the order.
		full = full || len(calls) > 0 && (items+c.Items > limits.Items || bytes+c.Bytes > limits.Bytes)
		switch {
		case full:
			rest = append(rest, call)
		case c.Send():
			calls = append(calls, call)
			items, bytes = items+c.Items, bytes+c.Bytes
		}
	}

	// The unused end of the array must not keep the calls alive.
	clear(b.queue[len(rest):])
	b.queue = rest
	return calls
}

// items counts the queued items. The caller holds the lock.
func (b *Batcher[T]) items() (n int) {
	for _, call := range b.queue {
		n += call.part().Items
	}
	return n
}
