package pools

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

var (
	_ contract.Maintainer = (*Pools)(nil)
	_ contract.Resetter   = (*Pools)(nil)
)

// eachPool calls do for every pool concurrently. It returns the first error, with the name
// of its pool.
func (r *Pools) eachPool(do func(p *pool) error) error {
	errs := make([]error, len(r.all))
	var running sync.WaitGroup
	for i, p := range r.all {
		running.Go(func() {
			if err := do(p); err != nil {
				errs[i] = poolError(p, err)
			}
		})
	}
	running.Wait()

	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// LastReset implements contract.Resetter. It returns the latest reset of all pools.
func (r *Pools) LastReset() (last contract.Reset) {
	for _, p := range r.all {
		// A pool that cannot be opened has detected no reset.
		engine, _ := p.get()
		if e, ok := engine.(contract.Resetter); ok {
			if reset := e.LastReset(); reset.At.After(last.At) {
				last = reset
			}
		}
	}
	return last
}

// poolError adds the name of a pool to an error.
func poolError(p *pool, err error) error {
	message := err.Error()
	var e *duly.Error
	if errors.As(err, &e) {
		message = e.Message
	}
	return &duly.Error{Code: duly.CodeOf(err), Message: fmt.Sprintf("pool %s: %s", p.name, message), Cause: err}
}

// Down returns the names of the pools that are not reachable.
func (r *Pools) Down(ctx context.Context) []string {
	return r.poolsWhere(func(engine contract.Engine, err error) bool {
		if err == nil {
			_, err = engine.Queues(ctx, duly.DefaultNamespace, duly.PageParams{Limit: 1})
		}
		return err != nil
	})
}

// Full returns the names of the pools that refuse new jobs because their disk is full.
func (r *Pools) Full(ctx context.Context) []string {
	return r.poolsWhere(func(engine contract.Engine, _ error) bool {
		a, ok := engine.(contract.Accepter)
		return ok && errors.Is(a.Accepts(ctx), duly.ErrFull)
	})
}

// poolsWhere calls is for all pools concurrently, and returns the names of the pools for which
// it returns true.
func (r *Pools) poolsWhere(is func(engine contract.Engine, err error) bool) (names []string) {
	if r == nil {
		return nil
	}
	found := make([]bool, len(r.all))
	var running sync.WaitGroup
	for i, p := range r.all {
		running.Go(func() { found[i] = is(p.get()) })
	}
	running.Wait()

	for i, p := range r.all {
		if found[i] {
			names = append(names, p.name)
		}
	}
	return names
}

// Sweep implements contract.Maintainer, for all pools concurrently. A pool that is not reachable
// delays only the end of the call.
func (r *Pools) Sweep(ctx context.Context) error {
	return r.eachPool(func(p *pool) error {
		m, err := p.maintainer()
		// An engine without maintenance has nothing to sweep.
		if errors.Is(err, duly.ErrUnsupported) {
			return nil
		}
		if err == nil {
			err = m.Sweep(ctx)
		}
		return err
	})
}

// Check implements contract.Maintainer, one pool after the other. Except in the default pool, the
// detail of a fault begins with the name of its pool. After an error in one pool, Check still
// checks the other pools.
func (r *Pools) Check(ctx context.Context, p contract.CheckParams) (sum contract.CheckReport, err error) {
	progress := p.Progress
	var before int64
	for _, pool := range r.all {
		m, failed := pool.maintainer()
		if errors.Is(failed, duly.ErrUnsupported) {
			continue
		}

		var report contract.CheckReport
		if failed == nil {
			if progress != nil {
				// Callers see one progress over all pools.
				p.Progress = func(done, total int64) { progress(before+done, before+total) }
			}
			report, failed = m.Check(ctx, p)
		}
		if failed != nil && err == nil {
			err = poolError(pool, failed)
		}

		before += report.Jobs + report.Messages
		sum.Jobs += report.Jobs
		sum.Messages += report.Messages
		sum.Repaired += report.Repaired
		for _, f := range report.Faults {
			if pool.name != contract.DefaultPool {
				f.Detail = "pool " + pool.name + ": " + f.Detail
			}
			sum.Faults = append(sum.Faults, f)
		}
	}
	if err != nil {
		// A partial report would look as if the other pools had no faults.
		return contract.CheckReport{}, err
	}
	return sum, nil
}

// Step implements contract.Maintainer, in the pool of the queue.
func (r *Pools) Step(ctx context.Context, q duly.QueueRef) (more bool, err error) {
	where, err := r.Where(ctx, q.Namespace)
	if err == nil && where.From != "" {
		more, err = r.stepIn(ctx, &where, where.From, q)
	}
	if err != nil {
		return false, err
	}
	// A queue that moves may have jobs in both pools.
	moreNew, err := r.stepIn(ctx, &where, where.Pool, q)
	return more || moreNew, err
}

func (r *Pools) stepIn(ctx context.Context, where *contract.Placement, name string, q duly.QueueRef) (bool, error) {
	if _, err := r.poolEngine(where.Namespace, name); err != nil {
		return false, err
	}
	m, err := r.byName[name].maintainer()
	if err != nil {
		return false, err
	}
	return m.Step(ctx, q)
}

// Backuper returns the backuper of a pool. It returns [duly.ErrInvalid] for an unknown pool,
// and [duly.ErrUnsupported] for an engine that cannot be copied.
func (r *Pools) Backuper(name string) (contract.Backuper, error) {
	if !r.Has(name) {
		return nil, r.ErrNoPool(name)
	}
	engine, err := r.byName[name].get()
	if err != nil {
		return nil, err
	}
	b, ok := engine.(contract.Backuper)
	if !ok {
		return nil, contract.Errorf(duly.CodeUnsupported,
			"the engine of pool %s cannot make a backup; back up the files of its server", name)
	}
	return b, nil
}
