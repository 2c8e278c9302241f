package redisengine

import (
	"testing"

	"github.com/dulymq/duly"
)

// Whoever looks at every queue asks for no more of an idle one than has to be
// known. What calls need is there for calls, and until a sweep after which none
// came.
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
		t.Fatal("a queue that nobody uses has state", err)
	}
	for range 2 {
		g.push(1, 0)
		state := g.shard().State.Load()
		if sweep(); g.shard().State.Load() != state {
			t.Fatal("the state was dropped, or is another, though a call came since the last sweep")
		}
		if sweep(); g.shard().State.Load() != nil {
			t.Fatal("the state is still there after a sweep before which no call came")
		}
		g.ack(g.reserve(1))
	}
}
