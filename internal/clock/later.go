package clock

import "time"

// Later returns a clock that is c, except that its monotonic readings are later
// by d. Tests in a bubble need it: a bubble begins before the process did, so there
// the readings of [System] are below zero, which no process sees.
func Later(c Clock, d time.Duration) Clock { return laterClock{c, d} }

type laterClock struct {
	Clock
	by time.Duration
}

func (l laterClock) Mono() time.Duration { return l.Clock.Mono() + l.by }

func (l laterClock) At(mono time.Duration, f func()) Timer { return l.Clock.At(mono-l.by, f) }
