package sqliteengine

import (
	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/sqliteengine/internal/sq"
)

const (
	// stepBound is how many jobs of each kind a step moves at most.
	stepBound = 1000
	// trimWithEach is how many dead or done jobs over a bound are deleted with each new
	// one, so that bounds hold without a step.
	trimWithEach = 2
)

// step moves a queue forward to the current time in the contract's order: expired jobs
// go first, then leases are taken back, then due jobs become ready. more reports that
// the step ended at its bound.
func (t *tx) step(q *queue) (more bool, err error) {
	if q.kind == kindTopic {
		return t.stepAll(q)
	}
	for _, part := range []func(*queue) (bool, error){t.dropExpired, t.takeBack, t.promoteDue, t.trimDead, t.trimDone} {
		again, err := part(q)
		if err != nil {
			return false, err
		}
		more = more || again
	}
	return more, nil
}

// overdue reports whether a step has anything to do.
func (q *queue) overdue(now int64) bool {
	return q.earliest.expiry < now || q.earliest.leaseEnd <= now || q.earliest.due <= now || q.deadOverBound(now) || q.sizes.Done > duly.MaxDone
}

// dropExpired deletes waiting jobs past their TTL and done jobs past their Retain.
func (t *tx) dropExpired(q *queue) (more bool, err error) {
	if q.earliest.expiry >= t.now {
		return false, nil
	}

	type entry struct {
		moment int64
		number duly.Number
	}

	var found []entry
	q.earliest.expiry, err = t.lastTime(t.stmt("expired_first").Int(1, q.id).Int(2, t.now).Int(3, stepBound), func(s *sq.Stmt) int64 {
		e := entry{moment: s.ColInt(0)}
		copy(e.number[:], s.ColRaw(1))
		found = append(found, e)
		return e.moment
	})
	if err != nil {
		return false, err
	}

	for _, e := range found {
		j, err := t.byNumber(q, e.number)
		switch {
		case err != nil:
		case j != nil && j.stored.expiry == e.moment:
			_, err = t.unexpired(j)
		default: // the entry has no job
			_, err = t.stmt("expiry_drop").Int(1, q.id).Int(2, e.moment).Blob(3, e.number[:]).Run()
		}
		if err != nil {
			return false, err
		}
	}

	return t.partDone(q, &q.earliest.expiry, len(found))
}

// lastTime reads the times of an index in order and returns the last one.
func (t *tx) lastTime(s *sq.Stmt, read func(s *sq.Stmt) int64) (last int64, err error) {
	last = never
	for {
		row, err := s.Step()
		if err != nil || !row {
			return last, err
		}
		last = read(s)
	}
}

// partDone ends a part of a step that moved n jobs. Below the bound it reads the earliest
// time again.
func (t *tx) partDone(q *queue, moment *int64, n int) (more bool, err error) {
	if n >= stepBound {
		*moment = min(*moment, t.now-1)
		return true, nil
	}
	return false, t.readEarliestOf(q, moment)
}

// readEarliestOf reads one of the queue's earliest times from its index.
func (t *tx) readEarliestOf(q *queue, moment *int64) error {
	name := "first_due"
	switch moment {
	case &q.earliest.leaseEnd:
		name = "first_lease_end"
	case &q.earliest.dead:
		name = "first_dead"
	case &q.earliest.expiry:
		name = "first_expiry"
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

// takeBack ends deliveries whose lease has run out. Each counts as a stall.
func (t *tx) takeBack(q *queue) (more bool, err error) {
	if q.earliest.leaseEnd > t.now {
		return false, nil
	}
	jobs, err := t.collect(t.stmt("run_out_first").Int(1, q.id).Int(2, t.now).Int(3, stepBound), q)
	if err != nil {
		return false, err
	}
	for i := range jobs {
		if err := t.takeBackOne(&jobs[i]); err != nil {
			return false, err
		}
	}
	return t.partDone(q, &q.earliest.leaseEnd, len(jobs))
}

// takeBackOne takes back one run-out lease. An earlier job with the same merge key may
// just have passed its due time and expiry to this one, so the row is read again.
func (t *tx) takeBackOne(j *job) error {
	if j.stored.mergeKey != "" {
		again, err := t.byNumber(j.q, j.number)
		if err != nil || again == nil {
			return err
		}
		j = again
	}
	return t.stall(j)
}

// stall ends a delivery as a stall. The job is due now, so it goes behind the ready
// jobs.
func (t *tx) stall(j *job) error {
	j.ended++
	j.q.counters.Stalled++
	return t.endDelivery(j, contract.EventStall, t.now)
}

// promoteDue makes due jobs ready or blocked, one by one in (due, number) order. Jobs
// without an order key and a priority don't depend on that order and share a statement.
func (t *tx) promoteDue(q *queue) (more bool, err error) {
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
			continue // left to dropExpired, which ended at its bound
		}
		if j.OrderKey == "" && j.Priority == 0 {
			simple = append(simple, j.number)
			continue
		}
		if err := t.promote(j); err != nil {
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
	return t.partDone(q, &q.earliest.due, len(jobs))
}

// runMany runs a wide statement over numbers. Its arguments are those of lead, the queue
// and the numbers.
func (t *tx) runMany(name string, q *queue, numbers []duly.Number, lead func(s *sq.Stmt) int) error {
	for len(numbers) > 0 {
		w := width(len(numbers))
		s, i := t.conn.many(name, w), 1
		if lead != nil {
			i = lead(s)
		}
		s.Int(i, q.id)
		for k := range w {
			s.Blob(i+1+k, numbers[k][:])
		}
		changed, err := s.Run()
		if err != nil {
			return err
		}
		if changed != w {
			return errJob // the index names jobs that don't exist
		}
		numbers = numbers[w:]
	}

	return nil
}

// deadOverBound reports whether there may be dead jobs over a bound.
func (q *queue) deadOverBound(now int64) bool {
	c := &q.cfg
	return c.DeadCount != duly.None && q.sizes.Dead > int64(c.DeadCount) ||
		c.DeadAge != duly.None && q.earliest.dead != never && past(q.earliest.dead+clock.Millis(c.DeadAge), now)
}

func (t *tx) trimDead(q *queue) (more bool, err error) { return t.trim(q, duly.StateDead, stepBound) }
func (t *tx) trimDone(q *queue) (more bool, err error) { return t.trim(q, duly.StateDone, stepBound) }

// trim deletes up to most of the oldest dead or done jobs over a bound.
func (t *tx) trim(q *queue, state duly.State, most int) (more bool, err error) {
	over, name := q.deadOverBound, "dead_first"
	if state == duly.StateDone {
		over, name = func(int64) bool { return q.sizes.Done > duly.MaxDone }, "done_first"
	}

	n := 0
	defer func() { t.noteDrop(q, state, n) }()
	for over(t.now) {
		if state == duly.StateDead {
			if err := t.readEarliestOf(q, &q.earliest.dead); err != nil {
				return false, err
			}
			if !over(t.now) {
				return false, nil
			}
		}
		if n == most {
			return true, nil
		}
		j, err := t.one(q, t.stmt(name).Int(1, q.id))
		if err != nil || j == nil {
			return false, err
		}
		if state == duly.StateDead {
			q.counters.Dropped++
		}
		if err := t.remove(j); err != nil {
			return false, err
		}
		n++
	}

	return false, nil
}

// noteDrop counts dropped jobs, which are logged after the commit.
func (t *tx) noteDrop(q *queue, state duly.State, n int) {
	if n == 0 {
		return
	}
	for i := range t.drops {
		if t.drops[i].ref == q.ref && t.drops[i].state == state {
			t.drops[i].n += n
			return
		}
	}
	t.drops = append(t.drops, drop{q.ref, state, n})
}
