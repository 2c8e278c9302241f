package sqliteengine

import (
	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
)

// Every state change of a job is one of the methods below. Each updates the row, its entries, keys,
// sizes and counters together.
//
// Table heads has each busy order key with the job that holds it: a ready or leased job, or one
// that waits after a delivery. Table merges has each held merge key, and table replaceable each
// leased job in replace mode. put updates both tables by the job's state.

// remove deletes a job and frees its keys. The caller counts the reason.
func (j *job) remove(t *tx) error {
	j.state = duly.StateNone
	if err := j.put(t); err != nil {
		return err
	}
	return j.freeKey(t)
}

// expire deletes a job whose TTL has passed.
func (j *job) expire(t *tx) error {
	j.q.counters.Expired++
	return j.remove(t)
}

// unexpired returns the job, or nil if it has expired. It deletes an expired job at once,
// because an expired job holds neither its ID nor its keys.
func (j *job) unexpired(t *tx) (*job, error) {
	switch {
	case j == nil:
		return nil, nil
	case !j.expired(t.now):
		return j, nil
	// A done job was acked, so it does not count as Expired.
	case j.state == duly.StateDone:
		return nil, j.remove(t)
	}
	return nil, j.expire(t)
}

// currentState returns the state at the current time: a due job is ready, or blocked if
// another unexpired job holds its order key.
func (j *job) currentState(t *tx) (duly.State, error) {
	// Only a delayed job can have an outdated state, because its due time passes without a change
	// of the row.
	if j.state != duly.StateDelayed || j.DueAt > t.now {
		return j.state, nil
	}
	if j.lockKey() == "" {
		return duly.StateReady, nil
	}
	n, busy, err := j.q.keyHolder(t, j.OrderKey)
	if err != nil || !busy || n == j.number {
		return duly.StateReady, err
	}
	holder, err := j.q.byNumber(t, n)
	// An expired holder blocks nothing, although its row still exists.
	if err != nil || holder == nil || holder.expired(t.now) {
		return duly.StateReady, err
	}
	return duly.StateBlocked, nil
}

// enter stores a new or requeued job in the state that follows from its due time.
func (j *job) enter(t *tx) (err error) {
	if j.state = duly.StateDelayed; j.DueAt <= t.now {
		if j.state, err = j.dueState(t); err != nil {
			return err
		}
	}
	if err := j.put(t); err != nil {
		return err
	}
	// A newer job in replace mode ends the retries of leased jobs with the same key.
	return j.markReplaced(t)
}

// makeDue moves a delayed job that an operation has made due.
func (j *job) makeDue(t *tx) (err error) {
	if j.state, err = j.dueState(t); err != nil {
		return err
	}
	return j.put(t)
}

// promote moves a delayed job that has become due. A step promotes jobs in the order of their due
// times.
func (j *job) promote(t *tx) (err error) {
	if j.state, err = j.readyOrBlocked(t); err != nil {
		return err
	}
	return j.put(t)
}

// reschedule stores a waiting job with changed fields. A ready or blocked job keeps its
// state unless it gets a new due time in the future.
func (j *job) reschedule(t *tx, dueChanged bool) (err error) {
	from := j.state
	if dueChanged {
		switch {
		case j.DueAt > t.now:
			j.state = duly.StateDelayed
		case from == duly.StateDelayed:
			if j.state, err = j.dueState(t); err != nil {
				return err
			}
		}
	}

	if err := j.put(t); err != nil {
		return err
	}
	if from != duly.StateDelayed && j.state == duly.StateDelayed && j.ended == 0 {
		// The job was postponed before its first delivery, so it gives up its order key.
		return j.freeKey(t)
	}

	return nil
}

// endDelivery ends a delivery that was neither acked nor buried. The caller has increased j.ended
// before. The job expires, is merged away, dies or waits until due, in this order.
func (j *job) endDelivery(t *tx, event contract.Event, due int64) error {
	if j.ExpiresAt != 0 && past(j.ExpiresAt, t.now) {
		return j.expire(t)
	}
	if merged, err := j.mergeAway(t, due); err != nil || merged {
		return err
	}

	// The counters rise before the check, because this failure or stall may be the last allowed
	// one.
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
		return j.makeDead(t)
	}

	j.DueAt = due
	if j.state = duly.StateDelayed; due <= t.now {
		// The job keeps its order key, so nothing can block it.
		j.state = duly.StateReady
	}
	return j.put(t)
}

// mergeAway deletes a leased job whose delivery ends, if a newer job with its merge key waits or
// has replaced the job.
func (j *job) mergeAway(t *tx, due int64) (bool, error) {
	newer, err := j.mergeHolder(t)
	if err != nil {
		return false, err
	}
	if newer == nil {
		if overtaken, err := j.isReplaced(t); err != nil || !overtaken {
			return false, err
		}
	} else if err := newer.passTimesTo(t, due, j.ExpiresAt); err != nil {
		return false, err
	}

	j.q.counters.Merged++
	return true, j.remove(t)
}

// passTimesTo passes the due time and the expiry of a leased job to the newer job under
// its merge key.
func (j *job) passTimesTo(t *tx, due, expires int64) error {
	j.ComeBack(due, expires)
	if j.state == duly.StateDelayed && j.DueAt <= t.now {
		return j.makeDue(t)
	}
	return j.put(t)
}

// makeDead makes a job a dead letter. The caller sets lastError.
func (j *job) makeDead(t *tx) error {
	j.finished = t.now
	// A dead job is kept by the bounds of the queue, not by its TTL.
	j.TTL, j.ExpiresAt = duly.None, 0
	j.q.counters.Dead++
	if err := j.storeDead(t); err != nil {
		return err
	}
	// The bound holds at once, without waiting for a step.
	_, err := j.q.trim(t, duly.StateDead, trimWithEach)
	return err
}

// storeDead stores a job as dead and frees its order key.
func (j *job) storeDead(t *tx) error {
	if j.q.group != nil {
		return j.buryMessage(t)
	}
	j.state = duly.StateDead
	if err := j.put(t); err != nil {
		return err
	}
	return j.freeKey(t)
}

// finish ends an acked job. The job becomes done if it is retained, and is deleted otherwise.
func (j *job) finish(t *tx, result []byte) error {
	j.q.counters.Acked++
	if j.Retain == duly.None {
		return j.remove(t)
	}
	j.state, j.finished, j.result = duly.StateDone, t.now, nil
	if len(result) > 0 {
		j.result = result
	}
	if err := j.put(t); err != nil {
		return err
	}
	if err := j.freeKey(t); err != nil {
		return err
	}
	_, err := j.q.trim(t, duly.StateDone, trimWithEach)
	return err
}

// dueState returns the state of a job that an operation makes due outside a step. If other due jobs
// still wait for their step, a job with an order key stays delayed, because the other jobs may have
// the same key and were due before. By its due time such a job counts as ready or blocked.
func (j *job) dueState(t *tx) (duly.State, error) {
	if j.lockKey() != "" {
		overdue, err := j.stepOverdue(t)
		if err != nil {
			return 0, err
		}
		if overdue {
			n, busy, err := j.q.keyHolder(t, j.OrderKey)
			if err != nil || !busy || n != j.number {
				return duly.StateDelayed, err
			}
		}
	}
	return j.readyOrBlocked(t)
}

// stepOverdue reports whether due jobs other than j wait for a step.
func (j *job) stepOverdue(t *tx) (bool, error) {
	if j.q.earliest.due > t.now {
		return false, nil
	}
	_, overdue, err := t.integer(t.stmt("due_other").Int(1, j.q.id).Int(2, t.now).Blob(3, j.number[:]))
	return overdue, err
}

// readyOrBlocked returns the state of a due job. The job is ready if it has no order key or can
// take the key, else blocked.
func (j *job) readyOrBlocked(t *tx) (duly.State, error) {
	if j.lockKey() == "" {
		return duly.StateReady, nil
	}

	for {
		n, busy, err := j.q.keyHolder(t, j.OrderKey)
		switch {
		case err != nil:
			return 0, err
		case !busy:
			return duly.StateReady, j.takeKey(t)
		case n == j.number:
			return duly.StateReady, nil
		}
		holder, err := j.q.byNumber(t, n)
		if err != nil {
			return 0, err
		}
		if holder == nil { // the key's holder no longer exists
			if err := j.q.dropKeyHolder(t, j.OrderKey, n); err != nil {
				return 0, err
			}
			continue
		}
		// Deleting an expired holder gives the key to the next job, which may then block this one.
		if holder, err = holder.unexpired(t); err != nil || holder != nil {
			return duly.StateBlocked, err
		}
	}
}

// takeKey makes a job the holder of its free order key.
func (j *job) takeKey(t *tx) error {
	_, err := t.stmt("head_add").Int(1, j.q.id).Text(2, j.OrderKey).Blob(3, j.number[:]).Run()
	return err
}

// freeKey frees the job's order key if the job holds it. The first blocked job of that
// key becomes ready.
func (j *job) freeKey(t *tx) error {
	if j.lockKey() == "" {
		return nil
	}
	held, err := t.stmt("head_drop").Int(1, j.q.id).Text(2, j.OrderKey).Blob(3, j.number[:]).Run()
	// A blocked job holds no key, so it has none to free.
	if err != nil || held == 0 {
		return err
	}
	return j.q.passKey(t, j.OrderKey)
}

// markReplaced marks the leased jobs that a push or requeue of j replaces. The marked jobs are
// deleted when their deliveries end, whatever state j has at that time.
func (j *job) markReplaced(t *tx) error {
	if j.Merge.Mode != duly.MergeReplace {
		return nil
	}
	_, err := t.stmt("replaceable_mark").Int(1, j.q.id).Text(2, j.OrderKey).Text(3, j.MergeKey).Run()
	return err
}

// isReplaced reports whether markReplaced has marked the leased job.
func (j *job) isReplaced(t *tx) (bool, error) {
	// The row says whether the table has an entry, which saves a read for most jobs.
	if !j.stored.replaceable {
		return false, nil
	}
	_, found, err := t.integer(t.stmt("replaceable_marked").Int(1, j.q.id).Blob(2, j.number[:]))
	return found, err
}

// mergeHolder returns another job that holds the merge key of j, or nil. It deletes an
// expired holder.
func (j *job) mergeHolder(t *tx) (*job, error) {
	if j.MergeKey == "" {
		return nil, nil
	}
	n, held, err := t.number(t.stmt("merge_find").Int(1, j.q.id).Text(2, j.OrderKey).Text(3, j.MergeKey))
	if err != nil || !held || n == j.number {
		return nil, err
	}
	holder, err := j.q.byNumber(t, n)
	if err != nil {
		return nil, err
	}
	if holder == nil { // the key's holder no longer exists
		_, err := t.stmt("merge_drop").Int(1, j.q.id).Text(2, j.OrderKey).Text(3, j.MergeKey).Blob(4, n[:]).Run()
		return nil, err
	}
	return holder.unexpired(t)
}

// mergeInto merges a push into the job that holds its merge key.
func (j *job) mergeInto(t *tx, next *job) error {
	c := &j.q.counters
	c.Pushed++
	c.Merged++
	switch {
	case next.Merge.Mode == duly.MergeKeep:
		j.Keep(&next.Planned)
		return j.put(t)
	case j.state == duly.StateLeased: // the running delivery keeps its data
		return nil
	}

	j.Replace(&next.Planned)
	// A replaced job starts again with its full number of tries.
	j.failures, j.stalls, j.lastError = 0, 0, ""
	if err := j.putBody(t); err != nil {
		return err
	}
	if err := j.reschedule(t, true); err != nil {
		return err
	}

	return j.markReplaced(t)
}

// deleteCounted deletes a job. A done job was already counted by its ack.
func (j *job) deleteCounted(t *tx) error {
	if j.state != duly.StateDone {
		j.q.counters.Deleted++
	}
	return j.remove(t)
}

// revive makes a dead job due now, under its old ID and number.
func (j *job) revive(t *tx, p *duly.RequeueParams) (err error) {
	j.q.counters.Requeued++
	// A requeued job starts again like a new job.
	j.finished = 0
	j.failures, j.stalls, j.lastError = 0, 0, ""
	if j.q.group != nil {
		return j.reviveMessage(t)
	}
	j.DueAt, j.PushedAt = t.now, t.now
	if p.Tries != 0 {
		j.Tries = p.Tries
	}
	if p.TTL > 0 {
		j.TTL, j.ExpiresAt = p.TTL, clock.CeilMilli(t.time.Add(p.TTL))
	}
	// The TTL is set before the job changes its state, so that the row is stored with the new
	// expiry.
	if err := j.makeDue(t); err != nil {
		return err
	}
	return j.markReplaced(t)
}

// settle ends the current delivery with that outcome.
func (j *job) settle(t *tx, o *duly.SettleRequest) error {
	// The attempt belongs to the delivery that ends, so it is computed before the counters rise.
	attempt := contract.Attempt(&j.Planned.Job, j.failures, j.stalls)
	j.ended++
	switch o.As {
	case duly.Ack:
		return j.finish(t, o.Result)
	case duly.Bury:
		j.lastError = contract.CutError(o.Error)
		return j.makeDead(t)
	case duly.Nack:
		delay := contract.BackoffDelay(j.Backoff, j.ID, attempt)
		if o.Delay != nil {
			delay = *o.Delay
		}
		j.lastError = contract.CutError(o.Error)
		j.q.counters.Failed++
		return j.endDelivery(t, contract.EventNack, contract.DueIn(delay, t.time))
	}

	due := j.DueAt
	if j.q.group != nil {
		// The entry time lies ahead if the clock was set back.
		due = t.now
	}
	if o.Delay != nil {
		due = contract.DueIn(*o.Delay, t.time)
	}

	j.q.counters.Released++
	return j.endDelivery(t, contract.EventRelease, due)
}

// takeBackOne takes back one run-out lease. An earlier job with the same merge key may just have
// given its due time and expiry to this job, so the row is read again.
func (j *job) takeBackOne(t *tx) error {
	if j.stored.mergeKey != "" {
		again, err := j.q.byNumber(t, j.number)
		if err != nil || again == nil {
			return err
		}
		j = again
	}
	return j.stall(t)
}

// stall ends a delivery as a stall. The job is due now, so it goes behind the ready
// jobs.
func (j *job) stall(t *tx) error {
	j.q.noteProbeLeft(j.number, j.leaseEnd)
	j.ended++
	j.q.counters.Stalled++
	return j.endDelivery(t, contract.EventStall, t.now)
}
