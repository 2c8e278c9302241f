package pools

import (
	"testing"
	"time"
)

// The pause is bounded, also after a turn of an hour, as when a pool hangs.
func TestPauseAfterLongTurnIsBounded(t *testing.T) {
	t.Parallel()
	for turn, want := range map[time.Duration]time.Duration{
		0: time.Second, 100 * time.Millisecond: time.Second, time.Second: 9 * time.Second, time.Hour: time.Minute,
	} {
		if got := pauseAfter(turn); got != want {
			t.Errorf("after a turn of %s the server waits for %s, want %s", turn, got, want)
		}
	}
}
