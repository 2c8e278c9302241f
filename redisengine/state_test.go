package redisengine

import (
	"testing"

	"github.com/dulymq/duly"
)

// TestSweepDropsStateOfIdleQueues checks that a sweep creates no call state for idle queues, and
// drops the state of queues without calls since the last sweep.
func TestSweepDropsStateOfIdleQueues(t *testing.T) {
	t.Parallel()
	g := newGauge(t)
	if err := g.e.Configure(t.Context(), duly.Q("q"), duly.QueueConfig{MaxLeased: 10}); err != nil {
		t.Fatal(err)
	}
	sweep := func() {
		t.Helper()
		if err := g.e.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := g.e.Stats(t.Context(), duly.Q("q")); err != nil || g.shard().State.Load() != nil {
		t.Fatal("an unused queue has state", err)
	}
	for range 2 {
		g.push(1, 0)
		state := g.shard().State.Load()
		if sweep(); g.shard().State.Load() != state {
			t.Fatal("the state was dropped or replaced, although a call came since the last sweep")
		}
		if sweep(); g.shard().State.Load() != nil {
			t.Fatal("the state was kept although no call came since the last sweep")
		}
		g.ack(g.reserve(1))
	}
}
