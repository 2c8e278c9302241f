package redisengine

import (
	"strings"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

// stored is a job as the scripts hand it out, read.
type stored struct {
	duly.Planned
	number           duly.Number
	ownID            string // as the record has it; "" where the ID is the number
	ended            uint64
	failures, stalls int
	lastError        string
	result           string
	size             int // of its body, as the record has it
}

// damagedJob is the error for a job that nothing can be made of.
func damagedJob(ref duly.QueueRef, number string) error {
	return duly.Errorf(duly.CodeCorrupt, "the stored job %s of queue %s can't be read: it is damaged; run duly check --repair", numberText(number), ref)
}

// read puts a job together from its record, the policy that the record names by
// its place, and its run state.
func (s *stored) read(ref duly.QueueRef, number, record, policyText, run string) error {
	p, ok := readPolicy(policyText)
	if !ok {
		return damagedJob(ref, number)
	}
	return s.readWith(ref, number, record, p, run)
}

// readWith is read with a policy that was read before.
func (s *stored) readWith(ref duly.QueueRef, number, record string, p policy, run string) error {
	if len(number) != len(s.number) || !s.readRecord(ref, record, p) {
		return damagedJob(ref, number)
	}
	copy(s.number[:], number)
	if run != "" && !s.readRun(run) {
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
func (s *stored) readRecord(ref duly.QueueRef, record string, p policy) bool {
	if len(record) < recordHead {
		return false
	}
	u := unpacker{rest: record}
	s.Namespace, s.Queue = ref.Namespace, ref.Name
	s.PushedAt = int64(u.number(6))
	place, flags := u.head(), u.head()
	if s.DueAt = s.PushedAt; flags&hasDue != 0 {
		s.DueAt = int64(u.number(6))
	}
	if flags&hasExpires != 0 {
		s.ExpiresAt = int64(u.number(6))
	}
	sound := true
	switch place {
	case placeBare:
		p = barePolicy
	case placeInline:
		p, sound = readPolicy(strings.Clone(u.take(int(u.number(2)))))
	}
	if flags&hasPriority != 0 {
		s.Priority = int(u.number(2)) - 1000
	}
	text := func(flag byte) string {
		if flags&flag == 0 {
			return ""
		}
		return strings.Clone(u.take(int(u.number(1)))) // many records may share one text
	}
	s.ownID = idOf(text(hasID))
	s.OrderKey, s.MergeKey = text(hasOrder), text(hasMerge)
	size := int64(-1)
	if flags&hasSize != 0 {
		size = int64(u.number(4))
	}
	ok := true
	if flags&hasHeaders != 0 {
		s.Headers, ok = unpackHeaders(strings.Clone(u.take(int(u.number(2)))))
	}
	s.Body = []byte(u.rest)
	if s.size = len(s.Body); size >= 0 {
		s.size = int(size)
	}

	s.Tries, s.MaxStalls, s.Backoff, s.Lease, s.Retain, s.TTL = p.tries, p.maxStalls, p.backoff, p.lease, p.retain, duly.None
	if s.ExpiresAt > 0 {
		s.TTL = p.ttl
	}
	if s.MergeKey != "" {
		s.Merge = duly.Merge{Key: s.MergeKey, Mode: p.mode, Until: p.until, MaxWait: p.maxWait}
		if s.MergeKey[0] == '\x01' { // it was taken from the body
			s.Merge.Key = ""
		}
	}
	return ok && sound && !u.bad
}

// plainJob gives a job what a bare one has.
func plainJob(j *duly.Job, ref duly.QueueRef) {
	j.Namespace, j.Queue = ref.Namespace, ref.Name
	j.Tries, j.MaxStalls, j.Backoff = duly.DefaultTries, duly.DefaultMaxStalls, duly.DefaultBackoff
	j.Lease, j.TTL, j.Retain = duly.DefaultLease, duly.None, duly.None
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
