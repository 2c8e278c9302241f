package route

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/wire"
)

// retryAfter is the time after which a caller that got no memory may try again.
const retryAfter = time.Second

// ReserveMemory reserves memory for the answer, n bytes in total, before the call uses it. Up to 64
// KiB need no reservation. If other calls use all memory, it waits for its share, at most for the
// grace. After the grace it returns [duly.ErrUnavailable] with the time after which to retry.
func (c *Call) ReserveMemory(n int64) error {
	if n <= free {
		return nil
	}
	// n is the total, so only the difference is reserved.
	if n -= c.answerRoom().held; n <= 0 {
		return nil
	}
	if c.router.answers.try(c.room, n) {
		return nil
	}

	ctx, cancel := context.WithTimeout(c.R.Context(), c.router.settings().Grace)
	defer cancel()
	if err := c.router.answers.take(ctx, c.room, n); err == nil || c.Gone() {
		return err
	}
	return noMemory("answers")
}

// answerRoom returns the call's share of the memory for answers.
func (c *Call) answerRoom() *share {
	if c.room == nil {
		c.answerShare = share{owner: c.owner()}
		c.room = &c.answerShare
	}
	return c.room
}

// ReleaseMemory returns the memory that ReserveMemory has reserved. A handler calls it before a
// wait, so that a waiting call keeps no memory from calls with something to answer.
func (c *Call) ReleaseMemory() {
	if c.room != nil {
		c.router.answers.release(c.room)
		c.room = nil
	}
}

// noMemory returns the error of a call that has waited for memory in vain.
func noMemory(of string) error {
	return wire.Own(&duly.Error{
		Code: duly.CodeUnavailable, RetryAfter: retryAfter,
		Message: "other calls use the memory of the server for " + of +
			"; try again in a moment, or with less at a time",
	})
}

// Room is like Out but with room for n bytes, for a long answer.
func (c *Call) Room(n int) []byte {
	if n <= cap(c.out) {
		return c.Out()
	}
	return make([]byte, 0, n)
}

// beginWrite begins the write of an answer of n bytes, which are the only memory that the call
// holds from now on. If the caller still reads after the grace while others wait for memory, the
// answer may be cut off. The returned function ends the write.
func (c *Call) beginWrite(n int) (written func()) {
	if n <= free {
		c.ReleaseMemory()
		return func() {}
	}

	var cut atomic.Bool
	room, rc := c.answerRoom(), http.NewResponseController(c.W)
	c.router.answers.set(room, int64(n))
	room.cut = func() {
		cut.Store(true)
		_ = rc.SetWriteDeadline(clock.Deadline(clock.Monotonic()))
	}
	c.router.answers.slowAt(room, clock.Monotonic()+c.router.settings().Grace)

	return func() {
		c.router.answers.busy(room)
		if cut.Load() {
			c.Log().Info("a caller read an answer slowly while others waited for its memory; it was cut off",
				"bytes", n)
		}
	}
}
