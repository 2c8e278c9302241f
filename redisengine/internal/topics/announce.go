package topics

import (
	"context"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/redisengine/internal/catalog"
)

// channel is where publishes to a topic are announced.
func channel(q *catalog.Queue) string { return q.Shards[0].Tag + "log" }

// announce wakes the Reads of all processes. It does not wait for the server.
func (e *Topics) announce(q *catalog.Queue) {
	e.readers.wake(q.Ref)
	r := &e.readers
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, running := r.announcing[q.Ref]; running {
		r.announcing[q.Ref] = true
		return
	}
	if !e.Tasks.Go(func() { e.runAnnounce(q) }) {
		return // the engine is closed
	}
	if r.announcing == nil {
		r.announcing = map[duly.QueueRef]bool{}
	}
	r.announcing[q.Ref] = false
}

// runAnnounce announces until there was no other publish. Whatever fails, the watchers of
// the topic look by themselves.
func (e *Topics) runAnnounce(q *catalog.Queue) {
	r := &e.readers
	for more := true; more; {
		ctx, cancel := context.WithTimeout(e.Ctx, announceTimeout)
		_, _ = e.Link.Do(ctx, e.Link.B().Spublish().Channel(channel(q)).Message("").Build())
		cancel()

		timer := clock.System().NewTimer(announceEvery)
		select {
		case <-timer.C:
		case <-e.Quit.Done(): // the engine is about to be closed
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
