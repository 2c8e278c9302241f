package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/worker"
)

func TestIdleWorkerBlocksInOneWait(t *testing.T) {
	bubble(t, worker.Config{}, func(t *testing.T, r *rig) {
		r.Handle("q", sleeper(0))
		r.start()
		advance(30 * time.Second)
		if r.recorder.count("wait") != 1 || r.recorder.count("reserve") != 1 {
			t.Errorf("calls in 30 s: %v", r.recorder.calls)
		}
		advance(time.Hour)
		if n := r.recorder.count("wait"); n > 61 || r.recorder.count("reserve") != 1 {
			t.Errorf("calls in an hour: %v", r.recorder.calls)
		}
		r.stop()
	})
}

func TestOneReserveFillsAllFreeSlots(t *testing.T) {
	bubble(t, worker.Config{Concurrency: 64}, func(t *testing.T, r *rig) {
		r.Handle("q", sleeper(time.Hour))
		r.push(1000, duly.Job{})
		r.start()
		if !slices.Equal(r.recorder.sent("reserve"), []int{64}) {
			t.Errorf("reserved %v, want one call for 64", r.recorder.sent("reserve"))
		}
		advance(3*time.Hour - time.Second)
		// In an hour, each slot needs one Reserve for the first jobs to end, and two for the
		// others.
		if n := r.recorder.count("reserve"); n > 1+3*4 {
			t.Errorf("%d calls for 192 jobs that end together", n)
		}
		r.stop()
	})
}

// With a backlog, the worker has two Reserves in flight. Together, the two Reserves ask for no
// more jobs than there are free slots.
func TestBacklogHasTwoReservesInFlight(t *testing.T) {
	var mu sync.Mutex
	var inFlight, most int
	bubble(t, worker.Config{Concurrency: 64}, func(t *testing.T, r *rig) {
		count := func(n int) func(op string) error {
			return func(op string) error {
				if op == "reserve" {
					mu.Lock()
					inFlight += n
					most = max(most, inFlight)
					mu.Unlock()
					time.Sleep(time.Second)
				}
				return nil
			}
		}
		r.recorder.fail(count(1), count(-1))
		r.Handle("q", sleeper(0))
		r.push(64*6+1, duly.Job{})
		r.start()
		advance(time.Minute)

		// The first call asks for all slots. The last one also does, because it comes after a call
		// that found fewer jobs than it asked for. The other calls ask for half of the slots, or
		// for the few free ones.
		sizes := r.recorder.sent("reserve")
		mu.Lock()
		most := most
		mu.Unlock()
		if most != 2 || sizes[0] != 64 || slices.Max(sizes[1:len(sizes)-1]) != 32 || len(sizes) > 16 {
			t.Errorf("%d Reserves were in flight, for %v, want 2 for 32 each", most, sizes)
		}
		if r.recorder.count("wait") != 1 {
			t.Errorf("%d waits", r.recorder.count("wait"))
		}
		r.stop()
		if len(r.recorder.settled) != 64*6+1 {
			t.Errorf("%d jobs were settled", len(r.recorder.settled))
		}
	})
}

func TestLeasedJobsStartAtOnce(t *testing.T) {
	var running, most atomic.Int64
	o := worker.Observer{Finished: func(worker.Finished) { running.Add(-1) }}
	bubble(t, worker.Config{Concurrency: 7, Observer: o}, func(t *testing.T, r *rig) {
		r.Handle("q", func(_ context.Context, d *worker.Delivery) error {
			most.Store(max(most.Load(), running.Add(1)))
			if time.Since(d.Now) != 0 {
				t.Errorf("job %s was leased %v before it started", d.ID, time.Since(d.Now))
			}
			time.Sleep(time.Second)
			return nil
		})

		r.push(100, duly.Job{})
		r.start()
		advance(time.Minute)
		r.stop()

		if most.Load() != 7 || len(r.recorder.settled) != 100 {
			t.Errorf("%d ran at once, %d were settled", most.Load(), len(r.recorder.settled))
		}
	})
}

func TestOutcomesGatherDuringASettle(t *testing.T) {
	bubble(t, worker.Config{Concurrency: 100}, func(t *testing.T, r *rig) {
		r.recorder.fail(func(op string) error {
			if op == "settle" {
				time.Sleep(time.Second)
			}
			return nil
		}, nil)
		r.Handle("q", func(_ context.Context, d *worker.Delivery) error {
			var n time.Duration
			fmt.Sscan(d.ID, &n)
			time.Sleep(n * time.Millisecond)
			return nil
		})

		r.push(100, duly.Job{})
		r.start()
		advance(time.Minute)
		r.stop()

		if got := r.recorder.sent("settle"); !slices.Equal(got, []int{1, 99}) {
			t.Errorf("settled %v, want 1, and then the 99 that ended meanwhile", got)
		}
	})
}

// A slow store slows the worker down: at most twice as many outcomes as slots are unsettled.
func TestSlowSettleLimitsUnsettledOutcomes(t *testing.T) {
	bubble(t, worker.Config{Concurrency: 10, CallTimeout: time.Hour}, func(t *testing.T, r *rig) {
		stuck := make(chan struct{})
		r.recorder.fail(func(op string) error {
			if op == "settle" {
				<-stuck
			}
			return nil
		}, nil)
		var handled atomic.Int64
		r.Handle("q", func(context.Context, *worker.Delivery) error { handled.Add(1); return nil })
		r.push(1000, duly.Job{})
		r.start()
		advance(time.Minute)

		if n := handled.Load(); n != 30 {
			t.Errorf("%d jobs were handled while none was settled, want 30", n)
		}
		close(stuck)
		synctest.Wait()
		r.stop()

		if n := handled.Load(); n != 1000 || len(r.recorder.settled) != 1000 {
			t.Errorf("handled %d, settled %d", n, len(r.recorder.settled))
		}
	})
}

func TestSettleStaysWithinItsBounds(t *testing.T) {
	bubble(t, worker.Config{Concurrency: 3000}, func(t *testing.T, r *rig) {
		result := make([]byte, duly.MaxResult)
		r.Handle("q", func(_ context.Context, d *worker.Delivery) error {
			if d.ID[0] == 'b' {
				d.SetResult(result)
			}
			time.Sleep(time.Second)
			return nil
		})

		r.push(1500, duly.Job{ID: "a"})
		r.push(300, duly.Job{ID: "b"})
		r.start()
		advance(time.Minute)
		r.stop()
		for _, s := range r.recorder.settled { // the engine checks the size of each call
			if s.err != nil {
				t.Errorf("settling: %v", s.err)
			}
		}
		sizes := r.recorder.sent("settle")
		if len(r.recorder.settled) != 1800 || slices.Max(sizes) > duly.MaxBatch || len(sizes) < 3 {
			t.Errorf("settled %d in calls of %v", len(r.recorder.settled), sizes)
		}
	})
}

// C4.95: queues with a backlog take turns.
func TestQueuesShareTheSlots(t *testing.T) {
	if got := servedOfTwo(t, worker.Config{Concurrency: 1}); got[0] == got[1] || got[2] == got[3] {
		t.Errorf("served %v, want both queues in turn", got)
	}
}

func TestStrictOrderServesTheFirstQueueFirst(t *testing.T) {
	got := servedOfTwo(t, worker.Config{Concurrency: 1, StrictOrder: true})
	if !slices.Equal(got, []string{"first", "first", "second", "second"}) {
		t.Errorf("served %v", got)
	}
}

// servedOfTwo handles two jobs of each of two queues, and returns the queues in their order.
func servedOfTwo(t *testing.T, cfg worker.Config) (order []string) {
	t.Helper()
	bubble(t, cfg, func(t *testing.T, r *rig) {
		h := func(_ context.Context, d *worker.Delivery) error { order = append(order, d.Queue); return nil }
		r.Handle("first", h)
		r.Handle("second", h)
		r.push(2, duly.Job{Queue: "second"})
		r.push(2, duly.Job{Queue: "first"})
		r.start()
		r.stop()
	})
	return order
}

func TestStrictOrderRefusesAWeight(t *testing.T) {
	t.Parallel()
	w := worker.New(newMemoryEngine(), worker.Config{StrictOrder: true})
	w.Handle("q", sleeper(0), worker.Weight(2))
	if err := w.Run(t.Context()); !errors.Is(err, duly.ErrInvalid) || !strings.Contains(err.Error(), "StrictOrder") {
		t.Errorf("got %v", err)
	}
}

func TestWeightsShareTheSlots(t *testing.T) {
	var heavy, light int
	bubble(t, worker.Config{Concurrency: 1}, func(t *testing.T, r *rig) {
		r.Handle("light", func(context.Context, *worker.Delivery) error {
			light++
			time.Sleep(time.Second)
			return nil
		})
		r.Handle("heavy", func(context.Context, *worker.Delivery) error {
			heavy++
			time.Sleep(time.Second)
			return nil
		}, worker.Weight(3))
		r.push(1000, duly.Job{Queue: "light"})
		r.push(1000, duly.Job{Queue: "heavy"})
		r.start()
		advance(399500 * time.Millisecond)
		r.stop()

		if heavy != 300 || light != 100 {
			t.Errorf("handled %d and %d, want 300 and 100", heavy, light)
		}
	})
}

// eagerWait is an engine whose Wait always reports a job.
type eagerWait struct{ *memoryEngine }

func (eagerWait) Wait(context.Context, duly.WaitParams) (bool, error) { return true, nil }

func TestWorkerPausesIfReserveFindsNothingAfterWait(t *testing.T) {
	bubble(t, worker.Config{}, func(t *testing.T, r *rig) {
		r.recorder.Engine = eagerWait{r.memory}
		r.Handle("q", sleeper(0))
		r.start()
		advance(time.Minute)
		if n := r.recorder.count("reserve"); n > 150 {
			t.Errorf("%d calls in a minute", n)
		}
		r.push(1, duly.Job{})
		advance(time.Second)
		r.stop()
		r.want("ack")
	})
}

func TestPausesAreShortAgainAfterAJob(t *testing.T) {
	bubble(t, worker.Config{}, func(t *testing.T, r *rig) {
		r.recorder.Engine = eagerWait{r.memory}
		r.Handle("q", sleeper(0))
		r.start()
		advance(time.Hour) // now the pauses have reached their full length
		r.push(1, duly.Job{})
		for r.recorder.count("settle") == 0 {
			advance(time.Millisecond)
		}
		before := r.recorder.count("reserve")
		advance(0)

		if n := r.recorder.count("reserve") - before; n > 10 {
			t.Errorf("%d calls at once", n)
		}
		advance(100 * time.Millisecond)

		if n := r.recorder.count("reserve") - before; n < 1 {
			t.Error("the pauses are as long as before")
		}
		r.stop()
		r.want("ack")
	})
}

func TestRunReportsEveryFault(t *testing.T) {
	t.Parallel()
	w := worker.New(nil, worker.Config{
		Namespace: "a/b", Concurrency: -1, Lease: time.Millisecond, Margin: -1, MaxHold: -2, Drain: -2, CallTimeout: -1,
	})
	w.Use(nil)
	w.Handle("", nil)
	w.Handle("twice", sleeper(0), worker.Timeout(0), worker.Weight(0), worker.With(nil))
	w.Handle("twice", sleeper(0))

	err := w.Run(t.Context())
	var e *duly.Error
	if !errors.As(err, &e) || e.Code != duly.CodeInvalid {
		t.Fatalf("got %v", err)
	}
	var fields []string
	for _, f := range e.Fields {
		fields = append(fields, f.Field)
	}
	want := []string{"namespace", "concurrency", "lease", "margin", "max_hold", "drain", "call_timeout", "engine",
		"middleware", "queue", "handler", "middleware", "timeout", "weight", "queue"}
	if !slices.Equal(fields, want) {
		t.Errorf("the error names %q, want %q: %v", fields, want, err)
	}
}

func TestRunRefusesNoQueuesAndTooMany(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, duly.MaxReserveQueues + 1} {
		w := worker.New(newMemoryEngine(), worker.Config{})
		for i := range n {
			w.Handle(fmt.Sprint("q", i), sleeper(0))
		}
		if err := w.Run(t.Context()); !errors.Is(err, duly.ErrInvalid) {
			t.Errorf("%d queues: %v", n, err)
		}
	}
}

func TestWorkerRunsOnce(t *testing.T) {
	bubble(t, worker.Config{}, func(t *testing.T, r *rig) {
		r.Handle("q", sleeper(0))
		r.start()
		if err := r.Run(t.Context()); !errors.Is(err, duly.ErrInvalid) {
			t.Errorf("a second Run: %v", err)
		}
		defer func() {
			if recover() == nil {
				t.Error("Handle after Run did not panic")
			}
			r.stop()
		}()
		r.Handle("p", sleeper(0))
	})
}

// foreignQueue is an engine that also delivers jobs of a queue that the worker did not ask for.
type foreignQueue struct{ *memoryEngine }

func (s foreignQueue) Reserve(ctx context.Context, p duly.ReserveParams) ([]duly.Delivery, error) {
	p.Queues = append(slices.Clone(p.Queues), "strange")
	return s.memoryEngine.Reserve(ctx, p)
}

func TestWorkerReleasesAJobOfAnotherQueue(t *testing.T) {
	bubble(t, worker.Config{}, func(t *testing.T, r *rig) {
		r.recorder.Engine = foreignQueue{r.memory}
		r.Handle("q", sleeper(0), worker.Weight(1))
		r.push(1, duly.Job{Queue: "strange"})
		r.push(1, duly.Job{})
		r.start()
		r.stop()
		if got := r.outcomes(); len(got) != 2 || !slices.Contains(got, "release") || !slices.Contains(got, "ack") {
			t.Errorf("settled %q", got)
		}
	})
}
