package codec

import (
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
)

// NumberText returns a job's number for messages. Other texts are quoted.
func NumberText(n string) string {
	var number duly.Number
	if len(n) != len(number) {
		return strconv.Quote(n)
	}
	copy(number[:], n)
	return number.String()
}

// Listed is a job as include/report.lua returns it.
type Listed struct {
	Job   Job
	State duly.State
	Score int64
}

// ReadListed reads a job, with its body if body is set.
func ReadListed(ref duly.QueueRef, m *rueidis.RedisMessage, body bool) (t Listed, err error) {
	r := Elements(m)
	if len(r) < 7 {
		return t, DamagedJob(ref, "")
	}
	number := Text(&r[0])
	err = t.Job.read(ref, number, Text(&r[1]), Text(&r[3]), Text(&r[4]))
	// The body is checked only if it was requested.
	if t.Job.Size = int(Integer(&r[2])); err == nil && body && !t.Job.whole() {
		err = DamagedJob(ref, number)
	}
	t.State = State(&r[5])
	t.Score = Integer(&r[6])
	return t, err
}

// Job is a job that a script returned.
type Job struct {
	contract.Planned
	Number           duly.Number
	OwnID            string // the caller's ID; "" if the job's ID is its number
	ended            uint64
	failures, stalls int
	lastError        string
	result           string
	Size             int // length of the body according to the record
}

// DamagedJob returns the error for a job that can't be read.
func DamagedJob(ref duly.QueueRef, number string) error {
	return contract.Errorf(
		duly.CodeCorrupt, "the stored job %s of queue %s can't be read: it is damaged; run duly check --repair",
		NumberText(number), ref,
	)
}

// read reads a job from its record, the policy that the record names, and its run state.
func (s *Job) read(ref duly.QueueRef, number, record, policyText, run string) error {
	p, ok := readPolicy(policyText)
	if !ok {
		return DamagedJob(ref, number)
	}
	return s.readWith(ref, number, record, p, run)
}

// readWith is like read, but with a parsed policy.
func (s *Job) readWith(ref duly.QueueRef, number, record string, p policy, run string) error {
	if len(number) != len(s.Number) || !s.readRecord(ref, record, p) {
		return DamagedJob(ref, number)
	}
	copy(s.Number[:], number)
	if run != "" && !s.readRun(run) {
		return DamagedJob(ref, number)
	}
	if s.ID = s.OwnID; s.ID == "" {
		s.ID = s.Number.String()
	}
	return nil
}

// whole reports whether the body is complete. A body that is stored next to its record may be
// lost or cut.
func (s *Job) whole() bool { return len(s.Body) == s.Size }

// readRecord parses a record.
func (s *Job) readRecord(ref duly.QueueRef, record string, p policy) bool {
	if len(record) < recordHead {
		return false
	}
	u := Unpacker{Rest: record}
	s.Namespace, s.Queue = ref.Namespace, ref.Name
	s.PushedAt = int64(u.number(6))
	place, flags := u.head(), u.head()
	if s.DueAt = s.PushedAt; flags&HasDue != 0 {
		s.DueAt = int64(u.number(6))
	}
	if flags&hasExpires != 0 {
		s.ExpiresAt = int64(u.number(6))
	}

	sound := true
	switch place {
	case PlaceBare:
		p = barePolicy
	case PlaceInline:
		p, sound = readPolicy(strings.Clone(u.take(int(u.number(2)))))
	}
	if flags&HasPriority != 0 {
		// Priorities are stored with an offset of 1000, because bytes have no sign.
		s.Priority = int(u.number(2)) - 1000
	}

	text := func(flag byte) string {
		if flags&flag == 0 {
			return ""
		}
		// Many records may share one text. The clone lets the garbage collector free that text.
		return strings.Clone(u.take(int(u.number(1))))
	}
	s.OwnID = IDOf(text(hasID))
	s.OrderKey, s.MergeKey = text(hasOrder), text(hasMerge)

	size := int64(-1)
	if flags&hasSize != 0 {
		size = int64(u.number(4))
	}

	ok := true
	if flags&hasHeaders != 0 {
		ok = unpackHeaders(strings.Clone(u.take(int(u.number(2)))), &s.Planned.Job)
	}
	s.Body = []byte(u.Rest)
	// A large body is not in the record, which has its length only.
	if s.Size = len(s.Body); size >= 0 {
		s.Size = int(size)
	}

	s.applyPolicy(p)
	return ok && sound && !u.Bad
}

// applyPolicy sets the properties that a job's policy has.
func (s *Job) applyPolicy(p policy) {
	s.Tries, s.MaxStalls, s.Backoff, s.Lease, s.Retain, s.TTL = p.tries, p.maxStalls, p.backoff, p.lease, p.retain,
		duly.None
	// A job without an expiry never gets a TTL from the policy.
	if s.ExpiresAt > 0 {
		s.TTL = p.ttl
	}
	if s.MergeKey != "" {
		s.Merge = duly.Merge{Key: s.MergeKey, Mode: p.mode, Until: p.until, MaxWait: p.maxWait}
		// This byte marks a merge key that was derived from the body, so the caller set none.
		if s.MergeKey[0] == '\x01' {
			s.Merge.Key = ""
		}
	}
}

// setDefaults gives a job the properties of a bare one.
func setDefaults(j *duly.Job, ref duly.QueueRef) {
	j.Namespace, j.Queue = ref.Namespace, ref.Name
	j.Tries, j.MaxStalls, j.Backoff = duly.DefaultTries, duly.DefaultMaxStalls, duly.DefaultBackoff
	j.Lease, j.TTL, j.Retain = duly.DefaultLease, duly.None, duly.None
}

func (s *Job) readRun(text string) bool {
	u := Unpacker{Rest: text}
	s.PushedAt, s.DueAt = int64(u.number(6)), int64(u.number(6))
	s.ended = u.number(6)
	s.failures, s.stalls = int(u.number(4)), int(u.number(4))
	// A job that never failed and has no result has a short state.
	if u.Rest != "" {
		s.lastError = u.take(int(u.number(2)))
		s.result = u.Rest
	}
	return !u.Bad
}

// public returns the job with its defaults and its due time.
func (s *Job) public() duly.Job {
	j := s.Job
	j.Due = clock.FromMilli(s.DueAt)
	return j
}

// deliver fills in the job's part of a delivery.
func (s *Job) deliver(d *duly.Delivery) {
	d.Job = s.public()
	d.Attempt, d.Failures, d.Stalls = contract.Attempt(&s.Planned.Job, s.failures, s.stalls), s.failures, s.stalls
	d.PushedAt, d.ExpiresAt = clock.FromMilli(s.PushedAt), clock.FromMilli(s.ExpiresAt)
}

// Info returns the job as get, peek and list report it.
func (s *Job) Info(state duly.State, at int64, body bool) duly.JobInfo {
	info := duly.JobInfo{
		Job: s.public(), State: state, Size: s.Size, Attempt: contract.AttemptIn(&s.Planned.Job, state, s.failures,
			s.stalls), Failures: s.failures, Stalls: s.stalls,
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

// Ended returns the number of deliveries that have ended.
func (s *Job) Ended() uint64 { return s.ended }

// JobID returns the ID of a job with this number and caller's ID.
func JobID(number, own *rueidis.RedisMessage) string {
	if name := Text(own); name != "" {
		return IDOf(name)
	}
	var n duly.Number
	copy(n[:], Text(number))
	return n.String()
}
