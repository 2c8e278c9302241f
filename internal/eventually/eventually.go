// Package eventually waits, in tests, for what happens by itself and tells
// nobody when it has.
package eventually

import (
	"testing"
	"time"
)

// patience is how long anything may take that takes milliseconds, on a machine
// that is busy with something else.
const patience = 30 * time.Second

// True looks at a condition until it holds, often at first and then every 20 ms,
// and fails the test after half a minute. It says what was waited for.
func True(t testing.TB, what string, holds func() bool) {
	t.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for rest := time.Millisecond; !holds(); rest = min(2*rest, 20*time.Millisecond) {
		select {
		case <-limit.C:
			t.Fatalf("waited %v for this: %s", patience, what)
		case <-time.After(rest):
		}
	}
}

// Receive returns the next value of a channel, or the zero value of one that is
// closed. It fails the test after half a minute. It says what was waited for.
func Receive[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case got := <-from:
		return got
	case <-limit.C:
		t.Fatalf("waited %v for this: %s", patience, what)
	}
	panic("unreachable")
}
