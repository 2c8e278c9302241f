package worker_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/worker"
)

// always returns a function that fails the calls of these operations.
func always(err error, ops ...string) func(string) error {
	return func(op string) error {
		for _, o := range ops {
			if o == op {
				return err
			}
		}
		return nil
	}
}

var allOperations = []string{"reserve", "wait", "settle", "extend"}

func TestLostStoreIsReportedOnce(t *testing.T) {
	var lost, back atomic.Int32
	var away atomic.Int64 // nanoseconds for which the store was lost
	o := worker.Observer{
		StoreLost: func(error) { lost.Add(1) },
		StoreBack: func(after time.Duration) { back.Add(1); away.Store(int64(after)) },
	}
	bubble(t, worker.Config{Observer: o}, func(t *testing.T, r *rig) {
		r.Handle("q", sleeper(20*time.Second))
		r.push(1, duly.Job{ID: "a"})
		r.start()
		r.recorder.fail(always(duly.ErrUnavailable, allOperations...), nil)
		r.push(30, duly.Job{ID: "b"})
		advance(10 * time.Minute)
		calls := r.recorder.count("reserve") + r.recorder.count("wait") + r.recorder.count("settle")
		r.recorder.fail(nil, nil)
		advance(1100 * time.Millisecond)

		lasted := time.Duration(away.Load())
		if back.Load() != 1 || lasted < 9*time.Minute || lasted > 10*time.Minute+2*time.Second {
			t.Errorf("1 s after the store was back: reported %d times, lost for %v", back.Load(), lasted)
		}
		advance(10 * time.Minute)
		r.stop()

		if int(lost.Load()) != 1 || int(back.Load()) != 1 || len(r.recorder.settled) != 31 {
			t.Errorf("lost %d, back %d, settled %d", lost.Load(), back.Load(), len(r.recorder.settled))
		}
		if calls < 600 || calls > 3000 {
			t.Errorf("%d calls in ten minutes", calls)
		}
		log := r.log.String()
		if n, m := strings.Count(log, "store lost"), strings.Count(log, "store is back"); n != 1 || m != 1 {
			t.Errorf("logged %d and %d times:\n%s", n, m, log)
		}
	})
}

// The store counts as lost while one operation fails, even if another one succeeds.
func TestHalfLostStoreIsReportedOnce(t *testing.T) {
	var lost, back atomic.Int32
	o := worker.Observer{StoreLost: func(error) { lost.Add(1) }, StoreBack: func(time.Duration) { back.Add(1) }}
	bubble(t, worker.Config{Concurrency: 2, Observer: o}, func(t *testing.T, r *rig) {
		r.Handle("q", sleeper(time.Minute))
		r.push(2, duly.Job{})
		r.start()
		r.recorder.fail(always(duly.ErrFull, "settle"), nil)
		advance(time.Hour)

		if int(lost.Load()) != 1 || int(back.Load()) != 0 {
			t.Errorf("lost %d, back %d", lost.Load(), back.Load())
		}
		r.recorder.fail(nil, nil)
		advance(time.Minute)
		r.stop()

		if int(lost.Load()) != 1 || int(back.Load()) != 1 {
			t.Errorf("at the end: lost %d, back %d", lost.Load(), back.Load())
		}
		r.want("ack", "ack")
	})
}

// A store that answers no Extend stays lost while other calls succeed, as long as there are leases
// to extend. After it was back, that holds again.
func TestStoreThatExtendsNoLeaseStaysLost(t *testing.T) {
	var lost, back atomic.Int32
	o := worker.Observer{StoreLost: func(error) { lost.Add(1) }, StoreBack: func(time.Duration) { back.Add(1) }}
	bubble(t, worker.Config{Concurrency: 2, Lease: 5 * time.Minute, Observer: o}, func(t *testing.T, r *rig) {
		r.Handle("q", sleeper(10*time.Minute))
		r.Handle("short", sleeper(0))
		r.start()
		r.recorder.fail(always(duly.ErrUnavailable, "extend"), nil)
		for round := 1; round <= 2; round++ {
			r.push(1, duly.Job{})
			for range 4 {
				advance(time.Minute - time.Second)
				r.push(1, duly.Job{Queue: "short"})
				advance(time.Second - time.Millisecond)
				if int(back.Load()) != round-1 {
					t.Errorf("the store is back while no lease is extended; lost %d times", lost.Load())
				}
			}

			advance(2 * time.Minute) // the lease is over, so the worker extends no lease
			r.push(1, duly.Job{Queue: "short"})
			advance(time.Minute)
			if int(lost.Load()) != round || int(back.Load()) != round {
				t.Errorf("without a lease, round %d: lost %d, back %d", round, lost.Load(), back.Load())
			}
		}
		r.stop()
	})
}

// C4.38: the worker repeats a Settle whose answer was lost. It does not repeat an outcome
// that is answered with lease_lost.
func TestSettleWithALostAnswerIsRepeatedOnce(t *testing.T) {
	var answers []error
	o := worker.Observer{Settled: func(_ *worker.Delivery, _ duly.Settlement, err error) {
		answers = append(answers, err)
	}}
	bubble(t, worker.Config{Observer: o}, func(t *testing.T, r *rig) {
		var lost atomic.Bool
		r.recorder.fail(nil, func(op string) error {
			if op == "settle" && lost.CompareAndSwap(false, true) {
				return duly.ErrUnavailable
			}
			return nil
		})
		r.Handle("q", sleeper(0))
		r.push(1, duly.Job{})
		r.start()
		advance(time.Hour)
		r.stop()

		if r.recorder.count("settle") != 2 || len(answers) != 1 || !errors.Is(answers[0], duly.ErrLeaseLost) {
			t.Errorf("%d calls, answers %v", r.recorder.count("settle"), answers)
		}
		log := r.log.String()
		if n := strings.Count(log, "outcomes refused"); n != 1 || !strings.Contains(log, "count=1") {
			t.Errorf("the log reports refused outcomes %d times:\n%s", n, log)
		}
	})
}

func TestReserveWithALostAnswerIsNotRepeated(t *testing.T) {
	bubble(t, worker.Config{}, func(t *testing.T, r *rig) {
		var lost atomic.Bool
		r.recorder.fail(nil, func(op string) error {
			if op == "reserve" && lost.CompareAndSwap(false, true) {
				return duly.ErrUnavailable
			}
			return nil
		})

		r.Handle("q", sleeper(0))
		r.push(1, duly.Job{ID: "a"})
		r.start()
		r.push(1, duly.Job{ID: "b"})
		advance(time.Minute)
		r.stop()
		r.want("ack")
		if len(r.memory.leased) != 1 {
			t.Errorf("%d jobs have a lease without a handler, want 1", len(r.memory.leased))
		}
	})
}

// refusingSettle is an engine that fails every Settle with a bad outcome.
type refusingSettle struct {
	*memoryEngine
	bad func(duly.SettleRequest) bool
}

func (c refusingSettle) Settle(ctx context.Context, ns string, outcomes []duly.SettleRequest) ([]error, error) {
	for _, o := range outcomes {
		if c.bad(o) {
			return nil, duly.ErrInternal
		}
	}
	return c.memoryEngine.Settle(ctx, ns, outcomes)
}

func TestOutcomeThatAlwaysFailsDelaysNoOther(t *testing.T) {
	bubble(t, worker.Config{Concurrency: 40}, func(t *testing.T, r *rig) {
		isBad := func(o duly.SettleRequest) bool { return string(o.Result) == "bad" }
		r.recorder.Engine = refusingSettle{r.memory, isBad}
		r.Handle("q", func(_ context.Context, d *worker.Delivery) error {
			sleep(time.Second)
			if d.ID == "7" {
				return d.SetResult([]byte("bad"))
			}
			return nil
		})
		r.push(200, duly.Job{})
		r.start()
		advance(time.Hour)
		if n := len(r.outcomes()); n != 199 {
			t.Errorf("%d outcomes were settled, want 199", n)
		}
		r.stop()
	})
}

// partialSettle is an engine that is unavailable for some outcomes of a call.
type partialSettle struct {
	*memoryEngine
	left *atomic.Int64
}

func (p partialSettle) Settle(ctx context.Context, ns string, outcomes []duly.SettleRequest) ([]error, error) {
	answers := make([]error, len(outcomes))
	for i := range outcomes {
		if p.left.Add(-1) >= 0 {
			answers[i] = duly.ErrUnavailable
			continue
		}
		one, _ := p.memoryEngine.Settle(ctx, ns, outcomes[i:i+1])
		answers[i] = one[0]
	}
	return answers, nil
}

func TestOnlyFailedOutcomesAreRepeated(t *testing.T) {
	var ok, failed int
	o := worker.Observer{Settled: func(_ *worker.Delivery, _ duly.Settlement, err error) {
		if err == nil {
			ok++
		} else {
			failed++
		}
	}}
	bubble(t, worker.Config{Concurrency: 10, Observer: o}, func(t *testing.T, r *rig) {
		var left atomic.Int64
		left.Store(25)
		r.recorder.Engine = partialSettle{r.memory, &left}
		r.Handle("q", sleeper(time.Second))
		r.push(10, duly.Job{})
		r.start()
		advance(time.Minute)
		r.stop()

		if ok != 10 || failed != 0 {
			t.Errorf("settled %d, refused %d", ok, failed)
		}
	})
}

func TestPermanentErrorEndsRun(t *testing.T) {
	for _, op := range allOperations {
		t.Run(op, func(t *testing.T) {
			bubble(t, worker.Config{}, func(t *testing.T, r *rig) {
				r.Handle("q", sleeper(15*time.Second))
				if op != "wait" {
					r.push(1, duly.Job{})
				}
				r.recorder.fail(always(duly.ErrForbidden, op), nil)

				begun := time.Now()
				err := r.Run(t.Context())
				if !errors.Is(err, duly.ErrForbidden) || time.Since(begun) > 16*time.Second {
					t.Errorf("after %v: %v", time.Since(begun), err)
				}
				if op == "extend" {
					r.want("ack")
				}
			})
		})
	}
}

// hangingReserve is an engine that answers no Reserve.
type hangingReserve struct{ *memoryEngine }

func (hangingReserve) Reserve(ctx context.Context, _ duly.ReserveParams) ([]duly.Delivery, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestHangingCallMeansALostStore(t *testing.T) {
	var lost int
	o := worker.Observer{StoreLost: func(error) { lost++ }}
	bubble(t, worker.Config{CallTimeout: 5 * time.Second, Observer: o}, func(t *testing.T, r *rig) {
		r.recorder.Engine = hangingReserve{r.memory}
		r.Handle("q", sleeper(0))
		r.start()
		advance(time.Minute)
		if n := r.recorder.count("reserve"); n < 8 || n > 13 || lost != 1 {
			t.Errorf("%d calls in a minute, lost %d times", n, lost)
		}
		if took := r.stop(); took > 5*time.Second {
			t.Errorf("stopped after %v", took)
		}
		if strings.Contains(r.log.String(), "store is back") {
			t.Errorf("the log says that the store is back:\n%s", r.log)
		}
	})
}
