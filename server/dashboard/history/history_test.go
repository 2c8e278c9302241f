package history

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/eventually"
	"github.com/dulymq/duly/internal/logtest"
	"github.com/dulymq/duly/server/dashboard/feed"
)

// rig is a history of the namespace shop, whose queues the test changes.
type rig struct {
	t     *testing.T
	clock *clock.Fake
	log   *logtest.Log
	cfg   Config
	*History
	queues map[string]*duly.Stats
	late   []uint64
	next   string
}

func newRig(t *testing.T, changes ...func(*Config)) *rig {
	t.Helper()
	r := &rig{
		t: t, clock: clock.NewFake(), log: new(logtest.Log), queues: map[string]*duly.Stats{}, late: make([]uint64, 3),
	}
	r.cfg = Config{
		Clock: r.clock, Log: slog.New(slog.NewJSONHandler(r.log, nil)), Memory: 64 << 20,
		Path: filepath.Join(t.TempDir(), FileName), Bounds: []time.Duration{time.Second, 2 * time.Second},
		Lateness: func(string, string) []uint64 { return append([]uint64(nil), r.late...) },
	}
	for _, change := range changes {
		change(&r.cfg)
	}
	r.restart()
	r.Visit("shop")
	return r
}

// restart replaces the history by one that reads the file.
func (r *rig) restart() { r.History = New(r.cfg) }

func (r *rig) queue(name string) *duly.Stats {
	if r.queues[name] == nil {
		r.queues[name] = &duly.Stats{}
	}
	return r.queues[name]
}

// look observes the queues as they are.
func (r *rig) look() {
	look := &feed.Look{At: r.clock.Now(), Mono: r.clock.Mono(), Next: r.next}
	for name, stats := range r.queues {
		look.Queues = append(look.Queues, contract.QueueStats{Name: name, Stats: *stats})
	}
	r.Observe("shop", look)
}

// run pushes n jobs per second into the queue mail for some time, with a look every 10 s.
func (r *rig) run(n int64, lasts time.Duration) {
	for range lasts / every {
		r.clock.Advance(every)
		r.queue("mail").Counters.Pushed += n * 10
		r.look()
	}
}

// pushed returns the pushes per second of each point, NaN in a gap.
func (r *rig) pushed(queue, name string) (list []float64) {
	for _, p := range r.points(queue, name) {
		v := p.Pushed
		if !p.Seen {
			v = math.NaN()
		}
		list = append(list, v)
	}
	return list
}

func (r *rig) points(queue, name string) []Point {
	r.t.Helper()
	for _, at := range Ranges {
		if at.Name == name {
			return r.Chart("shop", queue, at).Points
		}
	}
	r.t.Fatalf("there is no range %s", name)
	return nil
}

// P2.2: in every range, the sum of the rates equals the rise of the counter, for a queue and for its namespace.
func TestChartsEqualCounters(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.look()
	for range 5 * 60 { // 50 minutes
		r.clock.Advance(every)
		r.queue("mail").Counters.Pushed += rand.Int64N(50)
		r.queue("other").Counters.Pushed++
		r.look()
	}
	for _, at := range Ranges[1:] {
		for queue, want := range map[string]float64{
			"mail": float64(r.queue("mail").Counters.Pushed),
			"":     float64(r.queue("mail").Counters.Pushed + r.queue("other").Counters.Pushed),
		} {
			sum, points := 0.0, r.Chart("shop", queue, at).Points
			for _, p := range points {
				// The unfinished point covers the time until now.
				sum += p.Pushed * min(at.Step(), r.clock.Now().Sub(p.At)).Seconds()
			}
			if math.Abs(sum-want) > 0.01*want {
				t.Errorf("%s of %q has %.1f pushes, want %.0f", at.Name, queue, sum, want)
			}
		}
	}
	rates := r.Queue("shop", "other")
	if !rates.Rates.Known || math.Abs(rates.Rates.In-0.1) > 0.001 {
		t.Errorf("the rates of the last minute are %+v", rates.Rates)
	}
}

// A step has the last number of ready jobs, and the largest age. Deliveries have percentiles.
func TestPointsHaveSizesAndPercentiles(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.look()
	for i, ready := range []int64{5, 9, 3} {
		r.clock.Advance(20 * time.Second)
		r.queue("mail").Sizes.Ready = ready
		r.queue("mail").OldestReady = time.Duration(30-10*i) * time.Second
		r.late[0] += 98
		r.late[1]++
		r.late[2]++
		r.look()
	}
	points := r.points("mail", "1h")
	p := points[len(points)-2] // the minute that has just ended
	if p.Ready != 3 || p.Oldest != 30 {
		t.Errorf("the point of the queue is %+v", p)
	}
	p = r.points("", "1h")[len(points)-2]
	if math.Abs(p.P50-0.51) > 0.01 || p.P99 != 2 {
		t.Errorf("the percentiles are %v and %v", p.P50, p.P99)
	}
	if spark := r.Spark("shop", "mail"); len(spark) != sparkPoints || spark[sparkPoints-2] != 3 {
		t.Errorf("the spark is %v", spark)
	}
}

func TestQuantile(t *testing.T) {
	t.Parallel()
	bounds := []time.Duration{time.Second, 2 * time.Second}
	for _, tt := range []struct {
		q      float64
		counts []float32
		want   float64
	}{
		{0.5, []float32{0, 0, 0}, math.NaN()},
		{0.5, []float32{10, 0, 0}, 0.5},
		{0.5, []float32{5, 10, 0}, 1.25},
		{0.99, []float32{0, 0, 7}, 2},
		{1, []float32{1, 1, 0}, 2},
	} {
		if got := Quantile(tt.q, tt.counts, bounds); got != tt.want && !(math.IsNaN(got) && math.IsNaN(tt.want)) {
			t.Errorf("quantile %v of %v is %v, want %v", tt.q, tt.counts, got, tt.want)
		}
	}
}

// F1: after a restart the charts continue, and the downtime is a gap.
func TestRestartLeavesAGap(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.look()
	r.run(3, 5*time.Minute)
	r.queue("mail").Sizes.Ready = 1
	r.look()
	r.save()
	const down = 4 * time.Minute
	r.clock.Advance(down)
	r.queue("mail").Counters.Pushed += 1_000_000
	r.restart()
	r.look()
	r.run(7, 3*time.Minute)

	for _, queue := range []string{"mail", ""} {
		gap, last, before := 0, r.pushed(queue, "15min"), 0
		for _, v := range last {
			switch {
			case math.IsNaN(v):
				gap++
			case math.Abs(v-3) < 0.01:
				before++
			case math.Abs(v-7) > 0.01 && v != 0:
				t.Errorf("the chart of %q has the rate %v", queue, v)
			}
		}
		// The first three minutes of the range are before the first look.
		if gap := time.Duration(gap)*every - 3*time.Minute; gap < down-time.Minute || gap > down+time.Minute || before < 29 {
			t.Errorf("the gap of %q is %v, want %v; %d points are older: %v", queue, gap, down, before, last)
		}
	}
	if r.log.String() != "" {
		t.Errorf("the log has %s", r.log)
	}
}

// F2: a corrupt or a foreign file gives an empty history and one warning.
func TestCorruptFileIsLeftOut(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.look()
	r.run(3, 5*time.Minute)
	r.save()
	good, err := os.ReadFile(r.cfg.Path)
	if err != nil {
		t.Fatal(err)
	}
	bad := map[string]string{
		"Empty": "", "Foreign": "PK\x03\x04" + strings.Repeat("x", 1000),
		"Version": strings.Replace(string(good), "\x02", "\x01", 1),
		"Longer":  string(good) + "x", "Large": string(good) + strings.Repeat("x", 130<<20),
	}
	for i := range 40 {
		at := i * len(good) / 40
		bad[fmt.Sprint("Cut", i)] = string(good[:at])
		changed := []byte(string(good))
		changed[at] ^= 0x40
		bad[fmt.Sprint("Changed", i)] = string(changed)
	}
	for name, text := range bad {
		if err := os.WriteFile(r.cfg.Path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		*r.log = logtest.Log{}
		r.restart()
		if n := strings.Count(r.log.String(), "begins empty"); n != 1 || len(r.namespaces) != 0 {
			t.Errorf("%s: %d warnings, %d namespaces: %s", name, n, len(r.namespaces), r.log)
		}
	}
}

// The file of a history with other numbers per step is left out.
func TestFileOfAnotherWidth(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.look()
	r.run(1, time.Minute)
	r.save()
	r.cfg.Lateness = nil
	r.restart()
	if len(r.namespaces) != 0 || !strings.Contains(r.log.String(), "numbers") {
		t.Errorf("%d namespaces, the log has %s", len(r.namespaces), r.log)
	}
}

// F3: a step of the wall clock in either direction gives no negative rate, and has a mark.
func TestClockSteps(t *testing.T) {
	t.Parallel()
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprint(step, restart), func(t *testing.T) {
				t.Parallel()
				r := newRig(t)
				r.look()
				r.run(3, 2*time.Hour)
				r.save()
				r.clock.Step(step)
				if restart {
					r.restart()
					r.look()
				}
				r.run(5, 2*time.Hour)

				for _, at := range Ranges {
					for _, p := range r.Chart("shop", "", at).Points {
						if p.Pushed < 0 || p.Pushed > 5.01 {
							t.Errorf("%s has the rate %v at %v", at.Name, p.Pushed, p.At)
						}
					}
				}
				// A step forwards while no process ran does not differ from a downtime.
				marks := r.Chart("shop", "", Ranges[2]).Marks
				if !restart && (len(marks) != 1 || marks[0].By != step) || restart && step < 0 && len(marks) != 1 {
					t.Errorf("the marks are %v", marks)
				}
			})
		}
	}
}

// A queue that is destroyed and created again has no negative rate, and one that a look did not reach no jump.
func TestCountersThatFallOrAppear(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.look()
	r.run(100, time.Minute)
	r.queues["mail"] = &duly.Stats{Counters: duly.Counters{Pushed: 20}}
	r.clock.Advance(every)
	r.look()
	if points := r.pushed("", "15min"); math.Abs(points[len(points)-2]-2) > 0.01 {
		t.Errorf("the rate after the destruction is %v, want 2", points[len(points)-2])
	}

	r.next = "more"
	r.clock.Advance(every)
	r.look()
	r.queue("zebra").Counters.Pushed = 1_000_000
	r.queue("alpha").Counters.Pushed = 10
	r.clock.Advance(every)
	r.look()
	if points := r.pushed("", "15min"); math.Abs(points[len(points)-2]-1) > 0.01 {
		t.Errorf("the rate with a queue beyond the last look is %v, want 1", points[len(points)-2])
	}
}

// F4: 1 000 busy queues take at most 30 MB. An idle queue takes nothing.
func TestMemoryOfQueues(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.Lateness = nil })
	r.queue("idle").Sizes.Delayed = 5
	r.look()
	const busy = 20
	for range 3 * 24 * 60 { // three days
		r.clock.Advance(time.Minute)
		for i := range busy {
			r.queue(fmt.Sprint("queue-", i)).Counters.Pushed++
		}
		r.look()
	}
	r.upkeep()
	sum := int64(0)
	for name, q := range r.namespaces["shop"].queues {
		if q.Series != nil {
			sum += q.Series.bytes()
		}
		if name == "idle" && q.Series != nil {
			t.Error("an idle queue has a series")
		}
	}
	if each := sum / busy; each < 20_000 || each > 30_000 {
		t.Errorf("a busy queue takes %d bytes", each)
	}

	// A queue without events is forgotten when its steps are too old.
	r.queues = map[string]*duly.Stats{"queue-0": r.queue("queue-0"), "idle": r.queue("idle")}
	for range 4 * 24 * 60 {
		r.clock.Advance(time.Minute)
		r.look()
	}
	r.upkeep()
	if n := r.namespaces["shop"].queues; len(n) != 2 || n["queue-0"].Series != nil {
		t.Errorf("%d queues are left, the first has the series %v", len(n), n["queue-0"].Series)
	}
}

// The bound of the memory takes the series of the least active queues, and the chart says how many.
func TestMemoryBound(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.Memory = 100_000 })
	r.look()
	for range 60 {
		r.clock.Advance(every)
		for i := range 50 {
			r.queue(fmt.Sprint("queue-", i)).Counters.Pushed += int64(i) + 1
		}
		r.look()
	}
	r.upkeep()
	kept, used := 0, r.namespaces["shop"].Total.bytes()
	for name, q := range r.namespaces["shop"].queues {
		if q.Series != nil {
			kept++
			used += q.Series.bytes()
		} else if name == "queue-49" {
			t.Error("the most active queue has lost its series")
		}
	}
	if c := r.Chart("shop", "", Ranges[0]); c.Dropped != 50-kept || kept == 0 || kept == 50 || used > r.cfg.Memory {
		t.Errorf("%d queues are kept with %d bytes, %d dropped", kept, used, c.Dropped)
	}

	for i := range 2 * maxNamespaces {
		r.clock.Advance(time.Second)
		r.Visit(fmt.Sprint("space-", i))
	}
	if n := len(r.namespaces); n != maxNamespaces || r.namespaces["shop"] != nil {
		t.Errorf("there are %d namespaces", n)
	}
}

// F6: without a visit nothing is looked at. After the first one there is a look every 10 s, until 30 days after the
// last one.
func TestRunLooksWhileVisited(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var looks atomic.Int64
	r.cfg.Look = func(_ context.Context, name string) *feed.Look {
		looks.Add(1)
		return &feed.Look{At: r.clock.Now(), Mono: r.clock.Mono()}
	}
	r.restart()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.Run(ctx)
	}()
	r.clock.Advance(time.Hour)
	if n := looks.Load(); n != 0 || r.clock.Timers() != 0 {
		t.Fatalf("an unused history makes %d looks", n)
	}

	r.Visit("shop")
	waits := func() {
		t.Helper()
		eventually.True(t, "the wait for the next look", func() bool { return r.clock.Timers() == 1 })
	}
	for range 30 {
		waits()
		r.clock.Advance(every)
	}
	waits()
	if n := looks.Load(); n < 29 || n > 31 {
		t.Errorf("in 5 min there are %d looks", n)
	}
	if _, err := os.Stat(r.cfg.Path); err != nil {
		t.Errorf("after 5 min there is no file: %v", err)
	}
	r.clock.Advance(Unused)
	eventually.True(t, "the end of the looks", func() bool { return r.clock.Timers() == 0 })
	before := looks.Load()
	r.clock.Advance(24 * time.Hour)
	if n := looks.Load() - before; n != 0 {
		t.Errorf("a day later there are %d looks", n)
	}
	stop()
	eventually.Receive(t, "the end of Run", ended)
}
