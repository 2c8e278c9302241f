package sqliteengine

import (
	"context"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/sqliteengine/internal/sqliteconn"
)

// Reserve implements duly.Engine. A step that reached its bound without a deliverable job makes
// Reserve repeat the call in a new transaction, so that other calls run in between.
func (e jobAPI) Reserve(ctx context.Context, p duly.ReserveParams) ([]duly.Delivery, error) {
	if err := contract.ValidateReserve(&p); err != nil {
		return nil, err
	}

	// The caller may reuse its slice after it has left, while the writer still reads it, so the
	// slice is copied.
	p.Namespace, p.Queues = contract.NamespaceOr(p.Namespace), copyList(ctx, p.Queues)
	for {
		r := &reserveCall{p: p}
		err := e.write(ctx, &op{Call: items(1 + p.Max/4), kind: opReserve, reserve: r, run: r.run,
			abandoned: func() { e.releaseAbandoned(p.Namespace, r.deliveries) }})
		if err != nil {
			// The caller may have been woken for these queues, but will not reserve from them.
			if ctx.Err() != nil {
				e.notifier.pass(p.Namespace, p.Queues, p.Dispatcher)
			}
			return nil, err
		}
		// An empty reply would be wrong while a step or a tick may still bring jobs.
		if len(r.deliveries) == 0 && (r.more || e.fireTicks(ctx, r.ticks)) {
			continue
		}

		if len(r.deliveries) > 0 {
			e.notifier.reserved(r.ticks)
		}
		// The wake-ups of queues that were not visited go to other waiters.
		e.notifier.pass(p.Namespace, p.Queues[r.visited:], p.Dispatcher)
		return r.deliveries, nil
	}
}

// fireTicks fires the due ticks of queues. It reports whether another Reserve may find jobs.
func (e jobAPI) fireTicks(ctx context.Context, refs []duly.QueueRef) (again bool) {
	for _, ref := range refs {
		// The error belongs to the tick, which stays due. The Reserve does not fail.
		fired, more, err := e.fireRound(ctx, ref)
		again = again || err == nil && (fired > 0 || more)
	}
	return again
}

// releaseAbandoned releases the jobs of a Reserve whose caller has left.
func (e jobAPI) releaseAbandoned(namespace string, got []duly.Delivery) {
	if len(got) == 0 {
		return
	}
	s := &settleCall{ref: duly.QueueRef{Namespace: namespace}, results: make([]error, len(got))}
	for i := range got {
		s.outcomes = append(s.outcomes, duly.SettleRequest{Receipt: got[i].Receipt, As: duly.Release})
	}
	s.validate()
	e.submit(&op{Call: items(len(got)), run: s.run})
}

// reserveCall is one Reserve call.
type reserveCall struct {
	p          duly.ReserveParams
	deliveries []duly.Delivery
	visited    int // number of queues visited
	bytes      int
	full       bool            // whether the next job does not fit into the answer
	more       bool            // whether a step ended at its limit
	ticks      []duly.QueueRef // visited queues that have due ticks
	token      uint64          // the token for reserved messages, created with the first message
}

// run reserves from the queues in order. It may run more than once.
func (r *reserveCall) run(t *tx) error {
	*r = reserveCall{p: r.p}
	for _, name := range r.p.Queues {
		ref := duly.QueueRef{Namespace: r.p.Namespace, Name: name}
		if err := t.checkKnown(ref); err != nil {
			return err
		}
		if q := t.groupNamed(ref); q != nil {
			if err := contract.CheckGroupTarget(q.cfg.Group, ref, r.p.Target); err != nil {
				return err
			}
		}
	}

	// All queues are checked first, because an error must not follow a lease.
	for i, name := range r.p.Queues {
		r.visited = i + 1
		q := t.queue(duly.QueueRef{Namespace: r.p.Namespace, Name: name})
		if q == nil {
			continue
		}
		if q.serves(r.p.Dispatcher) {
			q.reserves++
		}
		if q.group != nil {
			// Consumers are recorded even if they find no message.
			q.asGroup().noteCall(t, r.p.Consumer)
		}
		if q.earliest.tick <= t.now {
			r.ticks = append(r.ticks, q.ref)
		}
		if err := r.reserveFrom(t, q); err != nil {
			return err
		}
		// A later queue is visited only if the answer has room, because the order of the queues is
		// their priority.
		if len(r.deliveries) == r.p.Max || r.full || r.more {
			return nil
		}
	}

	return nil
}

// reserveFrom reserves from one queue.
func (r *reserveCall) reserveFrom(t *tx, q *queue) error {
	s, err := t.ready.of(t, q)
	if err != nil {
		return err
	}
	// The step above has run in any case, as for every Reserve.
	if !q.serves(r.p.Dispatcher) {
		return nil
	}

	// After a step back of the clock, the closing must not last longer than from now on, and the rate counts from now.
	q.closing = q.closing.Clip(t.now)
	if rate := q.limits().Rate; rate.Limited() && q.bucket.At > t.now && !q.shut(t.now) {
		q.bucket = q.bucket.Fill(rate, t.now)
	}
	r.more = s.more
	n := min(r.p.Max-len(r.deliveries), q.allowance(t.now))
	if n == 0 {
		// A pause or a closing hides the jobs of further steps, so repeating the call would find nothing.
		r.more = r.more && !q.shut(t.now)
		return nil
	}
	if q.group != nil {
		return r.fromGroup(t, s, n)
	}

	return r.fromReady(t, s, n)
}

// fromReady takes up to n ready jobs.
func (r *reserveCall) fromReady(t *tx, s *readyBuffer, n int) error {
	for ; n > 0 && !r.full; n-- {
		j, err := s.first(t, n)
		if err != nil || j == nil {
			return err
		}
		if err := r.takeFirst(t, s, j); err != nil {
			return err
		}
	}
	return nil
}

// takeFirst reserves the first job, unless its body does not fit.
func (r *reserveCall) takeFirst(t *tx, s *readyBuffer, j *job) error {
	// The step has deleted expired jobs, unless it ended at its limit. In that case this call
	// leases nothing here and is repeated.
	alive, err := j.unexpired(t)
	if err != nil {
		return err
	}
	if s.next++; alive == nil {
		if r.more = true; j.OrderKey != "" {
			// Freeing its order key may have changed the order.
			s.discard()
		}
		return nil
	}
	// The message of a pointer may have been deleted by a bound.
	if err := j.readBody(t.conn); err == errGone {
		return j.missOne(t)
	} else if err != nil {
		return err
	}

	suspect := contract.Suspect(&j.Planned.Job, j.failures, j.stalls)
	if r.full = len(r.deliveries) > 0 && (suspect || r.bytes+len(j.Body) > duly.MaxBatchBytes); r.full {
		// The next caller gets the job.
		s.next--
		return nil
	}

	if j.q.group != nil {
		j.ended = r.fence() - 1
	}
	if err := s.leases.add(j, r.p.Lease); err != nil {
		return err
	}
	r.deliver(j, t.now, len(s.jobs)-s.next+1)
	// A suspect job is delivered alone.
	r.full = suspect
	return nil
}

// deliver appends a delivery. left is the number of further jobs that the answer may have.
func (r *reserveCall) deliver(j *job, now int64, left int) {
	if r.deliveries == nil {
		r.deliveries = make([]duly.Delivery, 0, min(r.p.Max, left))
	}
	r.deliveries = append(r.deliveries, duly.Delivery{})
	j.deliver(&r.deliveries[len(r.deliveries)-1], now)
	r.bytes += len(j.Body)
}

// leaseBatch leases jobs with the same lease end by one statement. Jobs of a group must
// also have the same token.
type leaseBatch struct {
	t       *tx
	q       *queue
	end     int64
	ended   uint64
	numbers []duly.Number
}

func (b *leaseBatch) add(j *job, lease time.Duration) error {
	t, q := b.t, b.q
	end := j.newLeaseEnd(t, lease)
	if end != b.end || q.group != nil && j.ended != b.ended {
		// One statement has one lease end, so jobs with a different end need another statement.
		if err := b.flush(); err != nil {
			return err
		}
		b.end, b.ended = end, j.ended
	}
	b.numbers = append(b.numbers, j.number)
	q.noteDelivery(j.number, t.now)
	j.state, j.leaseEnd = duly.StateLeased, end
	return j.putEntries(t)
}

func (b *leaseBatch) flush() error {
	name, lead := "lease_many", 2
	if b.q.group != nil {
		name, lead = "lease_messages_many", 3
	}
	err := b.t.runMany(name, b.q, b.numbers, func(s *sqliteconn.Stmt) int {
		if s.Int(1, b.end); lead == 3 {
			s.Int(2, int64(b.ended))
		}
		return lead
	})
	b.numbers = b.numbers[:0]
	return err
}
