package sqliteengine

import (
	"github.com/dulymq/duly"
)

// Order keys and merge keys. Table heads has each busy order key with the one job
// that holds it: ready, leased, or waiting again after a delivery. Table merges
// has each held merge key, table replaceable each running job of mode replace.
// put keeps both tables by the job's state.

// dueState is the state of a job that an operation, not a step, makes due. If it
// has an order key and due jobs still wait for their step it joins them, for
// those that were due before it may have the same key: it is then ready or
// blocked by the clock alone.
func (t *tx) dueState(j *job) (duly.State, error) {
	if j.lockKey() != "" {
		overdue, err := t.stepOverdue(j)
		if err != nil {
			return 0, err
		}
		if overdue {
			n, busy, err := t.head(j.q, j.OrderKey)
			if err != nil || !busy || n != j.number {
				return duly.StateDelayed, err
			}
		}
	}
	return t.readyOrBlocked(j)
}

// stepOverdue tells whether due jobs other than j wait for a step.
func (t *tx) stepOverdue(j *job) (bool, error) {
	if j.q.first.due > t.now {
		return false, nil
	}
	_, overdue, err := t.integer(t.stmt("due_other").Int(1, j.q.id).Int(2, t.now).Blob(3, j.number[:]))
	return overdue, err
}

// readyOrBlocked is the state that a due job takes: ready if it has no order
// key or finds it free, and it then holds it; else blocked.
func (t *tx) readyOrBlocked(j *job) (duly.State, error) {
	if j.lockKey() == "" {
		return duly.StateReady, nil
	}

	for {
		n, busy, err := t.head(j.q, j.OrderKey)
		switch {
		case err != nil:
			return 0, err
		case !busy:
			return duly.StateReady, t.takeKey(j)
		case n == j.number:
			return duly.StateReady, nil
		}
		holder, err := t.byNumber(j.q, n)
		if err != nil {
			return 0, err
		}
		if holder == nil { // a head that is no job holds nothing
			if err := t.dropHead(j.q, j.OrderKey, n); err != nil {
				return 0, err
			}
			continue
		}
		// Dropping a holder whose time is over passes the key on, perhaps to
		// one that blocks this job.
		if holder, err = t.alive(holder); err != nil || holder != nil {
			return duly.StateBlocked, err
		}
	}
}

// head is the job that holds an order key, if one does.
func (t *tx) head(q *queue, key string) (n duly.Number, busy bool, err error) {
	return t.number(t.stmt("head_find").Int(1, q.id).Text(2, key))
}

// takeKey lets a job hold its order key, which is free.
func (t *tx) takeKey(j *job) error {
	_, err := t.stmt("head_add").Int(1, j.q.id).Text(2, j.OrderKey).Blob(3, j.number[:]).Run()
	return err
}

func (t *tx) dropHead(q *queue, key string, n duly.Number) error {
	_, err := t.stmt("head_drop").Int(1, q.id).Text(2, key).Blob(3, n[:]).Run()
	return err
}

// freeKey gives the job's order key up, if it has one and holds it. The first
// blocked job of the key becomes ready in the same step.
func (t *tx) freeKey(j *job) error {
	if j.lockKey() == "" {
		return nil
	}
	held, err := t.stmt("head_drop").Int(1, j.q.id).Text(2, j.OrderKey).Blob(3, j.number[:]).Run()
	if err != nil || held == 0 {
		return err
	}
	return t.passKey(j.q, j.OrderKey)
}

// passKey hands a free order key to the first blocked job of it.
func (t *tx) passKey(q *queue, key string) error {
	for {
		next, err := t.firstBlocked(q, key)
		if err != nil || next == nil {
			return err
		}
		if next.over(t.now) { // it holds no key, so this ends here
			if err := t.expire(next); err != nil {
				return err
			}
			continue
		}
		if err := t.takeKey(next); err != nil {
			return err
		}
		next.state = duly.StateReady
		return t.put(next)
	}
}

// firstBlocked is the job that an order key goes to next; nil if none waits.
func (t *tx) firstBlocked(q *queue, key string) (*job, error) {
	from := append([]byte{byte(len(key))}, key...)
	behind := append(from[:len(from):len(from)], 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)
	return t.one(q, t.stmt("blocked_first").Int(1, q.id).Blob(2, from).Blob(3, behind))
}

// overtake marks the running jobs that a push or requeue of j overtakes. They are
// dropped when they come back, whatever state j has then.
func (t *tx) overtake(j *job) error {
	if j.Merge.Mode != duly.MergeReplace {
		return nil
	}
	_, err := t.stmt("overtake").Int(1, j.q.id).Text(2, j.OrderKey).Text(3, j.MergeKey).Run()
	return err
}

// overtaken reports whether overtake has marked the running job.
func (t *tx) overtaken(j *job) (bool, error) {
	if !j.stored.replaceable {
		return false, nil
	}
	_, found, err := t.integer(t.stmt("overtaken_find").Int(1, j.q.id).Blob(2, j.number[:]))
	return found, err
}

// merger is the job that holds the merge key of j, if another one does. One
// whose time is over is dropped on the way.
func (t *tx) merger(j *job) (*job, error) {
	if j.MergeKey == "" {
		return nil, nil
	}
	n, held, err := t.number(t.stmt("merge_find").Int(1, j.q.id).Text(2, j.OrderKey).Text(3, j.MergeKey))
	if err != nil || !held || n == j.number {
		return nil, err
	}
	holder, err := t.byNumber(j.q, n)
	if err != nil {
		return nil, err
	}
	if holder == nil { // a merge key that is held by no job is free
		_, err := t.stmt("merge_drop").Int(1, j.q.id).Text(2, j.OrderKey).Text(3, j.MergeKey).Blob(4, n[:]).Run()
		return nil, err
	}
	return t.alive(holder)
}
