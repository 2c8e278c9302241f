package jobs

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/link"
)

// send hands the items to their shards. One that fails does not keep the others
// from an answer.
func (p *queuePush) send(ctx context.Context) error {
	err := p.sendItems(ctx, p.items)
	if err != nil && ctx.Err() != nil || errors.As(err, new(*catalog.Stale)) {
		return err
	}
	return cmp.Or(err, p.sendLeft(ctx))
}

// sendLeft pushes the jobs again whose numbers other jobs have, under fresh
// numbers.
func (p *queuePush) sendLeft(ctx context.Context) error {
	if len(p.left) == 0 {
		return nil
	}
	left := p.left
	p.left = nil
	for i := range left {
		p.renumber(&left[i])
	}
	return p.sendItems(ctx, left)
}

func (p *queuePush) sendItems(ctx context.Context, items []pushItem) error {
	if len(p.q.Shards) == 1 {
		return p.shard(ctx, p.q.Shards[0], items)
	}
	parts := map[*catalog.Shard][]pushItem{}
	for _, item := range items {
		s := p.q.Shards[duly.ShardOf(item.ID, len(p.q.Shards))]
		parts[s] = append(parts[s], item)
	}
	err := catalog.Parallel(slices.Collect(maps.Keys(parts)), func(s *catalog.Shard) error { return p.shard(ctx, s, parts[s]) })
	if ctx.Err() != nil && len(parts) > 1 {
		return link.Partly(err) // the caller is told of no single job
	}
	return err
}

func (p *queuePush) shard(ctx context.Context, s *catalog.Shard, items []pushItem) error {
	j := newBatched(len(items))
	j.Apply = func(r BatchReply) { p.answered(items, r) }
	j.waited = !slices.ContainsFunc(items, func(i pushItem) bool { return !i.waited })
	j.pack(items)
	return join(ctx, &p.e.Batchers(p.q, s).Push, j)
}

// pack puts jobs into the call, all of them in one piece of memory.
func (c *Batched) pack(items []pushItem) {
	size := 0
	for i := range items {
		size += codec.NumberSize + 64 + len(items[i].Job.Body)
	}
	b := make([]byte, 0, size) // a guess where jobs have headers or long keys
	for i := range items {
		b = c.Add(b, i, &items[i].PushJob)
		c.Bytes += len(items[i].Job.Body)
	}
}
