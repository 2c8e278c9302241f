package bench

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dulymq/duly/internal/clock"
)

func TestAnEngineOnTheSameClockHasNoOffset(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var seen bounds
		now := clock.Epoch
		for range 20 {
			now = now.Add(time.Duration(rapid.Int64Range(1, 5e6).Draw(t, "to the call")))
			before := now
			at := now.Add(time.Duration(rapid.Int64Range(0, 5e6).Draw(t, "to the engine")))
			now = at.Add(time.Duration(rapid.Int64Range(0, 5e6).Draw(t, "back")))
			seen.add(at.Truncate(time.Millisecond), before, now)
		}
		if got := seen.offset(); got != (clockOffset{}) {
			t.Fatalf("got %+v", got)
		}
	})
}

func TestTheOffsetOfAnotherClockIsWithinTheReportedError(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ahead := time.Duration(rapid.Int64Range(-1e12, 1e12).Draw(t, "ahead"))
		var seen bounds
		now := clock.Epoch
		for range 20 {
			now = now.Add(time.Duration(rapid.Int64Range(1, 5e6).Draw(t, "to the call")))
			before := now
			at := now.Add(time.Duration(rapid.Int64Range(0, 5e6).Draw(t, "to the engine")))
			now = at.Add(time.Duration(rapid.Int64Range(0, 5e6).Draw(t, "back")))
			seen.add(at.Add(ahead).Truncate(time.Millisecond), before, now)
		}

		got := seen.offset()
		if got == (clockOffset{}) {
			if ahead.Abs() > 11*time.Millisecond { // a call and the rounding cause at most this difference
				t.Fatalf("%s ahead was taken for one clock", ahead)
			}
			return
		}

		if diff := (got.ahead - ahead).Abs(); diff > got.either+1 {
			t.Fatalf("found %s ± %s, is %s", got.ahead, got.either, ahead)
		}
	})
}

func TestASteppingClockEnlargesTheReportedError(t *testing.T) {
	t.Parallel()
	var seen bounds
	at := clock.Epoch
	seen.add(at.Add(time.Hour), at, at)
	seen.add(at.Add(2*time.Hour), at, at)
	got := seen.offset()
	if got.ahead < time.Hour || got.ahead > 2*time.Hour+time.Millisecond || got.either < 29*time.Minute {
		t.Errorf("found %s ± %s", got.ahead, got.either)
	}
}
