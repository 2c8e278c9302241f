package sqliteengine

import (
	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// Every state change of a job is one of the methods below. Each updates the row, its
// entries, keys, sizes and counters together.

// remove deletes a job and frees its keys. The caller counts the reason.
func (t *tx) remove(j *job) error {
	j.state = duly.StateNone
	if err := t.put(j); err != nil {
		return err
	}
	return t.freeKey(j)
}

// expire deletes a job whose TTL has passed.
func (t *tx) expire(j *job) error {
	j.q.counters.Expired++
	return t.remove(j)
}

// unexpired returns the job, or nil if it has expired. It deletes an expired job at once,
// because an expired job holds neither its ID nor its keys.
func (t *tx) unexpired(j *job) (*job, error) {
	switch {
	case j == nil:
		return nil, nil
	case !j.expired(t.now):
		return j, nil
	case j.state == duly.StateDone:
		return nil, t.remove(j)
	}
	return nil, t.expire(j)
}

// currentState returns the state at the current time: a due job is ready, or blocked if
// another unexpired job holds its order key.
func (t *tx) currentState(j *job) (duly.State, error) {
	if j.state != duly.StateDelayed || j.DueAt > t.now {
		return j.state, nil
	}
	if j.lockKey() == "" {
		return duly.StateReady, nil
	}
	n, busy, err := t.keyHolder(j.q, j.OrderKey)
	if err != nil || !busy || n == j.number {
		return duly.StateReady, err
	}
	holder, err := t.byNumber(j.q, n)
	if err != nil || holder == nil || holder.expired(t.now) {
		return duly.StateReady, err
	}
	return duly.StateBlocked, nil
}

// enter stores a new or requeued job in the state that its due time gives.
func (t *tx) enter(j *job) (err error) {
	if j.state = duly.StateDelayed; j.DueAt <= t.now {
		if j.state, err = t.dueState(j); err != nil {
			return err
		}
	}
	if err := t.put(j); err != nil {
		return err
	}
	return t.markReplaced(j)
}

// makeDue moves a delayed job that an operation has made due.
func (t *tx) makeDue(j *job) (err error) {
	if j.state, err = t.dueState(j); err != nil {
		return err
	}
	return t.put(j)
}

// promote moves a delayed job that has become due. The step calls it in due order.
func (t *tx) promote(j *job) (err error) {
	if j.state, err = t.readyOrBlocked(j); err != nil {
		return err
	}
	return t.put(j)
}

// reschedule stores a waiting job with changed fields. A ready or blocked job keeps its
// state unless it gets a new due time in the future.
func (t *tx) reschedule(j *job, dueChanged bool) (err error) {
	from := j.state
	if dueChanged {
		switch {
		case j.DueAt > t.now:
			j.state = duly.StateDelayed
		case from == duly.StateDelayed:
			if j.state, err = t.dueState(j); err != nil {
				return err
			}
		}
	}

	if err := t.put(j); err != nil {
		return err
	}
	if from != duly.StateDelayed && j.state == duly.StateDelayed && j.ended == 0 {
		return t.freeKey(j) // postponed before its first delivery
	}

	return nil
}

// endDelivery ends a delivery that was neither acked nor buried. The caller has counted it
// in ended. The job expires, is merged away, dies or waits until due, in this order.
func (t *tx) endDelivery(j *job, event contract.Event, due int64) error {
	if j.ExpiresAt != 0 && past(j.ExpiresAt, t.now) {
		return t.expire(j)
	}
	if merged, err := t.mergeAway(j, due); err != nil || merged {
		return err
	}

	switch event {
	case contract.EventNack:
		j.failures++
	case contract.EventStall:
		j.stalls++
	}

	if event != contract.EventRelease && contract.Exhausted(&j.Planned.Job, j.failures, j.stalls) {
		if event == contract.EventStall {
			j.lastError = contract.StallReason(j.stalls)
		}
		return t.makeDead(j)
	}

	j.DueAt = due
	if j.state = duly.StateDelayed; due <= t.now {
		j.state = duly.StateReady // it keeps its order key
	}
	return t.put(j)
}

// mergeAway deletes a leased job whose delivery ends, if a newer job waits under its
// merge key or has replaced it.
func (t *tx) mergeAway(j *job, due int64) (bool, error) {
	newer, err := t.mergeHolder(j)
	if err != nil {
		return false, err
	}
	if newer == nil {
		if overtaken, err := t.isReplaced(j); err != nil || !overtaken {
			return false, err
		}
	} else if err := t.passTimesTo(newer, due, j.ExpiresAt); err != nil {
		return false, err
	}

	j.q.counters.Merged++
	return true, t.remove(j)
}

// passTimesTo passes the due time and the expiry of a leased job to the newer job under
// its merge key.
func (t *tx) passTimesTo(newer *job, due, expires int64) error {
	newer.ComeBack(due, expires)
	if newer.state == duly.StateDelayed && newer.DueAt <= t.now {
		return t.makeDue(newer)
	}
	return t.put(newer)
}

// makeDead makes a job a dead letter. The caller sets lastError.
func (t *tx) makeDead(j *job) error {
	j.finished = t.now
	j.TTL, j.ExpiresAt = duly.None, 0
	j.q.counters.Dead++
	if err := t.storeDead(j); err != nil {
		return err
	}
	_, err := t.trim(j.q, duly.StateDead, trimWithEach)
	return err
}

// storeDead stores a job as dead and frees its order key.
func (t *tx) storeDead(j *job) error {
	if j.q.group != nil {
		return t.buryMessage(j)
	}
	j.state = duly.StateDead
	if err := t.put(j); err != nil {
		return err
	}
	return t.freeKey(j)
}

// finish ends an acked job: it is done while it is retained, else gone.
func (t *tx) finish(j *job, result []byte) error {
	j.q.counters.Acked++
	if j.Retain == duly.None {
		return t.remove(j)
	}
	j.state, j.finished, j.result = duly.StateDone, t.now, nil
	if len(result) > 0 {
		j.result = result
	}
	if err := t.put(j); err != nil {
		return err
	}
	if err := t.freeKey(j); err != nil {
		return err
	}
	_, err := t.trim(j.q, duly.StateDone, trimWithEach)
	return err
}
