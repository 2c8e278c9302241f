package contract

import (
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dulymq/duly"
)

// ValidateBackoff returns [duly.ErrInvalid] if the text is not a policy. The zero Backoff is
// valid.
func ValidateBackoff(b duly.Backoff) error {
	if b == "" {
		return nil
	}
	_, err := parseBackoff(b)
	return err
}

// BackoffDelay returns how long the job with this ID waits after failure n, in whole
// milliseconds. The first failure is 1. The jitter of exp is a fixed function of ID and n, so
// that all engines agree: the first eight hexadecimal digits of SHA-1(ID ":" n), as a number
// mod 201, are the thousandths added to 0.900. For a string that is not a policy it is the delay
// of [duly.DefaultBackoff].
func BackoffDelay(b duly.Backoff, id string, n int) time.Duration {
	if b == "" {
		b = duly.DefaultBackoff
	}
	// Stored policies are valid. If one is not valid, the job must still wait.
	p, err := parseBackoff(b)
	if err != nil {
		p, _ = parseBackoff(duly.DefaultBackoff)
	}

	n = max(n, 1)
	if !p.doubling {
		return p.steps[min(n, len(p.steps))-1]
	}
	ms := exponential(p.steps[0].Milliseconds(), p.steps[1].Milliseconds(), n)
	return time.Duration(jitter(ms, id, n)) * time.Millisecond
}

// exponential returns the delay after failure n, in ms, before its jitter.
func exponential(first, most int64, n int) int64 {
	ms := first
	for i := 1; i < n && ms < most; i++ {
		ms *= 2 // the product cannot overflow, because both factors are below 2^35
	}
	return min(ms, most)
}

// jitter uses integers below 2^53, which the doubles of a script represent exactly.
func jitter(ms int64, id string, n int) int64 {
	sum := sha1.Sum([]byte(id + ":" + strconv.Itoa(n)))
	k := int64(binary.BigEndian.Uint32(sum[:4]) % 201)
	return ms * (900 + k) / 1000
}

// policy is a parsed Backoff.
type policy struct {
	steps    []time.Duration // delays; for a doubling policy, the first delay and the cap
	doubling bool
}

func parseBackoff(b duly.Backoff) (policy, error) {
	text := string(b)
	switch {
	case strings.HasPrefix(text, "fixed:"):
		steps, err := backoffSteps(text[len("fixed:"):], ",", 1, 1)
		return policy{steps: steps}, err
	case strings.HasPrefix(text, "exp:"):
		steps, err := backoffSteps(text[len("exp:"):], ":", 2, 2)
		// A first delay of 0 would stay 0 when it is doubled.
		if err == nil && (steps[0] <= 0 || steps[1] < steps[0]) {
			err = Invalid("backoff", "%s: the first delay must be at least 1ms and at most the cap", Quoted(text))
		}
		return policy{steps: steps, doubling: true}, err
	}
	steps, err := backoffSteps(text, ",", 1, duly.MaxBackoffSteps)
	return policy{steps: steps}, err
}

// backoffForms has an example of each kind of policy. Each delay has a unit.
const backoffForms = "fixed:5s, exp:1s:1h or steps like 15s,3m,10m"

// wrongCount returns the problem with the number of delays of a policy.
func wrongCount(text, sep string) string {
	switch {
	case sep == ":":
		return Quoted("exp:"+text) + " needs two delays, the first and the longest, like exp:1s:1h"
	case strings.Count(text, sep) >= duly.MaxBackoffSteps:
		return fmt.Sprintf("has %d steps, may have at most %d", strings.Count(text, sep)+1, duly.MaxBackoffSteps)
	}
	return Quoted("fixed:"+text) + " needs one delay, like fixed:5s"
}

// backoffSteps parses between least and most delays.
func backoffSteps(text, sep string, least, most int) ([]time.Duration, error) {
	// The count is checked first, so that a long text is not split.
	n := strings.Count(text, sep) + 1
	if n < least || n > most {
		return nil, Invalid("backoff", "%s", wrongCount(text, sep))
	}

	steps := make([]time.Duration, 0, n)
	for part := range strings.SplitSeq(text, sep) {
		d, err := duly.ParseDuration(part)
		if err != nil {
			return nil, Invalid("backoff", "%s is not a delay; write "+backoffForms, Quoted(part))
		}
		if d < 0 || d > duly.MaxBackoffDelay || d%time.Millisecond != 0 {
			return nil, Invalid("backoff", "%s must be between 0s and %s in whole milliseconds",
				Quoted(part), duly.FormatDuration(duly.MaxBackoffDelay))
		}
		steps = append(steps, d)
	}
	return steps, nil
}
