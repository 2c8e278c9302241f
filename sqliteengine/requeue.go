package sqliteengine

import (
	"context"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
)

// Requeue implements contract.Operator.
func (e *Engine) Requeue(ctx context.Context, ref duly.QueueRef, p duly.RequeueParams) ([]duly.RequeueResult, error) {
	if err := contract.ValidateRequeueFor(&p, ref); err != nil {
		return nil, err
	}

	p.IDs = copyList(ctx, p.IDs)
	var results []duly.RequeueResult
	err := e.onQueue(ctx, ref, spaceSome, func(t *tx, q *queue) error {
		ids, err := p.IDs, error(nil)
		if p.N > 0 {
			ids, err = t.oldestDead(q, p.N)
		}
		results = make([]duly.RequeueResult, len(ids))
		for i := 0; i < len(ids) && err == nil; i++ {
			err = t.requeue(q, ref, ids[i], &p, &results[i])
		}
		return err
	})
	if err != nil {
		return nil, err
	}

	return results, nil
}

func (t *tx) oldestDead(q *queue, n int) (ids []string, err error) {
	if q == nil {
		return nil, nil
	}
	jobs, err := t.page(q, duly.StateDead, cursor{}, n, false)
	for i := range jobs {
		ids = append(ids, jobs[i].ID)
	}
	return ids, err
}

// requeue requeues one dead job.
func (t *tx) requeue(q *queue, ref duly.QueueRef, id string, p *duly.RequeueParams, r *duly.RequeueResult) (err error) {
	if r.ID, r.Err = id, contract.ValidateID(id); r.Err != nil {
		return nil
	}
	if q == nil {
		r.Err = contract.NotFound(ref, id)
		return nil
	}

	j, err := t.find(q, id)
	if err != nil && !isRefusal(err) {
		return err
	}
	if err != nil {
		r.Err = err
		return nil
	}

	if j == nil || j.state == duly.StateDead && q.group != nil {
		if r.Err = t.beyondCursor(q, id); r.Err != nil {
			return failureOnly(r.Err)
		}
	}
	if j == nil {
		r.Err = t.notFound(q, id)
		return failureOnly(r.Err)
	}

	if j.state != duly.StateDead {
		state, err := t.currentState(j)
		r.Err = contract.Conflict(state, "job %q is %s, not dead", id, state)
		return err
	}

	holder, err := t.mergeHolder(j)
	if err != nil {
		return err
	}

	if holder != nil {
		q.counters.Merged++
		r.Merged = holder.ID
		return t.remove(j)
	}
	if err := t.revive(j, p); err != nil {
		return err
	}

	r.State, err = t.currentState(j)
	return err
}

// revive makes a dead job due now, under its old ID and number.
func (t *tx) revive(j *job, p *duly.RequeueParams) (err error) {
	j.q.counters.Requeued++
	j.finished = 0
	j.failures, j.stalls, j.lastError = 0, 0, ""
	if j.q.group != nil {
		return t.reviveMessage(j)
	}
	j.DueAt, j.PushedAt = t.now, t.now
	if p.Tries != 0 {
		j.Tries = p.Tries
	}
	if p.TTL > 0 {
		j.TTL, j.ExpiresAt = p.TTL, clock.CeilMilli(t.time.Add(p.TTL))
	}
	if err := t.makeDue(j); err != nil {
		return err
	}
	return t.markReplaced(j)
}
