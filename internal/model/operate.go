package model

import (
	"context"
	"maps"
	"slices"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
)

// findJob begins an operation on one job that must exist by the clock. The caller ends the
// operation if there is no error.
func (e *Engine) findJob(ctx context.Context, ref duly.QueueRef, id string) (*shard, *job, error) {
	if err := contract.ValidateID(id); err != nil {
		return nil, nil, err
	}
	q, err := e.beginOn(ctx, ref)
	if err != nil {
		return nil, nil, err
	}
	_, now := e.now()
	err = q.checkID(id)
	if s, j := q.lookUp(id); err == nil && j != nil {
		// A job whose time is over is dropped here, as if a step had run before (C2.24).
		if j = s.alive(j, now); j != nil {
			return s, j, nil
		}
	}

	// A dead copy has the same ID as its message, so the cursor matters only if lookUp found
	// nothing.
	if err == nil && q.beyond(id) {
		err = contract.NotBeyondCursor(ref, id)
	}

	// The call to alive may have dropped a job and freed its order key, so e.end is called as after a
	// change.
	e.end()
	if err == nil {
		err = q.missing(ref, id)
	}
	return nil, nil, err
}

// Delete implements contract.Operator.
func (e *Engine) Delete(ctx context.Context, ref duly.QueueRef, id string) error {
	s, j, err := e.findJob(ctx, ref, id)
	if err != nil {
		return err
	}
	defer e.end()
	_, now := e.now()
	s.delete(j, now)
	ref = ref.Normal()

	// A worker may still run the job. It asks about its lease after this report (C4.97).
	e.cancels.Publish(ref.Namespace, contract.Canceled{Queue: ref.Name, IDs: []string{id}})
	return nil
}

// DeleteJobs implements contract.Operator.
func (e *Engine) DeleteJobs(
	ctx context.Context, ref duly.QueueRef, ids []string, state duly.State,
) ([]error, error) {
	if err := contract.ValidateDeleteJobs(ids, state); err != nil {
		return nil, err
	}
	q, err := e.beginOn(ctx, ref)
	if err != nil {
		return nil, err
	}
	defer e.end()

	var deleted []string
	errs := make([]error, len(ids))
	for i, id := range ids {
		if errs[i] = e.deleteIn(q, ref, id, state); errs[i] == nil {
			deleted = append(deleted, id)
		}
	}

	// Workers may still run the deleted jobs (C4.97).
	if len(deleted) > 0 && contract.MayRun(state) {
		e.cancels.Publish(ref.Normal().Namespace, contract.Canceled{Queue: ref.Name, IDs: deleted})
	}
	return errs, nil
}

// deleteIn deletes a job that is in a state by the clock. StateNone means any state.
func (e *Engine) deleteIn(q *queue, ref duly.QueueRef, id string, state duly.State) error {
	if err := contract.ValidateID(id); err != nil {
		return err
	}
	if err := q.checkID(id); err != nil {
		return err
	}
	_, now := e.now()
	s, j := q.lookUp(id)
	if j != nil {
		j = s.alive(j, now)
	}

	switch {
	case j == nil && q.beyond(id):
		return contract.NotBeyondCursor(ref, id)
	case j == nil:
		return q.missing(ref, id)
	}
	if is := s.stateNow(j, now); state != duly.StateNone && is != state {
		return contract.WrongState(id, is, state)
	}
	s.delete(j, now)
	return nil
}

func (s *shard) delete(j *job, now int64) {
	// A done job was already counted as acked. A job counts only once in the sum pushed = acked +
	// deleted + … (C4.59).
	if j.state != duly.StateDone {
		s.counters.Deleted++
	}
	s.probeLeft(j, now)
	s.gone(j, contract.EventDelete, now)
}

// Update implements contract.Operator.
func (e *Engine) Update(ctx context.Context, ref duly.QueueRef, id string, u duly.Update) error {
	if ref.IsGroup() {
		return notForGroup(ref, "update")
	}
	if err := contract.ValidateUpdate(&u, e.cfg.MaxBody); err != nil {
		return err
	}
	s, j, err := e.findJob(ctx, ref, id)
	if err != nil {
		return err
	}
	defer e.end()
	t, now := e.now()
	if !j.state.Waiting() {
		return s.conflict(j, contract.EventUpdate)
	}

	// The update is applied to a copy, so that an error leaves the job unchanged.
	next := j.Planned
	if err := contract.ApplyUpdate(&u, &next, t); err != nil {
		return err
	}
	next.Body, next.Headers = slices.Clone(next.Body), maps.Clone(next.Headers)
	s.replan(j, contract.EventUpdate, now, u.Delay != nil || !u.Due.IsZero(), func() { j.Planned = next })

	return nil
}

func (s *shard) conflict(j *job, e contract.Event) error {
	s.count(e, j.state, j.state)
	return contract.Conflict(j.state, "job %q is %s and can't be changed by %s", j.ID, j.state, e)
}

// Promote implements contract.Operator.
func (e *Engine) Promote(ctx context.Context, ref duly.QueueRef, id string) error {
	if ref.IsGroup() {
		return notForGroup(ref, "promote")
	}
	s, j, err := e.findJob(ctx, ref, id)
	if err != nil {
		return err
	}
	defer e.end()
	_, now := e.now()
	return s.promote(j, now)
}

// PromoteJobs implements contract.Operator.
func (e *Engine) PromoteJobs(ctx context.Context, ref duly.QueueRef, ids []string) ([]error, error) {
	if ref.IsGroup() {
		return nil, notForGroup(ref, "promote")
	}
	if err := contract.ValidateIDs(ids); err != nil {
		return nil, err
	}
	q, err := e.beginOn(ctx, ref)
	if err != nil {
		return nil, err
	}
	defer e.end()

	errs := make([]error, len(ids))
	for i, id := range ids {
		errs[i] = e.promoteIn(q, ref, id)
	}
	return errs, nil
}

func (e *Engine) promoteIn(q *queue, ref duly.QueueRef, id string) error {
	if err := contract.ValidateID(id); err != nil {
		return err
	}
	_, now := e.now()
	s, j := q.lookUp(id)
	if j != nil {
		j = s.alive(j, now)
	}
	if j == nil {
		return q.missing(ref, id)
	}
	return s.promote(j, now)
}

// promote makes a waiting job due now.
func (s *shard) promote(j *job, now int64) error {
	switch {
	case !j.state.Waiting():
		return s.conflict(j, contract.EventPromote)
	case j.state == duly.StateDelayed:
		// A job that is already due keeps its earlier due time, so Promote does not move it behind
		// other jobs.
		s.become(j, contract.EventPromote, now, func() { j.DueAt = min(j.DueAt, now) })
	default:
		s.count(contract.EventPromote, j.state, j.state)
	}
	return nil
}

// Requeue implements contract.Operator.
func (e *Engine) Requeue(ctx context.Context, ref duly.QueueRef, p duly.RequeueParams) ([]duly.RequeueResult, error) {
	if err := contract.ValidateRequeueFor(&p, ref); err != nil {
		return nil, err
	}
	q, err := e.beginOn(ctx, ref)
	if err != nil {
		return nil, err
	}
	defer e.end()

	// The IDs are chosen before any requeue, which changes the order of the dead.
	ids := p.IDs
	if q != nil && p.N > 0 {
		for _, j := range q.oldestDead(p.N) {
			ids = append(ids, j.ID)
		}
	}

	results := make([]duly.RequeueResult, len(ids))
	for i, id := range ids {
		results[i] = e.requeue(q, ref, id, &p)
	}
	return results, nil
}

// oldestDead returns the n oldest dead jobs of all shards.
func (q *queue) oldestDead(n int) (jobs []*job) {
	for _, s := range q.shards {
		// All n oldest jobs may be in one shard, so each shard contributes n.
		jobs = append(jobs, firstOf(s.sets[duly.StateDead].all(), n)...)
	}
	slices.SortFunc(jobs, byFinished)
	return jobs[:min(n, len(jobs))]
}

func (e *Engine) requeue(q *queue, ref duly.QueueRef, id string, p *duly.RequeueParams) duly.RequeueResult {
	r := duly.RequeueResult{ID: id}
	if r.Err = contract.ValidateID(id); r.Err != nil {
		return r
	}

	// In a group, an ID of another topic must give an error about the ID, not about a missing
	// message.
	if r.Err = q.checkID(id); r.Err != nil {
		return r
	}
	t, now := e.now()
	s, j := q.lookUp(id)
	if j != nil {
		j = s.alive(j, now)
	}

	switch {
	// A message beyond the cursor will be delivered anyway. Its old copy would come twice.
	case j != nil && j.state == duly.StateDead && q.beyond(id), j == nil && q.beyond(id):
		r.Err = contract.NotBeyondCursor(ref, id)
	case j == nil:
		r.Err = q.missing(ref, id)
	case j.state != duly.StateDead:
		s.count(contract.EventRequeue, j.state, j.state)
		r.Err = contract.Conflict(s.stateNow(j, now), "job %q is %s, not dead", id, s.stateNow(j, now))
	default:
		// A newer job with the merge key replaces this one (C4.68).
		if holder := s.merger(j, now); holder != nil {
			s.counters.Merged++
			s.gone(j, contract.EventRequeue, now)
			r.Merged = holder.ID
			return r
		}
		s.revive(j, p, now)
		if p.TTL > 0 {
			// place moves the job within its set, because the expiry is a sort key of the set
			// ending.
			s.place(j, j.state, func() { j.TTL, j.ExpiresAt = p.TTL, clock.CeilMilli(t.Add(p.TTL)) })
		}
		r.State = s.stateNow(j, now)
	}

	return r
}

// revive pushes a dead job now, under its old ID and number.
func (s *shard) revive(j *job, p *duly.RequeueParams, now int64) {
	s.counters.Requeued++
	s.become(j, contract.EventRequeue, now, func() {
		j.finished, j.requeued = 0, true

		// A message keeps its entry time, which decides its place among the ready messages.
		if !j.isMessage {
			j.DueAt, j.PushedAt = now, now
		}
		j.failures, j.stalls, j.lastError = 0, 0, ""
		if p.Tries != 0 {
			j.Tries = p.Tries
		}
	})

	// The job waits again, so the next push of its merge key must find it.
	s.holdMerge(j)
	s.overtake(j)
}

// Purge implements contract.Operator.
func (e *Engine) Purge(ctx context.Context, ref duly.QueueRef, state duly.State, n int) (int, error) {
	if err := contract.ValidatePurge(state, n); err != nil {
		return 0, err
	}
	q, err := e.beginOn(ctx, ref)
	if err != nil {
		return 0, err
	}
	defer e.end()
	if q == nil {
		return 0, nil
	}

	_, now := e.now()
	purged := 0
	for _, s := range q.shards {
		most := n - purged

		// Without a count, all jobs of the state are purged, shard by shard.
		if n == 0 {
			most = s.size(state)
		}
		jobs := firstOf(s.sets[state].all(), most)

		// firstOf has copied the jobs, because delete changes the set.
		for _, j := range jobs {
			s.delete(j, now)
		}
		purged += len(jobs)
	}

	// The report names the queue without IDs, because one call may remove many jobs.
	if state == duly.StateLeased && purged > 0 {
		e.cancels.Publish(ref.Normal().Namespace, contract.Canceled{Queue: ref.Name})
	}
	return purged, nil
}

// Configure implements contract.Operator.
func (e *Engine) Configure(ctx context.Context, ref duly.QueueRef, patch duly.QueueConfig) error {
	if err := contract.ValidateConfigFor(patch, ref); err != nil {
		return err
	}
	if patch.Shards > 1 && e.cfg.OneShard {
		return contract.Errorf(duly.CodeUnsupported, "this engine supports only one shard per queue; leave shards out")
	}

	q, err := e.beginOn(ctx, ref)
	if err != nil {
		return err
	}
	defer e.end()
	cfg := e.usual()

	// Every check comes before make: a refused Configure creates no queue (C4.87).
	if q != nil {
		cfg = q.cfg
		if err := q.mayOrder(patch.Group.Order); err != nil {
			return err
		}

		// A bridge pushes jobs into the target, and a topic takes no jobs.
		if to := patch.Group.Target; e.topics[duly.QueueRef{Namespace: q.ref.Namespace, Name: to}] != nil {
			return contract.TargetIsTopic(to)
		}

		// Jobs of a pull queue have no destination, so delivery changes only while the queue is empty.
		if patch.Delivery != "" && patch.Delivery != cfg.Delivery && !q.isEmpty() {
			return contract.DeliveryInUse(ref, cfg.Delivery)
		}
		if patch.Shards != 0 && patch.Shards != cfg.Shards {
			return contract.Invalid("shards", "is %d since the queue was created; to change it, destroy the queue and create it again", cfg.Shards)
		}
	}

	cfg = contract.PatchConfig(cfg, patch)
	if err := contract.CheckConfig(cfg); err != nil {
		return err
	}
	if q, err = e.make(ref, cfg); err == nil {
		// Both states matter: a queue that stops or begins to be a push queue changes the list.
		e.pushChanged(q) // the queue before the change
		q.configure(cfg)
		e.pushChanged(q)
		if patch.Reopen {
			_, now := e.now()
			q.reopen(now)
		}
	}

	return err
}

// reopen ends the closing of every shard, and its probing.
func (q *queue) reopen(now int64) {
	for _, s := range q.shards {
		s.closing = contract.Closing{}
		s.limiter.Reopen(now)
	}
}

// Pause implements contract.Operator.
func (e *Engine) Pause(ctx context.Context, ref duly.QueueRef) error {
	return e.setPaused(ctx, ref, true)
}

// Resume implements contract.Operator.
func (e *Engine) Resume(ctx context.Context, ref duly.QueueRef) error {
	return e.setPaused(ctx, ref, false)
}

func (e *Engine) setPaused(ctx context.Context, ref duly.QueueRef, paused bool) error {
	q, err := e.beginOn(ctx, ref)
	if err != nil {
		return err
	}
	defer e.end()

	// Only a push, Configure or PutSchedule creates a queue (C4.87).
	if q == nil {
		return contract.Errorf(duly.CodeNotFound, "no queue %s", ref)
	}
	cfg := q.cfg
	cfg.Paused = paused
	q.configure(cfg)
	return nil
}

// Destroy implements contract.Operator.
func (e *Engine) Destroy(ctx context.Context, ref duly.QueueRef) error {
	if err := contract.ValidateQueue(ref); err != nil {
		return err
	}
	if err := e.begin(ctx); err != nil {
		return err
	}
	defer e.end()
	ref = ref.Normal()

	// A topic has its own Destroy, which also removes its groups.
	if e.topics[ref] != nil {
		return contract.IsTopic(ref)
	}

	// A group that stays in its topic would keep the messages of the log.
	if topic, group, ok := ref.Group(); ok && e.topics[topic] != nil {
		delete(e.topics[topic].groups, group)
	}

	// Called while the queue still exists, so that its kind of delivery can be read.
	e.pushChanged(e.queues[ref])
	delete(e.queues, ref)

	// The receipts become invalid at once, and the workers must get a report.
	e.cancels.Publish(ref.Normal().Namespace, contract.Canceled{Queue: ref.Name})
	return nil
}
