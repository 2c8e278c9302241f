package worker

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// Before any queue was served, the heaviest goes first.
func TestHeaviestQueueGoesFirst(t *testing.T) {
	t.Parallel()
	o, _ := ordered(1, 5, 3, 5)
	if got, want := o.next(), []string{"q1", "q3", "q2", "q0"}; !slices.Equal(got, want) {
		t.Errorf("the order is %v, want %v", got, want)
	}
}

// A settlement is one item, with the bytes of its result and its error.
func TestSettlementSizeCountsResultAndError(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		outcome duly.SettleRequest
		want    int
	}{
		{duly.SettleRequest{As: duly.Release}, 0},
		{duly.SettleRequest{As: duly.Ack, Result: []byte("abc")}, 3},
		{duly.SettleRequest{As: duly.Nack, Error: "no"}, 2},
		{duly.SettleRequest{Result: []byte("abc"), Error: "no"}, 5},
	} {
		if items, bytes := (settlement{outcome: tt.outcome}).size(); items != 1 || bytes != tt.want {
			t.Errorf("%+v is %d items of %d bytes, want 1 of %d", tt.outcome, items, bytes, tt.want)
		}
	}
}

// A lease ends when the trusted time has passed on either clock.
func TestEitherClockEndsALease(t *testing.T) {
	t.Parallel()
	begin := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	l := lease{from: instant{mono: time.Hour, wall: begin}, trusted: time.Minute}
	for _, tt := range []struct {
		mono, wall time.Duration
		want       bool
	}{
		{0, 0, false}, {time.Minute - 1, time.Minute - 1, false}, {time.Minute, 0, true}, {0, time.Minute, true},
		{time.Minute - 1, time.Minute, true}, {time.Minute, time.Minute - 1, true}, {-time.Hour, -time.Hour, false},
	} {
		if got := l.expired(instant{mono: time.Hour + tt.mono, wall: begin.Add(tt.wall)}); got != tt.want {
			t.Errorf("after %s, and %s on the wall clock, expired is %t, want %t", tt.mono, tt.wall, got, tt.want)
		}
	}
}

func TestConcurrencyHasItsBounds(t *testing.T) {
	t.Parallel()
	for n, ok := range map[int]bool{0: true, 1: true, MaxConcurrency: true, MaxConcurrency + 1: false, -1: false} {
		var bad contract.BadFields
		c := Config{Concurrency: n}.withDefaults(nil)
		c.validate(&bad)
		if err := bad.Err(); ok != (err == nil) || !ok && !errors.Is(err, duly.ErrInvalid) {
			t.Errorf("concurrency %d: %v", n, err)
		}
	}
}
