package enginetest

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

func scheduleRunTests() []test {
	return []test{
		{"HasTheIDOfItsTick", []string{"C17.50", "C17.51", "C17.52", "C17.53"}, Options{}, runID},
		{"HasTheHeadersOfItsTick", []string{"C17.57", "C17.58", "C17.59", "C17.60"}, Options{}, runHeaders},
		{"IsDueAfterItsOffset", []string{"C17.54", "C17.55"}, Options{}, runOffset},
		{"TTLCountsFromTheTick", []string{"C17.56"}, Options{}, runTTL},
		{"CountsAsAJob", []string{"C17.62"}, Options{}, runCounts},
		{"TakesTheDefaultsOfTheQueue", []string{"C17.25"}, Options{}, runDefaults},
		{"TicksHaveWholeSeconds", []string{"C17.27", "C17.40", "C17.30", "C17.31"}, Options{}, runSeconds},
		{"TicksFollowTheZone", []string{"C17.36", "C17.43", "C17.48", "C17.49"}, Options{}, runZones},
	}
}

func runID(s *scene) {
	sch := daily("a")
	sch.Overlap = duly.OverlapAllow
	tick := s.midnight(time.Minute)
	s.put(sch)
	keyed := sch
	keyed.Name, keyed.Template.OrderKey = "b", "tenant"
	s.put(keyed)
	s.Advance(time.Minute)
	s.step()

	keys := map[string]string{"a": "schedule:a", "b": "tenant"}
	for _, run := range s.ranAt("both are due", tick, tick) {
		name := run.Headers[duly.HeaderSchedule]
		var want duly.Number

		// The test computes the ID from the rule of the contract, not with the package that creates
		// it.
		sum := sha256.Sum256([]byte(s.ref().Normal().String() + "/" + name))
		binary.BigEndian.PutUint64(want[:8], uint64(tick.UnixMilli())<<16)
		copy(want[6:], sum[:10])
		want[11] = duly.KeyPart(keys[name])
		same(s, "the ID of the run of "+name, run.ID, want.String())
	}

	// The number is new, so a receipt of the first run is never valid for a second run with the
	// same ID.
	d := s.take()
	s.must("delete", s.Engine.Delete(s.ctx, s.ref(), d.ID))
	s.push(duly.Job{ID: d.ID})
	s.lost("an ack of the first run", s.settle(duly.SettleRequest{Receipt: d.Receipt, As: duly.Ack}))
}

func runHeaders(s *scene) {
	sch := daily("a")
	sch.Overlap = duly.OverlapAllow
	sch.Template.Headers = map[string]string{"Trace": "1"}
	tick := s.midnight(time.Minute)
	s.put(sch)

	previous := ""
	for i := range 3 {
		s.Advance(24 * time.Hour)
		s.step()
		last := s.runs()[i]

		// The first run has no previous tick, so it has one header less.
		same(s, "the number of headers", len(last.Headers), 3+min(i, 1))
		same(s, "the header of the template", last.Headers["trace"], "1")
		same(s, "the schedule", last.Headers["duly-schedule"], "a")
		same(s, "the tick", last.Headers["duly-tick"], tickText(tick.Add(time.Duration(i)*24*time.Hour)))
		same(s, "the previous tick", last.Headers["duly-previous"], previous)
		previous = last.Headers["duly-tick"]
	}

	// The headers of a run must not reach the stored template.
	same(s, "the headers of the template", len(s.schedule("a").Template.Headers), 1)
}

func runOffset(s *scene) {
	sch := daily("a")
	sch.Jitter = time.Hour
	tick := s.midnight(time.Minute)
	s.put(sch)

	// The test computes the offset from the rule of the contract.
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/a/%d", s.ref().Normal(), tick.UnixMilli()))
	offset := time.Duration(binary.BigEndian.Uint64(sum[:8])%3_600_000) * time.Millisecond

	s.Advance(time.Minute)
	s.step()
	sameTime(s, "the due time", s.ranAt("the tick is due", tick)[0].Due, tick.Add(offset))
	s.Advance(offset - time.Millisecond)
	s.nothing("the run is due 1 ms later")
	s.Advance(time.Millisecond)
	s.ack(s.take())

	// A run that comes late is due at once.
	s.Advance(24*time.Hour + 2*time.Hour)
	s.step()
	sameTime(s, "the due time of a late run", s.ranAt("the tick is late", tick.Add(24*time.Hour))[0].Due, s.now())
}

func runTTL(s *scene) {
	sch := daily("a")
	sch.Template.TTL = 2 * time.Hour
	tick := s.midnight(time.Minute)
	s.put(sch)
	s.Advance(time.Minute + 30*time.Minute)
	s.step()
	run := s.ranAt("the tick is 30 min late", tick)[0]
	sameTime(s, "the expiry", run.ExpiresAt, tick.Add(2*time.Hour))

	// The last millisecond of the TTL still counts.
	s.Advance(90*time.Minute + time.Millisecond)
	s.step()
	s.gone(run.ID)
	s.nextIs("a", tick.Add(24*time.Hour))

	// A tick whose run would have expired does not fire.
	s.Advance(24 * time.Hour)
	s.step()
	s.ranAt("the TTL of the second tick is over")
	s.ticked("a", 1, 0, 1)
	s.counted(duly.Counters{Pushed: 1, Expired: 1})
}

func runCounts(s *scene) {
	tick := s.midnight(time.Minute)
	s.put(daily("a"))
	s.Advance(time.Minute)
	s.step()
	s.ranAt("the tick is due", tick)
	s.counted(duly.Counters{Pushed: 1})
	d := s.take()
	same(s, "the attempt", d.Attempt, 1)
	s.ack(d)
	s.counted(duly.Counters{Pushed: 1, Delivered: 1, Acked: 1})
}

func runDefaults(s *scene) {
	s.configure(duly.QueueConfig{Defaults: duly.Defaults{Tries: 3, TTL: time.Hour}})
	tick := s.midnight(time.Minute)
	s.put(daily("a"))
	s.Advance(time.Minute)
	s.step()
	run := s.get(s.ranAt("the tick is due", tick)[0].ID)
	same(s, "its tries", run.Tries, 3)
	sameTime(s, "its expiry", run.ExpiresAt, tick.Add(time.Hour))
}

func runSeconds(s *scene) {
	tick := s.midnight(0)
	for spec, want := range map[string]time.Duration{
		"*/10 * * * * *": 10 * time.Second, "30 0 0 ? * *": 30 * time.Second, "5 0 ? * ?": 5 * time.Minute,
		"@hourly": time.Hour, "0 3,5 * * SUN-SAT": 3 * time.Hour, "@every 1m500ms": 0,
	} {
		sch := duly.Schedule{Name: "a", Spec: spec}
		got := s.put(sch).Next

		// The ticks of @every are multiples of the period since 1970.
		if want == 0 {
			period := time.Minute + 500*time.Millisecond
			want = time.UnixMilli((tick.UnixMilli()/period.Milliseconds() + 1) * period.Milliseconds()).Sub(tick)
		}
		sameTime(s, "the next tick of "+spec, got, tick.Add(want))
	}
}

func runZones(s *scene) {
	// The next change of the clock in New York after the suite's start decides the year.
	zone := mustZone(s, "America/New_York")
	_, end := s.now().In(zone).ZoneBounds()
	for _, name := range []string{"fixed", "wildcard", "every"} {
		specs := map[string]string{"fixed": "30 2 * * *", "wildcard": "0 * * * *", "every": "@every 1h"}
		s.put(duly.Schedule{Name: name, Spec: specs[name], Zone: "America/New_York", Overlap: duly.OverlapAllow})
	}
	if _, offset := end.Zone(); offset != -4*3600 {
		s.Fatalf("the clock jumps back at %s, and not forward", end)
	}

	// At 02:00, the clock jumps to 03:00.
	s.Advance(end.Add(-time.Minute).Sub(s.now()))
	s.step()
	s.nextIs("fixed", end)
	s.nextIs("wildcard", end)
	s.nextIs("every", end)
	s.Advance(time.Minute)
	s.step()
	s.nextIs("fixed", end.Add(24*time.Hour-30*time.Minute))
	s.nextIs("wildcard", end.Add(time.Hour))
	s.nextIs("every", end.Add(time.Hour))
	s.must("purge", func() error { _, err := s.Engine.Purge(s.ctx, s.ref(), duly.StateReady, 0); return err }())
}

func scheduleOverlapTests() []test {
	return []test{
		{"SkipKeepsOneRun", []string{"C17.68", "C17.69", "C17.73", "C17.75"}, Options{}, overlapSkip},
		{"AllowMakesIndependentRuns", []string{"C17.68", "C17.70"}, Options{}, overlapAllow},
		{"OneLetsOneRunWait", []string{"C17.68", "C17.71"}, Options{}, overlapOne},
		{"AllRunsOneAfterTheOther", []string{"C17.68", "C17.72"}, Options{}, overlapAll},
		{"MergedTickExtendsTheExpiryOnly", []string{"C17.74", "C7.4"}, Options{}, overlapExpiry},
		{"TriggeredRunFollowsThePolicy", []string{"C17.130", "C17.131"}, Options{}, overlapTrigger},
	}
}

// overlapping puts a daily schedule and returns a function that passes to its next tick.
func overlapping(s *scene, policy duly.Overlap) (next func() time.Time) {
	sch := daily("a")
	sch.Overlap = policy

	// The lease covers every tick of the test, so no run stalls.
	sch.Template.Lease = 300 * 24 * time.Hour
	tick := s.midnight(time.Minute)
	s.put(sch)
	s.Advance(time.Minute)
	first := true
	return func() time.Time {
		if !first {
			s.Advance(24 * time.Hour)
			tick = tick.Add(24 * time.Hour)
		}
		first = false
		s.step()
		return tick
	}
}

func overlapSkip(s *scene) {
	next := overlapping(s, duly.OverlapSkip)
	first := next()
	next()
	s.ranAt("the first run waits", first)
	d := s.take()
	next()
	s.ranAt("the first run is leased", first)
	s.nackFor(d, 30*time.Hour)

	// A run that waits for a retry still holds the merge key (C7.13).
	next()
	s.ranAt("the first run waits for a retry", first)
	s.ticked("a", 1, 3, 0)

	// Each end of the run frees its key.
	s.Advance(6 * time.Hour)
	s.ack(s.take())
	third := next()
	s.ranAt("the first run is acked", third)
	s.bury(s.take(), "no")
	fourth := next()
	run := s.ranAt("the next run is dead", fourth)[0]
	s.must("delete", s.Engine.Delete(s.ctx, s.ref(), run.ID))
	s.ranAt("the last run is deleted again", next())
}

func overlapAllow(s *scene) {
	next := overlapping(s, duly.OverlapAllow)
	a := next()
	b := next()
	s.take()
	c := next()
	s.ranAt("runs are independent", a, b, c)
	s.sizes(duly.Sizes{Ready: 2, Leased: 1})
	s.ticked("a", 3, 0, 0)
}

func overlapOne(s *scene) {
	next := overlapping(s, duly.OverlapOne)
	a := next()
	next()
	s.ranAt("one run waits", a)
	d := s.take()
	c := next()
	next()
	s.ranAt("one run is active and one waits", a, c)
	s.nothing("the waiting run is behind the active one")
	s.ack(d)
	same(s, "the next run", s.take().Headers[duly.HeaderTick], tickText(c))
	s.ticked("a", 2, 2, 0)
}

func overlapAll(s *scene) {
	next := overlapping(s, duly.OverlapAll)
	ticks := []time.Time{next(), next(), next()}
	s.ranAt("every tick has a run", ticks...)
	for _, tick := range ticks {
		d := s.take()
		same(s, "the run", d.Headers[duly.HeaderTick], tickText(tick))
		s.nothing("the runs follow one another")
		s.ack(d)
	}
	s.ticked("a", 3, 0, 0)
}

func overlapExpiry(s *scene) {
	sch := daily("a")
	sch.Template.TTL, sch.Template.Body = 30*time.Hour, []byte("old")
	tick := s.midnight(time.Minute)
	s.put(sch)
	s.Advance(time.Minute)
	s.step()
	first := s.ranAt("the tick is due", tick)[0]

	// The second put changes the template of a run that already waits.
	sch.Template.Body, sch.Template.Priority = []byte("new"), 5
	s.put(sch)
	s.Advance(24 * time.Hour)
	s.step()
	merged := s.get(first.ID)
	sameTime(s, "the expiry", merged.ExpiresAt, tick.Add(54*time.Hour))
	same(s, "the body", string(merged.Body), "old")
	same(s, "the priority", merged.Priority, 0)
	same(s, "the tick", merged.Headers[duly.HeaderTick], tickText(tick))
	s.ticked("a", 1, 1, 0)
}

func overlapTrigger(s *scene) {
	tick := s.midnight(time.Minute)
	sch := daily("a")
	sch.Template.Body = []byte("body")
	s.put(sch)
	before := s.schedule("a")
	c := duly.NewClient(s.Engine, duly.ClientConfig{Namespace: s.ref().Normal().Namespace})
	r, err := c.Trigger(s.ctx, s.queue, "a")
	s.must("trigger", err)
	same(s, "the outcome", r.Status, duly.Created)
	run := s.get(r.ID)
	same(s, "the body", string(run.Body), "body")
	same(s, "the schedule", run.Headers["duly-schedule"], "a")
	same(s, "the trigger", run.Headers["duly-trigger"], "manual")
	same(s, "the merge", run.Merge, duly.Merge{Key: "schedule:a", Mode: duly.MergeKeep, Until: duly.UntilDone})
	same(s, "the version", s.schedule("a").Version, before.Version)
	s.nextIs("a", tick)
	s.ticked("a", 0, 0, 0)

	again, err := c.Trigger(s.ctx, s.queue, "a")
	s.must("trigger", err)
	same(s, "the outcome while a run waits", again.Status, duly.Merged)
	same(s, "the waiting run", again.ID, r.ID)

	// The run that was triggered still waits, so the tick is merged into it.
	s.Advance(time.Minute)
	s.step()
	s.ticked("a", 0, 1, 0)
	_, err = c.Trigger(s.ctx, s.queue, "b")
	s.refused("a trigger of an unknown schedule", err, duly.CodeNotFound)

	all := sch
	all.Name, all.Overlap = "all", duly.OverlapAll
	s.put(all)
	for range 2 {
		r, err := c.Trigger(s.ctx, s.queue, "all")
		s.must("trigger", err)
		same(s, "the outcome", r.Status, duly.Created)
	}
}

func scheduleShardTests() []test {
	return []test{
		{"IsInTheShardOfItsKey", []string{"C17.63", "C17.64", "C17.65", "C17.66"}, Options{}, scheduleShards},
		{"KeyOfAnotherShardIsInvalid", []string{"C17.67"}, Options{}, scheduleShardKey},
		{"EachShardIsListedInTurn", []string{"C17.136", "C17.137"}, Options{}, scheduleShardList},
	}
}

func scheduleShards(s *scene) {
	s.over(duly.QueueConfig{})
	tick := s.midnight(time.Minute)
	const n = 40
	for i := range n {
		s.put(daily(fmt.Sprintf("s%d", i)))
	}
	s.Advance(2 * time.Minute)
	total := 0

	// Each shard reports its own schedules only.
	for shard := range manyShards {
		for _, r := range s.due(shard).Schedules {
			same(s, "the shard of "+r.Name, contract.ScheduleShard(r.Name, manyShards), shard)
			total++
		}
	}
	same(s, "the due schedules of all shards", total, n)

	s.step()
	runs := s.runs()
	same(s, "the runs", len(runs), n)
	for _, run := range runs {
		name := run.Headers[duly.HeaderSchedule]
		same(s, "the tick of "+name, run.Headers[duly.HeaderTick], tickText(tick))
		same(s, "the shard of the run of "+name, contract.ShardOf(run.ID, manyShards),
			contract.ScheduleShard(name, manyShards))
	}
	s.nextIs("s7", tick.Add(24*time.Hour))
	s.must("delete", s.scheduler().DeleteSchedule(s.ctx, s.ref(), "s7", 0))
	s.noSchedule("s7")
}

func scheduleShardKey(s *scene) {
	s.over(duly.QueueConfig{})
	for i := range 20 {
		sch := daily("a")
		sch.Template.OrderKey = fmt.Sprintf("key-%d", i)
		err := s.putErr(sch)

		// A run must be in the shard of its schedule, which fixes the shards of its keys.
		if contract.KeyShard(sch.Template.OrderKey, manyShards) == contract.ScheduleShard("a", manyShards) {
			s.must("a put with a key of the same shard", err)
			continue
		}
		s.names("a put with a key of another shard", err, duly.CodeInvalid, "template.order_key")
	}
}

func scheduleShardList(s *scene) {
	s.over(duly.QueueConfig{})
	const n = 30
	for i := range n {
		s.put(every(fmt.Sprintf("s%d", i), time.Duration(i+1)*time.Minute))
	}

	last := map[int]time.Time{}
	shard := 0
	for _, i := range s.pagedSchedules(7) {
		in := contract.ScheduleShard(i.Name, manyShards)

		// Shards follow each other in a list, so the number of the shard never falls.
		if in < shard {
			s.Errorf("%s of shard %d is listed after shard %d", i.Name, in, shard)
		}
		if shard = in; i.Next.Before(last[in]) {
			s.Errorf("%s at %s is listed after %s", i.Name, i.Next, last[in])
		}
		last[in] = i.Next
	}

	st := s.stats()
	same(s, "the number of schedules", st.Schedules, n)
	sameTime(s, "the earliest tick", st.NextTick, s.schedule("s0").Next)
}
