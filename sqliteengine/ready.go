package sqliteengine

import (
	"math"
	"slices"

	"github.com/dulymq/duly"
)

// Reserves of one transaction share their work on a queue. The queue is
// stepped once and its ready jobs are read once. The jobs are assigned in the order of
// the calls, up to each call's limit, and leased by one statement at the end. Jobs that
// were read but not assigned stay unchanged.

// keptBuffers is how many buffers keep their memory for the next transaction. There may
// be one for every queue.
const keptBuffers = 4

// readyBuffer buffers the ready jobs of one queue for the Reserves of a transaction.
type readyBuffer struct {
	q      *queue
	more   bool  // whether the step of the queue ended at its limit
	jobs   []job // ready jobs in delivery order
	next   int   // index of the first unassigned job
	used   int   // the largest length that jobs had in this transaction
	last   bool  // whether no ready jobs follow
	leases leaseBatch
	new    newMessages // new messages, for a group
}

// readyBuffers holds the buffers of a transaction.
type readyBuffers []readyBuffer

// of returns the buffer of a queue. The first call in a transaction steps the queue.
func (b *readyBuffers) of(t *tx, q *queue) (*readyBuffer, error) {
	if q.readyBuf > 0 {
		return &(*b)[q.readyBuf-1], nil
	}

	more, err := q.step(t)
	if err != nil {
		return nil, err
	}

	if q.group != nil {
		// A delayed message that is due may be the next message of the group.
		if topic := q.asGroup().topic(t); !topic.missing() {
			due, err := topic.enterDue(t)
			if err != nil {
				return nil, err
			}
			more = more || due
		}
	}

	n := len(*b)
	// The buffer of an earlier transaction keeps its memory.
	*b = slices.Grow(*b, 1)[:n+1]
	q.readyBuf = n + 1
	s := &(*b)[n]
	*s = readyBuffer{q: q, more: more, jobs: s.jobs[:0], leases: leaseBatch{t: t, q: q, numbers: s.leases.numbers[:0]},
		new: newMessages{all: s.new.all[:0], leased: s.new.leased[:0]}}
	return s, nil
}

// first returns the first unassigned job for a caller that wants n, or nil if there is
// none.
func (s *readyBuffer) first(t *tx, n int) (*job, error) {
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

// read reads as many jobs as this caller and the waiting callers want.
func (s *readyBuffer) read(t *tx, n int) (err error) {
	// Assigned jobs are still ready in the table, so without a flush the read would return them
	// again.
	if err := s.leases.flush(); err != nil {
		return err
	}
	n = min(max(n, t.wanted(s.q.ref)), duly.MaxBatch, s.q.allowance(t.now))
	s.jobs, err = t.collectInto(s.jobs, t.stmt("ready_first").Int(1, s.q.id).Int(2, int64(n)), s.q, math.MaxInt)
	// Fewer than n jobs do not mean the end, because unreadable rows are skipped.
	s.next, s.last, s.used = 0, len(s.jobs) == 0, max(s.used, len(s.jobs))
	return err
}

// discard discards the unassigned jobs, because they may no longer be the first jobs of the queue.
func (s *readyBuffer) discard() { s.jobs, s.next, s.last = s.jobs[:0], 0, false }

// flush leases the assigned jobs.
func (b *readyBuffers) flush(t *tx) error {
	for i := range *b {
		s := &(*b)[i]
		if err := s.leases.flush(); err != nil {
			return err
		}
		if err := s.flushNew(t); err != nil {
			return err
		}
	}
	b.reset()
	return nil
}

func (b *readyBuffers) reset() {
	for i := range *b {
		s := &(*b)[i]
		// The bodies can then be freed.
		clear(s.jobs[:s.used])
		clear(s.new.all)
		if i >= keptBuffers || cap(s.jobs) > 2*duly.MaxBatch {
			s.jobs, s.new = nil, newMessages{}
		}
		s.q.readyBuf, s.q, s.used = 0, nil, 0
	}
	*b = (*b)[:0]
}
