package cancels_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/cancels"
)

// Watchers of a namespace share one source. The source ends with the last watcher. If the source
// fails, all watchers end with its error.
func TestWatchersShareASource(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun, ended := 0, 0
		fail := make(chan error)
		hub := &cancels.Hub{Source: func(ctx context.Context, namespace string, w contract.CancelWatch) error {
			begun++
			defer func() { ended++ }()
			w.Ready()
			w.Canceled(contract.Canceled{Queue: namespace})
			select {
			case err := <-fail:
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
		ctx, leave := context.WithCancel(t.Context())
		ready, results := 0, make(chan error, 2)
		watch := func() {
			results <- hub.Watch(ctx, "a", contract.CancelWatch{Ready: func() { ready++ }, Canceled: func(contract.Canceled) {}})
		}

		go watch()
		synctest.Wait()
		go watch()
		synctest.Wait()
		if begun != 1 || ready != 2 {
			t.Errorf("two watchers have %d sources, and %d of the watchers are ready; want 1 and 2", begun, ready)
		}

		broken := errors.New("broken")
		fail <- broken
		if a, b := <-results, <-results; a != broken || b != broken {
			t.Errorf("the watches ended with %v and %v", a, b)
		}

		go watch()
		synctest.Wait()
		leave()
		<-results
		synctest.Wait()
		if begun != 2 || ended != 2 {
			t.Errorf("%d sources began and %d ended", begun, ended)
		}
		hub.Close()
		if err := hub.Watch(t.Context(), "a", contract.CancelWatch{}); !errors.Is(err, duly.ErrClosed) {
			t.Errorf("a closed hub answers %v", err)
		}
	})
}

// C4.98: a watcher that is too slow gets a gap instead of the reports that it missed.
func TestASlowWatcherGetsAGap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hub, ready, canceled := &cancels.Hub{}, 0, 0
		block := make(chan struct{})
		ctx, leave := context.WithCancel(t.Context())
		go func() {
			_ = hub.Watch(ctx, "a", contract.CancelWatch{
				Ready:    func() { ready++; <-block },
				Canceled: func(contract.Canceled) { canceled++ },
			})
		}()

		synctest.Wait()
		for range 10_003 {
			hub.Publish("a", contract.Canceled{Queue: "q", IDs: []string{"j"}})
		}
		close(block)
		synctest.Wait()
		if ready != 2 || canceled != 2 {
			t.Errorf("%d gaps and %d reports, want 2 and the last 2", ready, canceled)
		}
		leave()
		hub.Close()
	})
}
