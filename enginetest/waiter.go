package enginetest

import (
	"context"
	"time"

	"github.com/dulymq/duly"
)

// waiter is a call of Wait that runs beside the test.
type waiter struct {
	s      *scene
	cancel context.CancelFunc
	done   chan struct{}
	ready  bool
	err    error
}

// wait begins to wait, by default for the scene's queue and as long as may be.
func (s *scene) wait(queues ...string) *waiter { return s.waitFor(duly.MaxWait, queues...) }

func (s *scene) waitFor(timeout time.Duration, queues ...string) *waiter {
	w := s.begin(timeout, queues...)
	s.Quiet()
	return w
}

// begin is waitFor that does not look whether the call has reached its wait.
func (s *scene) begin(timeout time.Duration, queues ...string) *waiter {
	if len(queues) == 0 {
		queues = []string{s.queue}
	}
	return s.beginOn(s.Engine, duly.WaitParams{Namespace: s.namespace, Queues: queues, Timeout: timeout})
}

// beginOn begins a Wait on an engine.
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

// woke wants the waiter to have been told that there may be a job.
func (w *waiter) woke(why string) {
	w.s.Helper()
	w.s.Quiet()
	if !w.returned() {
		w.cancel()
		w.s.Errorf("the waiter sleeps at %s although %s", w.s.now(), why)
		return
	}
	if w.err != nil || !w.ready {
		w.s.Errorf("the waiter returned %t, %v although %s", w.ready, w.err, why)
	}
}

// sleeps wants the waiter to be waiting.
func (w *waiter) sleeps(why string) {
	w.s.Helper()
	w.s.Quiet()
	if w.returned() {
		w.s.Fatalf("the waiter returned %t, %v although %s", w.ready, w.err, why)
	}
}

// end ends a wait that is still on and sees it return.
func (w *waiter) end() {
	w.cancel()
	<-w.done
}
