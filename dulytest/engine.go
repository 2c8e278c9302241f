package dulytest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/model"
	"github.com/dulymq/duly/worker"
)

// TB has the methods of a testing.TB that the package uses.
type TB interface {
	// Helper marks the caller as a helper, so that a failure names the line of its caller.
	Helper()
	// Cleanup calls f at the end of the test.
	Cleanup(f func())
	// Fatalf ends the test.
	Fatalf(format string, args ...any)
}

// topics embeds contract.Topics under another name, because that interface has a method named
// Topics.
type topics = contract.Topics

// Engine is an engine in memory. It implements [contract.Topics] and
// [contract.Firer], too.
type Engine struct {
	contract.Engine
	contract.Maintainer
	contract.Registry
	contract.Watcher
	contract.Limiter
	contract.Placer
	contract.Targeter
	contract.Surveyor
	contract.Finder
	contract.Explainer
	contract.KeyLister
	contract.CancelWatcher
	contract.Passer
	contract.Firer
	topics
	// Clock is the engine's clock. Use it in configurations that have a clock. A worker does
	// not need it.
	Clock *Clock

	model *model.Engine
	tb    TB

	mu      sync.Mutex
	workers []*startedWorker
}

// New returns an empty engine, and closes it at the end of the test. Its methods end the
// test if they fail. Without a test, for example in an Example, t is nil: the methods then
// panic, and the program calls Close.
func New(t TB) *Engine {
	c := &Clock{clock.NewFake()}
	m := model.New(model.Config{Clock: c})
	e := &Engine{
		Engine: m, Maintainer: m, Registry: m, Watcher: m, Limiter: m, Placer: m, Targeter: m, Surveyor: m,
		Finder: m, Explainer: m, KeyLister: m, CancelWatcher: m, Passer: m, Firer: m, topics: m, Clock: c, model: m, tb: t,
	}
	if t == nil {
		e.tb = noTest{}
		return e
	}
	t.Helper()
	t.Cleanup(func() { e.Close() })
	return e
}

// noTest is a TB without a test.
type noTest struct{}

func (noTest) Helper()        {}
func (noTest) Cleanup(func()) {}
func (noTest) Fatalf(format string, args ...any) {
	panic("dulytest: " + fmt.Sprintf(format, args...))
}

// Close stops the workers and closes the engine. Tests need not call it.
func (e *Engine) Close() error {
	e.mu.Lock()
	workers := e.workers
	// A second Close must not stop the workers again.
	e.workers = nil
	e.mu.Unlock()

	// The workers settle their last jobs first, so the engine is closed after them.
	for _, w := range workers {
		w.stop()
	}
	return e.model.Close()
}

// Client returns a client of the engine's default namespace.
func (e *Engine) Client() *duly.Client {
	return duly.NewClient(e, duly.ClientConfig{Clock: e.Clock})
}

// Advance moves the clock. With workers it stops at each time at which something is due, and
// waits until they have finished. Without workers it moves the clock at once.
func (e *Engine) Advance(d time.Duration) {
	e.tb.Helper()
	if d < 0 {
		e.tb.Fatalf("time can't go back by %s; Clock.Step sets the clock back", -d)
	}
	e.Idle()

	end := e.Clock.Mono() + d
	for e.countWorkers() > 0 {
		// Handlers may push jobs, so the next time is computed after each step.
		next, ok := e.model.NextMoment()
		step := next.Sub(e.Clock.Now())
		if !ok || step > end-e.Clock.Mono() {
			break
		}
		e.Clock.Advance(step)
		e.Idle()
	}

	e.Clock.Advance(end - e.Clock.Mono())
	e.Idle()
}

// maxDeliveries is the largest number of deliveries of one job within one Drain.
const maxDeliveries = 1000

// Drain runs the handler for each job of the queue that is deliverable now,
// until none is left, and returns the number of deliveries. The handler's error
// settles the job as in a worker: nil acks it, another error is a failed try, and
// worker.RetryAfter, Bury, Snooze, Release and Overloaded work as well. Drain also
// handles jobs that the handler pushes into the queue. It fails the test if a job is
// deliverable again without end. It does not recover a panic.
//
// For a worker with middleware or kinds, handle is worker.Worker.Handler(queue).
func (e *Engine) Drain(queue string, handle worker.HandlerFunc) (handled int) {
	e.tb.Helper()
	ctx := context.Background()
	times := map[string]int{} // number of deliveries by job
	for {
		ds, err := e.Reserve(ctx, duly.ReserveParams{Queues: []string{queue}, Max: 1})
		e.must(err)
		if len(ds) == 0 {
			return handled
		}
		if times[ds[0].ID]++; times[ds[0].ID] > maxDeliveries {
			e.tb.Fatalf("job %s came back %d times within one Drain, body %s; snooze it for longer than 0s",
				ds[0].ID, maxDeliveries, shorten(ds[0].Body))
			return handled
		}

		o := worker.Call(ctx, handle, ds[0])
		// An error of the outcome is no failure: the handler may have deleted its own job.
		_, err = e.Settle(ctx, ds[0].Namespace, []duly.SettleRequest{o})
		e.must(err)
		handled++
	}
}

// must ends the test if err is not nil.
func (e *Engine) must(err error) {
	if err != nil {
		e.tb.Helper()
		e.tb.Fatalf("%v", err)
	}
}
