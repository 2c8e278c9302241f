package bench

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/dulymq/duly"
)

const (
	// callsJobs is the largest number of jobs of each operation in the phase calls, because they
	// change the size of the queue.
	callsJobs = 20_000
	// callsAmong is the smallest number of jobs in the queue, half of them delayed. A full queue
	// must not be compared with an empty one.
	callsAmong = 50_000
	callsLease = 10 * time.Minute
)

// calls makes calls one after another, each operation separately, in a queue with jobs: the
// backlog, or newly loaded ones.
func (b *bench) calls(ctx context.Context, at Progress) (Result, error) {
	place := b.shared
	if place == nil {
		place = &stock{queue: b.queue("calls")}
		for _, delay := range []time.Duration{0, 24 * time.Hour} {
			if err := b.load(ctx, at, place.queue, callsAmong/2, delay); err != nil {
				return Result{}, err
			}
		}
	}

	// The parts must not change the size of the queue much.
	n := min(b.cfg.Load.Jobs, callsJobs)
	result := Result{Phase: Calls, Runs: 1}
	var got []duly.Delivery
	for _, part := range []struct {
		name string
		do   func(r *run) error
	}{
		{"push", func(r *run) error { return b.push(ctx, r, place.queue, 1, b.cfg.Load.Batch, 0) }},
		{"delay", func(r *run) error { return b.push(ctx, r, place.queue, 1, b.cfg.Load.Batch, 24*time.Hour) }},
		{"reserve", func(r *run) (err error) {
			got, err = b.reserveAll(ctx, r, place.queue, 1, b.cfg.Load.Batch, callsLease)
			return err
		}},
		{"ack", func(r *run) error { return b.ackAll(ctx, r, place.queue, 1, b.cfg.Load.Batch, got) }},
	} {
		p, err := b.part(ctx, at, part.name, n, part.do)
		if err != nil {
			return Result{}, in(part.name, err)
		}
		result.Parts = append(result.Parts, p)
		result.Jobs += p.Jobs
		result.Seconds += p.Seconds
	}
	result.PerSecond = perSecond(result.Jobs, time.Duration(result.Seconds*float64(time.Second)))

	return result, nil
}

// part measures one operation.
func (b *bench) part(ctx context.Context, at Progress, name string, jobs int, do func(*run) error) (Part, error) {
	r := newRun(ctx, jobs)
	defer r.stop(nil)
	at.Run, at.Runs = 1, 1
	b.progress.watch(at, r)
	if err := b.measure(ctx, r, func() error { return do(r) }); err != nil {
		return Part{}, err
	}
	p := Part{Name: name, Jobs: r.done.Load(), Seconds: r.elapsed.Seconds(), Latency: latencyOf("call", &r.latency)}
	if b.meter.gauge != nil {
		p.Server = costOf([]*run{r})
	}
	return p, nil
}

// reserveAll reserves the run's jobs from several goroutines and keeps them. A lease of 0 means
// that each job has its own lease.
func (b *bench) reserveAll(
	ctx context.Context, r *run, q duly.QueueRef, goroutines, batch int, lease time.Duration,
) (all []duly.Delivery, err error) {
	var mu sync.Mutex
	err = r.each(goroutines, func() error {
		for _, n := r.claim(batch); n > 0; _, n = r.claim(batch) {
			before := b.clock.Mono()
			got, err := b.engine.Reserve(ctx, duly.ReserveParams{
				Namespace: q.Namespace, Queues: []string{q.Name}, Max: n, Lease: lease,
			})
			r.latency.Record(b.clock.Mono() - before)
			if err != nil {
				return fmt.Errorf("reserve: %w", err)
			}
			if len(got) == 0 {
				return fmt.Errorf("the queue was empty after %d of its %d jobs", r.done.Load(), r.total)
			}

			// The lock is outside the timed part.
			mu.Lock()
			all = append(all, got...)
			mu.Unlock()
			r.done.Add(int64(len(got)))
			// Other goroutines can claim the jobs that this call did not get.
			r.unclaim(n - len(got))
		}
		return nil
	})
	return all, err
}

// ackAll acks the deliveries from several goroutines, batch per call.
func (b *bench) ackAll(
	ctx context.Context, r *run, q duly.QueueRef, goroutines, batch int, got []duly.Delivery,
) error {
	return r.each(goroutines, func() error {
		outcomes := make([]duly.SettleRequest, batch)
		for first, n := r.claim(batch); n > 0; first, n = r.claim(batch) {
			before := b.clock.Mono()
			if err := b.ack(ctx, q.Namespace, got[first:first+int64(n)], outcomes); err != nil {
				return err
			}
			r.latency.Record(b.clock.Mono() - before)
			r.done.Add(int64(n))
		}
		return nil
	})
}
