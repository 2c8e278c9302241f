package redisengine

import (
	"context"
	"fmt"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/redisengine/internal/link"
)

// atOnce is how often a call that somebody else's change has overtaken is sent
// without a pause.
const atOnce = 10

// overtaken is a call that others may overtake: what it has read, a configuration
// or a job, is another by the time it is used. It goes through its tries. One of
// those who are in each other's way always comes through, so a call ends as
// unavailable by its time alone: its caller's deadline, or as long as what is not
// reached is asked for.
type overtaken struct {
	e        *Engine
	ctx      context.Context // of the caller
	tries    int
	patience *link.Patience
}

// next tells whether there is another try, the first one included.
func (c *overtaken) next() bool {
	if c.tries++; c.tries <= atOnce {
		return c.tries == 1 || c.ctx.Err() == nil
	}
	if c.patience == nil {
		c.patience = c.e.link.Patience(c.ctx)
	}
	return c.patience.Wait()
}

// over is the error of a call that has no more tries; why says what kept it.
func (c *overtaken) over(why string, about any) error {
	if err := c.ctx.Err(); err != nil {
		return duly.Unanswered(err)
	}
	return duly.Errorf(duly.CodeUnavailable, "%s; try again", fmt.Sprintf(why, about))
}

// walk is how far a call has come in the shards of a queue. If one of them has
// another configuration by now the call is repeated, and what the others have
// said stands: else a queue whose configuration is changed all the time would
// never be walked through. One that was made anew is.
type walk struct {
	birth string // of the queue
	done  int    // shards
}

// begins tells whether the queue is one whose shards were not asked yet.
func (w *walk) begins(q *queue) bool {
	birth := q.version[8:]
	if w.birth == birth {
		return false
	}
	*w = walk{birth: birth}
	return true
}

// each does something with every shard that is left, beginning at the first one.
func (w *walk) each(q *queue, first int, f func(s *shard) error) error {
	w.begins(q)
	for ; w.done < len(q.shards); w.done++ {
		if err := f(q.shards[(first+w.done)%len(q.shards)]); err != nil {
			return err
		}
	}
	return nil
}
