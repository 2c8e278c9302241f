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

// retryAfter is when a caller whom there was no memory for should come back.
const retryAfter = time.Second

// Hold sees to it that the call may use n bytes of memory in all for what it
// answers, before that memory is used; up to 64 KiB are free. Where others use
// all that there is, it waits for its part, but no longer than the grace: then
// it answers [duly.ErrUnavailable], and says when to come back.
func (c *Call) Hold(n int64) error {
	if n <= free {
		return nil
	}
	if n -= c.ownRoom().held; n <= 0 {
		return nil
	}
	if c.host.answers.try(c.room, n) {
		return nil
	}
	ctx, cancel := context.WithTimeout(c.R.Context(), c.host.live().Grace)
	defer cancel()
	if err := c.host.answers.take(ctx, c.room, n); err == nil || c.Gone() {
		return err
	}
	return noMemory("answers")
}

// ownRoom is the call's share of the memory for answers.
func (c *Call) ownRoom() *share {
	if c.room == nil {
		c.answerShare = share{owner: c.owner()}
		c.room = &c.answerShare
	}
	return c.room
}

// Release gives back what Hold has taken. It comes before a wait of any length:
// who waits for a job must not keep memory from those who take theirs.
func (c *Call) Release() {
	if c.room != nil {
		c.host.answers.give(c.room)
		c.room = nil
	}
}

// noMemory is the answer to a call that has waited in vain.
func noMemory(of string) error {
	return wire.Own(&duly.Error{Code: duly.CodeUnavailable, RetryAfter: retryAfter,
		Message: "the memory of the server for " + of + " is in use by others; come again in a moment, or with less at a time"})
}

// Room is Out with room for n bytes, for a long answer.
func (c *Call) Room(n int) []byte {
	if n <= cap(c.out) {
		return c.Out()
	}
	return make([]byte, 0, n)
}

// taking begins the time in which the caller takes n bytes: from now on these
// are what the call holds. A caller who is still at it after the grace, while
// others wait for memory, is cut off. The function that it returns ends that.
func (c *Call) taking(n int) (taken func()) {
	if n <= free {
		c.Release()
		return func() {}
	}

	var cut atomic.Bool
	room, rc := c.ownRoom(), http.NewResponseController(c.W)
	c.host.answers.keep(room, int64(n))
	room.cut = func() {
		cut.Store(true)
		_ = rc.SetWriteDeadline(clock.Deadline(clock.Monotonic()))
	}
	c.host.answers.slowAt(room, clock.Monotonic()+c.host.live().Grace)
	return func() {
		c.host.answers.busy(room)
		if cut.Load() {
			c.Log().Info("an answer was taken slowly while others waited for its memory; it was cut off", "bytes", n)
		}
	}
}
