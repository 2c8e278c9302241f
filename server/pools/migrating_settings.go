package pools

import (
	"context"
	"errors"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// Settings change in both pools while a namespace moves, in the old one first (see copy.go).

// Configure implements contract.Operator.
func (m *migratingEngine) Configure(ctx context.Context, q duly.QueueRef, patch duly.QueueConfig) error {
	if err := contract.ValidateConfig(patch); err != nil {
		return err
	}

	there, err := exists(ctx, m.old, q)
	switch {
	case err != nil:
		return err
	case m.state.draining && there:
		return m.configureBoth(ctx, q, patch)
	// A queue that the old pool no longer has must not be created there again.
	case m.state.draining:
		return m.new.Configure(ctx, q, patch)
	// An engine with one shard must refuse this before the old pool is changed.
	case !there && patch.Shards != 0:
		if err := m.new.Configure(ctx, q, duly.QueueConfig{Shards: patch.Shards}); err != nil {
			return err
		}
	}
	return m.setBoth(ctx, q, func(e contract.Engine) error { return e.Configure(ctx, q, patch) })
}

// configureBoth changes a queue that is in both pools.
func (m *migratingEngine) configureBoth(ctx context.Context, q duly.QueueRef, patch duly.QueueConfig) error {
	if err := m.mayConfigure(ctx, q, patch); err != nil {
		return err
	}
	if err := m.configureOld(ctx, q, patch); err != nil {
		return err
	}
	return partial(m.new.Configure(ctx, q, patch))
}

// mayConfigure returns the error that the new pool would return, before the old pool is changed.
func (m *migratingEngine) mayConfigure(ctx context.Context, q duly.QueueRef, patch duly.QueueConfig) error {
	// Configure changes nothing here, because the number of shards of a queue is fixed.
	if patch.Shards != 0 {
		if err := m.new.Configure(ctx, q, duly.QueueConfig{Shards: patch.Shards}); err != nil {
			return err
		}
	}

	now, err := m.new.Config(ctx, q)
	if err != nil {
		return err
	}
	// Only an empty queue can change its delivery.
	if patch.Delivery != "" && patch.Delivery != now.Delivery {
		stats, err := m.new.Stats(ctx, q)
		if err == nil && stats.Sizes != (duly.Sizes{}) {
			err = contract.DeliveryInUse(q, now.Delivery)
		}
		if err != nil {
			return err
		}
	}
	return contract.CheckConfig(contract.PatchConfig(now, patch))
}

// configureOld changes a queue of the old pool, except for its shards, and for its bound if
// the queue is sealed.
func (m *migratingEngine) configureOld(ctx context.Context, q duly.QueueRef, patch duly.QueueConfig) error {
	patch.Shards = 0
	// Another limit would let jobs into a sealed queue.
	if patch.MaxJobs != 0 {
		sealed, err := isSealed(ctx, m.old, q)
		if err != nil {
			return err
		}
		if sealed {
			patch.MaxJobs = 0
		}
	}
	if patch == (duly.QueueConfig{}) {
		return nil
	}

	err := m.old.Configure(ctx, q, patch)
	// With another number of shards, a limit per shard may be too small.
	if errors.Is(err, duly.ErrInvalid) {
		return nil
	}
	return err
}

// setBoth changes a queue while the move is prepared. It creates a missing queue in the new pool
// with the settings of the old one: because copyAll may have passed this queue already.
func (m *migratingEngine) setBoth(ctx context.Context, q duly.QueueRef, set func(e contract.Engine) error) error {
	if err := set(m.old); err != nil {
		return err
	}

	there, err := exists(ctx, m.new, q)
	if err == nil && !there {
		err = m.copyQueue(ctx, q)
		// The next phase has begun, so the new pool has the queue.
		there = errors.Is(err, duly.ErrConflict)
	}
	if there {
		err = set(m.new)
	}
	return partial(err)
}

// Pause implements contract.Operator.
func (m *migratingEngine) Pause(ctx context.Context, q duly.QueueRef) error {
	return m.pause(ctx, q, func(e contract.Engine) error { return e.Pause(ctx, q) })
}

// Resume implements contract.Operator.
func (m *migratingEngine) Resume(ctx context.Context, q duly.QueueRef) error {
	return m.pause(ctx, q, func(e contract.Engine) error { return e.Resume(ctx, q) })
}

func (m *migratingEngine) pause(ctx context.Context, q duly.QueueRef, set func(e contract.Engine) error) error {
	if m.state.draining {
		return m.inBoth(set)
	}
	err := m.setBoth(ctx, q, set)
	// A server in the next phase may have pushed to the new pool.
	if errors.Is(err, duly.ErrNotFound) {
		return m.inBoth(set)
	}
	return err
}

// exists reports whether a queue was pushed to or configured.
func exists(ctx context.Context, e contract.Engine, q duly.QueueRef) (bool, error) {
	stats, err := e.Stats(ctx, q)
	if err != nil || stats.Counters.Pushed > 0 {
		return err == nil, err
	}
	config, err := settingsOf(ctx, e, q)
	return isSet(config), err
}

// isSet reports whether a configuration differs from the default. Shards do not count,
// because an engine may have its own default for them.
func isSet(c duly.QueueConfig) bool {
	c.Shards = contract.DefaultQueueConfig().Shards
	return c != contract.DefaultQueueConfig()
}
