package sqliteengine

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/sqliteengine/internal/sqliteconn"
)

// C4.56, fault R9: all due jobs count as ready, even beyond dueScanLimit and if nobody reserves.
func TestStatsCountsAllDueJobs(t *testing.T) {
	t.Parallel()
	c := clock.NewFake()
	e, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "duly.db"), Clock: c, Manual: true,
		Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	pushOne(t, e, duly.Job{OrderKey: "busy"})
	pushOne(t, e, duly.Job{OrderKey: "busy", Delay: time.Minute})
	const batches = dueScanLimit/duly.MaxBatch + 1
	for i := range batches {
		jobs := make([]duly.Job, duly.MaxBatch)
		for k := range jobs {
			jobs[k] = duly.Job{Queue: "q", Delay: 2 * time.Minute, Tries: 1 + k%2}
		}
		if _, err := e.Push(t.Context(), jobs); err != nil {
			t.Fatal(i, err)
		}
	}
	pushOne(t, e, duly.Job{Delay: time.Hour})

	for passed, want := range map[time.Duration]duly.Sizes{
		0:               {Delayed: batches*duly.MaxBatch + 2, Ready: 1},
		time.Minute:     {Delayed: batches*duly.MaxBatch + 1, Ready: 1, Blocked: 1},
		3 * time.Minute: {Delayed: 1, Ready: batches*duly.MaxBatch + 1, Blocked: 1},
	} {
		c.Step(passed)
		s, err := e.Stats(t.Context(), duly.Q("q"))
		if err != nil || s.Sizes != want || s.OldestReady != passed {
			t.Errorf("after %s: %+v, the oldest is ready for %s, %v, want %+v", passed, s.Sizes, s.OldestReady, err,
				want)
		}
		c.Step(-passed)
	}
}

// Fault R9: the jobs beyond dueScanLimit are counted by their index only.
func TestDueJobsAreCountedByTheIndex(t *testing.T) {
	t.Parallel()
	c, err := openNew(t).connect(sqliteconn.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	s, err := c.Prepare("EXPLAIN QUERY PLAN " + statements["due_count"])
	if err != nil {
		t.Fatal(err)
	}
	defer s.Finalize()
	if _, err := s.Step(); err != nil || !strings.Contains(s.ColText(3), "COVERING INDEX jobs_delayed") {
		t.Errorf("the plan is %q, %v", s.ColText(3), err)
	}
}
