package sqliteengine

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/sqliteengine/internal/sq"
)

// inlineBody is the largest body that stands in the job's own row.
const inlineBody = 1024

// job is one job as it is read from, changed in, and written to the tables.
// Its plan holds what was pushed; DueAt and ExpiresAt in it are the columns.
type job struct {
	duly.Planned
	q                *queue
	number           duly.Number
	state            duly.State
	ended            uint64 // deliveries that have ended: the fence
	failures, stalls int
	leaseEnd         int64 // while it is leased
	finished         int64 // when it became dead or done
	lastError        string
	result           []byte
	// hasBody tells that Body was read; external that it stands in bodies.
	hasBody, external bool
	// pointer tells that the job is a message of a group, and its body in the log.
	pointer bool

	stored entries // what the tables say of it
}

// entries is what follows from a job beside its row: where else it stands.
type entries struct {
	state    duly.State
	expiry   int64  // its moment in expiries; 0 for none
	mergeKey string // the merge key that it holds; "" for none
	// replaceable is set while a push under replace would overtake the job.
	replaceable bool
}

// entries tells where the job must stand as it is now.
func (j *job) entries() entries {
	e := entries{state: j.state}
	switch {
	case j.state.Waiting():
		e.expiry = j.ExpiresAt
		e.mergeKey = j.MergeKey
	case j.state == duly.StateLeased && j.Merge.Until == duly.UntilDone:
		e.mergeKey = j.MergeKey
	case j.state == duly.StateLeased:
		e.replaceable = j.Merge.Mode == duly.MergeReplace
	case j.state == duly.StateDone:
		e.expiry = doneUntil(j.finished, j.Retain)
	}
	return e
}

// alias is the job's ID where it is not its number, else "".
func (j *job) alias() string {
	if j.q.group != nil { // its ID is its position
		return ""
	}
	if n, ok := duly.ParseNumber(j.ID); ok && n == j.number {
		return ""
	}
	return j.ID
}

// past tells whether a moment that ends something is over: the last
// millisecond still counts.
func past(end, now int64) bool { return now > end }

// over tells whether the job is there no more, by the clock: its TTL or its
// Retain has passed. A lease stops the TTL's hand.
func (j *job) over(now int64) bool {
	switch {
	case j.state.Waiting():
		return j.ExpiresAt != 0 && past(j.ExpiresAt, now)
	case j.state == duly.StateDone:
		return past(doneUntil(j.finished, j.Retain), now)
	}
	return false
}

// receipt is the handle of the running delivery.
func (j *job) receipt() duly.Receipt {
	return duly.ReceiptParts{Queue: j.Queue, Number: j.number, Delivery: j.ended + 1}.Receipt()
}

// public is the job as it is told: defaults filled in, its due moment.
func (j *job) public() duly.Job {
	p := j.Job
	p.Delay, p.Due, p.Made = 0, clock.FromMilli(j.DueAt), false
	return p
}

// info is the job as Get and List tell it; state is the one that they tell.
// The body is there if it was read.
func (j *job) info(state duly.State, size int) duly.JobInfo {
	info := duly.JobInfo{
		Job: j.public(), State: state, Size: size,
		Attempt: j.AttemptIn(state, j.failures, j.stalls), Failures: j.failures, Stalls: j.stalls,
		PushedAt: clock.FromMilli(j.PushedAt), ExpiresAt: clock.FromMilli(j.ExpiresAt),
		FinishedAt: clock.FromMilli(j.finished), LastError: j.lastError, Result: j.result,
	}
	if j.q.group != nil && state != duly.StateDelayed {
		info.Due = info.PushedAt // also of one that is due and that no step has moved yet
	}
	if state == duly.StateLeased {
		info.LeaseEnd = clock.FromMilli(j.leaseEnd)
	}
	return info
}

// priorityStep is what one step of priority weighs in a rank; due moments lie
// below it.
const priorityStep = 1 << 48

// rank is what ready jobs sort by.
func (j *job) rank() int64 { return rank(j.Priority, j.DueAt) }

func rank(priority int, due int64) int64 { return -int64(priority)*priorityStep + due }

// bindPlace binds what the job's state sorts by.
func (j *job) bindPlace(s *sq.Stmt, i int) {
	if c := j.cursor(); c.key != nil {
		s.Blob(i, c.key)
	} else {
		s.Int(i, c.at)
	}
}

// blockedPlace sorts by key, shorter ones first, and within a key by rank. No
// key is longer than a byte can count.
func blockedPlace(key string, rank int64) []byte {
	b := make([]byte, 0, 1+len(key)+8)
	b = append(append(b, byte(len(key))), key...)
	return binary.BigEndian.AppendUint64(b, uint64(rank)^1<<63)
}

// errJob says that a row can't be what it is.
var errJob = errors.New("sqliteengine: the row of a job can't be read")

// scanJob reads the columns number, state, place, due, pushed, ended,
// failures, stalls, rules, last_error, result, body. A body that is not inline
// is left to readBody. The row is judged: what can't be is an error, and the
// job then has its number and its ID alone.
func (j *job) scanJob(s *sq.Stmt, q *queue) error {
	*j = job{q: q}
	if copy(j.number[:], s.ColRaw(0)) != len(j.number) {
		return errJob
	}

	j.Namespace, j.Queue = q.ref.Namespace, q.ref.Name
	known := knownRules
	if q.group != nil {
		known = messageRules
	}

	alias, err := unpackFields(s.ColRaw(8), &j.Planned, known)
	if j.ID = alias; alias == "" {
		j.ID = j.number.String()
	}
	if q.group != nil {
		j.asMessage(s.ColRaw(8))
	}
	if err != nil {
		return fmt.Errorf("%w: job %s of queue %s", err, j.ID, q.ref)
	}

	j.state = duly.State(s.ColInt(1))
	j.DueAt, j.PushedAt = s.ColInt(3), s.ColInt(4)
	j.ended, j.failures, j.stalls = uint64(s.ColInt(5)), int(s.ColInt(6)), int(s.ColInt(7))
	switch j.state {
	case duly.StateLeased:
		j.leaseEnd = s.ColInt(2)
	case duly.StateDead, duly.StateDone:
		j.finished = s.ColInt(2)
	}

	if !s.ColNull(9) {
		j.lastError = s.ColText(9)
	}

	j.result = s.ColBytes(10)
	j.Body = s.ColBytes(11)
	j.external, j.hasBody = j.Body == nil && !j.pointer, j.Body != nil
	j.stored = j.entries()
	return nil
}

// readBody reads a body that is not inline.
func (j *job) readBody(c *conn) error {
	if j.hasBody {
		return nil
	}
	if j.pointer {
		return j.readMessage(c)
	}
	s := c.stmt("body_read").Int(1, j.q.id).Blob(2, j.number[:])
	row, err := s.Step()
	if err != nil {
		return err
	}
	if !row {
		return fmt.Errorf("%w: job %s of queue %s has no body", errJob, j.ID, j.q.ref)
	}
	j.Body, j.hasBody = s.ColBytes(0), true
	s.Reset()
	return nil
}
