package duly

import (
	"context"
	"time"
)

// Engine is the interface for producers and workers, which [NewClient] and worker.New
// need. The engines of duly implement the whole contract.Engine, which embeds this
// interface. The rules for every operation are there.
type Engine interface {
	// Push stores jobs, each atomically with its index entries. It returns when the
	// engine's promise of durability holds. A repeat with the same IDs, and Made unset,
	// is safe.
	Push(ctx context.Context, jobs []Job) ([]PushResult, error)

	// Reserve leases up to Max deliverable jobs. It never blocks. In the same step it makes due
	// jobs ready and takes back ended leases, and it returns no job only if none was deliverable. A
	// suspect job is returned alone, see contract.Suspect. A repeat is not safe: jobs of a lost reply
	// stay leased until their leases end. If ctx has ended when the reply arrives, the engine
	// releases the jobs of the reply.
	Reserve(ctx context.Context, p ReserveParams) ([]Delivery, error)

	// Wait blocks until one of the queues may have a deliverable job, and returns true. It
	// returns false when the timeout has passed, and the context's error when ctx ends. It
	// leases nothing. Each ready job wakes one waiter, not all of them. A caller for which
	// Wait returned true calls Reserve. If it does not, the engine wakes the next waiter
	// 2 s later, or at once if the caller calls Pass of a contract.Passer.
	Wait(ctx context.Context, p WaitParams) (ready bool, err error)

	// Settle ends deliveries. The error of a request is nil, [ErrLeaseLost] for a receipt
	// that is not current, or what contract.ValidateSettle returns. A repeat is safe:
	// ErrLeaseLost then means that the first try has settled the job, or that the lease
	// was lost.
	Settle(ctx context.Context, namespace string, requests []SettleRequest) ([]error, error)

	// Extend sets the ends of leases to now + lease. A lease of 0 means the lease that the job
	// itself has. The error of a receipt is nil or [ErrLeaseLost]. A repeat is safe.
	Extend(ctx context.Context, namespace string, receipts []Receipt, lease time.Duration) ([]error, error)

	// Delete deletes a job in any state. A leased job's receipt is then no longer
	// current. Delete returns [ErrNotFound] if the job does not exist.
	Delete(ctx context.Context, q QueueRef, id string) error

	// Close closes the engine. Calls that wait return [ErrClosed], and so do all later
	// calls. Close may be repeated.
	Close() error
}

// ReserveParams chooses the jobs of a Reserve.
type ReserveParams struct {
	Namespace string
	// Queues are the names of the queues, 1 to [MaxReserveQueues]. Reserve takes jobs of a queue
	// only after the queues before it.
	Queues []string
	// Max bounds the deliveries, 1 to [MaxBatch].
	Max int
	// Lease is how long each delivery holds its job, 100 ms–366 days. 0: as the job says.
	Lease time.Duration
	// Consumer is the caller's name in the Stats of a group. It has no other effect. Default: no
	// name. Package worker uses one name per process.
	Consumer string
	// Target is the queue that the caller pushes the messages of a group into, as a bridge does. A
	// group with [GroupConfig.Target] accepts only callers that name the same queue. A group
	// without a target accepts only callers that name none.
	Target string
	// Dispatcher is set by a caller that sends jobs by HTTP request. Such a caller gets only jobs
	// of push queues. All other callers get no jobs of push queues.
	Dispatcher bool
}

// WaitParams chooses what a Wait waits for.
type WaitParams struct {
	Namespace string
	Queues    []string      // 1 to MaxReserveQueues names
	Timeout   time.Duration // 0 to MaxWait; 0 does not block
	// Dispatcher has the same meaning as in ReserveParams.
	Dispatcher bool
}

// ListParams chooses a page of a List.
type ListParams struct {
	State State
	PageParams
	// Bodies asks for bodies and results as well. In that case the page ends early when they reach
	// [MaxBatchBytes].
	Bodies bool
	// Newest reverses the order within each shard. The shards still come in turn.
	Newest bool
	// From is where the list begins in each shard: at the first job whose moment is From or later,
	// with Newest at the last job whose moment is From or earlier. The moment is the due time of a
	// delayed job, the end of the lease of a leased job, and the finish time of a dead or done job.
	// From is invalid with other states. The zero time means the whole list.
	//
	// Each page of a list takes the same Newest and From. A cursor is valid in both directions.
	From time.Time
	// Key lists only the blocked jobs of this order key, in the order in which they take the key.
	// It is invalid with other states. Empty means all keys.
	Key string
}

// PageParams chooses a page.
type PageParams struct {
	// Cursor is opaque and comes from the page before. Empty is the beginning.
	Cursor string
	// Limit is 1 to [MaxBatch]. 0 is [DefaultPage].
	Limit int
}

// ListPage is a page of jobs. The list ends only when Next is empty. A page without jobs may have a
// Next.
type ListPage struct {
	Jobs []JobInfo
	Next string
}

// NamePage is a page of names.
type NamePage struct {
	Names []string
	Next  string
}

// RequeueParams chooses dead jobs: either IDs, or the N oldest, 1 to [MaxBatch].
type RequeueParams struct {
	IDs []string
	N   int
	// Tries is the new number of tries of each job. 0 means that each job keeps its own.
	Tries int
	// TTL counts from now. 0 or None means no TTL.
	TTL time.Duration
}

// RequeueResult is the result for one dead job.
type RequeueResult struct {
	ID string
	// State is ready or blocked, or StateNone if the job was merged into another one.
	State State
	// Merged is the ID of that waiting job, which holds the merge key.
	Merged string
	// Err is [ErrNotFound] or [ErrConflict]. It is the error of this job only.
	Err error
}

// NamespaceOf returns the default namespace of an engine: what its method Namespace
// returns, if it has one, else [DefaultNamespace]. An engine whose URL names a namespace
// has that method, see contract.Namespacer.
func NamespaceOf(e Engine) string {
	if n, ok := e.(interface{ Namespace() string }); ok {
		return namespaceOr(n.Namespace())
	}
	return DefaultNamespace
}
