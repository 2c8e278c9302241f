package cron_test

import (
	"testing"
	"time"
	_ "time/tzdata" // embeds the time zones, because the tests need the same zones on every host

	"github.com/dulymq/duly/internal/cron"
)

const rfc = "2006-01-02T15:04:05.999999999Z07:00"

func parse(t testing.TB, spec string) *cron.Expr {
	t.Helper()
	e, err := cron.Parse(spec)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	loc, err := cron.LoadZone(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

func moment(t testing.TB, text string) time.Time {
	t.Helper()
	m, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// tickTests are the rows of the table of rules C17.40 to C17.49, each with every tick of the local day.
var tickTests = []struct {
	name, zone, day string
	spec            string
	want            []string
}{
	{"Gap", "America/New_York", "2026-03-08", "30 2 * * *", []string{"2026-03-08T03:00:00-04:00"}},
	{"GapListOnce", "America/New_York", "2026-03-08", "0,30 2 * * *", []string{"2026-03-08T03:00:00-04:00"}},
	{"GapStepOnce", "America/New_York", "2026-03-08", "*/15 2 * * *", []string{"2026-03-08T03:00:00-04:00"}},
	{"GapEveryHour", "America/New_York", "2026-03-08", "0 * * * *", []string{
		"2026-03-08T00:00:00-05:00", "2026-03-08T01:00:00-05:00", "2026-03-08T03:00:00-04:00", "2026-03-08T04:00:00-04:00",
		"2026-03-08T05:00:00-04:00", "2026-03-08T06:00:00-04:00", "2026-03-08T07:00:00-04:00", "2026-03-08T08:00:00-04:00",
		"2026-03-08T09:00:00-04:00", "2026-03-08T10:00:00-04:00", "2026-03-08T11:00:00-04:00", "2026-03-08T12:00:00-04:00",
		"2026-03-08T13:00:00-04:00", "2026-03-08T14:00:00-04:00", "2026-03-08T15:00:00-04:00", "2026-03-08T16:00:00-04:00",
		"2026-03-08T17:00:00-04:00", "2026-03-08T18:00:00-04:00", "2026-03-08T19:00:00-04:00", "2026-03-08T20:00:00-04:00",
		"2026-03-08T21:00:00-04:00", "2026-03-08T22:00:00-04:00", "2026-03-08T23:00:00-04:00",
	}},
	{"GapEveryOtherHour", "America/New_York", "2026-03-08", "0 */2 * * *", []string{
		"2026-03-08T00:00:00-05:00", "2026-03-08T04:00:00-04:00", "2026-03-08T06:00:00-04:00", "2026-03-08T08:00:00-04:00",
		"2026-03-08T10:00:00-04:00", "2026-03-08T12:00:00-04:00", "2026-03-08T14:00:00-04:00", "2026-03-08T16:00:00-04:00",
		"2026-03-08T18:00:00-04:00", "2026-03-08T20:00:00-04:00", "2026-03-08T22:00:00-04:00",
	}},
	{"Repeated", "America/New_York", "2026-11-01", "30 1 * * *", []string{"2026-11-01T01:30:00-04:00"}},
	{"RepeatedList", "America/New_York", "2026-11-01", "0,30 1 * * *", []string{
		"2026-11-01T01:00:00-04:00", "2026-11-01T01:30:00-04:00",
	}},
	{"RepeatedEveryHour", "America/New_York", "2026-11-01", "0 * * * *", []string{
		"2026-11-01T00:00:00-04:00", "2026-11-01T01:00:00-04:00", "2026-11-01T01:00:00-05:00", "2026-11-01T02:00:00-05:00",
		"2026-11-01T03:00:00-05:00", "2026-11-01T04:00:00-05:00", "2026-11-01T05:00:00-05:00", "2026-11-01T06:00:00-05:00",
		"2026-11-01T07:00:00-05:00", "2026-11-01T08:00:00-05:00", "2026-11-01T09:00:00-05:00", "2026-11-01T10:00:00-05:00",
		"2026-11-01T11:00:00-05:00", "2026-11-01T12:00:00-05:00", "2026-11-01T13:00:00-05:00", "2026-11-01T14:00:00-05:00",
		"2026-11-01T15:00:00-05:00", "2026-11-01T16:00:00-05:00", "2026-11-01T17:00:00-05:00", "2026-11-01T18:00:00-05:00",
		"2026-11-01T19:00:00-05:00", "2026-11-01T20:00:00-05:00", "2026-11-01T21:00:00-05:00", "2026-11-01T22:00:00-05:00",
		"2026-11-01T23:00:00-05:00",
	}},
	{"GapOfHalfAnHour", "Australia/Lord_Howe", "2026-10-04", "15 2 * * *", []string{"2026-10-04T02:30:00+11:00"}},
	{"RepeatedHalfHour", "Australia/Lord_Howe", "2026-04-05", "45 1 * * *", []string{"2026-04-05T01:45:00+11:00"}},
	{"GapAtMidnight", "America/Sao_Paulo", "2018-11-04", "0 0 * * *", []string{"2018-11-04T01:00:00-02:00"}},
	{"MissingDay", "Pacific/Apia", "2011-12-30", "0 9 * * *", nil},
	{"AfterMissingDay", "Pacific/Apia", "2011-12-31", "0 9 * * *", []string{"2011-12-31T09:00:00+14:00"}},
}

// Rules C17.40 to C17.49: ticks around the changes of a zone's offset. No run is skipped when a
// local time does not exist, as in robfig/cron#541.
func TestTicksFollowChangesOfTheClock(t *testing.T) {
	t.Parallel()
	for _, tt := range tickTests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e, loc := parse(t, tt.spec), zone(t, tt.zone)
			from := moment(t, tt.day+"T00:00:00Z")
			onDay := func(tick time.Time) bool { return tick.In(loc).Format(time.DateOnly) == tt.day }

			var got []string
			for tick, ok := e.Next(from.Add(-48*time.Hour), loc); ok && tick.Before(from.Add(72*time.Hour)); tick, ok = e.Next(tick, loc) {
				if onDay(tick) {
					got = append(got, tick.Format(rfc))
				}
			}
			compare(t, "Next", got, tt.want)

			got = nil
			for tick, ok := e.Prev(from.Add(72*time.Hour), loc); ok && tick.After(from.Add(-48*time.Hour)); tick, ok = e.Prev(tick, loc) {
				if onDay(tick) {
					got = append([]string{tick.Format(rfc)}, got...)
				}
			}
			compare(t, "Prev", got, tt.want)
		})
	}
}

func compare(t *testing.T, how string, got, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: ticks %q, want %q", how, got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("%s: tick %d is %s, want %s", how, i, got[i], want[i])
		}
	}
}
