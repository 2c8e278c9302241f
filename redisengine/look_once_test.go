package redisengine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/redistest"
)

// TestWaitLooksAtItsQueuesTogether checks that a Wait on many queues begins with one look at all
// of them, and finds the job of one.
func TestWaitLooksAtItsQueuesTogether(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	e := open(t, s.URL())
	var names []string
	for i := range 20 {
		names = append(names, fmt.Sprintf("q%d", i))
		if err := e.Configure(t.Context(), duly.QueueRef{Name: names[i]}, duly.QueueConfig{}); err != nil {
			t.Fatal(err)
		}
	}
	look := func() bool {
		ready, err := e.Wait(t.Context(), duly.WaitParams{Queues: names})
		if err != nil {
			t.Fatal(err)
		}
		return ready
	}
	s.Must("CONFIG", "RESETSTAT")
	if look() {
		t.Error("empty queues are ready")
	}
	stats, _ := s.Must("INFO", "commandstats").(string)
	if !strings.Contains(stats, "cmdstat_fcall_ro:calls=1,") {
		t.Errorf("Wait did not look exactly once:\n%s", stats)
	}
	if _, err := e.Push(t.Context(), []duly.Job{{Queue: names[19], Body: []byte("x")}}); err != nil {
		t.Fatal(err)
	}
	if !look() {
		t.Error("the last queue's job was not found")
	}
}

// TestDamagedDueTimeIsIgnored checks that waiters and pushes work although another program has
// overwritten the last announced due time.
func TestDamagedDueTimeIsIgnored(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	e := open(t, withPrefix(server.URL(), prefix))
	for _, garbage := range []string{"x", "", "nan", "inf", "-1e300"} {
		pushOne(t, e, duly.Job{Queue: "q", Delay: time.Hour})
		server.Must("HSET", prefix+":{default/q/0}:tally", "later", garbage)
		if _, err := e.Wait(t.Context(), duly.WaitParams{Queues: []string{"q"}, Timeout: time.Millisecond}); err != nil {
			t.Errorf("%q: Wait returned %v", garbage, err)
		}
		server.Must("HSET", prefix+":{default/q/0}:tally", "later", garbage)
		pushOne(t, e, duly.Job{Queue: "q"})
		takeOne(t, e, duly.Q("q"))
	}
}
