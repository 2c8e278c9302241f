package sqliteengine

import (
	"github.com/dulymq/duly"
)

// What can happen to a job, each as one step that leaves rows, entries, keys,
// sizes and counters in line. Every state change of the engine is one of these.

// gone removes a job and gives up its keys. Whoever calls counts why.
func (t *tx) gone(j *job) error {
	j.state = duly.StateNone
	if err := t.put(j); err != nil {
		return err
	}
	return t.freeKey(j)
}

// expire drops a job whose TTL is over.
func (t *tx) expire(j *job) error {
	j.q.counters.Expired++
	return t.gone(j)
}

// alive is the job if it is there by the clock. One that is over is dropped
// now, not at the next step: it holds neither ID nor keys.
func (t *tx) alive(j *job) (*job, error) {
	switch {
	case j == nil:
		return nil, nil
	case !j.over(t.now):
		return j, nil
	case j.state == duly.StateDone:
		return nil, t.gone(j)
	}
	return nil, t.expire(j)
}

// stateNow is the job's state by the clock: what is due is ready, or blocked
// where another job that is not over holds its order key.
func (t *tx) stateNow(j *job) (duly.State, error) {
	if j.state != duly.StateDelayed || j.DueAt > t.now {
		return j.state, nil
	}
	if j.lockKey() == "" {
		return duly.StateReady, nil
	}
	n, busy, err := t.head(j.q, j.OrderKey)
	if err != nil || !busy || n == j.number {
		return duly.StateReady, err
	}
	holder, err := t.byNumber(j.q, n)
	if err != nil || holder == nil || holder.over(t.now) {
		return duly.StateReady, err
	}
	return duly.StateBlocked, nil
}

// enter stores a job that is new, or lives again, where its due moment says.
func (t *tx) enter(j *job) (err error) {
	if j.state = duly.StateDelayed; j.DueAt <= t.now {
		if j.state, err = t.dueState(j); err != nil {
			return err
		}
	}
	if err := t.put(j); err != nil {
		return err
	}
	return t.overtake(j)
}

// fallDue moves a delayed job that an operation has made due.
func (t *tx) fallDue(j *job) (err error) {
	if j.state, err = t.dueState(j); err != nil {
		return err
	}
	return t.put(j)
}

// promote is a step's: it moves a delayed job whose due moment has come, and
// whose turn it is among those.
func (t *tx) promote(j *job) (err error) {
	if j.state, err = t.readyOrBlocked(j); err != nil {
		return err
	}
	return t.put(j)
}

// replan puts a waiting job, some of whose fields have changed, where they
// say. One that has become ready or blocked stays so unless it was told a due
// moment that lies ahead.
func (t *tx) replan(j *job, dueChanged bool) (err error) {
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
		return t.freeKey(j) // put back before its first delivery
	}

	return nil
}

// comeBack ends a delivery that was neither acked nor buried; ended is counted
// by the caller. In this order: expired, merged away, dead, waiting again from
// due on.
func (t *tx) comeBack(j *job, event duly.Event, due int64) error {
	if j.ExpiresAt != 0 && past(j.ExpiresAt, t.now) {
		return t.expire(j)
	}
	if merged, err := t.mergeAway(j, due); err != nil || merged {
		return err
	}

	switch event {
	case duly.EventNack:
		j.failures++
	case duly.EventStall:
		j.stalls++
	}

	if event != duly.EventRelease && j.Exhausted(j.failures, j.stalls) {
		if event == duly.EventStall {
			j.lastError = duly.StallReason(j.stalls)
		}
		return t.die(j)
	}

	j.DueAt = due
	if j.state = duly.StateDelayed; due <= t.now {
		j.state = duly.StateReady // it still holds its order key
	}
	return t.put(j)
}

// mergeAway drops a running job that comes back, if a newer one waits under its
// merge key or has overtaken it.
func (t *tx) mergeAway(j *job, due int64) (bool, error) {
	newer, err := t.merger(j)
	if err != nil {
		return false, err
	}
	if newer == nil {
		if overtaken, err := t.overtaken(j); err != nil || !overtaken {
			return false, err
		}
	} else if err := t.leaveTo(newer, due, j.ExpiresAt); err != nil {
		return false, err
	}

	j.q.counters.Merged++
	return true, t.gone(j)
}

// leaveTo hands the due moment and the expiry of a running job over to the
// newer one that waits under its merge key.
func (t *tx) leaveTo(newer *job, due, expires int64) error {
	newer.ComeBack(due, expires)
	if newer.state == duly.StateDelayed && newer.DueAt <= t.now {
		return t.fallDue(newer)
	}
	return t.put(newer)
}

// die makes a job a dead letter; lastError is the caller's.
func (t *tx) die(j *job) error {
	j.finished = t.now
	j.TTL, j.ExpiresAt = duly.None, 0
	j.q.counters.Dead++
	if err := t.bury(j); err != nil {
		return err
	}
	_, err := t.trim(j.q, duly.StateDead, trimWithEach)
	return err
}

// bury stores a job as dead, and gives up its order key.
func (t *tx) bury(j *job) error {
	if j.q.group != nil {
		return t.buryMessage(j)
	}
	j.state = duly.StateDead
	if err := t.put(j); err != nil {
		return err
	}
	return t.freeKey(j)
}

// finish ends a job that was acked: done while it is retained, else gone.
func (t *tx) finish(j *job, result []byte) error {
	j.q.counters.Acked++
	if j.Retain == duly.None {
		return t.gone(j)
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
