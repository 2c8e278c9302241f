package cron

import "time"

// Timing is an expression in a zone, between two bounds.
type Timing struct {
	Expr *Expr
	// Zone is the zone of the ticks. Default UTC.
	Zone *time.Location
	// Start and End are the first and the last possible moment of a tick. A zero time means that
	// there is no limit. The ticks of an @every expression count from Start.
	Start, End time.Time
}

// Next returns the first tick after a moment, or false if there is none within [MaxSearch] years
// after the later of that moment and Start.
func (t Timing) Next(after time.Time) (time.Time, bool) {
	// A tick exactly at Start counts, so the search begins just before it.
	if before := t.Start.Add(-1); !t.Start.IsZero() && after.Before(before) {
		after = before
	}
	tick, ok := t.Expr.next(after, t.Zone, t.anchor())
	if !ok || !t.End.IsZero() && tick.After(t.End) {
		return time.Time{}, false
	}
	return tick, true
}

// Prev returns the last tick before a moment, or false if there is none within [MaxSearch] years
// before the earlier of that moment and End.
func (t Timing) Prev(before time.Time) (time.Time, bool) {
	// A tick exactly at End counts, so the search begins just after it.
	if after := t.End.Add(1); !t.End.IsZero() && before.After(after) {
		before = after
	}
	tick, ok := t.Expr.prev(before, t.Zone, t.anchor())
	if !ok || !t.Start.IsZero() && tick.Before(t.Start) {
		return time.Time{}, false
	}
	return tick, true
}

// Check returns an [Error] if no tick exists within [MaxSearch] years after the later of
// now and Start, and before End.
func (t Timing) Check(now time.Time) error {
	if _, ok := t.Next(now); ok {
		return nil
	}

	// The error names the field to change: End if a later tick exists, else the expression.
	from, name := now, "now"
	if t.Start.After(now) {
		from, name = t.Start, "start"
	}
	if tick, ok := (Timing{Expr: t.Expr, Zone: t.Zone, Start: t.Start}).Next(now); ok {
		return &Error{Field: "end", Problem: "is " + text(t.End) + ", before the first tick after " + name + " at " +
			text(tick) + "; set a later end or none"}
	}
	return bad("has no tick within %d years after %s, %s; name a date that exists", MaxSearch, name, text(from))
}

func (t Timing) anchor() time.Time {
	if t.Start.IsZero() {
		return time.Unix(0, 0)
	}
	return t.Start
}

func text(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.999Z07:00") }
