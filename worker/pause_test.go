package worker

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

func TestPausesGrowToASecondAndAreSpread(t *testing.T) {
	t.Parallel()
	for _, drawn := range []float64{0, 0.5, 0.999999} {
		s := &engineHealth{random: func() float64 { return drawn }}
		for n := 1; n < 100; n++ {
			whole := min(firstPause<<min(n-1, 10), maxPause)
			if got := s.backoff(n, nil); got < whole/2 || got > whole {
				t.Errorf("pause %d is %v, want %v to %v", n, got, whole/2, whole)
			}
		}
	}
}

func TestALimitedCallerWaitsAsLongAsTheAnswerSays(t *testing.T) {
	t.Parallel()
	s := &engineHealth{random: random}
	err := fmt.Errorf("wrapped: %w", &duly.Error{Code: duly.CodeLimited, RetryAfter: 7 * time.Second})
	if got := s.backoff(1, err); got != 7*time.Second {
		t.Errorf("pause is %v", got)
	}
}

func TestAnybodyElseIsHeededUpToTheLongestPause(t *testing.T) {
	t.Parallel()
	s := &engineHealth{random: func() float64 { return 0 }}
	for asked, want := range map[time.Duration]time.Duration{time.Hour: maxPause, maxPause * 3 / 4: maxPause * 3 / 4, 0: firstPause / 2} {
		if got := s.backoff(1, &duly.Error{Code: duly.CodeUnavailable, RetryAfter: asked}); got != want {
			t.Errorf("asked %v, pause is %v, want %v", asked, got, want)
		}
	}
}

func TestDrawIsBetweenZeroAndOne(t *testing.T) {
	t.Parallel()
	low, high := 1.0, 0.0
	for range 1000 {
		d := random()
		low, high = min(low, d), max(high, d)
	}
	if low < 0 || low > 0.1 || high >= 1 || high < 0.9 {
		t.Errorf("drawn from %v to %v", low, high)
	}
}

func TestAHiccupIsNotALostStore(t *testing.T) {
	t.Parallel()
	var lost, back int
	o := &Observer{StoreLost: func(error) { lost++ }, StoreBack: func(time.Duration) { back++ }}
	s := newEngineHealth(clock.NewFake(), slog.New(slog.DiscardHandler), o, random)
	fails := func(context.Context) error { return duly.ErrUnavailable }
	works := func(context.Context) error { return nil }
	for range 10 {
		s.call(t.Context(), opReserve, time.Second, fails)
		s.call(t.Context(), opReserve, time.Second, works)
	}
	if lost != 0 || back != 0 {
		t.Errorf("lost %d, back %d after single failures", lost, back)
	}
	for range 10 {
		s.call(t.Context(), opReserve, time.Second, fails)
		s.call(t.Context(), opSettle, time.Second, works)
	}
	s.call(t.Context(), opReserve, time.Second, works)
	if lost != 1 || back != 1 {
		t.Errorf("lost %d, back %d after failures in a row", lost, back)
	}
}

func TestACallThatWasEndedByItsCallerSaysNothingOfTheStore(t *testing.T) {
	t.Parallel()
	o := &Observer{StoreLost: func(error) { t.Error("the store is called lost") }}
	s := newEngineHealth(clock.NewFake(), slog.New(slog.DiscardHandler), o, random)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 3 {
		s.call(ctx, opWait, time.Second, func(ctx context.Context) error { return ctx.Err() })
	}
}
