package sqliteengine

import (
	"context"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/sqliteengine/internal/sq"
)

// Reserve implements duly.Engine. A step that ended at its bound without
// bringing anything is repeated in a transaction of its own, so that others
// get their turn in between.
func (e *Engine) Reserve(ctx context.Context, p duly.ReserveParams) ([]duly.Delivery, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}

	p.Namespace, p.Queues = duly.NamespaceOr(p.Namespace), keep(ctx, p.Queues)
	for {
		r := &reserve{p: p}
		err := e.write(ctx, &op{Call: items(1 + p.Max/4), joins: joinsReserves, reserve: r, run: r.run, orphaned: func() { e.giveBack(p.Namespace, r.got) }})
		if err != nil {
			if ctx.Err() != nil {
				e.hub.pass(p.Namespace, p.Queues, p.Dispatcher)
			}
			return nil, err
		}
		if len(r.got) > 0 || !r.more {
			e.hub.pass(p.Namespace, p.Queues[r.asked:], p.Dispatcher)
			return r.got, nil
		}
	}
}

// giveBack releases what a Reserve has brought for a caller that has gone.
func (e *Engine) giveBack(namespace string, got []duly.Delivery) {
	if len(got) == 0 {
		return
	}
	s := &settles{ref: duly.QueueRef{Namespace: namespace}, results: make([]error, len(got))}
	for i := range got {
		s.outcomes = append(s.outcomes, duly.Outcome{Receipt: got[i].Receipt, As: duly.Release})
	}
	s.judge()
	e.submit(&op{Call: items(len(got)), run: s.run})
}

// reserve is one call of Reserve under way.
type reserve struct {
	p     duly.ReserveParams
	got   []duly.Delivery
	asked int // queues that had their turn
	bytes int
	full  bool   // the next job does not go with those that it has
	more  bool   // a step ended at its bound
	token uint64 // of the messages that it takes from groups; drawn when the first is taken
}

// run takes from the queues in their order. It may run more than once.
func (r *reserve) run(t *tx) error {
	*r = reserve{p: r.p}
	for _, name := range r.p.Queues {
		ref := duly.QueueRef{Namespace: r.p.Namespace, Name: name}
		if err := t.known(ref); err != nil {
			return err
		}
		if q := t.groupNamed(ref); q != nil {
			if err := q.cfg.Group.CheckTarget(ref, r.p.Target); err != nil {
				return err
			}
		}
	}

	for i, name := range r.p.Queues {
		r.asked = i + 1
		q := t.queue(duly.QueueRef{Namespace: r.p.Namespace, Name: name})
		if q == nil {
			continue
		}
		if q.serves(r.p.Dispatcher) {
			q.reserves++
		}
		if q.group != nil {
			t.noteCall(q, r.p.Consumer)
		}
		if err := r.from(t, q); err != nil {
			return err
		}
		if len(r.got) == r.p.Max || r.full || r.more {
			return nil
		}
	}

	return nil
}

// from takes what one queue has.
func (r *reserve) from(t *tx, q *queue) error {
	s, err := t.supplyOf(q)
	if err != nil {
		return err
	}
	if !q.serves(r.p.Dispatcher) {
		return nil
	}
	r.more = s.more
	n := min(r.p.Max-len(r.got), q.open(t.now))
	if n == 0 {
		r.more = r.more && !q.cfg.Paused
		return nil
	}
	if q.group != nil {
		return r.fromGroup(t, s, n)
	}
	return r.fromReady(t, s, n)
}

// fromReady takes up to n ready jobs of a supply.
func (r *reserve) fromReady(t *tx, s *supply, n int) error {
	for ; n > 0 && !r.full; n-- {
		j, err := s.first(t, n)
		if err != nil || j == nil {
			return err
		}
		if err := r.take(t, s, j); err != nil {
			return err
		}
	}
	return nil
}

// take takes the first job of a supply, unless its body is too much.
func (r *reserve) take(t *tx, s *supply, j *job) error {
	// A job that is over by the clock has been dropped by the step, unless that
	// ended at its bound; then this takes nothing of it and is repeated.
	alive, err := t.alive(j)
	if err != nil {
		return err
	}
	if s.next++; alive == nil {
		if r.more = true; j.OrderKey != "" {
			s.stale() // its place may be another's
		}
		return nil
	}
	if err := j.readBody(t.conn); err == errGone {
		return t.missOne(j)
	} else if err != nil {
		return err
	}

	suspect := j.Suspect(j.failures, j.stalls)
	if r.full = len(r.got) > 0 && (suspect || r.bytes+len(j.Body) > duly.MaxBatchBytes); r.full {
		s.next-- // for the next caller
		return nil
	}

	if j.q.group != nil {
		j.ended = r.fence() - 1
	}
	if err := s.leases.add(j, r.p.Lease); err != nil {
		return err
	}
	r.add(j, t.now, len(s.jobs)-s.next+1)
	r.full = suspect // it goes alone
	return nil
}

// add adds a delivery; there are left that it may be followed by.
func (r *reserve) add(j *job, now int64, left int) {
	if r.got == nil {
		r.got = make([]duly.Delivery, 0, min(r.p.Max, left))
	}
	r.got = append(r.got, duly.Delivery{})
	j.deliver(&r.got[len(r.got)-1], now)
	r.bytes += len(j.Body)
}

// leaseBatch leases jobs whose leases end at the same moment in one statement; those of
// a group must also have the same token.
type leaseBatch struct {
	t       *tx
	q       *queue
	end     int64
	ended   uint64
	numbers []duly.Number
}

func (b *leaseBatch) add(j *job, lease time.Duration) error {
	t, q := b.t, b.q
	end := t.leaseEnd(j, lease)
	if end != b.end || q.group != nil && j.ended != b.ended {
		if err := b.flush(); err != nil {
			return err
		}
		b.end, b.ended = end, j.ended
	}
	b.numbers = append(b.numbers, j.number)
	j.state, j.leaseEnd = duly.StateLeased, end
	q.delivered(t.now)
	return t.putEntries(j)
}

// delivered counts a delivery.
func (q *queue) delivered(now int64) {
	q.counters.Delivered++
	if q.cfg.Rate.Limited() {
		q.bucket = q.bucket.Fill(q.cfg.Rate, now).Take(1)
	}
}

func (b *leaseBatch) flush() error {
	name, lead := "lease_many", 2
	if b.q.group != nil {
		name, lead = "lease_messages_many", 3
	}
	err := b.t.many(name, b.q, b.numbers, func(s *sq.Stmt) int {
		if s.Int(1, b.end); lead == 3 {
			s.Int(2, int64(b.ended))
		}
		return lead
	})
	b.numbers = b.numbers[:0]
	return err
}

// deliver fills in a delivery of the job.
func (j *job) deliver(d *duly.Delivery, now int64) {
	*d = duly.Delivery{
		Job: j.public(), Receipt: j.receipt(), Attempt: j.Attempt(j.failures, j.stalls),
		Failures: j.failures, Stalls: j.stalls, LeaseEnd: clock.FromMilli(j.leaseEnd),
		Now: clock.FromMilli(max(now, j.DueAt)), PushedAt: clock.FromMilli(j.PushedAt), ExpiresAt: clock.FromMilli(j.ExpiresAt),
	}
}
