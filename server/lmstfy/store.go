package lmstfy

import (
	"context"
	"errors"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/server/route"
)

// A push with an unknown result is sent again, after a pause that doubles.
const (
	maxPushes = 3
	pushPause = 100 * time.Millisecond
)

// undoTimeout is the longest time for deleting the jobs of a failed request.
const undoTimeout = 10 * time.Second

// store pushes jobs of one queue, which have passed every check. It stores all of them, or as far
// as the engine permits none of them.
func (a *API) store(c *route.Call, jobs []duly.Job) error {
	ref := duly.QueueRef{Namespace: jobs[0].Namespace, Name: jobs[0].Queue}
	if err := a.queues.check(c.Context(), ref); err != nil {
		return err
	}

	for rest := jobs; len(rest) > 0; {
		n := batchSize(rest)
		if err := a.push(c.Context(), rest[:n]); err != nil {
			// Only several jobs can be stored in part. If an ID collides, it belongs to a job that
			// must stay.
			if len(jobs) > 1 && err != errCollision {
				a.deleteAll(c, jobs)
			}
			return err
		}
		rest = rest[n:]
	}
	a.metrics.publishedJobs(jobs)
	return nil
}

// batchSize returns how many of the jobs fit into one push.
func batchSize(jobs []duly.Job) int {
	size := 0
	for i := range jobs {
		size += len(jobs[i].Body)
		// A single job has a bound of its own, so it always fits.
		if i > 0 && size > duly.MaxBatchBytes {
			return i
		}
	}
	return len(jobs)
}

// errCollision is the error of a new ID that another job has. That job must stay.
var errCollision error = contract.Errorf(duly.CodeInternal, "a job with this new ID exists already")

// push pushes jobs. It pushes jobs with an unknown result again, with the same IDs.
func (a *API) push(ctx context.Context, jobs []duly.Job) error {
	pause := pushPause
	for try := 1; ; try++ {
		failed, err := a.pushOnce(ctx, jobs, try > 1)
		if err == nil || try == maxPushes || !mayBeStored(err) {
			return err
		}
		// The error of the push says more than the end of the caller's context.
		if clock.Sleep(ctx, a.clock, pause) != nil {
			return err
		}
		pause *= 2
		// The other jobs are stored, so only the failed ones are pushed again.
		jobs = failed
	}
}

// mayBeStored reports whether a job with this error may be stored.
func mayBeStored(err error) bool {
	return errors.Is(err, duly.ErrUnavailable) || errors.Is(err, duly.ErrNotDurable)
}

// pushOnce pushes jobs once. It returns the failed ones with an error, preferably one that a
// retry does not fix.
func (a *API) pushOnce(ctx context.Context, jobs []duly.Job, again bool) (failed []duly.Job, err error) {
	results, err := a.engine.Push(ctx, jobs)
	if err != nil {
		return repeated(jobs), err
	}

	for i, r := range results {
		// In a repeated push, the existing job is one that an earlier push has stored.
		if r.Status == duly.Exists && !again {
			r.Err = errCollision
		}
		if r.Err == nil {
			continue
		}
		failed = append(failed, jobs[i])
		if err == nil || mayBeStored(err) {
			err = r.Err
		}
	}
	return repeated(failed), err
}

// repeated marks jobs whose push is a repeat.
func repeated(jobs []duly.Job) []duly.Job {
	for i := range jobs {
		jobs[i].Made = false
	}
	return jobs
}

// deleteAll deletes the stored jobs of a failed request, because no caller knows their IDs.
func (a *API) deleteAll(c *route.Call, jobs []duly.Job) {
	// The jobs must go even if the caller has hung up.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Context()), undoTimeout)
	defer cancel()

	for i := range jobs {
		_, err := a.remove(ctx, duly.QueueRef{Namespace: jobs[i].Namespace, Name: jobs[i].Queue}, jobs[i].ID)
		if err != nil {
			c.Log().Warn("a bulk publish failed, and some of its jobs could not be deleted again", "code", string(duly.CodeOf(err)))
			return
		}
	}
}

// remove deletes a job in any state, and reports whether it existed.
func (a *API) remove(ctx context.Context, q duly.QueueRef, id string) (found bool, err error) {
	err = a.engine.Delete(ctx, q, id)
	if isAbsent(err) {
		return false, nil
	}
	return err == nil, err
}
