package dulytest

import (
	"context"
	"errors"
	"time"
)

// idleLimit is the real time that workers may take to finish the jobs that are deliverable at one
// time of the engine's clock.
const idleLimit = 10 * time.Second

// Runner is a worker, such as *worker.Worker.
type Runner interface {
	// Run runs until ctx ends.
	Run(ctx context.Context) error
}

// startedWorker is a worker that was started.
type startedWorker struct {
	cancel context.CancelFunc
	ended  context.Context // ends when Run returns, with Run's error as its cause
}

func (w *startedWorker) stop() {
	w.cancel()
	<-w.ended.Done()
}

// Start runs a worker of this engine until the end of the test, and waits until it has
// handled the deliverable jobs. Advance and Idle wait only for workers that Start has
// started.
func (e *Engine) Start(w Runner) {
	e.tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended, end := context.WithCancelCause(context.Background())

	e.mu.Lock()
	// The worker is registered before it runs, so that Idle waits for it.
	e.workers = append(e.workers, &startedWorker{cancel: cancel, ended: ended})
	e.mu.Unlock()
	go func() { end(w.Run(ctx)) }()
	e.Idle()
}

func (e *Engine) countWorkers() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.workers)
}

// Idle waits until the started workers have nothing to do at this time of the clock. It ends
// the test if a worker has ended, or after 10 s of real time: a handler blocks, or the test
// has reserved a job and not settled it.
func (e *Engine) Idle() {
	e.tb.Helper()
	e.mu.Lock()
	// The lock is not held during the wait, because Start takes it.
	workers := e.workers
	e.mu.Unlock()
	if len(workers) == 0 {
		return
	}

	// If a worker ends, the wait is interrupted, because it would not end otherwise.
	ctx, cancel := context.WithTimeout(context.Background(), idleLimit)
	defer cancel()
	for _, w := range workers {
		stop := context.AfterFunc(w.ended, cancel)
		defer stop()
	}
	err := e.model.Idle(ctx, len(workers))

	for _, w := range workers {
		if w.ended.Err() != nil {
			e.tb.Fatalf("a worker has ended: %v", context.Cause(w.ended))
			return
		}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		e.tb.Fatalf("the workers were not done after %s: a handler blocks, or the test has reserved a job and not settled it",
			idleLimit)
		return
	}
	e.must(err)
}
