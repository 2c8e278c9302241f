package bench

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/bench"
	"github.com/dulymq/duly/internal/proctest"
	"github.com/dulymq/duly/open"
)

// late measures the lateness of the embedded engine on a new file.
func late(t *testing.T, load bench.Load) bench.Result {
	t.Helper()
	url := open.File(filepath.Join(t.TempDir(), "bench.db"))
	report, err := bench.Run(t.Context(), bench.Config{
		Open:   func(ctx context.Context) (contract.Engine, error) { return open.Engine(ctx, url) },
		Phases: []bench.Phase{bench.Lateness}, Repeat: 1, Load: load,
	})
	if err != nil {
		t.Fatal(err)
	}
	r := report.Phases[0]
	t.Logf("%d jobs, %d due/s: lateness min %.0f µs, p50 %.0f µs, p99 %.0f µs, max %.0f µs; %d early",
		r.Jobs, load.Rate, r.Latency.Min, r.Latency.P50, r.Latency.P99, r.Latency.Max, r.Early)
	return r
}

// TestNoJobOfManyIsEarly checks C5.4 on the machine's own clock, at a rate that keeps the engine
// busy: no job is early.
func TestNoJobOfManyIsEarly(t *testing.T) {
	measures(t)
	load := bench.Load{Jobs: 10_000, Rate: 2_500}
	switch {
	case proctest.Long():
		load = bench.Load{Jobs: 100_000, Rate: 10_000, Time: 20 * time.Second}
	case testing.Short(): // used under the race detector, which is ten times slower
		load = bench.Load{Jobs: 1000, Rate: 500}
	}
	r := late(t, load)
	if r.Early != 0 || r.Latency.Min < 0 {
		t.Errorf("%d of %d jobs were early; the smallest lateness is %g µs", r.Early, r.Jobs, r.Latency.Min)
	}
	if r.Jobs != int64(load.Jobs) {
		t.Errorf("%d of %d jobs were delivered", r.Jobs, load.Jobs)
	}
}

// TestJobsAreOnTimeAt1000PerSecond checks that 99 of 100 jobs reach their handlers within 5 ms at
// 1000 due jobs per second.
func TestJobsAreOnTimeAt1000PerSecond(t *testing.T) {
	if !proctest.Long() {
		t.Skip("needs an idle machine; runs with DULY_LONG=1, as in make bench")
	}
	if r := late(t, bench.Load{Jobs: 10_000, Rate: 1000}); r.Latency.P99 > 5000 {
		t.Errorf("p99 of the lateness is %g µs, want at most 5000", r.Latency.P99)
	}
}
