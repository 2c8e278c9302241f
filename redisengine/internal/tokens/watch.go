package tokens

import (
	"context"
	"sync"

	"github.com/dulymq/duly"
)

// watch is the subscription to changes of tokens, targets and push queues. All calls of
// WatchTokens in a process share it, because a subscription queries the server three times per
// second.
type watch struct {
	mu  sync.Mutex
	run *watchRun // nil while there are no watchers
}

// watchRun is the subscription from its first watcher to its last.
type watchRun struct {
	cancel context.CancelFunc
	ended  chan struct{} // closed after the subscription has ended

	mu       sync.Mutex
	watchers map[chan struct{}]bool // each channel holds one signal
	reported bool                   // whether the subscription has reported its state
	hearing  bool
}

// WatchTokens implements contract.Watcher.
func (e *Tokens) WatchTokens(ctx context.Context, tell func(hearing bool)) error {
	if err := e.store.Alive(ctx); err != nil {
		return err
	}
	ring := make(chan struct{}, 1)
	run := e.join(ring)
	defer e.leave(run, ring)

	for {
		select {
		case <-ring:
			tell(run.isHearing())
		case <-run.ended:
			return duly.ErrClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// join adds a watcher. The first watcher starts the subscription.
func (e *Tokens) join(ring chan struct{}) *watchRun {
	e.watch.mu.Lock()
	defer e.watch.mu.Unlock()
	run := e.watch.run
	if run == nil {
		ctx, cancel := context.WithCancel(context.Background())
		run = &watchRun{cancel: cancel, ended: make(chan struct{}), watchers: map[chan struct{}]bool{}}
		e.watch.run = run
		go e.subscribe(ctx, run)
	}

	run.mu.Lock()
	defer run.mu.Unlock()
	run.watchers[ring] = true
	// A later watcher must also learn the current state.
	if run.reported {
		ring <- struct{}{}
	}
	return run
}

// leave removes a watcher. The last one ends the subscription.
func (e *Tokens) leave(run *watchRun, ring chan struct{}) {
	e.watch.mu.Lock()
	defer e.watch.mu.Unlock()
	run.mu.Lock()
	defer run.mu.Unlock()
	delete(run.watchers, ring)
	if len(run.watchers) == 0 && e.watch.run == run {
		e.watch.run = nil
		run.cancel()
	}
}

// subscribe passes reports on until the last watcher leaves or the engine is closed.
func (e *Tokens) subscribe(ctx context.Context, run *watchRun) {
	_ = e.store.Link.Subscribe(ctx, e.store.TokenKey("changes"), run.report, e.resets.LostTokens)
	// After the last watcher left, no one waits for it.
	close(run.ended)
}

// report signals every watcher.
func (r *watchRun) report(hearing bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reported, r.hearing = true, hearing
	for ring := range r.watchers {
		select {
		case ring <- struct{}{}:
		// A signal is pending, and its receiver reads the newest state.
		default:
		}
	}
}

func (r *watchRun) isHearing() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hearing
}
