package clock

import (
	"context"
	"time"
)

// Clock tells the time and sets timers. It is safe for concurrent use.
type Clock interface {
	// Now is the wall time in UTC. Only differences to other readings of the
	// same clock mean anything, and they may be negative.
	Now() time.Time
	// Mono is a reading of monotonic time, which timers run on: it never
	// steps, so it tells how long something has lasted. Only differences to
	// other readings of the same clock mean anything.
	Mono() time.Duration
	// AfterFunc calls f once d has passed, on a goroutine of its own in
	// production and inside Advance on a Fake. f must not block.
	AfterFunc(d time.Duration, f func()) Timer
	// At calls f as AfterFunc does, once Mono has reached mono. What passes
	// between the reckoning of a moment and this call makes it no later.
	At(mono time.Duration, f func()) Timer
	// NewTimer sends on the timer's channel once d has passed.
	NewTimer(d time.Duration) *ChanTimer
}

// Timer is a pending call.
type Timer interface {
	// Stop prevents the call; false means that it has already begun or was
	// stopped before.
	Stop() bool
	// Reset sets the timer anew to fire after d, whatever state it was in.
	Reset(d time.Duration)
}

// ChanTimer delivers the moment on C, which holds one value.
type ChanTimer struct {
	C <-chan time.Time
	Timer
}

// Sleep waits for d by a clock, or until ctx has ended, whose error it answers.
func Sleep(ctx context.Context, c Clock, d time.Duration) error {
	t := c.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// System is the machine's own clock.
func System() Clock { return systemClock{} }

type systemClock struct{}

// Now drops the monotonic reading: a due moment is a wall moment, and a
// subtraction must show a step of the wall instead of hiding it.
func (systemClock) Now() time.Time { return time.Now().UTC().Round(0) }

func (systemClock) Mono() time.Duration { return Monotonic() }

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

// Monotonic returns a reading of a clock that never steps, for measuring how
// long something took. Only differences mean anything.
func Monotonic() time.Duration { return time.Since(start) }

// Deadline is the moment at which Monotonic reads mono, for who takes deadlines
// as moments. It has a monotonic reading, so a step of the wall does not move it.
func Deadline(mono time.Duration) time.Time { return start.Add(mono) }

var start = time.Now()

// Milli is t in whole milliseconds since 1970, rounded down: what an engine
// calls now.
func Milli(t time.Time) int64 { return t.UnixMilli() }

// CeilMilli is t in milliseconds since 1970, rounded up: what an engine calls
// a moment that must not come early.
func CeilMilli(t time.Time) int64 {
	ms := t.UnixMilli()
	if t.Nanosecond()%int(time.Millisecond) != 0 {
		ms++
	}
	return ms
}

// FromMilli is the moment ms milliseconds after 1970 in UTC; 0 is the zero
// time, which stands for no moment at all.
func FromMilli(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// Millis is d in whole milliseconds, rounded up, so that no delay is cut
// short.
func Millis(d time.Duration) int64 {
	ms := int64(d / time.Millisecond)
	if d > 0 && d%time.Millisecond != 0 {
		ms++
	}
	return ms
}
