package model

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	_ "time/tzdata" // embeds the time zones, because schedules must not depend on the host's zones

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/schedule"
)

// PutSchedule implements duly.Scheduler.
func (e *Engine) PutSchedule(ctx context.Context, ref duly.QueueRef, s duly.Schedule) (
	put duly.SchedulePut, err error,
) {
	if err := contract.ValidateSchedule(ref, &s, e.cfg.MaxBody); err != nil {
		return put, err
	}
	q, err := e.beginOn(ctx, ref)
	if err != nil {
		return put, err
	}
	defer e.end()
	s.Template.Body, s.Template.Headers = bytes.Clone(s.Template.Body), maps.Clone(s.Template.Headers)

	r, status, err := e.planSchedule(q, ref, s)
	if err == nil && status != duly.ScheduleUnchanged {
		err = e.storeSchedule(ref, r)
	}
	if err != nil {
		return put, err
	}
	return duly.SchedulePut{Status: status, Version: r.Version, Next: clock.FromMilli(r.Next)}, nil
}

// planSchedule returns the record of a Put. q is nil for a queue that the Put creates.
func (e *Engine) planSchedule(q *queue, ref duly.QueueRef, s duly.Schedule) (
	r contract.ScheduleRecord, status duly.ScheduleStatus, err error,
) {
	var old *contract.ScheduleRecord
	if stored := q.schedule(s.Name); stored != nil {
		old = &stored.ScheduleRecord
	}
	if err := e.checkRoom(q, ref, &s, old != nil); err != nil {
		return r, "", err
	}

	timing, err := schedule.Timing(&s)
	if err != nil {
		return r, "", err
	}
	now, _ := e.now()
	r, status, err = schedule.Put(old, ref, s, timing, now)
	if err == nil && status != duly.ScheduleUnchanged {
		err = contract.CheckScheduleShard(&s, e.shardsOf(q))
	}
	return r, status, err
}

// shardsOf returns the number of shards of a queue. q is nil for one that is to be created.
func (e *Engine) shardsOf(q *queue) int {
	if q == nil {
		return e.usual().Shards
	}
	return q.cfg.Shards
}

// checkRoom returns ErrFull if the shard of a new schedule has as many as it may have. A schedule
// that exists may always be changed, even at the bound.
func (e *Engine) checkRoom(q *queue, ref duly.QueueRef, s *duly.Schedule, exists bool) error {
	if q == nil || exists {
		return nil
	}
	index := contract.ScheduleShard(s.Name, q.cfg.Shards)
	if most := contract.ScheduleMaxPart(q.cfg.Shards, index); len(q.shards[index].schedules.byTick) >= most {
		return contract.SchedulesFull(ref, most)
	}
	return nil
}

// storeSchedule stores the record of a Put or an import. If the queue does not exist, it creates the
// queue.
func (e *Engine) storeSchedule(ref duly.QueueRef, r contract.ScheduleRecord) error {
	// The queue must be able to deliver the runs, as for any job.
	run := r.Run()
	run.Namespace, run.Queue = r.Queue.Namespace, r.Queue.Name
	cfg := contract.ConfigForNew(e.usual(), &run)
	if q := e.find(ref); q != nil {
		cfg = q.cfg
	}
	if err := contract.CheckDelivery(&run, &cfg); err != nil {
		return err
	}

	q, err := e.make(ref, cfg)
	if err != nil {
		return err
	}
	q.scheduleShard(r.Name).schedules.put(r)
	return nil
}

// scheduleShard returns the shard of the schedules with that name.
func (q *queue) scheduleShard(name string) *shard {
	return q.shards[contract.ScheduleShard(name, len(q.shards))]
}

// schedule returns a schedule, or nil if it is unknown. The queue may be nil.
func (q *queue) schedule(name string) *stored {
	if q == nil {
		return nil
	}
	return q.scheduleShard(name).schedules.byName[name]
}

// beginOnSchedule begins an operation on one schedule, which must exist. The caller ends
// the operation if there is no error.
func (e *Engine) beginOnSchedule(ctx context.Context, ref duly.QueueRef, name string) (*queue, *stored, error) {
	if err := contract.ValidateScheduleName(ref, name); err != nil {
		return nil, nil, err
	}
	q, err := e.beginOn(ctx, ref)
	if err != nil {
		return nil, nil, err
	}
	r := q.schedule(name)
	if r == nil {
		e.mu.Unlock()
		return nil, nil, contract.NoSchedule(ref, name)
	}
	return q, r, nil
}

// beginOnFree is like beginOnSchedule for a change by a caller, which a held schedule refuses.
func (e *Engine) beginOnFree(ctx context.Context, ref duly.QueueRef, name string) (*queue, *stored, error) {
	q, r, err := e.beginOnSchedule(ctx, ref, name)
	if err != nil {
		return nil, nil, err
	}
	if err := r.CheckFree(); err != nil {
		e.mu.Unlock()
		return nil, nil, err
	}
	return q, r, nil
}

// GetSchedule implements duly.Scheduler.
func (e *Engine) GetSchedule(ctx context.Context, ref duly.QueueRef, name string) (duly.ScheduleInfo, error) {
	_, r, err := e.beginOnSchedule(ctx, ref, name)
	if err != nil {
		return duly.ScheduleInfo{}, err
	}
	defer e.mu.Unlock()
	record := r.copy()
	return record.Info(), nil
}

// DeleteSchedule implements duly.Scheduler.
func (e *Engine) DeleteSchedule(ctx context.Context, ref duly.QueueRef, name string, version int64) error {
	q, r, err := e.beginOnFree(ctx, ref, name)
	if err != nil {
		return err
	}
	defer e.end()

	// Version 0 means any version.
	if version != 0 && version != r.Version {
		return contract.ScheduleVersion(ref, name, r.Version)
	}
	q.scheduleShard(name).schedules.remove(name)
	return nil
}

// PauseSchedule implements duly.Scheduler.
func (e *Engine) PauseSchedule(ctx context.Context, ref duly.QueueRef, name string) error {
	q, r, err := e.beginOnFree(ctx, ref, name)
	if err != nil {
		return err
	}
	defer e.end()
	t, _ := e.now()
	if record := r.ScheduleRecord; schedule.Pause(&record, t) {
		q.scheduleShard(name).schedules.put(record)
	}
	return nil
}

// ResumeSchedule implements duly.Scheduler.
func (e *Engine) ResumeSchedule(ctx context.Context, ref duly.QueueRef, name string) error {
	q, r, err := e.beginOnFree(ctx, ref, name)
	if err != nil {
		return err
	}
	defer e.end()
	timing, err := schedule.Timing(&r.Schedule)
	if err != nil {
		return err
	}
	t, _ := e.now()
	if record := r.ScheduleRecord; schedule.Resume(&record, timing, t) {
		q.scheduleShard(name).schedules.put(record)
	}
	return nil
}

// scheduleCursor is the position after which a list of schedules continues.
type scheduleCursor struct {
	Shard int
	Place int64
	Name  string
}

func readScheduleCursor(cursor string) (from scheduleCursor, err error) {
	if cursor == "" {
		return from, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || json.Unmarshal(raw, &from) != nil || from.Shard < 0 {
		return from, contract.BadCursor()
	}
	return from, nil
}

func (c scheduleCursor) String() string {
	text, _ := json.Marshal(c) // plain fields: can't fail
	return base64.RawURLEncoding.EncodeToString(text)
}

// Schedules implements duly.Scheduler.
func (e *Engine) Schedules(ctx context.Context, ref duly.QueueRef, p duly.PageParams) (
	page duly.SchedulePage, err error,
) {
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
			if len(page.Schedules) == p.Limit {
				page.Next = from.String()
				return page, nil
			}
			record := r.copy()
			page.Schedules = append(page.Schedules, record.Info())
			from = scheduleCursor{i, r.place(), r.Name}
		}
	}
	return page, nil
}

// behindCursor returns the schedules of a shard that sort behind a cursor.
func behindCursor(all []*stored, c scheduleCursor) []*stored {
	i := slices.IndexFunc(all, func(r *stored) bool {
		return r.place() > c.Place || r.place() == c.Place && r.Name > c.Name
	})
	if i < 0 {
		return nil
	}
	return all[i:]
}

// addSchedules adds the shard's schedules to the queue's statistics.
func (s *shard) addSchedules(st *duly.Stats) {
	st.Schedules += int64(len(s.schedules.byTick))
	if len(s.schedules.byTick) == 0 {
		return
	}
	next := s.schedules.byTick[0].place()
	if next == noTick {
		return
	}
	if tick := clock.FromMilli(next); st.NextTick.IsZero() || tick.Before(st.NextTick) {
		st.NextTick = tick
	}
}
