package batch

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/dulymq/duly/contract"
)

// Call is one caller's part of a batch. The zero value is ready for Begin. After Wait has returned
// and [Call.Answered] is true, the Call may be used for another call.
type Call struct {
	// Items is the number of items that the call adds to its batch, and Bytes their size.
	// The caller sets both before the call is queued.
	Items, Bytes int
	// Err is the call's error, set by the sender.
	Err error

	ctx   context.Context
	state atomic.Uint32
	done  chan struct{} // holds one value when the call was answered
}

// The states of a call. The package comment has the transitions.
const (
	stateQueued uint32 = iota
	stateSent
	stateAnswered
	stateLeft
)

// Caller is a pointer to a struct that embeds [Call].
type Caller interface{ part() *Call }

func (c *Call) part() *Call { return c }

// Begin prepares a call for its queue. The caller leaves when ctx ends.
func (c *Call) Begin(ctx context.Context) {
	c.ctx, c.Err = ctx, nil
	c.state.Store(stateQueued)
	if c.done == nil {
		c.done = make(chan struct{}, 1)
	}
}

// Context returns the caller's context.
func (c *Call) Context() context.Context { return c.ctx }

// Send marks the call as sent. It returns false if the caller has left or its context has ended,
// and the sender must then skip the call. A sender that retries a batch calls Send again.
func (c *Call) Send() bool {
	if c.ctx.Err() != nil {
		return false
	}
	return c.state.CompareAndSwap(stateQueued, stateSent) || c.state.Load() == stateSent
}

// Claim reports whether the caller of a sent call accepts the result. After true the caller waits
// for [Call.Answer], even if its context ends.
func (c *Call) Claim() bool {
	return c.ctx.Err() == nil && c.state.CompareAndSwap(stateSent, stateAnswered)
}

// Answer ends the call with err, or with [Call.Err] if err is nil. It returns false if the caller
// has left, so that nobody uses the result. If Answer returns true, the sender must not use the
// call any more.
func (c *Call) Answer(err error) bool {
	for {
		switch state := c.state.Load(); state {
		case stateLeft:
			return false
		case stateAnswered: // claimed before
		default:
			if !c.state.CompareAndSwap(state, stateAnswered) {
				continue
			}
		}
		if err != nil {
			c.Err = err
		}
		c.done <- struct{}{}
		return true
	}
}

// Wait blocks until the call was answered, and returns its error. If the caller's context ends
// first, and the call was not sent, the call is never sent and Wait returns the context's error.
// For a sent call it returns [contract.Unanswered].
func (c *Call) Wait() error {
	select {
	case <-c.done:
		return c.Err
	case <-c.ctx.Done():
	}

	switch {
	case c.state.CompareAndSwap(stateQueued, stateLeft):
		return c.ctx.Err()
	case c.state.CompareAndSwap(stateSent, stateLeft):
		return contract.Unanswered(c.ctx.Err())
	}

	// The answer came first and is on its way.
	<-c.done
	return c.Err
}

// Answered reports whether the call was answered. If not, its sender may still be using it.
func (c *Call) Answered() bool { return c.state.Load() == stateAnswered }

// Deadline returns the latest deadline of the callers. It returns false if one of the callers has
// no deadline.
func Deadline[T Caller](calls []T) (last time.Time, ok bool) {
	for _, call := range calls {
		deadline, ok := call.part().ctx.Deadline()
		if !ok {
			return time.Time{}, false
		}
		if deadline.After(last) {
			last = deadline
		}
	}
	return last, len(calls) > 0
}
