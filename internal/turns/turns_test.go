package turns

import (
	"context"
	"errors"
	"testing"
)

// TestTurns checks that a caller waits only for callers with its own key, and that it may give up.
func TestTurns(t *testing.T) {
	t.Parallel()
	var all Turns[string]
	slow, err := all.Take(t.Context(), "slow")
	if err != nil {
		t.Fatal(err)
	}

	other, err := all.Take(t.Context(), "other")
	if err != nil {
		t.Fatal(err)
	}
	other()
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, err := all.Take(gone, "slow"); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that has given up got %v", err)
	}

	taken := make(chan error)
	go func() {
		end, err := all.Take(t.Context(), "slow")
		if err == nil {
			end()
		}
		taken <- err
	}()
	slow()
	if err := <-taken; err != nil || len(all.list) != 0 {
		t.Errorf("the next caller got %v, and %d turns are left", err, len(all.list))
	}
}
