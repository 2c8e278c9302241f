package schedule

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // embeds the time zones, because the tests need the same zones on every host

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/cron"
)

const second, minute, hour, day = int64(1000), 60 * second, 60 * minute, 24 * hour

func record(t testing.TB, d duly.Schedule, next int64) (*contract.ScheduleRecord, cron.Timing) {
	t.Helper()
	if d.Name == "" {
		d.Name = "nightly"
	}
	timing, err := Timing(&d)
	if err != nil {
		t.Fatal(err)
	}
	return &contract.ScheduleRecord{Queue: duly.Q("reports"), Schedule: d, Version: 7, Next: next}, timing
}

// fire processes an item as an engine does.
func fire(r *contract.ScheduleRecord, item contract.FireItem) {
	r.Advance(&item, duly.PushResult{Status: duly.Created})
}

// periods are schedules that have a fixed period in UTC.
var periods = []struct {
	name   string
	specs  []string
	period int64
}{
	{"1s", []string{"* * * * * *", "* * 0-23 * * *", "@every 1s"}, second},
	{"5min", []string{"*/5 * * * *", "@every 5m"}, 5 * minute},
	{"1d", []string{"0 0 * * *", "@every 1d"}, day},
	{"1w", []string{"0 0 * * THU", "@every 7d"}, 7 * day}, // THU, because 1970 began on a Thursday
}

var absences = []struct {
	name   string
	length int64
}{{"1s", second}, {"61s", 61 * second}, {"25h", 25 * hour}, {"8d", 8 * day}, {"1y", 365 * day}}

var (
	catchups = []duly.Catchup{duly.CatchupOne, duly.CatchupAll, duly.CatchupNone}
	overlaps = []duly.Overlap{duly.OverlapSkip, duly.OverlapAllow, duly.OverlapOne, duly.OverlapAll}
)

// Rules C17.95 to C17.105, for each absence, period, policy for missed ticks and policy for
// overlaps.
func TestMissedTicksFollowThePolicies(t *testing.T) {
	t.Parallel()
	const expected = 3000 * 7 * day // a multiple of every period
	for _, p := range periods {
		for _, a := range absences {
			for _, c := range catchups {
				for _, o := range overlaps {
					t.Run(fmt.Sprintf("%s/%s/%s/%s", p.name, a.name, c, o), func(t *testing.T) {
						t.Parallel()
						for i, spec := range p.specs {
							if i > 0 && (o != duly.OverlapSkip || testing.Short()) {
								break // the overlap policy has no influence on the ticks
							}
							r, timing := record(t, duly.Schedule{Spec: spec, Catchup: c, Overlap: o}, expected)
							checkAbsence(t, r, timing, p.period, expected+a.length)
						}
					})
				}
			}
		}
	}
}

// checkAbsence compares the items of a schedule that was not fired until now with the rule.
func checkAbsence(t *testing.T, r *contract.ScheduleRecord, timing cron.Timing, period, now int64) {
	t.Helper()
	latest := now - now%period
	oldest := now - 24*hour
	if r.Catchup == duly.CatchupNone {
		oldest = now - minute
	}

	// want has the ticks that fire, from the formula of a fixed period.
	var want []int64
	first := max(r.Next, (oldest+period-1)/period*period)
	if r.Catchup != duly.CatchupAll {
		first = max(first, latest)
	}
	for tick := first; tick <= latest; tick += period {
		want = append(want, tick)
	}
	passed := int((latest-r.Next)/period) + 1

	var fired []int64
	missed, calls := 0, 0
	for ; ; calls++ {
		items := Fold(r, timing, now, 0)
		if items == nil {
			break
		}
		for _, item := range items {
			if item.Expected != r.Next || item.Tick < item.Expected || item.Tick > now || item.Tick%period != 0 ||
				item.Version != 7 ||
				item.Following != item.Tick+period && item.Following != latest+period {
				t.Fatalf("next %d, item %+v", r.Next, item)
			}
			if item.Job != nil {
				checkRun(t, r, item)
				fired = append(fired, item.Tick)
			}
			missed += item.Missed
			fire(r, item)
		}
	}

	if !slices.Equal(fired, want) {
		t.Errorf("%s: %d ticks fired, want %d", r.Spec, len(fired), len(want))
	}
	if wantMissed := min(passed-len(want), contract.MaxMissed); missed != wantMissed {
		t.Errorf("%s: %d ticks missed, want %d", r.Spec, missed, wantMissed)
	}
	if wantCalls := max(1, (len(want)+duly.MaxBatch-1)/duly.MaxBatch); calls != wantCalls {
		t.Errorf("%s: %d calls, want %d", r.Spec, calls, wantCalls)
	}
	if r.Next != latest+period {
		t.Errorf("%s: next is %d, want %d", r.Spec, r.Next, latest+period)
	}
}

// checkRun checks the keys that the policy for overlaps sets: rules C17.68 to C17.72.
func checkRun(t *testing.T, r *contract.ScheduleRecord, item contract.FireItem) {
	t.Helper()
	const key = "schedule:nightly"
	var merge duly.Merge
	order := ""
	switch r.Overlap {
	case duly.OverlapSkip:
		merge = duly.Merge{Key: key, Mode: duly.MergeKeep, Until: duly.UntilDone}
	case duly.OverlapOne:
		merge, order = duly.Merge{Key: key, Mode: duly.MergeKeep, Until: duly.UntilLeased}, key
	case duly.OverlapAll:
		order = key
	}
	if j := item.Job; j.Merge != merge || j.OrderKey != order {
		t.Fatalf("run %+v, want merge %+v and order key %q", j, merge, order)
	}
	if tick := item.Job.Headers[duly.HeaderTick]; tick != at(item.Tick).Format("2006-01-02T15:04:05.000Z") {
		t.Fatalf("tick %d has the header %s", item.Tick, tick)
	}
}

// By default, an absence of two weeks with ticks every 5 seconds makes one run. In river#1035, every
// missed tick ran.
func TestAbsenceMakesOneRunByDefault(t *testing.T) {
	t.Parallel()
	const expected = 3000 * 7 * day
	for _, spec := range []string{"*/5 * * * * *", "@every 5s"} {
		r, timing := record(t, duly.Schedule{Spec: spec}, expected)
		items := Fold(r, timing, expected+14*day+3*second, 0)
		if len(items) != 1 || items[0].Job == nil || items[0].Tick != expected+14*day ||
			items[0].Missed != contract.MaxMissed {
			t.Fatalf("items %+v, want one run", items)
		}
		fire(r, items[0])
		if again := Fold(r, timing, expected+14*day+3*second, 0); again != nil {
			t.Errorf("a second call has %+v", again)
		}
	}
}

// Any number of missed ticks makes one run. In kubernetes/website#9296, a schedule stops after a
// hundred.
func TestManyMissedTicksMakeOneRun(t *testing.T) {
	t.Parallel()
	const expected = 3000 * 7 * day
	for _, missed := range []int64{0, 1, 99, 100, 101, 1000, 1001, 100_000_000} {
		r, timing := record(t, duly.Schedule{Spec: "* * * * * *"}, expected)
		items := Fold(r, timing, expected+missed*second, 0)
		if len(items) != 1 || items[0].Job == nil || items[0].Missed != int(min(missed, contract.MaxMissed)) {
			t.Errorf("after %d missed ticks: items %+v, want one run", missed, items)
		}
	}
}

// countedTicks counts how often ticks are looked for.
type countedTicks struct {
	ticks
	calls int
}

func (c *countedTicks) Next(after time.Time) (time.Time, bool) {
	c.calls++
	return c.ticks.Next(after)
}

func (c *countedTicks) Prev(before time.Time) (time.Time, bool) {
	c.calls++
	return c.ticks.Prev(before)
}

// yearSpecs are expressions with which a year has few ticks and many. With seconds and catchup all, the ticks
// of a day are more than two calls fire.
var yearSpecs = []struct {
	spec    string
	seconds bool
}{
	{"* * * * * *", true}, {"* * 0-23 * * *", true}, {"@every 1s", true}, {"*/5 * * * *", false},
	{"30 2 * * *", false}, {"0 0 * * 0", false}, {"0 0 29 2 *", false},
}

// absent returns a schedule whose ticks nobody has fired for a year.
func absent(t testing.TB, spec string, c duly.Catchup, now int64) (*contract.ScheduleRecord, cron.Timing) {
	r, timing := record(t, duly.Schedule{Spec: spec, Zone: "America/New_York", Catchup: c}, 0)
	r.Next = First(timing, now-365*day, 0)
	return r, timing
}

// Rule C17.105: after an absence of a year, two calls look for as many ticks as two calls count and fire at
// most, also in a zone with changes of the offset.
func TestYearOfAbsenceIsFoldedInTwoCalls(t *testing.T) {
	t.Parallel()
	now := clock.Milli(time.Date(2027, 5, 1, 12, 0, 0, 500e6, time.UTC))
	for _, tt := range yearSpecs {
		for _, c := range catchups {
			r, timing := absent(t, tt.spec, c, now)
			counted := &countedTicks{ticks: timing}
			for calls := 0; r.Next <= now && calls < 2; calls++ {
				for _, item := range foldTicks(r, counted, now, 0) {
					fire(r, item)
				}
			}

			// A call looks for the latest tick, or the oldest that fires, and for the one behind each.
			if most := 2 * (contract.MaxMissed + duly.MaxBatch + 3); counted.calls > most {
				t.Errorf("%s, %s: two calls look for %d ticks, want at most %d", tt.spec, c, counted.calls, most)
			}
			if still := r.Next <= now; still != (tt.seconds && c == duly.CatchupAll) {
				t.Errorf("%s, %s: due after two calls: %v", tt.spec, c, still)
			}
		}
	}
}

// BenchmarkYearOfAbsence measures the first call after an absence of a year. A walk over all missed ticks of
// a second takes 30 s.
func BenchmarkYearOfAbsence(b *testing.B) {
	now := clock.Milli(time.Date(2027, 5, 1, 12, 0, 0, 500e6, time.UTC))
	for _, tt := range yearSpecs {
		for _, c := range catchups {
			b.Run(tt.spec+"/"+string(c), func(b *testing.B) {
				r, timing := absent(b, tt.spec, c, now)
				for b.Loop() {
					Fold(r, timing, now, 0)
				}
			})
		}
	}
}

func TestFoldFiresAndMissesDueTicks(t *testing.T) {
	t.Parallel()
	const tick = 3000 * 7 * day
	daily := duly.Schedule{Spec: "0 0 * * *"}
	tests := []struct {
		name   string
		change func(*contract.ScheduleRecord)
		now    int64
		ttl    time.Duration
		// Expected tick, following, missed and expiry of each item, in days after the first tick.
		want string
	}{
		{"NotDue", nil, tick - 1, 0, ""},
		{"OnTime", nil, tick, 0, "0+ 1 0 -"},
		{"Paused", func(r *contract.ScheduleRecord) { r.Paused = true }, tick, 0, ""},
		{"NoNext", func(r *contract.ScheduleRecord) { r.Next = 0 }, tick, 0, ""},
		{"AtTheWindow", nil, tick + day - 1, 0, "0+ 1 0 -"},
		{"WindowIncluded", func(r *contract.ScheduleRecord) { r.Window = time.Hour }, tick + hour, 0, "0+ 1 0 -"},
		{"OlderThanWindow", func(r *contract.ScheduleRecord) { r.Window = time.Hour }, tick + hour + 1, 0, "0 1 1 -"},
		{"NoneAfterAMinute", func(r *contract.ScheduleRecord) { r.Catchup = duly.CatchupNone }, tick + minute, 0, "0+ 1 0 -"},
		{"NoneLater", func(r *contract.ScheduleRecord) { r.Catchup = duly.CatchupNone }, tick + minute + 1, 0, "0 1 1 -"},
		{"AllOlderThanWindow", func(r *contract.ScheduleRecord) { r.Catchup, r.Window = duly.CatchupAll, time.Hour },
			tick + 2*day + 2*hour, 0, "2 3 3 -"},
		{"AllInWindow", func(r *contract.ScheduleRecord) { r.Catchup, r.Window = duly.CatchupAll, 48*time.Hour },
			tick + 3*day, 0, "1+ 2 1 - 2+ 3 0 - 3+ 4 0 -"},
		{"TTL", func(r *contract.ScheduleRecord) { r.Template.TTL = 24 * time.Hour }, tick, 0, "0+ 1 0 1"},
		{"TTLOfQueue", nil, tick, 24 * time.Hour, "0+ 1 0 1"},
		{"TTLNone", func(r *contract.ScheduleRecord) { r.Template.TTL = duly.None }, tick, 24 * time.Hour, "0+ 1 0 -"},
		{"NoTTLOfQueue", nil, tick, duly.None, "0+ 1 0 -"},
		{"TTLEndsNow", func(r *contract.ScheduleRecord) { r.Template.TTL = time.Hour }, tick + hour, 0, "0+ 1 0 0"},
		{"Expired", func(r *contract.ScheduleRecord) { r.Template.TTL = time.Hour }, tick + hour + 1, 0, "0 1 1 -"},
		{"AllExpired", func(r *contract.ScheduleRecord) { r.Catchup, r.Window = duly.CatchupAll, 366*24*time.Hour },
			tick + 9*day, 24 * time.Hour, "8+ 9 8 9 9+ 10 0 10"},
		{"LastTick", func(r *contract.ScheduleRecord) { r.End = at(tick) }, tick + 5*minute, 0, "0+ - 0 -"},
		{"LastTickAll", func(r *contract.ScheduleRecord) { r.End, r.Catchup = at(tick), duly.CatchupAll },
			tick + 5*minute, 0, "0+ - 0 -"},
		{"AfterEnd", func(r *contract.ScheduleRecord) { r.End = at(tick) }, tick + 9*day, 0, "0 - 1 -"},
		// The stored next tick is a tick, even if this process computes a different one.
		{"ForeignNext", func(r *contract.ScheduleRecord) { r.Next = tick + hour }, tick + 2*hour, 0, "0.04167+ 1 0 -"},
		{"ForeignNextAll", func(r *contract.ScheduleRecord) { r.Next, r.Catchup = tick+hour, duly.CatchupAll },
			tick + day, 0, "0.04167+ 1 0 - 1+ 2 0 -"},
		{"ForeignNextMissed", func(r *contract.ScheduleRecord) { r.Next = tick + hour }, tick + 3*day, 0, "3+ 4 3 -"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, _ := record(t, daily, tick)
			if tt.change != nil {
				tt.change(r)
			}
			timing, err := Timing(&r.Schedule)
			if err != nil {
				t.Fatal(err)
			}

			days := func(ms int64) string {
				if ms == 0 {
					return "-"
				}
				return fmt.Sprintf("%.4g", float64(ms-tick)/float64(day))
			}
			var got []string
			for _, item := range Fold(r, timing, tt.now, tt.ttl) {
				fires := ""
				if item.Job != nil {
					fires = "+"
				}
				expires := days(item.ExpiresAt)
				if item.ExpiresAt > 0 && item.ExpiresAt < tick+day {
					expires = "0"
				}
				got = append(got, days(item.Tick)+fires, days(item.Following), fmt.Sprint(item.Missed), expires)
			}
			if list := strings.Join(got, " "); list != tt.want {
				t.Errorf("items %q, want %q", list, tt.want)
			}
		})
	}
}

// A call has 1000 items at most, and bodies of 8 MiB at most.
func TestCallIsBounded(t *testing.T) {
	t.Parallel()
	const tick = 3000 * 7 * day
	for size, want := range map[int]int{0: 1000, 100: 1000, 64 << 10: 128} {
		d := duly.Schedule{Spec: "* * * * * *", Catchup: duly.CatchupAll, Template: duly.Job{Body: make([]byte, size)}}
		r, timing := record(t, d, tick)
		if items := Fold(r, timing, tick+hour, 0); len(items) != want {
			t.Errorf("with bodies of %d bytes, a call has %d items, want %d", size, len(items), want)
		}
	}
}

func BenchmarkFold(b *testing.B) {
	const tick = 3000 * 7 * day
	for _, c := range catchups {
		b.Run(string(c), func(b *testing.B) {
			r, timing := record(b, duly.Schedule{Spec: "* * * * * *", Zone: "America/New_York", Catchup: c}, tick)
			for b.Loop() {
				Fold(r, timing, tick+365*day, 0)
			}
		})
	}
}
