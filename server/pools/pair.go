package pools

import (
	"context"
	"errors"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// pair is the two pools of a namespace that moves, as one engine. target is
// where jobs are pushed: old while the move is prepared, then new. See the
// package's comment for what holds meanwhile.
type pair struct {
	old, new      contract.Engine
	target, other contract.Engine
	state         *moving
	pools         *Pools
	where         contract.Placement
}

var _ contract.Engine = (*pair)(nil)

// moved is a namespace's pair.
func (r *Pools) moved(p *contract.Placement) (*pair, error) {
	old, err := r.at(p.Namespace, p.From)
	if err != nil {
		return nil, err
	}
	fresh, err := r.at(p.Namespace, p.Pool)
	if err != nil {
		return nil, err
	}
	m := &pair{old: old, new: fresh, target: fresh, other: old, state: r.stateOf(p), pools: r, where: *p}
	if p.Phase == contract.Preparing {
		m.target, m.other = old, fresh
	}
	return m, nil
}

// Push implements duly.Engine. An ID that may have been pushed before is looked
// for in the other pool first.
func (m *pair) Push(ctx context.Context, jobs []duly.Job) ([]duly.PushResult, error) {
	results := make([]duly.PushResult, len(jobs))
	there := make([]bool, len(jobs)) // in the other pool, or not known
	atOnce(len(jobs), func(i int) {
		j := &jobs[i]
		if j.Made || j.ID == "" {
			return
		}
		found, err := m.other.Get(ctx, duly.QueueRef{Namespace: j.Namespace, Name: j.Queue}, j.ID)
		switch {
		case err == nil:
			results[i], there[i] = duly.PushResult{ID: j.ID, Status: duly.Exists, State: found.State}, true
		case !absent(err):
			results[i], there[i] = duly.PushResult{ID: j.ID, Err: err}, true
		}
	})
	if err := ctx.Err(); err != nil {
		return nil, err // nothing was pushed
	}
	var rest []duly.Job
	for i := range jobs {
		if !there[i] {
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
		if !there[i] {
			results[i], answers = answers[0], answers[1:]
		}
	}
	return results, nil
}

// absent tells whether an error says that there is no such job; one that can't
// be is for the push to refuse.
func absent(err error) bool {
	return errors.Is(err, duly.ErrNotFound) || errors.Is(err, duly.ErrInvalid)
}

// Settle implements duly.Engine: a receipt is one pool's, and the other one
// knows nothing of it.
func (m *pair) Settle(ctx context.Context, namespace string, outcomes []duly.SettleRequest) ([]error, error) {
	return both(outcomes, func(some []duly.SettleRequest) ([]error, error) {
		return m.old.Settle(ctx, namespace, some)
	}, func(some []duly.SettleRequest) ([]error, error) {
		return m.new.Settle(ctx, namespace, some)
	})
}

// Extend implements duly.Engine.
func (m *pair) Extend(ctx context.Context, namespace string, receipts []duly.Receipt, lease time.Duration) ([]error, error) {
	return both(receipts, func(some []duly.Receipt) ([]error, error) {
		return m.old.Extend(ctx, namespace, some, lease)
	}, func(some []duly.Receipt) ([]error, error) {
		return m.new.Extend(ctx, namespace, some, lease)
	})
}

// partly is the error of a call whose first half was done: that of a context
// alone would say that nothing was.
func partly(err error) error {
	if duly.CodeOf(err) != duly.CodeInternal || !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return contract.Unanswered(err)
}

// both asks the old pool, and the new one for what the old one does not know.
// If the old one does not answer, what the new one does not know either is
// unavailable, for it may be the old one's.
func both[T any](items []T, old, fresh func([]T) ([]error, error)) ([]error, error) {
	errs, err := old(items)
	if err != nil && !errors.Is(err, duly.ErrUnavailable) {
		return nil, err
	}
	if err != nil {
		errs = make([]error, len(items))
		for i := range errs {
			errs[i] = duly.ErrLeaseLost
		}
	}
	var rest []T
	var places []int
	for i := range items {
		if errors.Is(errs[i], duly.ErrLeaseLost) {
			rest, places = append(rest, items[i]), append(places, i)
		}
	}
	if len(rest) == 0 {
		return errs, nil
	}
	answers, errNew := fresh(rest)
	if errNew = partly(errNew); errNew != nil && (err != nil || !errors.Is(errNew, duly.ErrUnavailable)) {
		return nil, errNew
	}
	for k, i := range places {
		switch {
		case errNew != nil:
			errs[i] = errNew
		case err != nil && errors.Is(answers[k], duly.ErrLeaseLost):
			errs[i] = err
		default:
			errs[i] = answers[k]
		}
	}
	return errs, nil
}

// Close implements duly.Engine: the pools are not the pair's to close.
func (m *pair) Close() error { return nil }
