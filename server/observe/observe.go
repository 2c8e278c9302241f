// Package observe has the one hook into the calls of a server's engine. Metrics, the
// log, traces and caches are observers of one [Engine]. So a call passes the same
// number of decorators, however many observe it.
package observe

import (
	"context"
	"slices"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// Observer has functions that an Engine calls. Each function may be nil. The functions run in the
// goroutine of the call and must not block.
type Observer struct {
	// Pushing is called before a push. It returns the context and the jobs for the
	// push, which may be the same, and a function that is called with the result.
	Pushing Pushing
	// Pushed, Reserved and Settled are called after the call, with its arguments and its
	// result.
	Pushed   func(ctx context.Context, jobs []duly.Job, results []duly.PushResult, err error)
	Reserved func(ctx context.Context, deliveries []duly.Delivery, err error)
	Settled  func(ctx context.Context, namespace string, outcomes []duly.SettleRequest, errs []error, err error)
	// Firing is called before the process fires ticks, and returns a function that is called
	// with the result, as Pushing does. No caller waits for it.
	Firing contract.Firing
	// Waiting is called with 1 when a call begins to wait, and with -1 when it ends.
	Waiting func(n int)
	// Destroyed is called after a queue was destroyed, and after an error, which may hide
	// a success.
	Destroyed func(q duly.QueueRef, err error)
}

// Pushing is the type of Observer.Pushing.
type Pushing = func(ctx context.Context, jobs []duly.Job) (
	context.Context, []duly.Job, func(results []duly.PushResult, err error))

// Engine calls an engine and its observers.
type Engine struct {
	contract.Engine
	observers []Observer
}

// New returns an engine that calls e, and then the observers in their order.
func New(e contract.Engine, observers ...Observer) *Engine {
	o := &Engine{Engine: e}
	for i := range observers {
		o.Observe(observers[i])
	}
	return o
}

// Observe adds an observer. It must be called before the engine's first call.
func (e *Engine) Observe(o Observer) {
	e.observers = append(e.observers, o)
	// The engine fires ticks by itself, so it calls the observers. It may do so during later calls of
	// Observe, and then has the list of before.
	if f, ok := e.Engine.(contract.FireObserver); ok && o.Firing != nil {
		f.ObserveFire(firing(slices.Clone(e.observers)))
	}
}

// firing calls the observers before and after a Fire.
func firing(observers []Observer) contract.Firing {
	return func(ctx context.Context, q duly.QueueRef, now int64, items []contract.FireItem) (
		context.Context, []contract.FireItem, func([]contract.FireResult, error),
	) {
		var ends []func([]contract.FireResult, error)
		for i := range observers {
			if begin := observers[i].Firing; begin != nil {
				var end func([]contract.FireResult, error)
				ctx, items, end = begin(ctx, q, now, items)
				ends = append(ends, end)
			}
		}
		return ctx, items, func(results []contract.FireResult, err error) {
			for _, end := range slices.Backward(ends) {
				end(results, err)
			}
		}
	}
}

// Namespace implements contract.Namespacer.
func (e *Engine) Namespace() string { return duly.NamespaceOf(e.Engine) }

// Push implements duly.Engine.
func (e *Engine) Push(ctx context.Context, jobs []duly.Job) (results []duly.PushResult, err error) {
	// The functions end spans also if the engine panics. One defer for all of them, outside the loop,
	// allocates nothing.
	ends := make([]func([]duly.PushResult, error), 0, 4)
	defer func() {
		for _, end := range slices.Backward(ends) {
			end(results, err)
		}
	}()
	for i := range e.observers {
		if begin := e.observers[i].Pushing; begin != nil {
			var end func([]duly.PushResult, error)
			ctx, jobs, end = begin(ctx, jobs)
			ends = append(ends, end)
		}
	}

	results, err = e.Engine.Push(ctx, jobs)
	for i := range e.observers {
		if f := e.observers[i].Pushed; f != nil {
			f(ctx, jobs, results, err)
		}
	}
	return results, err
}

// Reserve implements duly.Engine.
func (e *Engine) Reserve(ctx context.Context, p duly.ReserveParams) ([]duly.Delivery, error) {
	deliveries, err := e.Engine.Reserve(ctx, p)
	for i := range e.observers {
		if f := e.observers[i].Reserved; f != nil {
			f(ctx, deliveries, err)
		}
	}
	return deliveries, err
}

// Settle implements duly.Engine.
func (e *Engine) Settle(ctx context.Context, namespace string, outcomes []duly.SettleRequest) ([]error, error) {
	errs, err := e.Engine.Settle(ctx, namespace, outcomes)
	for i := range e.observers {
		if f := e.observers[i].Settled; f != nil {
			f(ctx, namespace, outcomes, errs, err)
		}
	}
	return errs, err
}

// Wait implements duly.Engine.
func (e *Engine) Wait(ctx context.Context, p duly.WaitParams) (bool, error) {
	e.waiting(1)
	defer e.waiting(-1)
	return e.Engine.Wait(ctx, p)
}

func (e *Engine) waiting(n int) {
	for i := range e.observers {
		if f := e.observers[i].Waiting; f != nil {
			f(n)
		}
	}
}

// Destroy implements contract.Operator.
func (e *Engine) Destroy(ctx context.Context, q duly.QueueRef) (err error) {
	// A cache must forget the queue also if the engine panics.
	defer func() {
		for i := range e.observers {
			if f := e.observers[i].Destroyed; f != nil {
				f(q, err)
			}
		}
	}()
	return e.Engine.Destroy(ctx, q)
}
