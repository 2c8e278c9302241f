package store

import (
	"context"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/batch"
)

// InFlight is how many batches of a shard and kind are in flight at a time: the server works on the
// first one while the second one already waits there.
const InFlight = 2

// InitBatcher prepares a batcher of a shard. send runs a batch and fills in its results. Its
// context ends when the last of the callers stops waiting. If one of them has no deadline, only
// the link's own limit applies.
func InitBatcher[T batch.Caller](s *Store, b *batch.Batcher[T], send func(context.Context, []T) error) {
	b.Go, b.InFlight, b.Limits = s.Tasks.Go, InFlight, batch.Limits{Items: duly.MaxBatch, Bytes: duly.MaxBatchBytes}
	b.Panicked = func(value any, stack []byte) {
		s.Settings.Logger.Error("a batch of calls panicked", "panic", value, "stack", string(stack))
	}
	b.Send = func(_ context.Context, calls []T) error {
		last, bounded := batch.Deadline(calls)
		if !bounded {
			return send(context.WithoutCancel(s.Ctx), calls)
		}
		ctx, end := context.WithDeadline(s.Ctx, last)
		defer end()
		return send(ctx, calls)
	}
}
