package catalog

import (
	"context"
	"strconv"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// The first argument of the script slow, if it is not how long to close a shard in µs.
const (
	readClosing = ""
	openShard   = "-1"
)

// LastClosing returns the closing of the shard that opens last. The queue may be a group.
func (e *Catalog) LastClosing(ctx context.Context, q *Queue) (last duly.Closing, err error) {
	var w Walk
	err = w.Each(q, 0, func(s *Shard) error {
		c, _, err := e.slow(ctx, q, s, readClosing, "")
		last = contract.LaterClosing(last, c.Info())
		return err
	})
	return last, err
}

// Reopen opens every shard of a queue or a group.
func (e *Catalog) Reopen(ctx context.Context, q *Queue) error {
	return Parallel(q.Shards, func(s *Shard) error {
		_, err := e.callSlow(ctx, q, s, openShard, "")
		return err
	})
}

// CloseOthers closes the other shards of a queue or a group for as long as the shard with that index
// is closed. Shards may have different clocks, so it sends them the time that is left.
func (e *Catalog) CloseOthers(ctx context.Context, q *Queue, index int) error {
	own := q.Shard(index)
	if own == nil {
		return nil
	}
	c, left, err := e.slow(ctx, q, own, readClosing, "")
	if err != nil || left <= 0 {
		return err
	}

	return Parallel(q.Shards, func(s *Shard) error {
		if s == own {
			return nil
		}
		_, _, err := e.slow(ctx, q, s, strconv.FormatInt(left, 10), c.Reason)
		return err
	})
}

// callSlow runs the script slow on a shard.
func (e *Catalog) callSlow(ctx context.Context, q *Queue, s *Shard, slow, reason string) (Reply, error) {
	if q.View != nil {
		return e.CallGroup(ctx, q, s, store.ScriptGroupSlow, slow, reason)
	}
	return e.Call(ctx, q, s, store.ScriptSlow, s.Limits, slow, reason)
}

// slow is like callSlow, but reads the closing of the shard. left is how long the shard stays closed, in µs
// on its own clock.
func (e *Catalog) slow(ctx context.Context, q *Queue, s *Shard, slow, reason string) (
	c contract.Closing, left int64, err error,
) {
	r, err := e.callSlow(ctx, q, s, slow, reason)
	if err != nil {
		return c, 0, err
	}
	c = contract.Closing{Until: codec.Integer(&r.Rest[1]), Reason: codec.Text(&r.Rest[2])}
	return c, c.Until*1000 - codec.Integer(&r.Rest[0]), nil
}
