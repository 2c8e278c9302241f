package operate

import (
	"context"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/redisengine/internal/cancel"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// Operator changes queues and jobs.
type Operator struct {
	*catalog.Catalog
	Cancels *cancel.Reporter
}

// Configure implements contract.Operator.
func (e *Operator) Configure(ctx context.Context, ref duly.QueueRef, patch duly.QueueConfig) error {
	if err := contract.ValidateConfigFor(patch, ref); err != nil {
		return err
	}
	err := e.reconfigure(ctx, ref, true, func(c *duly.QueueConfig, made bool) error {
		// Jobs are in the shard of their ID, so the number can't change later.
		if patch.Shards != 0 && patch.Shards != c.Shards && !made {
			return contract.ShardsFixed(c.Shards)
		}
		if patch.Delivery != "" && patch.Delivery != c.Delivery && !made {
			if err := e.mustBeEmpty(ctx, ref, c.Delivery); err != nil {
				return err
			}
		}
		*c = contract.PatchConfig(*c, patch)
		return contract.CheckConfig(*c)
	})
	if err != nil || !patch.Reopen {
		return err
	}
	return e.With(ctx, ref.Normal(), func(q *catalog.Queue) error {
		if q == nil {
			return nil
		}
		return e.Reopen(ctx, q)
	})
}

// mustBeEmpty returns an error if the queue has jobs in any state, because its delivery can't
// change then. A job that is pushed concurrently may still be stored under the old kind of
// delivery.
func (e *Operator) mustBeEmpty(ctx context.Context, ref duly.QueueRef, is duly.DeliveryMode) error {
	var w catalog.Walk
	return e.With(ctx, ref.Normal(), func(q *catalog.Queue) error {
		if q == nil {
			return nil
		}
		return w.Each(q, 0, func(s *catalog.Shard) error {
			msg, err := e.Link.Do(ctx, e.Link.B().Hlen().Key(s.Name("records")).Build())
			if err == nil && codec.Integer(&msg) > 0 {
				err = contract.DeliveryInUse(ref, is)
			}
			return err
		})
	})
}

// reconfigure changes a queue's configuration: in the list first, then in every shard. If the
// process dies between the two, the next call on a shard finishes the change.
func (e *Operator) reconfigure(ctx context.Context, ref duly.QueueRef, mayMake bool,
	f func(c *duly.QueueConfig, made bool) error) error {
	if err := e.Admit(ctx, ref); err != nil {
		return err
	}

	ref = ref.Normal()
	c := e.Retry(ctx)
	for c.Next() {
		q, err := e.Read(ctx, ref)
		switch {
		case err != nil:
			return err
		case q != nil && q.Topic != nil && !q.Tomb:
			return contract.IsTopic(ref)
		// The shards must be empty before a new queue can have the name.
		case q != nil && q.Tomb:
			if err := e.FinishDestroy(ctx, q); err != nil {
				return err
			}
			continue
		case q == nil && !mayMake:
			return contract.Errorf(duly.CodeNotFound, "no queue %s", ref)
		}
		if q == nil {
			cfg := e.QueueConfig()
			if err := f(&cfg, true); err != nil {
				return err
			}
			if q, err = e.Create(ctx, ref, cfg); err != nil || q.Config == cfg {
				return err
			}
			// Another process has created the queue with other settings.
			continue
		}
		cfg := q.Config
		if err := f(&cfg, false); err != nil {
			return err
		}
		// Only a Configure may add a queue, so only it checks the namespace's limit.
		sc := store.ScriptQueueSet
		if mayMake { // whether the caller is Configure, which may create the queue
			sc = store.ScriptQueuePut
		}
		next, err := e.Put(ctx, sc, ref, q.Value, catalog.PackConfig(e.NextVersion(q.Version), cfg, false))
		if err != nil {
			return err
		}
		// nil means that another process was faster.
		if next != nil {
			return e.Propagate(ctx, next, next.Shards...)
		}
	}

	return c.Failed("the configuration of queue %s keeps changing", ref)
}

// Pause implements contract.Operator.
func (e *Operator) Pause(ctx context.Context, ref duly.QueueRef) error {
	return e.setPaused(ctx, ref, true)
}

// Resume implements contract.Operator.
func (e *Operator) Resume(ctx context.Context, ref duly.QueueRef) error {
	return e.setPaused(ctx, ref, false)
}

func (e *Operator) setPaused(ctx context.Context, ref duly.QueueRef, paused bool) error {
	return e.reconfigure(ctx, ref, false, func(c *duly.QueueConfig, _ bool) error {
		c.Paused = paused
		return nil
	})
}

// Destroy implements contract.Operator. It marks the entry in the list first, then empties the
// shards, then removes the entry. Any process that finds the mark finishes the work.
func (e *Operator) Destroy(ctx context.Context, ref duly.QueueRef) error {
	if err := e.Admit(ctx, ref); err != nil {
		return err
	}

	ref = ref.Normal()
	c := e.Retry(ctx)
	for c.Next() {
		q, err := e.Read(ctx, ref)
		if err != nil || q == nil {
			return err
		}
		if q.Topic != nil && !q.Tomb {
			return contract.IsTopic(ref)
		}
		if q.Tomb {
			return e.FinishDestroy(ctx, q)
		}
		tomb, err := e.Put(ctx, store.ScriptQueueSet, ref, q.Value,
			catalog.PackConfig(e.NextVersion(q.Version), q.Config, true))
		if err != nil {
			return err
		}
		if tomb != nil {
			// This process must not use the queue while its shards are being emptied.
			e.Cache.Forget(q)
			return e.FinishDestroy(ctx, tomb)
		}
	}

	return c.Failed("queue %s keeps changing", ref)
}
