package redisengine_test

import (
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine"
)

// C5.11, C5.15: who was woken and does not come is looked after also where
// another process has changed the queue meanwhile: the shard does not tell a look
// of the old configuration what it has.
func TestWhoDoesNotComeIsLookedAfterOverAChange(t *testing.T) {
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
	e.Quiet() // they have looked
	must(t, other.Configure(t.Context(), q, duly.QueueConfig{Defaults: duly.Defaults{Tries: 3}}))
	_, err := other.Push(t.Context(), []duly.Job{{Queue: q.Name}})
	must(t, err)
	for i := range cap(woken) { // nobody reserves, so the second one is woken in the place of the first
		select {
		case err := <-woken:
			must(t, err)
		case <-time.After(20 * time.Second):
			t.Fatalf("%d of two were woken", i)
		}
	}
}
