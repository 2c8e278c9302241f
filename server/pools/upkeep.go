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

// each does something in every pool at once and tells what has failed, by the
// pool's name.
func (r *Pools) each(do func(p *pool) error) error {
	errs := make([]error, len(r.all))
	var running sync.WaitGroup
	for i, p := range r.all {
		running.Go(func() {
			if err := do(p); err != nil {
				errs[i] = inPool(p, err)
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

// LastReset implements contract.Resetter: it tells of the pool that was reset last.
func (r *Pools) LastReset() (last contract.Reset) {
	for _, p := range r.all {
		engine, _ := p.get()
		if e, ok := engine.(contract.Resetter); ok {
			if reset := e.LastReset(); reset.At.After(last.At) {
				last = reset
			}
		}
	}
	return last
}

// inPool is an error that says which pool it is about.
func inPool(p *pool, err error) error {
	return &duly.Error{Code: duly.CodeOf(err), Message: fmt.Sprintf("pool %s: %s", p.name, message(err)), Cause: err}
}

func message(err error) string {
	var e *duly.Error
	if errors.As(err, &e) {
		return e.Message
	}
	return err.Error()
}

// Down lists the pools that do not answer.
func (r *Pools) Down(ctx context.Context) []string {
	return r.those(func(engine contract.Engine, err error) bool {
		if err == nil {
			_, err = engine.Queues(ctx, duly.DefaultNamespace, duly.PageParams{Limit: 1})
		}
		return err != nil
	})
}

// Full lists the pools that refuse new jobs because their disk is full.
func (r *Pools) Full(ctx context.Context) []string {
	return r.those(func(engine contract.Engine, _ error) bool {
		a, ok := engine.(contract.Accepter)
		return ok && errors.Is(a.Accepts(ctx), duly.ErrFull)
	})
}

// those asks all pools at once and lists those for which is returns true.
func (r *Pools) those(is func(engine contract.Engine, err error) bool) (names []string) {
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

// Sweep implements contract.Maintainer, for every pool at once: one that does not
// answer holds no other up but the end of the call.
func (r *Pools) Sweep(ctx context.Context) error {
	return r.each(func(p *pool) error {
		m, err := p.maintainer()
		if errors.Is(err, duly.ErrUnsupported) {
			return nil
		}
		if err == nil {
			err = m.Sweep(ctx)
		}
		return err
	})
}

// Check implements contract.Maintainer, one pool after the other. A fault's detail
// begins with the name of its pool, but in the default one. An error of one pool
// is told when the others were checked.
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
				p.Progress = func(done, total int64) { progress(before+done, before+total) }
			}
			report, failed = m.Check(ctx, p)
		}
		if failed != nil && err == nil {
			err = inPool(pool, failed)
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
		return contract.CheckReport{}, err
	}
	return sum, nil
}

// Step implements contract.Maintainer, where the queue is.
func (r *Pools) Step(ctx context.Context, q duly.QueueRef) (more bool, err error) {
	where, err := r.Where(ctx, q.Namespace)
	if err == nil && where.From != "" {
		more, err = r.stepIn(ctx, &where, where.From, q)
	}
	if err != nil {
		return false, err
	}
	moreNew, err := r.stepIn(ctx, &where, where.Pool, q)
	return more || moreNew, err
}

func (r *Pools) stepIn(ctx context.Context, where *contract.Placement, name string, q duly.QueueRef) (more bool, err error) {
	if _, err := r.at(where.Namespace, name); err != nil {
		return false, err
	}
	m, err := r.byName[name].maintainer()
	if err != nil {
		return false, err
	}
	return m.Step(ctx, q)
}

// Backuper is that of one pool; [duly.ErrInvalid] for a pool that there is not,
// [duly.ErrUnsupported] for an engine that can't be copied.
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
		return nil, contract.Errorf(duly.CodeUnsupported, "the engine of pool %s has no backup; copy what its server keeps", name)
	}
	return b, nil
}
