package contract

import (
	"context"
	"io"
	"time"

	"github.com/dulymq/duly"
)

// Engine is what every engine implements, local or remote. [duly.Engine] has the calls of
// producers and workers, which [duly.NewClient] and package worker need.
//
// What holds for every operation: slices in, one result per item out, in
// order; items, also those of calls that an engine joins, take effect one
// after the other as if called singly; one bad item never fails its
// neighbours. The error of the whole call is each caller's own answer. A
// context's deadline ends the caller's waiting, not a call in flight: that is
// answered [duly.ErrUnavailable] around the context's error, for it may have
// happened. The context's error alone says that nothing was done. A call
// carries at most [duly.MaxBatch] items and [duly.MaxBatchBytes] of bodies, else it is
// [duly.ErrTooLarge] as a whole. An empty namespace is [duly.DefaultNamespace].
// Unknown queues read as empty and are made by nothing but Push and Configure.
type Engine interface {
	duly.Engine
	Inspector
	Operator
}

// Inspector looks, and changes nothing.
type Inspector interface {
	// Get tells a job with its body, its state by the clock; [duly.ErrNotFound].
	Get(ctx context.Context, q duly.QueueRef, id string) (duly.JobInfo, error)
	// GetByReceipt returns the job that a receipt was handed out for, as Get does,
	// also after the delivery has ended. It returns [duly.ErrNotFound] if the job is gone.
	GetByReceipt(ctx context.Context, namespace string, r duly.Receipt) (duly.JobInfo, error)
	// Peek tells the first job that is ready by the clock, ignoring pause and
	// limits; [duly.ErrNotFound] if there is none.
	Peek(ctx context.Context, q duly.QueueRef) (duly.JobInfo, error)
	// List walks one state's set page by page: delayed by (due, number); ready
	// in delivery order; blocked by order key (shorter first, then bytes) and
	// within a key in delivery order; leased by lease end; dead and done
	// oldest first. What stays where it is during the walk is listed exactly
	// once.
	List(ctx context.Context, q duly.QueueRef, p duly.ListParams) (duly.ListPage, error)
	// Queues lists a namespace's queues by name.
	Queues(ctx context.Context, namespace string, p duly.PageParams) (duly.NamePage, error)
	// Stats tells sizes, counters and ages.
	Stats(ctx context.Context, q duly.QueueRef) (duly.Stats, error)
	// Config tells the configuration with every field filled in.
	Config(ctx context.Context, q duly.QueueRef) (duly.QueueConfig, error)
}

// Operator changes what is there.
type Operator interface {
	// Update changes a waiting job in one step; [duly.ErrNotFound], [duly.ErrConflict].
	Update(ctx context.Context, q duly.QueueRef, id string, u duly.Update) error
	// Promote makes a waiting job due now; [duly.ErrNotFound], [duly.ErrConflict].
	Promote(ctx context.Context, q duly.QueueRef, id string) error
	// Requeue lets dead jobs live again: pushed now under their old IDs with
	// failures and stalls 0. Safe to repeat by IDs, not by count.
	Requeue(ctx context.Context, q duly.QueueRef, p duly.RequeueParams) ([]duly.RequeueResult, error)
	// Purge removes up to n jobs of one state (0: all of them, in bounded
	// steps) and tells how many. Not safe to repeat with an n.
	Purge(ctx context.Context, q duly.QueueRef, state duly.State, n int) (int, error)
	// Configure changes each field of the patch that is not zero, and makes
	// the queue if it is not there.
	Configure(ctx context.Context, q duly.QueueRef, patch duly.QueueConfig) error
	// Pause stops reserving; pushing and time go on. [duly.ErrNotFound] for a queue
	// that does not exist.
	Pause(ctx context.Context, q duly.QueueRef) error
	// Resume ends a Pause; [duly.ErrNotFound] as there.
	Resume(ctx context.Context, q duly.QueueRef) error
	// Destroy removes the queue with every job, counter and setting. May be
	// repeated.
	Destroy(ctx context.Context, q duly.QueueRef) error
}

// Maintainer is implemented by engines that own their storage.
type Maintainer interface {
	// Step is the forward part of Reserve alone, bounded and harmless at any
	// time: due jobs become ready, run-out leases are taken back, expired jobs
	// dropped, dead and done ones trimmed. more: it ended at its bound.
	Step(ctx context.Context, q duly.QueueRef) (more bool, err error)
	// Sweep looks at the heads of every queue and steps where something is
	// overdue. A server calls it at least every 30 s.
	Sweep(ctx context.Context) error
	// Check compares every job with every index, and mends what it finds if
	// it is told to, each fault judged and mended in one atomic step.
	Check(ctx context.Context, p CheckParams) (CheckReport, error)
}

// CheckParams says how to check.
type CheckParams struct {
	Repair bool
	// Progress, if set, is called now and then with the jobs and messages looked
	// at so far, and their number as far as it is known.
	Progress func(done, total int64)
}

// CheckReport is what a Check found.
type CheckReport struct {
	Jobs     int64 // looked at, except those of groups
	Messages int64 // looked at: held and dead in groups, and delayed in topics
	Faults   []Fault
	Repaired int // faults that were mended
}

// Fault is one thing that is not as it must be.
type Fault struct {
	Kind     string // a stable name, e.g. "counters_differ"
	Queue    duly.QueueRef
	ID       string // the job's, where the fault has one
	Detail   string
	Repaired bool
}

// Namespacer is implemented by engines that have a default namespace of their
// own, such as an engine whose URL names a namespace.
type Namespacer interface {
	// Namespace returns the default namespace; empty is [duly.DefaultNamespace].
	Namespace() string
}

// Accepter is implemented by engines that refuse new jobs while their disk is
// full.
type Accepter interface {
	// Accepts returns ErrFull while the engine refuses new jobs because its disk
	// is full, and everything else goes on. It looks for room first.
	Accepts(ctx context.Context) error
}

// Resetter is implemented by engines whose store can lose what it held while
// they are open, as a server does that comes back empty.
type Resetter interface {
	// LastReset tells of the last time that this engine found its store reset.
	// It asks nobody: an engine finds out by its calls, and when it is swept.
	LastReset() Reset
}

// Reset is one loss of what a store held.
type Reset struct {
	// At is when it was found out, by the clock of this process. Zero: never.
	At time.Time
	// Queues are those that were lost, a hundred of them at most. One without a
	// name stands for its whole namespace.
	Queues []duly.QueueRef
	// Tokens were lost.
	Tokens bool
}

// Backuper is implemented by engines that can copy their storage while they
// run.
type Backuper interface {
	// Backup writes a copy of one moment, which opens as an engine.
	Backup(ctx context.Context, w io.Writer) error
}
