package outcome

import (
	"net/http"
	"slices"
	"time"

	"github.com/dulymq/duly"
)

// MaxReleases is the number of a job's deliveries that may end in release before
// a throttled try counts as a failed one.
const MaxReleases = 1000

// NoRetry is the header by which a receiver refuses a job for good.
const NoRetry = "duly-no-retry"

// Answer is what a receiver sent.
type Answer struct {
	Status int
	Header http.Header
	// Body is the part of the body that was read.
	Body []byte
}

// Try is one ended try.
type Try struct {
	// Answer is nil if none came. Failure then has the kind, and Reason may add
	// to it.
	Answer  *Answer
	Failure Failure
	Reason  string

	// Host is the destination's name, and its port if the URL has one.
	Host string
	Took time.Duration
	// Now is the wall time at which the try ended.
	Now time.Time

	// Named reports whether the destination is a registered target. Success and
	// Permanent are the target's statuses.
	Named              bool
	Success, Permanent []int
	// Retain reports whether the job keeps a result.
	Retain bool
	// Releases is the number of earlier deliveries that ended in release.
	Releases int
	// Private has texts that must not appear in the error text: the path and the
	// query of the URL, secrets, and the values of the target's headers.
	Private []string
}

// Health is how a host did.
type Health uint8

// The kinds of health.
const (
	// Unknown says nothing about the host.
	Unknown Health = iota
	// Good: the host works.
	Good
	// Bad: the host fails or is overloaded.
	Bad
)

// Decision is what a try means.
type Decision struct {
	// Rule is the rule of the contract that decided.
	Rule string
	// Status is that of the answer, and 0 without a valid answer.
	Status int
	// As, Delay, Error and Result are for the job's outcome. Delay is nil for
	// the backoff of a nack. A release without Delay waits until the gate opens.
	As     duly.Settlement
	Delay  *time.Duration
	Error  string
	Result []byte

	Health Health
	// Closes closes the gate: for CloseFor, or for its own time if that is nil.
	Closes   bool
	CloseFor *time.Duration
	// Disables disables the named target.
	Disables bool
}

// row is one row of the table. Its first matching one applies.
type row struct {
	rule     string
	matches  func(*Try) bool
	as       duly.Settlement
	waits    bool // for the Retry-After of the answer
	health   Health
	closes   bool
	disables bool
}

// rows is the table of C16.62 to C16.70.
var rows = []row{
	{rule: "C16.62", matches: success, as: duly.Ack, health: Good},
	{rule: "C16.63", matches: goneTarget, as: duly.Release, health: Good, disables: true},
	{rule: "C16.63", matches: status(http.StatusGone), as: duly.Bury, health: Good},
	{rule: "C16.64", matches: permanent, as: duly.Bury, health: Good},
	{rule: "C16.66", matches: throttledOut, as: duly.Nack, waits: true, health: Bad, closes: true},
	{rule: "C16.65", matches: throttled, as: duly.Release, waits: true, health: Bad, closes: true},
	{rule: "C16.67", matches: unavailable, as: duly.Nack, waits: true, health: Bad},
	{rule: "C16.68", matches: refused, as: duly.Nack, health: Good},
	{rule: "C16.70", matches: forbidden, as: duly.Bury},
	{rule: "C16.69", matches: func(*Try) bool { return true }, as: duly.Nack, health: Bad},
}

// Decide returns what a try means, by the first matching row of the table.
func Decide(t Try) Decision {
	i := slices.IndexFunc(rows, func(r row) bool { return r.matches(&t) })
	r := rows[i] // the last row matches every try
	d := Decision{Rule: r.rule, Status: t.code(), As: r.as, Health: r.health, Closes: r.closes, Disables: r.disables}

	// A wait of 0 must not replace the backoff or the closure: a receiver that
	// always says 0 would use up all tries of a job within seconds.
	if wait, _ := t.retryAfter(); wait > 0 && r.waits {
		d.Delay = &wait
		if r.closes {
			d.CloseFor = &wait
		}
	}
	switch {
	case d.As == duly.Ack && t.Retain:
		d.Result = t.Answer.Body[:min(len(t.Answer.Body), duly.MaxResult)]
	case d.As == duly.Nack || d.As == duly.Bury:
		d.Error = t.text()
	}
	return d
}

func (t *Try) retryAfter() (time.Duration, bool) {
	if t.Answer == nil {
		return 0, false
	}
	return RetryAfter(t.Answer.Header, t.Now)
}

// code returns the status of the answer, and 0 without an answer.
func (t *Try) code() int {
	if t.Answer == nil || t.Answer.Status < 200 || t.Answer.Status > 599 {
		return 0
	}
	return t.Answer.Status
}

func status(codes ...int) func(*Try) bool {
	return func(t *Try) bool { return slices.Contains(codes, t.code()) }
}

func success(t *Try) bool {
	return t.code()/100 == 2 || t.code() > 0 && slices.Contains(t.Success, t.code())
}

func goneTarget(t *Try) bool { return t.code() == http.StatusGone && t.Named }

func permanent(t *Try) bool {
	if t.code() == 0 {
		return false
	}
	no, ok := single(t.Answer.Header, NoRetry)
	return ok && no == "true" || slices.Contains(t.Permanent, t.code())
}

func throttled(t *Try) bool {
	if t.code() == http.StatusTooManyRequests {
		return true
	}
	_, ok := t.retryAfter()
	return ok && t.code() == http.StatusServiceUnavailable
}

func throttledOut(t *Try) bool { return throttled(t) && t.Releases >= MaxReleases }

func unavailable(t *Try) bool {
	return t.code()/100 == 5 || status(http.StatusRequestTimeout, http.StatusTooEarly)(t)
}

func refused(t *Try) bool { return t.code()/100 == 3 || t.code()/100 == 4 }

func forbidden(t *Try) bool { return t.Answer == nil && t.Failure == Forbidden }
