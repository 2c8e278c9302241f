package redisengine

import (
	"context"

	"github.com/dulymq/duly"
)

// Configure implements duly.Operator.
func (e *Engine) Configure(ctx context.Context, ref duly.QueueRef, patch duly.QueueConfig) error {
	if err := patch.Validate(); err != nil {
		return err
	}
	return e.reconfigure(ctx, ref, true, func(c *duly.QueueConfig, made bool) error {
		if patch.Shards != 0 && patch.Shards != c.Shards && !made {
			return duly.Invalid("shards", "is %d since the queue was made; destroy the queue to change it", c.Shards)
		}
		*c = c.With(patch)
		return c.CheckParts()
	})
}

// reconfigure changes a queue's configuration: in the list first, then in every
// shard. If it ends between the two, the next call that meets a shard goes on.
func (e *Engine) reconfigure(ctx context.Context, ref duly.QueueRef, mayMake bool, f func(c *duly.QueueConfig, made bool) error) error {
	if err := e.admit(ctx, ref); err != nil {
		return err
	}
	ref = ref.Normal()
	c := overtaken{e: e, ctx: ctx}
	for c.next() {
		q, err := e.reread(ctx, ref)
		switch {
		case err != nil:
			return err
		case q != nil && q.gone:
			if err := e.remove(ctx, q); err != nil {
				return err
			}
			continue
		case q == nil && !mayMake:
			return duly.Errorf(duly.CodeNotFound, "no queue %s", ref)
		}
		if q == nil {
			cfg := e.queueConfig()
			if err := f(&cfg, true); err != nil {
				return err
			}
			if q, err = e.make(ctx, ref, cfg); err != nil || q.cfg == cfg {
				return err
			}
			continue // somebody else has made it otherwise
		}
		cfg := q.cfg
		if err := f(&cfg, false); err != nil {
			return err
		}
		sc := scriptQueueSet
		if mayMake { // a Configure
			sc = scriptQueuePut
		}
		next, err := e.enter(ctx, sc, ref, q.value, packConfig(e.nextVersion(q.version), cfg, false))
		if err != nil {
			return err
		}
		if next != nil {
			return e.tell(ctx, next, next.shards...)
		}
	}
	return c.over("the configuration of queue %s keeps changing", ref)
}

// Pause implements duly.Operator.
func (e *Engine) Pause(ctx context.Context, ref duly.QueueRef) error {
	return e.setPaused(ctx, ref, true)
}

// Resume implements duly.Operator.
func (e *Engine) Resume(ctx context.Context, ref duly.QueueRef) error {
	return e.setPaused(ctx, ref, false)
}

func (e *Engine) setPaused(ctx context.Context, ref duly.QueueRef, paused bool) error {
	return e.reconfigure(ctx, ref, false, func(c *duly.QueueConfig, _ bool) error {
		c.Paused = paused
		return nil
	})
}

// Destroy implements duly.Operator. The list says first that the queue is to
// go, then its shards are emptied, then it is gone from the list: whoever meets
// it in between finishes that.
func (e *Engine) Destroy(ctx context.Context, ref duly.QueueRef) error {
	if err := e.admit(ctx, ref); err != nil {
		return err
	}
	ref = ref.Normal()
	c := overtaken{e: e, ctx: ctx}
	for c.next() {
		q, err := e.reread(ctx, ref)
		if err != nil || q == nil {
			return err
		}
		if q.gone {
			return e.remove(ctx, q)
		}
		tomb, err := e.enter(ctx, scriptQueueSet, ref, q.value, packConfig(e.nextVersion(q.version), q.cfg, true))
		if err != nil {
			return err
		}
		if tomb != nil {
			e.queues.forget(q)
			return e.remove(ctx, tomb)
		}
	}
	return c.over("queue %s keeps changing", ref)
}
