package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/dulymq/duly"
)

const (
	// paceJobs is how many jobs are used to estimate the loading time of a burst.
	paceJobs = 5000
	// burstLead is the least time between loading a burst and its due time.
	burstLead = 500 * time.Millisecond
)

// loadBurst pushes the run's jobs so that all of them become due in the same millisecond, and waits
// for that millisecond. From the first jobs it estimates how long the remaining ones will take.
func (b *bench) loadBurst(ctx context.Context, at Progress, q duly.QueueRef, jobs int) error {
	at.Loading = true
	pace := newRun(ctx, min(jobs, paceJobs))
	defer pace.stop(nil)
	begin := b.clock.Mono()
	if err := b.push(ctx, pace, b.queue(fmt.Sprintf("%s-%d-pace", at.Phase, at.Run)), b.cfg.Load.Callers,
		b.cfg.Load.Batch, 0); err != nil {
		return err
	}
	each := (b.clock.Mono() - begin) / time.Duration(pace.total)
	// Twice the estimate leaves room for a queue that gets slower as it grows.
	moment := b.clock.Now().Add(b.offset.ahead + 2*each*time.Duration(jobs) + burstLead).Truncate(time.Millisecond)

	r := newRun(ctx, jobs)
	defer r.stop(nil)
	b.progress.watch(at, r)
	if err := b.pushAt(ctx, r, q, moment); err != nil {
		return err
	}

	// The engine's clock decides when the jobs are due.
	left := moment.Sub(b.clock.Now().Add(b.offset.ahead))
	if left <= b.offset.either {
		return fmt.Errorf("pushing %d jobs took longer than the estimate from the first %d; repeat the measurement, or lower jobs", jobs,
			pace.total)
	}
	// After this pause all jobs are due, even with the largest error of the clock offset.
	pause(ctx, b.clock, left+b.offset.either+time.Millisecond)
	return ctx.Err()
}

// pushAt pushes jobs that are due at one time of the engine's clock.
func (b *bench) pushAt(ctx context.Context, r *run, q duly.QueueRef, due time.Time) error {
	return b.pushShaped(ctx, r, q, b.cfg.Load.Callers, b.cfg.Load.Batch, func(_ int64, job *duly.Job) { job.Due = due })
}
