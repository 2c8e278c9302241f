package sqliteengine

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"
	_ "time/tzdata" // embeds the time zones, because schedules must not depend on the host's zones

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/batch"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/sqliteengine/internal/sqliteconn"
)

// DueSchedules implements contract.Firer. Every queue of this engine has one shard.
func (e scheduleAPI) DueSchedules(ctx context.Context, ref duly.QueueRef, shard int, cursor string) (
	due contract.DueSchedules, err error,
) {
	if err := contract.ValidateSchedules(ref, &duly.PageParams{}); err != nil {
		return due, err
	}
	from, err := readTickPlace(cursor)
	if err != nil {
		return due, err
	}

	var unreadable []string
	err = e.onSnapshot(ctx, ref, func(t readTx, q *queue) (err error) {
		due, unreadable = contract.DueSchedules{Now: t.now, TTL: duly.None}, nil
		if q == nil || shard != 0 {
			return nil
		}
		due.TTL = q.cfg.Defaults.TTL
		unreadable, err = t.dueSchedules(q, from, &due)
		return err
	})
	if err != nil || len(unreadable) == 0 {
		return due, err
	}

	// An unreadable schedule would stay due, and keep the schedules after it from being read.
	return due, e.setAllAside(ctx, ref, unreadable)
}

// dueSchedules adds the due schedules of a queue behind a place. It returns the names of those that
// cannot be read.
func (t readTx) dueSchedules(q *queue, from tickPlace, due *contract.DueSchedules) (unreadable []string, err error) {
	rows, n := t.stmt("schedules_due").Int(1, q.id).Int(2, due.Now).Int(3, from.at).Text(4, from.name), 0
	err = eachRow(rows.Int(5, contract.MaxDue), func(s *sqliteconn.Stmt) {
		r, err := scanSchedule(s, q.ref)
		n++
		from = tickPlace{r.Next, r.Name}
		if err != nil {
			unreadable = append(unreadable, r.Name)
			return
		}
		due.Schedules = append(due.Schedules, r)
	})
	if n == contract.MaxDue {
		due.Next = from.String()
	}
	return unreadable, err
}

// setAllAside moves schedules that cannot be read to another table.
func (e scheduleAPI) setAllAside(ctx context.Context, ref duly.QueueRef, unreadable []string) error {
	return e.onQueue(ctx, ref, spaceNone, func(t *tx, q *queue) error {
		for _, name := range unreadable {
			if q == nil {
				return nil
			}
			if _, err := q.setAside(t, name); err != nil {
				return err
			}
		}
		return nil
	})
}

// Fire implements contract.Firer. All items of a call are in one transaction.
func (e scheduleAPI) Fire(ctx context.Context, ref duly.QueueRef, items []contract.FireItem) (
	[]contract.FireResult, error,
) {
	if err := contract.ValidateSchedules(ref, &duly.PageParams{}); err != nil {
		return nil, err
	}
	size := 0
	for i := range items {
		if items[i].Job != nil {
			size += len(items[i].Job.Body)
		}
	}
	if err := contract.CheckBatch(len(items), size); err != nil {
		return nil, err
	}
	if len(items) == 0 {
		return []contract.FireResult{}, e.checkOpen(ctx)
	}

	f := newFireCall(ref.Normal(), items, e.cfg.MaxBody)
	fire := func(space spaceClass) error {
		return e.write(ctx, &op{Call: batch.Call{Items: 2 * len(items), Bytes: size}, run: f.run, space: space})
	}
	err := fire(spaceLarge)
	if errors.Is(err, duly.ErrFull) {
		// The disk is full. Ticks without a run need no space.
		f.full = err
		err = fire(spaceNone)
	}
	if err != nil {
		return nil, err
	}
	return f.results, nil
}

// fireCall is one call to Fire.
type fireCall struct {
	ref     duly.QueueRef
	items   []contract.FireItem
	bad     []error // error of each invalid item
	results []contract.FireResult
	full    error // set if the disk has no room for runs
	maxBody int
}

// newFireCall copies the arguments that the caller may change after an early return.
func newFireCall(ref duly.QueueRef, items []contract.FireItem, maxBody int) *fireCall {
	f := &fireCall{
		ref: ref, items: slices.Clone(items), bad: make([]error, len(items)),
		results: make([]contract.FireResult, len(items)), maxBody: maxBody,
	}
	for i := range f.items {
		item := &f.items[i]
		f.bad[i] = item.Validate()
		if item.Job != nil {
			job := *item.Job
			job.Body, job.Headers = slices.Clone(job.Body), maps.Clone(job.Headers)
			item.Job = &job
		}
	}
	return f
}

// run fires the items in order. It may run more than once.
func (f *fireCall) run(t *tx) error {
	if err := t.checkKnown(f.ref); err != nil {
		return err
	}
	q := t.queue(f.ref)
	for i := range f.items {
		if err := f.bad[i]; err != nil {
			f.results[i] = contract.FireResult{Err: err}
			continue
		}
		var err error
		if f.results[i], err = f.fire(t, q, &f.items[i]); err != nil {
			return err
		}
	}

	if q == nil {
		return nil
	}
	return q.readEarliestOf(t, &q.earliest.tick)
}

// fire processes one item. It changes nothing unless the result is FireFired.
func (f *fireCall) fire(t *tx, q *queue, item *contract.FireItem) (result contract.FireResult, err error) {
	var r *contract.ScheduleRecord
	if q != nil {
		if r, err = q.scheduleState(t, item.Name); err != nil {
			return result, err
		}
	}
	if result.Status = item.Refuses(r, t.now); result.Status != 0 {
		return result, nil
	}

	if item.Job != nil {
		if result.Run, err = f.push(t, q, item, r.Last); err != nil {
			return result, err
		}
		if errors.Is(result.Run.Err, duly.ErrFull) {
			return contract.FireResult{Status: contract.FireFull, Err: result.Run.Err}, nil
		}
	}
	result.Status = contract.FireFired
	r.Advance(item, result.Run)
	return result, q.saveSchedule(t, r)
}

// push pushes the run of an item. If the queue's settings do not allow the run, the result has an
// error.
func (f *fireCall) push(t *tx, q *queue, item *contract.FireItem, previous int64) (duly.PushResult, error) {
	if f.full != nil {
		return duly.PushResult{Err: f.full}, nil
	}
	plan, err := item.PlanRun(previous, &q.cfg, t.time, f.maxBody)
	if err != nil {
		return duly.PushResult{ID: item.Job.ID, Err: err}, nil
	}
	run := pushItem{Planned: plan, ref: q.ref, number: duly.NewNumber()}
	return run.push(t, q)
}

// ObserveFire implements contract.FireObserver.
func (e scheduleAPI) ObserveFire(f contract.Firing) { e.firing.ObserveFire(f) }

// fireRound runs one round of the due ticks of a queue. more reports whether another round may find
// due ticks.
func (e *store) fireRound(ctx context.Context, ref duly.QueueRef) (fired int, more bool, err error) {
	if e.notifier.ticksHeld(ref) {
		return 0, false, nil
	}
	o, err := e.firing.Round(ctx, ref, 0)
	if err != nil || o.More {
		return o.Fired, o.More, err
	}

	// The remaining ticks cannot fire now, or the time in memory is earlier than that of the index.
	if o.Pause > 0 || e.notifier.tickDue(ref) {
		err = e.endRounds(ctx, ref, o.Pause)
	}
	return o.Fired, false, err
}

// endRounds reads the first tick of a queue again. With a pause, due ticks are not fired until the
// pause ends or another tick is due.
func (e *store) endRounds(ctx context.Context, ref duly.QueueRef, pause time.Duration) error {
	hold := clock.Millis(pause)
	err := e.change(ctx, func(t *tx) error {
		q := t.queue(ref)
		if q == nil {
			return nil
		}

		// Another schedule may be due before the pause ends.
		next, ok, err := t.integer(t.stmt("tick_after").Int(1, q.id).Int(2, t.now))
		if ok {
			hold = min(hold, next-t.now)
		}
		if err != nil {
			return err
		}
		return q.readEarliestOf(t, &q.earliest.tick)
	})

	if err == nil && pause > 0 {
		e.notifier.holdTicks(ref, time.Duration(hold)*time.Millisecond)
	}
	return err
}
