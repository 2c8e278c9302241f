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

// untilEnd is a handler that heeds its context alone. It tells how long it had
// and why it ended.
func untilEnd(ran *time.Duration, why *error) worker.HandlerFunc {
	return func(ctx context.Context, _ *worker.Delivery) error {
		begun := time.Now()
		<-ctx.Done()
		*ran, *why = time.Since(begun), context.Cause(ctx)
		return ctx.Err()
	}
}

func TestLeasesAreExtendedAtAThirdInOneCall(t *testing.T) {
	bubble(t, worker.Config{Concurrency: 50}, func(t *testing.T, r *rig) {
		r.Handle("q", sleeper(65*time.Second))
		r.push(25, duly.Job{})
		r.start()
		pass(time.Second)
		r.push(25, duly.Job{})
		pass(100 * time.Second)
		r.stop()
		sizes := r.tap.sent("extend")
		if len(r.tap.settled) != 50 || len(sizes) < 6 || len(sizes) > 8 || sizes[0] != 50 {
			t.Errorf("settled %d after extensions of %v", len(r.tap.settled), sizes)
		}
	})
}

// C4.5: more leases than one call may carry fall due in the same instant. They
// go out in several calls, and all of them are kept.
func TestExtensionsOfManyJobsKeepToTheBoundOfACall(t *testing.T) {
	const jobs = 2500
	lost := 0
	o := worker.Observer{LeaseLost: func(*worker.Delivery, error) { lost++ }}
	bubble(t, worker.Config{Concurrency: jobs, Observer: o}, func(t *testing.T, r *rig) {
		r.Handle("q", sleeper(25*time.Second))
		r.push(jobs, duly.Job{})
		r.start()
		pass(time.Minute)
		r.stop()

		total := 0
		for _, n := range r.tap.sent("extend") {
			total += n
			if n > duly.MaxBatch {
				t.Errorf("one call extends %d leases", n)
			}
		}
		if total != 2*jobs || lost != 0 || len(r.tap.settled) != jobs {
			t.Errorf("%d extensions, %d leases lost, %d settled; want %d, 0 and %d", total, lost, len(r.tap.settled), 2*jobs, jobs)
		}
	})
}

// While the store is lost, the leases of many jobs are tried in turn: no call
// follows a failed one at once with the same leases.
func TestExtensionsOfManyJobsAreTriedInTurn(t *testing.T) {
	const jobs, most = 2500, 500
	bubble(t, worker.Config{Concurrency: jobs}, func(t *testing.T, r *rig) {
		var failed atomic.Int64
		r.tap.fail(func(op string) error {
			if op != "extend" || failed.Load() >= most || failed.Add(1) == most {
				return nil // else the test would never end
			}
			return duly.ErrUnavailable
		}, nil)
		r.Handle("q", sleeper(20*time.Second))
		r.push(jobs, duly.Job{})
		r.start()
		pass(15 * time.Second)
		if n := failed.Load(); n < 3 || n >= most/2 {
			t.Errorf("%d calls failed in five seconds", n)
		}
		r.tap.fail(nil, nil)
		pass(time.Minute)
		r.stop()
		if len(r.tap.settled) != jobs {
			t.Errorf("%d jobs are settled, want %d", len(r.tap.settled), jobs)
		}
	})
}

// hanging does not answer its first Extend, and records when the caller gave up.
type hanging struct {
	*lineEngine
	calls   atomic.Int64
	waited  time.Duration
	expired error
}

func (h *hanging) Extend(ctx context.Context, ns string, receipts []duly.Receipt, lease time.Duration) ([]error, error) {
	if h.calls.Add(1) > 1 {
		return h.lineEngine.Extend(ctx, ns, receipts, lease)
	}
	begun := time.Now()
	<-ctx.Done()
	h.waited, h.expired = time.Since(begun), ctx.Err()
	return nil, ctx.Err()
}

// An Extend without an answer is given up after a third of the lease, however
// long CallTimeout is, so that a second one can still keep the lease.
func TestAnExtendWithoutAnAnswerLosesNoLease(t *testing.T) {
	lost := 0
	o := worker.Observer{LeaseLost: func(*worker.Delivery, error) { lost++ }}
	cfg := worker.Config{Lease: 6 * time.Second, CallTimeout: 10 * time.Second, Concurrency: 3, Observer: o}
	bubble(t, cfg, func(t *testing.T, r *rig) {
		h := &hanging{lineEngine: r.lines}
		r.tap.Engine = h
		r.Handle("q", sleeper(time.Minute))
		r.push(3, duly.Job{})
		r.start()
		pass(2 * time.Minute)
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

// A job that is done before a third of its lease has passed is extended never.
func TestAShortJobIsNotExtended(t *testing.T) {
	bubble(t, worker.Config{Concurrency: 3}, func(t *testing.T, r *rig) {
		r.Handle("q", sleeper(9*time.Second))
		r.push(100, duly.Job{})
		r.start()
		pass(10 * time.Minute)
		r.stop()
		if n := r.tap.count("extend"); n != 0 || len(r.tap.settled) != 100 {
			t.Errorf("settled %d with %d extensions", len(r.tap.settled), n)
		}
	})
}

// Style rule 13, F4: the handler is cancelled before the engine can take the
// lease back, counted from before the last call that gave it was sent.
func TestALeaseIsHeldForLostBeforeTheEngineCanTakeItBack(t *testing.T) {
	tests := []struct {
		name   string
		cfg    worker.Config
		silent time.Duration // when extensions begin to fail
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
				pass(tt.silent)
				r.tap.fail(always(duly.ErrUnavailable, "extend"), nil)
				pass(10 * time.Minute)
				if ran != tt.want || why != worker.ErrLeaseLost || notified != 1 {
					t.Errorf("ended after %v by %v, notified %d times; want %v", ran, why, notified, tt.want)
				}
				r.stop()
				r.want("release") // not the job's fault
			})
		})
	}
}

// slow answers its calls late.
type slow struct {
	*lineEngine
	by time.Duration
}

func (s slow) Reserve(ctx context.Context, p duly.ReserveParams) ([]duly.Delivery, error) {
	got, err := s.lineEngine.Reserve(ctx, p)
	time.Sleep(s.by)
	return got, err
}

func (s slow) Extend(ctx context.Context, ns string, receipts []duly.Receipt, lease time.Duration) ([]error, error) {
	answers, err := s.lineEngine.Extend(ctx, ns, receipts, lease)
	time.Sleep(s.by)
	return answers, err
}

func TestALeaseCountsFromBeforeTheCallWasSent(t *testing.T) {
	bubble(t, worker.Config{}, func(t *testing.T, r *rig) {
		r.tap.Engine = slow{r.lines, 8 * time.Second}
		var ran time.Duration
		var why error
		r.Handle("q", untilEnd(&ran, &why))
		r.push(1, duly.Job{})
		r.start()
		pass(19 * time.Second) // one extension was sent after 10 s, its answer came after 18 s
		r.tap.fail(always(duly.ErrUnavailable, "extend"), nil)
		pass(10 * time.Minute)
		if want := 10*time.Second + 29*time.Second - 8*time.Second; ran != want {
			t.Errorf("ended after %v, want %v", ran, want)
		}
		r.stop()
	})
}

func TestADeliveryThatArrivesTooLateIsGivenBack(t *testing.T) {
	bubble(t, worker.Config{CallTimeout: time.Hour}, func(t *testing.T, r *rig) {
		r.tap.Engine = slow{r.lines, 29500 * time.Millisecond}
		var ran atomic.Int64
		r.Handle("q", func(context.Context, *worker.Delivery) error { ran.Add(1); return nil })
		r.push(1, duly.Job{})
		r.start()
		pass(time.Minute)
		r.stop()
		r.want("release")
		if ran.Load() != 0 {
			t.Error("its handler was called")
		}
	})
}

// refusing says of every extension that the lease is lost.
type refusing struct{ *lineEngine }

func (refusing) Extend(_ context.Context, _ string, receipts []duly.Receipt, _ time.Duration) ([]error, error) {
	answers := make([]error, len(receipts))
	for i := range answers {
		answers[i] = duly.ErrLeaseLost
	}
	return answers, nil
}

func TestTheEnginesWordThatALeaseIsLostCountsAtOnce(t *testing.T) {
	var notified int
	o := worker.Observer{LeaseLost: func(*worker.Delivery, error) { notified++ }}
	bubble(t, worker.Config{Observer: o}, func(t *testing.T, r *rig) {
		r.tap.Engine = refusing{r.lines}
		var ran time.Duration
		var why error
		r.Handle("q", untilEnd(&ran, &why))
		r.push(1, duly.Job{})
		r.start()
		pass(time.Hour)
		if ran != 10*time.Second || !errors.Is(why, duly.ErrLeaseLost) || notified != 1 {
			t.Errorf("ended after %v by %v, notified %d times", ran, why, notified)
		}
		r.stop()
	})
}

// T8: a handler of half an hour with a lease of 30 s, 1 % and then half of the
// extensions failing, is one delivery.
func TestALongHandlerKeepsItsLease(t *testing.T) {
	for _, share := range []int{100, 2} {
		bubbles := func(t *testing.T, r *rig) {
			var n atomic.Int64
			r.tap.fail(func(op string) error {
				if op == "extend" && n.Add(1)%int64(share) == 0 {
					return duly.ErrUnavailable
				}
				return nil
			}, nil)
			r.Handle("q", sleeper(30*time.Minute))
			r.push(1, duly.Job{})
			r.start()
			pass(time.Hour)
			r.stop()
			r.want("ack")
			if got := n.Load(); got < 180 {
				t.Errorf("%d extensions", got)
			}
		}
		t.Run(map[int]string{100: "OnePercent", 2: "Half"}[share], func(t *testing.T) { bubble(t, worker.Config{}, bubbles) })
	}
}

func TestAfterMaxHoldTheLeaseIsLetGo(t *testing.T) {
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
				pass(tt.want + time.Second)
				calls := r.tap.count("extend")
				pass(24 * time.Hour)
				if ran != tt.want || r.tap.count("extend") != calls || notified != 1 {
					t.Errorf("ended after %v by %v, notified %d times, %d extensions after it", ran, why, notified, r.tap.count("extend")-calls)
				}
				r.stop()
			})
		})
	}
}

func TestWithoutMaxHoldALeaseIsKeptForEver(t *testing.T) {
	bubble(t, worker.Config{MaxHold: duly.None}, func(t *testing.T, r *rig) {
		r.Handle("q", sleeper(20*time.Hour))
		r.push(1, duly.Job{})
		r.start()
		pass(21 * time.Hour)
		r.stop()
		r.want("ack")
	})
}

// stopped is the clock of a process that can be stopped as by SIGSTOP: time
// goes on, but none of its timers fires until it continues.
type stopped struct {
	duly.Clock
	mu    sync.Mutex
	gate  chan struct{} // nil or closed while the process runs
	ahead atomic.Int64  // by how much the wall is ahead of monotonic time
}

func (s *stopped) stop() {
	s.mu.Lock()
	s.gate = make(chan struct{})
	s.mu.Unlock()
}

func (s *stopped) wait() {
	s.mu.Lock()
	gate := s.gate
	s.mu.Unlock()
	if gate != nil {
		<-gate
	}
}

func (s *stopped) Now() time.Time { return s.Clock.Now().Add(time.Duration(s.ahead.Load())) }

func (s *stopped) AfterFunc(d time.Duration, f func()) duly.Timer {
	return s.Clock.AfterFunc(d, func() { s.wait(); f() })
}

func (s *stopped) At(mono time.Duration, f func()) duly.Timer {
	return s.Clock.At(mono, func() { s.wait(); f() })
}

func (s *stopped) NewTimer(d time.Duration) *duly.ChanTimer {
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

// T6: after a stop of twice its lease a handler is cancelled as soon as the
// process continues, before any timer of its own can tell it the time.
func TestAProcessThatWasStoppedCancelsItsHandlersAtOnce(t *testing.T) {
	c := &stopped{Clock: clock.System()}
	var at time.Time
	var why error
	o := worker.Observer{LeaseLost: func(_ *worker.Delivery, cause error) { at, why = time.Now(), cause }}
	bubble(t, worker.Config{Clock: c, Observer: o}, func(t *testing.T, r *rig) {
		r.Handle("q", sleeper(24*time.Hour))
		r.push(1, duly.Job{})
		r.start()
		pass(time.Second)
		c.stop()
		pass(time.Minute)
		synctest.Wait()
		if why != nil {
			t.Fatal("the process was not stopped")
		}
		continued := time.Now()
		close(c.gate)
		pass(50 * time.Millisecond)
		if why != worker.ErrLeaseLost || at.Sub(continued) > 0 {
			t.Errorf("cancelled by %v, %v after it continued", why, at.Sub(continued))
		}
		r.stop()
	})
}

// A machine that was asleep has a monotonic clock that did not move; its wall
// clock tells.
func TestAMachineThatSleptLosesItsLeases(t *testing.T) {
	c := &stopped{Clock: clock.System()}
	bubble(t, worker.Config{Clock: c}, func(t *testing.T, r *rig) {
		var ran time.Duration
		var why error
		r.Handle("q", untilEnd(&ran, &why))
		r.push(1, duly.Job{})
		r.start()
		pass(time.Second)
		c.ahead.Store(int64(time.Hour))
		pass(10 * time.Second)
		if why != worker.ErrLeaseLost {
			t.Errorf("not cancelled: %v", why)
		}
		r.stop()
	})
}

func TestAWallThatIsSetBackStretchesNoLease(t *testing.T) {
	c := &stopped{Clock: clock.System()}
	bubble(t, worker.Config{Clock: c}, func(t *testing.T, r *rig) {
		var ran time.Duration
		var why error
		r.Handle("q", untilEnd(&ran, &why))
		r.push(1, duly.Job{})
		r.start()
		r.tap.fail(always(duly.ErrUnavailable, "extend"), nil)
		c.ahead.Store(-int64(time.Hour))
		pass(time.Minute)
		if ran != 29*time.Second || why != worker.ErrLeaseLost {
			t.Errorf("ended after %v by %v", ran, why)
		}
		r.stop()
	})
}

// steppedBack is an engine whose clock was set back by an hour: jobs that were
// ready stay so, and each delivery reports max(now, due), which lies behind the
// end of its lease.
type steppedBack struct{ duly.Engine }

func (e steppedBack) Reserve(ctx context.Context, p duly.ReserveParams) ([]duly.Delivery, error) {
	got, err := e.Engine.Reserve(ctx, p)
	for i := range got {
		got[i].Due = got[i].Now.Add(time.Hour)
		got[i].Now = got[i].Due
	}
	return got, err
}

// C5.6, C5.7: after a step back of the engine's clock the handlers still run,
// for as long as the lease is, and are not given back unheard.
func TestAnEngineWhoseClockSteppedBackIsServed(t *testing.T) {
	bubble(t, worker.Config{}, func(t *testing.T, r *rig) {
		r.Worker = worker.New(steppedBack{r.tap}, worker.Config{})
		r.Handle("q", sleeper(time.Second))
		r.push(3, duly.Job{Lease: 10 * time.Second})
		r.start()
		pass(time.Minute)
		r.stop()
		if len(r.tap.settled) != 3 || r.tap.settled[0].As != duly.Ack {
			t.Errorf("settled %+v, want three acks", r.tap.settled)
		}
	})
}
