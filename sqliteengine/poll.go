package sqliteengine

import "github.com/dulymq/duly"

// The passing of time changes which jobs are deliverable. A poll counts the jobs that a Reserve
// would find at the current time and changes nothing.

// pollResult is the result of a poll.
type pollResult struct {
	q        *queue
	ready    int64
	upcoming eventTimes
}

// countBound is how many jobs of a kind a poll counts. The waiters that it wakes find
// the rest.
const countBound = stepBound

// deliverable counts the jobs that a Reserve would find now within the limits, without
// changing anything. It counts at most most due jobs. next holds the coming times.
func (q *queue) deliverable(t *tx, most int) (n int64, next eventTimes, err error) {
	for _, m := range []*int64{&q.earliest.due, &q.earliest.leaseEnd, &q.earliest.expiry} {
		// A lower bound in the past says nothing until the index was read.
		if *m <= t.now {
			if err := q.readEarliestOf(t, m); err != nil {
				return 0, next, err
			}
		}
	}

	if next, err = q.upcoming(t); err != nil {
		return 0, next, err
	}

	gone, freed, err := q.readyButOver(t)
	if err != nil {
		return 0, next, err
	}

	due, err := q.dueReady(t, most)
	if err != nil {
		return 0, next, err
	}

	runOut, err := t.count(t.stmt("run_out_count").Int(1, q.id).Int(2, t.now).Int(3, countBound))
	if err != nil {
		return 0, next, err
	}

	if q.group != nil {
		// Nothing in a group expires, so its messages take no keys away.
		if freed, err = q.asGroup().unread(t, most); err != nil {
			return 0, next, err
		}
	}

	open := q
	if runOut > 0 {
		if open, err = q.withoutRunOut(t, runOut); err != nil {
			return 0, next, err
		}
	}
	return min(q.sizes.Ready-gone+freed+due+runOut, int64(open.allowance(t.now))), next, nil
}

// withoutRunOut returns the queue, as for a read, after a step has taken back n run-out leases. They
// no longer count towards MaxLeased, and one of them may be the probe.
func (q *queue) withoutRunOut(t *tx, n int64) (*queue, error) {
	after := q.newDraft()
	after.sizes.Leased -= n
	if after.limiter == nil || !after.limiter.ProbeIsOut() {
		return after, nil
	}
	probe, err := q.byNumber(t, after.limiter.Probe)
	if err != nil {
		return nil, err
	}
	if probe != nil && probe.leaseEnd <= t.now {
		after.noteProbeLeft(probe.number, probe.leaseEnd)
	}
	return after, nil
}

// upcoming reads the times that lie in the future.
func (q *queue) upcoming(t *tx) (eventTimes, error) {
	next := q.earliest
	for _, m := range []struct {
		at   *int64
		name string
	}{{&next.due, "due_after"}, {&next.leaseEnd, "lease_end_after"}, {&next.expiry, "expiry_after"}} {
		if *m.at > t.now {
			continue
		}
		*m.at = never
		s := t.stmt(m.name).Int(1, q.id).Int(2, t.now)
		row, err := s.Step()
		if err != nil {
			return next, err
		}
		if row {
			*m.at = s.ColInt(0)
			s.Reset()
		}
	}

	// An expiry can make jobs ready only if some are blocked.
	if q.sizes.Blocked == 0 {
		next.expiry = never
	}
	if q.group == nil {
		return next, nil
	}

	enters, ok, err := t.integer(t.stmt("delayed_after").Int(1, q.group.topicID).Int(2, t.now))
	if ok {
		lower(&next.due, enters)
	}
	return next, err
}

// readyButOver counts expired jobs that the sizes still count as ready, and the order keys that
// these jobs may free.
func (q *queue) readyButOver(t *tx) (gone, freed int64, err error) {
	if q.earliest.expiry >= t.now {
		return 0, 0, nil
	}
	if q.sizes.Blocked > 0 {
		freed = 1
	}
	gone, err = t.count(t.stmt("expired_ready_count").Int(1, q.id).Int(2, t.now).Int(3, countBound))
	return gone, freed, err
}

// dueReady counts due jobs that no step has promoted and no order key blocks. It counts
// up to most, among the first countBound jobs.
func (q *queue) dueReady(t *tx, most int) (n int64, err error) {
	if q.earliest.due > t.now {
		return 0, nil
	}
	for _, bound := range []int{min(most, countBound), countBound} {
		jobs, err := t.collect(t.stmt("due_first").Int(1, q.id).Int(2, t.now).Int(3, int64(bound)), q)
		if err != nil {
			return 0, err
		}
		if n, err = readyOf(t, jobs); err != nil || n >= int64(most) || len(jobs) < bound {
			return n, err
		}
	}
	return n, nil
}

// readyOf counts the jobs that are ready at the current time.
func readyOf(t *tx, jobs []job) (n int64, err error) {
	for i := range jobs {
		if jobs[i].expired(t.now) {
			continue
		}
		state, err := jobs[i].currentState(t)
		if err != nil {
			return 0, err
		}
		if state == duly.StateReady {
			n++
		}
	}
	return n, nil
}
