package redisengine

import (
	"strings"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/redistest"
)

// A queue that was stored in another layout is refused, and stays as it is.
func TestAQueueOfAnotherLayoutIsRefused(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	e := openOn(t, server.URL()+"?prefix="+prefix, clock.NewFake())
	if err := e.Configure(t.Context(), duly.Q("q"), duly.QueueConfig{DeadCount: 7}); err != nil {
		t.Fatal(err)
	}
	key := prefix + ":{default}:configs"
	stored := server.Must("HGET", key, "q").(string)
	for _, other := range []string{`"layout":1`, `"layout":3`} {
		value := strings.Replace(stored, `"layout":2`, other, 1)
		server.Must("HSET", key, "q", value)
		second := openOn(t, server.URL()+"?prefix="+prefix, clock.NewFake())
		_, err := second.Push(t.Context(), []duly.Job{{Queue: "q"}})
		if duly.CodeOf(err) != duly.CodeUnsupported || !strings.Contains(err.Error(), "layout") {
			t.Errorf("a push into a queue with %s: %v, want unsupported", other, err)
		}
		if left := server.Must("HGET", key, "q"); left != value {
			t.Errorf("the configuration with %s has become %q", other, left)
		}
	}
}
