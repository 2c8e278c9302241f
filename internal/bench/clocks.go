package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/dulymq/duly"
)

// clockOffset is how far the engine's clock is ahead of ours, and by how much
// that may be wrong.
type clockOffset struct{ ahead, either time.Duration }

// probes is how often the clocks are compared.
const probes = 20

// compareClocks finds out the engine's clock offset by taking jobs that are
// ready: see the package's documentation.
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
		if len(got) == 1 { // else its clock has just stepped back
			seen.add(got[0].Now, before, after)
		}
	}
	b.offset, b.timed = seen.offset(), true

	return nil
}

// bounds are what the clocks' difference can be after what was seen.
type bounds struct {
	low, high time.Duration
	any       bool
}

// add takes one more sight: the engine named a moment, cut to milliseconds,
// that lay between before and after on our clock.
func (s *bounds) add(engine, before, after time.Time) {
	low, high := engine.Sub(after), engine.Add(time.Millisecond).Sub(before)
	if !s.any {
		*s = bounds{low, high, true}
		return
	}
	s.low, s.high = max(s.low, low), min(s.high, high)
}

// offset is 0 ± 0 where one clock explains everything, else the middle of what
// is possible. Sights that contradict each other (a clock stepped) are wrong
// by at least their distance.
func (s *bounds) offset() clockOffset {
	if s.low <= 0 && 0 <= s.high {
		return clockOffset{}
	}
	return clockOffset{ahead: (s.low + s.high) / 2, either: (s.high - s.low).Abs() / 2}
}
