package sqliteengine

import (
	"errors"
	"fmt"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/schedule"
	"github.com/dulymq/duly/sqliteengine/internal/sqliteconn"
)

// errRecord marks a schedule whose record cannot be read.
var errRecord = errors.New("sqliteengine: a schedule's record cannot be read")

// scanState reads the columns of a schedule that the engine maintains.
func scanState(s *sqliteconn.Stmt, ref duly.QueueRef) contract.ScheduleRecord {
	r := contract.ScheduleRecord{Queue: ref, Version: s.ColInt(1), Paused: s.ColInt(2) != 0, Held: s.ColInt(8) != 0}
	r.Name = s.ColText(0)
	r.Next, r.Last = s.ColInt(3), s.ColInt(4) // a NULL column reads as 0
	r.Fired, r.Skipped, r.Missed = s.ColInt(5), s.ColInt(6), s.ColInt(7)
	return r
}

// scanSchedule reads all columns of a schedule. For an unreadable record it returns errRecord
// and a record that only has the name.
func scanSchedule(s *sqliteconn.Stmt, ref duly.QueueRef) (contract.ScheduleRecord, error) {
	r := scanState(s, ref)
	fields, err := schedule.Decode(r.Name, s.ColRaw(9))
	if err != nil {
		return r, fmt.Errorf("%w: %w", errRecord, err)
	}
	r.Schedule = fields
	return r, nil
}

// findSchedule returns a schedule, or nil.
func (q *queue) findSchedule(t *tx, name string) (*contract.ScheduleRecord, error) {
	s := t.stmt("schedule_find").Int(1, q.id).Text(2, name)
	row, err := s.Step()
	if err != nil || !row {
		return nil, err
	}
	r, err := scanSchedule(s, q.ref)
	s.Reset()
	if err != nil {
		return nil, &duly.Error{Code: duly.CodeCorrupt, Cause: err, Message: fmt.Sprintf(
			"schedule %s of queue %s cannot be read; run check --repair, and put it again", contract.Quoted(name), q.ref)}
	}
	return &r, nil
}

// scheduleState returns a schedule without the fields that a caller sets, or nil.
func (q *queue) scheduleState(t *tx, name string) (*contract.ScheduleRecord, error) {
	s := t.stmt("schedule_state").Int(1, q.id).Text(2, name)
	row, err := s.Step()
	if err != nil || !row {
		return nil, err
	}
	r := scanState(s, q.ref)
	s.Reset()
	return &r, nil
}

// bindState binds the columns of a schedule that the engine maintains.
func (q *queue) bindState(s *sqliteconn.Stmt, r *contract.ScheduleRecord) *sqliteconn.Stmt {
	s.Int(1, q.id).Text(2, r.Name).Int(3, r.Version).Int(4, columnOf(r.Paused)).IntOrNull(5, r.Next).IntOrNull(6, r.Last)
	return s.Int(7, r.Fired).Int(8, r.Skipped).Int(9, r.Missed).Int(10, columnOf(r.Held))
}

// columnOf returns how a column stores a boolean.
func columnOf(set bool) int64 {
	if set {
		return 1
	}
	return 0
}

// saveSchedule writes the columns of a schedule that the engine maintains.
func (q *queue) saveSchedule(t *tx, r *contract.ScheduleRecord) error {
	if !r.Idle() {
		lower(&q.earliest.tick, r.Next)
	}
	_, err := q.bindState(t.stmt("schedule_save"), r).Run()
	return err
}

// putSchedule writes a schedule.
func (q *queue) putSchedule(t *tx, r *contract.ScheduleRecord) error {
	if !r.Idle() {
		lower(&q.earliest.tick, r.Next)
	}
	q.tickMoved = true
	_, err := q.bindState(t.stmt("schedule_put"), r).Blob(11, schedule.Encode(&r.Schedule)).Run()
	return err
}

// dropSchedule deletes a schedule. It reports whether it existed.
func (q *queue) dropSchedule(t *tx, name string) (bool, error) {
	n, err := t.stmt("schedule_drop").Int(1, q.id).Text(2, name).Run()
	q.schedules -= n
	if err != nil || n == 0 {
		return false, err
	}
	return true, q.readEarliestOf(t, &q.earliest.tick)
}

// setAside moves a schedule whose record cannot be read to another table, so that it does not block
// other schedules. The bytes of the record stay in that table.
func (q *queue) setAside(t *tx, name string) (found bool, err error) {
	s := t.stmt("schedule_find").Int(1, q.id).Text(2, name)
	if row, err := s.Step(); err != nil || !row {
		return false, err
	}
	_, err = scanSchedule(s, q.ref)
	s.Reset()
	if err == nil {
		return false, nil
	}

	t.w.log.Error("the record of a schedule cannot be read and was moved to table unreadable_schedules; put the schedule again",
		"queue", q.ref.String(), "schedule", name, "error", err)
	if _, err := t.stmt("schedule_aside").Int(1, q.id).Text(2, name).Int(3, t.now).Run(); err != nil {
		return false, err
	}
	return q.dropSchedule(t, name)
}

// scheduleStats adds the number of schedules and the earliest next tick.
func (t readTx) scheduleStats(q *queue, s *duly.Stats) error {
	if q.kind != kindQueue {
		return nil
	}
	return eachRow(t.stmt("schedule_stats").Int(1, q.id), func(row *sqliteconn.Stmt) {
		s.Schedules, s.NextTick = row.ColInt(0), clock.FromMilli(row.ColInt(1)) // a NULL column reads as 0
	})
}
