// Package pace holds and measures rates.
package pace

import (
	"context"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

// Pace holds a rate.
type Pace struct {
	clock duly.Clock
	rate  float64 // jobs per second, 0 for no limit
	next  time.Duration
}

// New returns a pace of a rate in jobs per second, 0 for no limit. The first step may begin at once.
func New(c duly.Clock, rate float64) *Pace { return &Pace{clock: c, rate: rate, next: c.Mono()} }

// Step returns the largest number of jobs of one step: a quarter of a second has one step.
func (p *Pace) Step() int {
	if p.rate == 0 {
		return duly.MaxBatch
	}
	return min(max(1, int(p.rate/4)), duly.MaxBatch)
}

// Wait waits until the next step may begin, and takes the time of n jobs.
func (p *Pace) Wait(ctx context.Context, n int) error {
	if err := ctx.Err(); err != nil || p.rate == 0 {
		return err
	}
	// After slow calls the rate catches up, but at most for a second.
	now := p.clock.Mono()
	p.next = max(p.next, now-time.Second)
	if p.next > now {
		if err := clock.Sleep(ctx, p.clock, p.next-now); err != nil {
			return err
		}
	}
	p.next += time.Duration(float64(n) / p.rate * float64(time.Second))
	return nil
}

// Meter measures the rate of the last seconds.
type Meter struct {
	marks [meterMarks]mark // a ring, one mark per second
	n     int
}

const meterMarks = 10

type mark struct {
	at    time.Duration
	taken int64
}

// Note notes the number of jobs so far. It returns the rate, and whether it is a new one.
func (m *Meter) Note(at time.Duration, taken int64) (rate float64, ok bool) {
	if m.n > 0 && at-m.marks[(m.n-1)%meterMarks].at < time.Second {
		return 0, false
	}
	m.marks[m.n%meterMarks] = mark{at, taken}
	m.n++
	oldest := m.marks[0]
	if m.n > meterMarks {
		oldest = m.marks[m.n%meterMarks]
	}
	if at == oldest.at {
		return 0, false
	}
	return float64(taken-oldest.taken) / (at - oldest.at).Seconds(), true
}
