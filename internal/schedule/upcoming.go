package schedule

import (
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/cron"
)

// Tick is a tick with the time at which its run is due.
type Tick struct {
	// At is in the zone of the schedule.
	At, Due time.Time
}

// Upcoming returns at most n ticks of a schedule after a time. It returns none if this process does not know the zone.
func Upcoming(q duly.QueueRef, s *duly.Schedule, after time.Time, n int) (ticks []Tick) {
	timing, err := Timing(s)
	if err != nil {
		return nil
	}
	record := &contract.ScheduleRecord{Queue: q.Normal(), Schedule: *s}
	for at, ok := timing.Next(after); ok && len(ticks) < n; at, ok = timing.Next(at) {
		due := at.Add(time.Duration(Offset(record, at.UnixMilli())) * time.Millisecond)
		ticks = append(ticks, Tick{At: at.In(timing.Zone), Due: due.UTC()})
	}
	return ticks
}

// Passed counts the ticks from one of them until a time, at most a number. It is 0 without a first tick.
func Passed(s *duly.Schedule, first, until time.Time, most int) (n int) {
	timing, err := Timing(s)
	if err != nil || first.IsZero() {
		return 0
	}
	for at, ok := first, true; ok && n < most && !at.After(until); at, ok = timing.Next(at) {
		n++
	}
	return n
}

// Words describes an expression in words, "" for one that is not valid.
func Words(spec string) string {
	e, err := cron.Parse(spec)
	if err != nil {
		return ""
	}
	return e.Words()
}
