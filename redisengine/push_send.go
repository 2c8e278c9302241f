package redisengine

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/redisengine/internal/link"
)

// send hands the items to their shards. One that fails does not keep the others
// from an answer.
func (p *pushing) send(ctx context.Context) error {
	err := p.sendItems(ctx, p.items)
	if err != nil && ctx.Err() != nil || errors.As(err, new(*stale)) {
		return err
	}
	return cmp.Or(err, p.sendLeft(ctx))
}

// sendLeft pushes the jobs again whose numbers other jobs have, under fresh
// numbers.
func (p *pushing) sendLeft(ctx context.Context) error {
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

func (p *pushing) sendItems(ctx context.Context, items []pushItem) error {
	if len(p.q.shards) == 1 {
		return p.shard(ctx, p.q.shards[0], items)
	}
	parts := map[*shard][]pushItem{}
	for _, item := range items {
		s := p.q.shards[duly.ShardOf(item.id, len(p.q.shards))]
		parts[s] = append(parts[s], item)
	}
	err := sideBySide(slices.Collect(maps.Keys(parts)), func(s *shard) error { return p.shard(ctx, s, parts[s]) })
	if ctx.Err() != nil && len(parts) > 1 {
		return link.Partly(err) // the caller is told of no single job
	}
	return err
}

func (p *pushing) shard(ctx context.Context, s *shard, items []pushItem) error {
	j := newBatched(len(items))
	j.answered = func(r batchReply) { p.answered(items, r) }
	j.waited = !slices.ContainsFunc(items, func(i pushItem) bool { return !i.waited })
	pack(j, items)
	return join(ctx, &p.e.gear(p.q, s).push, j)
}

// holds tells whether the queue may hold back what is ready.
func (q *queue) holds() bool {
	return q.cfg.Paused || q.cfg.MaxLeased != duly.None || q.cfg.Rate.Limited()
}
