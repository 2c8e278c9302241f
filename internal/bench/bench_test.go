package bench

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/model"
)

// engine is the model engine with hooks: it shows its calls to the test and changes their
// results.
type engine struct {
	contract.Engine
	topicCalls
	scheduleCalls
	slow   time.Duration         // duration of each Push, Reserve and Settle
	push   func([]duly.Job)      // is called with each Push
	answer func(*duly.Delivery)  // changes each delivery
	fail   func(op string) error // returns the error of push, reserve, destroy or close

	mu     sync.Mutex
	opened int
	closed int
	stats  map[string]duly.Stats // statistics of queues at the time at which they were destroyed
}

type (
	topicCalls    = contract.Topics
	scheduleCalls = duly.Scheduler
)

func newEngine() *engine {
	m := model.New(model.Config{})
	return &engine{Engine: m, topicCalls: m, scheduleCalls: m, stats: map[string]duly.Stats{}}
}

// open implements Config.Open. A second open finds the jobs of the first.
func (e *engine) open(context.Context) (contract.Engine, error) {
	e.opened++
	return e, nil
}

func (e *engine) failing(op string) error {
	if e.slow > 0 && op != "close" && op != "destroy" {
		time.Sleep(e.slow)
	}
	if e.fail == nil {
		return nil
	}
	return e.fail(op)
}

func (e *engine) Push(ctx context.Context, jobs []duly.Job) ([]duly.PushResult, error) {
	if e.push != nil {
		e.push(jobs)
	}
	if err := e.failing("push"); err != nil {
		return nil, err
	}
	return e.Engine.Push(ctx, jobs)
}

func (e *engine) Reserve(ctx context.Context, p duly.ReserveParams) ([]duly.Delivery, error) {
	if err := e.failing("reserve"); err != nil {
		return nil, err
	}
	ds, err := e.Engine.Reserve(ctx, p)
	for i := range ds {
		if e.answer != nil {
			e.answer(&ds[i])
		}
	}
	return ds, err
}

func (e *engine) Settle(ctx context.Context, ns string, outcomes []duly.SettleRequest) ([]error, error) {
	if err := e.failing("settle"); err != nil {
		return nil, err
	}
	return e.Engine.Settle(ctx, ns, outcomes)
}

func (e *engine) Destroy(ctx context.Context, q duly.QueueRef) error {
	if err := e.failing("destroy"); err != nil {
		return err
	}
	stats, err := e.Stats(ctx, q)
	if err != nil {
		return err
	}
	e.mu.Lock()
	e.stats[suffix(q.Name)] = stats
	e.mu.Unlock()
	return e.Engine.Destroy(ctx, q)
}

// suffix returns the part of a queue's name behind the measurement's name.
func suffix(name string) string {
	_, rest, _ := strings.Cut(strings.TrimPrefix(name, Prefix), "-")
	return rest
}

// Close leaves the model open, so that its jobs survive like those of a closed file.
func (e *engine) Close() error {
	e.closed++
	return e.failing("close")
}

// measure runs a Config in a bubble on e, with small loads.
func measure(t *testing.T, e *engine, cfg Config, check func(t *testing.T, r *Report, err error)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg.Open = e.open
		or(&cfg.Load.Jobs, 1000)
		or(&cfg.Load.Rate, 100)
		or(&cfg.Repeat, 1)
		r, err := Run(t.Context(), cfg)
		check(t, r, err)
		left, lerr := e.Engine.Queues(t.Context(), cfg.Namespace, duly.PageParams{})
		if lerr != nil || len(left.Names) != 0 {
			t.Errorf("queues are left: %v, %v", left.Names, lerr)
		}
		left, lerr = e.topicCalls.Topics(t.Context(), cfg.Namespace, duly.PageParams{})
		if lerr != nil || len(left.Names) != 0 {
			t.Errorf("topics are left: %v, %v", left.Names, lerr)
		}
		if e.opened != e.closed {
			t.Errorf("opened %d times, closed %d times", e.opened, e.closed)
		}
		e.Engine.Close()
	})
}

func TestEveryPhaseDoesItsJobsAndLeavesNothing(t *testing.T) {
	t.Parallel()
	e := newEngine()
	e.slow = time.Millisecond // without it, no time passes in the synctest bubble
	cfg := Config{Namespace: "shop", Repeat: 2, Kinds: []Kind{Plain}, Batches: []int{10}}
	measure(t, e, cfg, func(t *testing.T, r *Report, err error) {
		if err != nil {
			t.Fatal(err)
		}
		var got []Phase
		for _, p := range r.Phases {
			got = append(got, p.Phase)
			if p.Life != nil {
				continue // this phase has a separate test
			}
			if p.Jobs != 1000 || p.Runs != 2 || p.Cut != 0 || p.PerSecond <= 0 || p.Early != 0 || p.Behind != 0 ||
				p.Either != 0 {
				t.Errorf("%+v", p)
			}
			if l := p.Latency; (l == nil) != (p.Phase == Work) || l != nil && (l.Count < 20 || l.P50 > l.P99 || l.P99 > l.Max) {
				t.Errorf("%s has the latencies %+v", p.Phase, l)
			}
		}

		if !slices.Equal(got, Phases()) {
			t.Errorf("phases %v", got)
		}

		// Take and work used the jobs that push and single had left.
		if len(e.stats) != 2*4+1+3 {
			t.Errorf("used the queues %v", e.stats)
		}
		for _, q := range []string{"push-1", "push-2", "single-1", "single-2", "both-1", "both-2", "lateness-1",
			"lateness-2"} {
			if c := e.stats[q].Counters; c.Pushed != 1000 || c.Acked != 1000 || c.Stalled != 0 {
				t.Errorf("%s: %+v", q, c)
			}
		}
	})
}

func TestTakeAndWorkLoadTheirOwnJobsWithoutABacklog(t *testing.T) {
	t.Parallel()
	e := newEngine()
	e.slow = time.Millisecond
	measure(t, e, Config{Phases: []Phase{Take, Single, Work, Work}}, func(t *testing.T, r *Report, err error) {
		if err != nil {
			t.Fatal(err)
		}
		for q, acked := range map[string]int64{"take-1": 1000, "single-1": 1000, "work-1": 1000} {
			if c := e.stats[q].Counters; c.Pushed != 1000 || c.Acked != acked {
				t.Errorf("%s: %+v", q, c)
			}
		}
	})
}

func TestPushUsesBatchesAndSingleOneJobPerCall(t *testing.T) {
	t.Parallel()
	e := newEngine()
	e.slow = time.Millisecond
	var mu sync.Mutex
	calls := map[string][]int{}
	ids := map[string]bool{}
	e.push = func(jobs []duly.Job) {
		mu.Lock()
		defer mu.Unlock()
		q := suffix(jobs[0].Queue)
		calls[q] = append(calls[q], len(jobs))
		for _, j := range jobs {
			ids[j.ID] = true
			if !j.Made || len(j.Body) != 7 {
				t.Errorf("pushed %+v", j)
			}
		}
	}

	cfg := Config{Phases: []Phase{Push, Single}, Load: Load{Jobs: 250, Batch: 100, Goroutines: 10, Body: 7}}
	measure(t, e, cfg, func(t *testing.T, r *Report, err error) {
		if err != nil {
			t.Fatal(err)
		}
		if got := calls["push-1"]; len(got) != 3 || slices.Max(got) != 100 || slices.Min(got) != 50 {
			t.Errorf("push made calls of %v", got)
		}
		if got := calls["single-1"]; len(got) != 250 || slices.Max(got) != 1 {
			t.Errorf("single made %d calls", len(got))
		}
		if len(ids) != 500 {
			t.Errorf("%d IDs for 500 jobs", len(ids))
		}
		// Ten at a time, a millisecond each.
		if got := r.Phases[1]; got.Seconds != 0.025 || got.PerSecond != 10_000 || got.Latency.P50 > 1020 {
			t.Errorf("single: %+v, %+v", got, got.Latency)
		}
	})
}

func TestLatenessIsZeroOnAnExactClock(t *testing.T) {
	t.Parallel()
	for _, phase := range []Phase{Lateness, GroupLateness, TickLateness} {
		e := newEngine()
		cfg := Config{Phases: []Phase{phase}, Load: Load{Rate: 1000, Jobs: 3000}}
		measure(t, e, cfg, func(t *testing.T, r *Report, err error) {
			if err != nil {
				t.Fatal(phase, err)
			}
			got := r.Phases[0]
			if l := got.Latency; l.Count != 3000 || l.Min != 0 || l.Max != 0 {
				t.Errorf("%s: latency %+v", phase, l)
			}
			// The last job is due 2.999 s after the first.
			if got.Seconds < 2.9 || got.Seconds > 3.1 || got.Early != 0 {
				t.Errorf("%s: %+v", phase, got)
			}
		})
	}
}

func TestLatenessIncludesTheEnginesDelay(t *testing.T) {
	t.Parallel()
	e := newEngine()
	e.slow = 20 * time.Millisecond
	cfg := Config{Phases: []Phase{Lateness}, Load: Load{Rate: 10, Jobs: 20}}
	measure(t, e, cfg, func(t *testing.T, r *Report, err error) {
		if err != nil {
			t.Fatal(err)
		}
		// The Reserve that delivers a due job takes 20 ms.
		if l := r.Phases[0].Latency; l.Min < 20_000 || l.P50 > 45_000 {
			t.Errorf("lateness %+v", l)
		}
	})
}

func TestAnEarlyJobIsCounted(t *testing.T) {
	t.Parallel()
	e := newEngine()
	n := 0
	e.answer = func(d *duly.Delivery) {
		if n++; d.Due.After(d.PushedAt) && n%4 == 0 {
			d.Now = d.Due.Add(-time.Millisecond)
		}
	}
	cfg := Config{Phases: []Phase{Lateness}, Load: Load{Jobs: 40}}
	measure(t, e, cfg, func(t *testing.T, r *Report, err error) {
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Phases[0].Early; got != 10 {
			t.Errorf("%d early, want 10", got)
		}
	})
}

func TestTickLatenessCountsFromTheTick(t *testing.T) {
	t.Parallel()
	e := newEngine()
	n := 0
	e.answer = func(d *duly.Delivery) {
		if d.Headers[duly.HeaderTick] == "" {
			return // a comparison of the clocks
		}
		tick, err := time.Parse(time.RFC3339Nano, d.Headers[duly.HeaderTick])
		if err != nil {
			t.Error(err)
		}
		d.Due = tick.Add(time.Hour) // as if the run was pushed that late
		if n++; n%4 == 0 {
			d.Now = tick.Add(-time.Millisecond)
		}
	}
	cfg := Config{Phases: []Phase{TickLateness}, Load: Load{Rate: 30, Jobs: 100, Time: 3 * time.Second}}
	measure(t, e, cfg, func(t *testing.T, r *Report, err error) {
		if err != nil {
			t.Fatal(err)
		}
		// 30 schedules for 3 s.
		if got := r.Phases[0]; got.Jobs != 90 || got.Latency.Max != 0 || got.Early != 22 {
			t.Errorf("%+v, %+v, want 90 jobs, 22 of them early", got, got.Latency)
		}
	})
}

func TestTickLatenessFailsIfSchedulesAreLate(t *testing.T) {
	t.Parallel()
	e := newEngine()
	e.scheduleCalls = lateScheduler{e.scheduleCalls}
	measure(t, e, Config{Phases: []Phase{TickLateness}}, func(t *testing.T, _ *Report, err error) {
		if err == nil || !strings.Contains(err.Error(), "choose a lower rate") {
			t.Errorf("a measurement whose schedules lost ticks: %v", err)
		}
	})
}

// lateScheduler takes so long to store a schedule that its first ticks are over.
type lateScheduler struct{ duly.Scheduler }

func (s lateScheduler) PutSchedule(ctx context.Context, q duly.QueueRef, sch duly.Schedule) (duly.SchedulePut, error) {
	time.Sleep(time.Second)
	return s.Scheduler.PutSchedule(ctx, q, sch)
}

func TestARunEndsAtItsTimeLimit(t *testing.T) {
	t.Parallel()
	for _, p := range []Phase{Push, Single, Take, Work, Both} {
		t.Run(string(p), func(t *testing.T) {
			t.Parallel()
			e := newEngine()
			e.slow = 10 * time.Millisecond
			load := Load{Jobs: 5000, Time: 100 * time.Millisecond, Batch: 10, Callers: 2, Goroutines: 2, Concurrency: 2}
			measure(t, e, Config{Phases: []Phase{p}, Load: load}, func(t *testing.T, r *Report, err error) {
				if err != nil {
					t.Fatal(err)
				}
				got := r.Phases[0]
				if got.Cut != 1 || got.Jobs == 0 || got.Jobs >= 5000 || got.Seconds < 0.1 || got.Seconds > 0.2 {
					t.Errorf("%+v", got)
				}
			})
		})
	}
}

func TestLatenessPlansOnlyTheJobsOfItsTimeLimit(t *testing.T) {
	t.Parallel()
	cfg := Config{Phases: []Phase{Lateness}, Load: Load{Jobs: 1_000_000, Rate: 100, Time: 2 * time.Second}}
	measure(t, newEngine(), cfg, func(t *testing.T, r *Report, err error) {
		if err != nil || r.Phases[0].Jobs != 200 || r.Phases[0].Cut != 0 {
			t.Errorf("%+v, %v", r, err)
		}
	})
}
