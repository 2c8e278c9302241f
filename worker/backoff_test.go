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

func TestBackoffGrowsToASecond(t *testing.T) {
	t.Parallel()
	for _, r := range []float64{0, 0.5, 0.999999} {
		h := &engineHealth{random: func() float64 { return r }}
		for n := 1; n < 100; n++ {
			most := min(firstPause<<min(n-1, 10), maxPause)
			if got := h.backoff(n, nil); got < most/2 || got > most {
				t.Errorf("pause %d is %v, want %v to %v", n, got, most/2, most)
			}
		}
	}
}

func TestBackoffFollowsTheAnswerOfALimit(t *testing.T) {
	t.Parallel()
	h := &engineHealth{random: random}
	err := fmt.Errorf("wrapped: %w", &duly.Error{Code: duly.CodeLimited, RetryAfter: 7 * time.Second})
	if got := h.backoff(1, err); got != 7*time.Second {
		t.Errorf("the pause is %v, want 7s", got)
	}
}

func TestMaxPauseBoundsOtherAnswers(t *testing.T) {
	t.Parallel()
	h := &engineHealth{random: func() float64 { return 0 }}
	for asked, want := range map[time.Duration]time.Duration{
		time.Hour: maxPause, maxPause * 3 / 4: maxPause * 3 / 4, 0: firstPause / 2,
	} {
		if got := h.backoff(1, &duly.Error{Code: duly.CodeUnavailable, RetryAfter: asked}); got != want {
			t.Errorf("the pause is %v after an answer with %v, want %v", got, asked, want)
		}
	}
}

func TestRandomIsBetweenZeroAndOne(t *testing.T) {
	t.Parallel()
	low, high := 1.0, 0.0
	for range 1000 {
		d := random()
		low, high = min(low, d), max(high, d)
	}
	if low < 0 || low > 0.1 || high >= 1 || high < 0.9 {
		t.Errorf("the numbers are between %v and %v, want 0 to 1", low, high)
	}
}

func TestSingleFailureIsNotALostStore(t *testing.T) {
	t.Parallel()
	var lost, back int
	o := &Observer{StoreLost: func(error) { lost++ }, StoreBack: func(time.Duration) { back++ }}
	h := newEngineHealth(clock.NewFake(), slog.New(slog.DiscardHandler), o, random)
	fails := func(context.Context) error { return duly.ErrUnavailable }
	works := func(context.Context) error { return nil }
	for range 10 {
		h.call(t.Context(), opReserve, time.Second, fails)
		h.call(t.Context(), opReserve, time.Second, works)
	}
	if lost != 0 || back != 0 {
		t.Errorf("lost %d, back %d after single failures", lost, back)
	}

	for range 10 {
		h.call(t.Context(), opReserve, time.Second, fails)
		h.call(t.Context(), opSettle, time.Second, works)
	}
	h.call(t.Context(), opReserve, time.Second, works)
	if lost != 1 || back != 1 {
		t.Errorf("lost %d, back %d after failures in a row", lost, back)
	}
}

func TestInterruptedCallIsNotALostStore(t *testing.T) {
	t.Parallel()
	o := &Observer{StoreLost: func(error) { t.Error("the store is reported as lost") }}
	h := newEngineHealth(clock.NewFake(), slog.New(slog.DiscardHandler), o, random)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 3 {
		h.call(ctx, opWait, time.Second, func(ctx context.Context) error { return ctx.Err() })
	}
}
