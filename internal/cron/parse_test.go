package cron_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly/internal/cron"
)

// Rules C17.27, C17.28, C17.29, C17.30, C17.31 and C17.32: expressions that mean the same have the same ticks.
func TestEqualExpressionsHaveTheSameTicks(t *testing.T) {
	t.Parallel()
	for _, pair := range [][2]string{
		{"5 4 * * *", "0 5 4 * * *"},
		{"0 0 ? * ?", "0 0 * * *"},
		{"0 0 ?/2 * *", "0 0 */2 * *"},
		{"0 0 * * 0", "0 0 * * 7"},
		{"0 0 * * sun,Mon", "0 0 * * 0,1"},
		{"0 0 * * 5-7", "0 0 * * 0,5,6"},
		{"0 0 * * 1/3", "0 0 * * 0,1,4"},
		{"0 0 1 jan-MAR *", "0 0 1 1-3 *"},
		{"10/20 * * * *", "10,30,50 * * * *"},
		{"10-40/15 * * * *", "10,25,40 * * * *"},
		{"*/99 * * * *", "0 * * * *"},
		{"*/999999999 * * * *", "0 * * * *"},
		{"05 04 01 * *", "5 4 1 * *"},
		{" 0\t3  * * * ", "0 3 * * *"},
		{"1,1,2 * * * *", "1-2 * * * *"},
		{"@yearly", "0 0 1 1 *"}, {"@annually", "0 0 1 1 *"}, {"@monthly", "0 0 1 * *"}, {"@weekly", "0 0 * * 0"},
		{"@daily", "0 0 * * *"}, {"@midnight", "0 0 * * *"}, {"@hourly", "0 * * * *"},
	} {
		a, b := parse(t, pair[0]), parse(t, pair[1])
		at := time.Date(2026, 2, 3, 4, 5, 6, 7, time.UTC)
		for range 50 {
			x, okX := a.Next(at, time.UTC)
			y, okY := b.Next(at, time.UTC)
			if okX != okY || !x.Equal(y) {
				t.Fatalf("%q and %q: after %s come %s and %s", pair[0], pair[1], at, x, y)
			}
			at = x
		}
	}
}

// Rule C17.31: a day field is restricted unless it is "*" or "?".
func TestUnrestrictedDayFieldIsIgnored(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]string{
		"0 0 13 * 5":   "2026-02-06T00:00:00Z", // the first Friday
		"0 0 13 * *":   "2026-02-13T00:00:00Z",
		"0 0 */31 * 5": "2026-02-06T00:00:00Z",
		"0 0 20 * */7": "2026-02-08T00:00:00Z", // a Sunday
		"0 0 20 * ?":   "2026-02-20T00:00:00Z",
		"0 0 20 * 0-7": "2026-02-05T00:00:00Z", // matches every day, but counts as restricted
	} {
		got, _ := parse(t, spec).Next(moment(t, "2026-02-04T12:00:00Z"), time.UTC)
		if got.Format(rfc) != want {
			t.Errorf("%s: %s, want %s", spec, got.Format(rfc), want)
		}
	}
}

// invalid has invalid expressions, each with the texts that its error must contain.
var invalid = []struct {
	spec string
	says []string
}{
	{"", []string{"has 0 bytes", "1 to 255"}},
	{" \t ", []string{"blank", "0 3 * * *"}},
	{strings.Repeat("1,", 124) + "0 * * * *", []string{"has 257 bytes", "1 to 255"}},
	{"0 3 * * " + strings.Repeat("1", 248), []string{"has 256 bytes", "1 to 255"}},
	{"60 * * * *", []string{"minute", `"60"`, "0 to 59"}},
	{"60 * * * * *", []string{"second", `"60"`, "0 to 59"}},
	{"* 24 * * *", []string{"hour", `"24"`, "0 to 23"}},
	{"* * 0 * *", []string{"day of month", `"0"`, "1 to 31"}},
	{"* * 32 * *", []string{"day of month", `"32"`, "1 to 31"}},
	{"* * * 13 *", []string{"month", `"13"`, "1 to 12 or JAN to DEC"}},
	{"* * * MAI *", []string{"month", `"MAI"`, "JAN to DEC"}},
	{"* * * * 8", []string{"day of week", `"8"`, "0 to 7 or SUN to SAT"}},
	{"5-1 * * * *", []string{"minute", `"5-1"`, "start is after its end", "5-59,0-1"}},
	{"* * * * FRI-SUN", []string{"day of week", `"FRI-SUN"`, "5-7"}},
	{"* * * * SAT-MON", []string{"day of week", `"SAT-MON"`, "6,0-1"}},
	{"* * * NOV-FEB *", []string{"month", `"NOV-FEB"`, "11-12,1-2"}},
	{"*/0 * * * *", []string{"minute", "step", `"0"`, "at least 1", "*/5"}},
	{"*/ * * * *", []string{"minute", "step", `""`}},
	{"*/-1 * * * *", []string{"minute", "step", `"-1"`}},
	{"1/2/3 * * * *", []string{"minute", "step", `"2/3"`}},
	{"-1 * * * *", []string{"minute", `""`}},
	{"+1 * * * *", []string{"minute", `"+1"`}},
	{"1--2 * * * *", []string{"minute", `"-2"`}},
	{"1, * * * *", []string{"minute", `""`, "a list such as 1,3,5"}},
	{"*-5 * * * *", []string{"minute", `"*"`}},
	{"** * * * *", []string{"minute", `"**"`}},
	{"? * * * *", []string{"minute", `"?"`, "only the two day fields"}},
	{"1.5 * * * *", []string{"minute", `"1.5"`}},
	{"1234567890 * * * *", []string{"minute", `"1234567890"`, "0 to 59"}},
	{"\x80 * * * *", []string{"minute", `"\x80"`}},
	{"0\u00a03 * * *", []string{"4 fields"}},
	{"0 0 * *", []string{"4 fields", "5 fields (minute, hour, day of month, month, day of week) or 6 (second first)"}},
	{"0 0 0 1 1 * 2027", []string{"7 fields", "5 fields (", "6 (", "leave out the year"}},
	{"0 0 0 1 1 * 2027 1", []string{"8 fields"}},
	{"@reboot", []string{"@reboot", "no fixed time", "@daily", "@every 5m"}},
	{"@Daily", []string{`"@Daily"`, "not a macro", "@daily"}},
	{"@daily 5", []string{`"5"`, "@daily", "alone"}},
	{"L", []string{`"L"`, "must have 5 fields", "0 3 * * *"}},
	{"0 0 L * *", []string{"day of month", `"L"`, "1 to 31", "return early"}},
	{"15W", []string{`"15W"`, "must have 5 fields"}},
	{"0 0 15W * *", []string{"day of month", `"15W"`, "return early"}},
	{"FRI#3", []string{`"FRI#3"`, "must have 5 fields"}},
	{"0 0 * * FRI#3", []string{"day of week", `"FRI#3"`, "return early"}},
	{"0 0 * * 5L", []string{"day of week", `"5L"`, "return early"}},
	{"H * * * *", []string{"minute", `"H"`, "0 to 59", "jitter"}},
	{"H(0-29)/10 * * * *", []string{"minute", `"H(0"`, "jitter"}},
	{"TZ=UTC 0 0 * * *", []string{`"TZ=UTC"`, "the field zone"}},
	{"CRON_TZ=UTC 0 0 * * *", []string{`"CRON_TZ=UTC"`, "the field zone"}},
	{"@every", []string{"0 words after @every", "1s to 366d", "@every 90s"}},
	{"@every 5", []string{`"5"`, "not a duration", "1s to 366d"}},
	{"@every -5m", []string{`"-5m"`, "1s to 366d"}},
	{"@every 999ms", []string{`"999ms"`, "must be 1s to 366d"}},
	{"@every 366d1ms", []string{`"366d1ms"`, "must be 1s to 366d"}},
	{"@every 1500us", []string{`"1500us"`, "must be 1s to 366d"}},
	{"@every 1500500us", []string{`"1500500us"`, "whole milliseconds"}},
	{"@every 5m 3s", []string{"2 words after @every"}},
}

// Rule C17.34.
func TestInvalidExpressionsAreRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range invalid {
		_, err := cron.Parse(tt.spec)
		checkError(t, tt.spec, err, "spec", tt.says)
	}
}

func checkError(t *testing.T, what string, err error, field string, says []string) {
	t.Helper()
	var e *cron.Error
	if !errors.As(err, &e) {
		t.Errorf("%.60q: error %v, want a cron.Error", what, err)
		return
	}
	if e.Field != field || strings.ContainsAny(e.Problem, "\n\x80") || strings.HasSuffix(e.Problem, ".") {
		t.Errorf("%.60q: field %s, problem %q", what, e.Field, e.Problem)
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("%.60q: %s; want it to say %s", what, err, s)
		}
	}
}

// Rules C17.36 and C17.37: a zone is a name of the IANA database, or "" for UTC.
func TestZoneMustBeAnIANAName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+5", "America/Port-au-Prince", "EST5EDT"} {
		if loc := zone(t, name); loc.String() != name {
			t.Errorf("zone %s is %s", name, loc)
		}
	}
	if loc := zone(t, ""); loc != time.UTC {
		t.Errorf("the empty zone is %s, want UTC", loc)
	}

	for name, says := range map[string][]string{
		"Local":                 {`"Local"`, "host to host", "Europe/Berlin"},
		"localtime":             {"host to host"},
		"Mars/Phobos":           {`"Mars/Phobos"`, "does not know", "IANA", "Europe/Berlin"},
		"../etc/passwd":         {`"../etc/passwd"`, "not the name of a zone", "IANA"},
		"/etc/localtime":        {"not the name of a zone"},
		"Europe/../../passwd":   {"not the name of a zone"},
		"Europe//Berlin":        {"not the name of a zone"},
		"Europe\\Berlin":        {"not the name of a zone"},
		"right/Europe/Berlin":   {"not the name of a zone"},
		"posixrules":            {"not the name of a zone"},
		"Europe":                {"does not know"},
		"Europe/Berlin\n":       {"not the name of a zone"},
		strings.Repeat("A", 65): {"has 65 bytes", "1 to 64"},
	} {
		_, err := cron.LoadZone(name)
		checkError(t, name, err, "zone", says)
	}
}

// Rule C17.35: a schedule needs a tick within 10 years, and before its end.
func TestExpressionWithoutATickIsInvalid(t *testing.T) {
	t.Parallel()
	now := moment(t, "2026-05-01T12:00:00Z")
	tests := []struct {
		spec, start, end string
		field            string // field that the error names; "" if there is a tick
		says             []string
	}{
		{spec: "0 0 30 2 *", field: "spec", says: []string{"no tick within 10 years after now", "2026-05-01T12:00:00Z", "a date that exists"}},
		{spec: "0 */2 30 2 *", field: "spec", says: []string{"no tick"}},
		{spec: "0 0 31 2,4,6,9,11 *", start: "2030-01-01T00:00:00Z", field: "spec", says: []string{"after start, 2030-01-01T00:00:00Z"}},
		{spec: "0 0 29 2 *"},
		{spec: "0 0 29 2 *", start: "2096-03-01T00:00:00Z"},
		{spec: "0 0 29 2 *", start: "2096-03-01T00:00:00Z", end: "2104-02-29T00:00:00Z"},
		{
			spec: "0 0 29 2 *", start: "2096-03-01T00:00:00Z", end: "2104-02-28T23:59:59.999Z", field: "end",
			says: []string{"2104-02-28T23:59:59.999Z", "the first tick after start", "2104-02-29T00:00:00Z", "later end"},
		},
		{spec: "0 3 * * *", end: "2026-05-02T02:59:59Z", field: "end", says: []string{"after now at 2026-05-02T03:00:00Z"}},
		{spec: "0 3 * * *", end: "2026-05-02T03:00:00Z"},
		{spec: "0 3 * * *", end: "2020-01-01T00:00:00Z", field: "end"},
		{spec: "@every 1h", start: "2026-06-01T00:00:00.5Z", end: "2026-06-01T00:00:00.5Z"},
		{spec: "@every 1h", start: "9999-12-31T23:59:59.999Z", field: ""},
		{spec: "0 0 1 1 *", start: "9999-12-31T23:59:59.999Z", field: "spec"},
	}
	for _, tt := range tests {
		timing := cron.Timing{Expr: parse(t, tt.spec)}
		if tt.start != "" {
			timing.Start = moment(t, tt.start)
		}
		if tt.end != "" {
			timing.End = moment(t, tt.end)
		}

		err := timing.Check(now)
		if tt.field == "" {
			if err != nil {
				t.Errorf("%+v: %v", tt, err)
			}
			continue
		}
		checkError(t, tt.spec, err, tt.field, tt.says)
	}
}

// Rules C17.33 and C17.49: the ticks of @every are multiples of the period, without zones and gaps.
func TestEveryTicksAtMultiplesOfItsPeriod(t *testing.T) {
	t.Parallel()
	tests := []struct{ spec, start, after, next, prev string }{
		{"@every 5m", "", "2026-03-08T06:59:59.999Z", "2026-03-08T07:00:00Z", "2026-03-08T06:55:00Z"},
		{"@every 5m", "", "2026-03-08T07:00:00Z", "2026-03-08T07:05:00Z", "2026-03-08T06:55:00Z"},
		{"@every 5m", "", "2026-03-08T07:00:00.000000001Z", "2026-03-08T07:05:00Z", "2026-03-08T07:00:00Z"},
		{"@every 1.5s", "", "1970-01-01T00:00:01.499999999Z", "1970-01-01T00:00:01.5Z", "1970-01-01T00:00:00Z"},
		{"@every 1.5s", "", "1969-12-31T23:59:59Z", "1970-01-01T00:00:00Z", "1969-12-31T23:59:58.5Z"},
		{"@every 1d", "2026-03-08T06:00:00.25Z", "2020-01-01T00:00:00Z", "2026-03-08T06:00:00.25Z", ""},
		{"@every 1d", "2026-03-08T06:00:00.25Z", "2026-03-09T06:00:00.25Z", "2026-03-10T06:00:00.25Z", "2026-03-08T06:00:00.25Z"},
		{"@every 366d", "2000-01-01T00:00:00Z", "2000-01-01T00:00:00Z", "2001-01-01T00:00:00Z", ""},
		{"@every 1d12h", "2000-01-01T00:00:00Z", "2000-01-01T00:00:00Z", "2000-01-02T12:00:00Z", ""},
	}
	for _, tt := range tests {
		timing := cron.Timing{Expr: parse(t, tt.spec), Zone: zone(t, "America/New_York")}
		if tt.start != "" {
			timing.Start = moment(t, tt.start)
		}
		if got, _ := timing.Next(moment(t, tt.after)); got.UTC().Format(rfc) != tt.next {
			t.Errorf("%+v: next %s", tt, got.UTC().Format(rfc))
		}
		if got, ok := timing.Prev(moment(t, tt.after)); ok != (tt.prev != "") || ok && got.UTC().Format(rfc) != tt.prev {
			t.Errorf("%+v: prev %s, %v", tt, got.UTC().Format(rfc), ok)
		}
	}
}

// Rule C17.41: start and end are included.
func TestStartAndEndAreIncluded(t *testing.T) {
	t.Parallel()
	timing := cron.Timing{
		Expr:  parse(t, "0 * * * *"),
		Start: moment(t, "2026-05-01T10:00:00Z"), End: moment(t, "2026-05-01T12:00:00Z"),
	}
	var got []string
	for tick, ok := timing.Next(time.Time{}); ok; tick, ok = timing.Next(tick) {
		got = append(got, tick.Format("15:04"))
	}
	for tick, ok := timing.Prev(moment(t, "2030-01-01T00:00:00Z")); ok; tick, ok = timing.Prev(tick) {
		got = append(got, tick.Format("15:04"))
	}
	if list := strings.Join(got, " "); list != "10:00 11:00 12:00 12:00 11:00 10:00" {
		t.Errorf("ticks %s", list)
	}

	timing.Start, timing.End = timing.Start.Add(time.Millisecond), timing.End.Add(-time.Millisecond)
	if tick, _ := timing.Next(time.Time{}); tick.Hour() != 11 {
		t.Errorf("first tick %s, want 11:00", tick)
	}
	if tick, _ := timing.Prev(moment(t, "2030-01-01T00:00:00Z")); tick.Hour() != 11 {
		t.Errorf("last tick %s, want 11:00", tick)
	}
}

// The fraction of a second of a moment counts: a tick in the same second may be before the moment.
func TestFractionOfASecondCounts(t *testing.T) {
	t.Parallel()
	for _, spec := range []string{"* * * * * *", "* * 0-23 * * *"} {
		e := parse(t, spec)
		whole := moment(t, "2026-05-01T10:00:00Z")
		for _, tt := range []struct{ after, next, prev time.Duration }{
			{0, time.Second, -time.Second},
			{1, time.Second, 0},
			{-1, 0, -time.Second},
		} {
			next, _ := e.Next(whole.Add(tt.after), time.UTC)
			prev, _ := e.Prev(whole.Add(tt.after), time.UTC)
			if next.Sub(whole) != tt.next || prev.Sub(whole) != tt.prev {
				t.Errorf("%s: at %s next %s and prev %s", spec, tt.after, next.Sub(whole), prev.Sub(whole))
			}
		}
	}
}

// Rules C17.44 and C17.47: the local times of a gap of exactly 3 h have ticks. Those of a longer
// gap have none.
func TestOnlyShortGapsHaveTicks(t *testing.T) {
	t.Parallel()
	tests := []struct{ zone, after, spec, want string }{
		// The clock jumps from 02:00 to 05:00.
		{"Antarctica/Casey", "2009-10-17T12:00:00Z", "30 3 * * *", "2009-10-18T05:00:00+11:00"},
		{"Pacific/Apia", "2011-12-29T20:00:00Z", "0 9 * * *", "2011-12-31T09:00:00+14:00"},
		{"Pacific/Kwajalein", "1993-08-20T22:00:00Z", "0 9 * * *", "1993-08-22T09:00:00+12:00"},
	}
	for _, tt := range tests {
		got, _ := parse(t, tt.spec).Next(moment(t, tt.after), zone(t, tt.zone))
		if got.Format(rfc) != tt.want {
			t.Errorf("%+v: %s", tt, got.Format(rfc))
		}
	}
}
