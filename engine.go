package duly

import (
	"context"
	"io"
	"time"
)

// Contract is what every engine implements, local or remote. Its parts are
// split by who calls them.
//
// What holds for every operation: slices in, one result per item out, in
// order; items, also those of calls that an engine joins, take effect one
// after the other as if called singly; one bad item never fails its
// neighbours. The error of the whole call is each caller's own answer. A
// context's deadline ends the caller's waiting, not a call in flight: that is
// answered [ErrUnavailable] around the context's error, for it may have
// happened. The context's error alone says that nothing was done. A call
// carries at most [MaxBatch] items and [MaxBatchBytes] of bodies, else it is
// [ErrTooLarge] as a whole. An empty namespace is [DefaultNamespace].
// Unknown queues read as empty and are made by nothing but Push and Configure.
type Contract interface {
	Engine
	Inspector
	Operator
}

// Engine is the hot path: what producers and workers call.
type Engine interface {
	// Push stores jobs, each atomic with its index entries, and answers only
	// when the engine's promise of durability holds. Safe to repeat with the
	// same IDs (and Made unset).
	Push(ctx context.Context, jobs []Job) ([]PushResult, error)

	// Reserve takes up to Max deliverable jobs now and never blocks. It moves
	// the queues forward in the same step, and answers empty only if nothing
	// was deliverable. A job that has stalled twice comes alone (see
	// [Job.Suspect]). Not safe to repeat: what a lost reply carried is held
	// until its lease ends. If ctx has ended when the reply arrives, the
	// engine releases what it brought.
	Reserve(ctx context.Context, p ReserveParams) ([]Delivery, error)

	// Wait blocks until one of the queues may have a deliverable job (true) or
	// the timeout has passed (false). Nothing is leased by it. One waiter wakes
	// per ready job, not all. It ends early with the context's error. A caller
	// that gets true calls Reserve. If it does not, the engine wakes the next
	// waiter 2 s later, or at once where the caller says so by a [Passer].
	Wait(ctx context.Context, p WaitParams) (ready bool, err error)

	// Settle ends deliveries; the answer per outcome is nil, or [ErrLeaseLost]
	// for a receipt that is not current, or what [Outcome.Validate] says. Safe
	// to repeat: ErrLeaseLost then means "settled by the first try, or lost".
	Settle(ctx context.Context, namespace string, outcomes []Outcome) ([]error, error)

	// Extend lets leases end at now + lease (0: the lease that the job itself
	// names); per receipt nil or [ErrLeaseLost]. Safe to repeat.
	Extend(ctx context.Context, namespace string, receipts []Receipt, lease time.Duration) ([]error, error)

	// Close ends the engine: calls that wait end with [ErrClosed], as do all
	// later ones. May be repeated.
	Close() error
}

// ReserveParams says what to take.
type ReserveParams struct {
	Namespace string
	// Queues are asked one after the other in this strict order; 1 to
	// [MaxReserveQueues].
	Queues []string
	// Max is the most deliveries to take, 1 to [MaxBatch].
	Max int
	// Lease is how long to hold each job, 100 ms–366 days; 0: as the job says.
	Lease time.Duration
	// Consumer is the caller's name, which the Stats of a group list. It owns nothing.
	// Default: none. Package worker gives one name per process.
	Consumer string
	// Target is the queue that the caller pushes the messages of a group into, as a
	// bridge does. A group with [GroupConfig.Target] takes only callers that name the
	// same queue, and a group without one only callers that name none.
	Target string
	// Dispatcher says that the caller sends the jobs by HTTP request: for it every
	// queue but a push queue is empty. For any other caller a push queue is.
	Dispatcher bool
}

// WaitParams says what to wait for.
type WaitParams struct {
	Namespace string
	Queues    []string      // 1 to MaxReserveQueues
	Timeout   time.Duration // 0 to MaxWait; 0 looks once
	// Dispatcher is as in ReserveParams.
	Dispatcher bool
}

// Inspector looks, and changes nothing.
type Inspector interface {
	// Get tells a job with its body, its state by the clock; [ErrNotFound].
	Get(ctx context.Context, q QueueRef, id string) (JobInfo, error)
	// GetByReceipt returns the job that a receipt was handed out for, as Get does,
	// also after the delivery has ended. It returns [ErrNotFound] if the job is gone.
	GetByReceipt(ctx context.Context, namespace string, r Receipt) (JobInfo, error)
	// Peek tells the first job that is ready by the clock, ignoring pause and
	// limits; [ErrNotFound] if there is none.
	Peek(ctx context.Context, q QueueRef) (JobInfo, error)
	// List walks one state's set page by page: delayed by (due, number); ready
	// in delivery order; blocked by order key (shorter first, then bytes) and
	// within a key in delivery order; leased by lease end; dead and done
	// oldest first. What stays where it is during the walk is listed exactly
	// once.
	List(ctx context.Context, q QueueRef, p ListParams) (ListPage, error)
	// Queues lists a namespace's queues by name.
	Queues(ctx context.Context, namespace string, p PageParams) (NamePage, error)
	// Stats tells sizes, counters and ages.
	Stats(ctx context.Context, q QueueRef) (Stats, error)
	// Config tells the configuration with every field filled in.
	Config(ctx context.Context, q QueueRef) (QueueConfig, error)
}

// ListParams chooses a page of a List.
type ListParams struct {
	State State
	PageParams
	// Bodies asks for bodies and results as well. The page then ends early at
	// [MaxBatchBytes] of both.
	Bodies bool
}

// PageParams chooses a page. A Cursor is opaque and comes from the page
// before; empty is the beginning. Limit is 1 to [MaxBatch]; 0 is
// [DefaultPage].
type PageParams struct {
	Cursor string
	Limit  int
}

// ListPage is a page of jobs. Only an empty Next is the end: a page may be
// empty and still have one.
type ListPage struct {
	Jobs []JobInfo
	Next string
}

// NamePage is a page of names.
type NamePage struct {
	Names []string
	Next  string
}

// Operator changes what is there.
type Operator interface {
	// Delete removes a job in any state, a leased one with its receipt;
	// [ErrNotFound].
	Delete(ctx context.Context, q QueueRef, id string) error
	// Update changes a waiting job in one step; [ErrNotFound], [ErrConflict].
	Update(ctx context.Context, q QueueRef, id string, u Update) error
	// Promote makes a waiting job due now; [ErrNotFound], [ErrConflict].
	Promote(ctx context.Context, q QueueRef, id string) error
	// Requeue lets dead jobs live again: pushed now under their old IDs with
	// failures and stalls 0. Safe to repeat by IDs, not by count.
	Requeue(ctx context.Context, q QueueRef, p RequeueParams) ([]RequeueResult, error)
	// Purge removes up to n jobs of one state (0: all of them, in bounded
	// steps) and tells how many. Not safe to repeat with an n.
	Purge(ctx context.Context, q QueueRef, state State, n int) (int, error)
	// Configure changes each field of the patch that is not zero, and makes
	// the queue if it is not there.
	Configure(ctx context.Context, q QueueRef, patch QueueConfig) error
	// Pause stops reserving; pushing and time go on. [ErrNotFound] for a queue
	// that does not exist.
	Pause(ctx context.Context, q QueueRef) error
	// Resume ends a Pause; [ErrNotFound] as there.
	Resume(ctx context.Context, q QueueRef) error
	// Destroy removes the queue with every job, counter and setting. May be
	// repeated.
	Destroy(ctx context.Context, q QueueRef) error
}

// RequeueParams chooses dead jobs: either IDs, or the N oldest (1 to
// [MaxBatch]).
type RequeueParams struct {
	IDs []string
	N   int
	// Tries is the jobs' new number of tries; 0: their own.
	Tries int
	// TTL counts from now; 0 or None: none.
	TTL time.Duration
}

// RequeueResult is the answer for one dead job.
type RequeueResult struct {
	ID string
	// State is ready or blocked; StateNone if it was merged away.
	State State
	// Merged is the ID of the waiting job that holds its merge key and that
	// it was merged into.
	Merged string
	// Err is [ErrNotFound] or [ErrConflict] for this job alone.
	Err error
}

// Maintainer is implemented by engines that own their storage.
type Maintainer interface {
	// Step is the forward part of Reserve alone, bounded and harmless at any
	// time: due jobs become ready, run-out leases are taken back, expired jobs
	// dropped, dead and done ones trimmed. more: it ended at its bound.
	Step(ctx context.Context, q QueueRef) (more bool, err error)
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
	Queue    QueueRef
	ID       string // the job's, where the fault has one
	Detail   string
	Repaired bool
}

// Namespacer is implemented by engines that have a default namespace of their
// own, such as an engine whose URL names a namespace.
type Namespacer interface {
	// Namespace returns the default namespace; empty is [DefaultNamespace].
	Namespace() string
}

// NamespaceOf returns the default namespace of an engine: its own if it is a
// [Namespacer], else [DefaultNamespace].
func NamespaceOf(e Engine) string {
	if n, ok := e.(Namespacer); ok {
		return NamespaceOr(n.Namespace())
	}
	return DefaultNamespace
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
	Queues []QueueRef
	// Tokens were lost.
	Tokens bool
}

// Backuper is implemented by engines that can copy their storage while they
// run.
type Backuper interface {
	// Backup writes a copy of one moment, which opens as an engine.
	Backup(ctx context.Context, w io.Writer) error
}
