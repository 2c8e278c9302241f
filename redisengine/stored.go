package redisengine

import (
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

// stored is a job as the scripts hand it out, read.
type stored struct {
	duly.Planned
	number           duly.Number
	ownID            string // as the rules have it; "" where the ID is the number
	ended            uint64
	failures, stalls int
	lastError        string
	result           string
	size             int // of its body, as the record or the rules have it
}

// damagedJob is the error for a job that nothing can be made of.
func damagedJob(ref duly.QueueRef, number string) error {
	return duly.Errorf(duly.CodeCorrupt, "the stored job %s of queue %s can't be read: it is damaged; run duly check --repair", numberText(number), ref)
}

// read puts a job together from the three hashes that it stands in.
func (s *stored) read(ref duly.QueueRef, number, record, rules, run string) error {
	pushed, due, headers, body, ok := readRecord(record)
	if len(number) != len(s.number) || !ok {
		return damagedJob(ref, number)
	}
	copy(s.number[:], number)
	plainJob(&s.Job, ref)
	s.PushedAt, s.DueAt, s.Headers, s.Body, s.size = pushed, due, headers, []byte(body), len(body)
	if rules != "" && !s.readRules(rules) || run != "" && !s.readRun(run) {
		return damagedJob(ref, number)
	}
	if s.ID = s.ownID; s.ID == "" {
		s.ID = s.number.String()
	}
	return nil
}

// whole tells whether the body is there. One that stands beside the record may
// be lost, or cut, without it.
func (s *stored) whole() bool { return len(s.Body) == s.size }

// readRecord takes a record apart.
func readRecord(record string) (pushed, due int64, headers map[string]string, body string, ok bool) {
	if len(record) < moments+2 {
		return 0, 0, nil, "", false
	}
	u := unpacker{rest: record}
	pushed, due = int64(u.number(6)), int64(u.number(6))
	headers, ok = unpackHeaders(strings.Clone(u.take(int(u.number(2))))) // many records may share one text
	return pushed, due, headers, u.rest, ok && !u.bad
}

// plainJob gives a job what a plain one has.
func plainJob(j *duly.Job, ref duly.QueueRef) {
	j.Namespace, j.Queue = ref.Namespace, ref.Name
	j.Tries, j.MaxStalls, j.Backoff = duly.DefaultTries, duly.DefaultMaxStalls, duly.DefaultBackoff
	j.Lease, j.TTL, j.Retain = duly.DefaultLease, duly.None, duly.None
}

func (s *stored) readRules(text string) bool {
	u := unpacker{rest: text}
	if u.array() != 18 {
		return false
	}
	s.PushedAt, s.DueAt = u.integer(), u.integer()
	s.Priority, s.Tries, s.MaxStalls = int(u.integer()), int(u.integer()), int(u.integer())
	u.integer() // the lease in µs
	s.ExpiresAt = u.integer()
	u.integer() // Retain in ms
	u.text()    // the backoff's short form
	s.OrderKey, s.MergeKey = u.text(), u.text()
	s.Merge.Mode, s.Merge.Until = duly.MergeMode(u.text()), duly.MergeUntil(u.text())
	u.integer() // MaxWait in ms
	s.ownID = u.text()
	s.TTL = unpackTTL(u.text())
	rest := unpacker{rest: u.text()}
	if size := int(u.integer()); size > 0 {
		s.size = size
	}
	if rest.rest == "" { // of a job that was plain
		return !u.bad
	}
	if rest.array() != 5 {
		return false
	}
	s.Backoff = duly.Backoff(rest.text())
	s.Lease, s.Retain = time.Duration(rest.integer()), time.Duration(rest.integer())
	s.Merge.Key = rest.text()
	s.Merge.MaxWait = time.Duration(rest.integer())
	return !u.bad && !rest.bad
}

func (s *stored) readRun(text string) bool {
	u := unpacker{rest: text}
	s.PushedAt, s.DueAt = int64(u.number(6)), int64(u.number(6))
	s.ended = u.number(6)
	s.failures, s.stalls = int(u.number(4)), int(u.number(4))
	if u.rest != "" {
		s.lastError = u.take(int(u.number(2)))
		s.result = u.rest
	}
	return !u.bad
}

// public is the job as it is told: defaults filled in, its due moment.
func (s *stored) public() duly.Job {
	j := s.Job
	j.Due = clock.FromMilli(s.DueAt)
	return j
}

// deliver fills in what a delivery says of the job.
func (s *stored) deliver(d *duly.Delivery) {
	d.Job = s.public()
	d.Attempt, d.Failures, d.Stalls = s.Attempt(s.failures, s.stalls), s.failures, s.stalls
	d.PushedAt, d.ExpiresAt = clock.FromMilli(s.PushedAt), clock.FromMilli(s.ExpiresAt)
}

// info is the job as get, peek and list answer it.
func (s *stored) info(state duly.State, at int64, body bool) duly.JobInfo {
	info := duly.JobInfo{
		Job: s.public(), State: state, Size: s.size, Attempt: s.AttemptIn(state, s.failures, s.stalls), Failures: s.failures, Stalls: s.stalls,
		PushedAt: clock.FromMilli(s.PushedAt), ExpiresAt: clock.FromMilli(s.ExpiresAt), LastError: s.lastError,
	}
	switch state {
	case duly.StateLeased:
		info.LeaseEnd = clock.FromMilli(at)
	case duly.StateDead, duly.StateDone:
		info.FinishedAt = clock.FromMilli(at)
	}
	if !body {
		info.Body = nil
		return info
	}
	if s.result != "" {
		info.Result = []byte(s.result)
	}
	return info
}
