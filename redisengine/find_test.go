package redisengine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/redistest"
)

// TestFindAsksEachQueueOnce checks that a Find makes one call per queue, which carries no body, and one more
// for each job that it has found (C4.109). Changes by other processes need more calls.
func TestFindAsksEachQueueOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	c := clock.NewFake()
	e, other := at(t, server.URL(), c), at(t, server.URL(), c)
	const queues = 1000
	for i := range queues {
		must(t, other.Configure(t.Context(), duly.Q(fmt.Sprintf("q%03d", i)), duly.QueueConfig{MaxJobs: 100}))
	}
	for _, name := range []string{"q007", "q500"} {
		pushOne(t, other, duly.Job{Queue: name, ID: "x", Body: make([]byte, 1000)})
	}

	found := func(want ...string) {
		t.Helper()
		began := time.Now()
		all, err := e.Find(t.Context(), "", "x")
		t.Logf("%d of %d queues in %s", len(all.Jobs), queues, time.Since(began))
		var names []string
		for _, j := range all.Jobs {
			names = append(names, j.Queue)
		}
		if err != nil || fmt.Sprint(names) != fmt.Sprint(want) {
			t.Errorf("found %v, %v, want %v", names, err, want)
		}
	}
	found("q007", "q500") // the first call reads the configurations
	server.Must("CONFIG", "RESETSTAT")
	found("q007", "q500")
	if calls := scriptCalls(server); calls != fmt.Sprintf("fcall_ro %d ", queues+2) {
		t.Errorf("a find in %d queues with two jobs made the calls %s", queues, calls)
	}

	// The summaries of these queues are out of date.
	must(t, other.Configure(t.Context(), duly.Q("q007"), duly.QueueConfig{MaxJobs: 50}))
	must(t, other.Destroy(t.Context(), duly.Q("q500")))
	remake(t, other, duly.Q("q600"), 8)
	pushOne(t, other, duly.Job{Queue: "q600", ID: "x"})
	pushOne(t, other, duly.Job{Queue: "new", ID: "x"})
	found("new", "q007", "q600")
}
