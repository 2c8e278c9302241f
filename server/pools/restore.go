package pools

import (
	"context"
	"errors"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// A reversed move is not prepared: because the pool to be left may have failed, and pushes must
// leave it at once. Instead, settings that only the pool to be left has are restored in the other
// pool. That happens when the reversal is stored, and on every server before it removes the first
// queue.

// restoreAllSettings restores the settings of every queue of the old pool.
func (m *migratingEngine) restoreAllSettings(ctx context.Context, namespace string) error {
	return eachName(ctx, m.old, namespace, func(q duly.QueueRef) error { return m.restoreSettings(ctx, q) })
}

// restoreSettings copies those settings of a queue to the new pool that it has only in the old
// pool.
func (m *migratingEngine) restoreSettings(ctx context.Context, q duly.QueueRef) error {
	from, err := settingsOf(ctx, m.old, q)
	if err != nil {
		return err
	}
	to, err := settingsOf(ctx, m.new, q)
	if err != nil {
		return err
	}

	patch := missingSettings(from, to, contract.DefaultQueueConfig())
	// This limit may be that of a seal, so it is not restored.
	if patch.MaxJobs == from.Shards {
		sealed, err := m.wasSealed(ctx, q, from)
		if err != nil {
			return err
		}
		if sealed {
			patch.MaxJobs = 0
		}
	}
	pause := from.Paused && !to.Paused
	if patch == (duly.QueueConfig{}) && !pause {
		return nil
	}

	// The new pool is changed from here on, so the phase must still be current.
	step, err := m.pools.beginStep(ctx, m.new, &m.where)
	if err != nil {
		return err
	}
	err = step.Configure(ctx, q, patch)
	if patch.Shards != 0 && (errors.Is(err, duly.ErrInvalid) || errors.Is(err, duly.ErrUnsupported)) {
		// The queue already has another number of shards. Its other settings can still be restored.
		patch.Shards = 0
		err = step.Configure(ctx, q, patch)
	}
	if err != nil {
		return contract.Errorf(duly.CodeOf(err), "the settings of queue %s cannot be restored in the other pool: %w", q, err)
	}
	if pause {
		if err := m.restorePause(ctx, q, step); err != nil {
			return err
		}
	}
	return m.restoreLaterSettings(ctx, q, step, from)
}

// wasSealed reports whether a queue of the old pool is sealed, or was when its configuration
// was read.
func (m *migratingEngine) wasSealed(ctx context.Context, q duly.QueueRef, read duly.QueueConfig) (bool, error) {
	sealed, err := isSealed(ctx, m.old, q)
	if err != nil {
		return false, err
	}
	now, err := m.old.Config(ctx, q)
	return sealed || now.MaxJobs != read.MaxJobs, err
}

// restoreLaterSettings restores what has changed in the old pool since it was read. Such a change
// may have reached the new pool first, and then have been overwritten by the restored settings. If
// the queue in the old pool has no settings any more, it was removed.
func (m *migratingEngine) restoreLaterSettings(
	ctx context.Context, q duly.QueueRef, step *stepEngine, from duly.QueueConfig,
) error {
	return untilStable(ctx, m.old, q, func(now duly.QueueConfig) error {
		patch := missingSettings(now, from, from)
		// Shards cannot change, and the bound may be a seal's.
		patch.Shards, patch.MaxJobs = 0, 0
		from = now
		if !isSet(now) || patch == (duly.QueueConfig{}) {
			return nil
		}
		return step.Configure(ctx, q, patch)
	})
}

// restorePause pauses a queue in the new pool while it is paused in the old one. A concurrent
// Resume resumes the old pool's queue first, so restorePause reads the old pool's queue again.
func (m *migratingEngine) restorePause(ctx context.Context, q duly.QueueRef, step *stepEngine) error {
	if err := step.Pause(ctx, q); err != nil {
		return err
	}
	now, err := m.old.Config(ctx, q)
	if err != nil || now.Paused {
		return err
	}
	return step.Resume(ctx, q)
}

// missingSettings returns a patch with the settings of from that differ in to, where to has
// the default.
func missingSettings(from, to, defaults duly.QueueConfig) (patch duly.QueueConfig) {
	missingField(&patch.Delivery, from.Delivery, to.Delivery, defaults.Delivery)
	if from.Delivery == to.Delivery {
		// A push queue has different defaults.
		defaults = contract.PatchConfig(defaults, duly.QueueConfig{Delivery: to.Delivery})
	}

	missingField(&patch.Push.URL, from.Push.URL, to.Push.URL, defaults.Push.URL)
	missingField(&patch.Push.OnDone, from.Push.OnDone, to.Push.OnDone, defaults.Push.OnDone)
	missingField(&patch.Push.OnDead, from.Push.OnDead, to.Push.OnDead, defaults.Push.OnDead)
	missingField(&patch.Shards, from.Shards, to.Shards, to.Shards)

	p, f, t, d := &patch.Defaults, &from.Defaults, &to.Defaults, &defaults.Defaults
	missingField(&p.Tries, f.Tries, t.Tries, d.Tries)
	missingField(&p.MaxStalls, f.MaxStalls, t.MaxStalls, d.MaxStalls)
	missingField(&p.Backoff, f.Backoff, t.Backoff, d.Backoff)
	missingField(&p.Lease, f.Lease, t.Lease, d.Lease)
	missingField(&p.TTL, f.TTL, t.TTL, d.TTL)
	missingField(&p.Retain, f.Retain, t.Retain, d.Retain)

	missingField(&patch.DeadAge, from.DeadAge, to.DeadAge, defaults.DeadAge)
	missingField(&patch.DeadCount, from.DeadCount, to.DeadCount, defaults.DeadCount)
	missingField(&patch.MaxJobs, from.MaxJobs, to.MaxJobs, defaults.MaxJobs)
	missingField(&patch.MaxLeased, from.MaxLeased, to.MaxLeased, defaults.MaxLeased)
	missingField(&patch.Adapt.Floor, from.Adapt.Floor, to.Adapt.Floor, defaults.Adapt.Floor)
	missingField(&patch.Rate, from.Rate, to.Rate, defaults.Rate)
	return patch
}

func missingField[T comparable](patch *T, from, to, byDefault T) {
	if from != to && to == byDefault {
		*patch = from
	}
}
