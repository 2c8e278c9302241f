// Package cancels reports removed jobs to the watchers of one process. Engines
// that change their jobs in this process alone share it.
package cancels

import (
	"context"
	"sync"

	"github.com/dulymq/duly"
)

// mostPending bounds the reports that wait for a slow watcher. Further reports
// are dropped, because a report may be lost.
const mostPending = 10_000

// Hub holds the watchers of an engine. The zero value works.
type Hub struct {
	mu       sync.Mutex
	closed   bool
	watchers map[*watcher]struct{}
}

type watcher struct {
	namespace string
	pending   []duly.Canceled
	wake      chan struct{} // holds one signal; closed with the hub
}

// Publish reports c to the watchers of the namespace. It never blocks.
func (h *Hub) Publish(namespace string, c duly.Canceled) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.watchers {
		if w.namespace != namespace || len(w.pending) >= mostPending {
			continue
		}
		w.pending = append(w.pending, c)
		select {
		case w.wake <- struct{}{}:
		default: // a signal is pending already
		}
	}
}

// Watch calls w until ctx ends or the hub is closed.
func (h *Hub) Watch(ctx context.Context, namespace string, w duly.CancelWatch) error {
	me, ok := h.add(namespace)
	if !ok {
		return duly.ErrClosed
	}
	defer h.remove(me)
	if w.Ready != nil {
		w.Ready()
	}

	for {
		select {
		case _, open := <-me.wake:
			if !open {
				return duly.ErrClosed
			}
		case <-ctx.Done():
			return ctx.Err()
		}
		for _, c := range h.take(me) {
			w.Canceled(c)
		}
	}
}

// Close ends every Watch.
func (h *Hub) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	h.closed = true
	for w := range h.watchers {
		close(w.wake)
	}
	clear(h.watchers)
}

func (h *Hub) add(namespace string) (w *watcher, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, false
	}
	if h.watchers == nil {
		h.watchers = map[*watcher]struct{}{}
	}
	w = &watcher{namespace: namespace, wake: make(chan struct{}, 1)}
	h.watchers[w] = struct{}{}
	return w, true
}

func (h *Hub) remove(w *watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.watchers, w)
}

func (h *Hub) take(w *watcher) []duly.Canceled {
	h.mu.Lock()
	defer h.mu.Unlock()
	taken := w.pending
	w.pending = nil
	return taken
}
