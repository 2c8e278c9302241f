// Package eventually lets tests wait for conditions that nothing signals.
package eventually

import (
	"testing"
	"time"
)

// patience is the longest wait. Conditions in tests take milliseconds, but a busy machine may be
// much slower.
const patience = 2 * time.Minute

// True polls a condition until it holds: often at first, then every 20 ms. It fails the test
// after two minutes. what describes the condition in the failure message.
func True(t testing.TB, what string, holds func() bool) {
	t.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for rest := time.Millisecond; !holds(); rest = min(2*rest, 20*time.Millisecond) {
		select {
		case <-limit.C:
			t.Fatalf("waited %v in vain for: %s", patience, what)
		case <-time.After(rest):
		}
	}
}

// Receive returns the next value of a channel, or the zero value if the channel is closed. It
// fails the test after two minutes. what describes the value in the failure message.
func Receive[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case got := <-from:
		return got
	case <-limit.C:
		t.Fatalf("waited %v in vain for: %s", patience, what)
	}
	panic("unreachable")
}
