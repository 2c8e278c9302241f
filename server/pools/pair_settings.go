package pools

import (
	"context"
	"errors"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// What is set while a namespace moves holds in both pools. The old one is set
// first: see copy.go.

// Configure implements contract.Operator.
func (m *pair) Configure(ctx context.Context, q duly.QueueRef, patch duly.QueueConfig) error {
	if err := contract.ValidateConfig(patch); err != nil {
		return err
	}
	there, err := exists(ctx, m.old, q)
	switch {
	case err != nil:
		return err
	case m.state.draining && there:
		return m.configureBoth(ctx, q, patch)
	case m.state.draining:
		return m.new.Configure(ctx, q, patch)
	case !there && patch.Shards != 0: // what only the new pool refuses
		if err := m.new.Configure(ctx, q, duly.QueueConfig{Shards: patch.Shards}); err != nil {
			return err
		}
	}
	return m.setBoth(ctx, q, func(e contract.Engine) error { return e.Configure(ctx, q, patch) })
}

func (m *pair) configureBoth(ctx context.Context, q duly.QueueRef, patch duly.QueueConfig) error {
	if err := m.mayConfigure(ctx, q, patch); err != nil {
		return err
	}
	if err := m.configureOld(ctx, q, patch); err != nil {
		return err
	}
	return partly(m.new.Configure(ctx, q, patch))
}

// mayConfigure refuses what the new pool would, before the old one is set.
func (m *pair) mayConfigure(ctx context.Context, q duly.QueueRef, patch duly.QueueConfig) error {
	if patch.Shards != 0 { // they are fixed, once it is made
		if err := m.new.Configure(ctx, q, duly.QueueConfig{Shards: patch.Shards}); err != nil {
			return err
		}
	}
	now, err := m.new.Config(ctx, q)
	if err != nil {
		return err
	}
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

// configureOld sets a queue of the pool that is left: but for its shards, and for
// its bound where that is a fence's.
func (m *pair) configureOld(ctx context.Context, q duly.QueueRef, patch duly.QueueConfig) error {
	patch.Shards = 0
	if patch.MaxJobs != 0 {
		fenced, err := isFenced(ctx, m.old, q)
		if err != nil {
			return err
		}
		if fenced {
			patch.MaxJobs = 0
		}
	}
	if patch == (duly.QueueConfig{}) {
		return nil
	}
	err := m.old.Configure(ctx, q, patch)
	if errors.Is(err, duly.ErrInvalid) { // of other shards, their parts may be too small
		return nil
	}
	return err
}

// setBoth sets a queue while the move is prepared. One that is not in the new
// pool is made there as it is now in the old one: if it was listed already for
// being copied, nobody else would.
func (m *pair) setBoth(ctx context.Context, q duly.QueueRef, set func(e contract.Engine) error) error {
	if err := set(m.old); err != nil {
		return err
	}
	there, err := exists(ctx, m.new, q)
	if err == nil && !there {
		err = m.copy(ctx, q)
		there = errors.Is(err, duly.ErrConflict) // the phase is over, so the new pool's queue is its own
	}
	if there {
		err = set(m.new)
	}
	return partly(err)
}

// Pause implements contract.Operator.
func (m *pair) Pause(ctx context.Context, q duly.QueueRef) error {
	return m.pause(ctx, q, func(e contract.Engine) error { return e.Pause(ctx, q) })
}

// Resume implements contract.Operator.
func (m *pair) Resume(ctx context.Context, q duly.QueueRef) error {
	return m.pause(ctx, q, func(e contract.Engine) error { return e.Resume(ctx, q) })
}

func (m *pair) pause(ctx context.Context, q duly.QueueRef, set func(e contract.Engine) error) error {
	if m.state.draining {
		return m.inBoth(set)
	}
	err := m.setBoth(ctx, q, set)
	if errors.Is(err, duly.ErrNotFound) { // whoever is ahead may have pushed to the new pool
		return m.inBoth(set)
	}
	return err
}

// exists tells whether a queue was pushed to or configured.
func exists(ctx context.Context, e contract.Engine, q duly.QueueRef) (bool, error) {
	stats, err := e.Stats(ctx, q)
	if err != nil || stats.Counters.Pushed > 0 {
		return err == nil, err
	}
	config, err := e.Config(ctx, q)
	return isSet(config), err
}

// isSet tells a configuration that somebody has given. Shards alone do not tell:
// an engine may give some to every queue.
func isSet(c duly.QueueConfig) bool {
	c.Shards = contract.DefaultQueueConfig().Shards
	return c != contract.DefaultQueueConfig()
}
