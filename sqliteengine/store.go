package sqliteengine

import (
	"fmt"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/sqliteengine/internal/sq"
)

// This file finds and stores single jobs. See life.go for their state changes.

// byNumber returns a job, or nil if it does not exist.
func (t *tx) byNumber(q *queue, n duly.Number) (*job, error) {
	return t.one(q, t.stmt("job_by_number").Int(1, q.id).Blob(2, n[:]))
}

// one reads the first row of a statement as a job. It returns nil without a row.
func (t *tx) one(q *queue, s *sq.Stmt) (*job, error) {
	row, err := s.Step()
	if err != nil || !row {
		return nil, err
	}
	j := new(job)
	err = j.scanJob(s, q)
	state := duly.State(s.ColInt(1))
	s.Reset()
	if err != nil {
		return nil, t.quarantine(q, unreadableRow{j.number, state, err})
	}
	return j, nil
}

// byID returns a job even if it has expired. It returns nil if it does not exist.
func (t *tx) byID(q *queue, id string) (*job, error) {
	if q.group != nil {
		return t.messageByID(q, id)
	}

	if q.aliased {
		n, ok, err := t.number(t.stmt("alias_find").Int(1, q.id).Text(2, id))
		if err != nil {
			return nil, err
		}
		if ok {
			return t.byNumber(q, n)
		}
	}

	n, ok := duly.ParseNumber(id)
	if !ok {
		return nil, nil
	}

	j, err := t.byNumber(q, n)
	if err != nil || j == nil || j.ID != id {
		return nil, err // a job with another ID has that number
	}
	return j, nil
}

// number reads the first column of a statement's first row.
func (t *tx) number(s *sq.Stmt) (n duly.Number, ok bool, err error) {
	row, err := s.Step()
	if err != nil || !row {
		return n, false, err
	}
	ok = copy(n[:], s.ColRaw(0)) == len(n)
	s.Reset()
	return n, ok, nil
}

// integer reads the first column of a statement's first row.
func (t *tx) integer(s *sq.Stmt) (v int64, ok bool, err error) {
	ok, err = s.Step()
	if err != nil || !ok {
		return 0, false, err
	}
	v = s.ColInt(0)
	s.Reset()
	return v, true, nil
}

// find returns a job that has not expired, or nil if there is none. It deletes an
// expired job.
func (t *tx) find(q *queue, id string) (*job, error) {
	j, err := t.byID(q, id)
	if err != nil {
		return nil, err
	}
	return t.unexpired(j)
}

// put stores a changed job: its row, its entries in other tables and its queue's sizes.
// A job in StateNone is deleted. Only a new job's body is written; see putBody.
func (t *tx) put(j *job) error {
	if j.q.group != nil && j.state != duly.StateDelayed {
		j.DueAt = j.PushedAt
	}
	if err := t.putRow(j); err != nil {
		return err
	}
	return t.putEntries(j)
}

func (t *tx) putRow(j *job) error {
	q, was := j.q, j.stored.state
	switch {
	case was == duly.StateNone:
		return t.insert(j)
	case j.state == duly.StateNone:
		return t.delete(j)
	}
	s := t.stmt("job_update").Int(1, q.id).Blob(2, j.number[:]).Int(3, int64(j.state))
	j.bindPlace(s, 4)
	s.Int(5, j.DueAt).Int(6, j.PushedAt).Int(7, int64(j.ended)).Int(8, int64(j.failures)).Int(9, int64(j.stalls))
	s.BlobOrNull(10, j.packed()).TextOrNull(11, j.lastError).BlobOrNull(12, j.result)
	changed, err := s.Run()
	if err == nil && changed != 1 {
		err = fmt.Errorf("%w: job %s of queue %s disappeared while it was changed", errJob, j.ID, q.ref)
	}
	return err
}

func (t *tx) insert(j *job) error {
	alias := j.alias()
	s := t.stmt("job_insert").Int(1, j.q.id).Blob(2, j.number[:]).Int(3, int64(j.state))
	j.bindPlace(s, 4)
	s.Int(5, j.DueAt).Int(6, j.PushedAt).Int(7, int64(j.ended)).Int(8, int64(j.failures)).Int(9, int64(j.stalls))
	s.BlobOrNull(10, j.packed()).TextOrNull(11, j.lastError).BlobOrNull(12, j.result)
	if j.external = !j.pointer && len(j.Body) > inlineBody; j.external || j.pointer {
		s.Null(13)
	} else {
		s.Blob(13, j.Body)
	}

	if _, err := s.Run(); err != nil {
		return err
	}
	if j.pointer {
		j.q.group.noteHeld(j.number)
	}

	if alias != "" {
		j.q.aliased = true
		if _, err := t.stmt("alias_add").Int(1, j.q.id).Text(2, alias).Blob(3, j.number[:]).Run(); err != nil {
			return err
		}
	}
	if j.external {
		return t.saveBody(j)
	}

	return nil
}

func (t *tx) saveBody(j *job) error {
	_, err := t.stmt("body_save").Int(1, j.q.id).Blob(2, j.number[:]).Blob(3, j.Body).Run()
	return err
}

// putBody stores a changed body of an existing job.
func (t *tx) putBody(j *job) error {
	was := j.external
	j.external = len(j.Body) > inlineBody
	s := t.stmt("body_inline").Int(1, j.q.id).Blob(2, j.number[:])
	if j.external {
		s.Null(3)
	} else {
		s.Blob(3, j.Body)
	}

	if _, err := s.Run(); err != nil {
		return err
	}

	switch {
	case j.external:
		return t.saveBody(j)
	case was:
		return t.dropBody(j)
	}

	return nil
}

func (t *tx) dropBody(j *job) error {
	_, err := t.stmt("body_drop").Int(1, j.q.id).Blob(2, j.number[:]).Run()
	return err
}

func (t *tx) delete(j *job) error {
	if _, err := t.stmt("job_delete").Int(1, j.q.id).Blob(2, j.number[:]).Run(); err != nil {
		return err
	}
	if j.pointer {
		j.q.group.stale = true
	}
	if alias := j.alias(); alias != "" {
		if _, err := t.stmt("alias_drop").Int(1, j.q.id).Text(2, alias).Blob(3, j.number[:]).Run(); err != nil {
			return err
		}
	}
	if j.external {
		return t.dropBody(j)
	}
	return nil
}

// putEntries updates expiry, merge key and sizes to match the row, and lowers the
// queue's earliest times.
func (t *tx) putEntries(j *job) error {
	q, was, is := j.q, j.stored, j.entries()
	if was.expiry != is.expiry {
		if was.expiry != 0 {
			if _, err := t.stmt("expiry_drop").Int(1, q.id).Int(2, was.expiry).Blob(3, j.number[:]).Run(); err != nil {
				return err
			}
		}
		if is.expiry != 0 {
			if _, err := t.stmt("expiry_add").Int(1, q.id).Int(2, is.expiry).Blob(3, j.number[:]).Run(); err != nil {
				return err
			}
			lower(&q.earliest.expiry, is.expiry)
		}
	}

	if err := t.putMerge(j, was.mergeKey, is.mergeKey); err != nil {
		return err
	}

	if was.replaceable != is.replaceable {
		if err := t.putReplaceable(j, is.replaceable); err != nil {
			return err
		}
	}

	q.countMove(was.state, is.state)
	switch is.state {
	case duly.StateDelayed:
		lower(&q.earliest.due, j.DueAt)
	case duly.StateLeased:
		lower(&q.earliest.leaseEnd, j.leaseEnd)
	case duly.StateDead:
		lower(&q.earliest.dead, j.finished)
	}

	j.stored = is
	return nil
}

// putMerge moves the job's entry in table merges.
func (t *tx) putMerge(j *job, was, is string) error {
	if was == is {
		return nil
	}
	if was != "" {
		if _, err := t.stmt("merge_drop").Int(1, j.q.id).Text(2, j.OrderKey).Text(3, was).Blob(4, j.number[:]).Run(); err != nil {
			return err
		}
	}
	if is == "" {
		return nil
	}
	_, err := t.stmt("merge_add").Int(1, j.q.id).Text(2, j.OrderKey).Text(3, is).Blob(4, j.number[:]).Run()
	return err
}

// putReplaceable adds or deletes the row of a leased job that a push may replace.
func (t *tx) putReplaceable(j *job, is bool) error {
	s := t.stmt("replaceable_drop")
	if is {
		s = t.stmt("replaceable_add").Text(3, j.OrderKey).Text(4, j.MergeKey)
	}
	_, err := s.Int(1, j.q.id).Blob(2, j.number[:]).Run()
	return err
}

// countMove updates the sizes for a job that changes its state.
func (q *queue) countMove(from, to duly.State) {
	if from == to {
		return
	}
	if from != duly.StateNone {
		*q.sizes.Of(from)--
	}
	if to != duly.StateNone {
		*q.sizes.Of(to)++
	}
}

// unreadableRow is a row that can't be read as a job.
type unreadableRow struct {
	number duly.Number
	state  duly.State
	why    error
}

// quarantine buries a row that can't be read. The job keeps its body and loses its
// rules.
func (t *tx) quarantine(q *queue, u unreadableRow) error {
	if t.readOnly {
		return nil
	}
	t.w.log.Error("a job's row is unreadable and was made a dead letter", "queue", q.ref.String(), "number", u.number.String(), "error", u.why)
	s := t.stmt("job_quarantine").Int(1, q.id).Blob(2, u.number[:]).Int(3, t.now)
	changed, err := s.Text(4, "the stored job can't be read: its rules are damaged").Run()
	if err != nil || changed != 1 {
		return err
	}
	if u.state >= duly.StateDelayed && u.state <= duly.StateDone {
		q.countMove(u.state, duly.StateDead)
	}
	q.counters.Dead++
	lower(&q.earliest.dead, t.now)
	return nil
}
