package jobs

import (
	"context"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// Delete implements duly.Operator. Deletes of many callers go out together.
func (e *Jobs) Delete(ctx context.Context, ref duly.QueueRef, id string) error {
	if err := duly.ValidateID(id); err != nil {
		return err
	}
	if err := e.Admit(ctx, ref); err != nil {
		return err
	}
	there := false
	err := e.With(ctx, ref.Normal(), func(q *catalog.Queue) error {
		if q == nil {
			return nil
		}
		j := newBatched(1)
		j.Args = append(j.Args, codec.Alias(id))
		j.Apply = func(r BatchReply) { there = len(r.Lost) == 0 }
		return join(ctx, &e.Batchers(q, q.Shards[duly.ShardOf(id, len(q.Shards))]).Remove, j)
	})
	switch {
	case err != nil:
		return err
	case !there:
		return duly.NotFound(ref, id)
	}
	e.cancels.Report(ref.Normal(), id)
	return nil
}

// sendDelete runs the joint delete of many callers.
func (e *Jobs) sendDelete(q *catalog.Queue, s *catalog.Shard) func(context.Context, []*Batched) error {
	return func(ctx context.Context, calls []*Batched) error {
		args := append(make([]string, 0, 1+len(calls)), s.Limits)
		for _, c := range calls {
			args = append(args, c.Args...)
		}
		r, err := e.Call(ctx, q, s, store.ScriptDelete, args...)
		if err != nil {
			return err
		}
		splitLost(calls, r.Rest, nil)
		return nil
	}
}
