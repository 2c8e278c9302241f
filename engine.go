package duly

import (
	"context"
	"time"
)

// Engine is the hot path: what producers and workers call.
type Engine interface {
	// Push stores jobs, each atomic with its index entries, and answers only
	// when the engine's promise of durability holds. Safe to repeat with the
	// same IDs (and Made unset).
	Push(ctx context.Context, jobs []Job) ([]PushResult, error)

	// Reserve takes up to Max deliverable jobs now and never blocks. It moves
	// the queues forward in the same step, and answers empty only if nothing
	// was deliverable. A job that has stalled twice comes alone (see
	// contract.Suspect). Not safe to repeat: what a lost reply carried is held
	// until its lease ends. If ctx has ended when the reply arrives, the
	// engine releases what it brought.
	Reserve(ctx context.Context, p ReserveParams) ([]Delivery, error)

	// Wait blocks until one of the queues may have a deliverable job (true) or
	// the timeout has passed (false). Nothing is leased by it. One waiter wakes
	// per ready job, not all. It ends early with the context's error. A caller
	// that gets true calls Reserve. If it does not, the engine wakes the next
	// waiter 2 s later, or at once where the caller says so by a contract.Passer.
	Wait(ctx context.Context, p WaitParams) (ready bool, err error)

	// Settle ends deliveries; the answer per request is nil, or [ErrLeaseLost]
	// for a receipt that is not current, or what contract.ValidateSettle says. Safe
	// to repeat: ErrLeaseLost then means "settled by the first try, or lost".
	Settle(ctx context.Context, namespace string, requests []SettleRequest) ([]error, error)

	// Extend lets leases end at now + lease (0: the lease that the job itself
	// names); per receipt nil or [ErrLeaseLost]. Safe to repeat.
	Extend(ctx context.Context, namespace string, receipts []Receipt, lease time.Duration) ([]error, error)

	// Delete removes a job in any state, a leased one with its receipt;
	// [ErrNotFound].
	Delete(ctx context.Context, q QueueRef, id string) error

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

// NamespaceOf returns the default namespace of an engine. An engine has one of its own if
// it has a method Namespace, as one whose URL names a namespace. Else the default is
// [DefaultNamespace].
func NamespaceOf(e Engine) string {
	if n, ok := e.(interface{ Namespace() string }); ok {
		return namespaceOr(n.Namespace())
	}
	return DefaultNamespace
}
