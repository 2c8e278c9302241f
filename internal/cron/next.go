package cron

import "time"

// MaxSearch is the number of years within which Next and Prev find a tick.
const MaxSearch = 10

// The bounds of the time of a tick, as Unix times: the years 1 to 9999.
const (
	earliest = -62_135_596_800
	latest   = 253_402_300_799
)

// Next returns the first tick after a moment, or false if there is none within [MaxSearch] years.
// The ticks of an @every expression count from 1970-01-01T00:00:00Z. A nil zone is UTC.
func (e *Expr) Next(after time.Time, zone *time.Location) (time.Time, bool) {
	return e.next(after, zone, time.Unix(0, 0))
}

// Prev returns the last tick before a moment, or false if there is none within [MaxSearch] years.
func (e *Expr) Prev(before time.Time, zone *time.Location) (time.Time, bool) {
	return e.prev(before, zone, time.Unix(0, 0))
}

func (e *Expr) next(after time.Time, zone *time.Location, anchor time.Time) (time.Time, bool) {
	zone = orUTC(zone)
	if after.Unix() < earliest {
		after = time.Unix(earliest-1, 0)
	}
	if after.Unix() > latest {
		return time.Time{}, false
	}
	if e.every > 0 {
		t := e.nextEvery(after, anchor)
		return t.In(zone), t.Unix() <= latest
	}

	// The limit ends the search for a date that never exists, such as February 30.
	limit := min(after.AddDate(MaxSearch, 0, 0).Unix(), latest)
	var at int64
	var ok bool
	if e.wildcard {
		at, ok = e.nextWildcard(after.Unix(), limit, zone)
	} else {
		at, ok = e.nextFixed(after.Unix(), limit, zone)
	}

	// The searches compare local times with the limit, so the exact moment is checked here.
	if !ok || at > limit {
		return time.Time{}, false
	}
	return time.Unix(at, 0).In(zone), true
}

func (e *Expr) prev(before time.Time, zone *time.Location, anchor time.Time) (time.Time, bool) {
	zone = orUTC(zone)
	if before.Unix() > latest {
		before = time.Unix(latest+1, 0)
	}
	if before.Unix() <= earliest {
		return time.Time{}, false
	}
	if e.every > 0 {
		t := e.prevEvery(before, anchor)
		return t.In(zone), t.Unix() >= earliest
	}

	until := before.Unix()
	if before.Nanosecond() == 0 {
		until-- // a tick is a whole second, so the last one before the moment is at most until-1
	}
	limit := max(before.AddDate(-MaxSearch, 0, 0).Unix(), earliest)
	var at int64
	var ok bool
	if e.wildcard {
		at, ok = e.prevWildcard(until, limit, zone)
	} else {
		at, ok = e.prevFixed(until, limit, zone)
	}
	if !ok || at < limit {
		return time.Time{}, false
	}
	return time.Unix(at, 0).In(zone), true
}

// nextFixed returns the first tick after a second. Local times and their ticks have the
// same order, so the first matching local time that the clock has not reached decides.
func (e *Expr) nextFixed(after, limit int64, zone *time.Location) (int64, bool) {
	local := reached(after, zone)
	for {
		// Local times differ from moments by less than maxChange, so the bound loses no tick.
		var ok bool
		if local, ok = e.nextLocal(local, limit+maxChange); !ok {
			return 0, false
		}
		unix, gap, ok := first(local, zone)
		if ok {
			return unix, true
		}

		// The gap is a change of the date line: its local times have no tick at all.
		local = gap.end
	}
}

// prevFixed returns the last tick at or before a second.
func (e *Expr) prevFixed(until, limit int64, zone *time.Location) (int64, bool) {
	// until itself may be a tick. reached returns the end of the local times up to it, so the last
	// one is 1 less.
	local := reached(until, zone) - 1
	for {
		var ok bool
		if local, ok = e.prevLocal(local, limit-maxChange); !ok {
			return 0, false
		}
		unix, gap, ok := first(local, zone)
		if ok {
			return unix, true
		}
		local = gap.start - 1
	}
}

// nextWildcard returns the first tick after a second. It searches one segment after the other,
// because a local time that occurs in two segments is a tick in both.
func (e *Expr) nextWildcard(after, limit int64, zone *time.Location) (int64, bool) {
	for unix := after + 1; unix <= limit; {
		s := segmentAt(unix, zone)
		local, ok := e.nextLocal(unix+s.offset, limit+maxChange)
		if ok && local-s.offset < s.end {
			return local - s.offset, true
		}

		// Rare ticks are years apart. A change of offset moves the clock by less than maxChange, so
		// there is no tick until maxChange before the next matching local time. The segments up to
		// that moment are skipped.
		far, ok := e.nextLocal(unix+s.offset-maxChange, limit+maxChange)
		if !ok {
			return 0, false
		}
		unix = max(s.end, far-s.offset-maxChange)
	}
	return 0, false
}

// prevWildcard returns the last tick at or before a second.
func (e *Expr) prevWildcard(until, limit int64, zone *time.Location) (int64, bool) {
	for unix := until; unix >= limit; {
		s := segmentAt(unix, zone)
		local, ok := e.prevLocal(unix+s.offset, limit-maxChange)
		if ok && local-s.offset >= s.start {
			return local - s.offset, true
		}

		far, ok := e.prevLocal(unix+s.offset+maxChange, limit-maxChange)
		if !ok {
			return 0, false
		}
		unix = min(s.start-1, far-s.offset+maxChange)
	}
	return 0, false
}

func orUTC(zone *time.Location) *time.Location {
	if zone == nil {
		return time.UTC
	}
	return zone
}
