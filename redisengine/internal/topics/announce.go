package topics

import (
	"context"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/redisengine/internal/catalog"
)

// channel returns the channel of announcements of publishes to a topic.
func channel(q *catalog.Queue) string { return q.Shards[0].Tag + "log" }

// announce wakes the waiting Reads of all processes. It does not wait for the server's answer.
func (e *Topics) announce(q *catalog.Queue) {
	e.readers.wake(q.Ref)
	r := &e.readers
	r.mu.Lock()
	defer r.mu.Unlock()
	// The running sender sends one more message, for all publishes since its last one.
	if _, running := r.announcing[q.Ref]; running {
		r.announcing[q.Ref] = true
		return
	}
	if !e.Tasks.Go(func() { e.runAnnounce(q) }) {
		// The engine is closed.
		return
	}
	if r.announcing == nil {
		r.announcing = map[duly.QueueRef]bool{}
	}
	r.announcing[q.Ref] = false
}

// runAnnounce sends announcements until no further publish came. If that fails, the topic's
// watchers notice the publish when they poll.
func (e *Topics) runAnnounce(q *catalog.Queue) {
	r := &e.readers
	for more := true; more; {
		ctx, cancel := context.WithTimeout(e.Ctx, announceTimeout)
		_, _ = e.Link.Do(ctx, e.Link.B().Spublish().Channel(channel(q)).Message("").Build())
		cancel()

		timer := clock.System().NewTimer(announceEvery)
		select {
		case <-timer.C:
		// The engine is closing, so the last announcement goes at once.
		case <-e.Quit.Done():
		}
		timer.Stop()

		r.mu.Lock()
		more = r.announcing[q.Ref]
		if r.announcing[q.Ref] = false; !more {
			delete(r.announcing, q.Ref)
		}
		r.mu.Unlock()
	}
}
