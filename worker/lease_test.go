package worker_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/worker"
)

// untilEnd returns a handler that runs until its context ends. It sets how long it ran, and
// the cause.
func untilEnd(ran *time.Duration, why *error) worker.HandlerFunc {
	return func(ctx context.Context, _ *worker.Delivery) error {
		begun := time.Now()
		<-ctx.Done()
		*ran, *why = time.Since(begun), context.Cause(ctx)
		return ctx.Err()
	}
}

func TestOneCallExtendsLeasesAfterAThird(t *testing.T) {
	bubble(t, worker.Config{Concurrency: 50}, func(t *testing.T, r *rig) {
		r.Handle("q", sleeper(65*time.Second))
		r.push(25, duly.Job{})
		r.start()
		advance(time.Second)
		r.push(25, duly.Job{})
		advance(100 * time.Second)
		r.stop()
		sizes := r.recorder.sent("extend")
		if len(r.recorder.settled) != 50 || len(sizes) < 6 || len(sizes) > 8 || sizes[0] != 50 {
			t.Errorf("settled %d after extensions of %v", len(r.recorder.settled), sizes)
		}
	})
}

// C4.5: more leases than one call may have are due at the same time. Several calls extend the
// leases, and no lease is lost.
func TestExtendStaysWithinItsBound(t *testing.T) {
	const jobs = 2500
	lost := 0
	o := worker.Observer{LeaseLost: func(*worker.Delivery, error) { lost++ }}
	bubble(t, worker.Config{Concurrency: jobs, Observer: o}, func(t *testing.T, r *rig) {
		r.Handle("q", sleeper(25*time.Second))
		r.push(jobs, duly.Job{})
		r.start()
		advance(time.Minute)
		r.stop()

		total := 0
		for _, n := range r.recorder.sent("extend") {
			total += n
			if n > duly.MaxBatch {
				t.Errorf("one call extends %d leases", n)
			}
		}
		if total != 2*jobs || lost != 0 || len(r.recorder.settled) != jobs {
			t.Errorf("%d extensions, %d leases lost, %d settled; want %d, 0 and %d",
				total, lost, len(r.recorder.settled), 2*jobs, jobs)
		}
	})
}

// While the store is lost, the worker tries the leases of many jobs in turn. After a failed call,
// the next call has other leases.
func TestFailedExtensionsTakeTurns(t *testing.T) {
	const jobs, most = 2500, 500
	bubble(t, worker.Config{Concurrency: jobs}, func(t *testing.T, r *rig) {
		var failed atomic.Int64
		r.recorder.fail(func(op string) error {
			if op != "extend" || failed.Load() >= most || failed.Add(1) == most {
				return nil // without a limit on the calls, the test might never end
			}
			return duly.ErrUnavailable
		}, nil)
		r.Handle("q", sleeper(20*time.Second))
		r.push(jobs, duly.Job{})
		r.start()
		advance(15 * time.Second)

		if n := failed.Load(); n < 3 || n >= most/2 {
			t.Errorf("%d calls failed in five seconds", n)
		}
		r.recorder.fail(nil, nil)
		advance(time.Minute)
		r.stop()

		if len(r.recorder.settled) != jobs {
			t.Errorf("%d jobs are settled, want %d", len(r.recorder.settled), jobs)
		}
	})
}

// hangingExtend is an engine that does not answer its first Extend. It records the time at which
// the caller gave up.
type hangingExtend struct {
	*memoryEngine
	calls   atomic.Int64
	waited  time.Duration
	expired error
}

func (h *hangingExtend) Extend(
	ctx context.Context, ns string, receipts []duly.Receipt, lease time.Duration,
) ([]error, error) {
	if h.calls.Add(1) > 1 {
		return h.memoryEngine.Extend(ctx, ns, receipts, lease)
	}
	begun := time.Now()
	<-ctx.Done()
	h.waited, h.expired = time.Since(begun), ctx.Err()
	return nil, ctx.Err()
}

// The worker gives up an Extend after a third of the lease, even if CallTimeout is longer, so that
// a second Extend can still renew the lease.
func TestUnansweredExtendLosesNoLease(t *testing.T) {
	lost := 0
	o := worker.Observer{LeaseLost: func(*worker.Delivery, error) { lost++ }}
	cfg := worker.Config{Lease: 6 * time.Second, CallTimeout: 10 * time.Second, Concurrency: 3, Observer: o}
	bubble(t, cfg, func(t *testing.T, r *rig) {
		h := &hangingExtend{memoryEngine: r.memory}
		r.recorder.Engine = h
		r.Handle("q", sleeper(time.Minute))
		r.push(3, duly.Job{})
		r.start()
		advance(2 * time.Minute)
		r.stop()

		r.want("ack", "ack", "ack")
		if lost != 0 {
			t.Errorf("%d leases were lost", lost)
		}
		if h.waited != 2*time.Second || !errors.Is(h.expired, context.Canceled) {
			t.Errorf("the call was given up after %v by %v, want 2s", h.waited, h.expired)
		}
	})
}

// The job is finished before a third of its lease has passed.
func TestShortJobIsNotExtended(t *testing.T) {
	bubble(t, worker.Config{Concurrency: 3}, func(t *testing.T, r *rig) {
		r.Handle("q", sleeper(9*time.Second))
		r.push(100, duly.Job{})
		r.start()
		advance(10 * time.Minute)
		r.stop()
		if n := r.recorder.count("extend"); n != 0 || len(r.recorder.settled) != 100 {
			t.Errorf("settled %d with %d extensions", len(r.recorder.settled), n)
		}
	})
}

// Fault F4: the worker cancels the handler before the engine can end the lease. It counts from
// before it sent the last call that granted the lease.
func TestWorkerGivesUpALeaseBeforeTheEngine(t *testing.T) {
	tests := []struct {
		name   string
		cfg    worker.Config
		failAt time.Duration // time at which extensions begin to fail
		want   time.Duration
	}{
		{"NeverExtended", worker.Config{}, 0, 29 * time.Second},
		{"ExtendedTwice", worker.Config{}, 25 * time.Second, 49 * time.Second},
		{"OwnLease", worker.Config{Lease: 6 * time.Second}, 0, 5400 * time.Millisecond},
		{"OwnMargin", worker.Config{Margin: 4 * time.Second}, 0, 26 * time.Second},
		{"MarginBeyondTheLease", worker.Config{Margin: time.Hour}, 0, 15 * time.Second},
	}

	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var notified int
			tt.cfg.Observer.LeaseLost = func(_ *worker.Delivery, cause error) {
				if notified++; cause != worker.ErrLeaseLost {
					t.Errorf("notified %v", cause)
				}
			}
			bubble(t, tt.cfg, func(t *testing.T, r *rig) {
				var ran time.Duration
				var why error
				r.Handle("q", untilEnd(&ran, &why))
				r.push(1, duly.Job{})
				r.start()
				advance(tt.failAt)
				r.recorder.fail(always(duly.ErrUnavailable, "extend"), nil)
				advance(10 * time.Minute)

				if ran != tt.want || why != worker.ErrLeaseLost || notified != 1 {
					t.Errorf("ended after %v by %v, notified %d times; want %v", ran, why, notified, tt.want)
				}
				r.stop()
				r.want("release") // release, because the job did not fail
			})
		})
	}
}

// slowEngine is an engine that answers late.
type slowEngine struct {
	*memoryEngine
	by time.Duration
}

func (s slowEngine) Reserve(ctx context.Context, p duly.ReserveParams) ([]duly.Delivery, error) {
	got, err := s.memoryEngine.Reserve(ctx, p)
	time.Sleep(s.by)
	return got, err
}

func (s slowEngine) Extend(
	ctx context.Context, ns string, receipts []duly.Receipt, lease time.Duration,
) ([]error, error) {
	answers, err := s.memoryEngine.Extend(ctx, ns, receipts, lease)
	time.Sleep(s.by)
	return answers, err
}

func TestLeaseCountsFromBeforeTheCallWasSent(t *testing.T) {
	bubble(t, worker.Config{}, func(t *testing.T, r *rig) {
		r.recorder.Engine = slowEngine{r.memory, 8 * time.Second}
		var ran time.Duration
		var why error
		r.Handle("q", untilEnd(&ran, &why))
		r.push(1, duly.Job{})
		r.start()
		advance(19 * time.Second) // one extension was sent after 10 s and answered after 18 s
		r.recorder.fail(always(duly.ErrUnavailable, "extend"), nil)
		advance(10 * time.Minute)
		if want := 10*time.Second + 29*time.Second - 8*time.Second; ran != want {
			t.Errorf("ended after %v, want %v", ran, want)
		}
		r.stop()
	})
}

func TestWorkerReleasesALateDelivery(t *testing.T) {
	bubble(t, worker.Config{CallTimeout: time.Hour}, func(t *testing.T, r *rig) {
		r.recorder.Engine = slowEngine{r.memory, 29500 * time.Millisecond}
		var ran atomic.Int64
		r.Handle("q", func(context.Context, *worker.Delivery) error { ran.Add(1); return nil })
		r.push(1, duly.Job{})
		r.start()
		advance(time.Minute)
		r.stop()
		r.want("release")
		if ran.Load() != 0 {
			t.Error("its handler was called")
		}
	})
}

// refusingExtend is an engine that answers every extension with lease_lost.
type refusingExtend struct{ *memoryEngine }

func (refusingExtend) Extend(_ context.Context, _ string, receipts []duly.Receipt, _ time.Duration) ([]error, error) {
	answers := make([]error, len(receipts))
	for i := range answers {
		answers[i] = duly.ErrLeaseLost
	}
	return answers, nil
}

func TestLeaseLostAnswerEndsTheHandlerAtOnce(t *testing.T) {
	var notified int
	o := worker.Observer{LeaseLost: func(*worker.Delivery, error) { notified++ }}
	bubble(t, worker.Config{Observer: o}, func(t *testing.T, r *rig) {
		r.recorder.Engine = refusingExtend{r.memory}
		var ran time.Duration
		var why error
		r.Handle("q", untilEnd(&ran, &why))
		r.push(1, duly.Job{})
		r.start()
		advance(time.Hour)
		if ran != 10*time.Second || !errors.Is(why, duly.ErrLeaseLost) || notified != 1 {
			t.Errorf("ended after %v by %v, notified %d times", ran, why, notified)
		}
		r.stop()
	})
}

// Fault T8: a handler of half an hour with a lease of 30 s is one delivery, even if 1 % or half of
// its extensions fail.
func TestLongHandlerKeepsItsLease(t *testing.T) {
	for _, share := range []int{100, 2} {
		body := func(t *testing.T, r *rig) {
			var n atomic.Int64
			r.recorder.fail(func(op string) error {
				if op == "extend" && n.Add(1)%int64(share) == 0 {
					return duly.ErrUnavailable
				}
				return nil
			}, nil)

			r.Handle("q", sleeper(30*time.Minute))
			r.push(1, duly.Job{})
			r.start()
			advance(time.Hour)
			r.stop()
			r.want("ack")
			if got := n.Load(); got < 180 {
				t.Errorf("%d extensions", got)
			}
		}
		name := map[int]string{100: "OnePercent", 2: "Half"}[share]
		t.Run(name, func(t *testing.T) { bubble(t, worker.Config{}, body) })
	}
}

func TestLeaseIsNotExtendedAfterMaxHold(t *testing.T) {
	tests := []struct {
		name string
		hold time.Duration
		job  duly.Job
		want time.Duration
	}{
		{"Default", 0, duly.Job{}, 12 * time.Hour},
		{"Given", time.Hour, duly.Job{}, time.Hour},
		{"ShorterThanTheLease", time.Second, duly.Job{Lease: time.Minute}, time.Minute},
	}

	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var notified int
			o := worker.Observer{LeaseLost: func(*worker.Delivery, error) { notified++ }}
			bubble(t, worker.Config{MaxHold: tt.hold, Observer: o}, func(t *testing.T, r *rig) {
				var ran time.Duration
				var why error
				r.Handle("q", untilEnd(&ran, &why))
				r.push(1, tt.job)
				r.start()
				advance(tt.want + time.Second)
				calls := r.recorder.count("extend")
				advance(24 * time.Hour)

				if ran != tt.want || r.recorder.count("extend") != calls || notified != 1 {
					t.Errorf("ended after %v by %v, notified %d times, %d extensions after it",
						ran, why, notified, r.recorder.count("extend")-calls)
				}
				r.stop()
			})
		})
	}
}

func TestLeaseWithoutMaxHoldIsAlwaysExtended(t *testing.T) {
	bubble(t, worker.Config{MaxHold: duly.None}, func(t *testing.T, r *rig) {
		r.Handle("q", sleeper(20*time.Hour))
		r.push(1, duly.Job{})
		r.start()
		advance(21 * time.Hour)
		r.stop()
		r.want("ack")
	})
}

// stoppableClock is the clock of a process that can be stopped, like by SIGSTOP: time
// passes, but no timer fires until the process continues.
type stoppableClock struct {
	duly.Clock
	mu    sync.Mutex
	gate  chan struct{} // nil or closed while the process runs; open while it is stopped
	ahead atomic.Int64  // time by which the wall clock is ahead of the monotonic clock
}

func (s *stoppableClock) stop() {
	s.mu.Lock()
	s.gate = make(chan struct{})
	s.mu.Unlock()
}

func (s *stoppableClock) wait() {
	s.mu.Lock()
	gate := s.gate
	s.mu.Unlock()
	if gate != nil {
		<-gate
	}
}

func (s *stoppableClock) Now() time.Time { return s.Clock.Now().Add(time.Duration(s.ahead.Load())) }

func (s *stoppableClock) AfterFunc(d time.Duration, f func()) duly.Timer {
	return s.Clock.AfterFunc(d, func() { s.wait(); f() })
}

func (s *stoppableClock) At(mono time.Duration, f func()) duly.Timer {
	return s.Clock.At(mono, func() { s.wait(); f() })
}

func (s *stoppableClock) NewTimer(d time.Duration) *duly.ChanTimer {
	c := make(chan time.Time, 1)
	t := s.Clock.AfterFunc(d, func() {
		s.wait()
		select {
		case c <- s.Now():
		default:
		}
	})
	return &duly.ChanTimer{C: c, Timer: t}
}

// Fault T6: after a stop of twice its lease, a handler is canceled as soon as the process
// continues.
func TestContinuedProcessCancelsItsHandlersAtOnce(t *testing.T) {
	c := &stoppableClock{Clock: clock.System()}
	var at time.Time
	var why error
	o := worker.Observer{LeaseLost: func(_ *worker.Delivery, cause error) { at, why = time.Now(), cause }}
	bubble(t, worker.Config{Clock: c, Observer: o}, func(t *testing.T, r *rig) {
		r.Handle("q", sleeper(24*time.Hour))
		r.push(1, duly.Job{})
		r.start()
		advance(time.Second)
		c.stop()
		advance(time.Minute)
		synctest.Wait()

		if why != nil {
			t.Fatal("the process was not stopped")
		}
		continued := time.Now()
		close(c.gate)
		advance(50 * time.Millisecond)

		if why != worker.ErrLeaseLost || at.Sub(continued) > 0 {
			t.Errorf("canceled by %v, %v after it continued", why, at.Sub(continued))
		}
		r.stop()
	})
}

// While a machine sleeps, its monotonic clock stops. Its wall clock shows the time.
func TestMachineThatSleptLosesItsLeases(t *testing.T) {
	c := &stoppableClock{Clock: clock.System()}
	bubble(t, worker.Config{Clock: c}, func(t *testing.T, r *rig) {
		var ran time.Duration
		var why error
		r.Handle("q", untilEnd(&ran, &why))
		r.push(1, duly.Job{})
		r.start()
		advance(time.Second)
		c.ahead.Store(int64(time.Hour))
		advance(10 * time.Second)
		if why != worker.ErrLeaseLost {
			t.Errorf("the handler is not canceled: %v", why)
		}
		r.stop()
	})
}

func TestWallClockSetBackExtendsNoLease(t *testing.T) {
	c := &stoppableClock{Clock: clock.System()}
	bubble(t, worker.Config{Clock: c}, func(t *testing.T, r *rig) {
		var ran time.Duration
		var why error
		r.Handle("q", untilEnd(&ran, &why))
		r.push(1, duly.Job{})
		r.start()
		r.recorder.fail(always(duly.ErrUnavailable, "extend"), nil)
		c.ahead.Store(-int64(time.Hour))
		advance(time.Minute)
		if ran != 29*time.Second || why != worker.ErrLeaseLost {
			t.Errorf("ended after %v by %v", ran, why)
		}
		r.stop()
	})
}

// steppedBackEngine is an engine whose clock was set back by an hour. Ready jobs stay ready,
// and each delivery has the time max(now, due), which is after the end of its lease.
type steppedBackEngine struct{ duly.Engine }

func (e steppedBackEngine) Reserve(ctx context.Context, p duly.ReserveParams) ([]duly.Delivery, error) {
	got, err := e.Engine.Reserve(ctx, p)
	for i := range got {
		got[i].Due = got[i].Now.Add(time.Hour)
		got[i].Now = got[i].Due
	}
	return got, err
}

// C5.6, C5.7: after a step back of the engine's clock, handlers still run for the length of
// the lease.
func TestHandlersRunAfterTheEngineClockStepsBack(t *testing.T) {
	bubble(t, worker.Config{}, func(t *testing.T, r *rig) {
		r.Worker = worker.New(steppedBackEngine{r.recorder}, worker.Config{})
		r.Handle("q", sleeper(time.Second))
		r.push(3, duly.Job{Lease: 10 * time.Second})
		r.start()
		advance(time.Minute)
		r.stop()
		if len(r.recorder.settled) != 3 || r.recorder.settled[0].As != duly.Ack {
			t.Errorf("settled %+v, want three acks", r.recorder.settled)
		}
	})
}
