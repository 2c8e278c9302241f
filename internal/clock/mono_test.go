package clock

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestMonoIgnoresSteps(t *testing.T) {
	t.Parallel()
	f := NewFake()
	before := f.Mono()
	f.Advance(3 * time.Second)
	f.Step(-time.Hour)
	if got := f.Mono() - before; got != 3*time.Second {
		t.Errorf("Fake: %v passed, want 3s", got)
	}
}

func TestMonoFollowsTheTimeOfASynctestBubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := System()
		before := c.Mono()
		time.Sleep(3 * time.Second)
		if got := c.Mono() - before; got != 3*time.Second {
			t.Errorf("System in a bubble: %v passed, want 3s", got)
		}
	})
}

func TestLaterShiftsMonotonicReadings(t *testing.T) {
	t.Parallel()
	f := NewFake()
	c := Later(f, time.Hour)
	f.Advance(time.Minute)
	if got := c.Mono(); got != 61*time.Minute {
		t.Errorf("mono is %s, want 61m", got)
	}

	var fired time.Duration
	c.At(62*time.Minute, func() { fired = c.Mono() })
	f.Advance(time.Hour)
	if fired != 62*time.Minute {
		t.Errorf("a timer for 62m fired at %s", fired)
	}
}
