package store

import (
	"context"
	"strconv"
	"time"

	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/redisengine/internal/codec"
)

const (
	// Recheck is how often a process checks everything that it waits for. It bounds the delay
	// after a wake-up was lost, a connection has broken, or a process with a timer has ended.
	Recheck = 2 * time.Second
	// maxAhead bounds the time until a timer fires. A time.Duration has at most 292 years, and a tick
	// may be further ahead.
	maxAhead = 366 * 24 * time.Hour
	// longAhead and earlyShare say that a timer for a time more than longAhead ahead fires early, by
	// one part in earlyShare. The process then reads the server's clock again. So a request for each
	// shard comes rarely, and the two clocks may drift apart meanwhile.
	longAhead  = time.Minute
	earlyShare = 60
)

// Clock returns the time to pass to scripts, in microseconds. "" means the server's own clock.
func (e *Store) Clock() string {
	if e.Settings.Clock == nil {
		return ""
	}
	return strconv.FormatInt(e.Settings.Clock.Now().UnixMicro(), 10)
}

// Now returns the time of the engine's clock.
func (e *Store) Now(ctx context.Context) (time.Time, error) {
	if e.Settings.Clock != nil {
		return e.Settings.Clock.Now(), nil
	}
	msg, err := e.Link.Do(ctx, e.Link.B().Time().Build())
	if err != nil {
		return time.Time{}, err
	}
	t := codec.Elements(&msg)
	return time.Unix(codec.Integer(&t[0]), codec.Integer(&t[1])*int64(time.Microsecond)).UTC(), nil
}

// Local returns the clock of this process. It is for timers, never for a job's times.
func (e *Store) Local() clock.Clock {
	switch {
	case e.Settings.Clock != nil:
		return e.Settings.Clock
	case e.Settings.Wall != nil:
		return e.Settings.Wall
	}
	return clock.System()
}

// Reading is a server's clock as a reply reported it, with this process's clock before the
// request and after the reply.
type Reading struct {
	Now            int64         // in microseconds; some replies only have ms, rounded down
	Sent, Received time.Duration // on the monotonic clock
}

// maxLate bounds how much a timer is delayed because of the time that an answer was in flight.
const maxLate = time.Millisecond

// Milli returns the server's time in milliseconds, rounded down.
func (r Reading) Milli() int64 { return r.Now / 1000 }

// Until returns when, on this process's monotonic clock, a timer must fire for a time of a
// server's clock. The server's clock was read between request and reply, so the time also has two
// bounds. Until returns the later one, because a short delay costs less than a poll that comes
// too early. A slow reply delays the timer by at most maxLate. With a test's clock both clocks
// are the same.
//
// The timer for a distant time fires before that time. A step of the server's clock is noticed by
// the look every two seconds, and by the sweep.
func (e *Store) Until(at int64, r Reading) time.Duration {
	fires := r.Sent + time.Duration(min(at*1000-r.Now, maxAhead.Microseconds()))*time.Microsecond
	if e.Settings.Clock == nil {
		fires += min(r.Received-r.Sent, maxLate)
	}

	if ahead := fires - e.Local().Mono(); ahead > longAhead {
		fires -= min(ahead/earlyShare, ahead-longAhead)
	}
	return fires
}
