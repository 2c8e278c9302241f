package bench

import (
	"context"
	"fmt"

	"github.com/dulymq/duly"
)

// take reserves and acks the run's jobs in batches. A latency covers both calls.
func (b *bench) take(ctx context.Context, r *run, q duly.QueueRef) error {
	return b.takeBatches(ctx, r, q, b.cfg.Load.Callers, b.cfg.Load.Batch)
}

// takeBatches is like take but with the given number of goroutines and batch size.
func (b *bench) takeBatches(ctx context.Context, r *run, q duly.QueueRef, goroutines, batch int) error {
	err := r.each(goroutines, func() error {
		outcomes := make([]duly.SettleRequest, batch)
		for _, n := r.claim(batch); n > 0; _, n = r.claim(batch) {
			got, err := b.takeOnce(ctx, r, q, n, outcomes)
			if err != nil {
				return err
			}
			r.unclaim(n - got)
			if got == 0 {
				// Either the queue is empty, or other goroutines have the remaining jobs.
				return nil
			}
			r.done.Add(int64(got))
		}
		return nil
	})
	if done := r.done.Load(); err == nil && ctx.Err() == nil && !r.cut() && done < r.total {
		return fmt.Errorf("take: the queue was empty after %d of its %d jobs", done, r.total)
	}

	return err
}

// takeOnce reserves up to n jobs, and acks the jobs that it got.
func (b *bench) takeOnce(ctx context.Context, r *run, q duly.QueueRef, n int, outcomes []duly.SettleRequest) (int,
	error) {
	before := b.clock.Mono()
	deliveries, err := b.engine.Reserve(ctx, duly.ReserveParams{Namespace: q.Namespace, Queues: []string{q.Name}, Max: n})
	if err != nil {
		return 0, fmt.Errorf("reserve: %w", err)
	}

	if len(deliveries) == 0 {
		return 0, nil
	}
	for i := range deliveries {
		// Both times are the engine's, so a wrong local clock makes no job early.
		if d := &deliveries[i]; d.Now.Before(d.Due) {
			r.early.Add(1)
		}
	}

	err = b.ack(ctx, q.Namespace, deliveries, outcomes)
	r.latency.Record(b.clock.Mono() - before)
	if err != nil {
		return 0, err
	}
	return len(deliveries), nil
}

// ack acks deliveries. outcomes is reused for the requests.
func (b *bench) ack(ctx context.Context, namespace string, deliveries []duly.Delivery,
	outcomes []duly.SettleRequest) error {
	for i := range deliveries {
		outcomes[i] = duly.SettleRequest{Receipt: deliveries[i].Receipt, As: duly.Ack}
	}
	answers, err := b.engine.Settle(ctx, namespace, outcomes[:len(deliveries)])
	if err != nil {
		return fmt.Errorf("ack: %w", err)
	}
	for _, err := range answers {
		if err != nil {
			return fmt.Errorf("ack: %w", err)
		}
	}
	return nil
}
