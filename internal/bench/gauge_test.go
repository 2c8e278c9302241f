package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dulymq/duly"
)

// gauge reads a fake server with known costs: every call to the engine takes 100 µs of CPU time and
// runs one script, every native job takes native, and reading the gauge takes 30 µs.
type gauge struct {
	native  time.Duration
	fail    func(op string) error // error of open, read, watch, native push, native take or remove
	cpu     atomic.Int64
	memory  atomic.Int64
	calls   atomic.Int64
	stored  atomic.Int64 // number of native jobs
	ebbing  atomic.Int64 // bytes that are freed gradually
	watched atomic.Int64
	removed atomic.Int64
	closed  atomic.Int64
}

// on makes the gauge count the calls to an engine.
func (g *gauge) on(e *engine) *engine {
	e.slow = time.Millisecond
	e.fail = func(op string) error {
		if op == "push" || op == "reserve" || op == "settle" {
			g.cpu.Add(int64(100 * time.Microsecond))
			g.calls.Add(1)
		}
		return nil
	}
	e.push = func(jobs []duly.Job) {
		for _, j := range jobs {
			g.memory.Add(300)
			if j.Delay > 0 {
				g.memory.Add(40)
			}
		}
		g.ebbing.Store(1 << 20)
	}
	return e
}

func (g *gauge) failing(op string) error {
	if g.fail == nil {
		return nil
	}
	return g.fail(op)
}

func (g *gauge) open(context.Context) (Gauge, error) { return g, g.failing("open") }

func (g *gauge) About() About {
	return About{Server: "fake 1", Resolution: "exact", NativePush: 2 * time.Microsecond, NativeTake: 2 * time.Microsecond}
}

func (g *gauge) Read(context.Context) (Reading, error) {
	cpu := g.cpu.Add(int64(30 * time.Microsecond))
	g.ebbing.Store(g.ebbing.Load() / 4)
	n := g.calls.Load()
	return Reading{CPU: time.Duration(cpu), Memory: g.memory.Load() + g.ebbing.Load(), Scripts: Timings{
		Count: n, Time: time.Duration(n) * 100 * time.Microsecond, Within: map[time.Duration]int64{128 * time.Microsecond: n},
	}}, g.failing("read")
}

func (g *gauge) Watch(context.Context) (func(context.Context) (int64, error), error) {
	return func(context.Context) (int64, error) { return 7 * g.watched.Add(1), nil }, g.failing("watch")
}

func (g *gauge) Native(int, int) Native { return g }

func (g *gauge) Streams(int, int) Native { return g }
func (g *gauge) Close()                  { g.closed.Add(1) }
func (g *gauge) Lanes() int              { return 2 }
func (g *gauge) Most() int               { return 40 }

func (g *gauge) Push(_ context.Context, lane, n int) error {
	if lane < 0 || lane > 1 || n > 40 {
		return fmt.Errorf("%d jobs on lane %d", n, lane)
	}
	g.cpu.Add(int64(n) * int64(g.native))
	g.stored.Add(int64(n))
	return g.failing("native push")
}

func (g *gauge) Reserve(_ context.Context, _, n int) ([]string, error) {
	n = int(min(int64(n), g.stored.Load()))
	g.stored.Add(-int64(n))
	return make([]string, n), g.failing("native take")
}

func (g *gauge) Ack(_ context.Context, _ int, numbers []string) error {
	g.cpu.Add(int64(len(numbers)) * int64(g.native))
	return g.failing("native ack")
}

func (g *gauge) Remove(context.Context) error {
	g.removed.Add(1)
	return g.failing("remove")
}

// gauged returns a Config with the gauge and its load: 1000 jobs, 50 per batch.
func (g *gauge) gauged(cfg Config) Config {
	cfg.Gauge = g.open
	cfg.Load.Batch = 50
	return cfg
}

func near(got, want float64) bool { return got > want*0.9999 && got < want*1.0001 }

func TestAGaugeMeasuresTheCostOfAJob(t *testing.T) {
	t.Parallel()
	g := &gauge{native: time.Microsecond}
	cfg := g.gauged(Config{Phases: []Phase{Push, NativePush, Take, NativeTake}, Repeat: 3})
	measure(t, g.on(newEngine()), cfg, func(t *testing.T, r *Report, err error) {
		if err != nil {
			t.Fatal(err)
		}

		// A push carries 50 jobs; 50 taken jobs are two calls.
		for i, want := range []float64{2, 1, 4, 1} {
			of := &r.Phases[i]
			if of.Server == nil || !near(of.Server.CPU, want) || of.Jobs != 1000 {
				t.Errorf("%s: %d jobs, %+v; want %g µs", of.Phase, of.Jobs, of.Server, want)
			}
		}

		if s := r.Phases[0].Server.Scripts; s == nil || *s != (ScriptCost{Calls: 60, Mean: 100, P50: 128, P99: 128,
			P9999: 128}) {
			t.Errorf("the scripts of push: %+v", s)
		}
		if s := r.Phases[1].Server.Scripts; s != nil {
			t.Errorf("native commands ran scripts: %+v", s)
		}

		l := r.Server.Life
		if l == nil || !near(l.CPU, 6) || !near(l.Native, 2) || !near(l.Ratio, 3) || !l.Counts {
			t.Errorf("life: %+v", l)
		}
		if r.Server.Server != "fake 1" || r.Server.NativePush != 2 || g.closed.Load() != 1 || g.removed.Load() == 0 {
			t.Errorf("%+v, closed %d times, removed %d times", r.Server, g.closed.Load(), g.removed.Load())
		}
	})
}

// The phases of topics publish, reserve and ack their messages. The native phases of topics do the
// same.
func TestTopicPhasesPublishAndAckTheirMessages(t *testing.T) {
	t.Parallel()
	g := &gauge{native: time.Microsecond}
	cfg := g.gauged(Config{Phases: []Phase{Publish, NativePublish, Group, NativeGroup, GroupWork}, Repeat: 2})
	e := newEngine()
	measure(t, g.on(e), cfg, func(t *testing.T, r *Report, err error) {
		if err != nil {
			t.Fatal(err)
		}
		for i, of := range []string{"call", "", "reserve+ack", "", ""} {
			p := &r.Phases[i]
			if p.Jobs != 1000 || (p.Latency != nil) != (of != "") || of != "" && p.Latency.Of != of {
				t.Errorf("%s: %d messages, latencies %+v, want those of %q", p.Phase, p.Jobs, p.Latency, of)
			}
		}
		if g.stored.Load() != 0 {
			t.Errorf("%d native messages are left", g.stored.Load())
		}
	})
}

func TestARatioFromABusyMachineDoesNotCount(t *testing.T) {
	t.Parallel()
	g := &gauge{native: 3 * time.Microsecond}
	cfg := g.gauged(Config{Phases: []Phase{Push, NativePush, Take, NativeTake}})
	measure(t, g.on(newEngine()), cfg, func(t *testing.T, r *Report, err error) {
		if err != nil || r.Server.Life == nil || r.Server.Life.Counts || !near(r.Server.Life.Ratio, 1) {
			t.Errorf("%+v, %v", r.Server.Life, err)
		}
	})
}

func TestNativeTakeStoresItsJobsFirst(t *testing.T) {
	t.Parallel()
	g := &gauge{native: time.Microsecond}
	measure(t, g.on(newEngine()), g.gauged(Config{Phases: []Phase{NativeTake}, Repeat: 2}),
		func(t *testing.T, r *Report, err error) {
			if err != nil || r.Phases[0].Jobs != 1000 || !near(r.Phases[0].Server.CPU, 1) || g.stored.Load() != 0 {
				t.Errorf("%+v, %d are left, %v", r.Phases, g.stored.Load(), err)
			}
			if r.Server.Life != nil {
				t.Errorf("a life without push and take: %+v", r.Server.Life)
			}
		})
}

func TestMemoryIsReadWhenItNoLongerShrinks(t *testing.T) {
	t.Parallel()
	g := &gauge{}
	e := g.on(newEngine())
	cfg := g.gauged(Config{Phases: []Phase{Memory}, Kinds: []Kind{Plain, Tries, Order}})
	measure(t, e, cfg, func(t *testing.T, r *Report, err error) {
		if err != nil {
			t.Fatal(err)
		}

		// Of the megabyte that is freed gradually, less than 64 KiB may remain.
		m := r.Phases[0].Memory
		if m == nil || m.Ready < 300 || m.Ready > 366 || m.Delayed < 340 || m.Delayed > 406 ||
			r.Phases[0].Jobs != 4000 {
			t.Errorf("%+v", m)
		}
		if len(m.Kinds) != 3 || m.Kinds[0] != (KindMemory{Plain, m.Ready, 1}) {
			t.Errorf("kinds: %+v", m.Kinds)
		}

		for i, kind := range []Kind{Tries, Order} {
			w := m.Kinds[i+1]
			if w.Kind != kind || w.Bytes < 300 || w.Bytes > 366 || w.ToPlain < 0.9 || w.ToPlain > 1.1 {
				t.Errorf("%+v", w)
			}
		}

		if s := e.stats["memory-order"]; s.Sizes.Ready+s.Sizes.Blocked != 1000 {
			t.Errorf("order: %+v", s)
		}
	})
}

func TestIdleCountsTheRequestsOfAWaitingWorker(t *testing.T) {
	t.Parallel()
	g := &gauge{}
	e := g.on(newEngine())
	cfg := g.gauged(Config{Phases: []Phase{Idle}, Load: Load{Queues: 3, Time: 10 * time.Second}})
	measure(t, e, cfg, func(t *testing.T, r *Report, err error) {
		if err != nil {
			t.Fatal(err)
		}
		if of := r.Phases[0]; of.Idle == nil || *of.Idle != (IdleView{Queues: 3, Requests: 7, PerSecond: 0.7}) ||
			of.Seconds != 10 {
			t.Errorf("%+v", of.Idle)
		}
		for i := range 3 {
			if c := e.stats[fmt.Sprintf("idle-%d", i)].Counters; c.Pushed != 1 || c.Acked != 1 {
				t.Errorf("queue %d: %+v", i, c)
			}
		}
	})
}

func TestPhaseCallsMeasuresEachOperation(t *testing.T) {
	t.Parallel()
	g := &gauge{}
	e := g.on(newEngine())
	measure(t, e, g.gauged(Config{Phases: []Phase{Calls}, Load: Load{Jobs: 500}}),
		func(t *testing.T, r *Report, err error) {
			if err != nil {
				t.Fatal(err)
			}
			of := r.Phases[0]

			var got []string
			for _, p := range of.Parts {
				got = append(got, p.Name)
				if p.Jobs != 500 || p.Latency.Count != 10 || p.Server.Scripts == nil || p.Server.Scripts.Calls != 10 ||
					p.Server.Scripts.Mean != 100 {
					t.Errorf("%+v, %+v, %+v", p, p.Latency, p.Server)
				}
			}

			if !slices.Equal(got, []string{"push", "delay", "reserve", "ack"}) || of.Jobs != 2000 {
				t.Errorf("%v, %d jobs", got, of.Jobs)
			}
			if s := e.stats["calls"]; s.Sizes.Ready != 25_000 || s.Sizes.Delayed != 25_500 || s.Counters.Acked != 500 {
				t.Errorf("%+v", s)
			}
		})
}

func TestABurstFallsDueInOneMillisecond(t *testing.T) {
	t.Parallel()
	e := newEngine()
	e.slow = time.Millisecond
	var dues []time.Time
	e.push = func(jobs []duly.Job) {
		for _, j := range jobs {
			if !j.Due.IsZero() && !slices.ContainsFunc(dues, j.Due.Equal) {
				dues = append(dues, j.Due)
			}
		}
	}

	measure(t, e, Config{Phases: []Phase{Burst}, Load: Load{Jobs: 6000, Callers: 1}},
		func(t *testing.T, r *Report, err error) {
			if err != nil {
				t.Fatal(err)
			}
			if len(dues) != 1 || !dues[0].Equal(dues[0].Truncate(time.Millisecond)) {
				t.Errorf("due at %v", dues)
			}
			if of := r.Phases[0]; of.Jobs != 6000 || of.Early != 0 || of.Latency.Count != 60 || of.Seconds > 0.2 {
				t.Errorf("%+v", of)
			}
			if c := e.stats["burst-1"].Counters; c.Acked != 6000 {
				t.Errorf("%+v", c)
			}
		})
}

func TestEarlyJobsOfABurstAreCounted(t *testing.T) {
	t.Parallel()
	e := newEngine()
	e.answer = func(d *duly.Delivery) {
		if d.Due.After(d.PushedAt) {
			d.Now = d.Due.Add(-time.Millisecond)
		}
	}
	measure(t, e, Config{Phases: []Phase{Burst}, Load: Load{Jobs: 100}}, func(t *testing.T, r *Report, err error) {
		if err != nil || r.Phases[0].Early != 100 {
			t.Errorf("%+v, %v", r.Phases, err)
		}
	})
}

func TestABurstFailsIfLoadingTakesTooLong(t *testing.T) {
	t.Parallel()
	e := newEngine()
	calls := 0
	e.push = func([]duly.Job) {
		if calls++; calls > 60 {
			e.slow = time.Second
		}
	}
	measure(t, e, Config{Phases: []Phase{Burst}, Load: Load{Jobs: 6000, Callers: 1}},
		func(t *testing.T, r *Report, err error) {
			if err == nil || len(r.Phases) != 0 {
				t.Errorf("%+v, %v", r.Phases, err)
			}
		})
}

func TestCompareRunsThePhasesWithoutTheBacklogToo(t *testing.T) {
	t.Parallel()
	g := &gauge{native: time.Microsecond}
	e := g.on(newEngine())
	cfg := g.gauged(Config{Load: Load{Jobs: 300, Queues: 2, Rate: 1000},
		Backlog: Backlog{Ready: 1000, Delayed: 500, Compare: true}})
	measure(t, e, cfg, func(t *testing.T, r *Report, err error) {
		if err != nil {
			t.Fatal(err)
		}
		want := []Phase{Idle, Push, Take, Single, Work, Both, Lateness, Calls, Burst}
		if got := phasesOf(r.Without); !slices.Equal(got, want) {
			t.Errorf("without: %v", got)
		}
		if got := phasesOf(r.Phases); !slices.Equal(got, append([]Phase{Memory}, want...)) {
			t.Errorf("with: %v", got)
		}
		if m := r.Phases[0].Memory; m.Ready < 300 || m.Ready > 366 || m.Delayed < 340 || m.Delayed > 472 {
			t.Errorf("memory: %+v", m)
		}
		if s := e.stats["backlog"]; s.Sizes.Delayed != 800 || s.Sizes.Ready < 800 || s.Sizes.Ready > 1000 {
			t.Errorf("backlog: %+v", s)
		}
		if s := e.stats["calls"]; s.Counters.Acked != 300 {
			t.Errorf("calls without a backlog: %+v", s)
		}
	})
}

func phasesOf(results []Result) (phases []Phase) {
	for i := range results {
		phases = append(phases, results[i].Phase)
	}
	return phases
}

func TestAnErrorOfTheGaugeEndsTheMeasurement(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, tt := range []struct {
		op     string
		nth    int64
		phases []Phase
	}{
		{"open", 1, []Phase{Push}},
		{"read", 1, []Phase{Push}},
		{"read", 23, []Phase{Push}}, // the reading before a run; 22 would be the one after the first run
		{"watch", 1, []Phase{Idle}},
		{"native push", 2, []Phase{NativePush}},
		{"native take", 2, []Phase{NativeTake}},
		{"remove", 1, []Phase{NativePush}},
	} {
		t.Run(fmt.Sprint(tt.op, tt.nth), func(t *testing.T) {
			t.Parallel()
			g := &gauge{fail: failOnce(tt.op, tt.nth, broken)}
			measure(t, g.on(newEngine()), g.gauged(Config{Phases: tt.phases, Repeat: 2}),
				func(t *testing.T, _ *Report, err error) {
					if !errors.Is(err, broken) {
						t.Errorf("got %v", err)
					}
					if want := int64(1); tt.op != "open" && g.closed.Load() != want {
						t.Errorf("closed %d times", g.closed.Load())
					}
				})
		})
	}
}

func TestDecreasingCountersAreAnError(t *testing.T) {
	t.Parallel()
	before := Reading{CPU: 5, Scripts: Timings{Count: 3}}
	for _, after := range []Reading{{CPU: 4, Scripts: Timings{Count: 3}}, {CPU: 6, Scripts: Timings{Count: 2}}} {
		if _, err := after.since(before); err == nil {
			t.Errorf("%+v after %+v", after, before)
		}
	}
}

func TestTimingsSubtractTheCountsBefore(t *testing.T) {
	t.Parallel()
	const us = time.Microsecond
	before := Timings{Count: 10, Time: 100 * us, Within: map[time.Duration]int64{8 * us: 4, 32 * us: 10}}
	after := Timings{Count: 110, Time: 5100 * us, Within: map[time.Duration]int64{8 * us: 4, 16 * us: 54, 32 * us: 105,
		512 * us: 110}}
	d := after.minus(before)
	if d.Count != 100 || d.Time != 5000*us {
		t.Errorf("%+v", d)
	}

	for p, want := range map[float64]time.Duration{0.1: 16 * us, 50: 16 * us, 51: 32 * us, 95: 32 * us, 95.1: 512 * us,
		100: 512 * us} {
		if got := d.Percentile(p); got != want {
			t.Errorf("p%g is %s, want %s of %v", p, got, want, d.Within)
		}
	}

	if got := before.Plus(d); got.Count != after.Count || got.Percentile(99) != after.Percentile(99) {
		t.Errorf("%+v", got)
	}
	if got := (Timings{}).Percentile(50); got != 0 {
		t.Errorf("none: %s", got)
	}
}
