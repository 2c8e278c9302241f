package sqliteengine

import (
	"context"
	"sync"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

var _ contract.Watcher = (*Engine)(nil)

// tokenWatchers are the WatchTokens calls. The writer notifies them after a commit with
// changes, and after it has reopened the store, because a failed commit may have taken
// effect.
type tokenWatchers struct {
	mu      sync.Mutex
	signals map[chan struct{}]struct{} // each holds one signal
}

func (w *tokenWatchers) add() chan struct{} {
	bell := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.signals == nil {
		w.signals = map[chan struct{}]struct{}{}
	}
	w.signals[bell] = struct{}{}
	return bell
}

func (w *tokenWatchers) remove(bell chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.signals, bell)
}

func (w *tokenWatchers) notify() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for bell := range w.signals {
		select {
		case bell <- struct{}{}:
		default: // a signal is already waiting
		}
	}
}

// WatchTokens implements contract.Watcher.
func (e *Engine) WatchTokens(ctx context.Context, tell func(hearing bool)) error {
	if err := e.checkOpen(ctx); err != nil {
		return err
	}
	bell := e.tokenWatchers.add()
	defer e.tokenWatchers.remove(bell)
	for {
		tell(true)
		select {
		case <-bell:
		case <-ctx.Done():
			return ctx.Err()
		case <-e.stopped:
			return duly.ErrClosed
		}
	}
}
