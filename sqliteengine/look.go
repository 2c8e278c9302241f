package sqliteengine

import (
	"context"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/sqliteengine/internal/sq"
)

// A moment that has passed changes what is deliverable before anybody has acted on
// it. A look counts what a Reserve would find by now, and changes nothing.

// lookAt lets the writer look at queues of which a moment has passed.
func (e *Engine) lookAt(ctx context.Context, doors []door) (ready bool, err error) {
	err = e.write(ctx, &op{Call: items(1), run: func(t *tx) error {
		ready = false
		for _, d := range doors {
			if q := t.at(d); q != nil {
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

// at is the queue that has jobs for callers at that door, nil for none.
func (t *tx) at(d door) *queue {
	if q := t.queue(d.ref); q != nil && q.door() == d {
		return q
	}
	return nil
}

// look looks at every watched queue of which a moment has passed, and tells the
// hub.
func (w *writer) look() {
	for d, waiters := range w.e.hub.overdue() {
		err := w.try([]*op{{run: func(t *tx) error {
			q := t.at(d)
			if q == nil {
				return nil
			}
			n, next, err := t.deliverable(q, waiters)
			if err == nil {
				t.looks = append(t.looks, look{q, n, next})
			}
			return err
		}}})
		if err != nil {
			w.unanswered(err)
			return
		}
	}
}

// look is what a look has found.
type look struct {
	q    *queue
	n    int64
	next moments
}

// overdue lists the watched queues of which a moment has passed, and how many
// deliverable jobs of each would matter to anybody.
func (h *hub) overdue() map[door]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	queues := map[door]int{}
	for d := range h.waiters.Keys() {
		if v := h.views[d]; v.exists && v.passed(now) {
			queues[d] = h.waiters.Waiting(d) + h.waiters.Outstanding(d, 0)
		}
	}
	return queues
}

// countBound is how many jobs of a kind a look counts: there is no need to know
// more, for whoever is woken finds the rest.
const countBound = stepBound

// deliverable counts the jobs that a Reserve would find now, as far as limits
// allow, without moving anything; next are the moments that lie ahead. Of due
// jobs it need not count more than most.
func (t *tx) deliverable(q *queue, most int) (n int64, next moments, err error) {
	for _, m := range []*int64{&q.first.due, &q.first.leaseEnd, &q.first.expiry} {
		if *m <= t.now {
			if err := t.readMoment(q, m); err != nil {
				return 0, next, err
			}
		}
	}

	if next, err = t.ahead(q); err != nil {
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

	open := q
	if runOut > 0 { // their leases count no more
		with := *q
		with.sizes.Leased -= runOut
		open = &with
	}

	return min(q.sizes.Ready-gone+freed+due+runOut, int64(open.open(t.now))), next, nil
}

// ahead reads the moments that lie ahead.
func (t *tx) ahead(q *queue) (moments, error) {
	next := q.first
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
		note(&next.due, enters)
	}
	return next, err
}

// readyButOver counts jobs that count as ready and are over by the clock, and
// order keys that such jobs may free.
func (t *tx) readyButOver(q *queue) (gone, freed int64, err error) {
	if q.first.expiry >= t.now {
		return 0, 0, nil
	}
	if q.sizes.Blocked > 0 {
		freed = 1
	}
	gone, err = t.count(t.stmt("over_count").Int(1, q.id).Int(2, t.now).Int(3, countBound))
	return gone, freed, err
}

// dueReady counts due jobs that nobody has promoted yet and that no order key
// holds back: up to most, and of the first countBound ones.
func (t *tx) dueReady(q *queue, most int) (n int64, err error) {
	if q.first.due > t.now {
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

// readyOf counts the jobs that are ready by the clock.
func (t *tx) readyOf(jobs []job) (n int64, err error) {
	for i := range jobs {
		if jobs[i].over(t.now) {
			continue
		}
		state, err := t.stateNow(&jobs[i])
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
