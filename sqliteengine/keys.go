package sqliteengine

import (
	"github.com/dulymq/duly"
)

// Order keys and merge keys. Table heads has each busy order key with the job that
// holds it: a ready or leased job, or one that waits after a delivery. Table merges has
// each held merge key, and table replaceable each leased job in replace mode. put
// updates both by the job's state.

// dueState returns the state of a job that an operation makes due outside a step. If
// other due jobs still wait for their step, a job with an order key stays delayed,
// because they may have the same key and were due before. By the clock it is then ready
// or blocked.
func (t *tx) dueState(j *job) (duly.State, error) {
	if j.lockKey() != "" {
		overdue, err := t.stepOverdue(j)
		if err != nil {
			return 0, err
		}
		if overdue {
			n, busy, err := t.keyHolder(j.q, j.OrderKey)
			if err != nil || !busy || n != j.number {
				return duly.StateDelayed, err
			}
		}
	}
	return t.readyOrBlocked(j)
}

// stepOverdue reports whether due jobs other than j wait for a step.
func (t *tx) stepOverdue(j *job) (bool, error) {
	if j.q.earliest.due > t.now {
		return false, nil
	}
	_, overdue, err := t.integer(t.stmt("due_other").Int(1, j.q.id).Int(2, t.now).Blob(3, j.number[:]))
	return overdue, err
}

// readyOrBlocked returns the state of a due job. It is ready if it has no order key or
// can take it, else blocked.
func (t *tx) readyOrBlocked(j *job) (duly.State, error) {
	if j.lockKey() == "" {
		return duly.StateReady, nil
	}

	for {
		n, busy, err := t.keyHolder(j.q, j.OrderKey)
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
		if holder == nil { // the key's holder no longer exists
			if err := t.dropKeyHolder(j.q, j.OrderKey, n); err != nil {
				return 0, err
			}
			continue
		}
		// Deleting an expired holder passes the key on, perhaps to a job that blocks
		// this one.
		if holder, err = t.unexpired(holder); err != nil || holder != nil {
			return duly.StateBlocked, err
		}
	}
}

// keyHolder returns the number of the job that holds an order key.
func (t *tx) keyHolder(q *queue, key string) (n duly.Number, busy bool, err error) {
	return t.number(t.stmt("head_find").Int(1, q.id).Text(2, key))
}

// takeKey makes a job the holder of its free order key.
func (t *tx) takeKey(j *job) error {
	_, err := t.stmt("head_add").Int(1, j.q.id).Text(2, j.OrderKey).Blob(3, j.number[:]).Run()
	return err
}

// dropKeyHolder frees an order key held by n.
func (t *tx) dropKeyHolder(q *queue, key string, n duly.Number) error {
	_, err := t.stmt("head_drop").Int(1, q.id).Text(2, key).Blob(3, n[:]).Run()
	return err
}

// freeKey frees the job's order key if the job holds it. The first blocked job of that
// key becomes ready.
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

// passKey passes a free order key to its first blocked job.
func (t *tx) passKey(q *queue, key string) error {
	for {
		next, err := t.firstBlocked(q, key)
		if err != nil || next == nil {
			return err
		}
		if next.expired(t.now) { // it holds no key, so expiring it does not pass the key again
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

// firstBlocked returns the job that gets an order key next, or nil if none waits.
func (t *tx) firstBlocked(q *queue, key string) (*job, error) {
	from := append([]byte{byte(len(key))}, key...)
	behind := append(from[:len(from):len(from)], 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)
	return t.one(q, t.stmt("blocked_first").Int(1, q.id).Blob(2, from).Blob(3, behind))
}

// markReplaced marks the leased jobs that a push or requeue of j replaces. They are deleted
// when their deliveries end, whatever state j has then.
func (t *tx) markReplaced(j *job) error {
	if j.Merge.Mode != duly.MergeReplace {
		return nil
	}
	_, err := t.stmt("replaceable_mark").Int(1, j.q.id).Text(2, j.OrderKey).Text(3, j.MergeKey).Run()
	return err
}

// isReplaced reports whether markReplaced has marked the leased job.
func (t *tx) isReplaced(j *job) (bool, error) {
	if !j.stored.replaceable {
		return false, nil
	}
	_, found, err := t.integer(t.stmt("replaceable_marked").Int(1, j.q.id).Blob(2, j.number[:]))
	return found, err
}

// mergeHolder returns another job that holds the merge key of j, or nil. It deletes an
// expired holder.
func (t *tx) mergeHolder(j *job) (*job, error) {
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
	if holder == nil { // the key's holder no longer exists
		_, err := t.stmt("merge_drop").Int(1, j.q.id).Text(2, j.OrderKey).Text(3, j.MergeKey).Blob(4, n[:]).Run()
		return nil, err
	}
	return t.unexpired(holder)
}
