package redisengine_test

import (
	"sync"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine"
)

// TestObserveIsCalledForEveryRoundTrip checks that Observe is called for every round trip, with the
// name of the script.
func TestObserveIsCalledForEveryRoundTrip(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	var mu sync.Mutex
	calls := map[string]int{}
	e, err := redisengine.Open(t.Context(), redisengine.Config{URL: server.URL() + "?prefix=" + prefix,
		Observe: func(call string, took time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			calls[call]++
			if took <= 0 {
				t.Errorf("%s took %s", call, took)
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if _, err := e.Push(t.Context(), []duly.Job{{Queue: "q", Priority: 1}}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Reserve(t.Context(), duly.ReserveParams{Queues: []string{"q"}, Max: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Queues(t.Context(), "", duly.PageParams{}); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, call := range []string{"push", "reserve", "ZRANGEBYLEX"} {
		if calls[call] == 0 {
			t.Errorf("Observe was not called for %s, but for %v", call, calls)
		}
	}
}
