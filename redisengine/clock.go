package redisengine

import (
	"context"
	"strconv"
	"time"

	"github.com/dulymq/duly/internal/clock"
)

// The servers' clocks decide when anything happens to a job. This process's own
// is for timers, and for a guess at theirs that the scripts check.

// clock is what the scripts go by: "" is the server's own clock.
func (e *Engine) clock() string {
	if e.cfg.Clock == nil {
		return ""
	}
	return strconv.FormatInt(e.cfg.Clock.Now().UnixMicro(), 10)
}

// now asks for the engine's clock.
func (e *Engine) now(ctx context.Context) (time.Time, error) {
	if e.cfg.Clock != nil {
		return e.cfg.Clock.Now(), nil
	}
	msg, err := e.link.Do(ctx, e.link.B().Time().Build())
	if err != nil {
		return time.Time{}, err
	}
	t := elements(&msg)
	return time.Unix(integer(&t[0]), integer(&t[1])*int64(time.Microsecond)).UTC(), nil
}

// local is the clock of this process: for timers, never for a job's times.
func (e *Engine) local() clock.Clock {
	switch {
	case e.cfg.Clock != nil:
		return e.cfg.Clock
	case e.cfg.wall != nil:
		return e.cfg.wall
	}
	return clock.System()
}

// reading is a server's clock as a reply told it, with this process's clock
// from before it was asked and from when the reply had come.
type reading struct {
	now          int64         // microseconds; of some replies in whole ms, rounded down
	asked, heard time.Duration // monotonic
}

// mostLate bounds how much later than its moment a timer fires because the answer
// that told of it was on its way.
const mostLate = time.Millisecond

// ms is the clock in milliseconds, rounded down.
func (r reading) ms() int64 { return r.now / 1000 }

// until is when, on this process's monotonic clock, a timer fires for a moment
// of a server's clock. That was read between the question and the answer, so the
// moment lies between them, too: the later end costs less than a look that comes
// too early. But what passes on the way of an answer that is slow is not waited
// for again. A test's clock is the server's.
func (e *Engine) until(at int64, r reading) time.Duration {
	fires := r.asked + time.Duration(at*1000-r.now)*time.Microsecond
	if e.cfg.Clock == nil {
		fires += min(r.heard-r.asked, mostLate)
	}
	return min(fires, e.local().Mono()+longestSleep)
}
