package redisengine_test

import (
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine"
)

// TestWokenWaiterIsReplacedAfterAChange checks that a woken waiter which does not reserve is
// replaced even if another process has changed the queue since (C5.11, C5.15). The shard rejects
// the look, because it was computed with the old configuration.
func TestWokenWaiterIsReplacedAfterAChange(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	q := duly.Q("q")
	process := func() *redisengine.Engine {
		e := open(t, withPrefix(server.URL(), prefix))
		e.WithoutLook()
		return e
	}
	other, e := process(), process()
	must(t, other.Configure(t.Context(), q, duly.QueueConfig{}))
	woken := make(chan error, 2)
	for range cap(woken) {
		go func() {
			_, err := e.Wait(t.Context(), duly.WaitParams{Queues: []string{q.Name}, Timeout: duly.MaxWait})
			woken <- err
		}()
	}
	redistest.Await(t, "both wait", func() bool { return e.Waiters() == cap(woken) })
	// The waiters have looked.
	e.Quiet()
	must(t, other.Configure(t.Context(), q, duly.QueueConfig{Defaults: duly.Defaults{Tries: 3}}))
	_, err := other.Push(t.Context(), []duly.Job{{Queue: q.Name}})
	must(t, err)
	// The first woken waiter does not reserve, so the engine wakes the second one.
	for i := range cap(woken) {
		select {
		case err := <-woken:
			must(t, err)
		case <-time.After(20 * time.Second):
			t.Fatalf("%d of two waiters were woken", i)
		}
	}
}
