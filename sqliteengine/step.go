package sqliteengine

import (
	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/sqliteengine/internal/sqliteconn"
)

const (
	// stepBound is how many jobs of each kind a step moves at most.
	stepBound = 1000
	// trimWithEach is the number of dead or done jobs over a limit that are deleted with each new
	// one, so that limits hold without a step.
	trimWithEach = 2
)

// step moves a queue forward to the current time in the contract's order: expired jobs go first,
// then leases are taken back, then due jobs become ready. more reports whether the step ended at
// its limit.
func (q *queue) step(t *tx) (more bool, err error) {
	if q.kind == kindTopic {
		return q.asTopic().stepAll(t)
	}
	for _, part := range []func(*tx) (bool, error){q.dropExpired, q.takeBack, q.promoteDue, q.trimDead, q.trimDone} {
		again, err := part(t)
		if err != nil {
			return false, err
		}
		more = more || again
	}
	return more, nil
}

// overdue reports whether a step has anything to do.
func (q *queue) overdue(now int64) bool {
	return q.earliest.expiry < now || q.earliest.leaseEnd <= now || q.earliest.due <= now || q.earliest.tick <= now ||
		q.deadOverBound(now) || q.sizes.Done > duly.MaxDone
}

// dropExpired deletes waiting jobs past their TTL and done jobs past their Retain.
func (q *queue) dropExpired(t *tx) (more bool, err error) {
	// The earliest time is a lower bound, so most steps need no read.
	if q.earliest.expiry >= t.now {
		return false, nil
	}

	type entry struct {
		moment int64
		number duly.Number
	}

	var found []entry
	q.earliest.expiry, err = t.lastTime(t.stmt("expired_first").Int(1, q.id).Int(2, t.now).Int(3, stepBound),
		func(s *sqliteconn.Stmt) int64 {
			e := entry{moment: s.ColInt(0)}
			copy(e.number[:], s.ColRaw(1))
			found = append(found, e)
			return e.moment
		})
	if err != nil {
		return false, err
	}

	for _, e := range found {
		j, err := q.byNumber(t, e.number)
		switch {
		case err != nil:
		// The entry may be older than the job's present expiry, as after an update.
		case j != nil && j.stored.expiry == e.moment:
			_, err = j.unexpired(t)
		default: // the entry of table expiries has no job
			_, err = t.stmt("expiry_drop").Int(1, q.id).Int(2, e.moment).Blob(3, e.number[:]).Run()
		}
		if err != nil {
			return false, err
		}
	}

	return q.partDone(t, &q.earliest.expiry, len(found))
}

// partDone ends a part of a step that moved n jobs. Below the bound it reads the earliest
// time again.
func (q *queue) partDone(t *tx, moment *int64, n int) (more bool, err error) {
	if n >= stepBound {
		// A time in the past makes the next step continue with these jobs.
		*moment = min(*moment, t.now-1)
		return true, nil
	}
	return false, q.readEarliestOf(t, moment)
}

// readEarliestOf reads one of the queue's earliest times from its index.
func (q *queue) readEarliestOf(t *tx, moment *int64) error {
	name := "first_due"
	switch moment {
	case &q.earliest.leaseEnd:
		name = "first_lease_end"
	case &q.earliest.dead:
		name = "first_dead"
	case &q.earliest.expiry:
		name = "first_expiry"
	case &q.earliest.tick:
		name = "first_tick"
	}

	s := t.stmt(name).Int(1, q.id)
	row, err := s.Step()
	if err != nil {
		return err
	}
	if *moment = never; row {
		*moment = s.ColInt(0)
		s.Reset()
	}

	return nil
}

// takeBack ends deliveries whose lease has run out. Each of these deliveries counts as a stall.
func (q *queue) takeBack(t *tx) (more bool, err error) {
	if q.earliest.leaseEnd > t.now {
		return false, nil
	}
	jobs, err := t.collect(t.stmt("run_out_first").Int(1, q.id).Int(2, t.now).Int(3, stepBound), q)
	if err != nil {
		return false, err
	}
	for i := range jobs {
		if err := jobs[i].takeBackOne(t); err != nil {
			return false, err
		}
	}
	return q.partDone(t, &q.earliest.leaseEnd, len(jobs))
}

// promoteDue makes due jobs ready or blocked, one by one in (due, number) order. Jobs
// without an order key and a priority don't depend on that order and share a statement.
func (q *queue) promoteDue(t *tx) (more bool, err error) {
	if q.earliest.due > t.now {
		return false, nil
	}

	jobs, err := t.collect(t.stmt("due_first").Int(1, q.id).Int(2, t.now).Int(3, stepBound), q)
	if err != nil {
		return false, err
	}

	var simple []duly.Number
	for i := range jobs {
		j := &jobs[i]
		j.hasBody = false
		if j.expired(t.now) {
			// dropExpired has reached its bound and deletes the job in the next step.
			continue
		}
		// The row of such a job keeps its sort key, so one statement can move many jobs.
		if j.OrderKey == "" && j.Priority == 0 {
			simple = append(simple, j.number)
			continue
		}
		if err := j.promote(t); err != nil {
			return false, err
		}
	}

	statement := "ready_many"
	if q.group != nil {
		statement = "ready_messages_many"
	}
	if err := t.runMany(statement, q, simple, nil); err != nil {
		return false, err
	}

	q.sizes.Delayed -= int64(len(simple))
	q.sizes.Ready += int64(len(simple))
	return q.partDone(t, &q.earliest.due, len(jobs))
}

// deadOverBound reports whether the queue may have more dead jobs than its limit.
func (q *queue) deadOverBound(now int64) bool {
	c := &q.cfg
	return c.DeadCount != duly.None && q.sizes.Dead > int64(c.DeadCount) ||
		c.DeadAge != duly.None && q.earliest.dead != never && past(q.earliest.dead+clock.Millis(c.DeadAge), now)
}

func (q *queue) trimDead(t *tx) (more bool, err error) { return q.trim(t, duly.StateDead, stepBound) }
func (q *queue) trimDone(t *tx) (more bool, err error) { return q.trim(t, duly.StateDone, stepBound) }

// trim deletes up to most of the oldest dead or done jobs over a bound.
func (q *queue) trim(t *tx, state duly.State, most int) (more bool, err error) {
	over, name := q.deadOverBound, "dead_first"
	if state == duly.StateDone {
		over, name = func(int64) bool { return q.sizes.Done > duly.MaxDone }, "done_first"
	}

	// The deferred call also counts the jobs that were deleted before an error.
	n := 0
	defer func() { q.noteDrop(t, state, n) }()
	for over(t.now) {
		if state == duly.StateDead {
			if err := q.readEarliestOf(t, &q.earliest.dead); err != nil {
				return false, err
			}
			// The lower bound was passed, but no job is old enough.
			if !over(t.now) {
				return false, nil
			}
		}
		if n == most {
			return true, nil
		}
		j, err := q.one(t, t.stmt(name).Int(1, q.id))
		if err != nil || j == nil {
			return false, err
		}
		if state == duly.StateDead {
			q.counters.Dropped++
		}
		if err := j.remove(t); err != nil {
			return false, err
		}
		n++
	}

	return false, nil
}

// noteDrop counts dropped jobs, which are logged after the commit.
func (q *queue) noteDrop(t *tx, state duly.State, n int) {
	if n == 0 {
		return
	}
	// One log line per queue and state is enough.
	for i := range t.drops {
		if t.drops[i].ref == q.ref && t.drops[i].state == state {
			t.drops[i].n += n
			return
		}
	}
	t.drops = append(t.drops, drop{q.ref, state, n})
}
