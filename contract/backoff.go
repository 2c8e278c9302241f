package contract

import (
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dulymq/duly"
)

// ValidateBackoff reports [duly.ErrInvalid] if the text is no policy. The zero Backoff is
// one.
func ValidateBackoff(b duly.Backoff) error {
	if b == "" {
		return nil
	}
	_, err := parseBackoff(b)
	return err
}

// BackoffDelay is how long the job with that ID waits after its failure n (1 for the
// first), in whole milliseconds. The jitter of exp is a fixed function of ID
// and n, so that every engine gives the same: the first eight hexadecimal
// digits of SHA-1(ID ":" n), as a number mod 201, are the thousandths added to
// 0.900. A text that is no policy waits as [duly.DefaultBackoff] does.
func BackoffDelay(b duly.Backoff, id string, n int) time.Duration {
	if b == "" {
		b = duly.DefaultBackoff
	}
	p, err := parseBackoff(b)
	if err != nil {
		p, _ = parseBackoff(duly.DefaultBackoff)
	}
	if n < 1 {
		n = 1
	}
	if !p.doubling {
		return p.steps[min(n, len(p.steps))-1]
	}
	ms := exponential(p.steps[0].Milliseconds(), p.steps[1].Milliseconds(), n)
	return time.Duration(jitter(ms, id, n)) * time.Millisecond
}

func exponential(first, most int64, n int) int64 {
	ms := first
	for i := 1; i < n && ms < most; i++ {
		ms *= 2 // both are below 2^35, so this can't overflow
	}
	return min(ms, most)
}

// jitter keeps to integers below 2^53, which a script's doubles carry exactly.
func jitter(ms int64, id string, n int) int64 {
	sum := sha1.Sum([]byte(id + ":" + strconv.Itoa(n)))
	k := int64(binary.BigEndian.Uint32(sum[:4]) % 201)
	return ms * (900 + k) / 1000
}

type policy struct {
	steps    []time.Duration // doubling: first and cap
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
		if err == nil && (steps[0] <= 0 || steps[1] < steps[0]) {
			err = Invalid("backoff", "%s: the first delay must be at least 1ms and at most the cap", Quoted(text))
		}
		return policy{steps: steps, doubling: true}, err
	}
	steps, err := backoffSteps(text, ",", 1, duly.MaxBackoffSteps)
	return policy{steps: steps}, err
}

// backoffForms shows every kind of policy. Each delay has its unit.
const backoffForms = "fixed:5s, exp:1s:1h or steps like 15s,3m,10m"

// wrongCount says what is wrong with the number of delays behind a policy's
// name.
func wrongCount(text, sep string) string {
	switch {
	case sep == ":":
		return Quoted("exp:"+text) + " needs two delays, the first and the longest, like exp:1s:1h"
	case strings.Count(text, sep) >= duly.MaxBackoffSteps:
		return fmt.Sprintf("has %d steps, may have at most %d", strings.Count(text, sep)+1, duly.MaxBackoffSteps)
	}
	return Quoted("fixed:"+text) + " needs one delay, like fixed:5s"
}

func backoffSteps(text, sep string, least, most int) ([]time.Duration, error) {
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
			return nil, Invalid("backoff", "%s must be between 0s and %s in whole milliseconds", Quoted(part), duly.FormatDuration(duly.MaxBackoffDelay))
		}
		steps = append(steps, d)
	}
	return steps, nil
}

// Attempt is the number of the running or the next delivery: failures + 1, and
// with MaxStalls None the stalls as well.
func Attempt(j *duly.Job, failures, stalls int) int {
	if j.MaxStalls == duly.None {
		return failures + stalls + 1
	}
	return failures + 1
}

// AttemptIn returns the attempt of a job in that state. A dead job has no next
// delivery, so its attempt is the last one.
func AttemptIn(j *duly.Job, state duly.State, failures, stalls int) int {
	if state == duly.StateDead {
		return min(Attempt(j, failures, stalls), j.Tries)
	}
	return Attempt(j, failures, stalls)
}

// Exhausted tells whether that many failures and stalls leave the job dead.
func Exhausted(j *duly.Job, failures, stalls int) bool {
	if j.MaxStalls == duly.None {
		return failures+stalls >= j.Tries
	}
	return failures >= j.Tries || stalls > j.MaxStalls
}

// suspectStalls is the number of stalls that makes every job a suspect.
const suspectStalls = 2

// Suspect reports whether the job is reserved alone, because it may be the one
// that ends its workers: it has stalled twice, or once and its next stall leaves
// it dead. So no job dies of a stall that another job of its Reserve has caused.
func Suspect(j *duly.Job, failures, stalls int) bool {
	return stalls >= suspectStalls || stalls > 0 && Exhausted(j, failures, stalls+1)
}

// StallReason is the last error of a job that died of its stalls.
func StallReason(stalls int) string {
	return fmt.Sprintf("the lease ran out %d times", stalls)
}

// CutError is an error text as it is kept: valid UTF-8 without NUL, of at most
// [duly.MaxErrorText] bytes.
func CutError(text string) string {
	if len(text) > duly.MaxErrorText {
		text = text[:duly.MaxErrorText]
		for i := 0; i < utf8.UTFMax && len(text) > 0; i++ { // a rune cut in two goes
			if r, n := utf8.DecodeLastRuneInString(text); r != utf8.RuneError || n != 1 {
				break
			}
			text = text[:len(text)-1]
		}
	}
	text = strings.ToValidUTF8(text, "?")
	return strings.ReplaceAll(text, "\x00", "?")
}
