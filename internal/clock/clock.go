package clock

import (
	"context"
	"time"

	"github.com/dulymq/duly"
)

// Clock is the Clock of the root package, which users may implement for their tests.
type Clock = duly.Clock

// Timer is the Timer of the root package.
type Timer = duly.Timer

// ChanTimer is the ChanTimer of the root package.
type ChanTimer = duly.ChanTimer

// Sleep waits until d has passed on the clock. If ctx ends first, Sleep returns its error.
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

// System returns the machine's clock.
func System() Clock { return duly.SystemClock() }

// Monotonic returns a reading of a clock that never steps, for measuring durations. Only the
// difference of two readings has a meaning.
func Monotonic() time.Duration { return duly.SystemClock().Mono() }

// Deadline returns the time at which Monotonic reads mono, for calls that take deadlines as
// times. The result has a monotonic reading, so a step of the wall clock doesn't affect it.
func Deadline(mono time.Duration) time.Time { return time.Now().Add(mono - Monotonic()) }

// Milli returns t in whole milliseconds since 1970, rounded down. Engines use it for the current
// time.
func Milli(t time.Time) int64 { return t.UnixMilli() }

// CeilMilli returns t in milliseconds since 1970, rounded up. Engines use it for times before
// which a job must not run.
func CeilMilli(t time.Time) int64 {
	ms := t.UnixMilli()
	if t.Nanosecond()%int(time.Millisecond) != 0 {
		ms++
	}
	return ms
}

// FromMilli returns the time ms milliseconds after 1970 in UTC. For 0 it returns the zero time,
// which means that there is no time.
func FromMilli(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// Millis returns d in whole milliseconds, rounded up, so that no delay gets shorter.
func Millis(d time.Duration) int64 {
	ms := int64(d / time.Millisecond)
	if d > 0 && d%time.Millisecond != 0 {
		ms++
	}
	return ms
}
