package cron_test

import (
	"slices"
	"testing"
	"time"

	"github.com/dulymq/duly/internal/cron"
)

// rare are expressions with a long search: years without a tick, or no tick at all.
var rare = []string{
	"0 0 29 2 *", "0 */2 29 2 *", "* * * 29 2 ?", "0 0 30 2 *", "0 */2 30 2 *", "59 59 23 31 12 *",
	"30 2/24 8 3 *", "0 0 31 2,4,6,9,11 *", "0 9 30 12 *", "* * 31 4/2 *",
}

// moments lie in and out of the tables of package time, and before the longest gap.
var moments = []string{
	"1999-12-31T23:59:59Z", "2011-12-30T10:00:00Z", "2026-03-08T06:59:59Z", "2026-11-01T05:30:00Z",
	"2040-12-31T12:00:00Z", "2096-03-01T00:00:00Z", "2104-02-28T00:00:00Z", "2399-12-31T00:00:00Z",
}

// perCall returns the duration of a call. It is the shortest of several rounds, because other
// processes can only make a round longer.
func perCall(call func()) time.Duration {
	const rounds, calls = 7, 10
	best := time.Hour
	for range rounds {
		start := time.Now()
		for range calls {
			call()
		}
		best = min(best, time.Since(start)/calls)
	}
	return best
}

// BenchmarkSlowestCall reports the slowest call to Next and Prev, in µs, over every expression of
// the tests in every zone: at rare moments, and before and after every change of the offset. The
// aim is at most 20 µs.
func BenchmarkSlowestCall(b *testing.B) {
	specs := allSpecs()
	for b.Loop() {
		var slowest time.Duration
		calls, which := 0, ""
		for _, name := range oracleZones {
			loc := zone(b, name)
			at := momentsOf(b, loc)
			for _, spec := range specs {
				e := parse(b, spec)
				for _, m := range at {
					calls += 2
					if took := slowerCall(e, m, loc, slowest); took > slowest {
						slowest, which = took, spec+" in "+name+" at "+m.UTC().Format(rfc)
					}
				}
			}
		}
		b.ReportMetric(float64(slowest.Nanoseconds())/1000, "slowest-µs")
		b.Logf("%d expressions, %d calls; the slowest is that of %s", len(specs), calls, which)
	}
}

// slowerCall returns the duration of the slower one of Next and Prev. A duration above most is measured
// again, because on a busy machine one of thousands of calls always has a slow moment.
func slowerCall(e *cron.Expr, at time.Time, loc *time.Location, most time.Duration) time.Duration {
	took := time.Hour
	for n := 0; n < 20 && took > most; n++ {
		took = min(took, max(perCall(func() { e.Next(at, loc) }), perCall(func() { e.Prev(at, loc) })))
	}
	return took
}

// allSpecs returns every expression of the tests that is valid.
func allSpecs() (specs []string) {
	for _, list := range [][]string{oracleSpecs, oracleSeconds, rare} {
		specs = append(specs, list...)
	}
	for _, tt := range tickTests {
		specs = append(specs, tt.spec)
	}
	slices.Sort(specs)
	return slices.Compact(specs)
}

// momentsOf returns the rare moments, and those before and after each change of the offset.
func momentsOf(t testing.TB, loc *time.Location) (at []time.Time) {
	t.Helper()
	for _, text := range moments {
		at = append(at, moment(t, text))
	}
	for _, change := range changes(loc, oracleStart, oracleEnd) {
		at = append(at, change.Add(-time.Second), change.Add(time.Second))
	}
	return at
}

// No search passes 10 years, whatever the expression is.
func TestSearchEndsWithin10Years(t *testing.T) {
	t.Parallel()
	for _, name := range oracleZones {
		loc := zone(t, name)
		for _, spec := range allSpecs() {
			e := parse(t, spec)
			for _, text := range append(moments, "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999Z", "9995-01-01T00:00:00Z") {
				m := moment(t, text)
				if tick, ok := e.Next(m, loc); ok && (!tick.After(m) || tick.After(m.AddDate(cron.MaxSearch, 0, 0))) {
					t.Errorf("%s: after %s comes %s", spec, m, tick)
				}
				if tick, ok := e.Prev(m, loc); ok && (!tick.Before(m) || tick.Before(m.AddDate(-cron.MaxSearch, 0, 0))) {
					t.Errorf("%s: before %s comes %s", spec, m, tick)
				}
			}
		}
	}
}

func BenchmarkParse(b *testing.B) {
	for b.Loop() {
		if _, err := cron.Parse("*/15 9-17 1,15 * MON-FRI"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLoadZone(b *testing.B) {
	for b.Loop() {
		zone(b, "America/New_York")
	}
}

func BenchmarkNext(b *testing.B) {
	benchmark(b, func(e *cron.Expr, at time.Time, loc *time.Location) { e.Next(at, loc) })
}

func BenchmarkPrev(b *testing.B) {
	benchmark(b, func(e *cron.Expr, at time.Time, loc *time.Location) { e.Prev(at, loc) })
}

func benchmark(b *testing.B, call func(*cron.Expr, time.Time, *time.Location)) {
	for _, bb := range []struct{ name, spec, zone, at string }{
		{"Minute", "* * * * *", "America/New_York", "2026-05-01T12:00:00Z"},
		{"Night", "0 3 * * *", "Europe/Berlin", "2026-05-01T12:00:00Z"},
		{"Gap", "30 2 * * *", "America/New_York", "2026-03-08T06:59:59Z"},
		{"LeapDay", "0 0 29 2 *", "America/New_York", "2096-03-01T00:00:00Z"},
		{"LeapDayHours", "0 */2 29 2 *", "America/New_York", "2096-03-01T00:00:00Z"},
		{"NoTick", "0 */2 30 2 *", "America/New_York", "2096-03-01T00:00:00Z"},
		{"Every", "@every 5m", "UTC", "2026-05-01T12:00:00Z"},
	} {
		b.Run(bb.name, func(b *testing.B) {
			e, loc, at := parse(b, bb.spec), zone(b, bb.zone), moment(b, bb.at)
			for b.Loop() {
				call(e, at, loc)
			}
		})
	}
}
