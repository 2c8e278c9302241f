package pools

import (
	"context"
	"errors"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// Queues are made in the new pool as they are in the old one before jobs are
// pushed there: when a move is asked for, so that what the new pool can't take is
// told to who asks; by every server before it ends the phase, for others may not
// have heard of the move before; and in between by whoever sets something
// (pair_settings.go). All of them set the old pool's queue first, and a copy is
// made again until the old pool's queue has stayed as it was copied. So whatever
// happens at once, the setting that was given last is the one that stays.

// prepare creates the queues in the new pool and stores that the move has begun. If it
// fails, the queues that it has created stay there, without jobs.
func (r *Pools) prepare(ctx context.Context, next contract.Placement) (contract.Placement, error) {
	m, err := r.moved(&next)
	if err != nil {
		return next, err
	}

	err = m.copyAll(ctx, next.Namespace)
	if errors.Is(err, duly.ErrInvalid) {
		return next, contract.Errorf(duly.CodeInvalid,
			"%w; if an earlier move left the queue in pool %s, remove it there: duly pool move %s --to %s",
			err, next.Pool, next.Namespace, next.From)
	}
	if err != nil {
		return next, err
	}
	return r.put(ctx, next)
}

// copyAll makes every queue of the old pool in the new one as it is there.
func (m *pair) copyAll(ctx context.Context, namespace string) error {
	return eachName(ctx, m.old, namespace, func(q duly.QueueRef) error { return m.copy(ctx, q) })
}

// mostCopies bounds how often a queue is copied because it changes meanwhile.
const mostCopies = 100

// copy makes a queue in the new pool as it is in the old one. It answers
// [duly.ErrConflict] where another phase has begun: the old pool's queue may be
// gone, and the new one's newer.
func (m *pair) copy(ctx context.Context, q duly.QueueRef) error {
	if same, err := m.same(ctx, q); err != nil || same {
		return err
	}
	fresh, err := m.pools.timely(ctx, m.new, &m.where)
	if err != nil {
		return err
	}
	return follow(ctx, m.old, q, func(as duly.QueueConfig) error {
		if err := setAs(ctx, fresh, q, as); err != nil {
			return contract.Errorf(duly.CodeOf(err), "queue %s can't be made in the new pool: %w", q, err)
		}
		return nil
	})
}

// follow does something with a queue's configuration, again and again until that
// has not changed meanwhile.
func follow(ctx context.Context, e contract.Engine, q duly.QueueRef, do func(as duly.QueueConfig) error) error {
	var done duly.QueueConfig
	for range mostCopies {
		now, err := e.Config(ctx, q)
		if err != nil || now == done {
			return err
		}
		if err := do(now); err != nil {
			return err
		}
		done = now
	}
	return contract.Errorf(duly.CodeUnavailable, "the settings of queue %s keep changing; try again", q)
}

// same tells whether both pools have a queue, and have it alike.
func (m *pair) same(ctx context.Context, q duly.QueueRef) (bool, error) {
	from, err := m.old.Config(ctx, q)
	if err != nil {
		return false, err
	}
	to, err := m.new.Config(ctx, q)
	if err != nil || from != to {
		return false, err
	}
	return exists(ctx, m.new, q)
}

// setAs gives a queue a configuration.
func setAs(ctx context.Context, e contract.Engine, q duly.QueueRef, as duly.QueueConfig) error {
	patch := as
	patch.Paused = false
	if err := e.Configure(ctx, q, patch); err != nil {
		return err
	}
	now, err := e.Config(ctx, q)
	switch {
	case err != nil || now.Paused == as.Paused:
		return err
	case as.Paused:
		return e.Pause(ctx, q)
	}
	return e.Resume(ctx, q)
}
