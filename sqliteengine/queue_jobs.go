package sqliteengine

import (
	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/sqliteengine/internal/sqliteconn"
)

// byNumber returns a job, or nil if it does not exist.
func (q *queue) byNumber(t *tx, n duly.Number) (*job, error) {
	return q.one(t, t.stmt("job_by_number").Int(1, q.id).Blob(2, n[:]))
}

// one reads the first row of a statement as a job. It returns nil if there is no row.
func (q *queue) one(t *tx, s *sqliteconn.Stmt) (*job, error) {
	row, err := s.Step()
	if err != nil || !row {
		return nil, err
	}
	j := new(job)
	err = j.scanJob(s, q)
	// The row's columns are gone after the reset, so the state is read before.
	state := duly.State(s.ColInt(1))
	s.Reset()
	if err != nil {
		return nil, q.quarantine(t, unreadableRow{j.number, state, err})
	}
	return j, nil
}

// byID returns a job, even if it has expired. It returns nil if the job does not exist.
func (q *queue) byID(t *tx, id string) (*job, error) {
	if q.group != nil {
		return q.asGroup().messageByID(t, id)
	}

	if q.aliased {
		n, ok, err := t.number(t.stmt("alias_find").Int(1, q.id).Text(2, id))
		if err != nil {
			return nil, err
		}
		if ok {
			return q.byNumber(t, n)
		}
	}

	// Without an alias, only the job whose number is this ID can have the ID.
	n, ok := duly.ParseNumber(id)
	if !ok {
		return nil, nil
	}

	j, err := q.byNumber(t, n)
	if err != nil || j == nil || j.ID != id {
		// The job with that number has another ID.
		return nil, err
	}
	return j, nil
}

// findJob returns a job that has not expired, or nil if there is none. It deletes an
// expired job.
func (q *queue) findJob(t *tx, id string) (*job, error) {
	j, err := q.byID(t, id)
	if err != nil {
		return nil, err
	}
	return j.unexpired(t)
}

// current returns the job of a current receipt, or nil. So an old receipt can't change the job.
func (q *queue) current(t *tx, p *contract.ReceiptParts) (*job, error) {
	j, err := q.byNumber(t, p.Number)
	if err != nil || j == nil || j.state != duly.StateLeased || j.ended+1 != p.Delivery {
		return nil, err
	}
	return j, nil
}

// notFound returns the error for a job that does not exist.
func (q *queue) notFound(t *tx, id string) error {
	if err := q.asGroup().beyondCursor(t, id); err != nil {
		return err
	}
	return notFoundIn(q, id)
}

// page reads up to limit jobs of one state after a cursor. It reads results and inline
// bodies only if requested.
func (q *queue) page(t *tx, state duly.State, from cursor, limit int, bodies bool) ([]job, error) {
	s := t.stmt("list_"+state.String()).Int(1, q.id)
	from.bind(s, state, false)
	s.Int(4, int64(limit)).Int(5, boolean(bodies))
	return t.collectUpTo(s, q, duly.MaxBatchBytes)
}

func (q *queue) oldestDead(t *tx, n int) (ids []string, err error) {
	if q == nil {
		return nil, nil
	}
	jobs, err := q.page(t, duly.StateDead, cursor{}, n, false)
	for i := range jobs {
		ids = append(ids, jobs[i].ID)
	}
	return ids, err
}

// keyHolder returns the number of the job that holds an order key.
func (q *queue) keyHolder(t *tx, key string) (n duly.Number, busy bool, err error) {
	return t.number(t.stmt("head_find").Int(1, q.id).Text(2, key))
}

// dropKeyHolder frees an order key held by n.
func (q *queue) dropKeyHolder(t *tx, key string, n duly.Number) error {
	_, err := t.stmt("head_drop").Int(1, q.id).Text(2, key).Blob(3, n[:]).Run()
	return err
}

// passKey passes a free order key to its first blocked job.
func (q *queue) passKey(t *tx, key string) error {
	for {
		next, err := q.firstBlocked(t, key)
		if err != nil || next == nil {
			return err
		}

		// An expired blocked job holds no key, so its expiry does not free a key.
		if next.expired(t.now) {
			if err := next.expire(t); err != nil {
				return err
			}
			continue
		}
		if err := next.takeKey(t); err != nil {
			return err
		}

		next.state = duly.StateReady
		return next.put(t)
	}
}

// firstBlocked returns the job that gets an order key next, or nil if no job waits for the key.
func (q *queue) firstBlocked(t *tx, key string) (*job, error) {
	// The sort key begins with the length of the order key, so that no order key matches as a
	// prefix of another one.
	from := append([]byte{byte(len(key))}, key...)
	behind := append(from[:len(from):len(from)], 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)
	return q.one(t, t.stmt("blocked_first").Int(1, q.id).Blob(2, from).Blob(3, behind))
}

// unreadableRow is a row of jobs that can't be read as a job.
type unreadableRow struct {
	number duly.Number
	state  duly.State
	why    error
}

// quarantine turns a row that can't be read into a dead letter. The job keeps its body and loses
// its rules.
func (q *queue) quarantine(t *tx, u unreadableRow) error {
	// A read must not write. The next transaction that reads the row repairs it.
	if t.readOnly {
		return nil
	}
	t.w.log.Error("a job's row is unreadable and was made a dead letter", "queue", q.ref.String(), "number",
		u.number.String(), "error", u.why)
	s := t.stmt("job_quarantine").Int(1, q.id).Blob(2, u.number[:]).Int(3, t.now)
	changed, err := s.Text(4, "the stored job can't be read: its rules are damaged").Run()
	if err != nil || changed != 1 {
		return err
	}
	// The state may be damaged as well. The sizes do not count a row with an invalid state.
	if u.state >= duly.StateDelayed && u.state <= duly.StateDone {
		q.countMove(u.state, duly.StateDead)
		q.noteProbeLeft(u.number, t.now)
	}
	q.counters.Dead++
	lower(&q.earliest.dead, t.now)
	return nil
}
