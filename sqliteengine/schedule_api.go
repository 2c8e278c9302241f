package sqliteengine

import (
	"bytes"
	"context"
	"maps"
	"strconv"
	"strings"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/cron"
	"github.com/dulymq/duly/internal/schedule"
)

// PutSchedule implements duly.Scheduler.
func (e scheduleAPI) PutSchedule(ctx context.Context, ref duly.QueueRef, s duly.Schedule) (
	put duly.SchedulePut, err error,
) {
	if err := contract.ValidateSchedule(ref, &s, e.cfg.MaxBody); err != nil {
		return put, err
	}
	timing, err := schedule.Timing(&s)
	if err != nil {
		return put, err
	}
	if mayReturnEarly(ctx) {
		s.Template.Body, s.Template.Headers = bytes.Clone(s.Template.Body), maps.Clone(s.Template.Headers)
	}

	ref = ref.Normal()
	err = e.changeWithSpace(ctx, spaceLarge, func(t *tx) (err error) {
		put, err = putSchedule(t, ref, s, timing)
		return err
	})
	if err != nil {
		return duly.SchedulePut{}, err
	}
	return put, nil
}

func putSchedule(t *tx, ref duly.QueueRef, s duly.Schedule, timing cron.Timing) (put duly.SchedulePut, err error) {
	if err := t.checkKnown(ref); err != nil {
		return put, err
	}
	old, err := findOrRoom(t, ref, s.Name)
	if err != nil {
		return put, err
	}
	r, status, err := schedule.Put(old, ref, s, timing, t.time)
	put = duly.SchedulePut{Status: status, Version: r.Version, Next: clock.FromMilli(r.Next)}
	if err != nil || status == duly.ScheduleUnchanged {
		return put, err
	}

	return put, storeSchedule(t, ref, &r, old == nil)
}

// findOrRoom returns a stored schedule, or nil. Without one, it returns ErrFull if the queue has as
// many schedules as it may have.
func findOrRoom(t *tx, ref duly.QueueRef, name string) (*contract.ScheduleRecord, error) {
	q := t.queue(ref)
	if q == nil {
		return nil, nil
	}
	old, err := q.findSchedule(t, name)
	if most := contract.ScheduleMaxPart(1, 0); err == nil && old == nil && q.schedules >= most {
		return nil, contract.SchedulesFull(ref, most)
	}
	return old, err
}

// storeSchedule writes a schedule. It creates the queue if that does not exist.
func storeSchedule(t *tx, ref duly.QueueRef, r *contract.ScheduleRecord, isNew bool) error {
	// The run must fit the queue, which a run with a callback may create as a push queue.
	run := r.Run()
	run.Namespace, run.Queue = ref.Namespace, ref.Name
	cfg := contract.ConfigForNew(contract.DefaultQueueConfig(), &run)
	if q := t.peek(ref); q != nil {
		cfg = q.cfg
	}
	if err := contract.CheckDelivery(&run, &cfg); err != nil {
		return err
	}

	q, err := t.makeQueue(ref, cfg)
	if err != nil {
		return err
	}
	if isNew {
		q.schedules++
	}
	return q.putSchedule(t, r)
}

// GetSchedule implements duly.Scheduler.
func (e scheduleAPI) GetSchedule(ctx context.Context, ref duly.QueueRef, name string) (
	info duly.ScheduleInfo, err error,
) {
	if err := contract.ValidateScheduleName(ref, name); err != nil {
		return info, err
	}

	err = e.onSnapshot(ctx, ref, func(t readTx, q *queue) error {
		if q == nil {
			return contract.NoSchedule(ref, name)
		}
		r, err := q.findSchedule(t.tx, name)
		if err != nil {
			return err
		}
		if r == nil {
			return contract.NoSchedule(ref, name)
		}
		info = r.Info()
		return nil
	})
	return info, err
}

// Schedules implements duly.Scheduler. The cursor consists of the place and the name of the last
// schedule on the previous page.
func (e scheduleAPI) Schedules(ctx context.Context, ref duly.QueueRef, p duly.PageParams) (
	page duly.SchedulePage, err error,
) {
	if err := contract.ValidateSchedules(ref, &p); err != nil {
		return page, err
	}
	l := scheduleList{limit: p.Limit}
	if l.behind, err = readTickPlace(p.Cursor); err != nil {
		return page, err
	}

	err = e.onLongSnapshot(ctx, ref, func(t readTx, q *queue, s *readSlice) (more bool, err error) {
		if q == nil {
			return false, nil
		}
		return l.read(t, q, s)
	})
	if err != nil {
		return duly.SchedulePage{}, err
	}
	return l.page, nil
}

// tickPlace is where a list of schedules continues: behind a schedule, by its place and name.
type tickPlace struct {
	at   int64
	name string
}

func (p tickPlace) String() string { return strconv.FormatInt(p.at, 10) + ":" + p.name }

// readTickPlace reads a cursor. An empty one is the beginning.
func readTickPlace(cursor string) (p tickPlace, err error) {
	if cursor == "" {
		return tickPlace{at: -1}, nil
	}
	at, name, ok := strings.Cut(cursor, ":")
	if p.at, err = strconv.ParseInt(at, 10, 64); err != nil || !ok {
		return p, contract.BadCursor()
	}
	p.name = name
	return p, nil
}

// scheduleList is a page of schedules.
type scheduleList struct {
	limit  int
	behind tickPlace // the last schedule of the page
	page   duly.SchedulePage
}

// read adds schedules until the page or the slice ends. It skips unreadable schedules.
func (l *scheduleList) read(t readTx, q *queue, slice *readSlice) (more bool, err error) {
	rows := t.stmt("schedules_page").Int(1, q.id).Int(2, l.behind.at).Text(3, l.behind.name).Int(4, noLimit)
	defer rows.Reset()
	for {
		row, err := rows.Step()
		if err != nil || !row {
			return false, err
		}
		if len(l.page.Schedules) == l.limit {
			l.page.Next = l.behind.String()
			return false, nil
		}

		if r, err := scanSchedule(rows, q.ref); err == nil {
			l.page.Schedules = append(l.page.Schedules, r.Info())
		}
		l.behind = tickPlace{rows.ColInt(10), rows.ColText(0)}
		if slice.timeUp() {
			return true, nil
		}
	}
}

// DeleteSchedule implements duly.Scheduler.
func (e scheduleAPI) DeleteSchedule(ctx context.Context, ref duly.QueueRef, name string, version int64) error {
	return e.onSchedule(ctx, ref, name, func(t *tx, q *queue) error {
		// The record is not read, so that an unreadable one can be deleted.
		r, err := q.scheduleState(t, name)
		switch {
		case err != nil:
			return err
		case r == nil:
			return contract.NoSchedule(ref, name)
		case r.Held:
			return contract.ScheduleMoves(ref, name)
		case version != 0 && version != r.Version:
			return contract.ScheduleVersion(ref, name, r.Version)
		}
		_, err = q.dropSchedule(t, name)
		return err
	})
}

// PauseSchedule implements duly.Scheduler.
func (e scheduleAPI) PauseSchedule(ctx context.Context, ref duly.QueueRef, name string) error {
	return e.onSchedule(ctx, ref, name, func(t *tx, q *queue) error {
		r, err := q.scheduleState(t, name)
		if err == nil && r == nil {
			err = contract.NoSchedule(ref, name)
		}
		if err == nil {
			err = r.CheckFree()
		}
		if err != nil || !schedule.Pause(r, t.time) {
			return err
		}
		if err := q.saveSchedule(t, r); err != nil {
			return err
		}
		return q.readEarliestOf(t, &q.earliest.tick)
	})
}

// ResumeSchedule implements duly.Scheduler.
func (e scheduleAPI) ResumeSchedule(ctx context.Context, ref duly.QueueRef, name string) error {
	return e.onSchedule(ctx, ref, name, func(t *tx, q *queue) error {
		r, err := q.findSchedule(t, name)
		if err == nil && r == nil {
			err = contract.NoSchedule(ref, name)
		}
		if err == nil {
			err = r.CheckFree()
		}
		if err != nil || !r.Paused {
			return err
		}

		timing, err := schedule.Timing(&r.Schedule)
		if err != nil {
			return contract.Errorf(duly.CodeUnsupported, "schedule %s of queue %s cannot be resumed by this process: %w",
				contract.Quoted(name), ref, err)
		}
		schedule.Resume(r, timing, t.time)
		q.tickMoved = true
		return q.saveSchedule(t, r)
	})
}

// onSchedule runs an operation on a schedule. It needs no disk space.
func (e scheduleAPI) onSchedule(ctx context.Context, ref duly.QueueRef, name string,
	run func(t *tx, q *queue) error) error {
	if err := contract.ValidateScheduleName(ref, name); err != nil {
		return err
	}
	return e.onQueue(ctx, ref, spaceNone, func(t *tx, q *queue) error {
		if q == nil {
			return contract.NoSchedule(ref, name)
		}
		return run(t, q)
	})
}
