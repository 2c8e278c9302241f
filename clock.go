package duly

import (
	"context"
	"time"
)

// Clock reads the time and sets timers. It is safe for concurrent use. Programs use the
// system's clock, which is the default everywhere. Tests use the clock of package dulytest.
type Clock interface {
	// Now returns the wall time in UTC. It may jump when the machine's time is set.
	Now() time.Time
	// Mono returns a reading of monotonic time, on which timers run. Monotonic time never jumps.
	// Only the difference between two readings of the same clock has a meaning.
	Mono() time.Duration
	// AfterFunc calls f after d. f must not block.
	AfterFunc(d time.Duration, f func()) Timer
	// At calls f when Mono reaches the reading mono. f must not block.
	At(mono time.Duration, f func()) Timer
	// NewTimer returns a timer that sends on its channel after d.
	NewTimer(d time.Duration) *ChanTimer
}

// Timer is a pending call.
type Timer interface {
	// Stop prevents the call. It returns false if the call has begun or the timer was
	// stopped before.
	Stop() bool
	// Reset makes the timer fire after d, whether it was running, stopped or had fired.
	Reset(d time.Duration)
}

// ChanTimer sends the time on C, which holds one value.
type ChanTimer struct {
	C <-chan time.Time
	Timer
}

// SystemClock returns the machine's clock.
func SystemClock() Clock { return systemClock{} }

type systemClock struct{}

// processStart is the origin of the monotonic readings.
var processStart = time.Now()

// Now drops the monotonic reading: a due time is a wall time, and a subtraction must show
// a step of the wall clock.
func (systemClock) Now() time.Time { return time.Now().UTC().Round(0) }

func (systemClock) Mono() time.Duration { return time.Since(processStart) }

func (systemClock) AfterFunc(d time.Duration, f func()) Timer {
	return systemTimer{time.AfterFunc(d, f)}
}

func (c systemClock) At(mono time.Duration, f func()) Timer {
	return c.AfterFunc(mono-c.Mono(), f)
}

func (systemClock) NewTimer(d time.Duration) *ChanTimer {
	t := time.NewTimer(d)
	return &ChanTimer{C: t.C, Timer: systemTimer{t}}
}

type systemTimer struct{ t *time.Timer }

func (s systemTimer) Stop() bool            { return s.t.Stop() }
func (s systemTimer) Reset(d time.Duration) { s.t.Reset(d) }

// sleep waits for d. It returns the error of ctx if that ends first.
func sleep(ctx context.Context, c Clock, d time.Duration) error {
	t := c.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
