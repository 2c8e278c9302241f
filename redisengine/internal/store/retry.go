package store

import (
	"context"
	"fmt"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/redisengine/internal/link"
)

// MaxImmediate is how many tries are made without a pause.
const MaxImmediate = 10

// RetryLoop retries an optimistic update whose input, a configuration or a job, changed
// concurrently. One of several concurrent updates always succeeds. A call therefore fails as
// unavailable only at its caller's deadline, or after the link's time for retries.
type RetryLoop struct {
	link    *link.Link
	ctx     context.Context // context of the caller
	tries   int
	backoff *link.Backoff
}

// Next reports whether there is another try. The first call returns true.
func (c *RetryLoop) Next() bool {
	if c.tries++; c.tries <= MaxImmediate {
		return c.tries == 1 || c.ctx.Err() == nil
	}
	// After many concurrent changes, growing pauses let one of the callers finish.
	if c.backoff == nil {
		c.backoff = c.link.Backoff(c.ctx)
	}
	return c.backoff.Wait()
}

// Failed returns the error of a call without more tries. why is the reason.
func (c *RetryLoop) Failed(why string, about any) error {
	if err := c.ctx.Err(); err != nil {
		return contract.Unanswered(err)
	}
	return contract.Errorf(duly.CodeUnavailable, "%s; try again", fmt.Sprintf(why, about))
}
