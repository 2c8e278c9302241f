package model_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/model"
)

// own returns an engine that uses its own timers, as users run it.
func own(t *testing.T) (*model.Engine, *clock.Fake) {
	c := clock.NewFake()
	e := model.New(model.Config{Clock: c})
	t.Cleanup(func() { e.Close() })
	return e, c
}

func push(t *testing.T, e *model.Engine, jobs ...duly.Job) {
	t.Helper()
	results, err := e.Push(t.Context(), jobs)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
}

func reserve(t *testing.T, e *model.Engine, n int) []duly.Delivery {
	t.Helper()
	ds, err := e.Reserve(t.Context(), duly.ReserveParams{Queues: []string{"q"}, Max: n})
	if err != nil || len(ds) != n {
		t.Fatalf("reserve of %d took %d, %v", n, len(ds), err)
	}
	return ds
}

// C4.74: the engine ends an expired lease on time, even if nobody calls Reserve.
func TestExpiredLeaseEndsWithoutAReserve(t *testing.T) {
	t.Parallel()
	e, c := own(t)
	push(t, e, duly.Job{Queue: "q", ID: "a", Lease: time.Second}, duly.Job{Queue: "q", ID: "b", Lease: 3 * time.Second})
	reserve(t, e, 2)
	for _, want := range []duly.Sizes{{Leased: 2}, {Leased: 1, Ready: 1}, {Leased: 1, Ready: 1}, {Ready: 2}} {
		st, err := e.Stats(t.Context(), duly.Q("q"))
		if err != nil || st.Sizes != want {
			t.Errorf("at %s: %+v, %v; want %+v", c.Now(), st.Sizes, err, want)
		}
		c.Advance(time.Second)
	}
}

// A wall clock that was set back delays the end of a lease only briefly, because the timer checks
// again.
func TestLeaseIsTakenBackAfterTheWallWasSetBack(t *testing.T) {
	t.Parallel()
	e, c := own(t)
	push(t, e, duly.Job{Queue: "q", ID: "a", Lease: time.Second})
	reserve(t, e, 1)
	c.Step(-90 * time.Second)
	c.Advance(92 * time.Second)
	if st, err := e.Stats(t.Context(), duly.Q("q")); err != nil || st.Sizes.Ready != 1 {
		t.Errorf("%+v, %v; want it ready", st.Sizes, err)
	}
}

// Idle counts workers that wait, but not workers that handle jobs.
func TestIdleWaitsForWaitersAndForLeases(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, _ := own(t)
		idle := func(waiters int) bool {
			// The timeout runs on the clock of the synctest bubble, not on the clock of the engine.
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return e.Idle(ctx, waiters) == nil
		}
		if !idle(0) || idle(1) {
			t.Error("an empty engine: want idle without a waiter, and not with one")
		}

		woken := make(chan bool, 1)
		go func() {
			ready, _ := e.Wait(t.Context(), duly.WaitParams{Queues: []string{"q"}, Timeout: time.Minute})
			woken <- ready
		}()
		if !idle(1) {
			t.Error("a waiter: want idle")
		}

		push(t, e, duly.Job{Queue: "q"})
		if !<-woken || idle(1) {
			t.Error("the waiter has left: want not idle")
		}
		d := reserve(t, e, 1)[0]
		if idle(0) {
			t.Error("a job is leased: want not idle")
		}

		done := make(chan error, 1)
		go func() { done <- e.Idle(t.Context(), 0) }()
		if _, err := e.Settle(t.Context(), "", []duly.SettleRequest{{Receipt: d.Receipt, As: duly.Ack}}); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Errorf("settled: %v, want idle", err)
		}

		e.Close()
		if err := e.Idle(t.Context(), 0); duly.CodeOf(err) != duly.CodeClosed {
			t.Errorf("closed: %v", err)
		}
	})
}

// A Wait whose time is over no longer counts as waiting, even before its goroutine returns.
// Otherwise a test that moves the clock from moment to moment would skip the next moment.
func TestIdleCountsNoWaiterWhoseTimeIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, c := own(t)
		ended := make(chan error, 1)
		go func() {
			ready, err := e.Wait(t.Context(), duly.WaitParams{Queues: []string{"q"}, Timeout: time.Minute})
			if ready {
				t.Error("Wait reports a job in an empty queue")
			}
			ended <- err
		}()

		synctest.Wait()
		c.Advance(time.Minute)
		// The timeout is in the time of the synctest bubble.
		second, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := e.Idle(second, 1); err == nil {
			t.Error("it counts as a waiter")
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestNextMomentIsTheNextEvent(t *testing.T) {
	t.Parallel()
	e, c := own(t)
	if at, ok := e.NextMoment(); ok {
		t.Errorf("an empty engine has a next moment, %s", at)
	}
	push(t, e, duly.Job{Queue: "later", Delay: time.Hour}, duly.Job{Queue: "q", Lease: time.Minute})
	reserve(t, e, 1)
	// The end of a lease, and the due time of a job.
	for _, want := range []time.Duration{time.Minute, time.Hour} {
		at, ok := e.NextMoment()
		if got := at.Sub(clock.Epoch); !ok || got != want {
			t.Errorf("the next moment lies %s past the epoch (%t), want %s", got, ok, want)
		}
		c.Advance(at.Sub(c.Now()))
	}
	if at, ok := e.NextMoment(); ok {
		t.Errorf("when everything has happened there is a next moment, %s", at)
	}
}

// A caller that was woken and leaves, or has enough jobs from another queue, passes the job to the
// next waiter at once.
func TestWakeUpsArePassedOn(t *testing.T) {
	t.Parallel()
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	for name, tt := range map[string]struct {
		ctx context.Context
		err error
	}{"gone": {gone, context.Canceled}, "has enough": {context.Background(), nil}} {
		synctest.Test(t, func(t *testing.T) {
			e, _ := own(t)
			woken := make(chan string, 2)
			wait := func(queues ...string) {
				go func() {
					if ready, _ := e.Wait(t.Context(), duly.WaitParams{Queues: queues, Timeout: time.Minute}); ready {
						woken <- queues[0]
					}
				}()
				synctest.Wait()
			}

			wait("first", "q")
			wait("q")
			push(t, e, duly.Job{Queue: "q"})
			push(t, e, duly.Job{Queue: "first"})
			if who := <-woken; who != "first" {
				t.Errorf("%s: %s was woken", name, who)
			}

			synctest.Wait()
			if len(woken) > 0 {
				t.Fatalf("%s: both were woken for one job", name)
			}
			if _, err := e.Reserve(tt.ctx, duly.ReserveParams{Queues: []string{"first", "q"}, Max: 1}); err != tt.err {
				t.Errorf("%s: %v", name, err)
			}
			if who := <-woken; who != "q" {
				t.Errorf("%s: then %s was woken", name, who)
			}
		})
	}
}

// A waiter that was woken for a deleted job does not keep the next waiter asleep.
func TestDeletedJobDoesNotCountAgainstTheNextWaiter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, _ := own(t)
		for range 3 {
			woken := make(chan bool, 1)
			go func() {
				ready, _ := e.Wait(t.Context(), duly.WaitParams{Queues: []string{"q"}, Timeout: time.Minute})
				woken <- ready
			}()
			synctest.Wait()
			push(t, e, duly.Job{Queue: "q"})
			if !<-woken {
				t.Error("nobody was woken for a job")
			}
			if _, err := e.Purge(t.Context(), duly.Q("q"), duly.StateReady, 0); err != nil {
				t.Fatal(err)
			}
		}
	})
}
