package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/worker"
)

// errEnough ends a run whose jobs are all done.
var errEnough = errors.New("bench: every job of the run is done")

// handle runs a worker on q until all jobs of the run were handled, or its time is over. entered
// is called at the start of each handler. The run lasts until the worker has drained, so every
// counted job was also acked.
func (b *bench) handle(ctx context.Context, r *run, q duly.QueueRef, entered func(*duly.Delivery)) error {
	return b.runWorker(ctx, r, q, b.cfg.Load.Concurrency, func(w *worker.Worker) {
		w.Handle(q.Name, func(_ context.Context, d *worker.Delivery) error {
			entered(&d.Delivery)
			if r.done.Add(1) == r.total {
				r.stop(errEnough)
			}
			return nil
		})
	})
}

// handleBatches is like handle but with a handler of batches. The handler gets as many messages as one
// Reserve returns.
func (b *bench) handleBatches(ctx context.Context, r *run, q duly.QueueRef) error {
	batch := b.cfg.Load.Batch
	return b.runWorker(ctx, r, q, 2*b.cfg.Load.Callers*batch, func(w *worker.Worker) {
		w.HandleBatch(q.Name, batch, 10*time.Millisecond, func(ds []*worker.Delivery) []error {
			if r.done.Add(int64(len(ds))) >= r.total {
				r.stop(errEnough)
			}
			return make([]error, len(ds))
		})
	})
}

// runWorker runs a worker with the handlers that add registers.
func (b *bench) runWorker(ctx context.Context, r *run, q duly.QueueRef, concurrency int,
	add func(w *worker.Worker)) error {
	// The queue may have acks of earlier runs.
	before, err := b.acked(ctx, q)
	if err != nil {
		return err
	}
	w := worker.New(b.engine, worker.Config{
		Namespace: q.Namespace, Concurrency: concurrency, Logger: b.cfg.Logger, Clock: b.clock,
	})
	add(w)

	if err := w.Run(r.live); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	r.elapsed = b.clock.Mono() - r.start
	after, err := b.acked(ctx, q)
	if err != nil {
		return err
	}

	// The acks are counted, not the handlers: on a slow or lost store leases expire, and a job's
	// handler starts more than once.
	r.done.Store(after - before)
	return nil
}

// acked returns how many jobs of a queue were acked so far.
func (b *bench) acked(ctx context.Context, q duly.QueueRef) (int64, error) {
	stats, err := b.engine.Stats(ctx, q)
	if err != nil {
		return 0, fmt.Errorf("stats: %w", err)
	}
	return stats.Counters.Acked, nil
}

// work empties a loaded queue with a worker. The handlers do nothing, so they add no cost.
func (b *bench) work(ctx context.Context, r *run, q duly.QueueRef) error {
	return b.handle(ctx, r, q, func(*duly.Delivery) {})
}

// both pushes single jobs while a worker handles them. A latency is the time from a job's push to
// its handler, on the engine's clock.
func (b *bench) both(ctx context.Context, r *run, q duly.QueueRef) error {
	push := func(f *run) error { return b.push(ctx, f, q, b.cfg.Load.Goroutines, 1, 0) }
	return b.feed(ctx, r, push, func() error {
		return b.handle(ctx, r, q, func(d *duly.Delivery) {
			r.latency.Record(b.clock.Now().Add(b.offset.ahead).Sub(d.PushedAt))
		})
	})
}
