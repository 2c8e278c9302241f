package sqliteengine

import (
	"context"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/sqliteengine/internal/sq"
)

// Time alone changes which jobs are deliverable. A poll counts the jobs that a Reserve
// would find at the current time and changes nothing.

// pollQueues polls queues for which a time has passed.
func (e *Engine) pollQueues(ctx context.Context, keys []waitKey) (ready bool, err error) {
	err = e.write(ctx, &op{Call: items(1), run: func(t *tx) error {
		ready = false
		for _, d := range keys {
			if q := t.queueFor(d); q != nil {
				n, _, err := t.deliverable(q, 1)
				if err != nil {
					return err
				}
				ready = ready || n > 0
			}
		}
		return nil
	}})
	return ready, err
}

// queueFor returns the queue that serves waiters of that key, or nil.
func (t *tx) queueFor(d waitKey) *queue {
	if q := t.queue(d.ref); q != nil && q.waitKey() == d {
		return q
	}
	return nil
}

// poll polls every waited queue for which a time has passed and reports to the
// notifier.
func (w *writer) poll() {
	for d, waiters := range w.e.notifier.overdueQueues() {
		err := w.runTx([]*op{{run: func(t *tx) error {
			q := t.queueFor(d)
			if q == nil {
				return nil
			}
			n, next, err := t.deliverable(q, waiters)
			if err == nil {
				t.polls = append(t.polls, pollResult{q, n, next})
			}
			return err
		}}})
		if err != nil {
			w.backgroundError(err)
			return
		}
	}
}

// pollResult is the result of a poll.
type pollResult struct {
	q        *queue
	ready    int64
	upcoming eventTimes
}

// overdueQueues returns the waited queues for which a time has passed. The value is how many
// deliverable jobs matter to their waiters.
func (h *notifier) overdueQueues() map[waitKey]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	queues := map[waitKey]int{}
	for d := range h.waiters.Keys() {
		if v := h.views[d]; v.exists && v.outdated(now) {
			queues[d] = h.waiters.Waiting(d) + h.waiters.Outstanding(d, 0)
		}
	}
	return queues
}

// countBound is how many jobs of a kind a poll counts. The waiters that it wakes find
// the rest.
const countBound = stepBound

// deliverable counts the jobs that a Reserve would find now within the limits, without
// changing anything. It counts at most most due jobs. next holds the coming times.
func (t *tx) deliverable(q *queue, most int) (n int64, next eventTimes, err error) {
	for _, m := range []*int64{&q.earliest.due, &q.earliest.leaseEnd, &q.earliest.expiry} {
		if *m <= t.now {
			if err := t.readEarliestOf(q, m); err != nil {
				return 0, next, err
			}
		}
	}

	if next, err = t.upcoming(q); err != nil {
		return 0, next, err
	}

	gone, freed, err := t.readyButOver(q)
	if err != nil {
		return 0, next, err
	}

	due, err := t.dueReady(q, most)
	if err != nil {
		return 0, next, err
	}

	runOut, err := t.count(t.stmt("run_out_count").Int(1, q.id).Int(2, t.now).Int(3, countBound))
	if err != nil {
		return 0, next, err
	}

	if q.group != nil {
		if freed, err = t.unread(q, most); err != nil { // nothing in a group expires
			return 0, next, err
		}
	}

	open := q // run-out leases no longer count towards MaxLeased
	if runOut > 0 {
		with := *q
		with.sizes.Leased -= runOut
		open = &with
	}

	return min(q.sizes.Ready-gone+freed+due+runOut, int64(open.allowance(t.now))), next, nil
}

// upcoming reads the times that lie in the future.
func (t *tx) upcoming(q *queue) (eventTimes, error) {
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

// readyButOver counts expired jobs that the sizes still count as ready, and the order
// keys that they may free.
func (t *tx) readyButOver(q *queue) (gone, freed int64, err error) {
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
func (t *tx) dueReady(q *queue, most int) (n int64, err error) {
	if q.earliest.due > t.now {
		return 0, nil
	}
	for _, bound := range []int{min(most, countBound), countBound} {
		jobs, err := t.collect(t.stmt("due_first").Int(1, q.id).Int(2, t.now).Int(3, int64(bound)), q)
		if err != nil {
			return 0, err
		}
		if n, err = t.readyOf(jobs); err != nil || n >= int64(most) || len(jobs) < bound {
			return n, err
		}
	}
	return n, nil
}

// readyOf counts the jobs that are ready at the current time.
func (t *tx) readyOf(jobs []job) (n int64, err error) {
	for i := range jobs {
		if jobs[i].expired(t.now) {
			continue
		}
		state, err := t.currentState(&jobs[i])
		if err != nil {
			return 0, err
		}
		if state == duly.StateReady {
			n++
		}
	}
	return n, nil
}

func (t *tx) count(s *sq.Stmt) (int64, error) {
	if _, err := s.Step(); err != nil {
		return 0, err
	}
	n := s.ColInt(0)
	s.Reset()
	return n, nil
}
