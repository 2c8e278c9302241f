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

// idleSchedules is the number of schedules of an idle test, over all its queues.
const idleSchedules = 1000

// TestIdleProcessesWithSchedulesSendFewRequests checks that processes waiting on a hundred queues send
// as many requests with a thousand schedules as without them. The ticks are more than an hour ahead.
func TestIdleProcessesWithSchedulesSendFewRequests(t *testing.T) {
	t.Parallel()
	if !proctest.Long() {
		t.Skip("takes some minutes; runs with DULY_LONG=1, as in make bench")
	}
	const processes, span = 10, idleTime * 3 / 2 // longer than what a process does once a minute
	s := redistest.Single(t)
	cfg := redisengine.Config{URL: s.URL()}
	queues := madeQueues(t, cfg, idleQueues)
	for range processes {
		works(t, onRedis(t, cfg), queues)
	}
	requests := func() int64 {
		awaitQuiet(t, s.URL(), processes)
		return gaugetest.Requests(t, s.URL(), func() { time.Sleep(span) }) // the measured time
	}

	without := requests()
	madeSchedules(t, cfg, queues)
	with := requests()
	each := func(n int64) float64 { return float64(n) / span.Seconds() / processes }
	t.Logf("%d requests in %s of %d processes with %d schedules in %d queues, %d without schedules: %.2f and %.2f a "+
		"second each (at most %g)", with, span, processes, idleSchedules, len(queues), without, each(with), each(without),
		idleRequests)

	// A short measurement may contain one more poll, renewal and ping of each process than its share.
	if most := without + 3*processes; with > most {
		t.Errorf("%d idle processes sent %d requests in %s, and %d without schedules", processes, with, span, without)
	}
	if bound := idleRequests*span.Seconds()*processes + processes; float64(with) > bound {
		t.Errorf("%d idle processes sent %d requests in %s, want at most %g", processes, with, span, bound)
	}
}

// madeSchedules creates schedules in the queues, with an engine that is closed afterwards.
func madeSchedules(t *testing.T, cfg redisengine.Config, queues []string) {
	t.Helper()
	e := onRedis(t, cfg)
	defer e.Close()
	start := time.Now().Truncate(time.Second).Add(time.Hour + 10*time.Minute)
	for i := range idleSchedules {
		q := duly.QueueRef{Name: queues[i%len(queues)]}
		s := duly.Schedule{Name: fmt.Sprintf("s%d", i), Spec: "@every 1d", Start: start.Add(time.Duration(i) * time.Second)}
		if _, err := e.PutSchedule(t.Context(), q, s); err != nil {
			t.Fatal(err)
		}
	}
}
