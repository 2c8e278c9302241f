package jobs

import (
	"context"
	"sync"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/batch"
	"github.com/dulymq/duly/redisengine/internal/cancel"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/link"
	"github.com/dulymq/duly/redisengine/internal/maintain"
	"github.com/dulymq/duly/redisengine/internal/wait"
)

// Jobs pushes, reserves, settles and deletes jobs.
type Jobs struct {
	*catalog.Catalog
	hub      *wait.Hub
	cancels  *cancel.Reporter
	repairer *maintain.Repairer

	consumers consumers
	// The shards that pushes and reserves go to, where they have a choice.
	pushes, reserves run
}

// Batchers join the calls on one shard.
type Batchers struct{ Push, Reserve, Settle, Remove Batcher }

// Batcher joins the calls of one kind on one shard.
type Batcher = batch.Batcher[*Batched]

// Batched is one caller's part of a batched script call.
type Batched struct {
	batch.Call
	codec.CallArgs
	// waited: of pushes, all of its items were waited for in a call before.
	waited bool
	// Apply is given the script's answer to its items.
	Apply func(r BatchReply)
	// share is what a Reserve gets, and lease what it names, in µs; 0: as each job
	// says. Only those of one lease share a batch.
	share *share
	lease int64
}

// sameLease reports whether two Reserves can share a batch.
func sameLease(a, b *Batched) bool { return a.lease == b.lease }

// batchedPool keeps calls with their channels and the room for their arguments.
var batchedPool = sync.Pool{New: func() any { return &Batched{} }}

// newBatched returns a call of so many items. join gives it up.
func newBatched(items int) *Batched {
	c := batchedPool.Get().(*Batched)
	c.Items = items
	return c
}

// free gives a call back to the pool. Its sender must not hold it any more.
func (c *Batched) free() {
	c.CallArgs.Reset()
	c.waited, c.Apply, c.share, c.lease, c.Bytes = false, nil, nil, 0, 0
	batchedPool.Put(c)
}

// join sends a call with others, and waits until it was answered or the caller's
// context ends.
func join(ctx context.Context, b *Batcher, c *Batched) error {
	err := b.Do(ctx, c)
	if c.Answered() {
		c.free()
		return err
	}
	if err != nil && err == ctx.Err() {
		return contract.Unanswered(err) // another part of the caller's work may have been done
	}
	return err
}

// Batchers returns those of a shard.
func (e *Jobs) Batchers(q *catalog.Queue, s *catalog.Shard) *Batchers {
	return e.State(q, s).Calls.(*Batchers)
}

// batchArgs returns the arguments of a batch: clock and version, what concerns all
// calls, and what each call adds.
func (e *Jobs) batchArgs(q *catalog.Queue, calls []*Batched, before ...string) []string {
	n := 2 + len(before)
	for _, c := range calls {
		n += len(c.Args)
	}
	args := append(append(make([]string, 0, n), e.Clock(), q.Version), before...)
	for _, c := range calls {
		args = append(args, c.Args...)
	}
	return args
}

// BatchReply is the answer to one caller's items.
type BatchReply struct {
	items   []rueidis.RedisMessage // of pushes: about the items that were not simply created
	from    int                    // of pushes: the place of the caller's first item in the call
	Lost    []int                  // of settles and deletes: the places of receipts that are not current, of IDs that are not there
	durable error                  // stored, but not confirmed
}

// failure is why a node of a cluster, or a part of a call, was not reached. An
// error of a call that may have run replaces one of a call that did not.
type failure struct {
	cluster bool // there are other nodes
	err     error
}

func (e *Jobs) newFailure() failure { return failure{cluster: e.Link.Options().Mode == link.Cluster} }

// noteOtherNode notes an error that does not keep other nodes from being asked. It
// returns false for any other error.
func (f *failure) noteOtherNode(err error) bool {
	if !f.cluster || duly.CodeOf(err) != duly.CodeUnavailable {
		return false
	}
	f.note(err)
	return true
}

func (f *failure) note(err error) {
	if f.err == nil || link.Untouched(f.err) {
		f.err = err
	}
}

// share is what one caller gets of a batched reserve.
type share struct {
	room    int  // bytes of bodies
	hasJobs bool // its caller has jobs of this Reserve already
	handed  codec.Deliveries
	more    int64
	joint   bool // others were asked for in the same call
	// Of groups: the caller's name, and what it is handed.
	consumer string
	messages []duly.Delivery
}
