package enginetest

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

func schedulePutTests() []test {
	return []test{
		{"IsReadWithEveryField", []string{"C17.1", "C17.3", "C17.13", "C17.135"}, Options{}, schedulePutFull},
		{"DefaultsAreFilledIn", []string{"C17.5", "C17.7", "C17.8", "C17.9", "C17.10", "C17.11", "C17.135"}, Options{},
			schedulePutDefaults},
		{"SameNameInAnotherQueueIsAnother", []string{"C17.1", "C17.132"}, Options{}, schedulePutQueues},
		{"RepeatChangesNothing", []string{"C17.119", "C17.125", "C17.117", "C17.118"}, Options{}, schedulePutRepeat},
		{"RepeatKeepsADueTick", []string{"C17.119"}, Options{}, schedulePutRepeatDue},
		{"TimingMovesTheNextTick", []string{"C17.120", "C17.117"}, Options{}, schedulePutTiming},
		{"TimingNeverRepeatsALaterTick", []string{"C17.120"}, Options{}, schedulePutTimingAfterLast},
		{"ContentAppliesFromTheNextTick", []string{"C17.121", "C17.25"}, Options{}, schedulePutContent},
		{"KeepsAPause", []string{"C17.122", "C17.16"}, Options{}, schedulePutPaused},
		{"VersionsRise", []string{"C17.14", "C17.117"}, Options{}, schedulePutVersions},
		{"MakesTheQueue", []string{"C17.124", "C4.87"}, Options{MaxQueues: 1}, schedulePutQueue},
		{"OfAnotherOwnerConflicts", []string{"C17.123"}, Options{}, schedulePutOwner},
		{"WithoutATickIsInvalid", []string{"C17.35", "C17.6", "C17.41"}, Options{}, schedulePutNoTick},
		{"BeyondTheBoundIsFull", []string{"C17.139"}, Options{}, schedulePutBound},
		{"CallersChangeTheirOwnCopies", []string{"C17.12"}, Options{}, schedulePutCopies},
		{"OfATopicConflicts", []string{"C17.1"}, Options{}, schedulePutTopic},
		{"FollowsTheDeliveryOfTheQueue", []string{"C17.62"}, Options{}, schedulePutDelivery},
	}
}

// fullSchedule sets every field to a value that is not the default.
func fullSchedule(s *scene) duly.Schedule {
	start := s.now().UTC().Truncate(time.Hour)
	return duly.Schedule{
		Name: "full.Name_1-a", Spec: "30 2 * * MON-FRI", Zone: "Europe/Berlin", Start: start, End: start.AddDate(3, 0, 0),
		Jitter: time.Minute, Window: time.Hour, Catchup: duly.CatchupAll, Overlap: duly.OverlapAllow, Owner: "app.v-1",
		Template: duly.Job{
			Body: []byte("body \x00\xff"), Headers: map[string]string{"a": "1", "b": "<&>"}, Priority: -3, Tries: 4,
			MaxStalls: duly.None,
			Backoff:   "fixed:5s", TTL: time.Hour, Lease: time.Minute, OrderKey: "schedule:full.Name_1-a",
			Merge:  duly.Merge{Key: "m", Mode: duly.MergeReplace, MaxWait: time.Second, Until: duly.UntilLeased},
			Retain: time.Hour,
		},
	}
}

func schedulePutFull(s *scene) {
	want := fullSchedule(s)
	put := s.putIs(want, duly.ScheduleCreated)
	got := s.schedule(want.Name)
	if !reflect.DeepEqual(got.Schedule, want) {
		s.Errorf("the schedule is\n%+v, want\n%+v", got.Schedule, want)
	}
	same(s, "its version", got.Version, put.Version)
	sameTime(s, "its next tick", got.Next, put.Next)

	// The hour in the schedule's zone shows that the zone was stored.
	if !got.Next.After(s.now()) || got.Next.In(mustZone(s, "Europe/Berlin")).Hour() != 2 {
		s.Errorf("the next tick is %s at the time %s, want a later one at 2:00 in Berlin", got.Next, s.now())
	}
	same(s, "paused", got.Paused, false)
	sameTime(s, "its last tick", got.Last, time.Time{})
	s.ticked(want.Name, 0, 0, 0)
}

func mustZone(s *scene, name string) *time.Location {
	s.Helper()
	zone, err := time.LoadLocation(name)
	s.must("zone "+name, err)
	return zone
}

func schedulePutDefaults(s *scene) {
	s.put(duly.Schedule{
		Name: "a", Spec: "@daily", Template: duly.Job{Namespace: s.ref().Normal().Namespace, Queue: s.queue,
			Headers: map[string]string{"UP": "1"}},
	})
	want := duly.Schedule{
		Name: "a", Spec: "@daily", Zone: "UTC", Window: 24 * time.Hour, Catchup: duly.CatchupOne, Overlap: duly.OverlapSkip,
		Template: duly.Job{Headers: map[string]string{"up": "1"}},
	}
	if got := s.schedule("a").Schedule; !reflect.DeepEqual(got, want) {
		s.Errorf("the schedule is\n%+v, want\n%+v", got, want)
	}
}

func schedulePutQueues(s *scene) {
	other := s.on("other")
	s.put(daily("a"))
	other.put(every("a", time.Hour))
	s.in("away").put(every("a", time.Minute))
	same(s, "its spec", s.schedule("a").Spec, "0 0 * * *")
	same(s, "the spec in the other queue", other.schedule("a").Spec, "@every 1h0m0s")
	s.putIs(daily("b"), duly.ScheduleCreated)
	s.listed("after a put of another one", "a", "b")
}

func schedulePutRepeat(s *scene) {
	sch := fullSchedule(s)
	first := s.put(sch)

	// Time passes, so that a repeated Put that writes would get another version.
	s.Advance(time.Minute)
	for range 3 {
		again := s.putIs(sch, duly.ScheduleUnchanged)
		same(s, "the version", again.Version, first.Version)
		sameTime(s, "the next tick", again.Next, first.Next)
	}

	// An explicit default means the same as an absent field.
	s.put(daily("short"))
	long := daily("short")
	long.Zone, long.Window, long.Catchup, long.Overlap = "UTC", 24*time.Hour, duly.CatchupOne, duly.OverlapSkip
	long.Template = duly.Job{Body: []byte{}, Headers: map[string]string{}}
	s.putIs(long, duly.ScheduleUnchanged)

	// A template with other content is a change. Changing it back is another change.
	sch.Template.Headers = map[string]string{"a": "1", "b": "other"}
	s.putIs(sch, duly.ScheduleChanged)
	s.putIs(fullSchedule2(sch), duly.ScheduleChanged)
}

// fullSchedule2 returns sch with the headers of fullSchedule.
func fullSchedule2(sch duly.Schedule) duly.Schedule {
	sch.Template.Headers = map[string]string{"a": "1", "b": "<&>"}
	return sch
}

func schedulePutRepeatDue(s *scene) {
	tick := s.midnight(time.Minute)
	s.put(daily("a"))
	s.Advance(2 * time.Minute)
	s.putIs(daily("a"), duly.ScheduleUnchanged)
	s.nextIs("a", tick)
	s.step()
	s.ranAt("the tick was due before the put", tick)
}

func schedulePutTiming(s *scene) {
	tick := s.midnight(time.Hour)
	sch := daily("a")
	s.put(sch)

	// Each change is made in addition to the ones before it.
	for _, change := range []struct {
		what string
		f    func(*duly.Schedule)
		want time.Time
	}{
		{"another spec", func(sch *duly.Schedule) { sch.Spec = "30 0 * * *" }, tick.Add(30 * time.Minute)},
		{"another zone", func(sch *duly.Schedule) { sch.Zone = "Asia/Kolkata" }, tick.Add(19 * time.Hour)},
		{"a start", func(sch *duly.Schedule) { sch.Start = tick.Add(40 * time.Hour) }, tick.Add(43 * time.Hour)},
		{"an end", func(sch *duly.Schedule) { sch.End = tick.Add(100 * time.Hour) }, tick.Add(43 * time.Hour)},
	} {
		change.f(&sch)
		put := s.putIs(sch, duly.ScheduleChanged)
		sameTime(s, "the next tick after "+change.what, put.Next, change.want)
		s.nextIs("a", change.want)
	}
	s.ticked("a", 0, 0, 0)
}

func schedulePutTimingAfterLast(s *scene) {
	tick := s.midnight(time.Minute)
	s.put(daily("a"))
	s.Advance(time.Minute)
	s.step()
	s.ranAt("the tick is due", tick)

	// The clock steps back before the tick. Another zone has its midnight at the same moment.
	s.Clock.Step(-time.Hour)
	sch := daily("a")
	sch.Zone = "Africa/Abidjan"
	put := s.putIs(sch, duly.ScheduleChanged)
	sameTime(s, "the next tick", put.Next, tick.Add(24*time.Hour))
}

func schedulePutContent(s *scene) {
	tick := s.midnight(time.Minute)
	sch := daily("a")
	sch.Template.Body = []byte("old")
	s.put(sch)
	sch.Template.Body = []byte("new")
	put := s.putIs(sch, duly.ScheduleChanged)
	sameTime(s, "the next tick", put.Next, tick)
	for _, f := range []func(*duly.Schedule){
		func(sch *duly.Schedule) { sch.Jitter = time.Second },
		func(sch *duly.Schedule) { sch.Window = time.Hour },
		func(sch *duly.Schedule) { sch.Catchup = duly.CatchupNone },
		func(sch *duly.Schedule) { sch.Overlap = duly.OverlapAll },
	} {
		f(&sch)
		sameTime(s, "the next tick", s.putIs(sch, duly.ScheduleChanged).Next, tick)
	}

	s.configure(duly.QueueConfig{Defaults: duly.Defaults{Tries: 7}})
	s.Advance(2 * time.Minute)
	s.step()
	run := s.get(s.ranAt("the tick is due", tick)[0].ID)
	same(s, "the body of the run", string(run.Body), "new")
	same(s, "the tries of the run, by the default at the tick", run.Tries, 7)
}

func schedulePutPaused(s *scene) {
	s.put(daily("a"))
	s.must("pause", s.scheduler().PauseSchedule(s.ctx, s.ref(), "a"))
	s.putIs(daily("a"), duly.ScheduleUnchanged)
	for _, sch := range []duly.Schedule{every("a", time.Hour),
		{Name: "a", Spec: "@every 1h", Template: duly.Job{Priority: 1}}} {
		s.putIs(sch, duly.ScheduleChanged)
		same(s, "paused", s.schedule("a").Paused, true)
	}
	s.must("resume", s.scheduler().ResumeSchedule(s.ctx, s.ref(), "a"))
	s.putIs(every("a", time.Hour), duly.ScheduleChanged)
	same(s, "paused", s.schedule("a").Paused, false)
}

func schedulePutVersions(s *scene) {
	sch := daily("a")
	last := int64(0)
	rises := func(what string, by func()) {
		s.Helper()
		by()
		version := s.schedule("a").Version
		if version <= last {
			s.Errorf("the version is %d after %s, want more than %d", version, what, last)
		}
		last = version
	}
	rises("a put", func() { same(s, "the version", s.put(sch).Version, s.schedule("a").Version) })
	sch.Template.Priority = 1
	rises("a change in the same moment", func() { s.put(sch) })
	rises("a pause", func() { s.must("pause", s.scheduler().PauseSchedule(s.ctx, s.ref(), "a")) })
	rises("a resume", func() { s.must("resume", s.scheduler().ResumeSchedule(s.ctx, s.ref(), "a")) })
	s.Clock.Step(-time.Hour)
	sch.Template.Priority = 2
	rises("a change after the clock has stepped back", func() { s.put(sch) })

	// A schedule that is deleted and put again has another version.
	s.Clock.Step(2 * time.Hour)
	s.must("delete", s.scheduler().DeleteSchedule(s.ctx, s.ref(), "a", 0))
	rises("a delete and a put", func() { s.put(sch) })

	// A tick leaves the version unchanged.
	s.Advance(25 * time.Hour)
	s.step()
	s.ticked("a", 1, 0, 0)
	same(s, "the version after a tick", s.schedule("a").Version, last)
}

func schedulePutQueue(s *scene) {
	s.put(daily("a"))
	s.sameIDs("the queues", s.queues(), []string{s.queue})
	same(s, "the configuration of the queue", s.config(), s.usual())
	s.refused("a put into one queue more", s.on("other").putErr(daily("a")), duly.CodeFull)
	s.sameIDs("the queues", s.queues(), []string{s.queue})

	// A refused put makes no queue.
	n := s.in("away")
	s.refused("a bad put", n.putErr(duly.Schedule{Name: "a", Spec: "0 0 30 2 *"}), duly.CodeInvalid)
	n.sameIDs("the queues", n.queues(), nil)
}

func schedulePutOwner(s *scene) {
	sch := daily("a")
	sch.Owner = "app"
	s.put(sch)
	for _, owner := range []string{"", "other"} {
		sch.Owner, sch.Spec = owner, "@hourly"
		err := s.putErr(sch)
		s.refused("a put of owner "+owner, err, duly.CodeConflict)
		if err != nil && !strings.Contains(err.Error(), `"app"`) {
			s.Errorf("%v must name the owner of the schedule", err)
		}
	}
	same(s, "the spec", s.schedule("a").Spec, "0 0 * * *")
	sch.Owner = "app"
	s.putIs(sch, duly.ScheduleChanged)

	s.put(daily("free"))
	free := daily("free")
	free.Owner = "app"
	s.refused("a put of an owner over none", s.putErr(free), duly.CodeConflict)
}

func schedulePutNoTick(s *scene) {
	tick := s.midnight(time.Hour)
	s.names("a date that does not exist", s.putErr(duly.Schedule{Name: "a", Spec: "0 0 30 2 *"}), duly.CodeInvalid, "spec")
	ends := daily("a")
	ends.End = tick.Add(-time.Millisecond)
	s.names("an end before the first tick", s.putErr(ends), duly.CodeInvalid, "end")
	s.noSchedule("a")

	// Start and end are ticks themselves.
	ends.Start, ends.End = tick, tick.Add(time.Millisecond)
	s.put(ends)
	s.nextIs("a", tick)
	s.Advance(2 * time.Hour)
	s.step()
	s.ranAt("the only tick is due", tick)
	s.nextIs("a", time.Time{})
	same(s, "the next tick of the queue is none", s.stats().NextTick.IsZero(), true)

	// A deployment repeats its Put after the last tick.
	s.putIs(ends, duly.ScheduleUnchanged)
	ends.Template.Priority = 1
	s.names("a change after the end", s.putErr(ends), duly.CodeInvalid, "end")
}

// schedulePutBound fills a queue by many callers, and so takes a while.
func schedulePutBound(s *scene) {
	if !long() {
		s.Skip("puts 10 000 schedules; set DULY_LONG=1")
	}
	var callers sync.WaitGroup
	const each = 100
	for i := range duly.MaxSchedules / each {
		callers.Go(func() {
			for k := range each {
				if err := s.putErr(every(fmt.Sprintf("s%d-%d", i, k), time.Hour)); err != nil {
					s.Errorf("put %d of caller %d returns %v, want no error", k, i, err)
					return
				}
			}
		})
	}
	callers.Wait()

	s.refused("one more", s.putErr(daily("more")), duly.CodeFull)
	s.putIs(every("s1-1", time.Minute), duly.ScheduleChanged)
	same(s, "the number of schedules", s.stats().Schedules, duly.MaxSchedules)
	s.must("delete", s.scheduler().DeleteSchedule(s.ctx, s.ref(), "s1-1", 0))
	s.put(daily("more"))
	s.must("destroy", s.Engine.Destroy(s.ctx, s.ref()))
}

func schedulePutCopies(s *scene) {
	body, headers := []byte("body"), map[string]string{"a": "1"}
	sch := daily("a")
	sch.Template.Body, sch.Template.Headers = body, headers
	s.put(sch)
	body[0], headers["a"] = 'X', "2"
	got := s.schedule("a")
	same(s, "the body", string(got.Template.Body), "body")
	same(s, "the header", got.Template.Headers["a"], "1")
	got.Template.Headers["a"] = "3"
	same(s, "the header", s.schedule("a").Template.Headers["a"], "1")
}

func schedulePutTopic(s *scene) {
	if !s.hasTopics() {
		s.Skip("the engine has no topics")
	}
	s.must("configure", s.log().ConfigureTopic(s.ctx, duly.QueueRef{Namespace: s.namespace, Name: theTopic},
		duly.TopicConfig{}))
	s.refused("a put", s.on(theTopic).putErr(daily("a")), duly.CodeConflict)
	s.names("a put into a group", s.on(duly.GroupName(theTopic, "g")).putErr(daily("a")), duly.CodeInvalid, "queue")
}

func schedulePutDelivery(s *scene) {
	pushed := s.on("push")
	sch := daily("a")
	sch.Template.Callback = "https://example.com/"
	pushed.put(sch)
	same(s, "the delivery of the queue that the put has made", pushed.config().Delivery, duly.DeliverPush)
	pushed.names("a template without a destination", pushed.putErr(daily("b")), duly.CodeInvalid, "callback")
	s.put(daily("b"))
	s.refused("a template with a callback in a pull queue", s.putErr(sch), duly.CodeConflict)
	s.noSchedule("a")
}

func scheduleInputTests() []test {
	return []test{
		{"BadFieldsAreInvalid", []string{"C17.2", "C17.4", "C17.5", "C17.19", "C17.20", "C17.21", "C17.22", "C17.23",
			"C17.24", "C17.26", "C17.34", "C17.36", "C17.37"}, Options{}, scheduleBadInput},
		{"NamesAreChecked", []string{"C17.2"}, Options{}, scheduleBadNames},
		{"BadPagesAreInvalid", []string{"C17.136"}, Options{}, scheduleBadPages},
	}
}

func scheduleBadInput(s *scene) {
	for _, tt := range []struct {
		what   string
		change func(*duly.Schedule)
		field  string
	}{
		{"minute 60", func(x *duly.Schedule) { x.Spec = "60 * * * *" }, "spec"},
		{"a range that wraps around", func(x *duly.Schedule) { x.Spec = "5-1 * * * *" }, "spec"},
		{"a step of 0", func(x *duly.Schedule) { x.Spec = "*/0 * * * *" }, "spec"},
		{"four fields", func(x *duly.Schedule) { x.Spec = "* * * *" }, "spec"},
		{"seven fields", func(x *duly.Schedule) { x.Spec = "0 0 3 * * * 2030" }, "spec"},
		{"256 bytes", func(x *duly.Schedule) { x.Spec = strings.Repeat(" ", 247) + "0 3 * * *" }, "spec"},
		{"@reboot", func(x *duly.Schedule) { x.Spec = "@reboot" }, "spec"},
		{"L", func(x *duly.Schedule) { x.Spec = "0 0 L * *" }, "spec"},
		{"15W", func(x *duly.Schedule) { x.Spec = "0 0 15W * *" }, "spec"},
		{"FRI#3", func(x *duly.Schedule) { x.Spec = "0 0 * * FRI#3" }, "spec"},
		{"H", func(x *duly.Schedule) { x.Spec = "H * * * *" }, "spec"},
		{"TZ=", func(x *duly.Schedule) { x.Spec = "TZ=UTC 0 0 * * *" }, "spec"},
		{"30 February", func(x *duly.Schedule) { x.Spec = "0 0 30 2 *" }, "spec"},
		{"an end before the first tick",
			func(x *duly.Schedule) { x.End = s.now().Add(time.Millisecond).UTC().Truncate(time.Millisecond) }, "end"},
		{"zone Local", func(x *duly.Schedule) { x.Zone = "Local" }, "zone"},
		{"zone Mars/Phobos", func(x *duly.Schedule) { x.Zone = "Mars/Phobos" }, "zone"},
		{"zone ../etc/passwd", func(x *duly.Schedule) { x.Zone = "../etc/passwd" }, "zone"},
		{"a jitter of 25 h", func(x *duly.Schedule) { x.Jitter = 25 * time.Hour }, "jitter"},
		{"a window of 59 s", func(x *duly.Schedule) { x.Window = 59 * time.Second }, "window"},
		{"an unknown catchup", func(x *duly.Schedule) { x.Catchup = "x" }, "catchup"},
		{"an unknown overlap", func(x *duly.Schedule) { x.Overlap = "x" }, "overlap"},
		{"an owner with a space", func(x *duly.Schedule) { x.Owner = "a b" }, "owner"},
		{"a name with a slash", func(x *duly.Schedule) { x.Name = "a/b" }, "name"},
		{"a template with an ID", func(x *duly.Schedule) { x.Template.ID = "x" }, "template.id"},
		{"a template with a due time", func(x *duly.Schedule) { x.Template.Due = s.now() }, "template.due"},
		{"a merge key with overlap skip", func(x *duly.Schedule) { x.Template.Merge.Key = "m" }, "template.merge"},
		{"a body of 64 KiB + 1", func(x *duly.Schedule) { x.Template.Body = make([]byte, duly.MaxTemplateBody+1) },
			"template.body"},
		{"a reserved header", func(x *duly.Schedule) { x.Template.Headers = map[string]string{"Duly-Tick": ""} },
			"template.headers"},
		{"62 headers", func(x *duly.Schedule) { x.Template.Headers = manyHeaders(62) }, "template.headers"},
		{"a TTL below the jitter", func(x *duly.Schedule) { x.Jitter, x.Template.TTL = time.Minute, time.Second },
			"template.ttl"},
		{"a priority of 1001", func(x *duly.Schedule) { x.Template.Priority = 1001 }, "template.priority"},
	} {
		sch := daily("a")
		tt.change(&sch)
		s.names(tt.what, s.putErr(sch), duly.CodeInvalid, tt.field)
	}

	bad := duly.Schedule{Name: "a b", Spec: "@reboot", Zone: "Local", Template: duly.Job{ID: "x", Delay: time.Second}}
	err := s.putErr(bad)
	for _, field := range []string{"name", "spec", "zone", "template.id", "template.delay"} {
		s.names("five bad fields", err, duly.CodeInvalid, field)
	}
	s.sameIDs("the queues after refused puts", s.queues(), nil)
}

func scheduleBadNames(s *scene) {
	e := s.scheduler()
	for _, name := range []string{"", "a b", ".a", strings.Repeat("a", 101)} {
		_, err := e.GetSchedule(s.ctx, s.ref(), name)
		s.names("get", err, duly.CodeInvalid, "name")
		s.names("delete", e.DeleteSchedule(s.ctx, s.ref(), name, 0), duly.CodeInvalid, "name")
		s.names("pause", e.PauseSchedule(s.ctx, s.ref(), name), duly.CodeInvalid, "name")
		s.names("resume", e.ResumeSchedule(s.ctx, s.ref(), name), duly.CodeInvalid, "name")
	}
	_, err := e.GetSchedule(s.ctx, duly.Q("a b"), "a")
	s.names("get from a bad queue", err, duly.CodeInvalid, "queue")
	s.names("a put into a bad queue", s.on("a b").putErr(daily("a")), duly.CodeInvalid, "queue")
	longest := strings.Repeat("a", duly.MaxScheduleName)
	s.put(daily(longest))
	same(s, "the longest name", s.schedule(longest).Name, longest)
}

func scheduleBadPages(s *scene) {
	s.put(daily("a"))
	for _, p := range []duly.PageParams{{Limit: -1}, {Limit: duly.MaxBatch + 1}, {Cursor: "%%%"}} {
		_, err := s.scheduler().Schedules(s.ctx, s.ref(), p)
		s.refused(fmt.Sprintf("a list with %+v", p), err, duly.CodeInvalid)
	}
	_, err := s.scheduler().Schedules(canceled(), s.ref(), duly.PageParams{})
	if err == nil {
		s.Error("a list with an ended context succeeds, want the context's error")
	}
	s.must("validation of a name", contract.ValidateScheduleName(s.ref(), "a"))
}
