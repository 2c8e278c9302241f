package worker

import (
	"math"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

const (
	// decreaseFactor multiplies the limit after an overload.
	decreaseFactor = 0.9
	// meanShare is the part of its difference by which a duration moves the mean.
	meanShare = 0.1
)

// AIMD returns a Limiter that follows the capacity of a service by additive increase and
// multiplicative decrease. The limit begins at lowest, and stays between lowest and highest.
//
// An ack adds 1 ÷ limit, so a full round of acks raises the limit by about 1. An ack counts only if
// at least half of the limit is in use, because without load the acks say nothing about the
// capacity. An overload ([Overloaded]) or a nack multiplies the limit by 0.9, at most once per mean
// duration of the handlers, because the handlers of one round notice the same overload. Other
// results change nothing.
//
// Several workers of a process may share an AIMD. Each worker may then use as many slots as the
// common limit says.
func AIMD(lowest, highest int) Limiter {
	return &aimd{lowest: lowest, highest: highest, limit: float64(lowest)}
}

// aimd implements AIMD.
type aimd struct {
	lowest, highest int

	mu    sync.Mutex
	limit float64
	// mean is the mean duration of handlers that returned nil. Overloads do not count,
	// because many services refuse a call immediately.
	mean        float64 // mean duration of the handlers in ns; 0 until the first ack
	decreasedAt time.Time
}

// validate adds the faults of the bounds.
func (l *aimd) validate(f *contract.BadFields) {
	if l.lowest < 1 || l.lowest > l.highest || l.highest > MaxConcurrency {
		f.Add("limiter", "has the bounds %d and %d, must have 1 ≤ lowest ≤ highest ≤ %d",
			l.lowest, l.highest, MaxConcurrency)
	}
}

// Limit implements Limiter.
func (l *aimd) Limit() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int(l.limit)
}

// Done implements Limiter.
func (l *aimd) Done(f Finished) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case f.Overload || f.As == duly.Nack:
		l.decrease(f.At)
	case f.As == duly.Ack:
		l.observe(f.Took)
		if 2*f.Running >= int(l.limit) {
			l.limit = min(l.limit+1/l.limit, float64(l.highest))
		}
	}
}

// decrease lowers the limit, unless it was lowered within the last mean duration. A clock
// that was set back permits a decrease.
func (l *aimd) decrease(now time.Time) {
	since := now.Sub(l.decreasedAt)
	if since >= 0 && float64(since) < l.mean {
		return
	}
	l.limit = max(l.limit*decreaseFactor, float64(l.lowest))
	l.decreasedAt = now
}

// observe adds a duration to the mean.
func (l *aimd) observe(took time.Duration) {
	if l.mean == 0 {
		l.mean = math.Max(float64(took), 1)
		return
	}
	l.mean += meanShare * (float64(took) - l.mean)
}
