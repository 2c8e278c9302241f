package contract

import (
	"context"

	"github.com/dulymq/duly"
)

// Firing is called before a Fire by this process. It returns the context and the items for Fire, which may
// be the same, and a function that is called with the result. now is the engine's clock at the read of the
// due schedules, in ms. All items belong to one queue. Firing must not change them.
type Firing = func(ctx context.Context, q duly.QueueRef, now int64, items []FireItem) (
	context.Context, []FireItem, func(results []FireResult, err error))

// FireObserver is implemented by engines that fire ticks in their own maintenance.
type FireObserver interface {
	// ObserveFire sets the function that is called before each Fire, nil for none. Calls that have begun
	// continue without it.
	ObserveFire(f Firing)
}

// TickCounts is what an item of a Fire has done.
type TickCounts struct{ Fired, Skipped, Missed int64 }

// Counts returns what an item has done by its result.
func (i *FireItem) Counts(result *FireResult) TickCounts {
	if result.Status != FireFired {
		return TickCounts{}
	}
	var r ScheduleRecord
	r.Advance(i, result.Run)
	return TickCounts{r.Fired, r.Skipped, r.Missed}
}
