// Package cancels forwards reports of removed jobs to the watchers in one process. Several engines
// use it.
package cancels

import (
	"context"
	"sync"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// mostPending limits the events that a slow watcher has not taken yet. If there is one more, all
// events are dropped, and the watcher gets a gap instead.
const mostPending = 10_000

// Source watches a namespace in another process until ctx ends or the watch fails. It calls w as
// [contract.CancelWatcher] does, except that calls may be concurrent.
type Source func(ctx context.Context, namespace string, w contract.CancelWatch) error

// Hub holds the watchers of an engine. The zero value works for an engine that
// calls Publish itself for every removed job.
type Hub struct {
	// Source, if set, runs once for each namespace while the namespace has watchers.
	Source Source

	mu      sync.Mutex
	closed  bool
	feeds   map[string]*feed // feeds by namespace
	running sync.WaitGroup   // counts running Sources
}

// feed is a namespace with watchers.
type feed struct {
	watchers map[*watcher]struct{}
	ready    bool // whether the source delivers reports
	stop     context.CancelFunc
}

type watcher struct {
	pending []event
	end     error         // the reason why the watch is over, or nil
	wake    chan struct{} // has a value when the watcher should check for events
}

// event is a removed job, or with ready the start of the watch, at the beginning or after a gap.
type event struct {
	ready    bool
	canceled contract.Canceled
}

// Publish reports c to the watchers of the namespace. It never blocks.
func (h *Hub) Publish(namespace string, c contract.Canceled) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if f := h.feeds[namespace]; f != nil {
		f.pass(event{canceled: c})
	}
}

// Watch calls w until ctx ends, the hub is closed or the source fails.
func (h *Hub) Watch(ctx context.Context, namespace string, w contract.CancelWatch) error {
	me, err := h.add(namespace)
	if err != nil {
		return err
	}
	defer h.remove(namespace, me)

	for {
		select {
		case <-me.wake:
		case <-ctx.Done():
			return ctx.Err()
		}

		events, err := h.take(me)
		for _, e := range events {
			switch {
			case !e.ready:
				w.Canceled(e.canceled)
			case w.Ready != nil:
				w.Ready()
			}
		}
		if err != nil {
			return err
		}
	}
}

// Close ends every Watch, and returns when no Source is running.
func (h *Hub) Close() {
	h.mu.Lock()
	h.closed = true
	for namespace, f := range h.feeds {
		h.endLocked(namespace, f, duly.ErrClosed)
	}
	h.mu.Unlock()

	// Sources take the lock, so it must be free during this wait.
	h.running.Wait()
}

func (h *Hub) add(namespace string) (*watcher, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, duly.ErrClosed
	}
	f := h.feeds[namespace]
	if f == nil {
		f = h.beginLocked(namespace)
	}

	w := &watcher{wake: make(chan struct{}, 1)}
	f.watchers[w] = struct{}{}
	if f.ready {
		// A later watcher of a running source misses its Ready call.
		w.pass(event{ready: true})
	}
	return w, nil
}

// beginLocked creates the feed of a namespace, and starts its source.
func (h *Hub) beginLocked(namespace string) *feed {
	ctx, stop := context.WithCancel(context.Background())
	f := &feed{watchers: map[*watcher]struct{}{}, ready: h.Source == nil, stop: stop}
	if h.feeds == nil {
		h.feeds = map[string]*feed{}
	}
	h.feeds[namespace] = f
	if h.Source != nil {
		h.running.Go(func() { h.follow(ctx, namespace, f) })
	}
	return f
}

// follow runs the source of a feed.
func (h *Hub) follow(ctx context.Context, namespace string, f *feed) {
	err := h.Source(ctx, namespace, contract.CancelWatch{
		Ready: func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			f.ready = true
			f.pass(event{ready: true})
		},
		Canceled: func(c contract.Canceled) {
			h.mu.Lock()
			defer h.mu.Unlock()
			f.pass(event{canceled: c})
		},
	})

	h.mu.Lock()
	defer h.mu.Unlock()
	h.endLocked(namespace, f, err)
}

func (f *feed) pass(e event) {
	for w := range f.watchers {
		w.pass(e)
	}
}

// pass adds an event. If the list is full, a gap replaces all its
// reports.
func (w *watcher) pass(e event) {
	if len(w.pending) >= mostPending {
		w.pending, e = nil, event{ready: true}
	}
	w.pending = append(w.pending, e)
	w.ring()
}

func (w *watcher) ring() {
	select {
	case w.wake <- struct{}{}:
	default: // the signal is already set
	}
}

// endLocked ends the watches of a feed.
func (h *Hub) endLocked(namespace string, f *feed, err error) {
	f.stop()
	for w := range f.watchers {
		w.end = err
		w.ring()
	}
	clear(f.watchers)
	if h.feeds[namespace] == f {
		delete(h.feeds, namespace)
	}
}

// remove removes a watcher, and ends the feed after its last watcher.
func (h *Hub) remove(namespace string, w *watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := h.feeds[namespace]
	if f == nil {
		return
	}
	delete(f.watchers, w)
	if len(f.watchers) == 0 {
		h.endLocked(namespace, f, nil)
	}
}

func (h *Hub) take(w *watcher) ([]event, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	taken := w.pending
	w.pending = nil
	return taken, w.end
}
