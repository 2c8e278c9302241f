package sqliteengine

import (
	"context"
	"sync"

	"github.com/dulymq/duly"
)

var _ duly.Watcher = (*Engine)(nil)

// watchers are who is told that tokens have changed. The writer, through which
// every change goes, rings them after the commit, and when the store was opened
// again, for nobody knows what of a commit that failed is there.
type watchers struct {
	mu    sync.Mutex
	bells map[chan struct{}]struct{} // each holds one ring
}

func (w *watchers) add() chan struct{} {
	bell := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.bells == nil {
		w.bells = map[chan struct{}]struct{}{}
	}
	w.bells[bell] = struct{}{}
	return bell
}

func (w *watchers) remove(bell chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.bells, bell)
}

func (w *watchers) ring() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for bell := range w.bells {
		select {
		case bell <- struct{}{}:
		default: // it has not been heard yet
		}
	}
}

// WatchTokens implements duly.Watcher.
func (e *Engine) WatchTokens(ctx context.Context, tell func(hearing bool)) error {
	if err := e.alive(ctx); err != nil {
		return err
	}
	bell := e.watchers.add()
	defer e.watchers.remove(bell)
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
