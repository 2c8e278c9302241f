package sqliteengine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/sqliteengine/internal/rules"
	"github.com/dulymq/duly/sqliteengine/internal/sqliteconn"
)

// inlineBody is the largest body that is stored in the job's own row.
const inlineBody = 1024

// job is a job as read from the tables. The embedded plan holds what was pushed. DueAt and
// ExpiresAt of the plan have the values of the columns.
type job struct {
	contract.Planned
	q                *queue
	number           duly.Number
	state            duly.State
	ended            uint64 // number of ended deliveries, which makes old receipts invalid
	failures, stalls int
	leaseEnd         int64 // end of the lease while the job is leased
	finished         int64 // time at which the job became dead or done
	lastError        string
	result           []byte
	hasBody          bool // whether Body was read
	external         bool // whether the body is in table bodies
	pointer          bool // whether the job is a message of a group whose body is in the topic's log

	stored entries // the job's rows in other tables, as stored
}

// entries describes the rows of a job in other tables.
type entries struct {
	state       duly.State
	expiry      int64  // time in table expiries, or 0 if there is no row
	mergeKey    string // merge key that the job holds, or ""
	replaceable bool   // whether a push in replace mode would replace the leased job
}

// entries returns the entries that the job must have in its current state.
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

// alias returns the job's ID if it differs from its number, else "".
func (j *job) alias() string {
	// The ID of a message is its position.
	if j.q.group != nil {
		return ""
	}
	if n, ok := duly.ParseNumber(j.ID); ok && n == j.number {
		return ""
	}
	return j.ID
}

// past reports whether an end time has passed. Its last millisecond still counts.
func past(end, now int64) bool { return now > end }

// expired reports whether the job has expired: its TTL or Retain has passed. A lease
// suspends the TTL.
func (j *job) expired(now int64) bool {
	switch {
	case j.state.Waiting():
		return j.ExpiresAt != 0 && past(j.ExpiresAt, now)
	case j.state == duly.StateDone:
		return past(doneUntil(j.finished, j.Retain), now)
	}
	return false
}

// receipt returns the receipt of the current delivery.
func (j *job) receipt() duly.Receipt {
	return contract.ReceiptParts{Queue: j.Queue, Number: j.number, Delivery: j.ended + 1}.Receipt()
}

// public returns the job as callers see it, with defaults and due time filled in.
func (j *job) public() duly.Job {
	p := j.Job
	p.Delay, p.Due, p.Made = 0, clock.FromMilli(j.DueAt), false
	return p
}

// info returns the job in the form of Get and List, with the given state. It has a
// body only if the body was read.
func (j *job) info(state duly.State, size int) duly.JobInfo {
	info := duly.JobInfo{
		Job: j.public(), State: state, Size: size,
		Attempt: contract.AttemptIn(&j.Planned.Job, state, j.failures, j.stalls), Failures: j.failures, Stalls: j.stalls,
		PushedAt: clock.FromMilli(j.PushedAt), ExpiresAt: clock.FromMilli(j.ExpiresAt),
		FinishedAt: clock.FromMilli(j.finished), LastError: j.lastError, Result: j.result,
	}
	if j.q.group != nil && state != duly.StateDelayed {
		// This also applies to a due message that no step has promoted yet.
		info.Due = info.PushedAt
	}
	if state == duly.StateLeased {
		info.LeaseEnd = clock.FromMilli(j.leaseEnd)
	}
	return info
}

// priorityStep is the weight of one priority in a rank. Due times are smaller.
const priorityStep = 1 << 48

// rank returns the sort key of ready jobs.
func (j *job) rank() int64 { return rank(j.Priority, j.DueAt) }

func rank(priority int, due int64) int64 { return -int64(priority)*priorityStep + due }

// bindPlace binds the sort key of the job's state.
func (j *job) bindPlace(s *sqliteconn.Stmt, i int) {
	if c := j.cursor(); c.key != nil {
		s.Blob(i, c.key)
	} else {
		s.Int(i, c.at)
	}
}

// blockedPlace returns the sort key of blocked jobs: by order key, shorter ones first,
// and within a key by rank. The length of a key fits into a byte.
func blockedPlace(key string, rank int64) []byte {
	b := make([]byte, 0, 1+len(key)+8)
	b = append(append(b, byte(len(key))), key...)
	return binary.BigEndian.AppendUint64(b, uint64(rank)^1<<63)
}

// errJob is the error of a row that can't be read as a job.
var errJob = errors.New("sqliteengine: the row of a job can't be read")

// scanJob reads the columns number, state, place, due, pushed, ended, failures, stalls, rules,
// last_error, result, body. It does not read an external body; readBody does. It returns an error
// for an invalid row, and the job then has only its number and its ID.
func (j *job) scanJob(s *sqliteconn.Stmt, q *queue) error {
	*j = job{q: q}
	if copy(j.number[:], s.ColRaw(0)) != len(j.number) {
		return errJob
	}

	j.Namespace, j.Queue = q.ref.Namespace, q.ref.Name
	if err := j.unpack(s.ColRaw(8)); err != nil {
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
	// The entries of a valid row follow from the row, so they are not read.
	j.stored = j.entries()
	return nil
}

// unpack sets the fields in column rules, and the ID even if the rules are invalid.
func (j *job) unpack(packed []byte) error {
	if j.q.group != nil {
		err := rules.UnpackMessage(packed, &j.Planned)
		j.asMessage(packed)
		return err
	}

	alias, err := rules.Unpack(packed, &j.Planned)
	if j.ID = alias; alias == "" {
		j.ID = j.number.String()
	}
	return err
}

// readBody reads the body unless it was read before.
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

// deliver fills in a delivery of the job.
func (j *job) deliver(d *duly.Delivery, now int64) {
	*d = duly.Delivery{
		Job: j.public(), Receipt: j.receipt(), Attempt: contract.Attempt(&j.Planned.Job, j.failures, j.stalls),
		Failures: j.failures, Stalls: j.stalls, LeaseEnd: clock.FromMilli(j.leaseEnd),
		Now: clock.FromMilli(max(now, j.DueAt)), PushedAt: clock.FromMilli(j.PushedAt),
		ExpiresAt: clock.FromMilli(j.ExpiresAt),
	}
}

// before reports whether j is delivered before other.
func (j *job) before(other *job) bool {
	if a, b := j.rank(), other.rank(); a != b {
		return a < b
	}
	return string(j.number[:]) < string(other.number[:])
}

// cursor returns the job's own position.
func (j *job) cursor() cursor {
	c := cursor{set: true, number: j.number}
	switch j.state {
	case duly.StateDelayed:
		c.at = j.DueAt
	case duly.StateReady:
		c.at = j.rank()
	case duly.StateBlocked:
		c.key = blockedPlace(j.OrderKey, j.rank())
	case duly.StateLeased:
		c.at = j.leaseEnd
	default:
		c.at = j.finished
	}
	return c
}

// packed returns the value of column rules.
func (j *job) packed() []byte {
	if j.q.group != nil {
		return rules.PackMessage(&j.Planned, !j.pointer, j.lockKey())
	}
	return rules.Pack(&j.Planned, j.alias())
}

// lockKey returns the order key by which the job blocks others, or "" if it blocks none. A group
// may have no order although its messages have keys.
func (j *job) lockKey() string {
	if j.q.group != nil && j.q.cfg.Group.Order != duly.OrderKeys {
		return ""
	}
	return j.OrderKey
}

// newLeaseEnd returns the end of a lease that begins now. 0 means the job's own lease.
func (j *job) newLeaseEnd(t *tx, lease time.Duration) int64 {
	if lease == 0 {
		lease = j.Lease
	}
	return clock.CeilMilli(t.time.Add(lease))
}

// doneUntil returns when a done job expires.
func doneUntil(finished int64, retain time.Duration) int64 { return finished + clock.Millis(retain) }
