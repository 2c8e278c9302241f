package catalog

import (
	"context"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/redisengine/internal/link"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// Create finds a queue or makes it: list first, then the shards' configurations,
// then jobs. The patch is what differs from the contract's defaults.
func (e *Catalog) Create(ctx context.Context, ref duly.QueueRef, patch duly.QueueConfig) (*Queue, error) {
	c := e.Retry(ctx)
	for c.Next() {
		q, err := e.Read(ctx, ref)
		switch {
		case err != nil:
			return nil, err
		case q != nil && q.Tomb:
			if err := e.FinishDestroy(ctx, q); err != nil {
				return nil, err
			}
			continue
		case q != nil:
			return q, nil
		}
		left, held, err := e.ShardConfig(ctx, ref)
		if err != nil {
			return nil, err
		}
		if held != nil {
			if err := e.restore(ctx, held); err != nil {
				return nil, err
			}
			continue
		}
		if err := e.markNamespace(ctx, ref.Namespace); err != nil {
			return nil, err
		}
		cfg := e.QueueConfig().With(patch)
		if q, err = e.Put(ctx, store.ScriptQueuePut, ref, "", PackConfig(e.NextVersion("", left), cfg, false)); err != nil {
			return nil, err
		}
		if q != nil {
			return q, e.Propagate(ctx, q, q.Shards...)
		}
	}
	return nil, c.Failed("queue %s is made and destroyed all the time", ref)
}

// FinishDestroy finishes the destruction of a queue that its list says is to go:
// every shard, then the list's entry.
func (e *Catalog) FinishDestroy(ctx context.Context, q *Queue) error {
	calls := make([]link.Call, len(q.Shards))
	for i, s := range q.Shards {
		calls[i] = DestroyCall(q, s)
	}
	for _, r := range e.Link.RunAll(ctx, calls) {
		if r.Err != nil {
			return r.Err
		}
	}
	e.cancels.Report(q.Ref)

	_, err := e.Put(ctx, store.ScriptQueueSet, q.Ref, q.Value, "")
	return err
}

// DestroyCall empties one shard of a queue that is to go.
func DestroyCall(q *Queue, s *Shard) link.Call {
	return link.Call{Script: store.ScriptDestroy.Script, Keys: s.of(store.ScriptDestroy), Args: []string{q.Value}}
}
