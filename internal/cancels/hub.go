// Package cancels tells the watchers of one process which jobs were removed. The
// engines that keep their jobs in this process share it.
package cancels

import (
	"context"
	"sync"

	"github.com/dulymq/duly"
)

// mostPending bounds what a slow watcher has not taken yet. What goes beyond is
// dropped: a notification may be lost.
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
	bell      chan struct{} // holds one ring; closed with the hub
}

// Tell passes c on to everybody who watches the namespace. It never blocks.
func (h *Hub) Tell(namespace string, c duly.Canceled) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.watchers {
		if w.namespace != namespace || len(w.pending) >= mostPending {
			continue
		}
		w.pending = append(w.pending, c)
		select {
		case w.bell <- struct{}{}:
		default: // it has not been heard yet
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
	if w.Hearing != nil {
		w.Hearing()
	}

	for {
		select {
		case _, open := <-me.bell:
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
		close(w.bell)
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
	w = &watcher{namespace: namespace, bell: make(chan struct{}, 1)}
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
