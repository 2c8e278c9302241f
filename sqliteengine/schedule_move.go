package sqliteengine

import (
	"bytes"
	"context"
	"maps"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/sqliteengine/internal/sqliteconn"
)

var _ contract.ScheduleMover = (*Engine)(nil)

// HeldSchedules implements contract.ScheduleMover. The cursor is the last name of the page before.
func (e scheduleAPI) HeldSchedules(ctx context.Context, ref duly.QueueRef, p duly.PageParams) (
	page duly.NamePage, err error,
) {
	if err := contract.ValidateSchedules(ref, &p); err != nil {
		return page, err
	}
	err = e.onSnapshot(ctx, ref, func(t readTx, q *queue) error {
		page = duly.NamePage{}
		if q == nil {
			return nil
		}
		rows := t.stmt("schedules_held").Int(1, q.id).Text(2, p.Cursor).Int(3, int64(p.Limit)+1)
		return eachRow(rows, func(s *sqliteconn.Stmt) { page.Names = append(page.Names, s.ColText(0)) })
	})
	// One row more than the page shows that others follow.
	if len(page.Names) > p.Limit {
		page.Names = page.Names[:p.Limit]
		page.Next = page.Names[p.Limit-1]
	}
	return page, err
}

// HoldSchedule implements contract.ScheduleMover.
func (e scheduleAPI) HoldSchedule(ctx context.Context, ref duly.QueueRef, name string) (
	r contract.ScheduleRecord, err error,
) {
	err = e.onSchedule(ctx, ref, name, func(t *tx, q *queue) error {
		found, err := q.findSchedule(t, name)
		if err == nil && found == nil {
			err = contract.NoSchedule(ref, name)
		}
		if err != nil {
			return err
		}
		found.Held = true
		r = *found
		if err := q.saveSchedule(t, found); err != nil {
			return err
		}
		return q.readEarliestOf(t, &q.earliest.tick)
	})
	return r, err
}

// ImportSchedule implements contract.ScheduleMover.
func (e scheduleAPI) ImportSchedule(ctx context.Context, r contract.ScheduleRecord) (
	now contract.ScheduleRecord, err error,
) {
	if err := r.Validate(e.cfg.MaxBody); err != nil {
		return r, err
	}
	if mayReturnEarly(ctx) {
		r.Template.Body, r.Template.Headers = bytes.Clone(r.Template.Body), maps.Clone(r.Template.Headers)
	}

	ref := r.Queue.Normal()
	err = e.changeWithSpace(ctx, spaceLarge, func(t *tx) error {
		if err := t.checkKnown(ref); err != nil {
			return err
		}
		old, err := findOrRoom(t, ref, r.Name)
		if err != nil {
			return err
		}
		next, changed := r.Merge(old)
		if now = next; !changed {
			return nil
		}
		return storeSchedule(t, ref, &next, old == nil)
	})
	return now, err
}

// DropSchedule implements contract.ScheduleMover.
func (e scheduleAPI) DropSchedule(ctx context.Context, ref duly.QueueRef, name string) error {
	return e.onSchedule(ctx, ref, name, func(t *tx, q *queue) error {
		r, err := q.scheduleState(t, name)
		switch {
		case err != nil:
			return err
		case r == nil:
			return contract.NoSchedule(ref, name)
		case !r.Held:
			return contract.ScheduleFree(ref, name)
		}
		_, err = q.dropSchedule(t, name)
		return err
	})
}

// ReleaseSchedule implements contract.ScheduleMover.
func (e scheduleAPI) ReleaseSchedule(ctx context.Context, ref duly.QueueRef, name string) error {
	return e.onSchedule(ctx, ref, name, func(t *tx, q *queue) error {
		r, err := q.scheduleState(t, name)
		if err == nil && r == nil {
			err = contract.NoSchedule(ref, name)
		}
		if err != nil || !r.Held {
			return err
		}
		r.Held = false
		q.tickMoved = true
		return q.saveSchedule(t, r)
	})
}
