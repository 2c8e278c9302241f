package pools

import (
	"context"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

var (
	_ contract.Engine    = (*Pools)(nil)
	_ contract.Registry  = (*Pools)(nil)
	_ contract.Surveyor  = (*Pools)(nil)
	_ contract.Finder    = (*Pools)(nil)
	_ contract.Explainer = (*Pools)(nil)
	_ contract.KeyLister = (*Pools)(nil)
	_ contract.Passer    = (*Pools)(nil)
)

// Push implements duly.Engine. The jobs of each namespace go to its pool, in their order.
func (r *Pools) Push(ctx context.Context, jobs []duly.Job) ([]duly.PushResult, error) {
	if err := contract.CheckBatch(len(jobs), contract.BodyBytes(jobs)); err != nil {
		return nil, err
	}
	// The common case needs no copy of the jobs.
	if !severalNamespaces(jobs) {
		namespace := ""
		if len(jobs) > 0 {
			namespace = jobs[0].Namespace
		}
		engine, err := r.engineOf(ctx, namespace)
		if err != nil {
			return nil, err
		}
		return engine.Push(ctx, jobs)
	}

	results := make([]duly.PushResult, len(jobs))
	for namespace, indexes := range byNamespace(jobs) {
		some := make([]duly.Job, len(indexes))
		for k, i := range indexes {
			some[k] = jobs[i]
		}

		// An error of one namespace must not fail the jobs of other namespaces.
		engine, err := r.engineOf(ctx, namespace)
		var answers []duly.PushResult
		if err == nil {
			answers, err = engine.Push(ctx, some)
		}
		for k, i := range indexes {
			if err != nil {
				results[i] = duly.PushResult{ID: jobs[i].ID, Err: err}
			} else {
				results[i] = answers[k]
			}
		}
	}
	return results, nil
}

// severalNamespaces reports whether the jobs are of several namespaces.
func severalNamespaces(jobs []duly.Job) bool {
	for i := 1; i < len(jobs); i++ {
		if jobs[i].Namespace != jobs[0].Namespace {
			return true
		}
	}
	return false
}

// byNamespace returns the indexes of the jobs of each namespace.
func byNamespace(jobs []duly.Job) map[string][]int {
	indexes := map[string][]int{}
	for i := range jobs {
		namespace := contract.NamespaceOr(jobs[i].Namespace)
		indexes[namespace] = append(indexes[namespace], i)
	}
	return indexes
}

// Reserve implements duly.Engine.
func (r *Pools) Reserve(ctx context.Context, p duly.ReserveParams) ([]duly.Delivery, error) {
	engine, err := r.engineOf(ctx, p.Namespace)
	if err != nil {
		// Wait may have woken this caller.
		r.Pass(ctx, p.Namespace, p.Queues)
		return nil, err
	}
	return engine.Reserve(ctx, p)
}

// passTimeout bounds the time that Pass takes to find the pool of a namespace.
const passTimeout = 2 * time.Second

// Pass implements contract.Passer.
func (r *Pools) Pass(ctx context.Context, namespace string, queues []string) {
	// The caller may have left, but another waiter must still be woken.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), passTimeout)
	defer cancel()
	if engine, err := r.engineOf(ctx, namespace); err == nil {
		contract.PasserOf(engine).Pass(ctx, namespace, queues)
	}
}

// resolveInterval is the longest wait in a pool before the placement of the namespace is read
// again. So a waiting caller follows each phase before the next one begins.
const resolveInterval = propagationTime / 2

// Wait implements duly.Engine.
func (r *Pools) Wait(ctx context.Context, p duly.WaitParams) (ready bool, err error) {
	if err := contract.ValidateWait(&p); err != nil {
		return false, err
	}

	end := r.cfg.Clock.Mono() + p.Timeout
	for {
		engine, err := r.engineOf(ctx, p.Namespace)
		if err != nil {
			return false, err
		}
		left := end - r.cfg.Clock.Mono()
		some := p
		some.Timeout = max(0, min(left, resolveInterval))
		ready, err = engine.Wait(ctx, some)
		if ready || err != nil || left <= resolveInterval {
			return ready, err
		}
	}
}

// Settle implements duly.Engine.
func (r *Pools) Settle(ctx context.Context, namespace string, outcomes []duly.SettleRequest) ([]error, error) {
	engine, err := r.engineOf(ctx, namespace)
	if err != nil {
		return nil, err
	}
	return engine.Settle(ctx, namespace, outcomes)
}

// Extend implements duly.Engine.
func (r *Pools) Extend(
	ctx context.Context, namespace string, receipts []duly.Receipt, lease time.Duration,
) ([]error, error) {
	engine, err := r.engineOf(ctx, namespace)
	if err != nil {
		return nil, err
	}
	return engine.Extend(ctx, namespace, receipts, lease)
}

// Get implements contract.Inspector.
func (r *Pools) Get(ctx context.Context, q duly.QueueRef, id string) (duly.JobInfo, error) {
	return withEngine(ctx, r, q, func(e contract.Engine) (duly.JobInfo, error) { return e.Get(ctx, q, id) })
}

// Find implements contract.Finder.
func (r *Pools) Find(ctx context.Context, namespace, id string) (contract.Found, error) {
	// The namespace decides the engine, so it is checked first.
	if err := contract.ValidateFind(namespace, id); err != nil {
		return contract.Found{}, err
	}
	return withEngine(ctx, r, duly.QueueRef{Namespace: namespace}, func(e contract.Engine) (contract.Found, error) {
		return contract.FinderOf(e).Find(ctx, namespace, id)
	})
}

// Explain implements contract.Explainer.
func (r *Pools) Explain(ctx context.Context, q duly.QueueRef, id string) (contract.Explanation, error) {
	if err := contract.ValidateExplain(q, id); err != nil {
		return contract.Explanation{}, err
	}
	return withEngine(ctx, r, q, func(e contract.Engine) (contract.Explanation, error) {
		return contract.ExplainerOf(e).Explain(ctx, q, id)
	})
}

// GetJobs implements contract.Inspector.
func (r *Pools) GetJobs(
	ctx context.Context, q duly.QueueRef, ids []string, bodies bool,
) ([]contract.JobResult, error) {
	return withEngine(ctx, r, q, func(e contract.Engine) ([]contract.JobResult, error) {
		return e.GetJobs(ctx, q, ids, bodies)
	})
}

// GetByReceipt implements contract.Inspector.
func (r *Pools) GetByReceipt(ctx context.Context, namespace string, receipt duly.Receipt) (duly.JobInfo, error) {
	q := duly.QueueRef{Namespace: namespace}
	return withEngine(ctx, r, q, func(e contract.Engine) (duly.JobInfo, error) {
		return e.GetByReceipt(ctx, namespace, receipt)
	})
}

// Peek implements contract.Inspector.
func (r *Pools) Peek(ctx context.Context, q duly.QueueRef) (duly.JobInfo, error) {
	return withEngine(ctx, r, q, func(e contract.Engine) (duly.JobInfo, error) { return e.Peek(ctx, q) })
}

// List implements contract.Inspector.
func (r *Pools) List(ctx context.Context, q duly.QueueRef, p duly.ListParams) (duly.ListPage, error) {
	return withEngine(ctx, r, q, func(e contract.Engine) (duly.ListPage, error) {
		// The cursor may be from a page during the move.
		if _, moves := e.(*migratingEngine); !moves {
			if endsAfterMove(&p) {
				return duly.ListPage{}, contract.ValidateList(&p)
			}
			p.Cursor = afterMove(p.Cursor)
		}
		return e.List(ctx, q, p)
	})
}

// Queues implements contract.Inspector.
func (r *Pools) Queues(ctx context.Context, namespace string, p duly.PageParams) (duly.NamePage, error) {
	q := duly.QueueRef{Namespace: namespace}
	return withEngine(ctx, r, q, func(e contract.Engine) (duly.NamePage, error) { return e.Queues(ctx, namespace, p) })
}

// Stats implements contract.Inspector.
func (r *Pools) Stats(ctx context.Context, q duly.QueueRef) (duly.Stats, error) {
	return withEngine(ctx, r, q, func(e contract.Engine) (duly.Stats, error) { return e.Stats(ctx, q) })
}

// Survey implements contract.Surveyor.
func (r *Pools) Survey(ctx context.Context, namespace string, p duly.PageParams) (contract.SurveyPage, error) {
	return withEngine(ctx, r, duly.QueueRef{Namespace: namespace}, func(e contract.Engine) (contract.SurveyPage, error) {
		return contract.SurveyorOf(e).Survey(ctx, namespace, p)
	})
}

// Config implements contract.Inspector.
func (r *Pools) Config(ctx context.Context, q duly.QueueRef) (duly.QueueConfig, error) {
	return withEngine(ctx, r, q, func(e contract.Engine) (duly.QueueConfig, error) { return e.Config(ctx, q) })
}

// Delete implements contract.Operator.
func (r *Pools) Delete(ctx context.Context, q duly.QueueRef, id string) error {
	return r.doWithEngine(ctx, q, func(e contract.Engine) error { return e.Delete(ctx, q, id) })
}

// DeleteJobs implements contract.Operator.
func (r *Pools) DeleteJobs(ctx context.Context, q duly.QueueRef, ids []string, state duly.State) ([]error, error) {
	return withEngine(ctx, r, q, func(e contract.Engine) ([]error, error) { return e.DeleteJobs(ctx, q, ids, state) })
}

// Update implements contract.Operator.
func (r *Pools) Update(ctx context.Context, q duly.QueueRef, id string, u duly.Update) error {
	return r.doWithEngine(ctx, q, func(e contract.Engine) error { return e.Update(ctx, q, id, u) })
}

// Promote implements contract.Operator.
func (r *Pools) Promote(ctx context.Context, q duly.QueueRef, id string) error {
	return r.doWithEngine(ctx, q, func(e contract.Engine) error { return e.Promote(ctx, q, id) })
}

// PromoteJobs implements contract.Operator.
func (r *Pools) PromoteJobs(ctx context.Context, q duly.QueueRef, ids []string) ([]error, error) {
	return withEngine(ctx, r, q, func(e contract.Engine) ([]error, error) { return e.PromoteJobs(ctx, q, ids) })
}

// Requeue implements contract.Operator.
func (r *Pools) Requeue(ctx context.Context, q duly.QueueRef, p duly.RequeueParams) ([]duly.RequeueResult, error) {
	return withEngine(ctx, r, q, func(e contract.Engine) ([]duly.RequeueResult, error) { return e.Requeue(ctx, q, p) })
}

// Purge implements contract.Operator.
func (r *Pools) Purge(ctx context.Context, q duly.QueueRef, state duly.State, n int) (int, error) {
	return withEngine(ctx, r, q, func(e contract.Engine) (int, error) { return e.Purge(ctx, q, state, n) })
}

// Configure implements contract.Operator.
func (r *Pools) Configure(ctx context.Context, q duly.QueueRef, patch duly.QueueConfig) error {
	return r.doWithEngine(ctx, q, func(e contract.Engine) error { return e.Configure(ctx, q, patch) })
}

// Pause implements contract.Operator.
func (r *Pools) Pause(ctx context.Context, q duly.QueueRef) error {
	return r.doWithEngine(ctx, q, func(e contract.Engine) error { return e.Pause(ctx, q) })
}

// Resume implements contract.Operator.
func (r *Pools) Resume(ctx context.Context, q duly.QueueRef) error {
	return r.doWithEngine(ctx, q, func(e contract.Engine) error { return e.Resume(ctx, q) })
}

// Destroy implements contract.Operator.
func (r *Pools) Destroy(ctx context.Context, q duly.QueueRef) error {
	return r.doWithEngine(ctx, q, func(e contract.Engine) error { return e.Destroy(ctx, q) })
}

// withEngine calls f with the engine of a queue.
func withEngine[T any](
	ctx context.Context, r *Pools, q duly.QueueRef, f func(e contract.Engine) (T, error),
) (none T, err error) {
	engine, err := r.engineOf(ctx, q.Namespace)
	if err != nil {
		return none, err
	}
	return f(engine)
}

// doWithEngine is like withEngine for a call that returns only an error.
func (r *Pools) doWithEngine(ctx context.Context, q duly.QueueRef, f func(e contract.Engine) error) error {
	_, err := withEngine(ctx, r, q, func(e contract.Engine) (struct{}, error) { return struct{}{}, f(e) })
	return err
}
