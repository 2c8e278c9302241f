package contract

import (
	"context"

	"github.com/dulymq/duly"
)

// Engine is the whole of an engine, local or remote. [duly.Engine] has the methods for
// producers and workers, which are all that [duly.NewClient] and package worker need.
//
// These rules apply to every operation:
//
//   - A call takes a slice and returns one result for each item, in order. Items take
//     effect one after the other, as in single calls, also if an engine joins calls. A bad
//     item never fails the other ones. The error of a whole call is the caller's own.
//   - A call carries at most [duly.MaxBatch] items and [duly.MaxBatchBytes] of bodies. A
//     larger call returns [duly.ErrTooLarge].
//   - A context that ends stops the waiting of the caller, not a call in flight. The caller
//     then gets [duly.ErrUnavailable] around the context's error, because the call may have
//     happened. The context's own error means that nothing was done.
//   - An empty namespace is [duly.DefaultNamespace]. Unknown queues read as empty. Only Push,
//     Configure and PutSchedule create queues.
type Engine interface {
	duly.Engine
	Inspector
	Operator
}

// Inspector reads jobs and queues. It changes nothing.
type Inspector interface {
	// Get returns a job with its body. The state is computed at the time of the call. Get
	// returns [duly.ErrNotFound] if the job does not exist.
	Get(ctx context.Context, q duly.QueueRef, id string) (duly.JobInfo, error)
	// GetJobs returns jobs by ID, at most [duly.MaxBatch], each like Get. Bodies and results are read
	// only if bodies is set. They are then limited to [duly.MaxBatchBytes] together. A job that does not
	// fit has the error [duly.ErrTooLarge], and the caller gets it in another call. The first job that
	// is read always fits.
	GetJobs(ctx context.Context, q duly.QueueRef, ids []string, bodies bool) ([]JobResult, error)
	// GetByReceipt returns the job of a receipt, like Get, also after the delivery has
	// ended. It returns [duly.ErrNotFound] if the job does not exist.
	GetByReceipt(ctx context.Context, namespace string, r duly.Receipt) (duly.JobInfo, error)
	// Peek returns the first job that is ready by the clock. It ignores pause and limits.
	// It returns [duly.ErrNotFound] if there is none.
	Peek(ctx context.Context, q duly.QueueRef) (duly.JobInfo, error)
	// List returns a page of the jobs of one state. The order depends on the state. Delayed jobs
	// are listed by due time, then by number. Ready jobs are listed in delivery order. Blocked jobs
	// are listed by their order keys (shorter keys first, then by bytes), and within a key in
	// delivery order. Leased jobs are listed by lease end. Dead and done jobs are listed oldest
	// first. A job whose place does not change is listed exactly once over all pages.
	List(ctx context.Context, q duly.QueueRef, p duly.ListParams) (duly.ListPage, error)
	// Queues lists the queues of a namespace by name.
	Queues(ctx context.Context, namespace string, p duly.PageParams) (duly.NamePage, error)
	// Stats returns sizes, counters and ages.
	Stats(ctx context.Context, q duly.QueueRef) (duly.Stats, error)
	// Config returns the configuration with every field filled in.
	Config(ctx context.Context, q duly.QueueRef) (duly.QueueConfig, error)
}

// JobResult is the result of one ID of GetJobs: a job, or an error.
type JobResult struct {
	Info duly.JobInfo
	Err  error
}

// Operator changes jobs and queues. Update, Promote, Pause and Resume return
// [duly.ErrNotFound] if the job or the queue does not exist.
type Operator interface {
	// Update changes a waiting job in one step. It returns [duly.ErrConflict] for a job
	// that does not wait.
	Update(ctx context.Context, q duly.QueueRef, id string, u duly.Update) error
	// Promote makes a waiting job due now. It returns [duly.ErrConflict] for a job that
	// does not wait.
	Promote(ctx context.Context, q duly.QueueRef, id string) error
	// PromoteJobs makes waiting jobs due now by ID, at most [duly.MaxBatch]. The error of an ID is nil,
	// or that of Promote. It is safe to repeat.
	PromoteJobs(ctx context.Context, q duly.QueueRef, ids []string) ([]error, error)
	// DeleteJobs deletes jobs by ID, at most [duly.MaxBatch]. If state is not [duly.StateNone], it
	// deletes only jobs that are in this state by the clock. The error of an ID is nil,
	// [duly.ErrNotFound], or [duly.ErrConflict] for a job in another state. It is safe to repeat.
	DeleteJobs(ctx context.Context, q duly.QueueRef, ids []string, state duly.State) ([]error, error)
	// Requeue pushes dead jobs again, with their old IDs and without failures and stalls. It is
	// safe to repeat a requeue by IDs, but not one by count.
	Requeue(ctx context.Context, q duly.QueueRef, p duly.RequeueParams) ([]duly.RequeueResult, error)
	// Purge deletes up to n jobs of one state and returns how many it has deleted. If n is 0, it
	// deletes all of them, in steps of limited size. A call with n > 0 is not safe to repeat.
	Purge(ctx context.Context, q duly.QueueRef, state duly.State, n int) (int, error)
	// Configure changes each field of the patch that is not zero. If the queue does not exist,
	// Configure creates it.
	Configure(ctx context.Context, q duly.QueueRef, patch duly.QueueConfig) error
	// Pause stops deliveries. Pushes are accepted, and jobs become due.
	Pause(ctx context.Context, q duly.QueueRef) error
	// Resume ends a Pause.
	Resume(ctx context.Context, q duly.QueueRef) error
	// Destroy deletes a queue with all its jobs, counters and settings. It may be repeated.
	Destroy(ctx context.Context, q duly.QueueRef) error
}

// Maintainer is implemented by engines that own their storage.
type Maintainer interface {
	// Step moves a queue forward, as Reserve does: due jobs become ready, the engine takes ended
	// leases back, and it drops expired, dead and done jobs. A Step does a limited amount of work,
	// and may be called at any time. more reports whether it ended at its limit.
	Step(ctx context.Context, q duly.QueueRef) (more bool, err error)
	// Sweep reads the head of every queue, and steps queues with overdue jobs. A server
	// calls it at least every 30 s.
	Sweep(ctx context.Context) error
	// Check compares every job with every index. With Repair it also repairs the faults, each fault
	// in one atomic step that checks it again.
	Check(ctx context.Context, p CheckParams) (CheckReport, error)
}

// CheckParams configures a Check.
type CheckParams struct {
	Repair bool
	// Progress, if set, is called from time to time with the number of checked jobs and messages,
	// and with their estimated total.
	Progress func(done, total int64)
}

// CheckReport is the result of a Check.
type CheckReport struct {
	Jobs     int64 // number of checked jobs, except those of groups
	Messages int64 // number of checked messages: held and dead in groups, and delayed in topics
	Faults   []Fault
	Repaired int // number of repaired faults
}

// Fault is one contradiction in the stored data.
type Fault struct {
	Kind     string // a stable name, such as "counters_differ"
	Queue    duly.QueueRef
	ID       string // ID of the job, if the fault is about a job
	Detail   string
	Repaired bool
}
