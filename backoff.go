package duly

import (
	"strings"
	"time"
)

// Backoff says when a failed job is tried again. It is its own text form, the
// same in code, configuration and API:
//
//	fixed:5s                 always 5 s; fixed:0s is at once
//	exp:1s:1h                1 s, doubling, at most 1 h, ±10 %
//	15s,3m,10m,30m,1h        a staircase; its last step repeats
//
// Every delay is between 0 and [MaxBackoffDelay] in whole milliseconds. The
// zero Backoff means the queue's default.
type Backoff string

// Fixed waits d after every failure.
func Fixed(d time.Duration) Backoff { return Backoff("fixed:" + FormatDuration(d)) }

// Exponential waits first after the first failure, twice as long after each
// further one, and never more than most, ±10 %. The cap comes before the
// jitter.
func Exponential(first, most time.Duration) Backoff {
	return Backoff("exp:" + FormatDuration(first) + ":" + FormatDuration(most))
}

// Staircase waits steps[n−1] after failure n; the last step repeats.
func Staircase(steps ...time.Duration) Backoff {
	texts := make([]string, len(steps))
	for i, d := range steps {
		texts[i] = FormatDuration(d)
	}
	return Backoff(strings.Join(texts, ","))
}
