package cron_test

import (
	"iter"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly/internal/cron"
	"github.com/dulymq/duly/internal/proctest"
)

// oracleZones have gaps and overlaps of an hour, half an hour and a day. These are at midnight, at
// one minute past midnight, and around Ramadan.
var oracleZones = []string{
	"UTC", "America/New_York", "America/Sao_Paulo", "America/St_Johns", "Europe/London",
	"Europe/Berlin", "Africa/Casablanca", "Asia/Tehran", "Australia/Lord_Howe", "Pacific/Apia",
}

// oracleSpecs have ticks in and around the gaps and overlaps of these zones.
var oracleSpecs = []string{
	// Wildcard expressions.
	"* * * * *", "0 * * * *", "*/15 * * * *", "30 */2 * * *", "7,37 */3 * * 1-5", "0 0/1 * * *", "15 1-3/1 * * *",
	"*/20 */1 28-31 * *", "45 */6 1 * *", "1 */4 * 3,10 SUN", "59 23/1 * * *", "0 0/24 1 1 *", "30 2/24 8-14 3 *",
	"0 */12 29 2 *", "5 */8 13 * FRI",
	// Fixed-time expressions.
	"0 0 * * *", "1 0 * * *", "30 0 * * *", "0 1 * * *", "30 1 * * *", "0,30 1 * * *", "45 1 * * *", "*/15 1 * * *",
	"0 2 * * *", "15 2 * * *", "30 2 * * *", "*/15 2 * * *", "* 2 * * *", "0 3 * * *", "* 0-3 * * *", "30 0,1,2,3 * * *",
	"59 23 * * *", "0 23 * * 6", "0 9 * * *", "0 9 * * MON-FRI", "0 0 1 * *", "0 0 31 * *", "0 12 29 2 *", "30 2 * * 7",
	"0 0 1,15 * 3", "0 9 30 12 *", "*/7 2,14 ? * sun,Wed", "0 4 25-31 3,10 0", "10-20/5 1-2 * OCT-NOV *", "0 0 ? 1 1",
}

// oracleSeconds are expressions with a field of seconds.
var oracleSeconds = []string{
	"* * * * * *", "*/7 * * * * *", "30 */10 */2 * * *", "59 59 * * * *", "* * 1 * * *", "15,45 0/30 0-3 * * *",
	"*/25 59 0,1,23 * * SUN", "0 0 2 * * *", "1 0 2 * * *", "59 29 1,2 ? * *",
}

// Rules C17.27 to C17.35, C17.40, C17.42 and C17.43 to C17.49, against an oracle that lists
// every local minute. The short form looks at the days around every change of offset.
func TestTicksEqualOracle(t *testing.T) {
	t.Parallel()
	if n := len(oracleSpecs); n < 40 {
		t.Fatalf("%d expressions, want at least 40", n)
	}

	for _, name := range oracleZones {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			loc := zone(t, name)
			var windows []span
			switch {
			case proctest.Long():
				windows = []span{{oracleStart, oracleEnd}}
			case testing.Short():
				windows = around(loc, oracleEnd.AddDate(-3, 0, 0), oracleEnd, 36*time.Hour)
			default:
				windows = around(loc, oracleStart, oracleEnd, 36*time.Hour)
			}
			for _, w := range windows {
				newOracle(loc, w, 60).check(t, oracleSpecs)
			}
		})
	}
}

// zoneChanges has the numbers of gaps and of overlaps in the years of the oracle.
var zoneChanges = map[string][2]int{
	"UTC": {0, 0}, "America/New_York": {20, 20}, "America/Sao_Paulo": {12, 13}, "America/St_Johns": {20, 20},
	"Europe/London": {20, 20}, "Europe/Berlin": {20, 20}, "Africa/Casablanca": {26, 25}, "Asia/Tehran": {15, 15},
	"Australia/Lord_Howe": {20, 20}, "Pacific/Apia": {12, 11},
}

// The oracle meets every gap and overlap of its zones. An older database may have more of them than
// zoneChanges, because it expects changes that were called off later.
func TestOracleMeetsEveryChange(t *testing.T) {
	t.Parallel()
	for _, name := range oracleZones {
		var gaps, overlaps int
		loc := zone(t, name)
		for _, at := range changes(loc, oracleStart, oracleEnd) {
			_, before := at.Add(-time.Second).In(loc).Zone()
			if _, after := at.In(loc).Zone(); after > before {
				gaps++
			} else {
				overlaps++
			}
		}
		if want := zoneChanges[name]; gaps < want[0] || overlaps < want[1] {
			t.Errorf("%s has %d gaps and %d overlaps, want %d and %d", name, gaps, overlaps, want[0], want[1])
		}
	}
}

// Like TestTicksEqualOracle, with every second of local time. The short form covers three years.
func TestTicksWithSecondsEqualOracle(t *testing.T) {
	t.Parallel()
	from := oracleEnd.AddDate(-3, 0, 0)
	switch {
	case proctest.Long():
		from = oracleStart
	case testing.Short():
		from = oracleEnd.AddDate(-1, 0, 0)
	}

	for _, name := range oracleZones {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			loc := zone(t, name)
			for _, w := range around(loc, from, oracleEnd, 2*time.Hour) {
				newOracle(loc, w, 1).check(t, oracleSeconds)
			}
		})
	}
}

var (
	oracleStart = time.Date(2007, 1, 1, 0, 0, 0, 0, time.UTC)
	oracleEnd   = time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
)

// span is the time between two moments.
type span struct{ from, to time.Time }

// around returns the times around every change of the offset, found minute by minute. For a zone
// without changes it returns the times around each new year.
func around(loc *time.Location, from, to time.Time, margin time.Duration) []span {
	var spans []span
	for _, at := range changes(loc, from, to) {
		spans = append(spans, span{at.Add(-margin), at.Add(margin)})
	}
	for year := from.Year(); len(spans) < 3; year++ {
		at := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)
		spans = append(spans, span{at.Add(-margin), at.Add(margin)})
	}
	return spans
}

// changes returns the moments at which the offset changes.
func changes(loc *time.Location, from, to time.Time) []time.Time {
	var found []time.Time
	_, before := from.In(loc).Zone()
	for at := from; at.Before(to); at = at.Add(time.Hour) {
		_, after := at.In(loc).Zone()
		if after == before {
			continue
		}
		exact := at.Add(-time.Hour)
		for _, offset := exact.In(loc).Zone(); offset == before; _, offset = exact.In(loc).Zone() {
			exact = exact.Add(time.Minute)
		}
		found = append(found, exact)
		before = after
	}
	return found
}

// oracle knows every local time of a window, in units of a minute or a second. A moment
// and a local time are numbers of units.
type oracle struct {
	loc      *time.Location
	unit     int64
	from, to int64 // moments whose ticks are compared

	// offsets has the offset of each moment, starting with base.
	base        int64
	offsets     []int32
	least, most int64
	// occurs has the first moment of each local time, starting with firstLocal. Local times that
	// never occur have the value none.
	firstLocal int64
	occurs     []int32
}

const none = -1 << 31

func newOracle(loc *time.Location, w span, unit int64) *oracle {
	const pad = 26 * 3600 // larger than any change of an offset
	o := &oracle{loc: loc, unit: unit, from: w.from.Unix() / unit, to: w.to.Unix() / unit}
	o.base = o.from - pad/unit
	o.firstLocal = o.base - pad/unit
	o.occurs = slices.Repeat([]int32{none}, int(o.to-o.from+4*pad/unit))
	o.least, o.most = pad, -pad

	for at := o.base; at < o.to+pad/unit; at++ {
		_, offset := time.Unix(at*unit, 0).In(loc).Zone()
		o.offsets = append(o.offsets, int32(int64(offset)/unit))
		o.least, o.most = min(o.least, int64(offset)/unit), max(o.most, int64(offset)/unit)
		if local := &o.occurs[at+int64(offset)/unit-o.firstLocal]; *local == none {
			*local = int32(at - o.base)
		}
	}
	return o
}

// ticks yields the ticks of an expression by the words of rules C17.40 to C17.49.
func (o *oracle) ticks(spec string) iter.Seq[int64] {
	m := newMatcher(spec)
	if m.wildcard {
		return func(yield func(int64) bool) {
			for at := o.from; at < o.to; at++ {
				if m.matches(o.unit * (at + int64(o.offsets[at-o.base]))) {
					if !yield(at) {
						return
					}
				}
			}
		}
	}

	return func(yield func(int64) bool) {
		last := int64(-1)
		for local := o.from + o.least; local < o.to+o.most; local++ {
			if !m.matches(o.unit * local) {
				continue
			}
			i := int(local - o.firstLocal)
			at := o.occurs[i]
			if at == none {
				if at = o.afterGap(i); at == none {
					continue
				}
			}
			moment := o.base + int64(at)
			if moment < o.from || moment >= o.to || moment == last {
				continue
			}
			if last = moment; !yield(moment) {
				return
			}
		}
	}
}

// afterGap returns the first moment after the gap around a local time, or none if the gap is longer
// than 3 h.
func (o *oracle) afterGap(i int) int32 {
	start, end := i, i
	for start > 0 && o.occurs[start-1] == none {
		start--
	}
	for end < len(o.occurs) && o.occurs[end] == none {
		end++
	}
	if start == 0 || end == len(o.occurs) || int64(end-start)*o.unit > 3*3600 {
		return none
	}
	return o.occurs[end]
}

// check compares Next and Prev with the oracle, tick by tick.
func (o *oracle) check(t *testing.T, specs []string) {
	t.Helper()
	for _, spec := range specs {
		e := parse(t, spec)
		from, to := time.Unix(o.from*o.unit, 0), time.Unix(o.to*o.unit, 0)
		last := from.Add(-1)
		for at := range o.ticks(spec) {
			want := time.Unix(at*o.unit, 0)
			o.same(t, e, spec, last, want)
			if !last.Before(from) {
				if got, ok := e.Prev(want, o.loc); !ok || !got.Equal(last) {
					t.Fatalf("%s: before %s comes %s, want %s", spec, want.In(o.loc), got, last.In(o.loc))
				}
			}
			last = want
		}

		if got, ok := e.Next(last, o.loc); ok && got.Before(to) {
			t.Fatalf("%s: after %s comes %s, want no tick before %s", spec, last.In(o.loc), got, to)
		}
		if got, ok := e.Prev(to, o.loc); ok && !got.Before(from) && !got.Equal(last) {
			t.Fatalf("%s: before %s comes %s, want %s", spec, to, got, last.In(o.loc))
		}
	}
}

// same checks that all moments from after on have the same next tick.
func (o *oracle) same(t *testing.T, e *cron.Expr, spec string, after, want time.Time) {
	t.Helper()
	for _, from := range []time.Time{after, want.Add(-time.Second), after.Add(want.Sub(after) / 2)} {
		if from.Before(after) {
			continue
		}
		if got, ok := e.Next(from, o.loc); !ok || !got.Equal(want) {
			t.Fatalf("%s: after %s comes %s, want %s", spec, from.In(o.loc), got, want.In(o.loc))
		}
	}
}

// matcher is a second implementation of expressions, which shares no code with the package.
type matcher struct {
	fields             [6][64]bool
	eitherDay          bool
	wildcard           bool
	day                int64 // the day that was matched last
	dayMatches, hasDay bool
}

func newMatcher(spec string) *matcher {
	fields := strings.Fields(spec)
	if len(fields) == 5 {
		fields = append([]string{"0"}, fields...)
	}
	m := &matcher{wildcard: strings.ContainsAny(fields[2], "*/")}
	highest := [6]int{59, 59, 23, 31, 12, 7}
	for i, field := range fields {
		for _, item := range strings.Split(field, ",") {
			for v := range highest[i] + 1 {
				if itemHas(item, v, i, highest[i]) {
					m.fields[i][v] = true
				}
			}
		}
	}
	m.fields[5][0] = m.fields[5][0] || m.fields[5][7]
	unrestricted := func(field string) bool { return field == "*" || field == "?" }
	m.eitherDay = !unrestricted(fields[3]) && !unrestricted(fields[5])
	return m
}

func itemHas(item string, v, field, highest int) bool {
	const names = "SUN MON TUE WED THU FRI SAT"
	const months = "... JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC"
	number := func(text string) int {
		if at := strings.Index(names, strings.ToUpper(text)); at >= 0 && field == 5 {
			return at / 4
		}
		if at := strings.Index(months, strings.ToUpper(text)); at >= 0 && field == 4 {
			return at / 4
		}
		return decimal(text)
	}

	item, stepText, stepped := strings.Cut(item, "/")
	step := 1
	if stepped {
		step = decimal(stepText)
	}
	low, high := 0, highest
	if field == 3 || field == 4 {
		low = 1
	}
	if item != "*" && item != "?" {
		from, to, ranged := strings.Cut(item, "-")
		low = number(from)
		switch {
		case ranged:
			high = number(to)
		case !stepped:
			high = low
		}
	}
	return v >= low && v <= high && (v-low)%step == 0
}

func decimal(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return n
}

// matches reports whether a local time, in seconds, matches.
func (m *matcher) matches(local int64) bool {
	day, clock := local/86400, local%86400
	if !m.hasDay || m.day != day {
		date := time.Unix(local, 0).UTC()
		dom, dow := m.fields[3][date.Day()], m.fields[5][date.Weekday()]
		m.day, m.hasDay = day, true
		m.dayMatches = m.fields[4][date.Month()] && (m.eitherDay && (dom || dow) || !m.eitherDay && dom && dow)
	}
	return m.dayMatches && m.fields[2][clock/3600] && m.fields[1][clock/60%60] && m.fields[0][clock%60]
}
