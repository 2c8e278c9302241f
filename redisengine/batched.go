package redisengine

import (
	"context"
	"sync"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/batch"
)

// inFlight is how many batches of a shard and kind are in flight at once: one that
// the server works on, and one that is there when it has finished.
const inFlight = 2

// batcher joins the calls of one kind on one shard.
type batcher = batch.Batcher[*batched]

// batched is one caller's part of a batched script call.
type batched struct {
	batch.Call
	// args are what its items add to the script's arguments.
	args []string
	// Of pushes: when the jobs are due; their kinds; the aliases of own IDs, and
	// order and merge key of each, as far as jobs have some; large bodies.
	whens  []int64
	kinds  []kind
	names  []string
	keys   []string
	bodies []string
	// waited: of pushes, all of its items were waited for in a call before.
	waited bool
	// answered is given the script's answer to its items.
	answered func(r batchReply)
	// share is what a Reserve gets, and lease what it names, in µs; 0: as each job
	// says. Only those of one lease share a batch.
	share *share
	lease int64
}

// sameLease reports whether two Reserves can share a batch.
func sameLease(a, b *batched) bool { return a.lease == b.lease }

// batchedPool keeps calls with their channels and the room for their arguments.
var batchedPool = sync.Pool{New: func() any { return &batched{} }}

// newBatched returns a call of so many items. join gives it up.
func newBatched(items int) *batched {
	c := batchedPool.Get().(*batched)
	c.Items = items
	return c
}

// maxKeptArgs bounds the arguments that a call in the pool has room for.
const maxKeptArgs = 256

// free gives a call back to the pool. Its sender must not hold it any more.
func (c *batched) free() {
	if cap(c.args) > maxKeptArgs {
		c.args, c.whens, c.kinds = nil, nil, nil
	}
	clear(c.args)
	clear(c.kinds)
	c.args, c.whens, c.kinds = c.args[:0], c.whens[:0], c.kinds[:0]
	c.names, c.keys, c.bodies, c.waited = nil, nil, nil, false
	c.answered, c.share, c.lease, c.Bytes = nil, nil, 0, 0
	batchedPool.Put(c)
}

// init prepares the batcher of a shard. send runs a batch and fills in its results.
func (e *Engine) initBatcher(b *batcher, send func(context.Context, []*batched) error) {
	b.Go, b.InFlight, b.Limits = e.work.begin, inFlight, batch.Limits{Items: duly.MaxBatch, Bytes: duly.MaxBatchBytes}
	b.Send = func(_ context.Context, calls []*batched) error {
		ctx, end := e.batchContext(calls)
		defer end()
		return send(ctx, calls)
	}
}

// batchContext ends when the last of the callers stops waiting. If one of them has
// no deadline, the link's own bound holds.
func (e *Engine) batchContext(calls []*batched) (context.Context, context.CancelFunc) {
	if last, ok := batch.Deadline(calls); ok {
		return context.WithDeadline(e.ctx, last)
	}
	return context.WithoutCancel(e.ctx), func() {}
}

// join sends a call with others, and waits until it was answered or the caller's
// context ends.
func join(ctx context.Context, b *batcher, c *batched) error {
	err := b.Do(ctx, c)
	if c.Answered() {
		c.free()
		return err
	}
	if err != nil && err == ctx.Err() {
		return duly.Unanswered(err) // another part of the caller's work may have been done
	}
	return err
}
