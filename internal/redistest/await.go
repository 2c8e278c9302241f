package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/dulymq/duly/internal/eventually"
)

// patience is the longest wait for an action that a healthy server does in milliseconds or, in a
// cluster, in seconds. It is long, because the machine may be busy.
const patience = 2 * time.Minute

// Await is like [eventually.True].
func Await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	eventually.True(t, what, holds)
}

// await is like Await, for a condition that returns what is missing.
func await(t testing.TB, what string, missing func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := until(ctx, func() error { return missing(ctx) }); err != nil {
		t.Fatalf("waited in vain: %s: %v", what, err)
	}
}

// until repeats f until it returns no error. If the context ends first, it returns f's last
// error. It tries often at first, then every 20 ms.
func until(ctx context.Context, f func() error) error {
	began, last := time.Now(), errors.New("the condition was not tried yet")
	for rest := time.Millisecond; ; rest = min(2*rest, 20*time.Millisecond) {
		err := f()
		if err == nil {
			return nil
		}
		// An error after the end says only that the time is over.
		if ctx.Err() == nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, os.ErrDeadlineExceeded) {
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not in %v: %w", time.Since(began).Round(time.Second), last)
		case <-time.After(rest):
		}
	}
}
