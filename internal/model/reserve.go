package model

import (
	"context"
	"slices"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
)

// Reserve implements duly.Engine.
func (e *Engine) Reserve(ctx context.Context, p duly.ReserveParams) ([]duly.Delivery, error) {
	if err := contract.ValidateReserve(&p); err != nil {
		return nil, err
	}
	queues := refs(p.Namespace, p.Queues)
	if err := e.begin(ctx); err != nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.pass(queues, p.Dispatcher) // the caller has left
		return nil, err
	}
	defer e.end()
	for _, ref := range queues {
		err := e.known(ref)
		if q := e.find(ref); err == nil && q != nil && q.group != nil {
			err = contract.CheckGroupTarget(q.cfg.Group, ref, p.Target)
		}
		if err != nil {
			e.pass(queues, p.Dispatcher)
			return nil, err
		}
	}
	t, _ := e.now()
	take := &taking{engine: e, t: t, now: clock.Milli(t), lease: p.Lease, left: p.Max, dispatcher: p.Dispatcher}

	for i, ref := range queues {
		if q := e.find(ref); q != nil {
			if q.group != nil {
				q.group.reserved(p.Consumer, take.now)
			}
			take.queue(q, e.first(q, take.now))
		}
		if take.left == 0 || take.full {
			e.pass(queues[i+1:], p.Dispatcher) // the caller has enough jobs
			break
		}
	}

	return take.got, nil
}

// first returns the shard at which a Reserve begins: a random one.
func (e *Engine) first(q *queue, now int64) int {
	if e.cfg.First != nil {
		if shard, known := e.cfg.First(q.ref); known {
			return shard % len(q.shards)
		}
		return max(0, slices.IndexFunc(q.shards, func(s *shard) bool { return s.headSuspect(now) }))
	}
	n := duly.NewNumber() // the last byte of a number is random
	return int(n[len(n)-1]) % len(q.shards)
}

// taking is one Reserve in progress.
type taking struct {
	engine     *Engine
	t          time.Time
	now        int64
	lease      time.Duration
	dispatcher bool
	left       int
	bytes      int
	full       bool   // whether the next job does not fit into the answer
	token      uint64 // token for messages from groups; drawn for the first message
	got        []duly.Delivery
}

// queue takes jobs of one queue, from its shards one after the other. A queue that serves the other
// kind of callers is only stepped, like a paused queue.
func (t *taking) queue(q *queue, first int) {
	if q.serves(t.dispatcher) {
		q.woken = max(0, q.woken-1)
	}
	for i := range q.shards {
		s := q.shards[(first+i)%len(q.shards)]
		if t.shard(q, s); t.left == 0 || t.full {
			return
		}
	}
}

// shard takes the jobs of one shard. If a step or a round of ticks ended at its limit, it is
// repeated before the answer is empty.
func (t *taking) shard(q *queue, s *shard) {
	for {
		more := s.step(t.now)
		more = t.engine.fireDue(q, s) || more
		before, places := len(t.got), 0
		if q.serves(t.dispatcher) {
			// The step may have closed the shard for a time that has passed.
			s.closing = s.closing.Clip(t.now)
			// After a step back of the clock, the rate counts from now.
			if s.bucket.At > t.now && !s.cfg.Paused && !s.closed(t.now) {
				s.fillBucket(t.now)
			}
			places = min(t.left, s.open(t.now))
		}
		if s.reader != nil {
			more = t.fromGroup(s, places) || more
		} else {
			t.leaseReady(s, places)
		}
		if len(t.got) > before || !more || t.full {
			return
		}
	}
}

// leaseReady leases up to n ready jobs in order.
func (t *taking) leaseReady(s *shard, n int) {
	ready := s.sets[duly.StateReady]
	for n > 0 && ready.size > 0 && !t.full {
		j := s.alive(ready.first(), t.now)
		if j == nil {
			continue
		}

		suspect := contract.Suspect(&j.Planned.Job, j.failures, j.stalls)
		if t.full = len(t.got) > 0 && (suspect || t.bytes+len(j.Body) > duly.MaxBatchBytes); t.full {
			return
		}

		t.deliver(s, j)
		n--
		t.full = suspect
	}
}

// deliver leases one job.
func (t *taking) deliver(s *shard, j *job) {
	if j.isMessage {
		if t.token == 0 {
			t.token = newToken()
		}
		j.ended = t.token - 1 // the fence of a message is a token, not a count
	}
	t.got = append(t.got, s.lease(j, t.t, t.lease))
	t.bytes += len(j.Body)
	t.left--
}

// headSuspect reports whether the first deliverable job is a suspect.
func (s *shard) headSuspect(now int64) bool {
	ready := s.sets[duly.StateReady]
	if ready.size == 0 || s.open(now) == 0 {
		return false
	}
	j := ready.first()
	return contract.Suspect(&j.Planned.Job, j.failures, j.stalls)
}

// closed reports whether a release with Slow has closed the shard.
func (s *shard) closed(now int64) bool { return s.closing.Clip(now).Until != 0 }

// open returns how many more deliveries pause, closing and limits allow now.
func (s *shard) open(now int64) int {
	if s.cfg.Paused || s.closed(now) {
		return 0
	}
	n, limits := int(^uint(0)>>1), s.limits()
	if limits.MaxLeased != duly.None {
		n = max(0, limits.MaxLeased-s.size(duly.StateLeased))
	}
	if limits.Rate.Limited() {
		n = min(n, s.bucket.Fill(limits.Rate, now).Free(limits.Rate))
	}
	if most := s.limiter.Most(); most >= 0 {
		n = min(n, most)
	}
	return n
}

// lease hands the job out.
func (s *shard) lease(j *job, t time.Time, lease time.Duration) duly.Delivery {
	now := clock.Milli(t)
	if lease == 0 {
		lease = j.Lease
	}

	s.fillBucket(now)
	s.noteDelivery(j, now)

	// The lease end is rounded up: a lease never ends early (C1.9).
	s.move(j, contract.EventReserve, duly.StateLeased, func() { j.leaseEnd = clock.CeilMilli(t.Add(lease)) })

	// The key goes to the next push, because the running job works on old data (C7.9).
	if j.Merge.Until != duly.UntilDone {
		s.freeMerge(j)
	}
	if s.cfg.Rate.Limited() {
		s.bucket = s.bucket.Take(1)
	}
	s.counters.Delivered++
	return duly.Delivery{
		Job: j.public(duly.StateLeased, true), Receipt: s.receipt(j), Attempt: contract.Attempt(&j.Planned.Job, j.failures, j.stalls),
		Failures: j.failures, Stalls: j.stalls, LeaseEnd: clock.FromMilli(j.leaseEnd),
		Now: clock.FromMilli(max(now, j.DueAt)), PushedAt: clock.FromMilli(j.PushedAt), ExpiresAt: clock.FromMilli(j.ExpiresAt),
	}
}
