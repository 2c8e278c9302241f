package schedules

import (
	"cmp"
	"context"
	"strconv"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// HoldSchedule implements contract.ScheduleMover.
func (e *Schedules) HoldSchedule(ctx context.Context, ref duly.QueueRef, name string) (
	held contract.ScheduleRecord, err error,
) {
	err = e.change(ctx, ref, name, func(r *contract.ScheduleRecord, _ int64) (bool, error) {
		changed := !r.Held
		r.Held = true
		held = *r
		return changed, nil
	})
	return held, err
}

// ReleaseSchedule implements contract.ScheduleMover.
func (e *Schedules) ReleaseSchedule(ctx context.Context, ref duly.QueueRef, name string) error {
	return e.change(ctx, ref, name, func(r *contract.ScheduleRecord, _ int64) (bool, error) {
		changed := r.Held
		r.Held = false
		return changed, nil
	})
}

// DropSchedule implements contract.ScheduleMover.
func (e *Schedules) DropSchedule(ctx context.Context, ref duly.QueueRef, name string) error {
	return e.drop(ctx, ref, name, "", "1")
}

// ImportSchedule implements contract.ScheduleMover.
func (e *Schedules) ImportSchedule(ctx context.Context, r contract.ScheduleRecord) (
	now contract.ScheduleRecord, err error,
) {
	if err := e.admit(ctx, r.Validate(e.Settings.MaxBody)); err != nil {
		return r, err
	}
	run := r.Run()
	run.Namespace, run.Queue = r.Queue.Normal().Namespace, r.Queue.Name
	c := e.Retry(ctx)
	for c.Next() {
		done := false
		err := e.With(ctx, r.Queue.Normal(), func(q *catalog.Queue) (err error) {
			if q == nil {
				return e.makeQueue(ctx, r.Queue, &run)
			}
			now, done, err = e.importInto(ctx, q, &r, &run)
			return err
		})
		if err != nil || done {
			return now, err
		}
	}
	return now, c.Failed("schedule %s keeps changing", r.Name)
}

// makeQueue creates the queue of a schedule. run is a run of it.
func (e *Schedules) makeQueue(ctx context.Context, ref duly.QueueRef, run *duly.Job) error {
	var patch duly.QueueConfig
	if cfg := contract.ConfigForNew(e.QueueConfig(), run); cfg.Delivery == duly.DeliverPush {
		patch.Delivery = duly.DeliverPush
	}
	if _, err := e.Create(ctx, ref.Normal(), patch); err != nil {
		return err
	}
	return catalog.ErrRetry
}

// importInto stores a record in an existing queue, unless a caller has changed the schedule meanwhile:
// then done is false.
func (e *Schedules) importInto(ctx context.Context, q *catalog.Queue, r *contract.ScheduleRecord, run *duly.Job) (
	now contract.ScheduleRecord, done bool, err error,
) {
	f, err := e.find(ctx, q, r.Name)
	if err != nil {
		return now, false, err
	}
	now, changed := r.Merge(f.record)
	if !changed {
		return now, true, nil
	}
	err = cmp.Or(contract.CheckScheduleShard(&r.Schedule, len(q.Shards)), contract.CheckDelivery(run, &q.Config))
	if err != nil {
		return now, false, err
	}
	done, err = e.write(ctx, q, f.record, &now)
	return now, done, err
}

// write stores a record in the place of old, nil for none, unless the stored one differs from old: then
// done is false.
func (e *Schedules) write(ctx context.Context, q *catalog.Queue, old, r *contract.ScheduleRecord) (done bool, err error) {
	s := shardOf(q, r.Name)
	head, most := "", contract.ScheduleMaxPart(len(q.Shards), s.Index)
	if old != nil {
		head = codec.ScheduleHead(old)
	}
	reply, err := e.Call(ctx, q, s, store.ScriptSchedulePut, s.Limits, r.Name, head, codec.PackSchedule(r), strconv.Itoa(most))
	if err == nil && reply.Word == "full" {
		err = contract.SchedulesFull(q.Ref, most)
	}
	return err == nil && reply.Word == "ok", err
}
