package schedule

import (
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/cron"
)

// Timing reads the fields of a valid schedule that decide its ticks. It returns an error if this
// process does not know the zone, which another process may have stored.
func Timing(s *duly.Schedule) (cron.Timing, error) {
	expr, err := cron.Parse(s.Spec)
	if err != nil {
		return cron.Timing{}, err
	}
	zone, err := loadZone(s.Zone)
	if err != nil {
		return cron.Timing{}, err
	}
	return cron.Timing{Expr: expr, Zone: zone, Start: s.Start, End: s.End}, nil
}

// zones caches the zones by their names, because a schedule is read at each tick, and a zone is a
// file. The number of entries is limited by the number of zones in the database.
var zones sync.Map

func loadZone(name string) (*time.Location, error) {
	if zone, ok := zones.Load(name); ok {
		return zone.(*time.Location), nil
	}
	zone, err := cron.LoadZone(name)

	// An error is not cached: the host may get the zone later.
	if err == nil {
		zones.Store(name, zone)
	}
	return zone, err
}

// First returns the first tick after the later of now and last, in ms, or 0 if there is none. It is
// the next tick of a schedule that is created, or put with another timing.
func First(t cron.Timing, now, last int64) int64 { return nextTick(t, max(now, last)) }

// Put returns the record that a Put of a valid schedule stores, with the defaults filled in. old is
// the stored record, or nil if there is none. now is the engine's clock, and t the timing of s. Put
// returns [duly.ErrConflict] for a schedule of another owner, and [duly.ErrInvalid] for one without
// a tick in the next years.
func Put(old *contract.ScheduleRecord, q duly.QueueRef, s duly.Schedule, t cron.Timing, now time.Time) (
	contract.ScheduleRecord, duly.ScheduleStatus, error,
) {
	r := contract.ScheduleRecord{Queue: q.Normal()}
	status := duly.ScheduleCreated
	moved := true
	if old != nil {
		if old.Owner != s.Owner {
			return *old, "", contract.ScheduleOwned(q, s.Name, old.Owner)
		}
		r, status = *old, duly.ScheduleChanged
		moved = TimingHash(&s) != TimingHash(&old.Schedule)
		if !moved && ContentHash(&s) == ContentHash(&old.Schedule) {
			return r, duly.ScheduleUnchanged, nil
		}
		if err := old.CheckFree(); err != nil {
			return r, "", err
		}
	}

	// A deployment may repeat its Put after the last tick, so this comes after the hashes.
	if err := contract.CheckTicks(&s, now); err != nil {
		return r, "", err
	}

	// The content applies from the next tick on. Only a change of the timing moves the next tick.
	r.Schedule = contract.FillSchedule(s)
	r.Version = NextVersion(r.Version, now)
	if moved {
		r.Next = First(t, now.UnixMilli(), r.Last)
	}
	return r, status, nil
}

// NextVersion returns the version of a schedule that changes now. It is always higher than the last
// version, even if the clock was set back.
func NextVersion(last int64, now time.Time) int64 { return max(last+1, now.UnixMicro()) }

// Pause stops a record. It reports whether that changes anything.
func Pause(r *contract.ScheduleRecord, now time.Time) bool {
	if r.Paused {
		return false
	}
	r.Paused = true
	r.Version = NextVersion(r.Version, now)
	return true
}

// Resume ends a pause. It reports whether that changes anything. The ticks during the pause count
// as missed and never fire.
func Resume(r *contract.ScheduleRecord, t cron.Timing, now time.Time) bool {
	if !r.Paused {
		return false
	}
	r.Paused = false
	r.Version = NextVersion(r.Version, now)
	if r.Next == 0 {
		return true
	}

	// The next tick never moves back, also if the clock has stepped back during the pause.
	after := max(now.UnixMilli(), r.Next-1)
	r.Missed += int64(countTicks(t, r.Next, after+1))
	r.Next = First(t, after, r.Last)
	return true
}

// nextTick returns the first tick after a time, or 0 if there is none.
func nextTick(t ticks, after int64) int64 {
	tick, ok := t.Next(at(after))
	if !ok {
		return 0
	}
	return tick.UnixMilli()
}

// at returns the time of a number of ms. Unlike with clock.FromMilli, 0 means 1970 and not the zero
// time.
func at(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
