package sqliteengine

import (
	"context"

	"github.com/dulymq/duly"
)

var _ duly.Operator = (*Engine)(nil)

// onJob runs an operation on one job that is there by the clock.
func (e *Engine) onJob(ctx context.Context, ref duly.QueueRef, id string, n needs, run func(t *tx, j *job) error) error {
	if err := duly.ValidateID(id); err != nil {
		return err
	}
	return e.onQueue(ctx, ref, n, func(t *tx, q *queue) error {
		if q == nil {
			return duly.NotFound(ref, id)
		}
		j, err := t.find(q, id)
		if err != nil {
			return err
		}
		if j == nil {
			return t.missing(q, id)
		}
		return run(t, j)
	})
}

// onQueue runs an operation on one queue, nil for an unknown one.
func (e *Engine) onQueue(ctx context.Context, ref duly.QueueRef, n needs, run func(t *tx, q *queue) error) error {
	if err := ref.Validate(); err != nil {
		return err
	}
	ref = ref.Normal()
	return e.add(ctx, n, func(t *tx) error {
		if err := t.known(ref); err != nil {
			return err
		}
		return run(t, t.queue(ref))
	})
}

// Update implements duly.Operator.
func (e *Engine) Update(ctx context.Context, ref duly.QueueRef, id string, u duly.Update) error {
	if err := u.Validate(e.cfg.MaxBody); err != nil {
		return err
	}
	if err := notForGroup(ref, "update"); err != nil {
		return err
	}

	u = keepUpdate(ctx, u)
	return e.onJob(ctx, ref, id, needsRoom, func(t *tx, j *job) error {
		if !j.state.Waiting() {
			return conflict(j, "updated")
		}
		next := j.Planned
		if err := u.Apply(&next, t.t); err != nil {
			return err
		}
		j.Planned = next
		if err := t.replan(j, u.Delay != nil || !u.Due.IsZero()); err != nil {
			return err
		}
		if u.Body == nil {
			return nil
		}
		return t.putBody(j)
	})
}

func conflict(j *job, what string) error {
	return duly.Conflict(j.state, "job %q is %s and can't be %s", j.ID, j.state, what)
}

// Promote implements duly.Operator.
func (e *Engine) Promote(ctx context.Context, ref duly.QueueRef, id string) error {
	if err := notForGroup(ref, "promote"); err != nil {
		return err
	}
	return e.onJob(ctx, ref, id, needsNothing, func(t *tx, j *job) error {
		switch {
		case !j.state.Waiting():
			return conflict(j, "promoted")
		case j.state != duly.StateDelayed:
			return nil
		}
		j.DueAt = min(j.DueAt, t.now)
		return t.fallDue(j)
	})
}

// purgeBound is how many jobs one transaction of a purge removes.
const purgeBound = 1000

// Purge implements duly.Operator. It goes on transaction by transaction, so
// that others get their turn; one that is cut short has removed what it had
// counted so far.
func (e *Engine) Purge(ctx context.Context, ref duly.QueueRef, state duly.State, n int) (int, error) {
	if err := duly.ValidatePurge(state, n); err != nil {
		return 0, err
	}

	p := &purge{state: state, left: int64(n), all: n == 0}
	for {
		var now purge // the state of p after this transaction, which may run twice
		err := e.onQueue(ctx, ref, needsNothing, func(t *tx, q *queue) error {
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
			if state == duly.StateLeased && p.done > 0 {
				e.cancels.Publish(ref.Normal().Namespace, duly.Canceled{Queue: ref.Name})
			}
			return p.done, nil
		}
	}
}

// purge is one call of Purge under way. It walks the set in its order and so
// leaves alone what joins it on the way, such as jobs that become ready because
// a purged one gave up its order key.
type purge struct {
	state duly.State
	all   bool  // no number was given: as many as there are at the beginning
	left  int64 // still to remove
	from  cursor
	done  int
	end   bool
}

func (p *purge) run(t *tx, q *queue) error {
	if p.all {
		p.all, p.left = false, *q.sizes.Of(p.state)
	}

	jobs, err := t.page(q, p.state, p.from, int(min(p.left, purgeBound)), false)
	if err != nil {
		return err
	}

	numbers := make([]duly.Number, len(jobs))
	for i := range jobs {
		numbers[i] = jobs[i].number
	}

	if len(jobs) > 0 {
		p.from = jobs[len(jobs)-1].cursor()
	}

	for _, n := range numbers {
		// Read again: removing one may have changed another.
		j, err := t.byNumber(q, n)
		if err != nil {
			return err
		}
		if j == nil || j.state != p.state {
			continue
		}
		if err := t.remove(j); err != nil {
			return err
		}
		p.done++
	}

	p.left -= int64(len(numbers))
	p.end = p.left <= 0 || len(numbers) < purgeBound
	return nil
}

// Configure implements duly.Operator.
func (e *Engine) Configure(ctx context.Context, ref duly.QueueRef, patch duly.QueueConfig) error {
	if err := ref.Validate(); err != nil {
		return err
	}
	if err := patch.ValidateFor(ref); err != nil {
		return err
	}
	if patch.Shards > 1 {
		return duly.Errorf(duly.CodeUnsupported, "this engine keeps a queue in one shard; leave shards out")
	}

	return e.add(ctx, needsRoom, func(t *tx) error {
		if err := t.known(ref.Normal()); err != nil {
			return err
		}
		if q := t.queue(ref.Normal()); q != nil && q.kind == kindGroup {
			return t.configureGroup(q, patch)
		}
		return t.configure(ref.Normal(), patch)
	})
}

// configure changes the configuration of a queue, or makes the queue.
func (t *tx) configure(ref duly.QueueRef, patch duly.QueueConfig) error {
	is := duly.DefaultQueueConfig()
	if q := t.peek(ref); q != nil {
		if is = q.cfg; patch.Delivery != "" && patch.Delivery != is.Delivery && !q.isEmpty() {
			return duly.DeliveryInUse(ref, is.Delivery)
		}
	}
	cfg := is.With(patch)
	if err := cfg.CheckWhole(); err != nil {
		return err
	}

	q, err := t.makeQueue(ref, cfg)
	if err == nil {
		t.announce(q) // as it was
		q.cfg, q.cfgDirty = cfg, true
		t.announce(q)
	}
	return err
}

// Pause implements duly.Operator.
func (e *Engine) Pause(ctx context.Context, ref duly.QueueRef) error {
	return e.setPaused(ctx, ref, true)
}

// Resume implements duly.Operator.
func (e *Engine) Resume(ctx context.Context, ref duly.QueueRef) error {
	return e.setPaused(ctx, ref, false)
}

func (e *Engine) setPaused(ctx context.Context, ref duly.QueueRef, paused bool) error {
	return e.onQueue(ctx, ref, needsNothing, func(t *tx, q *queue) error {
		if q == nil {
			return duly.Errorf(duly.CodeNotFound, "no queue %s", ref)
		}
		q.cfg.Paused, q.cfgDirty = paused, true
		return nil
	})
}

// Destroy implements duly.Operator. The queue is gone with the answer; the rows
// of its jobs are removed by and by.
func (e *Engine) Destroy(ctx context.Context, ref duly.QueueRef) error {
	if err := ref.Validate(); err != nil {
		return err
	}

	err := e.change(ctx, func(t *tx) error {
		q := t.queue(ref.Normal())
		switch {
		case q == nil:
			return nil
		case q.kind == kindTopic:
			return duly.IsTopic(ref)
		case q.kind == kindGroup:
			t.unlinkGroup(q)
		}
		return t.destroy(q)
	})
	if err == nil {
		e.cancels.Publish(ref.Normal().Namespace, duly.Canceled{Queue: ref.Name})
	}

	return err
}
