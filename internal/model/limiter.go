package model

import (
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/adaptive"
	"github.com/dulymq/duly/internal/clock"
)

// limits returns the configuration with the limits that the shard enforces now.
func (s *shard) limits() duly.QueueConfig { return s.limiter.Apply(s.cfg) }

// fillBucket fills the token bucket with the rate up to now, which may change next.
func (s *shard) fillBucket(now int64) {
	if rate := s.limits().Rate; rate.Limited() {
		s.bucket = s.bucket.Fill(rate, now)
	}
}

func (s *shard) leasedAt(now int64) adaptive.Moment {
	return adaptive.Moment{Now: now, Leased: s.size(duly.StateLeased)}
}

// noteDelivery notes that a job is about to be leased.
func (s *shard) noteDelivery(j *job, now int64) {
	if s.cfg.Adapt.Adaptive() {
		s.limiter.Deliver(adaptive.ConfigOf(s.cfg), s.leasedAt(now), j.number)
	}
}

// noteEnd notes that the delivery of a job is about to end. It returns for how long the
// limiter closes the queue, 0 for no closing.
func (s *shard) noteEnd(j *job, class adaptive.Class, now int64) (closing time.Duration) {
	if !s.cfg.Adapt.Adaptive() {
		return 0
	}
	if class != adaptive.Neutral { // an end without an outcome changes no factor
		s.fillBucket(now)
	}
	return s.limiter.Settle(adaptive.ConfigOf(s.cfg), s.leasedAt(now), j.number, class)
}

// probeLeft notes that the delivery of a job ends without an outcome. If it was the probe,
// the shard closes from now on.
func (s *shard) probeLeft(j *job, now int64) {
	if closing := s.noteEnd(j, adaptive.Neutral, now); closing > 0 {
		s.close(closing, adaptive.Reason, clock.FromMilli(now))
	}
}

// withoutRunOutProbe returns the shard, as for a read, after a step has ended a probe whose lease has
// run out.
func (s *shard) withoutRunOutProbe(now int64) *shard {
	j := s.byNumber[s.limiter.Probe]
	if j == nil || !s.limiter.ProbeIsOut() || j.leaseEnd > now {
		return s
	}
	after := *s
	after.probeLeft(j, j.leaseEnd)
	return &after
}

// close closes the shard.
func (s *shard) close(d time.Duration, reason string, t time.Time) {
	s.closing = s.closing.Extend(d, reason, t)
	s.limiter.Close(s.closing.Until)
}

// addLimiter adds the state of the limiter to the statistics of the queue.
func (s *shard) addLimiter(st *duly.Stats) {
	if !s.cfg.Adapt.Adaptive() {
		return
	}
	if st.Factor == 0 || s.limiter.Factor < st.Factor {
		st.Factor = s.limiter.Factor
	}
	if s.limiter.Probing {
		st.Probing++
	}
}

// addTokens adds the tokens of the shard's bucket to the statistics of the queue.
func (s *shard) addTokens(st *duly.Stats, now int64) {
	tokens, next := s.bucket.Tokens(s.limits().Rate, now)
	contract.AddTokens(st, tokens, next)
}
