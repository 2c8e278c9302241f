package dulytest

import (
	"context"
	"errors"
	"time"
)

// idleLimit is how long, by the machine's clock, workers may take to finish
// what is deliverable at one moment of the engine's clock.
const idleLimit = 10 * time.Second

// Runner is a worker: *worker.Worker is one.
type Runner interface {
	// Run works until ctx ends.
	Run(ctx context.Context) error
}

// running is a worker that was started.
type running struct {
	cancel context.CancelFunc
	ended  context.Context // ends with Run; its cause is Run's error
}

func (r *running) stop() {
	r.cancel()
	<-r.ended.Done()
}

// Start runs a worker of this engine until the end of the test, and waits
// until it has handled what is deliverable. What Advance and Idle promise
// holds for workers that were started here and for no others.
func (e *Engine) Start(w Runner) {
	e.tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended, end := context.WithCancelCause(context.Background())
	r := &running{cancel: cancel, ended: ended}
	e.mu.Lock()
	e.workers = append(e.workers, r)
	e.mu.Unlock()
	go func() { end(w.Run(ctx)) }()
	e.Idle()
}

func (e *Engine) working() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.workers)
}

// Idle waits until the workers that were started have nothing left to do at
// this moment of the clock. It ends the test if one of them has ended, or if
// they take longer than 10 s of real time: a handler that blocks, or a job that
// the test has reserved itself and not settled.
func (e *Engine) Idle() {
	e.tb.Helper()
	e.mu.Lock()
	workers := e.workers
	e.mu.Unlock()
	if len(workers) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), idleLimit)
	defer cancel()
	for _, w := range workers {
		forget := context.AfterFunc(w.ended, cancel)
		defer forget()
	}
	err := e.model.Idle(ctx, len(workers))
	for _, w := range workers {
		if w.ended.Err() != nil {
			e.tb.Fatalf("a worker has ended: %v", context.Cause(w.ended))
			return
		}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		e.tb.Fatalf("the workers were not done after %s: a handler blocks, or the test holds a job of its own", idleLimit)
		return
	}
	e.must(err)
}
