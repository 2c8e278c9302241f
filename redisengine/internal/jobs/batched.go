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
	// pushes and reserves select the shards of calls that may use any shard.
	pushes, reserves run
}

// Batchers holds the batchers of one shard.
type Batchers struct{ Push, Reserve, Settle, Remove Batcher }

// Batcher combines concurrent calls of one kind on one shard.
type Batcher = batch.Batcher[*Batched]

// Batched is one caller's part of a batched script call.
type Batched struct {
	batch.Call
	codec.CallArgs
	// waited: for pushes, an earlier call has waited for the durability of all items.
	waited bool
	// Apply gets the script's answer to the call's items.
	Apply func(r BatchReply)
	// share is the result of a Reserve. lease is the lease that it asks for, in µs; 0 means each
	// job's own. Only Reserves with the same lease share a batch.
	share *share
	lease int64
	// state is the state of the jobs to delete, StateNone for any. Only deletes with the same state
	// share a batch.
	state duly.State
}

// sameLease reports whether two Reserves can share a batch.
func sameLease(a, b *Batched) bool { return a.lease == b.lease }

// sameState reports whether two deletes can share a batch.
func sameState(a, b *Batched) bool { return a.state == b.state }

// batchedPool reuses calls with their channels and the memory for their arguments.
var batchedPool = sync.Pool{New: func() any { return &Batched{} }}

// newBatched returns a call with this number of items. join returns it to the pool.
func newBatched(items int) *Batched {
	c := batchedPool.Get().(*Batched)
	c.Items = items
	return c
}

// free returns a call to the pool. Its sender must not use it any more.
func (c *Batched) free() {
	c.CallArgs.Reset()
	c.waited, c.Apply, c.share, c.lease, c.state, c.Bytes = false, nil, nil, 0, duly.StateNone, 0
	batchedPool.Put(c)
}

// join adds a call to a batch, and waits until it is answered or ctx ends.
func join(ctx context.Context, b *Batcher, c *Batched) error {
	err := b.Do(ctx, c)
	// An unanswered call is still in use by its sender, so it is not reused.
	if c.Answered() {
		c.free()
		return err
	}
	if err != nil && err == ctx.Err() {
		// Another part of the caller's work may have been done.
		return contract.Unanswered(err)
	}
	return err
}

// Batchers returns the batchers of a shard.
func (e *Jobs) Batchers(q *catalog.Queue, s *catalog.Shard) *Batchers {
	return e.State(q, s).Calls.(*Batchers)
}

// batchArgs returns the arguments of a batch: clock and version, the common arguments, and those
// of each call.
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
	items   []rueidis.RedisMessage // for pushes: answers for items that were not simply created
	from    int                    // for pushes: the index of the caller's first item in the batch
	Lost    []int                  // for settles and deletes: indexes of receipts that are not current, or of IDs that were not deleted
	states  []duly.State           // for deletes: the states of the jobs of Lost, StateNone for an unknown ID
	durable error                  // set if the change was stored but not confirmed
	closed  bool                   // for settles: whether the caller has to close the other shards of the queue
}

// failure is the error of an unreachable node of a cluster, or of a part of a call. An error of a
// call that may have run replaces one of a call that did not.
type failure struct {
	cluster bool // whether other nodes may still answer
	err     error
}

func (e *Jobs) newFailure() failure { return failure{cluster: e.Link.Options().Mode == link.Cluster} }

// noteOtherNode records an error after which other nodes can still be asked. It returns false for
// any other error.
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

// share is the part of a batched reserve that one caller gets.
type share struct {
	room    int  // bytes of bodies that the caller may still get
	hasJobs bool // whether the caller already has jobs from this Reserve
	handed  codec.Deliveries
	more    int64
	joint   bool // whether the batch had other callers
	tickDue bool // whether a tick of a schedule is due
	// For groups: the consumer's name, and the deliveries.
	consumer string
	messages []duly.Delivery
}
