package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dulymq/duly"
)

const (
	// lead is the time by which jobs are pushed before they are due.
	lead = time.Second
	// grace is how late the last job may be before the run fails.
	grace = 30 * time.Second
)

// lateness pushes jobs that become due at even intervals, each a second ahead, and measures how
// late their handlers start. Pushing continues during the measurement, at the same rate, as in real
// use.
func (b *bench) lateness(ctx context.Context, r *run, q duly.QueueRef) error {
	return b.late(ctx, r, q, func(f *run, delays []time.Duration) error {
		jobs := make([]duly.Job, len(delays))
		b.fill(jobs, q)
		for i, delay := range delays {
			jobs[i].Delay = delay
		}
		return b.pushOnce(ctx, f, jobs)
	})
}

// groupLateness is like lateness but with messages of the run's topic.
func (b *bench) groupLateness(ctx context.Context, r *run, _ duly.QueueRef) error {
	topic := b.lastTopic()
	return b.late(ctx, r, groupOf(topic), func(f *run, delays []time.Duration) error {
		messages := make([]duly.Message, len(delays))
		for i, delay := range delays {
			messages[i] = duly.Message{Namespace: topic.Namespace, Topic: topic.Name, Body: b.body, Delay: delay}
		}
		return b.publishOnce(ctx, f, messages)
	})
}

// storeDelayed stores a job or a message with each of the delays.
type storeDelayed func(f *run, delays []time.Duration) error

// late measures how late a worker on q gets the jobs that store has stored.
func (b *bench) late(ctx context.Context, r *run, q duly.QueueRef, store storeDelayed) error {
	// r.start becomes the time at which the first job is due.
	r.start += lead
	begin := r.start
	return b.untilLate(r, lead, func() error {
		return b.feed(ctx, r, func(f *run) error { return b.schedule(f, begin, store) }, func() error {
			return b.handle(ctx, r, q, func(d *duly.Delivery) { b.recordLateness(r, d, d.Due) })
		})
	})
}

// untilLate runs work, which handles all jobs of a run. The first job is due after ahead. untilLate
// fails if a job is still missing long after its due time.
func (b *bench) untilLate(r *run, ahead time.Duration, work func() error) error {
	length := time.Duration(float64(r.total) / float64(b.cfg.Load.Rate) * float64(time.Second))
	defer r.timed(b.clock, ahead+length+grace)()
	err := work()
	if err == nil && r.cut() {
		return fmt.Errorf("%d of %d jobs were not delivered %s after the last one was due", r.total-r.done.Load(), r.total,
			duly.FormatDuration(grace))
	}
	return err
}

// recordLateness records the delivery of a job that is due at a time, when its handler starts.
func (b *bench) recordLateness(r *run, d *duly.Delivery, due time.Time) {
	late := b.engineNow().Sub(due)
	r.latency.Record(late)
	if d.Now.Before(due) || late < -b.offset.either {
		r.early.Add(1)
	}
}

// schedule stores the jobs of f. Job i is due at first + i/rate.
func (b *bench) schedule(f *run, first time.Duration, store storeDelayed) error {
	rate := b.cfg.Load.Rate
	// There are at least ten pushes per second, so that batches don't make the load uneven.
	batch := max(1, min(b.cfg.Load.Batch, rate/10))
	dueAt := func(i int64) time.Duration {
		return first + time.Duration(float64(i)/float64(rate)*float64(time.Second))
	}

	return f.each(b.cfg.Load.Callers, func() error {
		delays := make([]time.Duration, batch)
		for i, n := f.claim(batch); n > 0; i, n = f.claim(batch) {
			if wait := dueAt(i) - lead - b.clock.Mono(); wait > 0 {
				pause(f.live, b.clock, wait)
			}
			if f.live.Err() != nil {
				return nil
			}

			now := b.clock.Mono()
			for k := range delays[:n] {
				// A job that is already due at its push would count as late, although the engine is
				// not to blame.
				delay := dueAt(i+int64(k)) - now
				if delay < 0 {
					f.behind.Add(1)
				}
				delays[k] = max(0, delay)
			}
			if err := store(f, delays[:n]); err != nil {
				return err
			}
		}
		return nil
	})
}

// feed runs work while push pushes jobs for it, in a separate run that ends with r. An error of
// either function ends both.
func (b *bench) feed(ctx context.Context, r *run, push func(*run) error, work func() error) error {
	f := newRun(r.live, int(r.total))
	defer f.stop(nil)
	pushed := make(chan error, 1)
	go func() {
		err := push(f)

		// Without more jobs, the worker would wait until the time limit.
		if err != nil {
			r.stop(err)
		}
		pushed <- err
	}()
	err := work()

	// The pushes end with the work. The wait below would otherwise last until the last push.
	f.stop(nil)
	err = errors.Join(<-pushed, err)
	r.behind.Store(f.behind.Load())
	return err
}
