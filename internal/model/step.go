package model

import (
	"context"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
)

// stepBound is the number of jobs of each kind that one step moves at most.
const stepBound = 1000

// Step implements contract.Maintainer.
func (e *Engine) Step(ctx context.Context, ref duly.QueueRef) (more bool, err error) {
	if err := contract.ValidateQueue(ref); err != nil {
		return false, err
	}
	if err := e.begin(ctx); err != nil {
		return false, err
	}
	defer e.end()
	_, now := e.now()
	if t := e.topics[ref.Normal()]; t != nil {
		return t.step(now), nil
	}
	if q := e.find(ref); q != nil {
		more = q.step(now)
		for _, s := range q.shards {
			more = e.fireDue(q, s) || more
		}
	}
	return more, nil
}

// Sweep implements contract.Maintainer.
func (e *Engine) Sweep(ctx context.Context) error {
	if err := e.begin(ctx); err != nil {
		return err
	}
	defer e.end()
	_, now := e.now()
	for _, q := range e.queues {
		for q.step(now) {
		}
		e.fireAll(q)
	}
	for _, t := range e.topics {
		for t.step(now) {
		}
	}
	return nil
}

// step steps every shard to the current time. more reports whether one of them ended at its limit.
func (q *queue) step(now int64) (more bool) {
	for _, s := range q.shards {
		more = s.step(now) || more
	}
	return more
}

// step steps the shard to the current time. more reports whether it ended at its limit.
func (s *shard) step(now int64) (more bool) {
	n := 0

	// Expired jobs are dropped first, because a stall or a due time must not make one of them
	// ready.
	for ; n < stepBound && s.ending.size > 0 && s.ending.first().over(now); n++ {
		s.drop(s.ending.first(), now)
	}
	more = n == stepBound
	leased := s.sets[duly.StateLeased]
	for n = 0; n < stepBound && leased.size > 0 && leased.first().leaseEnd <= now; n++ {
		s.stall(leased.first(), now)
	}
	more = more || n == stepBound
	delayed := s.sets[duly.StateDelayed]

	// Due jobs become ready one by one in (due, number) order (C6.5).
	for n = 0; n < stepBound && delayed.size > 0 && delayed.first().DueAt <= now; n++ {
		j := delayed.first()
		to := s.readyOrBlocked(j, now)
		s.move(j, contract.EventDue, to, func() { j.DueAt = j.dueIn(to, j.DueAt) })
	}
	more = more || n == stepBound
	more = s.trim(duly.StateDead, now, stepBound) || more
	return s.trim(duly.StateDone, now, stepBound) || more
}

// trim drops the oldest dead or done jobs that exceed a limit, but at most `most` of them.
func (s *shard) trim(state duly.State, now int64, most int) (more bool) {
	set := s.sets[state]
	for n := 0; set.size > 0 && s.overBound(set.first(), set.size, now); n++ {
		if n == most {
			return true
		}
		if state == duly.StateDead {
			s.counters.Dropped++
		}
		s.gone(set.first(), contract.EventTrim, now)
	}
	return false
}

func (s *shard) overBound(oldest *job, size int, now int64) bool {
	if oldest.state == duly.StateDone {
		// Jobs whose Retain has ended are dropped as expired.
		return size > contract.ShardPart(duly.MaxDone, s.cfg.Shards, s.index)
	}
	byCount := s.cfg.DeadCount != duly.None && size > s.cfg.DeadCount
	byAge := s.cfg.DeadAge != duly.None && past(oldest.finished+clock.Millis(s.cfg.DeadAge), now)
	return byCount || byAge
}

// Check implements contract.Maintainer: it compares the sets with the records. The model has no
// storage that could be damaged, so a fault means a bug in the model.
func (e *Engine) Check(ctx context.Context, p contract.CheckParams) (contract.CheckReport, error) {
	if err := e.begin(ctx); err != nil {
		return contract.CheckReport{}, err
	}
	defer e.mu.Unlock()
	var r contract.CheckReport
	for ref, q := range e.queues {
		looked := &r.Jobs
		if _, _, isGroup := ref.Group(); isGroup {
			looked = &r.Messages
		}
		for _, s := range q.shards {
			*looked += int64(s.held() + s.size(duly.StateDead) + s.size(duly.StateDone))
			r.Faults = append(r.Faults, s.check()...)
		}
		if p.Progress != nil {
			p.Progress(r.Jobs+r.Messages, r.Jobs+r.Messages)
		}
	}
	for _, t := range e.topics {
		for _, l := range t.logs {
			r.Messages += int64(len(l.delayed))
		}
	}
	return r, nil
}

func (s *shard) check() (faults []contract.Fault) {
	fault := func(kind, id string) {
		faults = append(faults, contract.Fault{Kind: kind, Queue: s.ref, ID: id})
	}
	n := 0
	for state, set := range s.sets {
		n += set.size
		for j := range set.all() {
			if j.state != state || !s.finds(j) {
				fault("misplaced", j.ID)
			}
			if j.state == duly.StateReady && s.keyOf(j) != "" && s.heads[j.OrderKey] != j {
				fault("ready_without_key", j.ID)
			}
			if j.state == duly.StateBlocked && s.heads[j.OrderKey] == nil {
				fault("blocked_by_nobody", j.ID)
			}
		}
	}

	if copies := s.copies(); n != len(s.byID)+copies || n != len(s.byNumber)+copies {
		fault("counters_differ", "")
	}
	if s.reader != nil {
		return append(faults, s.checkReader()...)
	}
	s.schedules.check(fault)
	for _, j := range s.heads {
		if s.byID[j.ID] != j {
			fault("key_without_head", j.ID)
		}
	}

	for _, j := range s.merges {
		if s.byID[j.ID] != j || j.state == duly.StateLeased && j.Merge.Until != duly.UntilDone {
			fault("merge_key_held_wrongly", j.ID)
		}
	}

	c := s.counters
	if c.Pushed != c.Acked+c.Merged+c.Expired+c.Deleted+c.Dropped+int64(s.held()+s.size(duly.StateDead)) {
		fault("not_conserved", "")
	}
	return faults
}
