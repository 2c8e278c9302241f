package duly

import (
	"strings"
	"time"
)

// Backoff is a retry policy: how long a job waits after each failure. It is a string, the
// same in code, configuration and API:
//
//	fixed:5s                 always 5 s; fixed:0s is at once
//	exp:1s:1h                1 s, doubling, at most 1 h, ±10 %
//	15s,3m,10m,30m,1h        a staircase, whose last step repeats
//
// Every delay is between 0 and [MaxBackoffDelay], in whole milliseconds. The zero Backoff
// means the queue's default.
type Backoff string

// Fixed returns a policy that waits for d after every failure.
func Fixed(d time.Duration) Backoff { return Backoff("fixed:" + FormatDuration(d)) }

// Exponential returns a policy that waits for `first` after the first failure, and twice as long
// after each further failure, but at most for `most`. Then a jitter of ±10 % is added.
func Exponential(first, most time.Duration) Backoff {
	return Backoff("exp:" + FormatDuration(first) + ":" + FormatDuration(most))
}

// Staircase returns a policy that waits for steps[n−1] after failure n. The last step repeats.
func Staircase(steps ...time.Duration) Backoff {
	texts := make([]string, len(steps))
	for i, d := range steps {
		texts[i] = FormatDuration(d)
	}
	return Backoff(strings.Join(texts, ","))
}
