package clock

import "time"

// Later returns the clock c with monotonic readings that are later by d. Tests in a synctest bubble
// need it: a bubble's time begins before the process started, so there the readings of [System] are
// negative, which never happens outside tests.
func Later(c Clock, d time.Duration) Clock { return laterClock{c, d} }

type laterClock struct {
	Clock
	by time.Duration
}

func (l laterClock) Mono() time.Duration { return l.Clock.Mono() + l.by }

func (l laterClock) At(mono time.Duration, f func()) Timer { return l.Clock.At(mono-l.by, f) }
