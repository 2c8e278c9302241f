package worker_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/dulytest"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/worker"
)

// gauge counts handlers that run concurrently.
type gauge struct {
	mu        sync.Mutex
	now, most int
}

// add adds n to the number of running handlers and returns the result.
func (g *gauge) add(n int) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now += n
	g.most = max(g.most, g.now)
	return g.now
}

// since returns the highest number of concurrent handlers since the last call.
func (g *gauge) since() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	most := g.most
	g.most = g.now
	return most
}

// errBusy is the error of a service that gets more calls than its capacity.
var errBusy = errors.New("503 Service Unavailable")

// A limit that follows the service leaves no capacity unused and overloads it rarely, also
// after the capacity has changed.
func TestAIMDFollowsTheCapacityOfAService(t *testing.T) {
	for name, busy := range map[string]error{"Nack": errBusy, "Overloaded": worker.Overloaded(time.Second, errBusy)} {
		t.Run(name, func(t *testing.T) {
			var limits []int
			cfg := worker.Config{Concurrency: 64, Limiter: worker.AIMD(1, 64)}
			cfg.Observer.Limit = func(n int) { limits = append(limits, n) }
			bubble(t, cfg, func(t *testing.T, r *rig) {
				var inUse gauge
				var capacity atomic.Int64
				capacity.Store(8)
				r.Handle("q", func(ctx context.Context, _ *worker.Delivery) error {
					defer inUse.add(-1)
					if int64(inUse.add(1)) > capacity.Load() {
						_ = clock.Sleep(ctx, clock.System(), 10*time.Millisecond)
						return busy
					}
					return clock.Sleep(ctx, clock.System(), 100*time.Millisecond)
				})
				r.push(50_000, duly.Job{})
				r.start()
				if n := inUse.since(); n != 1 {
					t.Errorf("%d slots are in use at the start, want 1", n)
				}

				for _, c := range []struct{ capacity, least, most int }{{8, 6, 10}, {2, 1, 4}, {20, 15, 24}} {
					capacity.Store(int64(c.capacity))
					advance(10 * time.Second)
					inUse.since()
					advance(time.Second)
					if n := inUse.since(); n < c.least || n > c.most {
						t.Errorf("%d slots are in use with a capacity of %d, want %d to %d",
							n, c.capacity, c.least, c.most)
					}
				}
				r.stop()
				if len(limits) < 4 || slices.Min(limits) < 1 || slices.Max(limits) > 64 {
					t.Errorf("the observer has seen the limits %v", limits)
				}
			})
		})
	}
}

// finished returns a result with the slots in use.
func finished(as duly.Settlement, at time.Duration, running int) worker.Finished {
	return worker.Finished{As: as, At: time.Unix(0, 0).Add(at), Took: 100 * time.Millisecond, Running: running}
}

// Each ack adds one part of the limit of that time, so a round of acks adds a little less than 1.
func TestAIMDAddsOneAfterARoundOfAcks(t *testing.T) {
	t.Parallel()
	l := worker.AIMD(4, 5)
	for i, want := range []int{4, 4, 4, 4, 4, 5, 5, 5, 5, 5, 5, 5} {
		if l.Limit() != want {
			t.Errorf("the limit is %d after %d acks, want %d", l.Limit(), i, want)
		}
		l.Done(finished(duly.Ack, 0, 2))
	}
}

func TestAIMDLearnsNothingWithoutLoad(t *testing.T) {
	t.Parallel()
	l := worker.AIMD(4, 64)
	for range 100 {
		l.Done(finished(duly.Ack, 0, 1))
	}
	if l.Limit() != 4 {
		t.Errorf("the limit is %d after acks with a quarter of the slots in use, want 4", l.Limit())
	}
}

func TestAIMDLearnsFromAcksNacksAndOverloadsAlone(t *testing.T) {
	t.Parallel()
	l := worker.AIMD(1, 64)
	for range 1000 {
		l.Done(finished(duly.Ack, 0, 64))
	}
	before := l.Limit()
	for range 100 {
		l.Done(finished(duly.Release, time.Hour, 64))
		l.Done(finished(duly.Bury, time.Hour, 64))
	}
	if l.Limit() != before {
		t.Errorf("releases and buries changed the limit from %d to %d", before, l.Limit())
	}
}

func TestAIMDDecreasesOncePerMeanDuration(t *testing.T) {
	t.Parallel()
	l := worker.AIMD(1, 1000)
	for l.Limit() < 100 {
		l.Done(finished(duly.Ack, 0, 1000))
	}

	for _, step := range []struct {
		at   time.Duration
		want int
	}{
		{time.Second, 90}, {time.Second, 90}, {time.Second + 99*time.Millisecond, 90},
		{time.Second + 100*time.Millisecond, 81}, {time.Second + 150*time.Millisecond, 81}, {2 * time.Second, 72},
		{time.Second, 65}, // the clock was set back by a second
	} {
		l.Done(finished(duly.Nack, step.at, 1000))
		if l.Limit() != step.want {
			t.Errorf("the limit is %d after a nack at %s, want %d", l.Limit(), step.at, step.want)
		}
	}
	for i := range 100 {
		l.Done(finished(duly.Nack, time.Duration(i)*time.Hour, 1000))
	}
	if l.Limit() != 1 {
		t.Errorf("the limit is %d after a hundred nacks, want 1", l.Limit())
	}
}

// scripted is a Limiter of a test.
type scripted struct {
	limit func() int
	done  func(worker.Finished)
}

func (s scripted) Limit() int             { return s.limit() }
func (s scripted) Done(f worker.Finished) { s.done(f) }

// A lower limit takes effect as handlers return, and a limit outside its bounds acts as
// the nearest bound.
func TestLowerLimitCancelsNoHandler(t *testing.T) {
	var limit, done atomic.Int64
	limit.Store(100)
	l := scripted{func() int { return int(limit.Load()) }, func(worker.Finished) { done.Add(1) }}
	bubble(t, worker.Config{Concurrency: 8, Limiter: l}, func(t *testing.T, r *rig) {
		var inUse gauge
		var canceled atomic.Int64
		r.Handle("q", func(ctx context.Context, _ *worker.Delivery) error {
			inUse.add(1)
			defer inUse.add(-1)
			err := clock.Sleep(ctx, clock.System(), 100*time.Millisecond)
			if err != nil {
				canceled.Add(1)
			}
			return err
		})
		r.push(1000, duly.Job{})
		r.start()
		advance(50 * time.Millisecond)
		if n := inUse.since(); n != 8 {
			t.Errorf("%d slots are in use, want all 8", n)
		}

		limit.Store(-1)
		advance(100 * time.Millisecond)
		inUse.since()
		advance(time.Second)
		if n := inUse.since(); n != 1 {
			t.Errorf("%d slots are in use with a limit of -1, want 1", n)
		}
		r.stop()
		if canceled.Load() > 0 {
			t.Errorf("%d handlers were canceled", canceled.Load())
		}
		if settled := len(r.outcomes()); int64(settled) != done.Load() {
			t.Errorf("Done was called %d times for %d deliveries", done.Load(), settled)
		}
	})
}

// The limit may change at any moment, even while the worker counts its free slots.
func TestLimitThatChangesAllTheTimeStopsNothing(t *testing.T) {
	var calls atomic.Int64
	l := scripted{func() int { return int(calls.Add(1) % 8) }, func(worker.Finished) {}}
	bubble(t, worker.Config{Concurrency: 8, Limiter: l}, func(t *testing.T, r *rig) {
		r.Handle("q", func(ctx context.Context, _ *worker.Delivery) error {
			return clock.Sleep(ctx, clock.System(), time.Millisecond)
		})
		r.push(2000, duly.Job{})
		r.start()
		advance(time.Minute)
		r.stop()
		if n := len(r.outcomes()); n != 2000 {
			t.Errorf("%d jobs are settled, want 2000", n)
		}
	})
}

func TestDoneReceivesTheResultOfEachHandler(t *testing.T) {
	for name, tt := range map[string]struct {
		err      error
		as       duly.Settlement
		overload bool
	}{
		"Ack":        {nil, duly.Ack, false},
		"Nack":       {errBusy, duly.Nack, false},
		"Bury":       {worker.Bury(errBusy), duly.Bury, false},
		"Snooze":     {worker.Snooze(time.Hour), duly.Release, false},
		"Overloaded": {worker.Overloaded(time.Hour, errBusy), duly.Release, true},
	} {
		t.Run(name, func(t *testing.T) {
			var got []worker.Finished
			l := scripted{func() int { return 1 }, func(f worker.Finished) { got = append(got, f) }}
			bubble(t, worker.Config{Limiter: l}, func(t *testing.T, r *rig) {
				r.Handle("q", func(ctx context.Context, _ *worker.Delivery) error {
					_ = clock.Sleep(ctx, clock.System(), time.Second)
					return tt.err
				})

				r.push(1, duly.Job{})
				r.start()
				advance(time.Minute)
				r.stop()

				if len(got) != 1 {
					t.Fatalf("Done was called %d times, want once", len(got))
				}
				f := got[0]
				if f.As != tt.as || f.Err != tt.err || f.Overload != tt.overload ||
					f.Took != time.Second || f.Running != 1 {
					t.Errorf("Done received %+v, want %+v after 1s with 1 slot in use", f, tt)
				}
			})
		})
	}
}

// A limiter that panics would leave the worker without a limit, so the worker drains and
// ends.
func TestPanicInALimiterEndsRun(t *testing.T) {
	ok := func() int { return 2 }
	for name, l := range map[string]scripted{
		"Limit": {func() int { panic("boom") }, func(worker.Finished) {}},
		"Done":  {ok, func(worker.Finished) { panic("boom") }},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, worker.Config{Limiter: l}, func(t *testing.T, r *rig) {
				r.Handle("q", sleeper(time.Second))
				r.push(5, duly.Job{})
				r.start()
				advance(time.Minute)
				defer r.end()

				err := <-r.ended
				if !errors.Is(err, duly.ErrInternal) || !strings.Contains(err.Error(), "the Limiter panicked: boom") {
					t.Errorf("Run returns %v", err)
				}
				// Jobs that the worker reserved for the slots of the finished ones go back.
				for _, outcome := range r.outcomes() {
					if outcome != "ack" && outcome != "release" {
						t.Errorf("a job is settled by %s, want ack or release", outcome)
					}
				}
				if n := strings.Count(r.log.String(), "limiter panicked"); n != 1 {
					t.Errorf("the log has the panic %d times, want once:\n%s", n, r.log)
				}
			})
		})
	}
}

func TestInvalidLimiterIsRefused(t *testing.T) {
	t.Parallel()
	for want, l := range map[string]worker.Limiter{
		"limiter has the bounds 0 and 8, must have 1 ≤ lowest ≤ highest": worker.AIMD(0, 8),
		"limiter has the bounds 9 and 8":                                 worker.AIMD(9, 8),
		"limiter has the bounds 1 and 100001":                            worker.AIMD(1, worker.MaxConcurrency+1),
		"queue q is handled in batches":                                  worker.AIMD(1, 8),
	} {
		w := worker.New(newMemoryEngine(), worker.Config{Limiter: l})
		w.HandleBatch("q", 2, 0, func([]*worker.Delivery) []error { return nil })
		if err := w.Run(t.Context()); !errors.Is(err, duly.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("Run returns %v, want %q", err, want)
		}
	}
}

// C18.15, C18.16: Overloaded uses no try, and closes the queue for its time.
func TestOverloadedClosesTheQueue(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ after, want time.Duration }{
		{-time.Second, 0}, {time.Minute, time.Minute}, {2 * time.Hour, time.Hour},
	} {
		e := dulytest.New(t)
		if _, err := e.Client().Push(t.Context(), "q", nil, duly.Tries(1)); err != nil {
			t.Fatal(err)
		}

		calls := 0
		e.Drain("q", func(context.Context, *worker.Delivery) error {
			if calls++; calls > 1 {
				return nil
			}
			return worker.Overloaded(tt.after, errBusy)
		})

		if tt.want == 0 {
			e.None("q")
			continue
		}
		// Another worker must not get the job before the queue opens.
		if job := e.Only("q"); calls != 1 || job.State != duly.StateReady || job.Failures != 0 {
			t.Errorf("after %s the job is %s with %d failures and %d calls, want ready, 0 and 1",
				tt.after, job.State, job.Failures, calls)
		}
		config, err := e.Config(t.Context(), duly.Q("q"))
		until := e.Clock.Now().Add(tt.want)
		if err != nil || !config.Closing.Until.Equal(until) || config.Closing.Reason != errBusy.Error() {
			t.Errorf("after %s the queue is closed as %+v, %v, want until %s", tt.after, config.Closing, err, until)
		}
	}
}
