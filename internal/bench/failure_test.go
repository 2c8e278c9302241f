package bench

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

func TestTheBacklogIsInTheMeasuredQueue(t *testing.T) {
	t.Parallel()
	e := newEngine()
	e.slow = time.Millisecond
	cfg := Config{
		Phases: []Phase{Push, Take, Work, Lateness}, Repeat: 2, Load: Load{Jobs: 300},
		Backlog: Backlog{Ready: 500, Delayed: 400, Reopen: true},
	}
	measure(t, e, cfg, func(t *testing.T, r *Report, err error) {
		if err != nil {
			t.Fatal(err)
		}
		if e.opened != 2 {
			t.Errorf("opened %d times, want 2", e.opened)
		}

		s := e.stats["backlog"]
		// Two pushes of 300 jobs supply both takes. The works need as many, and their workers took
		// some jobs in addition.
		over := s.Counters.Acked - 1200
		if over < 0 || s.Counters.Pushed < 2100 || s.Counters.Pushed > 2100+over || s.Sizes.Delayed != 400 ||
			s.Sizes.Ready > 500 {
			t.Errorf("backlog: %+v", s)
		}
		if s := e.stats["lateness-1"]; s.Counters.Acked != 300 {
			t.Errorf("lateness: %+v", s)
		}

		for _, p := range r.Phases {
			if p.Jobs < 300 || p.Early != 0 {
				t.Errorf("%+v", p)
			}
		}
	})
}

func TestTheDelayedBacklogIsDueFromTomorrowOn(t *testing.T) {
	t.Parallel()
	e := newEngine()
	var low, high time.Duration
	e.push = func(jobs []duly.Job) {
		for _, j := range jobs {
			if j.Delay > 0 && (low == 0 || j.Delay < low) {
				low = j.Delay
			}
			high = max(high, j.Delay)
		}
	}
	cfg := Config{Phases: []Phase{Push}, Load: Load{Jobs: 10, Callers: 1}, Backlog: Backlog{Delayed: 1000}}
	measure(t, e, cfg, func(t *testing.T, _ *Report, err error) {
		if err != nil || low != 24*time.Hour || high != 24*time.Hour+999*time.Millisecond {
			t.Errorf("delays of %s to %s, %v", low, high, err)
		}
	})
}

// failOnce returns err for the nth call of an operation.
func failOnce(op string, nth int64, err error) func(string) error {
	var calls atomic.Int64
	return func(got string) error {
		if got == op && calls.Add(1) == nth {
			return err
		}
		return nil
	}
}

func TestAnErrorNamesItsPhaseAndKeepsWhatWasMeasured(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		fail  func(string) error
		phase string
		done  int
	}{
		"push":    {failOnce("push", 5, contract.Errorf(duly.CodeFull, "no room")), "push", 0},
		"reserve": {failOnce("reserve", 1, contract.Errorf(duly.CodeFull, "no room")), "take", 1},
		"ack":     {failOnce("settle", 1, contract.Errorf(duly.CodeFull, "no room")), "take", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEngine()
			e.fail = tt.fail
			measure(t, e, Config{Phases: []Phase{Push, Take}}, func(t *testing.T, r *Report, err error) {
				if !errors.Is(err, duly.ErrFull) || !strings.HasPrefix(err.Error(), tt.phase+": ") ||
					strings.Count(err.Error(), tt.phase+": ") != 1 {
					t.Errorf("got %v", err)
				}
				if r == nil || len(r.Phases) != tt.done {
					t.Errorf("report %+v", r)
				}
			})
		})
	}
}

func TestAnErrorWhileLoadingNamesTheLoading(t *testing.T) {
	t.Parallel()
	e := newEngine()
	e.fail = failOnce("push", 5, contract.Errorf(duly.CodeFull, "no room"))
	measure(t, e, Config{Phases: []Phase{Take}}, func(t *testing.T, _ *Report, err error) {
		if !errors.Is(err, duly.ErrFull) || !strings.HasPrefix(err.Error(), "take: loading: ") {
			t.Errorf("got %v", err)
		}
	})
}

func TestTakeFailsWhenTheQueueIsEmptyTooSoon(t *testing.T) {
	t.Parallel()
	e := newEngine()
	e.push = func(jobs []duly.Job) {
		jobs[0].Delay = time.Hour // one job of each batch is not delivered in time
	}
	measure(t, e, Config{Phases: []Phase{Take}}, func(t *testing.T, _ *Report, err error) {
		if err == nil || !strings.Contains(err.Error(), "after 990 of its 1000 jobs") {
			t.Errorf("got %v", err)
		}
	})
}

func TestLatenessFailsWhenJobsAreNotDelivered(t *testing.T) {
	t.Parallel()
	e := newEngine()
	e.push = func(jobs []duly.Job) {
		if strings.Contains(jobs[0].Queue, "lateness") {
			jobs[0].Delay = time.Hour
		}
	}
	cfg := Config{Phases: []Phase{Lateness}, Load: Load{Jobs: 100, Rate: 100}}
	measure(t, e, cfg, func(t *testing.T, _ *Report, err error) {
		if err == nil || !strings.Contains(err.Error(), "10 of 100 jobs were not delivered 30s after") {
			t.Errorf("got %v", err)
		}
	})
}

func TestAnInterruptEndsEveryPhaseAndCleansUp(t *testing.T) {
	t.Parallel()
	for _, p := range Phases() {
		t.Run(string(p), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := newEngine()
				e.slow = time.Millisecond
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(1500*time.Millisecond, cancel)
				load := Load{Jobs: 1000, Batch: 1, Callers: 1, Goroutines: 1, Concurrency: 1, Time: time.Hour, Rate: 10}
				start := time.Now()
				r, err := Run(ctx, Config{Open: e.open, Phases: []Phase{Push, p}, Load: load, Repeat: 1})
				if !errors.Is(err, context.Canceled) || r == nil {
					t.Errorf("got %+v, %v", r, err)
				}
				if d := time.Since(start); d > 3*time.Second {
					t.Errorf("ended after %s", d)
				}
				if left, _ := e.Queues(t.Context(), "", duly.PageParams{}); len(left.Names) != 0 || e.closed != 1 {
					t.Errorf("left behind: %v; closed %d times", left.Names, e.closed)
				}
				e.Engine.Close()
			})
		})
	}
}

func TestRemovingAQueueIsRetriedAndItsFailureReported(t *testing.T) {
	t.Parallel()
	e := newEngine()
	e.fail = failOnce("destroy", 1, contract.Errorf(duly.CodeUnavailable, "no answer"))
	measure(t, e, Config{Phases: []Phase{Push}}, func(t *testing.T, _ *Report, err error) {
		if err != nil {
			t.Error(err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		e.fail = func(op string) error {
			if op == "destroy" {
				return contract.Errorf(duly.CodeForbidden, "not yours")
			}
			return nil
		}

		_, err := Run(t.Context(), Config{Open: e.open, Phases: []Phase{Push}, Load: Load{Jobs: 10}, Repeat: 1})
		if !errors.Is(err, duly.ErrForbidden) || !strings.Contains(err.Error(), "can't remove queue default/"+Prefix) {
			t.Errorf("got %v", err)
		}
		e.Engine.Close()
	})
}

func TestABadConfigOpensNothing(t *testing.T) {
	t.Parallel()
	e := newEngine()
	if _, err := Run(t.Context(), Config{Open: e.open, Repeat: -1}); !errors.Is(err, duly.ErrInvalid) || e.opened != 0 {
		t.Errorf("opened %d times, %v", e.opened, err)
	}
}

func TestProgressReportsEachStepInOrder(t *testing.T) {
	t.Parallel()
	e := newEngine()
	e.slow = 10 * time.Millisecond
	var seen []Progress
	cfg := Config{
		Phases: []Phase{Take}, Repeat: 2, Load: Load{Jobs: 200, Batch: 1, Callers: 2, Time: time.Minute},
		Backlog:  Backlog{Ready: 200},
		Progress: func(p Progress) { seen = append(seen, p) },
	}
	measure(t, e, cfg, func(t *testing.T, _ *Report, err error) {
		if err != nil {
			t.Fatal(err)
		}
		type step struct {
			phase   Phase
			run     int
			loading bool
		}

		var steps []step
		var last Progress
		for _, p := range seen {
			s := step{p.Phase, p.Run, p.Loading}
			if len(steps) == 0 || steps[len(steps)-1] != s {
				steps = append(steps, s)
			} else if p.Done < last.Done {
				t.Errorf("%+v after %+v", p, last)
			}
			if p.Done > p.Total || p.Total != 200 {
				t.Errorf("%+v", p)
			}
			last = p
		}

		want := []step{{"", 0, true}, {Take, 1, true}, {Take, 1, false}, {Take, 2, true}, {Take, 2, false}}
		if !slices.Equal(steps, want) {
			t.Errorf("steps %v", steps)
		}
	})
}

func TestLatenciesUseTheEnginesClock(t *testing.T) {
	t.Parallel()
	e := newEngine()
	const ahead = 90 * time.Minute
	e.answer = func(d *duly.Delivery) {
		for _, at := range []*time.Time{&d.Now, &d.Due, &d.PushedAt, &d.LeaseEnd} {
			*at = at.Add(ahead)
		}
	}
	cfg := Config{Phases: []Phase{Lateness}, Load: Load{Jobs: 50}}
	measure(t, e, cfg, func(t *testing.T, r *Report, err error) {
		if err != nil {
			t.Fatal(err)
		}
		got := r.Phases[0]
		if got.Early != 0 || got.Either == 0 || got.Either > 500 || got.Latency.Max > 1000 || got.Latency.Min < 0 {
			t.Errorf("%+v, %+v", got, got.Latency)
		}
	})
}
