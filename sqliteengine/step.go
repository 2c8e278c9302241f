package sqliteengine

import (
	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/sqliteengine/internal/sq"
)

const (
	// stepBound is how many jobs of each kind one step moves.
	stepBound = 1000
	// trimWithEach is how many dead or done jobs over a bound are dropped with
	// each that is added, so that bounds hold without anybody's help.
	trimWithEach = 2
)

// step moves a queue forward to now, in the order in which the contract tells
// a job's fate: what has expired goes first, then leases are taken back, then
// due jobs become ready. more says that it ended at its bound.
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

// overdue tells whether a step has anything to do.
func (q *queue) overdue(now int64) bool {
	return q.first.expiry < now || q.first.leaseEnd <= now || q.first.due <= now || q.deadOver(now) || q.sizes.Done > duly.MaxDone
}

// dropExpired drops waiting jobs whose TTL and done jobs whose Retain is over.
func (t *tx) dropExpired(q *queue) (more bool, err error) {
	if q.first.expiry >= t.now {
		return false, nil
	}

	type entry struct {
		moment int64
		number duly.Number
	}

	var found []entry
	q.first.expiry, err = t.walk(t.stmt("expired_first").Int(1, q.id).Int(2, t.now).Int(3, stepBound), func(s *sq.Stmt) int64 {
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
			_, err = t.alive(j)
		default: // an entry that no job stands behind
			_, err = t.stmt("expiry_drop").Int(1, q.id).Int(2, e.moment).Blob(3, e.number[:]).Run()
		}
		if err != nil {
			return false, err
		}
	}

	return t.behind(q, &q.first.expiry, len(found))
}

// walk reads the moments of an index in order.
func (t *tx) walk(s *sq.Stmt, read func(s *sq.Stmt) int64) (last int64, err error) {
	last = never
	for {
		row, err := s.Step()
		if err != nil || !row {
			return last, err
		}
		last = read(s)
	}
}

// behind ends a part of a step that has moved n jobs: if it ended at its bound
// there is more; else the first moment is read anew.
func (t *tx) behind(q *queue, moment *int64, n int) (more bool, err error) {
	if n >= stepBound {
		*moment = min(*moment, t.now-1)
		return true, nil
	}
	return false, t.readMoment(q, moment)
}

// readMoment reads one of the queue's first moments from its index.
func (t *tx) readMoment(q *queue, moment *int64) error {
	name := "first_due"
	switch moment {
	case &q.first.leaseEnd:
		name = "first_lease_end"
	case &q.first.dead:
		name = "first_dead"
	case &q.first.expiry:
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

// takeBack ends deliveries whose lease has run out: each is a stall.
func (t *tx) takeBack(q *queue) (more bool, err error) {
	if q.first.leaseEnd > t.now {
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
	return t.behind(q, &q.first.leaseEnd, len(jobs))
}

// takeBackOne takes one run-out lease back. One before it may have left its due
// moment and its expiry to this job, if they share a merge key: what was read
// of it is then no longer what it is.
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

// stall takes one run-out lease back. The job goes behind what is ready
// already.
func (t *tx) stall(j *job) error {
	j.ended++
	j.q.counters.Stalled++
	return t.comeBack(j, duly.EventStall, t.now)
}

// promoteDue makes due jobs ready, or blocked, one by one in (due, number)
// order; those without rules of their own all at once, for nothing depends on
// their order.
func (t *tx) promoteDue(q *queue) (more bool, err error) {
	if q.first.due > t.now {
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
		if j.over(t.now) {
			continue // for dropExpired, which ended at its bound
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
	if err := t.many(statement, q, simple, nil); err != nil {
		return false, err
	}

	q.sizes.Delayed -= int64(len(simple))
	q.sizes.Ready += int64(len(simple))
	return t.behind(q, &q.first.due, len(jobs))
}

// many runs a wide statement over numbers: first what lead binds, then the
// queue, then the numbers.
func (t *tx) many(name string, q *queue, numbers []duly.Number, lead func(s *sq.Stmt) int) error {
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
			return errJob // the index names jobs that are not there
		}
		numbers = numbers[w:]
	}

	return nil
}

// deadOver tells whether there are dead jobs over a bound, as far as is known.
func (q *queue) deadOver(now int64) bool {
	c := &q.cfg
	return c.DeadCount != duly.None && q.sizes.Dead > int64(c.DeadCount) ||
		c.DeadAge != duly.None && q.first.dead != never && past(q.first.dead+clock.Millis(c.DeadAge), now)
}

func (t *tx) trimDead(q *queue) (more bool, err error) { return t.trim(q, duly.StateDead, stepBound) }
func (t *tx) trimDone(q *queue) (more bool, err error) { return t.trim(q, duly.StateDone, stepBound) }

// trim drops up to most of the oldest dead or done jobs that are over a bound.
func (t *tx) trim(q *queue, state duly.State, most int) (more bool, err error) {
	over, name := q.deadOver, "dead_first"
	if state == duly.StateDone {
		over, name = func(int64) bool { return q.sizes.Done > duly.MaxDone }, "done_first"
	}

	n := 0
	defer func() { t.logDrop(q, state, n) }()
	for over(t.now) {
		if state == duly.StateDead {
			if err := t.readMoment(q, &q.first.dead); err != nil {
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
		if err := t.gone(j); err != nil {
			return false, err
		}
		n++
	}

	return false, nil
}

// logDrop notes what a bound has dropped; it is logged when it was committed.
func (t *tx) logDrop(q *queue, state duly.State, n int) {
	if n == 0 {
		return
	}
	for i := range t.dropped {
		if t.dropped[i].ref == q.ref && t.dropped[i].state == state {
			t.dropped[i].n += n
			return
		}
	}
	t.dropped = append(t.dropped, drop{q.ref, state, n})
}
