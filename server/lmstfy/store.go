package lmstfy

import (
	"context"
	"errors"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/server/route"
)

// How often a push is sent whose outcome is not known, and the pause before it
// is sent again, which doubles.
const (
	pushes    = 3
	pushPause = 100 * time.Millisecond
)

// undoTime bounds how long what was stored of a request that failed is taken
// back.
const undoTime = 10 * time.Second

// store pushes jobs of one queue, which have passed every check: all of them,
// or as far as the store allows it none.
func (a *API) store(c *route.Call, jobs []duly.Job) error {
	ref := duly.QueueRef{Namespace: jobs[0].Namespace, Name: jobs[0].Queue}
	if err := a.known.see(c.Context(), ref); err != nil {
		return err
	}
	for rest := jobs; len(rest) > 0; {
		n := fitting(rest)
		if err := a.push(c.Context(), rest[:n]); err != nil {
			if len(jobs) > 1 && err != errCollision {
				a.takeBack(c, jobs)
			}
			return err
		}
		rest = rest[n:]
	}
	a.metrics.publishedJobs(jobs)
	return nil
}

// fitting is how many of the jobs fit into one push.
func fitting(jobs []duly.Job) int {
	size := 0
	for i := range jobs {
		size += len(jobs[i].Body)
		if i > 0 && size > duly.MaxBatchBytes {
			return i
		}
	}
	return len(jobs)
}

// errCollision is a new ID that another job has, which is not to be touched.
var errCollision error = duly.Errorf(duly.CodeInternal, "a job with this new ID exists already")

// push pushes jobs, and those of which it is not known whether they are stored
// once more with the same IDs.
func (a *API) push(ctx context.Context, jobs []duly.Job) error {
	pause := pushPause
	for try := 1; ; try++ {
		failed, err := a.pushOnce(ctx, jobs, try > 1)
		if err == nil || try == pushes || !errors.Is(err, duly.ErrUnavailable) && !errors.Is(err, duly.ErrNotDurable) {
			return err
		}
		if clock.Sleep(ctx, a.clock, pause) != nil {
			return err
		}
		pause *= 2
		jobs = failed
	}
}

// pushOnce tells which jobs are to be pushed again, and an error if there are
// any; one that a repeat does not mend goes before the others.
func (a *API) pushOnce(ctx context.Context, jobs []duly.Job, again bool) (failed []duly.Job, err error) {
	results, err := a.engine.Push(ctx, jobs)
	if err != nil {
		return unmade(jobs), err
	}
	for i, r := range results {
		if r.Outcome == duly.Exists && !again {
			r.Err = errCollision
		}
		if r.Err == nil {
			continue
		}
		failed = append(failed, jobs[i])
		if err == nil || errors.Is(err, duly.ErrUnavailable) || errors.Is(err, duly.ErrNotDurable) {
			err = r.Err
		}
	}
	return unmade(failed), err
}

// unmade says of jobs that this is not their first try any more.
func unmade(jobs []duly.Job) []duly.Job {
	for i := range jobs {
		jobs[i].Made = false
	}
	return jobs
}

// takeBack deletes what was stored of a request that failed, whose IDs nobody
// will know.
func (a *API) takeBack(c *route.Call, jobs []duly.Job) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Context()), undoTime)
	defer cancel()
	for i := range jobs {
		_, err := a.remove(ctx, duly.QueueRef{Namespace: jobs[i].Namespace, Name: jobs[i].Queue}, jobs[i].ID)
		if err != nil {
			c.Log().Warn("a bulk publish failed and some of its jobs may stay", "code", string(duly.CodeOf(err)))
			return
		}
	}
}

// remove deletes a job in whatever state it is, if it is there at all.
func (a *API) remove(ctx context.Context, q duly.QueueRef, id string) (found bool, err error) {
	err = a.engine.Delete(ctx, q, id)
	if absent(err) {
		return false, nil
	}
	return err == nil, err
}
