package cron_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	netresearch "github.com/netresearch/go-cron"

	"github.com/dulymq/duly/internal/cron"
	"github.com/dulymq/duly/internal/proctest"
)

// library reads every form of netresearch/go-cron.
func library(t testing.TB, extended bool) netresearch.Parser {
	t.Helper()
	options := netresearch.SecondOptional | netresearch.Minute | netresearch.Hour | netresearch.Dom |
		netresearch.Month | netresearch.Dow | netresearch.Descriptor | netresearch.DowOrDom
	if extended {
		options |= netresearch.Extended | netresearch.Hash | netresearch.YearOptional
	}
	p, err := netresearch.TryNewParser(options)
	if err != nil {
		t.Fatal(err)
	}
	return p.WithMaxSearchYears(cron.MaxSearch).WithHashKey("key")
}

// Random expressions have the ticks of netresearch/go-cron where the offset does not change: from
// 48 h before the months of the moment and the tick to 48 h after them. The library steps from the
// first day of a month, and if the offset changes in between, the hour of its result is wrong. In
// Casablanca, "0 * * 8 *" has 00:00 on 1 August 2009, but after a moment of June, which began with
// a gap at midnight, the library says 01:00.
func TestTicksEqualLibrary(t *testing.T) {
	t.Parallel()
	pairs := 5_000
	if proctest.Long() {
		pairs = 100_000
	}
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(uint64(seed), 0))

	lib := library(t, false)
	zones := make([]*quietZone, len(oracleZones))
	for i, name := range oracleZones {
		zones[i] = newQuietZone(zone(t, name))
	}

	drawn := 0
	for n := 0; n < pairs; drawn++ {
		z, spec := zones[random.IntN(len(zones))], randomSpec(random)
		at := oracleStart.Add(time.Duration(random.Int64N(int64(oracleEnd.Sub(oracleStart))))).Truncate(time.Second)
		theirs, err := lib.Parse(spec)
		if err != nil {
			t.Fatalf("%s: the library returns %v", spec, err)
		}
		e := parse(t, spec)

		if next, _ := e.Next(at, z.loc); z.quiet(at, next) {
			if want := theirs.Next(at.In(z.loc)); !next.Equal(want) {
				t.Fatalf("seed %d, %s: after %s comes %s, want %s", seed, spec, at.In(z.loc), next, want)
			}
			n++
		}
		if prev, _ := e.Prev(at, z.loc); z.quiet(at, prev) {
			if want := theirs.(netresearch.ScheduleWithPrev).Prev(at.In(z.loc)); !prev.Equal(want) {
				t.Fatalf("seed %d, %s: before %s comes %s, want %s", seed, spec, at.In(z.loc), prev, want)
			}
		}
	}
	t.Logf("%d of %d pairs compared", pairs, drawn)
}

// quietZone knows when the offset of a zone changes.
type quietZone struct {
	loc     *time.Location
	changes []time.Time
}

func newQuietZone(loc *time.Location) *quietZone {
	return &quietZone{loc, changes(loc, oracleStart.AddDate(-12, 0, 0), oracleEnd.AddDate(12, 0, 0))}
}

// quiet reports whether no offset changes from 48 h before the months of the moments to
// 48 h after them. A zero time, which is not a tick, is quiet only if the zone has no
// changes.
func (z *quietZone) quiet(moments ...time.Time) bool {
	first, last := slices.MinFunc(moments, time.Time.Compare), slices.MaxFunc(moments, time.Time.Compare)
	first = time.Date(first.Year(), first.Month(), 1-3, 0, 0, 0, 0, time.UTC)
	last = time.Date(last.Year(), last.Month()+1, 1+3, 0, 0, 0, 0, time.UTC)
	i, _ := slices.BinarySearchFunc(z.changes, first, time.Time.Compare)
	return i == len(z.changes) || z.changes[i].After(last)
}

// randomSpec returns an expression that both parsers accept.
func randomSpec(r *rand.Rand) string {
	fields := []string{
		randomField(r, 0, 59, nil), randomField(r, 0, 23, nil), randomDay(r, 1, 31, nil),
		randomField(r, 1, 12, strings.Fields("JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC")),
		randomDay(r, 0, 6, strings.Fields("SUN MON TUE WED THU FRI SAT")),
	}
	if r.IntN(3) == 0 {
		fields = append([]string{randomField(r, 0, 59, nil)}, fields...)
	}
	return strings.Join(fields, " ")
}

// randomDay returns a day field, which is often unrestricted.
func randomDay(r *rand.Rand, low, high int, names []string) string {
	switch r.IntN(6) {
	case 0, 1:
		return "*"
	case 2:
		return "?"
	}
	return randomField(r, low, high, names)
}

func randomField(r *rand.Rand, low, high int, names []string) string {
	items := make([]string, 1+r.IntN(3)*r.IntN(2))
	for i := range items {
		items[i] = randomItem(r, low, high, names)
	}
	if len(items) == 1 && r.IntN(3) == 0 {
		return "*"
	}
	return strings.Join(items, ",")
}

func randomItem(r *rand.Rand, low, high int, names []string) string {
	a := low + r.IntN(high-low+1)
	b := a + r.IntN(high-a+1)
	value := func(v int) string {
		if names != nil && r.IntN(2) == 0 {
			return names[v-low]
		}
		return fmt.Sprint(v)
	}

	switch r.IntN(4) {
	case 0:
		return value(a) + "-" + value(b)
	case 1:
		return fmt.Sprintf("*/%d", 2+r.IntN(high-low-1))
	case 2:
		if b > a+1 {
			return fmt.Sprintf("%s-%s/%d", value(a), value(b), 1+r.IntN(b-a))
		}
	}
	return value(a)
}

// refused are expressions that netresearch/go-cron accepts, but that rule C17.34 refuses.
var refused = []string{
	"50-10 * * * *", "* 22-2 * * *", "0 0 * NOV-FEB *", "0 0 * * FRI-MON",
	"0 0 L * *", "0 0 L-3 * *", "0 0 LW * *", "0 0 15W * *",
	"0 0 * * FRI#3", "0 0 * * FRI#L", "H * * * *", "H/15 H(0-3) * * *",
	"0 0 0 1 1 * 2027", "TZ=UTC 0 0 * * *", "CRON_TZ=Europe/Berlin 0 0 * * *",
}

func TestUnusualSpecsAreRefused(t *testing.T) {
	t.Parallel()
	lib := library(t, true)
	for _, spec := range refused {
		if _, err := lib.Parse(spec); err != nil {
			t.Errorf("the library refuses %s: %v", spec, err)
		}
		if _, err := cron.Parse(spec); err == nil {
			t.Errorf("%s is accepted", spec)
		}
	}
}
