package model

import (
	"context"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/adaptive"
	"github.com/dulymq/duly/internal/clock"
)

// Settle implements duly.Engine.
func (e *Engine) Settle(ctx context.Context, namespace string, outcomes []duly.SettleRequest) ([]error, error) {
	if err := e.batch(ctx, namespace, len(outcomes)); err != nil {
		return nil, err
	}
	defer e.end()

	results := make([]error, len(outcomes))
	for i := range outcomes {
		o := &outcomes[i]

		// An invalid item does not affect the other items (C4.4).
		if results[i] = contract.ValidateSettle(o); results[i] != nil {
			continue
		}
		s, j := e.current(namespace, o.Receipt, contract.EventOf(o.As))
		if j == nil {
			results[i] = duly.ErrLeaseLost
			continue
		}
		t, _ := e.now()
		settled := *o
		if !j.isMessage { // the fence of a message is not a count
			settled = contract.BoundSlow(*o, j.ended+1, j.failures, j.stalls)
		}
		q, closing := e.find(s.ref), s.noteEnd(j, adaptive.ClassOf(&settled), clock.Milli(t))
		s.settle(j, &settled, t)

		// An outcome closes the queue, not only the shard of its job.
		if settled.Slow != nil {
			s.counters.Slowed++
			q.close(s, *settled.Slow, settled.Error, t)
		}
		if closing > 0 {
			q.close(s, closing, adaptive.Reason, t)
		}

		// The group may no longer need the front of its log.
		if s.reader != nil {
			s.reader.log.trim(clock.Milli(t))
		}
	}

	return results, nil
}

// close closes all shards after an outcome in one of them. In the engines, the others follow a
// little later.
func (q *queue) close(settled *shard, slow time.Duration, reason string, t time.Time) {
	for _, s := range q.shards {
		if now := clock.Milli(t); s != settled && slow > 0 && s.cfg.Adapt.Adaptive() {
			s.limiter.Measure(adaptive.ConfigOf(s.cfg), s.leasedAt(now))
		}
		s.close(slow, reason, t)
	}
}

// closing returns the closing of the shard that opens last.
func (q *queue) closing(now int64) duly.Closing {
	var last contract.Closing
	for _, s := range q.shards {
		if c := s.closing.Clip(now); c.Until > last.Until {
			last = c
		}
	}
	return last.Info()
}

// Extend implements duly.Engine.
func (e *Engine) Extend(ctx context.Context, namespace string, receipts []duly.Receipt, lease time.Duration) ([]error, error) {
	if err := contract.ValidateLease(lease); err != nil {
		return nil, err
	}
	if err := e.batch(ctx, namespace, len(receipts)); err != nil {
		return nil, err
	}
	defer e.end()

	results := make([]error, len(receipts))
	for i, r := range receipts {
		if results[i] = contract.ValidateReceipt(r); results[i] != nil {
			continue
		}
		s, j := e.current(namespace, r, contract.EventExtend)
		if j == nil {
			results[i] = duly.ErrLeaseLost
			continue
		}
		d := lease
		if d == 0 {
			d = j.Lease
		}
		t, _ := e.now()
		s.move(j, contract.EventExtend, duly.StateLeased, func() { j.leaseEnd = clock.CeilMilli(t.Add(d)) })
	}

	return results, nil
}

// batch begins an operation on a batch of receipts.
func (e *Engine) batch(ctx context.Context, namespace string, items int) error {
	if err := contract.ValidateNamespace(namespace); err != nil {
		return err
	}
	if err := contract.CheckBatch(items, 0); err != nil {
		return err
	}
	return e.begin(ctx)
}

// current returns the job whose running delivery has the receipt, or nil. So an old receipt changes
// nothing. event is the event for which the caller uses the receipt.
func (e *Engine) current(namespace string, r duly.Receipt, event contract.Event) (*shard, *job) {
	p, ok := contract.ParseReceipt(r)
	if !ok {
		return nil, nil
	}
	q := e.find(duly.QueueRef{Namespace: namespace, Name: p.Queue})
	if q == nil || p.Shard >= len(q.shards) {
		return nil, nil
	}

	s := q.shards[p.Shard]
	j := s.byNumber[p.Number]
	switch {
	case j == nil:
		return nil, nil
	case j.state != duly.StateLeased:
		s.count(event, j.state, j.state) // counts a refused settle
		return nil, nil
	case j.ended+1 != p.Delivery:
		return nil, nil
	}

	return s, j
}

// settle ends the running delivery as the outcome says.
func (s *shard) settle(j *job, o *duly.SettleRequest, t time.Time) {
	now := clock.Milli(t)
	attempt := contract.Attempt(&j.Planned.Job, j.failures, j.stalls)

	// The receipt of the delivery becomes invalid first, whatever follows.
	j.ended++
	switch o.As {
	case duly.Ack:
		s.ack(j, o.Result, now)
	case duly.Bury:
		s.die(j, contract.EventBury, o.Error, now)
	case duly.Nack:
		delay := contract.BackoffDelay(j.Backoff, j.ID, attempt)
		if o.Delay != nil {
			delay = *o.Delay
		}
		j.lastError = contract.CutError(o.Error)
		s.counters.Failed++
		s.comeBack(j, contract.EventNack, contract.DueIn(delay, t), now)
	case duly.Release:
		due := j.DueAt
		if j.isMessage {
			due = now // its entry time may be ahead of a clock that was set back
		}
		if o.Delay != nil {
			due = contract.DueIn(*o.Delay, t)
		}
		s.counters.Released++
		s.comeBack(j, contract.EventRelease, due, now)
	}
}

func (s *shard) ack(j *job, result []byte, now int64) {
	s.counters.Acked++
	if j.Retain == duly.None {
		s.gone(j, contract.EventAck, now)
		return
	}
	s.move(j, contract.EventAck, duly.StateDone, func() { j.finished, j.result = now, append([]byte(nil), result...) })
	s.freeMerge(j)
	s.freeKey(j, now)
	s.trim(duly.StateDone, now, 2)
}

// stall takes back an expired lease. The job is placed after the jobs that are ready already.
func (s *shard) stall(j *job, now int64) {
	s.probeLeft(j, j.leaseEnd)
	j.ended++
	s.counters.Stalled++
	s.comeBack(j, contract.EventStall, now, now)
}

// comeBack ends a delivery that was neither acked nor buried. It tests in the contract's order
// whether the job is expired, merged away, dead, or waits again.
func (s *shard) comeBack(j *job, e contract.Event, due, now int64) {
	// The rules apply in the order of section 4 of the contract: expired, merged, dead, waiting.
	if j.ExpiresAt != 0 && past(j.ExpiresAt, now) {
		s.counters.Expired++
		s.gone(j, e, now)
		return
	}

	if newer := s.merger(j, now); newer != nil || j.overtaken {
		s.counters.Merged++
		if newer != nil {
			s.leaveTo(newer, due, j.ExpiresAt, now)
		}
		s.gone(j, e, now)
		return
	}

	switch e {
	case contract.EventNack:
		j.failures++
	case contract.EventStall:
		j.stalls++
	}

	if e != contract.EventRelease && contract.Exhausted(&j.Planned.Job, j.failures, j.stalls) {
		reason := j.lastError
		if e == contract.EventStall {
			reason = contract.StallReason(j.stalls)
		}
		s.die(j, e, reason, now)
		return
	}

	to := duly.StateDelayed
	if due <= now {
		to = duly.StateReady // the job still holds its order key
	}

	// The due time is a sort key, so it changes between the sets.
	s.move(j, e, to, func() { j.DueAt = j.dueIn(to, due) })
	s.holdMerge(j)
}

// leaveTo gives the due time and the expiry of a running job to the newer job that waits under its
// merge key.
func (s *shard) leaveTo(newer *job, due, expires, now int64) {
	s.place(newer, newer.state, func() { newer.ComeBack(due, expires) })
	if newer.state == duly.StateDelayed && newer.DueAt <= now {
		if to := s.dueState(newer, now); to != duly.StateDelayed {
			s.move(newer, contract.EventDue, to, nil)
		}
	}
}
