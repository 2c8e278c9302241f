package model

import (
	"bytes"
	"context"
	"maps"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

var _ contract.ScheduleMover = (*Engine)(nil)

// HeldSchedules implements contract.ScheduleMover.
func (e *Engine) HeldSchedules(ctx context.Context, ref duly.QueueRef, p duly.PageParams) (page duly.NamePage, err error) {
	if err := contract.ValidateSchedules(ref, &p); err != nil {
		return page, err
	}
	from, err := readScheduleCursor(p.Cursor)
	if err != nil {
		return page, err
	}
	q, err := e.beginOn(ctx, ref)
	if err != nil {
		return page, err
	}
	defer e.mu.Unlock()
	if q == nil {
		return page, nil
	}

	for i := from.Shard; i < len(q.shards); i++ {
		all := q.shards[i].schedules.byTick
		if i == from.Shard {
			all = behindCursor(all, from)
		}
		for _, r := range all {
			if !r.Held {
				continue
			}
			if len(page.Names) == p.Limit {
				page.Next = from.String()
				return page, nil
			}
			page.Names = append(page.Names, r.Name)
			from = scheduleCursor{i, r.place(), r.Name}
		}
	}
	return page, nil
}

// HoldSchedule implements contract.ScheduleMover.
func (e *Engine) HoldSchedule(ctx context.Context, ref duly.QueueRef, name string) (contract.ScheduleRecord, error) {
	q, r, err := e.beginOnSchedule(ctx, ref, name)
	if err != nil {
		return contract.ScheduleRecord{}, err
	}
	defer e.end()
	record := r.copy()
	record.Held = true
	q.scheduleShard(name).schedules.put(record)
	return record, nil
}

// ImportSchedule implements contract.ScheduleMover.
func (e *Engine) ImportSchedule(ctx context.Context, r contract.ScheduleRecord) (contract.ScheduleRecord, error) {
	if err := r.Validate(e.cfg.MaxBody); err != nil {
		return r, err
	}
	q, err := e.beginOn(ctx, r.Queue)
	if err != nil {
		return r, err
	}
	defer e.end()
	var old *contract.ScheduleRecord
	if stored := q.schedule(r.Name); stored != nil {
		old = &stored.ScheduleRecord
	}

	next, changed := r.Merge(old)
	if !changed {
		return next, nil
	}
	if err := e.checkRoom(q, r.Queue, &r.Schedule, old != nil); err != nil {
		return r, err
	}
	if err := contract.CheckScheduleShard(&r.Schedule, e.shardsOf(q)); err != nil {
		return r, err
	}
	next.Template.Body, next.Template.Headers = bytes.Clone(r.Template.Body), maps.Clone(r.Template.Headers)
	return next, e.storeSchedule(r.Queue, next)
}

// DropSchedule implements contract.ScheduleMover.
func (e *Engine) DropSchedule(ctx context.Context, ref duly.QueueRef, name string) error {
	q, r, err := e.beginOnSchedule(ctx, ref, name)
	if err != nil {
		return err
	}
	defer e.end()
	if !r.Held {
		return contract.ScheduleFree(ref, name)
	}
	q.scheduleShard(name).schedules.remove(name)
	return nil
}

// ReleaseSchedule implements contract.ScheduleMover.
func (e *Engine) ReleaseSchedule(ctx context.Context, ref duly.QueueRef, name string) error {
	q, r, err := e.beginOnSchedule(ctx, ref, name)
	if err != nil {
		return err
	}
	defer e.end()
	if record := r.ScheduleRecord; record.Held {
		record.Held = false
		q.scheduleShard(name).schedules.put(record)
	}
	return nil
}
