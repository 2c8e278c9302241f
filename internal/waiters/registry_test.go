package waiters

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly/internal/clock"
)

func newRegistry() *Registry[string] { return &Registry[string]{Life: time.Second} }

func isWoken(w *Waiter[string]) bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

func wokenOf(waiters ...*Waiter[string]) string {
	text := ""
	for i, w := range waiters {
		if isWoken(w) {
			text += fmt.Sprint(i)
		}
	}
	return text
}

func TestWakeWakesTheOldestForEachJob(t *testing.T) {
	r := newRegistry()
	a, b, c := r.Add("q"), r.Add("q", "other"), r.Add("q")

	r.Wake("q", 0, 2, 0)
	if got := wokenOf(a, b, c); got != "01" {
		t.Errorf("woken are %s, want the two oldest", got)
	}
	if r.Waiting("q") != 1 || r.Waiting("other") != 0 {
		t.Error("a woken waiter still waits for its other queue")
	}
	if !r.Remove(a) || r.Remove(c) {
		t.Error("Remove does not say who was woken")
	}
}

func TestOutstandingWakeupsCount(t *testing.T) {
	for name, c := range map[string]struct {
		before func(r *Registry[string])
		tag    int
		now    time.Duration
		want   string
	}{
		"outstanding":   {func(r *Registry[string]) {}, 0, 0, "0"},
		"arrived":       {func(r *Registry[string]) { r.Arrive("q") }, 0, 0, "01"},
		"another shard": {func(r *Registry[string]) {}, 1, 0, "01"},
		"expired":       {func(r *Registry[string]) {}, 0, time.Second, "01"},
		"trimmed":       {func(r *Registry[string]) { r.Trim("q", 0) }, 0, 0, "01"},
		"not trimmed":   {func(r *Registry[string]) { r.Trim("q", 1) }, 0, 0, "0"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRegistry()
			a, b := r.Add("q"), r.Add("q")
			r.Wake("q", 0, 1, 0)
			c.before(r)
			r.Wake("q", c.tag, 1, c.now)
			if got := wokenOf(a, b); got != c.want {
				t.Errorf("woken are %s, want %s", got, c.want)
			}
		})
	}
}

func TestWakeOneWakesThatWaiter(t *testing.T) {
	r := newRegistry()
	a, b := r.Add("q"), r.Add("p", "q")
	r.WakeOne(b, "q", 4, 0)
	if got := wokenOf(a, b); got != "1" || r.Outstanding("q", 4) != 1 || r.Waiting("p") != 0 {
		t.Errorf("woken are %s", got)
	}
}

func TestLeaveReturnsTheWakeupOfAWokenWaiter(t *testing.T) {
	r := newRegistry()
	a, b := r.Add("q"), r.Add("q")
	r.Wake("q", 3, 1, 0)
	if wakeup, woken := r.Leave(a); !woken || wakeup.Key != "q" || wakeup.Tag != 3 || r.Outstanding("q", 3) != 0 {
		t.Errorf("%+v, %v, and %d are outstanding", wakeup, woken, r.Outstanding("q", 3))
	}
	if _, woken := r.Leave(a); woken {
		t.Error("the second Leave says it again")
	}
	if _, woken := r.Leave(b); woken || r.Waiting("q") != 0 {
		t.Error("a waiter that was not woken says so")
	}
}

func TestArriveTakesTheOldest(t *testing.T) {
	r := newRegistry()
	r.Add("q")
	r.Add("q")
	r.Wake("q", 5, 1, 0)
	r.Wake("q", 6, 1, 0)
	for _, want := range []int{5, 6} {
		if tag, ok := r.Arrive("q"); !ok || tag != want {
			t.Errorf("arrived for %d, %v; want %d", tag, ok, want)
		}
	}
	if _, ok := r.Arrive("q"); ok {
		t.Error("more Reserves than wake-ups are counted")
	}
}

func TestExpireReturnsTheExpiredWakeups(t *testing.T) {
	r := newRegistry()
	for range 3 {
		r.Add("q")
	}
	r.Wake("q", 1, 1, 0)
	r.Wake("q", 2, 1, 500*time.Millisecond)
	if at, ok := r.NextExpiry("q"); !ok || at != time.Second {
		t.Errorf("the first expires at %v, %v", at, ok)
	}
	if expired, more := r.Expire(999 * time.Millisecond); len(expired) != 0 || !more {
		t.Errorf("expired too early: %v", expired)
	}
	if expired, more := r.Expire(time.Second); len(expired) != 1 || expired[0].Tag != 1 || !more {
		t.Errorf("expired are %v, %v", expired, more)
	}
	if expired, more := r.Expire(time.Minute); len(expired) != 1 || expired[0].Tag != 2 || more {
		t.Errorf("expired are %v, %v", expired, more)
	}
	if _, ok := r.NextExpiry("q"); ok {
		t.Error("nothing is outstanding")
	}
}

func TestEmptiedIsCalledForTheLastWaiter(t *testing.T) {
	r := newRegistry()
	var emptied []string
	r.Emptied = func(key string) { emptied = append(emptied, key) }
	a, b, twice := r.Add("p", "q"), r.Add("q"), r.Add("x", "x")
	r.Remove(a)
	if !slices.Equal(emptied, []string{"p"}) || !slices.Equal(slices.Sorted(r.Keys()), []string{"q", "x"}) {
		t.Error(emptied)
	}
	r.Wake("q", 0, 1, 0)
	r.Remove(b)
	r.Remove(twice)
	if !slices.Equal(emptied, []string{"p", "q", "x"}) {
		t.Error(emptied)
	}
}

func TestCloseEndsWaiters(t *testing.T) {
	r := newRegistry()
	a, b := r.Add("q"), r.Add("p", "q")
	r.Wake("q", 7, 1, 0)
	if left := r.Close(); len(left) != 1 || left[0].Tag != 7 {
		t.Errorf("outstanding were %v", left)
	}
	if !isWoken(b) || r.Remove(b) || !r.Remove(a) {
		t.Error("Close must end the Wait of b without waking it")
	}
	if late := r.Add("q"); !isWoken(late) || r.Waiting("q") != 0 {
		t.Error("a waiter was added after Close")
	}
}

func TestWaitEndsForEachReason(t *testing.T) {
	for name, end := range map[string]func(r *Registry[string], leave func(), c *clock.Fake){
		"woken":   func(r *Registry[string], _ func(), _ *clock.Fake) { r.Wake("q", 0, 1, 0) },
		"closed":  func(r *Registry[string], _ func(), _ *clock.Fake) { r.Close() },
		"timeout": func(_ *Registry[string], _ func(), c *clock.Fake) { c.Advance(time.Minute) },
		"left":    func(_ *Registry[string], leave func(), _ *clock.Fake) { leave() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, c := newRegistry(), clock.NewFake()
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				w := r.Add("q")
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					w.Wait(ctx, c, time.Minute)
				}()
				synctest.Wait()
				c.Advance(time.Minute - 1)
				synctest.Wait()

				select {
				case <-ended:
					t.Fatal("Wait returned early")
				default:
				}
				end(r, leave, c)
				<-ended
			})
		})
	}
}
