package model

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/schedule"
)

// DueSchedules implements contract.Firer.
func (e *Engine) DueSchedules(ctx context.Context, ref duly.QueueRef, shard int, cursor string) (
	due contract.DueSchedules, err error,
) {
	if err := contract.ValidateSchedules(ref, &duly.PageParams{}); err != nil {
		return due, err
	}
	from, err := readScheduleCursor(cursor)
	if err != nil {
		return due, err
	}
	q, err := e.beginOn(ctx, ref)
	if err != nil {
		return due, err
	}
	defer e.mu.Unlock()
	_, due.Now = e.now()

	// An unknown queue reads as empty (C4.86), and its TTL as unset.
	due.TTL = duly.None
	if q == nil || shard < 0 || shard >= len(q.shards) {
		return due, nil
	}

	due.TTL = q.cfg.Defaults.TTL

	// Copies: the caller reads the records after the lock is released.
	for _, r := range behindCursor(q.shards[shard].schedules.due(due.Now), from) {
		if len(due.Schedules) == contract.MaxDue {
			due.Next = from.String()
			break
		}
		due.Schedules = append(due.Schedules, r.copy())
		from = scheduleCursor{shard, r.place(), r.Name}
	}
	return due, nil
}

// Fire implements contract.Firer.
func (e *Engine) Fire(ctx context.Context, ref duly.QueueRef, items []contract.FireItem) (
	[]contract.FireResult, error,
) {
	if err := contract.ValidateSchedules(ref, &duly.PageParams{}); err != nil {
		return nil, err
	}

	// Bodies of a call are bounded together (C4.6), so the sum comes before any item.
	size := 0
	for i := range items {
		if items[i].Job != nil {
			size += len(items[i].Job.Body)
		}
	}
	if err := contract.CheckBatch(len(items), size); err != nil {
		return nil, err
	}
	q, err := e.beginOn(ctx, ref)
	if err != nil {
		return nil, err
	}
	defer e.end()

	results := make([]contract.FireResult, len(items))
	for i := range items {
		if results[i].Err = items[i].Validate(); results[i].Err == nil {
			results[i] = e.fire(q, &items[i])
		}
	}
	return results, nil
}

// fire processes one item. It changes nothing unless the result is FireFired. The queue may
// be nil.
func (e *Engine) fire(q *queue, item *contract.FireItem) (result contract.FireResult) {
	t, now := e.now()
	r := q.schedule(item.Name)

	// A nil record is passed to Refuses as well, so that only Refuses decides about a deleted
	// schedule.
	var record *contract.ScheduleRecord
	if r != nil {
		record = &r.ScheduleRecord
	}
	if result.Status = item.Refuses(record, now); result.Status != 0 {
		return result
	}

	if item.Job != nil {
		// r.Last is read before Advance overwrites it below.
		result.Run = e.pushRun(q, item, r.Last, t)

		// A full queue leaves the tick due, so the schedule must not advance.
		if errors.Is(result.Run.Err, duly.ErrFull) {
			return contract.FireResult{Status: contract.FireFull, Err: result.Run.Err}
		}
	}
	result.Status = contract.FireFired

	// Advance works on a copy: put needs the old place to find the stored record.
	next := r.ScheduleRecord
	next.Advance(item, result.Run)
	q.scheduleShard(item.Name).schedules.put(next)
	return result
}

// pushRun pushes the run of an item. previous is the last tick that created a run.
func (e *Engine) pushRun(q *queue, item *contract.FireItem, previous int64, t time.Time) duly.PushResult {
	// The item belongs to the caller, so the run gets a job and headers of its own.
	run, own := *item, *item.Job
	own.Namespace, own.Queue = q.ref.Namespace, q.ref.Name
	own.Headers = maps.Clone(own.Headers)
	if own.Headers == nil {
		own.Headers = map[string]string{}
	}
	run.Job = &own
	p, err := run.PlanRun(previous, &q.cfg, t, e.cfg.MaxBody)
	if err != nil {
		return duly.PushResult{ID: own.ID, Err: err}
	}
	return q.store(p, duly.NewNumber(), clock.Milli(t))
}

// fireDue fires the due ticks of a shard once, as one process does. more reports whether another
// round would find due ticks.
func (e *Engine) fireDue(q *queue, s *shard) (more bool) {
	if !e.canFire(s) {
		return false
	}

	// A hold is a pause of this process. The monotonic clock keeps it correct if the wall clock is set.
	_, now := e.now()
	mono := e.cfg.Clock.Mono()
	passed := 0
	for _, r := range s.schedules.due(now) {
		// A tick that is left alone holds up no later one, and does not count.
		if r.held(mono) > 0 {
			continue
		}
		if passed++; passed > contract.MaxDue {
			break
		}

		timing, err := schedule.Timing(&r.Schedule)

		// An invalid zone or expression stays invalid. The hold keeps it from being tried at every
		// operation.
		if err != nil {
			r.holdFor(contract.FullPause, mono)
			continue
		}

		for _, item := range schedule.Fold(&r.ScheduleRecord, timing, now, q.cfg.Defaults.TTL) {
			if e.fire(q, &item).Status != contract.FireFired {
				// fire may have replaced the record r, so the hold goes to the current one.
				s.schedules.byName[r.Name].holdFor(contract.FullPause, mono)
				break
			}
		}
	}
	return s.schedules.canFire(now, mono)
}

// fireAll fires every due tick of a queue.
func (e *Engine) fireAll(q *queue) {
	for _, s := range q.shards {
		for e.canFire(s) {
			e.fireDue(q, s)
		}
	}
}

// canFire reports whether a tick of the shard is due and not held.
func (e *Engine) canFire(s *shard) bool {
	// Every operation calls canFire, and most shards have no schedules.
	if len(s.schedules.byTick) == 0 {
		return false
	}
	_, now := e.now()
	return s.schedules.canFire(now, e.cfg.Clock.Mono())
}

// tickMoments calls soonest with the times at which ticks of the queue can fire, including the next
// tick.
func (e *Engine) tickMoments(q *queue, now int64, soonest func(int64)) {
	mono := e.cfg.Clock.Mono()
	for _, s := range q.shards {
		for _, r := range s.schedules.byTick {
			// Schedules without a tick sort last, so no schedule with a tick follows.
			if r.place() == noTick {
				break
			}
			if r.place() > now {
				soonest(r.place()) // all further ticks are later
				break
			}
			soonest(now + clock.Millis(r.held(mono)))
		}
	}
}
