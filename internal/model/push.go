package model

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
)

// Push implements duly.Engine.
func (e *Engine) Push(ctx context.Context, jobs []duly.Job) ([]duly.PushResult, error) {
	if err := contract.CheckBatch(len(jobs), contract.BodyBytes(jobs)); err != nil {
		return nil, err
	}
	if err := e.begin(ctx); err != nil {
		return nil, err
	}
	defer e.end()
	results := make([]duly.PushResult, len(jobs))

	// Numbers of one queue must rise within the call. Otherwise the jobs would be delivered in
	// another order (C6.2).
	last := map[duly.QueueRef]duly.Number{}
	for i := range jobs {
		ref := refOf(&jobs[i])
		number := inTurn(&jobs[i], last[ref])
		last[ref] = number
		results[i] = e.push(jobs[i], ref, number)
	}
	return results, nil
}

func refOf(j *duly.Job) duly.QueueRef {
	return duly.QueueRef{Namespace: j.Namespace, Name: j.Queue}.Normal()
}

// inTurn returns the number for a job. It is the job's ID if the client created the ID for this
// push, and the ID is higher than the number of the job before it. Otherwise it is a new number.
func inTurn(j *duly.Job, last duly.Number) duly.Number {
	if n, ok := duly.ParseNumber(j.ID); ok && j.Made && slices.Compare(n[:], last[:]) > 0 {
		return n
	}
	return duly.NewNumber()
}

// push checks in the contract's order: invalid, exists, merged, full.
func (e *Engine) push(j duly.Job, ref duly.QueueRef, number duly.Number) duly.PushResult {
	t, _ := e.now()
	cfg := contract.ConfigForNew(e.usual(), &j)

	// A job's callback decides about the delivery of a new queue only.
	if q := e.find(ref); q != nil {
		cfg = q.cfg
	}

	// The caller may reuse its slices and maps after Push.
	j.Body, j.Headers = slices.Clone(j.Body), maps.Clone(j.Headers)
	p, err := e.plan(j, cfg, t)
	if err != nil {
		return duly.PushResult{ID: j.ID, Err: err}
	}

	// The queue is created after the job was checked, because an invalid job must create no queue.
	q, err := e.make(ref, cfg)
	if err != nil {
		return duly.PushResult{ID: j.ID, Err: err}
	}
	if j.ID == "" {
		number, _ = duly.ParseNumber(p.ID)
	}
	return q.store(p, number, clock.Milli(t))
}

// store adds a planned job, unless it exists, is merged, or finds the queue full.
func (q *queue) store(p contract.Planned, number duly.Number, now int64) duly.PushResult {
	// The order of the checks is the contract's: exists, merged, full (C2.36).
	s := q.of(p.ID)
	next := &job{Planned: p}
	if old := s.alive(s.byID[p.ID], now); old != nil {
		s.count(contract.EventPush, old.state, old.state)
		return duly.PushResult{ID: p.ID, Status: duly.Exists, State: s.stateNow(old, now)}
	}
	if holder := s.merger(next, now); holder != nil {
		s.mergeInto(holder, next, now)
		return duly.PushResult{ID: holder.ID, Status: duly.Merged}
	}

	// MaxJobs comes last, so a repeat and a merge succeed on a full queue.
	if s.cfg.MaxJobs != duly.None && s.held() >= s.cfg.MaxJobs {
		return duly.PushResult{ID: p.ID, Err: contract.QueueFull(q.ref, q.cfg.MaxJobs)}
	}

	next.number = s.free(number)
	s.counters.Pushed++
	s.enter(next, now)

	return duly.PushResult{ID: p.ID, Status: duly.Created}
}

// plan validates and plans a job for a queue with the given configuration.
func (e *Engine) plan(j duly.Job, cfg duly.QueueConfig, now time.Time) (contract.Planned, error) {
	if err := contract.ValidateJob(&j, e.cfg.MaxBody); err != nil {
		return contract.Planned{}, err
	}
	if err := contract.CheckShard(&j, cfg.Shards); err != nil {
		return contract.Planned{}, err
	}
	p, err := contract.PlanJob(j, &cfg, now, e.cfg.MaxBody)

	// The ID comes after the checks. Its shard depends on the keys of the job.
	if p.ID == "" {
		p.ID, p.Made = duly.MakeID(&p.Job), true
	}
	return p, err
}

// free returns the number, or a new number if another job has it.
func (s *shard) free(number duly.Number) duly.Number {
	if s.byNumber[number] != nil {
		return duly.NewNumber()
	}
	return number
}

// enter adds a new or requeued job to the shard. Its due time decides its state.
func (s *shard) enter(j *job, now int64) {
	to := duly.StateDelayed
	if j.DueAt <= now {
		to = s.dueState(j, now)
	}
	s.place(j, to, nil)
	s.holdMerge(j)

	// Under replace, a running job of the key is outdated now (C7.10).
	s.overtake(j)
}

// mergeInto lets a push change the job that holds its merge key.
func (s *shard) mergeInto(holder, next *job, now int64) {
	// A merged push counts as pushed and as merged. So the sum pushed = merged + acked + … holds
	// (C4.59).
	s.counters.Pushed++
	s.counters.Merged++
	if next.Merge.Mode == duly.MergeKeep {
		s.count(contract.EventMerge, holder.state, holder.state)

		// Only the expiry changes, and it is the sort key of the set ending.
		s.place(holder, holder.state, func() { holder.Keep(&next.Planned) })
		return
	}
	if holder.state == duly.StateLeased { // the running delivery keeps the old data
		s.count(contract.EventMerge, holder.state, holder.state)
		return
	}
	s.replan(holder, contract.EventMerge, now, true, func() {
		holder.Replace(&next.Planned)
		// The last write wins, so the earlier failures no longer count (C7.5).
		holder.failures, holder.stalls, holder.lastError = 0, 0, ""
	})
	s.overtake(holder)
}
