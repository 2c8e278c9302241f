package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// push pushes the run's jobs in batches from several goroutines. If there is a delay, the jobs are
// due after the delay, spread over an hour.
func (b *bench) push(ctx context.Context, r *run, q duly.QueueRef, goroutines, batch int, delay time.Duration) error {
	return b.pushShaped(ctx, r, q, goroutines, batch, delayed(delay))
}

// shape changes a job before its push. number is the job's number in its run, from 0.
type shape func(number int64, job *duly.Job)

// delayed returns the shape of jobs with a delay, if the delay is not 0.
func delayed(delay time.Duration) shape {
	return func(number int64, job *duly.Job) {
		// Different due times, as in real use.
		if delay > 0 {
			job.Delay = delay + time.Duration(number)*time.Millisecond%time.Hour
		}
	}
}

// pushShaped pushes the run's jobs as push does, in a shape.
func (b *bench) pushShaped(ctx context.Context, r *run, q duly.QueueRef, goroutines, batch int, shape shape) error {
	// More goroutines than batches would have no work.
	goroutines = min(goroutines, (int(r.total)+batch-1)/batch)
	return r.each(goroutines, func() error {
		jobs := make([]duly.Job, batch)
		for first, n := r.claim(batch); n > 0; first, n = r.claim(batch) {
			b.fill(jobs[:n], q)
			for i := range jobs[:n] {
				shape(first+int64(i), &jobs[i])
			}

			if err := b.pushOnce(ctx, r, jobs[:n]); err != nil {
				return err
			}
			r.done.Add(int64(n))
		}
		return nil
	})
}

// fill creates the jobs as duly's client does, each with an ID.
func (b *bench) fill(jobs []duly.Job, q duly.QueueRef) {
	for i := range jobs {
		jobs[i] = duly.Job{Made: true, Namespace: q.Namespace, Queue: q.Name, Body: b.body}
		jobs[i].ID = b.makeID(&jobs[i])
	}
}

func (b *bench) makeID(j *duly.Job) string {
	if m, ok := b.engine.(contract.IDMaker); ok {
		return m.MakeID(j)
	}
	return duly.MakeID(j)
}

// pushOnce makes one timed Push. Any result other than a new job is an error, because the
// measurement would be wrong.
func (b *bench) pushOnce(ctx context.Context, r *run, jobs []duly.Job) error {
	before := b.clock.Mono()
	results, err := b.engine.Push(ctx, jobs)
	r.latency.Record(b.clock.Mono() - before)
	if err != nil {
		return fmt.Errorf("push: %w", err)
	}
	if len(results) != len(jobs) {
		return fmt.Errorf("push: got %d results for %d jobs", len(results), len(jobs))
	}
	for i := range results {
		switch res := &results[i]; {
		case res.Err != nil:
			return fmt.Errorf("push: %w", res.Err)
		case res.Status != duly.Created:
			return fmt.Errorf("push: the status of a new job is %q", res.Status)
		}
	}
	return nil
}
