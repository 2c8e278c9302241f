package schedules

import (
	"context"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/cron"
	"github.com/dulymq/duly/internal/schedule"
	"github.com/dulymq/duly/redisengine/internal/catalog"
)

// PutSchedule implements duly.Scheduler.
func (e *Schedules) PutSchedule(ctx context.Context, ref duly.QueueRef, s duly.Schedule) (put duly.SchedulePut, err error) {
	if err := e.admit(ctx, contract.ValidateSchedule(ref, &s, e.Settings.MaxBody)); err != nil {
		return put, err
	}

	timing, err := schedule.Timing(&s)
	if err != nil {
		return put, err
	}
	p := &putCall{e: e, ref: ref, schedule: s, timing: timing, run: s.Run()}
	p.run.Namespace, p.run.Queue = ref.Normal().Namespace, ref.Name
	c := e.Retry(ctx)
	for c.Next() {
		done := false
		err := e.With(ctx, ref.Normal(), func(q *catalog.Queue) (err error) {
			if q == nil {
				return p.makeQueue(ctx)
			}
			put, done, err = p.store(ctx, q)
			return err
		})
		if err != nil {
			return duly.SchedulePut{}, err
		}
		if done {
			return put, nil
		}
	}
	return put, c.Failed("schedule %s keeps changing", s.Name)
}

// putCall is one PutSchedule in progress.
type putCall struct {
	e        *Schedules
	ref      duly.QueueRef
	schedule duly.Schedule
	timing   cron.Timing
	run      duly.Job // the job of a run, without the parts that depend on the tick
}

// makeQueue creates the queue of the schedule. If the Put would be refused, it creates no queue.
func (p *putCall) makeQueue(ctx context.Context) error {
	now, err := p.e.Now(ctx)
	if err != nil {
		return err
	}
	cfg := contract.ConfigForNew(p.e.QueueConfig(), &p.run)
	if _, _, err := p.plan(&cfg, nil, now.UnixMicro()); err != nil {
		return err
	}

	return p.e.makeQueue(ctx, p.ref, &p.run)
}

// plan returns the record to store. old is the stored record, or nil if there is none.
func (p *putCall) plan(cfg *duly.QueueConfig, old *contract.ScheduleRecord, us int64) (
	r contract.ScheduleRecord, status duly.ScheduleStatus, err error,
) {
	now := time.UnixMicro(us).UTC()
	r, status, err = schedule.Put(old, p.ref, p.schedule, p.timing, now)
	if err != nil || status == duly.ScheduleUnchanged {
		return r, status, err
	}
	if err := contract.CheckScheduleShard(&p.schedule, cfg.Shards); err != nil {
		return r, "", err
	}
	return r, status, contract.CheckDelivery(&p.run, cfg)
}

// store writes the schedule, unless another caller has changed the schedule. In that case done is
// false.
func (p *putCall) store(ctx context.Context, q *catalog.Queue) (put duly.SchedulePut, done bool, err error) {
	name, s := p.schedule.Name, shardOf(q, p.schedule.Name)
	f, err := p.e.find(ctx, q, name)
	if err != nil {
		return put, false, err
	}
	most := contract.ScheduleMaxPart(len(q.Shards), s.Index)
	// The script checks the bound again, because concurrent Puts may reach it first.
	if f.record == nil && f.stored >= int64(most) {
		return put, false, contract.SchedulesFull(p.ref, most)
	}

	r, status, err := p.plan(&q.Config, f.record, f.clock.Now)
	if err != nil {
		return put, false, err
	}
	put = duly.SchedulePut{Status: status, Version: r.Version, Next: clock.FromMilli(r.Next)}
	// A process that has just started has no timer for the schedule yet.
	if status == duly.ScheduleUnchanged {
		p.e.keep(q, &r, f.clock)
		return put, true, nil
	}

	if done, err = p.e.write(ctx, q, f.record, &r); done {
		p.e.keep(q, &r, f.clock)
	}
	return put, done, err
}
