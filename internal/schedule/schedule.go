package schedule

import (
	"errors"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/cron"
)

// Catchup says which missed ticks fire.
type Catchup string

// The policies for missed ticks.
const (
	CatchupOne  Catchup = "one" // the latest one, within the window; the default
	CatchupAll  Catchup = "all" // each one within the window
	CatchupNone Catchup = "none"
)

// Overlap says what a tick does while an earlier run waits or runs.
type Overlap string

// The policies for overlaps.
const (
	OverlapSkip  Overlap = "skip"  // at most one run waits or runs; the default
	OverlapAllow Overlap = "allow" // runs are independent
	OverlapOne   Overlap = "one"   // one run is active and one waits
	OverlapAll   Overlap = "all"   // runs follow one another
)

// DefaultWindow is the age up to which a missed tick fires.
const DefaultWindow = 24 * time.Hour

// Definition has the fields that a caller sets. A zero field takes its default.
type Definition struct {
	Name, Spec, Zone string
	// Start and End bound the ticks. The zero time is no bound.
	Start, End     time.Time
	Jitter, Window time.Duration
	Catchup        Catchup
	Overlap        Overlap
	Owner          string
	Template       duly.Job
}

// Record is a stored schedule.
type Record struct {
	Queue duly.QueueRef
	Definition
	Version int64
	Paused  bool
	// Next and Last are times in ms, 0 for none.
	Next, Last int64
}

// Timing reads the fields of the timing. It returns [duly.ErrInvalid], which names every
// bad field.
func (d *Definition) Timing() (cron.Timing, error) {
	var f contract.BadFields
	expr, err := cron.Parse(d.Spec)
	addField(&f, err)
	zone, err := cron.LoadZone(d.Zone)
	addField(&f, err)

	checkBound(&f, "start", d.Start)
	checkBound(&f, "end", d.End)
	if !d.Start.IsZero() && !d.End.IsZero() && !d.Start.Before(d.End) {
		f.Add("start", "is %s, must be before end, %s", rfc3339(d.Start), rfc3339(d.End))
	}
	return cron.Timing{Expr: expr, Zone: zone, Start: d.Start, End: d.End}, f.Err()
}

// CheckTicks returns [duly.ErrInvalid] for a timing without a tick in the next years.
func CheckTicks(t cron.Timing, now time.Time) error {
	var f contract.BadFields
	addField(&f, t.Check(now))
	return f.Err()
}

// addField adds the error of package cron, nil for none.
func addField(f *contract.BadFields, err error) {
	var e *cron.Error
	if errors.As(err, &e) {
		f.Add(e.Field, "%s", e.Problem)
	}
}

func checkBound(f *contract.BadFields, field string, t time.Time) {
	switch {
	case t.IsZero():
	case t.Before(time.Unix(0, 0)) || t.After(duly.MaxTime):
		f.Add(field, "is %s, must be between 1970 and %s", rfc3339(t), rfc3339(duly.MaxTime))
	case t.Nanosecond()%1e6 != 0:
		f.Add(field, "is %s, must be a whole millisecond", t.UTC().Format(time.RFC3339Nano))
	}
}

// First returns the first tick after the later of now and last, in ms, and 0 if there is
// none. It is the next tick of a schedule that is created, resumed, or put with another
// timing.
func First(t cron.Timing, now, last int64) int64 { return nextTick(t, max(now, last)) }

// nextTick returns the first tick after a moment, 0 for none.
func nextTick(t cron.Timing, after int64) int64 {
	tick, ok := t.Next(at(after))
	if !ok {
		return 0
	}
	return tick.UnixMilli()
}

// at returns the time of a number of ms. Unlike clock.FromMilli, 0 is 1970.
func at(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

func rfc3339(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
