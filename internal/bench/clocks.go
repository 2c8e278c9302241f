package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/dulymq/duly"
)

// clockOffset has the time by which the engine's clock is ahead of this process's clock, and the
// largest possible error of that time.
type clockOffset struct{ ahead, either time.Duration }

// probes is the number of comparisons of the clocks.
const probes = 20

// compareClocks measures the engine's clock offset with ready jobs, as the package's
// documentation describes.
func (b *bench) compareClocks(ctx context.Context) error {
	q := b.queue("clock")
	var seen bounds
	for range probes {
		job := make([]duly.Job, 1)
		b.fill(job, q)
		if _, err := b.engine.Push(ctx, job); err != nil {
			return fmt.Errorf("comparing clocks: %w", err)
		}
		before := b.clock.Now()
		got, err := b.engine.Reserve(ctx, duly.ReserveParams{Namespace: q.Namespace, Queues: []string{q.Name}, Max: 1})
		after := b.clock.Now()
		if err != nil {
			return fmt.Errorf("comparing clocks: %w", err)
		}
		// If no job was returned, the engine's clock has just been set back.
		if len(got) == 1 {
			seen.add(got[0].Now, before, after)
		}
	}
	// One comparison is enough for all phases.
	b.offset, b.timed = seen.offset(), true

	return nil
}

// bounds are the limits of the clocks' difference.
type bounds struct {
	low, high time.Duration
	any       bool
}

// add records another probe: the engine reported a time, cut to milliseconds, that was between
// before and after on this process's clock.
func (s *bounds) add(engine, before, after time.Time) {
	// The engine's time was cut to a millisecond, so it may have been up to 1 ms later.
	low, high := engine.Sub(after), engine.Add(time.Millisecond).Sub(before)
	if !s.any {
		*s = bounds{low, high, true}
		return
	}
	s.low, s.high = max(s.low, low), min(s.high, high)
}

// offset returns 0 ± 0 if one clock explains all probes, or else the middle of the possible
// range. If probes contradict each other, because a clock was set, the error is at least their
// distance.
func (s *bounds) offset() clockOffset {
	if s.low <= 0 && 0 <= s.high {
		return clockOffset{}
	}
	return clockOffset{ahead: (s.low + s.high) / 2, either: (s.high - s.low).Abs() / 2}
}
