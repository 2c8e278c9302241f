package cron_test

import (
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/cron"
)

// Every text is either parsed or has an error of one line. The ticks of a parsed expression are in
// order.
func FuzzParse(f *testing.F) {
	for _, list := range [][]string{oracleSpecs, oracleSeconds, rare} {
		for i, spec := range list {
			f.Add(spec, int64(1_772_953_199+i), uint8(i))
		}
	}
	for i, tt := range invalid {
		f.Add(tt.spec, int64(i)<<40, uint8(i))
	}
	locs := make([]*time.Location, len(oracleZones))
	for i, name := range oracleZones {
		locs[i] = zone(f, name)
	}

	f.Fuzz(func(t *testing.T, spec string, unix int64, place uint8) {
		e, err := cron.Parse(spec)
		if err != nil {
			if text := err.Error(); strings.ContainsAny(text, "\n\r") || len(text) > 500 {
				t.Fatalf("error %q", text)
			}
			return
		}

		loc, at := locs[int(place)%len(locs)], time.Unix(unix, int64(place))
		checkOrder(t, e, at, loc)
	})
}

// checkOrder checks that Next and Prev agree around a moment.
func checkOrder(t *testing.T, e *cron.Expr, at time.Time, loc *time.Location) {
	t.Helper()
	next, ok := e.Next(at, loc)
	if !ok {
		return
	}
	if !next.After(at) {
		t.Fatalf("after %s comes %s", at, next)
	}
	if again, ok := e.Next(next.Add(-1), loc); !ok || !again.Equal(next) {
		t.Fatalf("just before %s comes %s", next, again)
	}
	if prev, ok := e.Prev(next.Add(1), loc); !ok || !prev.Equal(next) {
		t.Fatalf("just after %s was %s", next, prev)
	}
	if prev, ok := e.Prev(next, loc); ok && prev.After(at) {
		t.Fatalf("between %s and %s is %s", at, next, prev)
	}
}

// A name of a zone from outside opens no file outside the database.
func FuzzLoadZone(f *testing.F) {
	for _, name := range append(oracleZones, "Local", "../etc/passwd", "right/UTC", "Etc/GMT+5", "A/", "A\x00") {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		loc, err := cron.LoadZone(name)
		if (loc == nil) == (err == nil) {
			t.Fatalf("zone %v, error %v", loc, err)
		}
		if err == nil && (strings.Contains(name, "..") || name == "Local" || len(name) > cron.MaxZone) {
			t.Fatalf("%q is a zone", name)
		}
	})
}

// @every takes the durations of the whole product.
func FuzzEvery(f *testing.F) {
	for _, text := range []string{"1s", "366d", "1d12h", "1.5s", "1d-1h", "-1d", "+5m", "106751d23h", "9223372036s", "1d0.5d", "1h1ns"} {
		f.Add(text, int64(1_772_953_199))
	}
	f.Fuzz(func(t *testing.T, text string, unix int64) {
		e, err := cron.Parse("@every " + text)
		d, bad := duly.ParseDuration(strings.Trim(text, " \t"))
		want := bad == nil && d >= cron.MinEvery && d <= cron.MaxEvery && d%time.Millisecond == 0 && len(text) < 240
		if (err == nil) != want {
			t.Fatalf("@every %s: error %v, as a duration %s, %v", text, err, d, bad)
		}
		if err == nil {
			checkOrder(t, e, time.Unix(unix%(1<<36), 0), time.UTC)
		}
	})
}
