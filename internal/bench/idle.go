package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/worker"
)

// idleSettle is the time that a worker has to become idle before it is watched.
const idleSettle = 3 * time.Second

// idle makes a worker wait on empty queues and counts its requests to the server.
func (b *bench) idle(ctx context.Context, at Progress) (Result, error) {
	w := worker.New(b.engine, worker.Config{
		Namespace: b.cfg.Namespace, Concurrency: b.cfg.Load.Concurrency, Logger: b.cfg.Logger, Clock: b.clock,
	})
	for i := range b.cfg.Load.Queues {
		q := b.queue(fmt.Sprintf("idle-%d", i))
		if err := b.openQueue(ctx, q); err != nil {
			return Result{}, err
		}
		w.Handle(q.Name, func(context.Context, *worker.Delivery) error { return nil })
	}

	working, end := context.WithCancel(ctx)
	ended := make(chan error, 1)
	// The worker runs during the count, so the count includes its polls.
	go func() { ended <- w.Run(working) }()
	requests, length, err := b.watchIdle(ctx, at)
	end()
	if err := errors.Join(err, <-ended); err != nil {
		return Result{}, err
	}

	return Result{
		Phase: Idle, Runs: 1, Seconds: length.Seconds(),
		Idle: &IdleView{Queues: b.cfg.Load.Queues, Requests: requests, PerSecond: perSecond(requests, length)},
	}, nil
}

// watchIdle counts the requests during the time of a run.
func (b *bench) watchIdle(ctx context.Context, at Progress) (requests int64, length time.Duration, err error) {
	// The first requests of the worker are not part of the idle cost.
	pause(ctx, b.clock, idleSettle)
	stop, err := b.meter.gauge.Watch(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("watching the server: %w", err)
	}
	begin := b.clock.Mono()
	r := newRun(ctx, int(b.cfg.Load.Time/time.Second)+1)
	defer r.stop(nil)
	b.progress.watch(at, r)
	for left := b.cfg.Load.Time; left > 0 && ctx.Err() == nil; left -= time.Second {
		pause(ctx, b.clock, min(left, time.Second))
		r.done.Add(1)
	}

	// The watch ends even if the caller's context has ended.
	requests, err = stop(context.WithoutCancel(ctx))
	return requests, b.clock.Mono() - begin, errors.Join(err, ctx.Err())
}

// openQueue creates a queue and leaves it empty.
func (b *bench) openQueue(ctx context.Context, q duly.QueueRef) error {
	jobs := make([]duly.Job, 1)
	b.fill(jobs, q)
	r := newRun(ctx, 1)
	defer r.stop(nil)
	if err := b.pushOnce(ctx, r, jobs); err != nil {
		return err
	}
	_, err := b.takeOnce(ctx, r, q, 1, make([]duly.SettleRequest, 1))
	return err
}
