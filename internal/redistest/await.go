package redistest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/dulymq/duly/internal/eventually"
)

// patience is how long anything may take that a healthy server does in
// milliseconds or, in a cluster, in seconds, on a machine that is busy with
// something else.
const patience = 30 * time.Second

// Await is [eventually.True].
func Await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	eventually.True(t, what, holds)
}

// await is Await for a condition that says what is still missing.
func await(t testing.TB, what string, missing func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := until(ctx, func() error { return missing(ctx) }); err != nil {
		t.Fatalf("waited for this: %s: %v", what, err)
	}
}

// until repeats f until it ends without an error. When the context ends first
// it returns what f last said. It looks often at first, then every 20 ms.
func until(ctx context.Context, f func() error) error {
	last := errors.New("not looked at")
	for rest := time.Millisecond; ; rest = min(2*rest, 20*time.Millisecond) {
		err := f()
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			last = err // and not that the context ended in the middle of it
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not in %v: %w", patience, last)
		case <-time.After(rest):
		}
	}
}
