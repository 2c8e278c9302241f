package pools

import (
	"context"
	"errors"
	"strings"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/schedule"
)

// migratingSchedules are the schedules of a namespace that moves. Each schedule is in the old pool, and
// then in the new one. While it is in both, it is held in both, and refuses changes.
type migratingSchedules struct {
	old, new duly.Scheduler
	draining bool
}

// schedules returns the schedules of both pools.
func (m *migratingEngine) schedules() (*migratingSchedules, error) {
	s := &migratingSchedules{schedulerOf(m.old), schedulerOf(m.new), m.state.draining}
	if s.old == nil || s.new == nil {
		return nil, contract.Errorf(duly.CodeConflict,
			"namespace %s moves between two pools, and one of them cannot store schedules; wait for the end of the move, see duly pool status",
			m.where.Namespace)
	}
	return s, nil
}

// eitherSchedule calls do with the old pool, and with the new one if the old one has no such schedule. A
// schedule is in the new pool before it leaves the old one, so do finds it.
func (m *migratingSchedules) eitherSchedule(do func(e duly.Scheduler) error) error {
	err := do(m.old)
	if errors.Is(err, duly.ErrNotFound) {
		return do(m.new)
	}
	return err
}

// PutSchedule implements duly.Scheduler. While jobs are pushed to the old pool, schedules are put there,
// too. After that, a put to the old pool could create a schedule again that has just left it.
func (m *migratingSchedules) PutSchedule(ctx context.Context, q duly.QueueRef, s duly.Schedule) (duly.SchedulePut, error) {
	if !m.draining {
		return m.old.PutSchedule(ctx, q, s)
	}
	if err := contract.ValidateSchedule(q, &s, duly.MaxMaxBody); err != nil {
		return duly.SchedulePut{}, err
	}
	stored, err := m.old.GetSchedule(ctx, q, s.Name)
	switch {
	case errors.Is(err, duly.ErrNotFound):
		return m.new.PutSchedule(ctx, q, s)
	case err != nil:
		return duly.SchedulePut{}, err
	// A deployment repeats its puts, which change nothing in most cases.
	case schedule.TimingHash(&s) == schedule.TimingHash(&stored.Schedule) &&
		schedule.ContentHash(&s) == schedule.ContentHash(&stored.Schedule):
		return duly.SchedulePut{Status: duly.ScheduleUnchanged, Version: stored.Version, Next: stored.Next}, nil
	}
	return duly.SchedulePut{}, contract.ScheduleMoves(q, s.Name)
}

// GetSchedule implements duly.Scheduler.
func (m *migratingSchedules) GetSchedule(ctx context.Context, q duly.QueueRef, name string) (
	info duly.ScheduleInfo, err error,
) {
	err = m.eitherSchedule(func(e duly.Scheduler) error {
		info, err = e.GetSchedule(ctx, q, name)
		return err
	})
	return info, err
}

// Schedules implements duly.Scheduler. It lists the old pool, then the new one. So no schedule is missing
// that moves meanwhile, and it may be listed twice.
func (m *migratingSchedules) Schedules(ctx context.Context, q duly.QueueRef, p duly.PageParams) (duly.SchedulePage, error) {
	cursor, fromNew := strings.CutPrefix(p.Cursor, inNew)
	if !fromNew {
		p.Cursor = strings.TrimPrefix(p.Cursor, inOld)
		page, err := m.old.Schedules(ctx, q, p)
		switch {
		case err != nil:
			return page, err
		case page.Next != "":
			page.Next = inOld + page.Next
			return page, nil
		case len(page.Schedules) > 0:
			page.Next = inNew
			return page, nil
		}
		cursor = ""
	}

	p.Cursor = cursor
	page, err := m.new.Schedules(ctx, q, p)
	if page.Next != "" {
		page.Next = inNew + page.Next
	}
	return page, err
}

// DeleteSchedule implements duly.Scheduler.
func (m *migratingSchedules) DeleteSchedule(ctx context.Context, q duly.QueueRef, name string, version int64) error {
	return m.eitherSchedule(func(e duly.Scheduler) error { return e.DeleteSchedule(ctx, q, name, version) })
}

// PauseSchedule implements duly.Scheduler.
func (m *migratingSchedules) PauseSchedule(ctx context.Context, q duly.QueueRef, name string) error {
	return m.eitherSchedule(func(e duly.Scheduler) error { return e.PauseSchedule(ctx, q, name) })
}

// ResumeSchedule implements duly.Scheduler.
func (m *migratingSchedules) ResumeSchedule(ctx context.Context, q duly.QueueRef, name string) error {
	return m.eitherSchedule(func(e duly.Scheduler) error { return e.ResumeSchedule(ctx, q, name) })
}
