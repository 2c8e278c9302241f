package store

import (
	"context"
	"fmt"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/redisengine/internal/link"
)

// MaxImmediate is how often a call that somebody else's change has overtaken is sent
// without a pause.
const MaxImmediate = 10

// RetryLoop is a call that others may overtake: what it has read, a configuration
// or a job, is another by the time it is used. It goes through its tries. One of
// those who are in each other's way always comes through, so a call ends as
// unavailable by its time alone: its caller's deadline, or as long as what is not
// reached is asked for.
type RetryLoop struct {
	link     *link.Link
	ctx      context.Context // of the caller
	tries    int
	patience *link.Patience
}

// Next tells whether there is another try, the first one included.
func (c *RetryLoop) Next() bool {
	if c.tries++; c.tries <= MaxImmediate {
		return c.tries == 1 || c.ctx.Err() == nil
	}
	if c.patience == nil {
		c.patience = c.link.Patience(c.ctx)
	}
	return c.patience.Wait()
}

// Failed is the error of a call that has no more tries; why says what kept it.
func (c *RetryLoop) Failed(why string, about any) error {
	if err := c.ctx.Err(); err != nil {
		return duly.Unanswered(err)
	}
	return duly.Errorf(duly.CodeUnavailable, "%s; try again", fmt.Sprintf(why, about))
}
