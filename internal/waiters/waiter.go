package waiters

import (
	"container/list"
	"context"
	"time"

	"github.com/dulymq/duly/internal/clock"
)

// Waiter is one running Wait.
type Waiter[K comparable] struct {
	keys   []K
	places []*list.Element // elements of this waiter in the lists of its keys
	wakeup *Wakeup[K]      // nil until the waiter is woken
	done   chan struct{}   // closed when the waiter is woken or the registry is closed
}

// Wakeup is the key and tag for which a waiter was woken.
type Wakeup[K comparable] struct {
	Key K
	Tag int
	at  time.Duration // on the monotonic clock
}

// Wait blocks until the waiter was woken, the registry was closed, d has passed by
// the clock, or ctx has ended.
func (w *Waiter[K]) Wait(ctx context.Context, c clock.Clock, d time.Duration) {
	timeout := c.NewTimer(d)
	defer timeout.Stop()
	select {
	case <-w.done:
	case <-timeout.C:
	case <-ctx.Done():
	}
}
