package clock_test

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly/internal/clock"
)

func TestFakeStaysAtTheEpoch(t *testing.T) {
	t.Parallel()
	f := clock.NewFake()
	if a, b := f.Now(), f.Now(); !a.Equal(clock.Epoch) || !b.Equal(a) {
		t.Errorf("it shows %s and then %s, want %s", a, b, clock.Epoch)
	}
}

func TestAdvanceCallsTimersInOrderAtTheirTimes(t *testing.T) {
	t.Parallel()
	f := clock.NewFake()
	var got []string
	note := func(name string) func() {
		return func() { got = append(got, name+" "+f.Now().Sub(clock.Epoch).String()) }
	}
	f.AfterFunc(3*time.Second, note("c"))
	f.AfterFunc(time.Second, note("a"))
	// Due at the same time as a; timers with equal times are called in the order of setting.
	f.AfterFunc(time.Second, note("b"))
	f.AfterFunc(5*time.Second, note("late"))
	f.Advance(4 * time.Second)
	if want := []string{"a 1s", "b 1s", "c 3s"}; !slices.Equal(got, want) {
		t.Errorf("called %q, want %q", got, want)
	}
	if now := f.Now().Sub(clock.Epoch); now != 4*time.Second || f.Timers() != 1 {
		t.Errorf("it is %s past the epoch with %d timers, want 4s and 1", now, f.Timers())
	}
}

// A timer that a timer sets is called in the same Advance if it falls due.
func TestAdvanceCallsTimersSetByTimers(t *testing.T) {
	t.Parallel()
	f := clock.NewFake()
	ticks := 0
	var tick func()
	tick = func() { ticks++; f.AfterFunc(time.Second, tick) }
	f.AfterFunc(time.Second, tick)
	f.Advance(5 * time.Second)
	if ticks != 5 {
		t.Errorf("%d ticks in 5 s, want 5", ticks)
	}
}

// The clock may have moved between the computation of a time and the call to At.
func TestAtFiresAtItsMoment(t *testing.T) {
	t.Parallel()
	f := clock.NewFake()
	at := f.Mono() + 3*time.Second
	f.Advance(2 * time.Second)
	var fired time.Duration
	f.At(at, func() { fired = f.Mono() })
	f.Advance(2 * time.Second)
	if fired != at {
		t.Errorf("fired at %s, want %s", fired, at)
	}
	past := make(chan struct{})
	f.At(at, func() { close(past) })
	<-past
}

func TestStepMovesOnlyTheWallClock(t *testing.T) {
	t.Parallel()
	f := clock.NewFake()
	called := false
	f.AfterFunc(time.Second, func() { called = true })
	f.Step(time.Hour)
	if called || f.Mono() != 0 || f.Now().Sub(clock.Epoch) != time.Hour {
		t.Errorf("after a step of 1h: called %t, mono %s, wall +%s", called, f.Mono(), f.Now().Sub(clock.Epoch))
	}
	f.Step(-2 * time.Hour)
	f.Advance(time.Second)
	if !called || f.Now().Sub(clock.Epoch) != time.Second-time.Hour {
		t.Errorf("a second later: called %t, wall +%s", called, f.Now().Sub(clock.Epoch))
	}
}

func TestStopPreventsTheCall(t *testing.T) {
	t.Parallel()
	f := clock.NewFake()
	called := 0
	timer := f.AfterFunc(time.Second, func() { called++ })
	if !timer.Stop() || timer.Stop() {
		t.Error("Stop must return true the first time and false the second")
	}
	f.Advance(time.Minute)
	timer.Reset(time.Second) // a stopped timer can be set again
	f.Advance(time.Second)
	if timer.Stop() {
		t.Error("Stop returned true for a timer that has fired")
	}
	if called != 1 {
		t.Errorf("called %d times, want once", called)
	}
}

func TestResetMovesATimer(t *testing.T) {
	t.Parallel()
	f := clock.NewFake()
	var at time.Duration
	timer := f.AfterFunc(time.Second, func() { at = f.Mono() })
	timer.Reset(3 * time.Second)
	f.Advance(time.Minute)
	if at != 3*time.Second {
		t.Errorf("called at %s, want 3s", at)
	}
}

func TestNewTimerSendsTheTimeOnce(t *testing.T) {
	t.Parallel()
	f := clock.NewFake()
	timer := f.NewTimer(time.Second)
	f.Advance(time.Hour)
	if at := <-timer.C; !at.Equal(clock.Epoch.Add(time.Second)) {
		t.Errorf("sent %s, want a second past the epoch", at)
	}
	timer.Reset(time.Second)
	f.Advance(time.Second)
	timer.Reset(time.Second)
	f.Advance(time.Second) // the channel has room for one value, and the first one was not read
	if at := <-timer.C; !at.Equal(clock.Epoch.Add(time.Hour + time.Second)) {
		t.Errorf("sent %s, want the first of the two", at)
	}
}

func TestSleepEndsAtItsTimeOrWithItsContext(t *testing.T) {
	t.Parallel()
	f := clock.NewFake()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	sleep := func() {
		go func() { ended <- clock.Sleep(ctx, f, time.Second) }()
		for f.Timers() == 0 {
			runtime.Gosched()
		}
	}

	sleep()
	f.Advance(time.Second)
	if err := <-ended; err != nil {
		t.Errorf("after its time it returned %v", err)
	}

	sleep()
	cancel()
	if err := <-ended; err != context.Canceled || f.Timers() != 0 {
		t.Errorf("canceled it returned %v and left %d timers", err, f.Timers())
	}
}

// A function with a past time runs in a separate goroutine, without a lock of the caller, and
// before the clock moves.
func TestATimerOfZeroIsCalledAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := clock.NewFake()
		var mu sync.Mutex
		called := 0
		mu.Lock()
		f.AfterFunc(0, func() { mu.Lock(); called++; mu.Unlock() })
		f.AfterFunc(-time.Second, func() { mu.Lock(); called++; mu.Unlock() })
		mu.Unlock()
		synctest.Wait()
		if called != 2 || f.Timers() != 0 {
			t.Errorf("called %d, %d timers left", called, f.Timers())
		}
		<-f.NewTimer(0).C
	})
}

func TestConcurrentAdvancesAddUp(t *testing.T) {
	t.Parallel()
	f := clock.NewFake()
	f.AfterFunc(time.Millisecond, func() { f.Advance(2 * time.Millisecond) })
	f.Advance(time.Millisecond)
	if f.Mono() != 3*time.Millisecond {
		t.Errorf("mono %s after an Advance of 1ms and one of 2ms inside it", f.Mono())
	}
}

func TestFakeIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	f := clock.NewFake()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 100 {
				timer := f.NewTimer(time.Millisecond)
				f.Advance(time.Millisecond)
				f.Step(time.Microsecond)
				timer.Reset(time.Second)
				timer.Stop()
				_, _ = f.Now(), f.Mono()
			}
		})
	}

	wg.Wait()
	if f.Mono() != 400*time.Millisecond || f.Timers() != 0 {
		t.Errorf("mono %s, %d timers; want 400ms and none", f.Mono(), f.Timers())
	}
}
