package pools

import (
	"context"
	"errors"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// Queues are created in the new pool, with the settings of the old one, before jobs are pushed
// there. Three calls do this. The first is the request of a move, so that the caller gets an error
// of the new pool. The second is made by every server before it ends the phase, because another
// server may not have seen the move before. The third is made when a caller changes settings in
// between (migrating_settings.go).
//
// All three change the queue of the old pool first. A copy is repeated until the queue of the old
// pool has not changed during the copy. So the latest settings win, whatever runs concurrently.

// prepare creates the queues in the new pool and stores that the move has begun. If it fails, the
// queues that it has created stay in the new pool, without jobs.
func (r *Pools) prepare(ctx context.Context, next contract.Placement) (contract.Placement, error) {
	m, err := r.migrating(&next)
	if err != nil {
		return next, err
	}

	// The queues come first: a move that the new pool cannot take must not be stored.
	err = m.copyAll(ctx, next.Namespace)
	if errors.Is(err, duly.ErrInvalid) {
		return next, contract.Errorf(duly.CodeInvalid,
			"%w; if an earlier move left the queue in pool %s, remove it there: duly pool move %s --to %s",
			err, next.Pool, next.Namespace, next.From)
	}
	if err != nil {
		return next, err
	}
	return r.storePhase(ctx, next)
}

// copyAll creates every queue of the old pool in the new one.
func (m *migratingEngine) copyAll(ctx context.Context, namespace string) error {
	return eachName(ctx, m.old, namespace, func(q duly.QueueRef) error { return m.copyQueue(ctx, q) })
}

// maxCopies is the largest number of repetitions of a copy while the queue changes.
const maxCopies = 100

// copyQueue creates a queue in the new pool with the settings that it has in the old one. It
// returns [duly.ErrConflict] if another phase has begun: because then the queue of the old pool may
// be gone, and the queue of the new pool may have newer settings.
func (m *migratingEngine) copyQueue(ctx context.Context, q duly.QueueRef) error {
	if copied, err := m.isCopied(ctx, q); err != nil || copied {
		return err
	}
	step, err := m.pools.beginStep(ctx, m.new, &m.where)
	if err != nil {
		return err
	}
	return untilStable(ctx, m.old, q, func(config duly.QueueConfig) error {
		if err := setConfig(ctx, step, q, config); err != nil {
			return contract.Errorf(duly.CodeOf(err), "queue %s cannot be created in the new pool: %w", q, err)
		}
		return nil
	})
}

// untilStable calls do with the configuration of a queue, and repeats it until the
// configuration has not changed during the call.
func untilStable(ctx context.Context, e contract.Engine, q duly.QueueRef, do func(duly.QueueConfig) error) error {
	var last duly.QueueConfig
	for range maxCopies {
		now, err := settingsOf(ctx, e, q)
		// The first round always continues, because no configuration of a queue is zero.
		if err != nil || now == last {
			return err
		}
		if err := do(now); err != nil {
			return err
		}
		last = now
	}
	return contract.Errorf(duly.CodeUnavailable, "the settings of queue %s keep changing while they are copied; try again", q)
}

// settingsOf returns the configuration of a queue without its closing. A closing is not a setting:
// it ends by itself, and each pool has its own.
func settingsOf(ctx context.Context, e contract.Engine, q duly.QueueRef) (duly.QueueConfig, error) {
	config, err := e.Config(ctx, q)
	config.Closing = duly.Closing{}
	return config, err
}

// isCopied reports whether both pools have a queue with the same settings.
func (m *migratingEngine) isCopied(ctx context.Context, q duly.QueueRef) (bool, error) {
	from, err := settingsOf(ctx, m.old, q)
	if err != nil {
		return false, err
	}
	to, err := settingsOf(ctx, m.new, q)
	if err != nil || from != to {
		return false, err
	}
	// Equal settings may also mean that the queue does not exist and has the defaults.
	return exists(ctx, m.new, q)
}

// setConfig sets the configuration of a queue, including its pause.
func setConfig(ctx context.Context, e contract.Engine, q duly.QueueRef, config duly.QueueConfig) error {
	patch := config
	patch.Paused = false
	if err := e.Configure(ctx, q, patch); err != nil {
		return err
	}

	// Configure cannot change the pause.
	now, err := e.Config(ctx, q)
	switch {
	case err != nil || now.Paused == config.Paused:
		return err
	case config.Paused:
		return e.Pause(ctx, q)
	}
	return e.Resume(ctx, q)
}
