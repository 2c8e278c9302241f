package model

import (
	"context"
	"iter"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// Explain implements contract.Explainer.
func (e *Engine) Explain(ctx context.Context, ref duly.QueueRef, id string) (contract.Explanation, error) {
	if err := contract.ValidateExplain(ref, id); err != nil {
		return contract.Explanation{}, err
	}
	q, err := e.beginOn(ctx, ref)
	if err != nil {
		return contract.Explanation{}, err
	}
	defer e.mu.Unlock()

	j, state, err := e.getIn(q, ref, id)
	if err != nil {
		return contract.Explanation{}, err
	}
	_, now := e.now()
	s := q.of(id)
	standing := contract.Standing{
		Job: j.info(state, false), Ended: j.ended, Stored: j.state, Now: now, Paused: s.cfg.Paused,
		MaxLeased: s.limits().MaxLeased,
	}
	s.addLimitsTo(&standing)
	s.addOrderTo(&standing, j)
	return standing.Explain(), nil
}

// addLimitsTo sets what pause, limits and limiter allow.
func (s *shard) addLimitsTo(st *contract.Standing) {
	// The place sorts before all jobs whose leases run.
	place := &job{leaseEnd: st.Now + 1}
	for j := range s.sets[duly.StateLeased].behind(place) {
		if st.Leased == 0 {
			st.NextEnd = j.leaseEnd
		}
		st.Leased++
	}
	st.Tokens, st.NextToken = s.bucket.Tokens(s.limits().Rate, st.Now)

	after := s.withoutRunOutProbe(st.Now)
	st.Closing = after.closing
	if st.Probing = after.limiter.Probing && after.limiter.ProbeIsOut(); st.Probing {
		if probe := s.byNumber[after.limiter.Probe]; probe != nil {
			info := probe.info(probe.state, false)
			st.Probe = &info
		}
	}
}

// addOrderTo sets which jobs come before a job.
func (s *shard) addOrderTo(st *contract.Standing, j *job) {
	switch st.Job.State {
	case duly.StateReady:
		st.Ahead = count(s.sets[duly.StateReady].before(j), contract.MaxBehind+1)
	case duly.StateBlocked:
		st.Ahead = count(s.blockedBefore(j), contract.MaxBlocked+1)
		if h := s.heads[j.OrderKey]; h != nil {
			info := h.info(s.stateNow(h, st.Now), false)
			st.Head = &info
		}
	}
}

// blockedBefore yields the blocked jobs that get the order key of j before j does.
func (s *shard) blockedBefore(j *job) iter.Seq[*job] {
	return func(yield func(*job) bool) {
		for other := range s.sets[duly.StateBlocked].before(j) {
			if other.OrderKey != j.OrderKey || !yield(other) {
				return
			}
		}
	}
}
