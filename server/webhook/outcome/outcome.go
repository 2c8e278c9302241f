package outcome

import (
	"net/http"
	"slices"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// MaxReleases is the number of deliveries of a job that may end in release. After that many, a
// throttled try counts as failed.
const MaxReleases = contract.MaxReleases

// NoRetry is the header with which a receiver asks for no more tries of a job.
const NoRetry = "duly-no-retry"

// Answer is the answer of a receiver.
type Answer struct {
	Status int
	Header http.Header
	// Body is the part of the answer's body that was read.
	Body []byte
}

// Try is a try that has ended.
type Try struct {
	// Answer is nil if there was no answer. In that case Failure has the kind of the failure, and
	// Reason may have more details.
	Answer  *Answer
	Failure Failure
	Reason  string

	// Host is the name of the destination's host, and its port if the URL has one.
	Host string
	Took time.Duration
	// Now is the wall time at which the try ended.
	Now time.Time

	// Named is true for a registered target. Success and Permanent are the target's
	// statuses.
	Named              bool
	Success, Permanent []int
	// Retain is true if the job keeps its result.
	Retain bool
	// Releases is the number of earlier deliveries that ended in release.
	Releases int
	// Private has texts that Decide removes from the error text: the path and the query of the URL,
	// secrets, and the values of the target's headers.
	Private []string
}

// Health is the health of a host in one try.
type Health uint8

// The values of Health.
const (
	// Unknown means that the try says nothing about the host.
	Unknown Health = iota
	// Good: the host works.
	Good
	// Bad: the host fails or is overloaded.
	Bad
)

// Decision is the consequence of a try.
type Decision struct {
	// Rule is the rule of the contract that decided.
	Rule string
	// Status is the status of the answer; 0 without a valid answer.
	Status int
	// As, Delay, Error and Result settle the job. A nack without Delay has the job's
	// backoff. A release without Delay waits until the gate opens.
	As     duly.Settlement
	Delay  *time.Duration
	Error  string
	Result []byte

	Health Health
	// Closes closes the gate for CloseFor; nil: for the gate's next closure.
	Closes   bool
	CloseFor *time.Duration
	// Disables disables the named target.
	Disables bool
}

// row is one row of the table. The first matching row applies.
type row struct {
	rule     string
	matches  func(*Try) bool
	as       duly.Settlement
	waits    bool // whether the Retry-After of the answer sets Delay
	health   Health
	closes   bool
	disables bool
}

// rows is the table of C16.62 to C16.70.
var rows = []row{
	{rule: "C16.62", matches: success, as: duly.Ack, health: Good},
	{rule: "C16.63", matches: goneTarget, as: duly.Release, health: Good, disables: true},
	{rule: "C16.63", matches: hasStatus(http.StatusGone), as: duly.Bury, health: Good},
	{rule: "C16.64", matches: permanent, as: duly.Bury, health: Good},
	{rule: "C16.66", matches: throttledOut, as: duly.Nack, waits: true, health: Bad, closes: true},
	{rule: "C16.65", matches: throttled, as: duly.Release, waits: true, health: Bad, closes: true},
	{rule: "C16.67", matches: unavailable, as: duly.Nack, waits: true, health: Bad},
	{rule: "C16.68", matches: refused, as: duly.Nack, health: Good},
	{rule: "C16.70", matches: forbidden, as: duly.Bury},
	{rule: "C16.69", matches: func(*Try) bool { return true }, as: duly.Nack, health: Bad},
}

// Decide returns the decision of the first matching row.
func Decide(t Try) Decision {
	i := slices.IndexFunc(rows, func(r row) bool { return r.matches(&t) })
	r := rows[i] // always found, because the last row matches every try
	d := Decision{Rule: r.rule, Status: t.status(), As: r.as, Health: r.health, Closes: r.closes, Disables: r.disables}

	// A wait of 0 must not replace the backoff or the closure: a receiver that always
	// sends 0 would use all tries of a job within seconds.
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

// status returns the status of the answer, or 0 without a valid answer.
func (t *Try) status() int {
	if t.Answer == nil || t.Answer.Status < 200 || t.Answer.Status > 599 {
		return 0
	}
	return t.Answer.Status
}

func hasStatus(codes ...int) func(*Try) bool {
	return func(t *Try) bool { return slices.Contains(codes, t.status()) }
}

func success(t *Try) bool {
	return t.status()/100 == 2 || t.status() > 0 && slices.Contains(t.Success, t.status())
}

func goneTarget(t *Try) bool { return t.status() == http.StatusGone && t.Named }

func permanent(t *Try) bool {
	if t.status() == 0 {
		return false
	}
	no, ok := single(t.Answer.Header, NoRetry)
	return ok && no == "true" || slices.Contains(t.Permanent, t.status())
}

func throttled(t *Try) bool {
	if t.status() == http.StatusTooManyRequests {
		return true
	}
	_, ok := t.retryAfter()
	// A 503 without Retry-After is a fault of the receiver and uses a try. With Retry-After, it is
	// a request to wait.
	return ok && t.status() == http.StatusServiceUnavailable
}

func throttledOut(t *Try) bool { return throttled(t) && t.Releases >= MaxReleases }

func unavailable(t *Try) bool {
	return t.status()/100 == 5 || hasStatus(http.StatusRequestTimeout, http.StatusTooEarly)(t)
}

func refused(t *Try) bool { return t.status()/100 == 3 || t.status()/100 == 4 }

func forbidden(t *Try) bool { return t.Answer == nil && t.Failure == Forbidden }
