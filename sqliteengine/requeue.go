package sqliteengine

import (
	"context"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// Requeue implements contract.Operator.
func (e operatorAPI) Requeue(ctx context.Context, ref duly.QueueRef, p duly.RequeueParams) (
	[]duly.RequeueResult, error,
) {
	if err := contract.ValidateRequeueFor(&p, ref); err != nil {
		return nil, err
	}

	p.IDs = copyList(ctx, p.IDs)
	r := &requeueCall{ref: ref, p: p}
	if err := e.onQueue(ctx, ref, spaceSome, r.run); err != nil {
		return nil, err
	}
	return r.results, nil
}

// requeueCall is one Requeue call.
type requeueCall struct {
	ref     duly.QueueRef
	p       duly.RequeueParams
	results []duly.RequeueResult
}

// run requeues the jobs in order. It may run more than once.
func (c *requeueCall) run(t *tx, q *queue) (err error) {
	ids := c.p.IDs
	if c.p.N > 0 {
		if ids, err = q.oldestDead(t, c.p.N); err != nil {
			return err
		}
	}

	c.results = make([]duly.RequeueResult, len(ids))
	for i, id := range ids {
		if err := c.requeue(t, q, id, &c.results[i]); err != nil {
			return err
		}
	}
	return nil
}

// requeue requeues one dead job. q is nil for an unknown queue.
func (c *requeueCall) requeue(t *tx, q *queue, id string, r *duly.RequeueResult) error {
	if r.ID, r.Err = id, contract.ValidateID(id); r.Err != nil {
		return nil
	}
	if q == nil {
		r.Err = contract.NotFound(c.ref, id)
		return nil
	}

	j, err := q.findJob(t, id)
	if err != nil && !isRefusal(err) {
		return err
	}
	if err != nil {
		r.Err = err
		return nil
	}

	// After a Seek back, the group gets the message again and its dead copy may still exist.
	if j == nil || j.state == duly.StateDead && q.group != nil {
		if r.Err = q.asGroup().beyondCursor(t, id); r.Err != nil {
			return failureOnly(r.Err)
		}
	}
	if j == nil {
		r.Err = q.notFound(t, id)
		return failureOnly(r.Err)
	}

	if j.state != duly.StateDead {
		state, err := j.currentState(t)
		r.Err = contract.Conflict(state, "job %q is %s, not dead", id, state)
		return err
	}

	holder, err := j.mergeHolder(t)
	if err != nil {
		return err
	}

	// A newer job already does this work, so the dead job is merged into it.
	if holder != nil {
		q.counters.Merged++
		r.Merged = holder.ID
		return j.remove(t)
	}
	if err := j.revive(t, &c.p); err != nil {
		return err
	}

	// The state is read last, because the order key may be busy.
	r.State, err = j.currentState(t)
	return err
}
