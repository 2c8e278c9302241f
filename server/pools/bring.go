package pools

import (
	"context"
	"errors"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// A move that was turned around is not prepared: what goes wrong in a pool may
// be why, and then every push is to leave it at once. So what a queue was set to
// in the pool that is left, and lacks in the one that it returns to, is brought
// along meanwhile: when the turn is stored, and by every server before it removes
// the first queue.

// bringAll brings the settings of every queue of the old pool along.
func (m *pair) bringAll(ctx context.Context, namespace string) error {
	return eachName(ctx, m.old, namespace, func(q duly.QueueRef) error { return m.bring(ctx, q) })
}

// bring sets in the new pool what a queue has in the old one and lacks there.
func (m *pair) bring(ctx context.Context, q duly.QueueRef) error {
	from, err := m.old.Config(ctx, q)
	if err != nil {
		return err
	}
	to, err := m.new.Config(ctx, q)
	if err != nil {
		return err
	}
	patch := lacking(from, to, contract.DefaultQueueConfig())
	if patch.MaxJobs == from.Shards { // it may be a fence's bound, or that of one that is just gone
		fenced, err := isFenced(ctx, m.old, q)
		if err != nil {
			return err
		}
		still, err := m.old.Config(ctx, q)
		if err != nil {
			return err
		}
		if fenced || still.MaxJobs != from.MaxJobs {
			patch.MaxJobs = 0
		}
	}
	paused := from.Paused && !to.Paused
	if patch == (duly.QueueConfig{}) && !paused {
		return nil
	}
	fresh, err := m.pools.timely(ctx, m.new, &m.where)
	if err != nil {
		return err
	}
	err = fresh.Configure(ctx, q, patch)
	if patch.Shards != 0 && (errors.Is(err, duly.ErrInvalid) || errors.Is(err, duly.ErrUnsupported)) {
		patch.Shards = 0 // they are fixed, or this engine has one: the other settings matter more
		err = fresh.Configure(ctx, q, patch)
	}
	if err != nil {
		return contract.Errorf(duly.CodeOf(err), "the settings of queue %s can't be brought to the other pool: %w", q, err)
	}
	if paused {
		if err := m.bringPause(ctx, q, fresh); err != nil {
			return err
		}
	}
	return m.bringLater(ctx, q, fresh, from)
}

// bringLater brings what the old pool's queue was set to since it was read: that
// may have reached the new one before what was read did. A queue without any
// setting is one that is gone.
func (m *pair) bringLater(ctx context.Context, q duly.QueueRef, fresh *timely, from duly.QueueConfig) error {
	return follow(ctx, m.old, q, func(now duly.QueueConfig) error {
		patch := lacking(now, from, from)
		patch.Shards, patch.MaxJobs = 0, 0 // they are fixed; it may be a fence's
		from = now
		if !isSet(now) || patch == (duly.QueueConfig{}) {
			return nil
		}
		return fresh.Configure(ctx, q, patch)
	})
}

// bringPause pauses a queue in the new pool as long as it is paused in the old
// one: Resume goes there first.
func (m *pair) bringPause(ctx context.Context, q duly.QueueRef, fresh *timely) error {
	if err := fresh.Pause(ctx, q); err != nil {
		return err
	}
	now, err := m.old.Config(ctx, q)
	if err != nil || now.Paused {
		return err
	}
	return fresh.Resume(ctx, q)
}

// lacking is a patch of what differs in one configuration from another that has
// there what is usual.
func lacking(from, to, usual duly.QueueConfig) (patch duly.QueueConfig) {
	bringField(&patch.Delivery, from.Delivery, to.Delivery, usual.Delivery)
	if from.Delivery == to.Delivery {
		usual = contract.PatchConfig(usual, duly.QueueConfig{Delivery: to.Delivery}) // a push queue has usual settings of its own
	}
	bringField(&patch.Push.URL, from.Push.URL, to.Push.URL, usual.Push.URL)
	bringField(&patch.Push.OnDone, from.Push.OnDone, to.Push.OnDone, usual.Push.OnDone)
	bringField(&patch.Push.OnDead, from.Push.OnDead, to.Push.OnDead, usual.Push.OnDead)
	bringField(&patch.Shards, from.Shards, to.Shards, to.Shards)
	bringField(&patch.Defaults.Tries, from.Defaults.Tries, to.Defaults.Tries, usual.Defaults.Tries)
	bringField(&patch.Defaults.MaxStalls, from.Defaults.MaxStalls, to.Defaults.MaxStalls, usual.Defaults.MaxStalls)
	bringField(&patch.Defaults.Backoff, from.Defaults.Backoff, to.Defaults.Backoff, usual.Defaults.Backoff)
	bringField(&patch.Defaults.Lease, from.Defaults.Lease, to.Defaults.Lease, usual.Defaults.Lease)
	bringField(&patch.Defaults.TTL, from.Defaults.TTL, to.Defaults.TTL, usual.Defaults.TTL)
	bringField(&patch.Defaults.Retain, from.Defaults.Retain, to.Defaults.Retain, usual.Defaults.Retain)
	bringField(&patch.DeadAge, from.DeadAge, to.DeadAge, usual.DeadAge)
	bringField(&patch.DeadCount, from.DeadCount, to.DeadCount, usual.DeadCount)
	bringField(&patch.MaxJobs, from.MaxJobs, to.MaxJobs, usual.MaxJobs)
	bringField(&patch.MaxLeased, from.MaxLeased, to.MaxLeased, usual.MaxLeased)
	if from.Rate != to.Rate && to.Rate == usual.Rate {
		patch.Rate = from.Rate
	}
	return patch
}

func bringField[T comparable](patch *T, from, to, usual T) {
	if from != to && to == usual {
		*patch = from
	}
}
