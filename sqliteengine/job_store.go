package sqliteengine

import (
	"fmt"

	"github.com/dulymq/duly"
)

// put stores a changed job: its row, its entries in other tables and its queue's sizes. A job in
// StateNone is deleted. It writes the body only of a new job; putBody writes a changed body.
func (j *job) put(t *tx) error {
	// A held message has no due time of its own, so its rows sort by the entry into the log.
	if j.q.group != nil && j.state != duly.StateDelayed {
		j.DueAt = j.PushedAt
	}
	if err := j.putRow(t); err != nil {
		return err
	}
	return j.putEntries(t)
}

func (j *job) putRow(t *tx) error {
	q, was := j.q, j.stored.state
	switch {
	case was == duly.StateNone:
		return j.insertRow(t)
	case j.state == duly.StateNone:
		return j.deleteRow(t)
	}
	s := t.stmt("job_update").Int(1, q.id).Blob(2, j.number[:]).Int(3, int64(j.state))
	j.bindPlace(s, 4)
	s.Int(5, j.DueAt).Int(6, j.PushedAt).Int(7, int64(j.ended)).Int(8, int64(j.failures)).Int(9, int64(j.stalls))
	s.BlobOrNull(10, j.packed()).TextOrNull(11, j.lastError).BlobOrNull(12, j.result)
	changed, err := s.Run()
	// The transaction has just read the row, so a missing row means a damaged store.
	if err == nil && changed != 1 {
		err = fmt.Errorf("%w: job %s of queue %s disappeared while it was changed", errJob, j.ID, q.ref)
	}
	return err
}

func (j *job) insertRow(t *tx) error {
	alias := j.alias()
	s := t.stmt("job_insert").Int(1, j.q.id).Blob(2, j.number[:]).Int(3, int64(j.state))
	j.bindPlace(s, 4)
	s.Int(5, j.DueAt).Int(6, j.PushedAt).Int(7, int64(j.ended)).Int(8, int64(j.failures)).Int(9, int64(j.stalls))
	s.BlobOrNull(10, j.packed()).TextOrNull(11, j.lastError).BlobOrNull(12, j.result)
	// The body of a pointer is in the topic's log.
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
		// From now on, lookups by ID must check the aliases.
		j.q.aliased = true
		if _, err := t.stmt("alias_add").Int(1, j.q.id).Text(2, alias).Blob(3, j.number[:]).Run(); err != nil {
			return err
		}
	}
	if j.external {
		return j.saveBody(t)
	}

	return nil
}

func (j *job) saveBody(t *tx) error {
	_, err := t.stmt("body_save").Int(1, j.q.id).Blob(2, j.number[:]).Blob(3, j.Body).Run()
	return err
}

// putBody stores a changed body of an existing job.
func (j *job) putBody(t *tx) error {
	// The body may move between the row and table bodies.
	was := j.external
	j.external = len(j.Body) > inlineBody
	s := t.stmt("body_inline").Int(1, j.q.id).Blob(2, j.number[:])
	if j.external {
		s.Null(3)
	} else {
		s.Blob(3, j.Body)
	}

	// The row is written first. A body that moves is saved or deleted afterwards.
	if _, err := s.Run(); err != nil {
		return err
	}

	switch {
	case j.external:
		return j.saveBody(t)
	case was:
		return j.dropBody(t)
	}

	return nil
}

func (j *job) dropBody(t *tx) error {
	_, err := t.stmt("body_drop").Int(1, j.q.id).Blob(2, j.number[:]).Run()
	return err
}

func (j *job) deleteRow(t *tx) error {
	if _, err := t.stmt("job_delete").Int(1, j.q.id).Blob(2, j.number[:]).Run(); err != nil {
		return err
	}
	// The deleted message may have been the first message that the group held.
	if j.pointer {
		j.q.group.stale = true
	}
	if alias := j.alias(); alias != "" {
		if _, err := t.stmt("alias_drop").Int(1, j.q.id).Text(2, alias).Blob(3, j.number[:]).Run(); err != nil {
			return err
		}
	}
	if j.external {
		return j.dropBody(t)
	}
	return nil
}

// putEntries updates expiry, merge key and sizes to match the row, and lowers the
// queue's earliest times.
func (j *job) putEntries(t *tx) error {
	q, was, is := j.q, j.stored, j.entries()
	// Entries are only written if they change, because most state changes keep them.
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

	if err := j.putMerge(t, was.mergeKey, is.mergeKey); err != nil {
		return err
	}

	if was.replaceable != is.replaceable {
		if err := j.putReplaceable(t, is.replaceable); err != nil {
			return err
		}
	}

	// Settle and a stall have noted the end of their delivery before.
	if was.state == duly.StateLeased && is.state != duly.StateLeased {
		q.noteProbeLeft(j.number, t.now)
	}
	// The earliest times are lower bounds, so they only decrease here. A step increases them.
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
func (j *job) putMerge(t *tx, was, is string) error {
	if was == is {
		return nil
	}
	if was != "" {
		if _, err := t.stmt("merge_drop").Int(1, j.q.id).Text(2, j.OrderKey).Text(3, was).Blob(4,
			j.number[:]).Run(); err != nil {
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
func (j *job) putReplaceable(t *tx, is bool) error {
	s := t.stmt("replaceable_drop")
	if is {
		s = t.stmt("replaceable_add").Text(3, j.OrderKey).Text(4, j.MergeKey)
	}
	_, err := s.Int(1, j.q.id).Blob(2, j.number[:]).Run()
	return err
}
