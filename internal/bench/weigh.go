package bench

import (
	"context"
	"time"

	"github.com/dulymq/duly"
)

// weigh loads ready and delayed jobs and tells what memory each of them takes.
func (b *bench) weigh(ctx context.Context, at Progress) (Result, error) {
	result := Result{Phase: Memory, Runs: 1, Memory: &MemoryView{}}
	for _, load := range []struct {
		name  string
		delay time.Duration
		bytes *float64
	}{
		{"memory-ready", 0, &result.Memory.Ready},
		{"memory-delayed", 24 * time.Hour, &result.Memory.Delayed},
	} {
		n := b.cfg.Load.Jobs
		bytes, err := b.loadWeighed(ctx, at, b.queue(load.name), n, load.delay)
		if err != nil {
			return Result{}, err
		}
		*load.bytes = bytes
		result.Jobs += int64(n)
	}
	return result, nil
}

// loadWeighed loads jobs and tells the server's bytes per job; 0 without a
// gauge.
func (b *bench) loadWeighed(ctx context.Context, at Progress, q duly.QueueRef, n int, delay time.Duration) (float64, error) {
	before, err := b.memory(ctx)
	if err == nil {
		err = b.load(ctx, at, q, n, delay)
	}
	if err != nil || n == 0 {
		return 0, err
	}
	after, err := b.memory(ctx)
	return float64(after-before) / float64(n), err
}
