package sqliteengine

import (
	"context"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// Update implements contract.Operator.
func (e operatorAPI) Update(ctx context.Context, ref duly.QueueRef, id string, u duly.Update) error {
	if err := contract.ValidateUpdate(&u, e.cfg.MaxBody); err != nil {
		return err
	}
	if err := notForGroup(ref, "update"); err != nil {
		return err
	}

	u = copyUpdate(ctx, u)
	return e.onJob(ctx, ref, id, spaceLarge, func(t *tx, j *job) error {
		if !j.state.Waiting() {
			return conflict(j, "updated")
		}
		// ApplyUpdate may fail halfway, so it works on a copy.
		next := j.Planned
		if err := contract.ApplyUpdate(&u, &next, t.time); err != nil {
			return err
		}
		j.Planned = next
		if err := j.reschedule(t, u.Delay != nil || !u.Due.IsZero()); err != nil {
			return err
		}
		if u.Body == nil {
			return nil
		}
		return j.putBody(t)
	})
}

func conflict(j *job, what string) error {
	return contract.Conflict(j.state, "job %q is %s and can't be %s", j.ID, j.state, what)
}

// Promote implements contract.Operator.
func (e operatorAPI) Promote(ctx context.Context, ref duly.QueueRef, id string) error {
	if err := notForGroup(ref, "promote"); err != nil {
		return err
	}
	return e.onJob(ctx, ref, id, spaceNone, promoteNow)
}

// promoteNow makes a waiting job due now.
func promoteNow(t *tx, j *job) error {
	switch {
	case !j.state.Waiting():
		return conflict(j, "promoted")
	case j.state != duly.StateDelayed:
		return nil
	}
	// A due time in the past decides the order among ready jobs, so it is kept.
	j.DueAt = min(j.DueAt, t.now)
	return j.makeDue(t)
}

// PromoteJobs implements contract.Operator. It is one operation of a transaction.
func (e operatorAPI) PromoteJobs(ctx context.Context, ref duly.QueueRef, ids []string) ([]error, error) {
	if err := notForGroup(ref, "promote"); err != nil {
		return nil, err
	}
	if err := contract.ValidateIDs(ids); err != nil {
		return nil, err
	}

	var errs []error
	ids = copyList(ctx, ids)
	err := e.onQueue(ctx, ref, spaceNone, func(t *tx, q *queue) (err error) {
		errs, err = eachID(ids, func(id string) error { return q.onJob(t, ref, id, promoteNow) })
		return err
	})
	if err != nil {
		return nil, err
	}
	return errs, nil
}

// eachID calls do for each valid ID, in order, and returns the result of each ID. An error that is no
// refusal ends the loop, and is the error of the whole call.
func eachID(ids []string, do func(id string) error) ([]error, error) {
	errs := make([]error, len(ids))
	for i, id := range ids {
		err := contract.ValidateID(id)
		if err == nil {
			err = do(id)
		}
		if errs[i] = err; failureOnly(err) != nil {
			return nil, err
		}
	}
	return errs, nil
}

// purgeBound is how many jobs one transaction of a Purge deletes.
const purgeBound = 1000

// Purge implements contract.Operator. It runs one transaction after the other, so that other
// calls run in between. If it fails, it returns the number of jobs deleted so far.
func (e operatorAPI) Purge(ctx context.Context, ref duly.QueueRef, state duly.State, n int) (int, error) {
	if err := contract.ValidatePurge(state, n); err != nil {
		return 0, err
	}

	p := &purgeCall{state: state, left: int64(n), all: n == 0}
	for {
		// The transaction may run twice, so it works on a copy.
		var now purgeCall
		err := e.onQueue(ctx, ref, spaceNone, func(t *tx, q *queue) error {
			now = *p
			if q == nil {
				now.end = true
				return nil
			}
			return now.run(t, q)
		})
		if err != nil {
			return p.done, err
		}
		if *p = now; p.end {
			// The IDs are not known, so the whole queue is reported.
			if state == duly.StateLeased && p.done > 0 {
				e.cancels.Publish(ref.Normal().Namespace, contract.Canceled{Queue: ref.Name})
			}
			return p.done, nil
		}
	}
}

// purgeCall is one Purge call. It deletes in the order of the set, so it leaves out jobs that join
// the set during the call, for example by getting the order key of a purged job.
type purgeCall struct {
	state duly.State
	all   bool  // whether no number was given: the call deletes all jobs that are in the set at its beginning
	left  int64 // number of jobs still to delete
	from  cursor
	done  int
	end   bool
}

func (p *purgeCall) run(t *tx, q *queue) error {
	if p.all {
		p.all, p.left = false, *q.sizes.Of(p.state)
	}

	jobs, err := q.page(t, p.state, p.from, int(min(p.left, purgeBound)), false)
	if err != nil {
		return err
	}

	numbers := make([]duly.Number, len(jobs))
	for i := range jobs {
		numbers[i] = jobs[i].number
	}

	// The cursor is read before the deletions, because they may move the last job.
	if len(jobs) > 0 {
		p.from = jobs[len(jobs)-1].cursor()
	}

	for _, n := range numbers {
		// Deleting a job may have changed or deleted the next job.
		j, err := q.byNumber(t, n)
		if err != nil {
			return err
		}
		if j == nil || j.state != p.state {
			continue
		}
		if err := j.deleteCounted(t); err != nil {
			return err
		}
		p.done++
	}

	// A purge may write too few pages for a checkpoint, which looks for free pages as well.
	t.w.mayShrink = t.w.mayShrink || len(numbers) > 0
	p.left -= int64(len(numbers))
	p.end = p.left <= 0 || len(numbers) < purgeBound
	return nil
}

// Configure implements contract.Operator.
func (e operatorAPI) Configure(ctx context.Context, ref duly.QueueRef, patch duly.QueueConfig) error {
	if err := contract.ValidateQueue(ref); err != nil {
		return err
	}
	if err := contract.ValidateConfigFor(patch, ref); err != nil {
		return err
	}
	if patch.Shards > 1 {
		return contract.Errorf(duly.CodeUnsupported, "this engine supports only one shard per queue; omit shards")
	}

	return e.changeWithSpace(ctx, spaceLarge, func(t *tx) error {
		if err := t.checkKnown(ref.Normal()); err != nil {
			return err
		}
		q := t.queue(ref.Normal())
		if q != nil && patch.Reopen {
			q.reopen(t.now)
		}
		if q != nil && q.kind == kindGroup {
			return q.asGroup().configureGroup(t, patch)
		}
		return configureQueue(t, ref.Normal(), patch)
	})
}

// configureQueue changes the configuration of a queue, or creates the queue.
func configureQueue(t *tx, ref duly.QueueRef, patch duly.QueueConfig) error {
	is := contract.DefaultQueueConfig()
	if q := t.peek(ref); q != nil {
		// Jobs of a queue are either pulled or pushed, and existing jobs can't change that.
		if is = q.cfg; patch.Delivery != "" && patch.Delivery != is.Delivery && !q.isEmpty() {
			return contract.DeliveryInUse(ref, is.Delivery)
		}
	}
	cfg := contract.PatchConfig(is, patch)
	if err := contract.CheckConfig(cfg); err != nil {
		return err
	}

	q, err := t.makeQueue(ref, cfg)
	if err == nil {
		// Watchers of push queues must see a change in both directions.
		t.announce(q)
		q.cfg, q.cfgDirty = cfg, true
		q.configureLimiter()
		t.announce(q)
	}
	return err
}

// Pause implements contract.Operator.
func (e operatorAPI) Pause(ctx context.Context, ref duly.QueueRef) error {
	return e.setPaused(ctx, ref, true)
}

// Resume implements contract.Operator.
func (e operatorAPI) Resume(ctx context.Context, ref duly.QueueRef) error {
	return e.setPaused(ctx, ref, false)
}

func (e operatorAPI) setPaused(ctx context.Context, ref duly.QueueRef, paused bool) error {
	return e.onQueue(ctx, ref, spaceNone, func(t *tx, q *queue) error {
		if q == nil {
			return contract.Errorf(duly.CodeNotFound, "queue %s does not exist", ref)
		}
		q.cfg.Paused, q.cfgDirty = paused, true
		return nil
	})
}

// Destroy implements contract.Operator. The queue disappears at once, and maintenance deletes
// the rows of its jobs.
func (e operatorAPI) Destroy(ctx context.Context, ref duly.QueueRef) error {
	if err := contract.ValidateQueue(ref); err != nil {
		return err
	}

	err := e.change(ctx, func(t *tx) error {
		q := t.queue(ref.Normal())
		switch {
		case q == nil:
			return nil
		case q.kind == kindTopic:
			return contract.IsTopic(ref)
		case q.kind == kindGroup:
			q.asGroup().unlinkGroup(t)
		}
		return t.destroy(q)
	})
	if err == nil {
		e.cancels.Publish(ref.Normal().Namespace, contract.Canceled{Queue: ref.Name})
	}

	return err
}
