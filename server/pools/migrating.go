package pools

import (
	"context"
	"errors"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// migratingEngine combines the two pools of a namespace that moves into one engine. Jobs are
// pushed to target: the old pool while the move is prepared, then the new one. The comment of
// the package lists the guarantees.
type migratingEngine struct {
	old, new      contract.Engine
	target, other contract.Engine
	state         *phaseState
	pools         *Pools
	where         contract.Placement
}

var _ contract.Engine = (*migratingEngine)(nil)

// migrating returns the engine of a namespace that moves.
func (r *Pools) migrating(p *contract.Placement) (*migratingEngine, error) {
	old, err := r.poolEngine(p.Namespace, p.From)
	if err != nil {
		return nil, err
	}
	fresh, err := r.poolEngine(p.Namespace, p.Pool)
	if err != nil {
		return nil, err
	}

	m := &migratingEngine{
		old: old, new: fresh, target: fresh, other: old, state: r.phaseState(p), pools: r, where: *p,
	}
	if p.Phase == contract.Preparing {
		m.target, m.other = old, fresh
	}
	return m, nil
}

// Push implements duly.Engine. If an ID may have been pushed before, Push first searches the
// other pool for it.
func (m *migratingEngine) Push(ctx context.Context, jobs []duly.Job) ([]duly.PushResult, error) {
	results := make([]duly.PushResult, len(jobs))
	// done marks jobs that are in the other pool, or whose search failed.
	done := make([]bool, len(jobs))
	inParallel(len(jobs), func(i int) {
		j := &jobs[i]
		// A new ID cannot be in the other pool.
		if j.Made || j.ID == "" {
			return
		}
		found, err := m.other.Get(ctx, duly.QueueRef{Namespace: j.Namespace, Name: j.Queue}, j.ID)
		switch {
		case err == nil:
			results[i], done[i] = duly.PushResult{ID: j.ID, Status: duly.Exists, State: found.State}, true
		case !absent(err):
			results[i], done[i] = duly.PushResult{ID: j.ID, Err: err}, true
		}
	})
	if err := ctx.Err(); err != nil {
		// Nothing was pushed, so the call as a whole fails.
		return nil, err
	}

	var rest []duly.Job
	for i := range jobs {
		if !done[i] {
			rest = append(rest, jobs[i])
		}
	}
	if len(rest) == 0 {
		return results, nil
	}
	answers, err := m.target.Push(ctx, rest)
	if err != nil {
		return nil, err
	}
	for i := range jobs {
		if !done[i] {
			results[i], answers = answers[0], answers[1:]
		}
	}
	return results, nil
}

// absent reports whether an error means that there is no such job. An invalid ID also counts as
// absent, because the push returns an error for it.
func absent(err error) bool {
	return errors.Is(err, duly.ErrNotFound) || errors.Is(err, duly.ErrInvalid)
}

// Settle implements duly.Engine. A receipt belongs to one pool, and the other pool returns
// lease_lost for it.
func (m *migratingEngine) Settle(
	ctx context.Context, namespace string, outcomes []duly.SettleRequest,
) ([]error, error) {
	return both(outcomes, func(some []duly.SettleRequest) ([]error, error) {
		return m.old.Settle(ctx, namespace, some)
	}, func(some []duly.SettleRequest) ([]error, error) {
		return m.new.Settle(ctx, namespace, some)
	})
}

// Extend implements duly.Engine.
func (m *migratingEngine) Extend(
	ctx context.Context, namespace string, receipts []duly.Receipt, lease time.Duration,
) ([]error, error) {
	return both(receipts, func(some []duly.Receipt) ([]error, error) {
		return m.old.Extend(ctx, namespace, some, lease)
	}, func(some []duly.Receipt) ([]error, error) {
		return m.new.Extend(ctx, namespace, some, lease)
	})
}

// partial converts the error of a call whose first half was executed. A plain context error would
// mean that no part was executed.
func partial(err error) error {
	canceled := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	if duly.CodeOf(err) != duly.CodeInternal || !canceled {
		return err
	}
	return contract.Unanswered(err)
}

// both calls the old pool, and the new one with the items for which the old one returned
// lease_lost. If the old pool is not available, the result of an item that the new pool does not
// know either is unavailable, because it may belong to the old pool.
func both[T any](items []T, old, fresh func([]T) ([]error, error)) ([]error, error) {
	errs, errOld := old(items)
	if errOld != nil && !errors.Is(errOld, duly.ErrUnavailable) {
		return nil, errOld
	}
	// The items may belong to the new pool, which still answers.
	if errOld != nil {
		errs = make([]error, len(items))
		for i := range errs {
			errs[i] = duly.ErrLeaseLost
		}
	}

	var rest []T
	var indexes []int
	for i := range items {
		if errors.Is(errs[i], duly.ErrLeaseLost) {
			rest, indexes = append(rest, items[i]), append(indexes, i)
		}
	}
	if len(rest) == 0 {
		return errs, nil
	}

	// The old pool has settled its items, so an error from here on is partial.
	answers, errNew := fresh(rest)
	errNew = partial(errNew)
	if errNew != nil && (errOld != nil || !errors.Is(errNew, duly.ErrUnavailable)) {
		return nil, errNew
	}
	for k, i := range indexes {
		switch {
		case errNew != nil:
			errs[i] = errNew
		case errOld != nil && errors.Is(answers[k], duly.ErrLeaseLost):
			errs[i] = errOld
		default:
			errs[i] = answers[k]
		}
	}
	return errs, nil
}

// Close implements duly.Engine. It closes nothing, because Pools owns the engines.
func (m *migratingEngine) Close() error { return nil }
