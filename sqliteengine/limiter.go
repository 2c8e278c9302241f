package sqliteengine

import (
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/adaptive"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/sqliteengine/internal/sqliteconn"
)

// The limiter of a queue adapts its limits to the outcomes of its deliveries; see package adaptive.
// Only a queue with the setting adapt has one. Its row in table limiters is written in the
// transaction that changes it, so an outcome and its effect on the limits commit together.

// limits returns the configuration with the limits that the queue enforces now. The caller must not
// change it.
func (q *queue) limits() *duly.QueueConfig {
	if q.limiter == nil {
		return &q.cfg
	}
	cfg := q.limiter.Apply(q.cfg)
	return &cfg
}

// moment returns the queue at the time of a call, for its limiter.
func (q *queue) moment(now int64) adaptive.Moment {
	return adaptive.Moment{Now: now, Leased: int(q.sizes.Leased)}
}

// noteDelivery counts a delivery towards counters and limits. The caller leases the job next.
func (q *queue) noteDelivery(n duly.Number, now int64) {
	q.counters.Delivered++
	if rate := q.limits().Rate; rate.Limited() {
		q.bucket = q.bucket.Fill(rate, now).Take(1)
	}
	if q.limiter != nil {
		q.limiter.Deliver(adaptive.ConfigOf(q.cfg), q.moment(now), n)
	}
}

// noteOutcome notes the outcome of a delivery. It closes the queue if the outcome or the limiter
// demands it. The caller changes the job next.
func (q *queue) noteOutcome(n duly.Number, o *duly.SettleRequest, now time.Time) {
	closing := q.noteEnd(n, adaptive.ClassOf(o), clock.Milli(now))
	if o.Slow != nil {
		q.counters.Slowed++
		q.close(*o.Slow, o.Error, now)
	}
	if closing > 0 {
		q.close(closing, adaptive.Reason, now)
	}
}

// noteEnd notes the end of a delivery. It returns for how long the limiter closes the queue.
func (q *queue) noteEnd(n duly.Number, class adaptive.Class, now int64) (closing time.Duration) {
	if q.limiter == nil {
		return 0
	}
	// The factor may change, and the time until now counts by the old rate.
	if rate := q.limits().Rate; rate.Limited() && class != adaptive.Neutral {
		q.bucket = q.bucket.Fill(rate, now)
	}
	return q.limiter.Settle(adaptive.ConfigOf(q.cfg), q.moment(now), n, class)
}

// noteProbeLeft notes that the delivery of a job ends without an outcome. If the delivery is the
// probe, the queue is closed from that time on.
func (q *queue) noteProbeLeft(n duly.Number, at int64) {
	if closing := q.noteEnd(n, adaptive.Neutral, at); closing > 0 {
		q.close(closing, adaptive.Reason, clock.FromMilli(at))
	}
}

// close closes the queue from a time on.
func (q *queue) close(d time.Duration, reason string, from time.Time) {
	q.closing = q.closing.Extend(d, reason, from)
	if q.limiter != nil {
		q.limiter.Close(q.closing.Until)
	}
}

// reopen ends the closing of the queue, and its probing.
func (q *queue) reopen(now int64) {
	q.closing = contract.Closing{}
	if q.limiter != nil {
		q.limiter.Reopen(now)
	}
}

// configureLimiter creates, changes or removes the limiter after a change of the configuration.
func (q *queue) configureLimiter() {
	if !q.cfg.Adapt.Adaptive() {
		q.limiter = nil
		return
	}
	state := adaptive.New()
	if q.limiter != nil {
		state = q.limiter.Configured(q.cfg)
	}
	q.limiter = &state
}

// addLimiter adds the state of the limiter to statistics.
func (q *queue) addLimiter(s *duly.Stats) {
	if q.limiter == nil {
		return
	}
	s.Factor = q.limiter.Factor
	if q.limiter.Probing {
		s.Probing = 1
	}
}

// readLimiter reads the limiter of a queue with adaptive limits.
func (q *queue) readLimiter(c *conn) error {
	if !q.cfg.Adapt.Adaptive() {
		return nil
	}
	// If a damaged file lacks the row, the limiter starts again.
	q.configureLimiter()
	return eachRow(c.stmt("limiter_find").Int(1, q.id), q.scanLimiter)
}

// limiterFloats, limiterTimes and limiterCounts list the numbers of a limiter in the order of their
// columns.
func limiterFloats(s *adaptive.State) [6]*float64 {
	return [...]*float64{&s.Factor, &s.Good, &s.Allowed, &s.Busy, &s.Room, &s.Used}
}

func limiterTimes(s *adaptive.State) [7]*int64 {
	return [...]*int64{&s.BlockStart, &s.DecreasedAt, &s.OverloadAt, &s.ChangedAt, &s.WindowStart, &s.CountedAt,
		&s.ClosedUntil}
}

func limiterCounts(s *adaptive.State) [6]*int {
	return [...]*int{&s.Successes, &s.Failures, &s.Streak, &s.Outcomes, &s.Delivered, &s.Closings}
}

// scanLimiter reads a row of limiters.
func (q *queue) scanLimiter(s *sqliteconn.Stmt) {
	state, i := adaptive.State{}, -1
	next := func() int { i++; return i }
	for _, f := range limiterFloats(&state) {
		*f = s.ColFloat(next())
	}
	for _, at := range limiterTimes(&state) {
		*at = s.ColInt(next())
	}
	for _, n := range limiterCounts(&state) {
		*n = int(s.ColInt(next()))
	}
	state.GoodBlock, state.Probing = s.ColInt(next()) != 0, s.ColInt(next()) != 0
	copy(state.Probe[:], s.ColRaw(next()))
	q.limiter = &state
}

// saveLimiter writes the limiter of a draft if it has changed.
func (q *queue) saveLimiter(c *conn) error {
	before := q.base.limiter
	switch {
	case q.limiter == nil && before == nil, q.limiter != nil && before != nil && *q.limiter == *before:
		return nil
	case q.limiter == nil:
		_, err := c.stmt("limiter_drop").Int(1, q.id).Run()
		return err
	}
	return q.putLimiter(c)
}

// putLimiter writes the row of the limiter.
func (q *queue) putLimiter(c *conn) error {
	state, i := q.limiter, 1
	next := func() int { i++; return i }
	s := c.stmt("limiter_save").Int(1, q.id)
	for _, f := range limiterFloats(state) {
		s.Float(next(), *f)
	}
	for _, at := range limiterTimes(state) {
		s.Int(next(), *at)
	}
	for _, n := range limiterCounts(state) {
		s.Int(next(), int64(*n))
	}
	s.Int(next(), boolean(state.GoodBlock)).Int(next(), boolean(state.Probing))
	if state.ProbeIsOut() {
		s.Blob(next(), state.Probe[:])
	} else {
		s.Null(next())
	}
	_, err := s.Run()
	return err
}
