package bench

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dulymq/duly/internal/clock"
)

func TestUnclaimedJobsAreClaimedAgain(t *testing.T) {
	t.Parallel()
	r := newRun(t.Context(), 1000)
	defer r.stop(nil)
	var gaveBack atomic.Bool
	if err := r.each(8, func() error {
		for first, n := r.claim(7); n > 0; first, n = r.claim(7) {
			if r.total-first-int64(n) > 100 && gaveBack.CompareAndSwap(false, true) {
				r.unclaim(n)
				continue
			}
			r.done.Add(int64(n))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}

	if r.done.Load() != 1000 {
		t.Errorf("%d jobs were done", r.done.Load())
	}
	if !gaveBack.Load() {
		t.Error("no goroutine gave jobs back")
	}
}

func TestNoJobIsClaimedAfterTheEnd(t *testing.T) {
	t.Parallel()
	r := newRun(t.Context(), 10)
	r.stop(errTime)
	if _, n := r.claim(1); n != 0 || !r.cut() {
		t.Errorf("claimed %d, cut %v", n, r.cut())
	}
}

func TestTheFirstErrorEndsTheOtherGoroutines(t *testing.T) {
	t.Parallel()
	r := newRun(t.Context(), 1<<40)
	broken := errors.New("broken")
	var calls atomic.Int64
	err := r.each(4, func() error {
		for _, n := r.claim(1); n > 0; _, n = r.claim(1) {
			if calls.Add(1) == 50 {
				return broken
			}
		}
		return nil
	})
	if err != broken || r.cut() {
		t.Errorf("got %v, cut %v", err, r.cut())
	}
}

func TestARunEndsAtItsTimeLimitUnlessTheTimerWasStopped(t *testing.T) {
	t.Parallel()
	clk := clock.NewFake()
	r, other := newRun(t.Context(), 1), newRun(t.Context(), 1)
	defer other.stop(nil)
	r.timed(clk, time.Second)
	other.timed(clk, time.Second)()
	clk.Advance(time.Second - 1)
	if r.live.Err() != nil {
		t.Error("ended too soon")
	}
	clk.Advance(1)
	if !r.cut() {
		t.Error("did not end")
	}
	if other.live.Err() != nil {
		t.Error("ended although its timer was stopped")
	}
}

func TestAnInterruptedRunIsNotCut(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	r := newRun(ctx, 1)
	cancel()
	if r.live.Err() == nil || r.cut() {
		t.Errorf("ended %v, cut %v", r.live.Err(), r.cut())
	}
}
