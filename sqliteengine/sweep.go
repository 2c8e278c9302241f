package sqliteengine

import (
	"context"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// Step implements contract.Maintainer.
func (e *Engine) Step(ctx context.Context, ref duly.QueueRef) (more bool, err error) {
	if err := contract.ValidateQueue(ref); err != nil {
		return false, err
	}
	err = e.write(ctx, &op{Call: items(stepBound), run: func(t *tx) error {
		more = false
		q := t.queue(ref.Normal())
		if q == nil {
			return nil
		}
		var err error
		more, err = t.step(q)
		return err
	}})
	return more, err
}

// Sweep implements contract.Maintainer. It compares times in memory and runs a transaction
// only for queues that have overdue work.
func (e *Engine) Sweep(ctx context.Context) error {
	refs, err := e.overdue(ctx)
	for _, ref := range refs {
		for more := true; more && err == nil; {
			more, err = e.Step(ctx, ref)
		}
	}
	return err
}

// overdue returns the queues that may have overdue work.
func (e *Engine) overdue(ctx context.Context) (refs []duly.QueueRef, err error) {
	err = e.change(ctx, func(t *tx) error {
		refs = refs[:0]
		for ref, q := range t.w.queues {
			if q.overdue(t.now) || q.log != nil && t.topicOverdue(q) {
				refs = append(refs, ref)
			}
		}
		return nil
	})
	return refs, err
}
