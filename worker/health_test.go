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

var everything = []string{"reserve", "wait", "settle", "extend"}

func TestALostStoreIsToldOnceAndFoundAgain(t *testing.T) {
	var lost, back atomic.Int32
	var gone atomic.Int64
	o := worker.Observer{
		StoreLost: func(error) { lost.Add(1) },
		StoreBack: func(after time.Duration) { back.Add(1); gone.Store(int64(after)) },
	}
	bubble(t, worker.Config{Observer: o}, func(t *testing.T, r *rig) {
		r.Handle("q", sleeper(20*time.Second))
		r.push(1, duly.Job{ID: "a"})
		r.start()
		r.tap.fail(always(duly.ErrUnavailable, everything...), nil)
		r.push(30, duly.Job{ID: "b"})
		pass(10 * time.Minute)
		calls := r.tap.count("reserve") + r.tap.count("wait") + r.tap.count("settle")
		r.tap.fail(nil, nil)
		pass(1100 * time.Millisecond)
		if back.Load() != 1 || time.Duration(gone.Load()) < 9*time.Minute || time.Duration(gone.Load()) > 10*time.Minute+2*time.Second {
			t.Errorf("%d s after the store was back: reported %d times, gone for %v", 1, back.Load(), time.Duration(gone.Load()))
		}
		pass(10 * time.Minute)
		r.stop()
		if int(lost.Load()) != 1 || int(back.Load()) != 1 || len(r.tap.settled) != 31 {
			t.Errorf("lost %d, back %d, settled %d", lost.Load(), back.Load(), len(r.tap.settled))
		}
		if calls < 600 || calls > 3000 {
			t.Errorf("%d calls in ten minutes", calls)
		}
		if n, m := strings.Count(r.log.String(), "store lost"), strings.Count(r.log.String(), "store is back"); n != 1 || m != 1 {
			t.Errorf("logged %d and %d times:\n%s", n, m, r.log)
		}
	})
}

// While one kind of call fails and another does not, the store is lost once.
func TestAStoreThatIsHalfLostDoesNotFlap(t *testing.T) {
	var lost, back atomic.Int32
	o := worker.Observer{StoreLost: func(error) { lost.Add(1) }, StoreBack: func(time.Duration) { back.Add(1) }}
	bubble(t, worker.Config{Concurrency: 2, Observer: o}, func(t *testing.T, r *rig) {
		r.Handle("q", sleeper(time.Minute))
		r.push(2, duly.Job{})
		r.start()
		r.tap.fail(always(duly.ErrFull, "settle"), nil)
		pass(time.Hour)
		if int(lost.Load()) != 1 || int(back.Load()) != 0 {
			t.Errorf("lost %d, back %d", lost.Load(), back.Load())
		}
		r.tap.fail(nil, nil)
		pass(time.Minute)
		r.stop()
		if int(lost.Load()) != 1 || int(back.Load()) != 1 {
			t.Errorf("at the end: lost %d, back %d", lost.Load(), back.Load())
		}
		r.want("ack", "ack")
	})
}

// A store that takes no extensions stays lost while other calls go well, as long
// as there are leases to extend. So it does the next time.
func TestAStoreThatExtendsNoLeaseStaysLost(t *testing.T) {
	var lost, back atomic.Int32
	o := worker.Observer{StoreLost: func(error) { lost.Add(1) }, StoreBack: func(time.Duration) { back.Add(1) }}
	bubble(t, worker.Config{Concurrency: 2, Lease: 5 * time.Minute, Observer: o}, func(t *testing.T, r *rig) {
		r.Handle("q", sleeper(10*time.Minute))
		r.Handle("short", sleeper(0))
		r.start()
		r.tap.fail(always(duly.ErrUnavailable, "extend"), nil)
		for round := 1; round <= 2; round++ {
			r.push(1, duly.Job{})
			for range 4 {
				pass(time.Minute - time.Second)
				r.push(1, duly.Job{Queue: "short"})
				pass(time.Second - time.Millisecond)
				if int(back.Load()) != round-1 {
					t.Errorf("it is back while no lease is extended; lost %d times", lost.Load())
				}
			}

			pass(2 * time.Minute) // the lease is over, so nobody asks for more
			r.push(1, duly.Job{Queue: "short"})
			pass(time.Minute)
			if int(lost.Load()) != round || int(back.Load()) != round {
				t.Errorf("without a lease, round %d: lost %d, back %d", round, lost.Load(), back.Load())
			}
		}
		r.stop()
	})
}

// C4.38: a settle whose answer was lost is sent again; lease_lost to the repeat
// is the end of it.
func TestALostAnswerToASettleIsRepeatedOnce(t *testing.T) {
	var answers []error
	o := worker.Observer{Settled: func(_ *worker.Delivery, _ duly.Settlement, err error) { answers = append(answers, err) }}
	bubble(t, worker.Config{Observer: o}, func(t *testing.T, r *rig) {
		var lost atomic.Bool
		r.tap.fail(nil, func(op string) error {
			if op == "settle" && lost.CompareAndSwap(false, true) {
				return duly.ErrUnavailable
			}
			return nil
		})
		r.Handle("q", sleeper(0))
		r.push(1, duly.Job{})
		r.start()
		pass(time.Hour)
		r.stop()
		if r.tap.count("settle") != 2 || len(answers) != 1 || !errors.Is(answers[0], duly.ErrLeaseLost) {
			t.Errorf("%d calls, answers %v", r.tap.count("settle"), answers)
		}
		if n := strings.Count(r.log.String(), "outcomes refused"); n != 1 || !strings.Contains(r.log.String(), "count=1") {
			t.Errorf("the log names refused outcomes %d times:\n%s", n, r.log)
		}
	})
}

func TestALostAnswerToAReserveIsNotRepeatedForTheSameJobs(t *testing.T) {
	bubble(t, worker.Config{}, func(t *testing.T, r *rig) {
		var lost atomic.Bool
		r.tap.fail(nil, func(op string) error {
			if op == "reserve" && lost.CompareAndSwap(false, true) {
				return duly.ErrUnavailable
			}
			return nil
		})
		r.Handle("q", sleeper(0))
		r.push(1, duly.Job{ID: "a"})
		r.start()
		r.push(1, duly.Job{ID: "b"})
		pass(time.Minute)
		r.stop()
		r.want("ack")
		if len(r.lines.leased) != 1 {
			t.Errorf("%d jobs are held by nobody", len(r.lines.leased))
		}
	})
}

// choosy refuses to settle as a whole what holds a receipt it can't bear.
type choosy struct {
	*lineEngine
	bad func(duly.SettleRequest) bool
}

func (c choosy) Settle(ctx context.Context, ns string, outcomes []duly.SettleRequest) ([]error, error) {
	for _, o := range outcomes {
		if c.bad(o) {
			return nil, duly.ErrInternal
		}
	}
	return c.lineEngine.Settle(ctx, ns, outcomes)
}

func TestAnOutcomeThatFailsEveryCallHoldsNobodyElseUp(t *testing.T) {
	bubble(t, worker.Config{Concurrency: 40}, func(t *testing.T, r *rig) {
		r.tap.Engine = choosy{r.lines, func(o duly.SettleRequest) bool { return string(o.Result) == "bad" }}
		r.Handle("q", func(_ context.Context, d *worker.Delivery) error {
			nap(time.Second)
			if d.ID == "7" {
				return d.SetResult([]byte("bad"))
			}
			return nil
		})
		r.push(200, duly.Job{})
		r.start()
		pass(time.Hour)
		if n := len(r.outcomes()); n != 199 {
			t.Errorf("%d outcomes of 199 got through", n)
		}
		r.stop()
	})
}

// partial answers that one part of the store was not there.
type partial struct {
	*lineEngine
	left *atomic.Int64
}

func (p partial) Settle(ctx context.Context, ns string, outcomes []duly.SettleRequest) ([]error, error) {
	answers := make([]error, len(outcomes))
	for i := range outcomes {
		if p.left.Add(-1) >= 0 {
			answers[i] = duly.ErrUnavailable
			continue
		}
		one, _ := p.lineEngine.Settle(ctx, ns, outcomes[i:i+1])
		answers[i] = one[0]
	}
	return answers, nil
}

func TestOnlyTheOutcomesThatFailedAreSentAgain(t *testing.T) {
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
		r.tap.Engine = partial{r.lines, &left}
		r.Handle("q", sleeper(time.Second))
		r.push(10, duly.Job{})
		r.start()
		pass(time.Minute)
		r.stop()
		if ok != 10 || failed != 0 {
			t.Errorf("settled %d, refused %d", ok, failed)
		}
	})
}

func TestAnErrorThatWillNotPassEndsRun(t *testing.T) {
	for _, op := range everything {
		t.Run(op, func(t *testing.T) {
			bubble(t, worker.Config{}, func(t *testing.T, r *rig) {
				r.Handle("q", sleeper(15*time.Second))
				if op != "wait" {
					r.push(1, duly.Job{})
				}
				r.tap.fail(always(duly.ErrForbidden, op), nil)
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

// hung never answers.
type hung struct{ *lineEngine }

func (hung) Reserve(ctx context.Context, _ duly.ReserveParams) ([]duly.Delivery, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestACallThatHangsIsGivenUpAndTheStoreIsLost(t *testing.T) {
	var lost int
	o := worker.Observer{StoreLost: func(error) { lost++ }}
	bubble(t, worker.Config{CallTimeout: 5 * time.Second, Observer: o}, func(t *testing.T, r *rig) {
		r.tap.Engine = hung{r.lines}
		r.Handle("q", sleeper(0))
		r.start()
		pass(time.Minute)
		if n := r.tap.count("reserve"); n < 8 || n > 13 || lost != 1 {
			t.Errorf("%d calls in a minute, lost %d times", n, lost)
		}
		if took := r.stop(); took > 5*time.Second {
			t.Errorf("stopped after %v", took)
		}
		if strings.Contains(r.log.String(), "store is back") {
			t.Errorf("log says that it is back:\n%s", r.log)
		}
	})
}
