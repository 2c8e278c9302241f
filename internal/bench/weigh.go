package bench

import (
	"context"
	"time"

	"github.com/dulymq/duly"
)

// weigh loads ready and delayed jobs and returns the memory of each.
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
		bytes, err := b.loadWeighed(ctx, at, b.queue(load.name), n, delayed(load.delay))
		if err != nil {
			return Result{}, err
		}
		*load.bytes = bytes
		result.Jobs += int64(n)
	}

	if err := b.weighKinds(ctx, at, &result); err != nil {
		return Result{}, err
	}
	return result, nil
}

// weighKinds loads ready jobs of each kind, one kind after another, and measures the memory of each
// kind.
func (b *bench) weighKinds(ctx context.Context, at Progress, result *Result) error {
	plain := result.Memory.Ready
	for _, kind := range b.cfg.Kinds {
		weight := KindMemory{Kind: kind, Bytes: plain}
		// Plain jobs were loaded by weigh.
		if kind != Plain {
			n := b.cfg.Load.Jobs
			q, err := b.shardedQueue(ctx, "memory-"+string(kind), 1)
			if err != nil {
				return in(string(kind)+" jobs", err)
			}
			if weight.Bytes, err = b.loadWeighed(ctx, at, q, n, kind.shape); err != nil {
				return in(string(kind)+" jobs", err)
			}
			// Removed at once, so that the kinds don't add up in the server's memory.
			if err := b.drop(ctx, q); err != nil {
				return err
			}
			result.Jobs += int64(n)
		}
		if plain > 0 {
			weight.ToPlain = weight.Bytes / plain
		}
		result.Memory.Kinds = append(result.Memory.Kinds, weight)
	}

	return nil
}

// loadWeighed loads jobs and returns the server's bytes per job, or 0 without a gauge.
func (b *bench) loadWeighed(ctx context.Context, at Progress, q duly.QueueRef, n int, shape shape) (float64, error) {
	before, err := b.memory(ctx)
	if err == nil {
		err = b.loadShaped(ctx, at, q, n, shape)
	}
	if err != nil || n == 0 {
		return 0, err
	}
	after, err := b.memory(ctx)
	return float64(after-before) / float64(n), err
}
