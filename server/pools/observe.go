package pools

import (
	"context"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// OnResult sets a function that is called with the results of calls to a pool's engine, if the
// result says whether the engine is available. A namespace does not identify the pool while it
// moves. OnResult must be called before the first call.
func (r *Pools) OnResult(f func(ctx context.Context, pool string, err error)) { r.onResult.Store(&f) }

// ObserveFire implements contract.FireObserver, for the engines of all pools.
func (r *Pools) ObserveFire(f contract.Firing) {
	r.onFire.Store(&f)
	for _, p := range r.all {
		p.mu.Lock()
		p.observeFire(&f)
		p.mu.Unlock()
	}
}

// report calls the function of OnResult.
func (r *Pools) report(ctx context.Context, pool string, err error) {
	if f := r.onResult.Load(); f != nil {
		(*f)(ctx, pool, err)
	}
}

// observedEngine is a pool's engine that reports the results of callers' calls.
type observedEngine struct {
	contract.Engine
	pools *Pools
	name  string
}

// Push implements duly.Engine.
func (o *observedEngine) Push(ctx context.Context, jobs []duly.Job) ([]duly.PushResult, error) {
	results, err := o.Engine.Push(ctx, jobs)
	if len(jobs) > 0 {
		o.pools.report(ctx, o.name, err)
	}
	return results, err
}

// Reserve implements duly.Engine.
func (o *observedEngine) Reserve(ctx context.Context, p duly.ReserveParams) ([]duly.Delivery, error) {
	deliveries, err := o.Engine.Reserve(ctx, p)
	// If the caller has left, the engine may not have called its store.
	if ctx.Err() == nil {
		o.pools.report(ctx, o.name, err)
	}
	return deliveries, err
}

// Settle implements duly.Engine.
func (o *observedEngine) Settle(ctx context.Context, namespace string, outcomes []duly.SettleRequest) ([]error, error) {
	errs, err := o.Engine.Settle(ctx, namespace, outcomes)
	o.pools.report(ctx, o.name, err)
	return errs, err
}

// Survey implements contract.Surveyor.
func (o *observedEngine) Survey(ctx context.Context, namespace string, p duly.PageParams) (contract.SurveyPage, error) {
	return contract.SurveyorOf(o.Engine).Survey(ctx, namespace, p)
}

// Find implements contract.Finder.
func (o *observedEngine) Find(ctx context.Context, namespace, id string) (contract.Found, error) {
	return contract.FinderOf(o.Engine).Find(ctx, namespace, id)
}

// Explain implements contract.Explainer.
func (o *observedEngine) Explain(ctx context.Context, q duly.QueueRef, id string) (contract.Explanation, error) {
	return contract.ExplainerOf(o.Engine).Explain(ctx, q, id)
}

// Keys implements contract.KeyLister.
func (o *observedEngine) Keys(ctx context.Context, q duly.QueueRef, p contract.KeysParams) (contract.KeyPage, error) {
	return contract.KeyListerOf(o.Engine).Keys(ctx, q, p)
}

// Holder implements contract.KeyLister.
func (o *observedEngine) Holder(ctx context.Context, q duly.QueueRef, key string) (contract.KeyInfo, error) {
	return contract.KeyListerOf(o.Engine).Holder(ctx, q, key)
}

// Pass implements contract.Passer.
func (o *observedEngine) Pass(ctx context.Context, namespace string, queues []string) {
	contract.PasserOf(o.Engine).Pass(ctx, namespace, queues)
}
