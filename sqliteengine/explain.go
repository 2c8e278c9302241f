package sqliteengine

import (
	"context"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/sqliteengine/internal/sqliteconn"
)

// Explain implements contract.Explainer. Counts stop at their bounds, so each statement reads a short
// part of one index.
func (e inspectorAPI) Explain(ctx context.Context, ref duly.QueueRef, id string) (x contract.Explanation, err error) {
	if err := contract.ValidateExplain(ref, id); err != nil {
		return x, err
	}
	err = e.onSnapshot(ctx, ref, func(t readTx, q *queue) error {
		if q == nil {
			return contract.NotFound(ref, id)
		}
		j, err := q.byID(t.tx, id)
		if err != nil {
			return err
		}
		if j == nil || j.expired(t.now) {
			return contract.NotFound(ref, id)
		}
		s, err := t.standing(q, j)
		x = s.Explain()
		return err
	})
	if err != nil {
		return contract.Explanation{}, err
	}
	return x, nil
}

// standing reads what holds a job back.
func (t readTx) standing(q *queue, j *job) (s contract.Standing, err error) {
	state, err := j.currentState(t.tx)
	if err != nil {
		return s, err
	}
	limits := q.limits()
	s = contract.Standing{
		Job: j.info(state, 0), Ended: j.ended, Stored: j.state, Now: t.now,
		Paused: q.cfg.Paused, MaxLeased: limits.MaxLeased, Closing: q.closing,
	}
	s.Tokens, s.NextToken = q.bucket.Tokens(limits.Rate, t.now)
	if !state.Waiting() {
		return s, nil
	}

	if err := t.standingLimits(q, &s); err != nil {
		return s, err
	}
	return s, t.standingOrder(j, &s)
}

// standingLimits reads the leases of the queue, and its closing after a step.
func (t readTx) standingLimits(q *queue, s *contract.Standing) error {
	// The count is exact up to its bound. More leases run out only where no process makes steps.
	runOut, err := t.count(t.stmt("run_out_count").Int(1, q.id).Int(2, t.now).Int(3, contract.MaxBehind))
	if err != nil {
		return err
	}
	s.Leased = int(q.sizes.Leased - runOut)
	if s.NextEnd, _, err = t.integer(t.stmt("lease_end_after").Int(1, q.id).Int(2, t.now)); err != nil {
		return err
	}

	after := q
	if runOut > 0 {
		if after, err = q.withoutRunOut(t.tx, runOut); err != nil {
			return err
		}
	}
	s.Closing = after.closing
	if after.limiter == nil || !after.limiter.ProbeIsOut() {
		return nil
	}
	s.Probing = true
	probe, err := q.byNumber(t.tx, after.limiter.Probe)
	if err == nil && probe != nil {
		info := probe.info(probe.state, 0)
		s.Probe = &info
	}
	return err
}

// standingOrder reads the jobs that come before a ready or blocked job.
func (t readTx) standingOrder(j *job, s *contract.Standing) error {
	count := func(rows *sqliteconn.Stmt, most int) error {
		n, err := t.count(rows.Blob(3, j.number[:]).Int(4, int64(most)+1))
		s.Ahead = int(n)
		return err
	}

	switch s.Job.State {
	case duly.StateReady:
		return count(t.stmt("ready_before").Int(1, j.q.id).Int(2, j.rank()), contract.MaxBehind)
	case duly.StateBlocked:
		place := blockedPlace(j.OrderKey, j.rank())
		first := place[:1+len(j.OrderKey)]
		if err := count(t.stmt("blocked_before").Int(1, j.q.id).Blob(2, place).Blob(5, first),
			contract.MaxBlocked); err != nil {
			return err
		}
		return t.standingHead(j, s)
	}
	return nil
}

// standingHead reads the job that holds the order key of a blocked job.
func (t readTx) standingHead(j *job, s *contract.Standing) error {
	n, busy, err := j.q.keyHolder(t.tx, j.OrderKey)
	if err != nil || !busy {
		return err
	}
	head, err := j.q.byNumber(t.tx, n)
	if err != nil || head == nil {
		return err
	}

	state := duly.StateNone
	if !head.expired(t.now) {
		if state, err = head.currentState(t.tx); err != nil {
			return err
		}
	}
	info := head.info(state, 0)
	s.Head = &info
	return nil
}
