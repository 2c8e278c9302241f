package bench

import (
	"context"
	"encoding/json"
	"testing"
	"time"
)

// ran returns a finished run of n jobs.
func ran(n int64, elapsed time.Duration, latencies ...time.Duration) *run {
	r := newRun(context.Background(), int(n))
	r.stop(errEnough)
	r.done.Store(n)
	r.elapsed = elapsed
	for _, d := range latencies {
		r.latency.Record(d)
	}
	return r
}

func TestAPhaseReportsItsMedianRun(t *testing.T) {
	t.Parallel()
	runs := []*run{ran(100, time.Second), ran(300, time.Second), ran(100, 500*time.Millisecond)}
	runs[2].cpu = time.Millisecond
	got := summarize(Push, specOf(Push), runs, clockOffset{})
	if got.CPU != 10 {
		t.Errorf("CPU per job is %g µs, want the median run's 10", got.CPU)
	}
	if got.PerSecond != 200 || got.Seconds != 0.5 || got.Jobs != 100 || got.Slowest != 100 || got.Fastest != 300 ||
		got.Runs != 3 {
		t.Errorf("three runs: %+v", got)
	}
	if got := summarize(Push, specOf(Push), runs[:2], clockOffset{}); got.PerSecond != 100 {
		t.Errorf("of two runs: %g/s, want the slower", got.PerSecond)
	}
	if runs[0].done.Load() != 100 || runs[1].done.Load() != 300 {
		t.Error("the runs were put into another order")
	}
}

func TestReportSumsLatenciesAndCountsOfAllRuns(t *testing.T) {
	t.Parallel()
	a, b := ran(2, time.Second, time.Millisecond, 3*time.Millisecond), ran(1, time.Second, 2*time.Millisecond)
	a.early.Store(1)
	b.early.Store(2)
	b.behind.Store(5)
	late := newRun(context.Background(), 10)
	late.stop(errTime)
	got := summarize(Lateness, specOf(Lateness), []*run{a, b, late}, clockOffset{either: 4 * time.Microsecond})
	if got.Early != 3 || got.Behind != 5 || got.Cut != 1 || got.Either != 4 {
		t.Errorf("early %d, behind %d, cut %d, clock error %g µs", got.Early, got.Behind, got.Cut, got.Either)
	}
	if l := got.Latency; l == nil || l.Count != 3 || l.Min != 1000 || l.Max != 3000 || l.Of != "lateness" {
		t.Errorf("latency %+v", l)
	}
}

func TestARunOfZeroDurationHasNoRate(t *testing.T) {
	t.Parallel()
	if got := summarize(Push, specOf(Push), []*run{ran(100, 0)}, clockOffset{}); got.PerSecond != 0 {
		t.Errorf("got %g", got.PerSecond)
	}
}

func TestTheJSONReportHasUnitsInItsNames(t *testing.T) {
	t.Parallel()
	report := newReport(Config{}.withDefaults())
	report.Disk = &Disk{Dir: "/data"}
	report.Phases = append(report.Phases, summarize(Work, specOf(Work), []*run{ran(10, time.Second)}, clockOffset{}))
	text, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}

	var loose map[string]json.RawMessage
	if err := json.Unmarshal(text, &loose); err != nil {
		t.Fatal(err)
	}
	var phases []map[string]any
	if err := json.Unmarshal(loose["phases"], &phases); err != nil || len(phases) != 1 {
		t.Fatalf("phases %s: %v", loose["phases"], err)
	}

	for name, want := range map[string]any{"phase": "work", "jobs": 10.0, "per_second": 10.0, "seconds": 1.0,
		"runs": 1.0, "early": 0.0} {
		if phases[0][name] != want {
			t.Errorf("phase's %s is %v, want %v", name, phases[0][name], want)
		}
	}

	if _, has := phases[0]["latency"]; has {
		t.Error("work has latencies, but nothing measures them")
	}
	for _, name := range []string{"machine", "disk", "load", "repeat"} {
		if loose[name] == nil {
			t.Errorf("no %s in %s", name, text)
		}
	}
}

func TestAReportWithoutPhasesHasAnEmptyList(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(newReport(Config{}.withDefaults()))
	if err != nil {
		t.Fatal(err)
	}
	var got struct{ Phases []Result }
	if err := json.Unmarshal(text, &got); err != nil || got.Phases == nil {
		t.Errorf("phases %v of %s: %v", got.Phases, text, err)
	}
}
