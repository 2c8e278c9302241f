package cron

import (
	"testing"
	"time"
	_ "time/tzdata" // embeds the time zones, because the tests need the same zones on every host

	"github.com/dulymq/duly/internal/proctest"
)

// A segment contains its moment and has one offset. That holds even after the last entry of a zone,
// where ZoneBounds returns an end before the moment for 31 December of a leap year.
func TestSegmentHasOneOffset(t *testing.T) {
	t.Parallel()
	step := int64(25 * 3600)
	if proctest.Long() {
		step = 1801
	}
	from, to := time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC).Unix(), time.Date(2130, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	for _, name := range []string{
		"UTC", "America/New_York", "America/Sao_Paulo", "America/St_Johns", "Europe/London", "Europe/Berlin", "Europe/Dublin",
		"Africa/Casablanca", "Asia/Tehran", "Australia/Lord_Howe", "Pacific/Apia", "America/Nuuk", "Antarctica/Troll",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			loc, err := LoadZone(name)
			if err != nil {
				t.Fatal(err)
			}
			offset := func(unix int64) int64 {
				_, offset := time.Unix(unix, 0).In(loc).Zone()
				return int64(offset)
			}
			for unix := from; unix < to; unix += step {
				s := segmentAt(unix, loc)
				if s.start > unix || s.end <= unix || s.offset != offset(unix) {
					t.Fatalf("segment %+v of %s", s, time.Unix(unix, 0).UTC())
				}
				if s.start > -always && offset(s.start) != s.offset || s.end < always && offset(s.end-1) != s.offset {
					t.Fatalf("segment %+v of %s has several offsets", s, time.Unix(unix, 0).UTC())
				}
			}
		})
	}
}

// A local time of the repeated hour is reached once, whatever the moment is.
func TestRepeatedLocalTimeIsReachedOnce(t *testing.T) {
	t.Parallel()
	loc, err := LoadZone("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	back := time.Date(2026, 11, 1, 6, 0, 0, 0, time.UTC).Unix() // 02:00 EDT becomes 01:00 EST
	local := func(hour, minute int) int64 { return time.Date(2026, 11, 1, hour, minute, 0, 0, time.UTC).Unix() }
	for _, tt := range []struct{ unix, want int64 }{
		{back - 3600, local(1, 0) + 1},
		{back - 1, local(2, 0)},
		{back, local(2, 0)},
		{back + 1800, local(2, 0)},
		{back + 3600 - 1, local(2, 0)},
		{back + 3600, local(2, 0) + 1},
	} {
		if got := reached(tt.unix, loc); got != tt.want {
			t.Errorf("at %s, %s is reached", time.Unix(tt.unix, 0).In(loc), time.Unix(got, 0).UTC())
		}
	}
}

// A search for a local time stops at its limit. Without a limit, a date that never comes would be
// searched for without end.
func TestSearchStopsAtItsLimit(t *testing.T) {
	t.Parallel()
	local := func(year int, month time.Month, day, hour int) int64 {
		return time.Date(year, month, day, hour, 0, 0, 0, time.UTC).Unix()
	}
	for spec, hours := range map[string][2]int{"0 3 29 2 *": {3, 3}, "0 */2 29 2 *": {0, 22}} {
		e, err := Parse(spec)
		if err != nil {
			t.Fatal(err)
		}
		next, prev := local(2104, time.February, 29, hours[0]), local(2096, time.February, 29, hours[1])
		after, before := local(2096, time.March, 1, 0), local(2104, time.February, 28, 0)
		if got, ok := e.nextLocal(after, next); !ok || got != next {
			t.Errorf("%s: the next local time is %d, %v, want %d", spec, got, ok, next)
		}
		if got, ok := e.nextLocal(after, next-1); ok {
			t.Errorf("%s: the next local time is %d, after the limit", spec, got)
		}
		if got, ok := e.prevLocal(before, prev); !ok || got != prev {
			t.Errorf("%s: the previous local time is %d, %v, want %d", spec, got, ok, prev)
		}
		if got, ok := e.prevLocal(before, prev+1); ok {
			t.Errorf("%s: the previous local time is %d, before the limit", spec, got)
		}
	}
}
