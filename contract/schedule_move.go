package contract

import (
	"context"

	"github.com/dulymq/duly"
)

// ScheduleMover is implemented by engines whose schedules can move to another engine. For each
// schedule, the caller holds it in the old engine, imports it into the new one, drops it in the old
// one, and releases it in the new one. At no time do both engines have it without a hold. Each step
// may be repeated.
//
// A held schedule fires nothing, and no caller of [duly.Scheduler] can change it. Its version stays.
type ScheduleMover interface {
	// HeldSchedules lists the names of the held schedules of a queue.
	HeldSchedules(ctx context.Context, q duly.QueueRef, p duly.PageParams) (duly.NamePage, error)
	// HoldSchedule holds a schedule, and returns it. The record stays as it is until the hold ends.
	// HoldSchedule returns [duly.ErrNotFound] if the schedule does not exist.
	HoldSchedule(ctx context.Context, q duly.QueueRef, name string) (ScheduleRecord, error)
	// ImportSchedule stores a held copy of a record, with its version, its ticks and its counters. It
	// creates the queue if that does not exist. A held copy that is further on stays, and so does a
	// schedule without a hold. ImportSchedule returns the schedule that is stored afterwards.
	ImportSchedule(ctx context.Context, r ScheduleRecord) (ScheduleRecord, error)
	// DropSchedule deletes a held schedule. It returns [duly.ErrConflict] for a schedule without a
	// hold, and [duly.ErrNotFound] if the schedule does not exist.
	DropSchedule(ctx context.Context, q duly.QueueRef, name string) error
	// ReleaseSchedule ends the hold of a schedule. Without a hold it changes nothing. It returns
	// [duly.ErrNotFound] if the schedule does not exist.
	ReleaseSchedule(ctx context.Context, q duly.QueueRef, name string) error
}

// Validate returns [duly.ErrInvalid] with every bad field of a record that is to be imported.
func (r *ScheduleRecord) Validate(maxBody int) error {
	var f BadFields
	f.Take(ValidateSchedule(r.Queue, &r.Schedule, maxBody))
	for _, n := range []struct {
		field string
		value int64
	}{{"next", r.Next}, {"last", r.Last}, {"fired", r.Fired}, {"skipped", r.Skipped}, {"missed", r.Missed}} {
		if n.value < 0 || n.value > maxScheduleNumber {
			f.Add(n.field, "is %d, must be between 0 and %d", n.value, int64(maxScheduleNumber))
		}
	}
	if r.Version <= 0 {
		f.Add("version", "is %d, must be above 0", r.Version)
	}
	return f.Err()
}

// maxScheduleNumber is the largest value of a schedule's numbers that every engine can store.
const maxScheduleNumber = 1<<48 - 1

// Idle reports whether the schedule has no tick that can fire.
func (r *ScheduleRecord) Idle() bool { return r.Paused || r.Held || r.Next == 0 }

// CheckFree returns [duly.ErrUnavailable] for a held schedule, which is on its way to another engine.
func (r *ScheduleRecord) CheckFree() error {
	if !r.Held {
		return nil
	}
	return ScheduleMoves(r.Queue, r.Name)
}

// Behind reports whether a record is an earlier state of the same schedule than other. Fire moves the
// next tick forward, and every other change raises the version.
func (r *ScheduleRecord) Behind(other *ScheduleRecord) bool {
	if r.Version != other.Version {
		return r.Version < other.Version
	}
	// Without a next tick, the schedule has reached its end.
	return r.Next != 0 && (other.Next == 0 || r.Next < other.Next)
}

// Merge returns what ImportSchedule stores for r, and reports whether that differs from the stored
// record. stored is nil for none.
func (r *ScheduleRecord) Merge(stored *ScheduleRecord) (next ScheduleRecord, changed bool) {
	if stored == nil || stored.Held && stored.Behind(r) {
		next = *r
		next.Queue, next.Schedule, next.Held = r.Queue.Normal(), FillSchedule(r.Schedule), true
		return next, true
	}
	return *stored, false
}
