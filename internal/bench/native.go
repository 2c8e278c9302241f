package bench

import (
	"context"
	"fmt"

	"github.com/dulymq/duly"
)

// nativePush stores the run's jobs by the server's own commands.
func (b *bench) nativePush(ctx context.Context, r *run, _ duly.QueueRef) error {
	return b.nativeEach(r, func(lane, n int) (int, error) {
		if err := b.native.Push(ctx, lane, n); err != nil {
			return 0, fmt.Errorf("native push: %w", err)
		}
		b.stored.Add(int64(n))
		return n, nil
	})
}

// nativeTake takes them out again.
func (b *bench) nativeTake(ctx context.Context, r *run, _ duly.QueueRef) error {
	return b.nativeEach(r, func(lane, n int) (int, error) {
		got, err := b.native.Take(ctx, lane, n)
		if err != nil {
			return 0, fmt.Errorf("native take: %w", err)
		}
		b.stored.Add(-int64(got))
		return got, nil
	})
}

// nativeEach does the run's jobs on every lane.
func (b *bench) nativeEach(r *run, do func(lane, n int) (int, error)) error {
	lanes := make(chan int, b.native.Lanes())
	for lane := range b.native.Lanes() {
		lanes <- lane
	}
	return r.each(b.native.Lanes(), func() error {
		lane := <-lanes
		for _, n := r.claim(b.native.Most()); n > 0; _, n = r.claim(b.native.Most()) {
			got, err := do(lane, n)
			if err != nil {
				return err
			}
			r.done.Add(int64(got))
			if r.unclaim(n - got); got == 0 {
				return nil
			}
		}
		return nil
	})
}

// prepareNative stores what a native take is to find.
func (b *bench) prepareNative(ctx context.Context, at Progress, jobs int) error {
	missing := jobs - int(b.stored.Load())
	if missing <= 0 {
		return nil
	}
	at.Loading = true
	r := newRun(ctx, missing)
	defer r.stop(nil)
	b.progress.watch(at, r)
	if err := b.nativePush(ctx, r, duly.QueueRef{}); err != nil {
		return err
	}
	return ctx.Err()
}
