package contract

import (
	"context"
	"slices"
)

// CancelWatcher is implemented by engines that report removed jobs, so that a
// worker can stop their handlers.
type CancelWatcher interface {
	// WatchCancels calls w after every Delete, Purge of leased jobs and Destroy
	// in a namespace, also those of other processes. A report is a hint: it may
	// be lost, and it may name jobs that no worker holds. A worker that holds
	// such a job calls Extend, whose answer counts.
	//
	// WatchCancels never calls w concurrently. It returns when ctx ends or the
	// engine is closed, with the context's error or [duly.ErrClosed].
	WatchCancels(ctx context.Context, namespace string, w CancelWatch) error
}

// CancelWatch holds the functions that WatchCancels calls. They must not block.
type CancelWatch struct {
	// Ready, if set, is called when the watch has begun, and again after each
	// gap in it. Jobs removed in a gap are not reported, so a worker asks about
	// all jobs that it holds.
	Ready func()
	// Canceled is called for removed jobs.
	Canceled func(c Canceled)
}

// Canceled names removed jobs of one queue.
type Canceled struct {
	Queue string
	// IDs are the jobs' IDs. Nil means any leased job of the queue, as after a
	// Purge or Destroy.
	IDs []string
}

// Names reports whether the job may have been removed.
func (c Canceled) Names(queue, id string) bool {
	return c.Queue == queue && (c.IDs == nil || slices.Contains(c.IDs, id))
}
