package contract

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/dulymq/duly"
)

// Namespacer is implemented by engines that have a default namespace of their own, such as
// an engine whose URL names a namespace. [duly.NamespaceOf] calls it.
type Namespacer interface {
	// Namespace returns the default namespace. Empty is [duly.DefaultNamespace].
	Namespace() string
}

// IDMaker is implemented by engines that create the IDs of jobs instead of [duly.MakeID]. So the
// engine chooses the shard of a job without keys. [duly.Client] calls it.
type IDMaker interface {
	// MakeID returns a ULID for a job without an ID.
	MakeID(j *duly.Job) string
}

// Accepter is implemented by engines that refuse new jobs while their disk is full.
type Accepter interface {
	// Accepts returns [duly.ErrFull] while the engine refuses new jobs because its disk is
	// full. Everything else works. Accepts checks the free space first.
	Accepts(ctx context.Context) error
}

// Backuper is implemented by engines that can copy their storage while they run.
type Backuper interface {
	// Backup writes a consistent copy that can be opened as an engine.
	Backup(ctx context.Context, w io.Writer) error
}

// Resetter is implemented by engines whose store can lose its data while the engine is open. An
// example is a server that restarts without its data.
type Resetter interface {
	// LastReset returns the last time when this engine found its store reset. It makes no call to
	// the store. An engine detects a reset by its other calls and by sweeps.
	LastReset() Reset
}

// Reset is one loss of a store's data.
type Reset struct {
	// At is the time at which the engine detected the reset, by the clock of this process. It is
	// zero if there was no reset.
	At time.Time
	// Queues are the lost queues, at most a hundred. A queue without a name means that its whole
	// namespace was lost.
	Queues []duly.QueueRef
	// Tokens reports that tokens were lost.
	Tokens bool
}

// Passer is implemented by engines that wake the next waiter at once if a woken one does not
// reserve. [PasserOf] returns a Passer for every engine.
type Passer interface {
	// Pass reports that a caller for which Wait returned true does not call Reserve for these
	// queues. The engine then wakes the next waiter. A call to Reserve that fails needs no Pass,
	// because the engine has seen it. Pass works even after ctx has ended.
	Pass(ctx context.Context, namespace string, queues []string)
}

// PasserOf returns the engine itself if it is a Passer. Otherwise it returns a Passer whose Pass
// does nothing, so that the engine wakes the next waiter 2 s later.
func PasserOf(e duly.Engine) Passer {
	if p, ok := e.(Passer); ok {
		return p
	}
	return noPasser{}
}

type noPasser struct{}

// Pass implements Passer.
func (noPasser) Pass(context.Context, string, []string) {}

// CancelWatcher is implemented by engines that report removed jobs, so that a worker can stop
// their handlers.
type CancelWatcher interface {
	// WatchCancels calls w after every Delete, Purge of leased jobs and Destroy in a namespace,
	// including those of other processes. Reports are not reliable: a report may be lost, and it
	// may name jobs that no worker holds. A worker that holds such a job calls Extend, whose result
	// counts.
	//
	// WatchCancels never calls w concurrently. It returns when ctx ends or the engine is closed,
	// with the context's error or [duly.ErrClosed].
	WatchCancels(ctx context.Context, namespace string, w CancelWatch) error
}

// CancelWatch has the functions that WatchCancels calls. They must not block.
type CancelWatch struct {
	// Ready, if set, is called when the watch has begun, and again after each gap. WatchCancels
	// does not report jobs that were removed in a gap, so the worker must check all jobs that it
	// holds.
	Ready func()
	// Canceled is called for removed jobs.
	Canceled func(c Canceled)
}

// Canceled names removed jobs of one queue.
type Canceled struct {
	Queue string
	// IDs are the jobs' IDs. Nil means any leased job of the queue, as after a Purge or
	// Destroy.
	IDs []string
}

// Names reports whether the job may have been removed.
func (c Canceled) Names(queue, id string) bool {
	return c.Queue == queue && (c.IDs == nil || slices.Contains(c.IDs, id))
}
