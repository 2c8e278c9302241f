package redisengine_test

import (
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/enginetest"
)

// TestFullReservePassesAWakeUpOn checks a Reserve of several queues that has enough jobs before it
// reads the queue for which its caller was woken. The Reserve wakes another waiter of that queue.
// The clock does not advance, so no poll can hide a lost wake-up.
func TestFullReservePassesAWakeUpOn(t *testing.T) {
	t.Parallel()
	h := suite(t, single, 1).New(t, enginetest.Options{})
	wait := func(queues ...string) <-chan bool {
		woken := make(chan bool, 1)
		go func() {
			ready, err := h.Engine.Wait(t.Context(), duly.WaitParams{Queues: queues, Timeout: duly.MaxWait})
			woken <- ready && err == nil
		}()
		h.Quiet()
		return woken
	}
	push := func(queue string) {
		t.Helper()
		_, err := h.Engine.Push(t.Context(), []duly.Job{{Queue: queue}})
		must(t, err)
		h.Quiet()
	}
	for _, q := range []string{"a", "b"} {
		must(t, h.Engine.Configure(t.Context(), duly.Q(q), duly.QueueConfig{}))
	}
	first, second := wait("a", "b"), wait("b")
	push("b")
	if len(first) != 1 || len(second) != 0 {
		t.Fatalf("%d and %d waiters woke, want only the first", len(first), len(second))
	}
	push("a")
	ds, err := h.Engine.Reserve(t.Context(), duly.ReserveParams{Queues: []string{"a", "b"}, Max: 1})
	if err != nil || len(ds) != 1 || ds[0].Queue != "a" {
		t.Fatalf("Reserve returned %v, %v", ds, err)
	}
	h.Quiet()
	if len(second) != 1 {
		t.Error("the other waiter sleeps although a job is ready and no other waiter was woken")
	}
}
