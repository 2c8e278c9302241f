package enginetest

import (
	"context"
	"time"

	"github.com/dulymq/duly"
)

// waiter is a call to Wait that runs concurrently with the test.
type waiter struct {
	s      *scene
	cancel context.CancelFunc
	done   chan struct{}
	ready  bool
	err    error
}

// wait starts a Wait with the longest timeout. The default queue is the scene's.
func (s *scene) wait(queues ...string) *waiter { return s.waitFor(duly.MaxWait, queues...) }

func (s *scene) waitFor(timeout time.Duration, queues ...string) *waiter {
	w := s.begin(timeout, queues...)

	// The waiter blocks from here on, so what the test does next has to wake it.
	s.Quiet()
	return w
}

// begin starts a Wait like waitFor, but does not wait until it blocks.
func (s *scene) begin(timeout time.Duration, queues ...string) *waiter {
	if len(queues) == 0 {
		queues = []string{s.queue}
	}
	return s.beginOn(s.Engine, duly.WaitParams{Namespace: s.namespace, Queues: queues, Timeout: timeout})
}

// beginOn starts a Wait on an engine.
func (s *scene) beginOn(e duly.Engine, p duly.WaitParams) *waiter {
	ctx, cancel := context.WithCancel(s.ctx)
	w := &waiter{s: s, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		w.ready, w.err = e.Wait(ctx, p)
	}()
	s.Cleanup(cancel)
	return w
}

func (w *waiter) returned() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// woke reports an error unless the waiter has returned true.
func (w *waiter) woke(why string) {
	w.s.Helper()

	// The engine may wake the waiter on another goroutine, so the test lets it finish.
	w.s.Quiet()
	if !w.returned() {
		w.cancel()
		w.s.Errorf("the waiter still blocks at %s, although %s", w.s.now(), why)
		return
	}
	if w.err != nil || !w.ready {
		w.s.Errorf("the waiter returned %t, %v, want true, because %s", w.ready, w.err, why)
	}
}

// sleeps fails the test if the waiter has returned.
func (w *waiter) sleeps(why string) {
	w.s.Helper()
	w.s.Quiet()
	if w.returned() {
		w.s.Fatalf("the waiter returned %t, %v, want it to block: %s", w.ready, w.err, why)
	}
}

// end cancels the wait and waits until it returns.
func (w *waiter) end() {
	w.cancel()
	<-w.done
}
