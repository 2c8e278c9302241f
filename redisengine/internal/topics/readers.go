package topics

import (
	"context"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

// readers are the Reads that wait for messages. A publish of this process wakes those of
// its topic. What other processes publish they find by looking.
type readers struct {
	mu    sync.Mutex
	waits map[duly.QueueRef]chan struct{}
}

// published returns a channel that is closed at the next publish to a topic.
func (r *readers) published(topic duly.QueueRef) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waits == nil {
		r.waits = map[duly.QueueRef]chan struct{}{}
	}
	if r.waits[topic] == nil {
		r.waits[topic] = make(chan struct{})
	}
	return r.waits[topic]
}

// wake wakes the Reads of a topic.
func (r *readers) wake(topic duly.QueueRef) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if wait := r.waits[topic]; wait != nil {
		close(wait)
		delete(r.waits, topic)
	}
}

// pause waits until a publish, for so long at most.
func pause(ctx context.Context, c clock.Clock, published <-chan struct{}, d time.Duration) error {
	over := make(chan struct{})
	timer := c.AfterFunc(d, func() { close(over) })
	defer timer.Stop()
	select {
	case <-published:
	case <-over:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}
