package sqliteengine

import (
	"math"
	"slices"

	"github.com/dulymq/duly"
)

// Callers of Reserve that meet in one transaction share what they take from a
// queue: it is stepped once, its ready jobs are read once for all of them, are
// handed out in the order in which the callers came, each up to what he may
// take, and are leased by one statement at the end. What was read and goes to
// nobody stays as it was.

// keptSupplies is of how many supplies a transaction leaves the room to the
// next one: there may be as many as queues.
const keptSupplies = 4

// supply is the ready jobs of one queue for the callers of a transaction.
type supply struct {
	q      *queue
	more   bool  // the step of the queue ended at its bound
	jobs   []job // as they were read, in delivery order
	next   int   // the first of them that nobody has got
	used   int   // of jobs, by any read
	last   bool  // there are none behind them
	leases leaseBatch
	news   news // of a group
}

// supplyOf is the supply of a queue, begun with a step if this is the first
// caller who asks for it.
func (t *tx) supplyOf(q *queue) (*supply, error) {
	if q.supply > 0 {
		return &t.supplies[q.supply-1], nil
	}

	more, err := t.step(q)
	if err != nil {
		return nil, err
	}

	if q.group != nil {
		if topic := t.topicOf(q); topic != nil {
			due, err := t.enterDue(topic)
			if err != nil {
				return nil, err
			}
			more = more || due
		}
	}

	n := len(t.supplies)
	t.supplies = slices.Grow(t.supplies, 1)[:n+1] // one of before, with the room that it had
	q.supply = n + 1
	s := &t.supplies[n]
	*s = supply{q: q, more: more, jobs: s.jobs[:0], leases: leaseBatch{t: t, q: q, numbers: s.leases.numbers[:0]},
		news: news{all: s.news.all[:0], held: s.news.held[:0]}}
	return s, nil
}

// first is the first job that nobody has got yet, for a caller who may take n;
// nil if there is none.
func (s *supply) first(t *tx, n int) (*job, error) {
	if s.next == len(s.jobs) && !s.last {
		if err := s.read(t, n); err != nil {
			return nil, err
		}
	}
	if s.next == len(s.jobs) {
		return nil, nil
	}
	return &s.jobs[s.next], nil
}

// read reads what this caller may take, and those behind him want.
func (s *supply) read(t *tx, n int) (err error) {
	if err := s.leases.flush(); err != nil {
		return err
	}
	n = min(max(n, t.wanted(s.q.ref)), duly.MaxBatch, s.q.open(t.now))
	s.jobs, err = t.collectInto(s.jobs, t.stmt("ready_first").Int(1, s.q.id).Int(2, int64(n)), s.q, math.MaxInt)
	s.next, s.last, s.used = 0, len(s.jobs) == 0, max(s.used, len(s.jobs)) // fewer than n: some may have been unreadable
	return err
}

// stale forgets what nobody has got: it may no longer be what comes first.
func (s *supply) stale() { s.jobs, s.next, s.last = s.jobs[:0], 0, false }

// wanted is how many jobs of a queue the callers want who come next, the one
// whose turn it is with them. It does not look far, for there may be as many
// queues as callers.
func (t *tx) wanted(ref duly.QueueRef) (n int) {
	for _, o := range t.turns[:min(len(t.turns), widths[0])] {
		if r := o.reserve; r != nil && r.p.Namespace == ref.Namespace && slices.Contains(r.p.Queues, ref.Name) {
			n += r.p.Max
		}
	}
	return n
}

// flushSupplies leases what was handed out.
func (t *tx) flushSupplies() error {
	for i := range t.supplies {
		s := &t.supplies[i]
		if err := s.leases.flush(); err != nil {
			return err
		}
		if err := s.flushNews(t); err != nil {
			return err
		}
	}
	t.clearSupplies()
	return nil
}

func (t *tx) clearSupplies() {
	for i := range t.supplies {
		s := &t.supplies[i]
		clear(s.jobs[:s.used]) // they hold bodies
		clear(s.news.all)
		if i >= keptSupplies || cap(s.jobs) > 2*duly.MaxBatch {
			s.jobs, s.news = nil, news{}
		}
		s.q.supply, s.q, s.used = 0, nil, 0
	}
	t.supplies = t.supplies[:0]
}
