package clock_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly/internal/clock"
)

// A time with a monotonic reading would hide steps of the wall clock from every subtraction.
func TestSystemNowIsWallTimeInUTC(t *testing.T) {
	t.Parallel()
	now := clock.System().Now()
	if now.Location() != time.UTC || strings.Contains(now.String(), "m=") {
		t.Errorf("now is %s, want UTC without a monotonic reading", now)
	}
}

func TestSystemTimers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clock.System()
		start := c.Mono()
		called := make(chan time.Duration, 1)
		timer := c.AfterFunc(time.Second, func() { called <- c.Mono() - start })
		if at := <-called; at != time.Second {
			t.Errorf("called after %s, want 1s", at)
		}

		timer.Reset(time.Minute)
		if !timer.Stop() || timer.Stop() {
			t.Error("Stop must return true the first time and false the second")
		}
		ticker := c.NewTimer(2 * time.Second)
		<-ticker.C
		ticker.Reset(time.Second)
		<-ticker.C
		if passed := c.Mono() - start; passed != 4*time.Second {
			t.Errorf("%s have passed, want 4s", passed)
		}
	})
}

func TestCeilMilliAndMillisRoundUp(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1_000)
	moments := []struct {
		t           time.Time
		floor, ceil int64
	}{
		{at, 1000, 1000},
		{at.Add(1), 1000, 1001},
		{at.Add(time.Millisecond - 1), 1000, 1001},
		{at.Add(time.Millisecond), 1001, 1001},
		{time.UnixMilli(-5).Add(1), -5, -4},
	}
	for _, m := range moments {
		if floor, ceil := clock.Milli(m.t), clock.CeilMilli(m.t); floor != m.floor || ceil != m.ceil {
			t.Errorf("%s is %d and %d rounded up, want %d and %d", m.t.UTC(), floor, ceil, m.floor, m.ceil)
		}
	}

	lengths := map[time.Duration]int64{
		0: 0, 1: 1, time.Millisecond: 1, time.Millisecond + 1: 2, 1500 * time.Microsecond: 2, time.Hour: 3_600_000, -1: 0,
	}
	for d, want := range lengths {
		if got := clock.Millis(d); got != want {
			t.Errorf("%s are %d ms, want %d", d, got, want)
		}
	}
}

func TestFromMilliInvertsMilli(t *testing.T) {
	t.Parallel()
	if got := clock.FromMilli(0); !got.IsZero() {
		t.Errorf("0 is %s, want no moment", got)
	}
	for _, ms := range []int64{1, 1_900_000_000_123, 253_402_300_799_999} {
		if got := clock.FromMilli(ms); clock.Milli(got) != ms || got.Location() != time.UTC {
			t.Errorf("%d is %s and back %d", ms, got, clock.Milli(got))
		}
	}
}
