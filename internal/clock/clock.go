package clock

import (
	"context"
	"time"

	"github.com/dulymq/duly"
)

// Clock is the root package's, which tests of users implement.
type Clock = duly.Clock

// Timer is the root package's.
type Timer = duly.Timer

// ChanTimer is the root package's.
type ChanTimer = duly.ChanTimer

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

// System returns the machine's clock.
func System() Clock { return duly.SystemClock() }

// Monotonic returns a reading of a clock that never steps, for measuring how
// long something took. Only differences mean anything.
func Monotonic() time.Duration { return duly.SystemClock().Mono() }

// Deadline returns the time at which Monotonic reads mono, for calls that take
// deadlines as times. It has a monotonic reading, so a step of the wall clock does
// not move it.
func Deadline(mono time.Duration) time.Time { return time.Now().Add(mono - Monotonic()) }

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
