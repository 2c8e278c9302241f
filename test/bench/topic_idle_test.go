package bench

import (
	"fmt"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/bench/gaugetest"
	"github.com/dulymq/duly/internal/proctest"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine"
)

// TestIdleProcessesOnGroupsSendFewRequests checks that processes waiting for messages of twenty
// groups send no more requests than processes waiting for queues. A group causes no requests of
// its own.
func TestIdleProcessesOnGroupsSendFewRequests(t *testing.T) {
	t.Parallel()
	processes, span := 3, 10*time.Second
	if proctest.Long() {
		processes, span = 10, idleTime
	}
	s := redistest.Single(t)
	cfg := redisengine.Config{URL: s.URL()}
	groups := madeGroups(t, cfg, 20)
	for range processes {
		works(t, onRedis(t, cfg), groups)
	}
	awaitQuiet(t, s.URL(), processes)

	n := gaugetest.Requests(t, s.URL(), func() { time.Sleep(span) }) // the measured time
	each := float64(n) / span.Seconds() / float64(processes)
	t.Logf("%d requests in %s of %d processes with %d groups watched: %.2f a second each (at most %g)", n, span,
		processes, len(groups), each, idleRequests)
	// A short measurement may contain one more renewal than its share.
	if bound := idleRequests*span.Seconds()*float64(processes) + float64(processes); float64(n) > bound {
		t.Errorf("%d idle processes sent %d requests in %s, want at most %g", processes, n, span, bound)
	}
}

// madeGroups creates groups of one topic with an engine that is closed afterwards.
func madeGroups(t *testing.T, cfg redisengine.Config, n int) (names []string) {
	t.Helper()
	e := onRedis(t, cfg)
	defer e.Close()
	for i := range n {
		name := duly.GroupName("idle", fmt.Sprintf("g%d", i))
		names = append(names, name)
		if _, err := e.CreateGroup(t.Context(), duly.QueueRef{Name: name}, duly.FromStart); err != nil {
			t.Fatal(err)
		}
	}
	return names
}
