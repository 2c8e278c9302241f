package contract_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // embeds the time zones, because the tests need the same zones on every host

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
)

// badSchedules are invalid schedules. Each breaks one rule, and the error must name the field.
var badSchedules = []struct {
	name   string
	change func(*duly.Schedule)
	field  string
	says   string
}{
	{"NoName", func(s *duly.Schedule) { s.Name = "" }, "name", "1 to 100"},
	{"LongName", func(s *duly.Schedule) { s.Name = strings.Repeat("n", 101) }, "name", "1 to 100"},
	{"NameBeginsWithDot", func(s *duly.Schedule) { s.Name = ".n" }, "name", "begin with"},
	{"NameWithSlash", func(s *duly.Schedule) { s.Name = "a/b" }, "name", "may contain only"},
	{"LongOwner", func(s *duly.Schedule) { s.Owner = strings.Repeat("o", 101) }, "owner", "1 to 100"},
	{"OwnerWithSpace", func(s *duly.Schedule) { s.Owner = "an app" }, "owner", "may contain only"},
	{"NoSpec", func(s *duly.Schedule) { s.Spec = "" }, "spec", "1 to 255"},
	{"MinuteAboveBound", func(s *duly.Schedule) { s.Spec = "60 * * * *" }, "spec", "0 to 59"},
	{"RangeWrapsAround", func(s *duly.Schedule) { s.Spec = "5-1 * * * *" }, "spec", "5-59,0-1"},
	{"StepOfZero", func(s *duly.Schedule) { s.Spec = "*/0 * * * *" }, "spec", "at least 1"},
	{"FourFields", func(s *duly.Schedule) { s.Spec = "* * * *" }, "spec", "4 fields"},
	{"SevenFields", func(s *duly.Schedule) { s.Spec = "0 0 3 * * * 2026" }, "spec", "leave out the year"},
	{"LongSpec", func(s *duly.Schedule) { s.Spec = strings.Repeat(" ", 247) + "0 3 * * *" }, "spec", "1 to 255"},
	{"Reboot", func(s *duly.Schedule) { s.Spec = "@reboot" }, "spec", "@every"},
	{"LastDay", func(s *duly.Schedule) { s.Spec = "0 0 L * *" }, "spec", "return early"},
	{"NearestWeekday", func(s *duly.Schedule) { s.Spec = "0 0 15W * *" }, "spec", "return early"},
	{"ThirdFriday", func(s *duly.Schedule) { s.Spec = "0 0 * * FRI#3" }, "spec", "return early"},
	{"HashedMinute", func(s *duly.Schedule) { s.Spec = "H * * * *" }, "spec", "jitter"},
	{"ZoneInSpec", func(s *duly.Schedule) { s.Spec = "TZ=UTC 0 0 * * *" }, "spec", "field zone"},
	{"ZoneOfHost", func(s *duly.Schedule) { s.Zone = "Local" }, "zone", "host"},
	{"UnknownZone", func(s *duly.Schedule) { s.Zone = "Mars/Phobos" }, "zone", "IANA"},
	{"ZoneIsPath", func(s *duly.Schedule) { s.Zone = "../etc/passwd" }, "zone", "IANA"},
	{"StartAtEnd", func(s *duly.Schedule) { s.Start, s.End = clock.Epoch, clock.Epoch }, "start", "before end"},
	{"StartBefore1970", func(s *duly.Schedule) { s.Start = time.Unix(-1, 0) }, "start", "between 1970"},
	{"StartBelowMillisecond", func(s *duly.Schedule) { s.Start = clock.Epoch.Add(1) }, "start", "whole millisecond"},
	{"EndBeyondBound", func(s *duly.Schedule) { s.End = duly.MaxTime.Add(time.Hour) }, "end", "9999"},
	{"NegativeJitter", func(s *duly.Schedule) { s.Jitter = -time.Second }, "jitter", "0s and 1d"},
	{"LongJitter", func(s *duly.Schedule) { s.Jitter = 25 * time.Hour }, "jitter", "0s and 1d"},
	{"JitterBelowMillisecond", func(s *duly.Schedule) { s.Jitter = time.Microsecond }, "jitter", "milliseconds"},
	{"ShortWindow", func(s *duly.Schedule) { s.Window = time.Second }, "window", "1m and 366d"},
	{"LongWindow", func(s *duly.Schedule) { s.Window = 367 * 24 * time.Hour }, "window", "1m and 366d"},
	{"UnknownCatchup", func(s *duly.Schedule) { s.Catchup = "some" }, "catchup", "one, all or none"},
	{"UnknownOverlap", func(s *duly.Schedule) { s.Overlap = "some" }, "overlap", "skip, allow, one or all"},
	{"TemplateID", func(s *duly.Schedule) { s.Template.ID = "a" }, "template.id", "leave it out"},
	{"TemplateDelay", func(s *duly.Schedule) { s.Template.Delay = time.Second }, "template.delay", "leave it out"},
	{"TemplateDue", func(s *duly.Schedule) { s.Template.Due = clock.Epoch }, "template.due", "leave it out"},
	{"TemplateQueue", func(s *duly.Schedule) { s.Template.Queue = "other" }, "template.queue", "leave it out"},
	{"TemplateNamespace", func(s *duly.Schedule) { s.Template.Namespace = "other" }, "template.namespace", "leave it out"},
	{"LargeBody", func(s *duly.Schedule) { s.Template.Body = make([]byte, duly.MaxTemplateBody+1) }, "template.body",
		"65536"},
	{"ManyHeaders", func(s *duly.Schedule) { s.Template.Headers = headers(62, 1) }, "template.headers", "at most 61"},
	{"LargeHeaders", func(s *duly.Schedule) { s.Template.Headers = headers(60, 140) }, "template.headers", "7936"},
	{"HeaderOfRun", func(s *duly.Schedule) { s.Template.Headers = map[string]string{"Duly-Tick": "x"} },
		"template.headers", "duly-tick"},
	{"HeaderOfTrigger", func(s *duly.Schedule) { s.Template.Headers = map[string]string{"duly-trigger": "x"} },
		"template.headers", "duly-trigger"},
	{"MergeWithSkip", func(s *duly.Schedule) { s.Template.Merge.Key = "m" }, "template.merge", "allow"},
	{"MergeWithAll", func(s *duly.Schedule) { s.Overlap, s.Template.Merge.Key = duly.OverlapAll, "m" },
		"template.merge", "allow"},
	{"TTLBelowJitter", func(s *duly.Schedule) { s.Jitter, s.Template.TTL = time.Minute, time.Second }, "template.ttl",
		"at least jitter"},
	{"TemplatePriority", func(s *duly.Schedule) { s.Template.Priority = 1001 }, "template.priority",
		"between -1000 and 1000"},
	{"TemplateOrderKey", func(s *duly.Schedule) { s.Template.OrderKey = "a\nb" }, "template.order_key", "control"},
}

func headers(n, size int) map[string]string {
	h := map[string]string{}
	for i := range n {
		h[string(rune('a'+i%26))+string(rune('a'+i/26))] = strings.Repeat("v", size)
	}
	return h
}

// Rules C17.2 to C17.12, C17.19 to C17.26, C17.34, C17.36 and C17.37.
func TestValidateSchedule(t *testing.T) {
	t.Parallel()
	for _, tt := range badSchedules {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := duly.Schedule{Name: "nightly", Spec: "0 3 * * *"}
			if err := contract.ValidateSchedule(duly.Q("q"), &s, 0); err != nil {
				t.Fatal(err)
			}
			tt.change(&s)
			fields := badFields(t, contract.ValidateSchedule(duly.Q("q"), &s, 0))
			if len(fields) != 1 || fields[0].Field != tt.field || !strings.Contains(fields[0].Problem, tt.says) {
				t.Errorf("%+v, want one fault of %s that says %q", fields, tt.field, tt.says)
			}
		})
	}
}

// badFields returns the fields of an error with the code invalid.
func badFields(t *testing.T, err error) []duly.FieldError {
	t.Helper()
	var e *duly.Error
	if !errors.As(err, &e) || e.Code != duly.CodeInvalid {
		t.Fatalf("error %v, want invalid", err)
	}
	return e.Fields
}

// Rule C17.26: one error names every bad field.
func TestValidateScheduleNamesEveryBadField(t *testing.T) {
	t.Parallel()
	s := duly.Schedule{
		Name: "a b", Spec: "@reboot", Zone: "Local", Start: time.Unix(-1, 0), End: duly.MaxTime.Add(time.Hour),
		Jitter: -1, Window: 1, Catchup: "x", Overlap: "x", Owner: "a b",
		Template: duly.Job{ID: "a", Delay: 1, Due: clock.Epoch, Tries: -1, Headers: map[string]string{"duly-tick": ""}},
	}
	var names []string
	for _, f := range badFields(t, contract.ValidateSchedule(duly.Q("q"), &s, 0)) {
		names = append(names, f.Field)
	}
	slices.Sort(names)
	want := []string{
		"catchup", "end", "jitter", "name", "overlap", "owner", "spec", "start", "template.delay",
		"template.due", "template.headers", "template.id", "template.tries", "window", "zone",
	}
	if !slices.Equal(names, want) {
		t.Errorf("fields %q, want %q", names, want)
	}
}

func TestValidateScheduleAcceptsTheBounds(t *testing.T) {
	t.Parallel()
	q := duly.QueueRef{Name: "q"}
	for _, s := range []duly.Schedule{
		{Name: strings.Repeat("n", 100), Spec: "@daily", Owner: strings.Repeat("o", 100)},
		{Name: "0", Spec: strings.Repeat(" ", 246) + "0 3 * * *", Zone: "Europe/Berlin"},
		{Name: "n", Spec: "@every 1s", Jitter: 24 * time.Hour, Window: time.Minute, Catchup: "all", Overlap: "allow"},
		{Name: "n", Spec: "@every 366d", Window: 366 * 24 * time.Hour, Catchup: "none", Overlap: "one"},
		{Name: "n", Spec: "* * ? * ?"},
		{Name: "n", Spec: "@daily", Start: time.Unix(0, 0), End: duly.MaxTime},
		{Name: "n", Spec: "@daily", Template: duly.Job{Body: make([]byte, 64<<10), Headers: headers(61, 1)}},
		{Name: "n", Spec: "@daily", Template: duly.Job{Queue: "q", Namespace: duly.DefaultNamespace, Made: true}},
		{Name: "n", Spec: "@daily", Overlap: "allow", Template: duly.Job{Merge: duly.Merge{Key: "m"}, OrderKey: "o"}},
		{Name: "n", Spec: "@daily", Jitter: time.Minute, Template: duly.Job{TTL: time.Minute}},
		{Name: "n", Spec: "@daily", Jitter: time.Minute, Template: duly.Job{TTL: duly.None}},
	} {
		if err := contract.ValidateSchedule(q, &s, 0); err != nil {
			t.Errorf("%+v: %v", s, err)
		}
	}
}

func TestSchedulesBelongToQueues(t *testing.T) {
	t.Parallel()
	group, bad := duly.Q("topic@group"), duly.Q("a b")
	for _, err := range []error{
		contract.ValidateSchedule(group, &duly.Schedule{Name: "n", Spec: "@daily"}, 0),
		contract.ValidateScheduleName(group, "n"),
		contract.ValidateScheduleName(bad, "n"),
		contract.ValidateSchedules(group, &duly.PageParams{}),
	} {
		if fields := badFields(t, err); len(fields) != 1 || fields[0].Field != "queue" {
			t.Errorf("%v, want one fault of the queue", err)
		}
	}
	if fields := badFields(t, contract.ValidateScheduleName(duly.Q("q"), "a b")); fields[0].Field != "name" {
		t.Errorf("%+v", fields)
	}
	err := contract.ValidateSchedules(duly.Q("q"), &duly.PageParams{Limit: -1})
	if fields := badFields(t, err); fields[0].Field != "limit" {
		t.Errorf("%+v", fields)
	}
}

// Rule C17.35.
func TestScheduleWithoutTicksIsRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		s     duly.Schedule
		field string
	}{
		{duly.Schedule{Spec: "0 0 30 2 *"}, "spec"},
		{duly.Schedule{Spec: "@daily", End: clock.Epoch.Add(time.Minute)}, "end"},
		{duly.Schedule{Spec: "0 0 29 2 *"}, ""},
	} {
		err := contract.CheckTicks(&tt.s, clock.Epoch)
		if tt.field == "" {
			if err != nil {
				t.Errorf("%+v: %v", tt.s, err)
			}
			continue
		}
		if fields := badFields(t, err); fields[0].Field != tt.field {
			t.Errorf("%+v: %v, want a fault of %s", tt.s, err, tt.field)
		}
	}
}

// Rule C17.25: an unset field of the template stays unset.
func TestFillScheduleKeepsUnsetFieldsOfTheTemplate(t *testing.T) {
	t.Parallel()
	berlin := time.FixedZone("", 3600)
	got := contract.FillSchedule(duly.Schedule{
		Name: "n", Spec: "@daily", Start: clock.Epoch.In(berlin),
		Template: duly.Job{Queue: "q", Namespace: "ns", Made: true, Headers: map[string]string{"A": "1"},
			Merge: duly.Merge{Key: "m"}},
	})
	if got.Zone != "UTC" || got.Window != 24*time.Hour || got.Catchup != duly.CatchupOne ||
		got.Overlap != duly.OverlapSkip {
		t.Errorf("defaults %+v", got)
	}
	if j := got.Template; j.Queue != "" || j.Namespace != "" || j.Made || j.Tries != 0 || j.TTL != 0 ||
		j.Headers["a"] != "1" {
		t.Errorf("template %+v", j)
	}
	if want := (duly.Merge{Key: "m", Mode: duly.MergeKeep, Until: duly.UntilLeased}); got.Template.Merge != want {
		t.Errorf("merge %+v, want %+v", got.Template.Merge, want)
	}
	if got.Start != clock.Epoch.UTC() || !got.End.IsZero() {
		t.Errorf("start %s, end %s", got.Start, got.End)
	}
}

// Rules C17.68 to C17.72.
func TestRunHasKeysOfOverlapPolicy(t *testing.T) {
	t.Parallel()
	const key = "schedule:n"
	keep := func(until duly.MergeUntil) duly.Merge {
		return duly.Merge{Key: key, Mode: duly.MergeKeep, Until: until}
	}
	for _, tt := range []struct {
		overlap         duly.Overlap
		template        duly.Job
		merge           duly.Merge
		order, withKeys string
	}{
		{overlap: duly.OverlapSkip, merge: keep(duly.UntilDone), withKeys: "o"},
		{overlap: "", merge: keep(duly.UntilDone), withKeys: "o"},
		{overlap: duly.OverlapAllow, withKeys: "o"},
		{overlap: duly.OverlapOne, merge: keep(duly.UntilLeased), order: key, withKeys: "o"},
		{overlap: duly.OverlapAll, order: key, withKeys: "o"},
	} {
		s := duly.Schedule{Name: "n", Overlap: tt.overlap, Template: duly.Job{Headers: map[string]string{"a": "1"}}}
		run := s.Run()
		if run.Merge != tt.merge || run.OrderKey != tt.order {
			t.Errorf("%s: merge %+v, order key %q", tt.overlap, run.Merge, run.OrderKey)
		}
		if want := map[string]string{"a": "1", "duly-schedule": "n"}; !maps.Equal(run.Headers, want) ||
			len(s.Template.Headers) != 1 {
			t.Errorf("%s: headers %v, template %v", tt.overlap, run.Headers, s.Template.Headers)
		}
		s.Template.OrderKey = "o"
		if run := s.Run(); run.OrderKey != tt.withKeys {
			t.Errorf("%s: order key %q, want %q", tt.overlap, run.OrderKey, tt.withKeys)
		}
	}
}

// Rules C17.63 to C17.66: a schedule is in the shard of the key schedule:NAME, with its runs.
func TestScheduleIsInTheShardOfItsKey(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{1, 2, 16, 256} {
		used := map[int]bool{}
		for i := range 1000 {
			s := duly.Schedule{Name: "s" + string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676))}
			shard := contract.ScheduleShard(s.Name, shards)
			if shard != contract.KeyShard("schedule:"+s.Name, shards) || shard >= shards {
				t.Fatalf("%s is in shard %d of %d", s.Name, shard, shards)
			}
			used[shard] = true
			for _, s.Overlap = range []duly.Overlap{"skip", "allow", "one", "all"} {
				if err := contract.CheckScheduleShard(&s, shards); err != nil {
					t.Fatal(err)
				}
			}
		}
		if len(used) < shards*9/10 {
			t.Errorf("1000 schedules use %d of %d shards", len(used), shards)
		}
	}

	total := 0
	for i := range 256 {
		total += contract.ScheduleMaxPart(256, i)
	}
	if total != duly.MaxSchedules {
		t.Errorf("the shards may have %d schedules together", total)
	}
}

// Rule C17.67: a key of another shard is invalid, and the error names both shards.
func TestKeyOfAnotherShardIsInvalid(t *testing.T) {
	t.Parallel()
	own := contract.ScheduleShard("nightly", 4)
	key := func(in bool) string {
		for i := 0; ; i++ {
			if k := strings.Repeat("k", i+1); (contract.KeyShard(k, 4) == own) == in {
				return k
			}
		}
	}
	merge := func(key string) duly.Job { return duly.Job{Merge: duly.Merge{Key: key}} }
	for _, tt := range []struct {
		overlap  duly.Overlap
		template duly.Job
		field    string
	}{
		{duly.OverlapSkip, duly.Job{OrderKey: key(true)}, ""},
		{duly.OverlapSkip, duly.Job{OrderKey: key(false)}, "template.order_key"},
		{duly.OverlapOne, duly.Job{OrderKey: key(false)}, "template.order_key"},
		{duly.OverlapAllow, duly.Job{OrderKey: key(false)}, "template.order_key"},
		{duly.OverlapAllow, merge(key(false)), "template.merge"},
		{duly.OverlapAllow, merge(key(true)), ""},
		{duly.OverlapAllow, duly.Job{OrderKey: key(true), Merge: merge(key(false)).Merge}, ""},
	} {
		s := duly.Schedule{Name: "nightly", Overlap: tt.overlap, Template: tt.template}
		err := contract.CheckScheduleShard(&s, 4)
		if tt.field == "" {
			if err != nil {
				t.Errorf("%+v: %v", tt, err)
			}
			continue
		}
		if fields := badFields(t, err); fields[0].Field != tt.field || strings.Count(err.Error(), "shard ") < 2 {
			t.Errorf("%+v: %v", tt, err)
		}
		if err := contract.CheckScheduleShard(&s, 1); err != nil {
			t.Errorf("%+v in one shard: %v", tt, err)
		}
	}
}

// Rule C17.78: an item is invalid unless expected ≤ tick < following.
func TestFireItemOutOfOrderIsInvalid(t *testing.T) {
	t.Parallel()
	good := contract.FireItem{Name: "n", Version: 1, Expected: 10, Tick: 10, Following: 11}
	for _, tt := range []struct {
		change func(*contract.FireItem)
		field  string
	}{
		{func(i *contract.FireItem) {}, ""},
		{func(i *contract.FireItem) { i.Following = 0 }, ""},
		{func(i *contract.FireItem) { i.Name = "" }, "name"},
		{func(i *contract.FireItem) { i.Expected = 0 }, "tick"},
		{func(i *contract.FireItem) { i.Tick = 9 }, "tick"},
		{func(i *contract.FireItem) { i.Following = 10 }, "following"},
		{func(i *contract.FireItem) { i.Missed = -1 }, "missed"},
		{func(i *contract.FireItem) { i.Missed = contract.MaxMissed + 1 }, "missed"},
	} {
		item := good
		tt.change(&item)
		err := item.Validate()
		if tt.field == "" {
			if err != nil {
				t.Errorf("%+v: %v", item, err)
			}
			continue
		}
		if fields := badFields(t, err); len(fields) != 1 || fields[0].Field != tt.field {
			t.Errorf("%+v: %v, want a fault of %s", item, err, tt.field)
		}
	}
}

// Rules C17.79 to C17.84: the checks of Fire have an order.
func TestFireItemRefuses(t *testing.T) {
	t.Parallel()
	item := contract.FireItem{Name: "n", Version: 3, Expected: 10, Tick: 10}
	record := contract.ScheduleRecord{Version: 3, Next: 10}
	with := func(change func(*contract.ScheduleRecord)) *contract.ScheduleRecord {
		r := record
		change(&r)
		return &r
	}
	for _, tt := range []struct {
		r    *contract.ScheduleRecord
		now  int64
		want contract.FireStatus
	}{
		{nil, 10, contract.FireNotFound},
		{with(func(r *contract.ScheduleRecord) { r.Version = 4 }), 9, contract.FireStale},
		{with(func(r *contract.ScheduleRecord) { r.Next = 11 }), 10, contract.FireStale},
		{with(func(r *contract.ScheduleRecord) { r.Paused = true }), 10, contract.FireStale},
		{&record, 9, contract.FireEarly},
		{&record, 10, 0},
	} {
		if got := item.Refuses(tt.r, tt.now); got != tt.want {
			t.Errorf("%+v at %d: %s, want %s", tt.r, tt.now, got, tt.want)
		}
	}
}

// Rules C17.86, C17.87 and C17.102: each item counts as fired or skipped, and its missed ticks as
// missed.
func TestAdvanceCountsTicks(t *testing.T) {
	t.Parallel()
	job := &duly.Job{}
	for _, tt := range []struct {
		job                    *duly.Job
		run                    duly.PushResult
		missed                 int
		last                   int64
		fired, skipped, misses int64
	}{
		{job, duly.PushResult{Status: duly.Created}, 2, 20, 1, 0, 2},
		{job, duly.PushResult{Status: duly.Merged}, 2, 5, 0, 1, 2},
		{job, duly.PushResult{Status: duly.Exists}, 0, 5, 0, 1, 0},
		{job, duly.PushResult{Err: duly.ErrInvalid}, 2, 5, 0, 0, 3},
		{job, duly.PushResult{Err: duly.ErrInvalid}, contract.MaxMissed, 5, 0, 0, contract.MaxMissed},
		{nil, duly.PushResult{}, 7, 5, 0, 0, 7},
	} {
		r := contract.ScheduleRecord{Next: 10, Last: 5}
		r.Advance(&contract.FireItem{Expected: 10, Tick: 20, Following: 30, Missed: tt.missed, Job: tt.job}, tt.run)
		if r.Next != 30 || r.Last != tt.last || r.Fired != tt.fired || r.Skipped != tt.skipped || r.Missed != tt.misses {
			t.Errorf("%+v: %+v", tt, r)
		}
	}
}

// Rules C17.56, C17.60 and C17.87: the TTL of a run was computed from the settings that its process
// had read, so later settings of the queue do not change it.
func TestScheduledRunIsPlannedWithItsOwnTTL(t *testing.T) {
	t.Parallel()
	cfg := contract.DefaultQueueConfig()
	now := clock.Epoch.Add(time.Minute)
	tick := clock.Milli(clock.Epoch)
	plan := func(item contract.FireItem, previous int64) (contract.Planned, error) {
		item.Tick = tick
		item.Job.Queue = "q"
		return item.PlanRun(previous, &cfg, now, 0)
	}

	p, err := plan(contract.FireItem{Job: &duly.Job{Headers: map[string]string{}}, ExpiresAt: tick + 90_000}, tick-1)
	if err != nil || p.ExpiresAt != tick+90_000 || p.TTL != 90*time.Second ||
		p.Headers["duly-previous"] != contract.TickText(tick-1) {
		t.Errorf("%+v, %v", p, err)
	}
	// The queue's default has changed since the caller decided that the run has no TTL.
	cfg.Defaults.TTL = time.Hour
	p, err = plan(contract.FireItem{Job: &duly.Job{Headers: map[string]string{}}}, 0)
	if err != nil || p.ExpiresAt != 0 || p.TTL != duly.None || len(p.Headers) != 0 {
		t.Errorf("%+v, %v", p, err)
	}
	// The run expired between the read and Fire.
	if _, err = plan(contract.FireItem{Job: &duly.Job{}, ExpiresAt: tick + 1}, 0); !errors.Is(err, duly.ErrInvalid) {
		t.Errorf("an expired run: %v", err)
	}
	// The queue's default is shorter than the jitter.
	cfg.Defaults.TTL = time.Second
	due := contract.FireItem{Job: &duly.Job{Due: now.Add(time.Minute)}}
	if _, err = plan(due, 0); !errors.Is(err, duly.ErrInvalid) {
		t.Errorf("a default TTL before the due time: %v", err)
	}
}

// scheduler is a Scheduler with a list of schedules. Each page has one schedule.
type scheduler struct {
	duly.Scheduler
	list []duly.ScheduleInfo
	fail map[string]error
	gone []string
}

func (s *scheduler) Schedules(_ context.Context, _ duly.QueueRef, p duly.PageParams) (
	page duly.SchedulePage, err error,
) {
	i := len(p.Cursor)
	if i < len(s.list) {
		page.Schedules, page.Next = s.list[i:i+1], strings.Repeat("x", i+1)
	}
	return page, s.fail["list"]
}

func (s *scheduler) DeleteSchedule(_ context.Context, _ duly.QueueRef, name string, version int64) error {
	if err := s.fail[name]; err != nil {
		return err
	}
	if version == 0 {
		return errors.New("a delete without a version")
	}
	s.gone = append(s.gone, name)
	return nil
}

// Rules C17.132 to C17.134.
func TestPruneDeletesSchedulesOfOneOwner(t *testing.T) {
	t.Parallel()
	info := func(name, owner string) duly.ScheduleInfo {
		return duly.ScheduleInfo{Schedule: duly.Schedule{Name: name, Owner: owner}, Version: 1}
	}
	s := &scheduler{
		list: []duly.ScheduleInfo{info("a", "app"), info("b", "app"), info("c", "other"), info("d", ""), info("e", "app"),
			info("f", "app")},
		fail: map[string]error{"e": contract.ScheduleVersion(duly.Q("q"), "e", 2),
			"f": contract.NoSchedule(duly.Q("q"), "f")},
	}
	got, err := contract.PruneSchedules(t.Context(), s, duly.Q("q"), "app", []string{"b"})
	if err != nil || !slices.Equal(got.Deleted, []string{"a"}) || !slices.Equal(got.Changed, []string{"e"}) ||
		!slices.Equal(s.gone, got.Deleted) {
		t.Errorf("%+v, %v; deleted %q", got, err, s.gone)
	}

	if _, err := contract.PruneSchedules(t.Context(), s, duly.Q("q"), "", nil); !errors.Is(err, duly.ErrInvalid) {
		t.Errorf("without an owner: %v", err)
	}
	s.fail = map[string]error{"b": duly.ErrUnavailable}
	got, err = contract.PruneSchedules(t.Context(), s, duly.Q("q"), "app", nil)
	if !errors.Is(err, duly.ErrUnavailable) || len(got.Deleted) != 1 {
		t.Errorf("with a store that fails: %+v, %v", got, err)
	}
	s.fail = map[string]error{"list": duly.ErrUnavailable}
	if _, err := contract.PruneSchedules(t.Context(), s, duly.Q("q"), "app", nil); !errors.Is(err, duly.ErrUnavailable) {
		t.Errorf("with a list that fails: %v", err)
	}
}
