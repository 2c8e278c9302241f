package sqliteengine

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

// bubble runs a test with a manual engine and a test clock.
func bubble(t *testing.T, f func(t *testing.T, e *Engine, c *clock.Fake)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clock.NewFake()
		e, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "duly.db"), Clock: c, Manual: true,
			Logger: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		f(t, e, c)
	})
}

// waits starts n Wait calls and returns a function that counts those that were woken.
func waits(t *testing.T, e *Engine, n int) (woken func() int) {
	done := make(chan bool, n)
	for range n {
		go func() {
			ready, _ := e.Wait(t.Context(), duly.WaitParams{Queues: []string{"q"}, Timeout: duly.MaxWait})
			done <- ready
		}()
	}
	synctest.Wait()
	return func() int {
		synctest.Wait()
		return len(done)
	}
}

func pushOne(t *testing.T, e *Engine, j duly.Job) {
	t.Helper()
	j.Queue = "q"
	if results, err := e.Push(t.Context(), []duly.Job{j}); err != nil || results[0].Status != duly.Created {
		t.Fatal(results, err)
	}
}

// C5.11: a waiter that was woken and does nothing delays the job for other waiters by recheck at
// most.
func TestAnotherWaiterIsWokenWhenTheFirstDoesNotReserve(t *testing.T) {
	bubble(t, func(t *testing.T, e *Engine, c *clock.Fake) {
		woken := waits(t, e, 3)
		pushOne(t, e, duly.Job{})
		for want := 1; want <= 3; want++ {
			if n := woken(); n != want {
				t.Fatalf("%d waiters were woken, want %d", n, want)
			}
			c.Advance(recheck - time.Millisecond)
			if n := woken(); n != want {
				t.Fatalf("%d waiters were woken too soon, want %d", n, want)
			}
			c.Advance(time.Millisecond)
		}
	})
}

// C5.9: a wall clock set forward is noticed within two seconds.
func TestForwardClockStepWakesWaiters(t *testing.T) {
	bubble(t, func(t *testing.T, e *Engine, c *clock.Fake) {
		pushOne(t, e, duly.Job{Delay: time.Hour})
		woken := waits(t, e, 1)
		c.Step(time.Hour)
		if n := woken(); n != 0 {
			t.Fatal("it was woken before anybody looked")
		}
		c.Advance(longestSleep)
		if n := woken(); n != 1 {
			t.Error("the waiter sleeps on")
		}
	})
}

// C5.6: a wall clock set back delays scheduled events and makes none early.
func TestBackwardClockStepWakesNobodyEarly(t *testing.T) {
	bubble(t, func(t *testing.T, e *Engine, c *clock.Fake) {
		pushOne(t, e, duly.Job{Delay: time.Minute})
		woken := waits(t, e, 1)
		c.Step(-5 * time.Minute)
		c.Advance(6*time.Minute - time.Millisecond)
		if n := woken(); n != 0 {
			t.Fatal("it was woken early")
		}
		c.Advance(time.Millisecond)
		if n := woken(); n != 1 {
			t.Error("the waiter sleeps on")
		}
	})
}

// A commit in a queue with due jobs and no consumer must not make the engine poll the queue
// forever.
func TestPollingEndsWithoutConsumers(t *testing.T) {
	bubble(t, func(t *testing.T, e *Engine, c *clock.Fake) {
		pushOne(t, e, duly.Job{Delay: time.Minute})
		woken := waits(t, e, 3)
		c.Advance(time.Minute)
		if n := woken(); n != 1 { // synctest.Wait has returned, so no goroutine runs
			t.Errorf("%d were woken for one due job", n)
		}
		pushOne(t, e, duly.Job{})
		if n := woken(); n != 2 {
			t.Errorf("%d were woken for a due job and a ready one", n)
		}
	})
}

// A caller that leaves when it is woken passes its wake-up to the next waiter immediately, if the
// engine notices.
func TestLeavingWaiterPassesItsWakeUpOn(t *testing.T) {
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	for name, goes := range map[string]func(t *testing.T, e *Engine, w *waiter) error{
		"as it is woken": func(_ *testing.T, e *Engine, w *waiter) error {
			return second(e.await(gone, w, duly.WaitParams{Timeout: time.Minute}))
		},
		"before it reserves": func(t *testing.T, e *Engine, w *waiter) error {
			if ready, err := e.await(t.Context(), w, duly.WaitParams{Timeout: time.Minute}); !ready || err != nil {
				t.Errorf("%t, %v", ready, err)
			}
			return second(e.Reserve(gone, duly.ReserveParams{Queues: []string{"none", "q"}, Max: 1}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, e *Engine, _ *clock.Fake) {
				for range 20 { // repeated, because a select picks any of its ready cases
					w := e.notifier.register([]waitKey{{ref: duly.Q("q").Normal()}})
					woken := waits(t, e, 1)
					pushOne(t, e, duly.Job{})
					if n := woken(); n != 0 {
						t.Fatal("both were woken for one job")
					}
					if err := goes(t, e, w); !errors.Is(err, context.Canceled) {
						t.Errorf("it is answered %v", err)
					}

					if n := woken(); n != 1 {
						t.Fatal("the next one sleeps on")
					}
					if _, err := e.Purge(t.Context(), duly.Q("q"), duly.StateReady, 0); err != nil {
						t.Fatal(err)
					}
				}
			})
		})
	}
}

// A caller that was woken for one queue and has enough jobs from another queue passes the wake-up
// on at once.
func TestFullReservePassesItsWakeUpOn(t *testing.T) {
	bubble(t, func(t *testing.T, e *Engine, _ *clock.Fake) {
		e.notifier.register([]waitKey{{ref: duly.Q("first").Normal()}, {ref: duly.Q("q").Normal()}})
		woken := waits(t, e, 1)
		pushOne(t, e, duly.Job{})
		if _, err := e.Push(t.Context(), []duly.Job{{Queue: "first"}}); err != nil {
			t.Fatal(err)
		}
		got, err := e.Reserve(t.Context(), duly.ReserveParams{Queues: []string{"first", "q"}, Max: 1})
		if err != nil || len(got) != 1 || got[0].Queue != "first" {
			t.Fatal(got, err)
		}
		if n := woken(); n != 1 {
			t.Error("the other one sleeps beside a ready job")
		}
	})
}

// A waiter that was woken for a job that no longer exists does not delay the next job.
func TestWaitersWithoutJobAreNotCounted(t *testing.T) {
	bubble(t, func(t *testing.T, e *Engine, _ *clock.Fake) {
		for range 3 {
			woken := waits(t, e, 1)
			pushOne(t, e, duly.Job{})
			if n := woken(); n != 1 {
				t.Fatal("nobody was woken for a job")
			}
			if _, err := e.Purge(t.Context(), duly.Q("q"), duly.StateReady, 0); err != nil {
				t.Fatal(err)
			}
		}
	})
}
