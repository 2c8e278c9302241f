package bench

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/dulymq/duly"
)

// nativePush stores the run's jobs with the server's commands.
func (b *bench) nativePush(ctx context.Context, r *run, _ duly.QueueRef) error {
	return nativePush(ctx, r, b.native, &b.stored)
}

// nativeTake reserves and acks jobs with the server's commands.
func (b *bench) nativeTake(ctx context.Context, r *run, _ duly.QueueRef) error {
	return nativeTake(ctx, r, b.native, &b.stored)
}

// nativePublish adds the run's messages to a native stream.
func (b *bench) nativePublish(ctx context.Context, r *run, _ duly.QueueRef) error {
	return nativePush(ctx, r, b.streams, &b.added)
}

// nativeGroup reads and acks the run's messages as a group of the native stream.
func (b *bench) nativeGroup(ctx context.Context, r *run, _ duly.QueueRef) error {
	return nativeTake(ctx, r, b.streams, &b.added)
}

// nativeTake takes the run's jobs on all lanes and subtracts them from stored.
func nativeTake(ctx context.Context, r *run, native Native, stored *atomic.Int64) error {
	return nativeEach(r, native, func(lane int, _ int64, n int) (int, error) {
		numbers, err := native.Reserve(ctx, lane, n)
		if err == nil {
			err = native.Ack(ctx, lane, numbers)
		}
		if err != nil {
			return 0, fmt.Errorf("native take: %w", err)
		}
		stored.Add(-int64(len(numbers)))
		return len(numbers), nil
	})
}

// nativePush stores the run's jobs on all lanes and adds them to stored.
func nativePush(ctx context.Context, r *run, native Native, stored *atomic.Int64) error {
	return nativeEach(r, native, func(lane int, _ int64, n int) (int, error) {
		if err := native.Push(ctx, lane, n); err != nil {
			return 0, fmt.Errorf("native push: %w", err)
		}
		stored.Add(int64(n))
		return n, nil
	})
}

// nativeEach handles the run's jobs on every lane. do gets the index of its first job in the run,
// and the number of its jobs.
func nativeEach(r *run, native Native, do func(lane int, first int64, n int) (int, error)) error {
	lanes := make(chan int, native.Lanes())
	for lane := range native.Lanes() {
		lanes <- lane
	}

	return r.each(native.Lanes(), func() error {
		lane := <-lanes
		for first, n := r.claim(native.Most()); n > 0; first, n = r.claim(native.Most()) {
			got, err := do(lane, first, n)
			if err != nil {
				return err
			}

			r.done.Add(int64(got))
			// An empty server ends the run early.
			if r.unclaim(n - got); got == 0 {
				return nil
			}
		}
		return nil
	})
}

// prepareNative stores the jobs that a native take needs.
func (b *bench) prepareNative(ctx context.Context, at Progress, native Native, stored *atomic.Int64, jobs int) error {
	// Earlier runs may have left jobs.
	missing := jobs - int(stored.Load())
	if missing <= 0 {
		return nil
	}
	at.Loading = true
	r := newRun(ctx, missing)
	defer r.stop(nil)
	b.progress.watch(at, r)
	if err := nativePush(ctx, r, native, stored); err != nil {
		return err
	}
	return ctx.Err()
}
