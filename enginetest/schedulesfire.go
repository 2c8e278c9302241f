package enginetest

import (
	"fmt"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

func scheduleFireTests() []test {
	return []test{
		{"PushesTheRunAndMovesTheTick", []string{"C17.76", "C17.77", "C17.84", "C17.85"}, Options{}, fireFired},
		{"OfAnUnknownScheduleIsNotFound", []string{"C17.80", "C17.138"}, Options{}, fireNotFound},
		{"IsStaleAfterAChange", []string{"C17.81", "C17.90"}, Options{}, fireStale},
		{"BeforeTheTickIsEarly", []string{"C17.82", "C17.114"}, Options{}, fireEarly},
		{"IntoAFullQueueIsFull", []string{"C17.83", "C17.93"}, Options{OneShard: true}, fireFull},
		{"ChecksInOrder", []string{"C17.79"}, Options{OneShard: true}, fireOrder},
		{"CountsWhatThePushDid", []string{"C17.86", "C17.18", "C17.17"}, Options{}, fireCounts},
		{"OfARunThatIsNotAllowedMovesOn", []string{"C17.87"}, Options{}, fireNotAllowed},
		{"ItemsTakeEffectInOrder", []string{"C17.88", "C17.61"}, Options{}, fireInOrder},
		{"BadItemsAreInvalidAlone", []string{"C17.78", "C17.88"}, Options{}, fireBadItems},
		{"OfManyCallersSucceedsOnce", []string{"C17.89", "C17.91"}, Options{}, fireConcurrent},
		{"ReadsDueSchedulesByTheirTicks", []string{"C17.95", "C17.110"}, Options{}, fireDue},
		{"TicksThatCannotFireHoldUpNoOthers", []string{"C17.110", "C17.93"}, Options{OneShard: true}, fireBehindFull},
		{"WithoutAFollowingTickEnds", []string{"C17.77", "C17.17"}, Options{}, fireLast},
	}
}

// dueDaily puts a daily schedule whose tick has been due for a minute.
func dueDaily(s *scene, sch duly.Schedule) time.Time {
	s.Helper()
	tick := s.midnight(time.Minute)
	s.put(sch)
	s.Advance(2 * time.Minute)
	return tick
}

func fireFired(s *scene) {
	tick := dueDaily(s, daily("a"))
	item := s.item("a")
	item.Missed = 3
	r := s.fires("a due tick", item, contract.FireFired)
	same(s, "the push of the run", r.Run.Status, duly.Created)
	same(s, "the ID of the run", r.Run.ID, item.Job.ID)
	s.ranAt("the tick has fired", tick)
	s.nextIs("a", tick.Add(24*time.Hour))
	sameTime(s, "the last tick", s.schedule("a").Last, tick)
	s.ticked("a", 1, 0, 3)
	s.counted(duly.Counters{Pushed: 1})

	// An item without a job only moves the tick.
	s.Advance(24 * time.Hour)
	item = s.item("a")
	item.Job, item.Missed = nil, 1
	s.fires("an item without a job", item, contract.FireFired)
	s.ranAt("the second item has no job", tick)
	s.nextIs("a", tick.Add(48*time.Hour))
	sameTime(s, "the last tick", s.schedule("a").Last, tick)
	s.ticked("a", 1, 0, 4)
}

func fireNotFound(s *scene) {
	dueDaily(s, daily("a"))
	item := s.item("a")
	item.Name = "b"
	s.fires("an unknown schedule", item, contract.FireNotFound)
	s.must("delete", s.scheduler().DeleteSchedule(s.ctx, s.ref(), "a", 0))
	item.Name = "a"
	s.fires("a deleted schedule", item, contract.FireNotFound)
	s.on("unknown").fires("an unknown queue", item, contract.FireNotFound)
	s.ranAt("nothing has fired")
	s.sameIDs("the queues", s.queues(), []string{s.queue})
	same(s, "due schedules of an unknown queue", len(s.on("unknown").due(0).Schedules), 0)
}

func fireStale(s *scene) {
	tick := dueDaily(s, daily("a"))
	item := s.item("a")
	stale := func(why string) {
		s.Helper()
		s.unchanged("a stale item, "+why, func() { s.fires(why, item, contract.FireStale) })
	}

	other := item
	other.Version++
	item, other = other, item
	stale("with another version")
	item = other
	item.Expected -= 1000
	stale("with an older next tick")
	item = other

	changed := daily("a")
	changed.Template.Priority = 1
	s.put(changed)
	stale("after a put")
	item = s.item("a")
	s.must("pause", s.scheduler().PauseSchedule(s.ctx, s.ref(), "a"))
	stale("while paused")
	item.Version = s.schedule("a").Version
	stale("while paused, with the new version")
	s.must("resume", s.scheduler().ResumeSchedule(s.ctx, s.ref(), "a"))
	stale("after a resume")

	s.Advance(24 * time.Hour)
	item = s.item("a")
	s.fires("the next tick", item, contract.FireFired)
	stale("as a repeat")
	s.ranAt("one tick has fired", tick.Add(24*time.Hour))
}

func fireEarly(s *scene) {
	tick := s.midnight(time.Minute)
	s.put(daily("a"))
	item := s.item("a")
	s.unchanged("an early item", func() { s.fires("a minute before the tick", item, contract.FireEarly) })
	s.Advance(time.Minute - time.Millisecond)
	s.unchanged("an early item", func() { s.fires("1 ms before the tick", item, contract.FireEarly) })
	same(s, "due schedules", len(s.due(s.scheduleShard("a")).Schedules), 0)
	s.step()
	s.ranAt("the tick is 1 ms ahead")
	s.Advance(time.Millisecond)
	same(s, "due schedules", len(s.due(s.scheduleShard("a")).Schedules), 1)
	s.fires("at the tick", item, contract.FireFired)
	s.ranAt("the tick has fired", tick)
}

// scheduleShard returns the shard of a schedule in the scene's queue.
func (s *scene) scheduleShard(name string) int {
	return contract.ScheduleShard(name, s.config().Shards)
}

func fireFull(s *scene) {
	sch := daily("a")
	sch.Overlap = duly.OverlapAllow
	tick := dueDaily(s, sch)
	s.configure(duly.QueueConfig{MaxJobs: 1})
	s.push(duly.Job{ID: "in-the-way"})
	item := s.item("a")
	s.unchanged("an item for a full queue", func() {
		r := s.fires("into a full queue", item, contract.FireFull)
		s.refused("the run", r.Err, duly.CodeFull)
	})
	s.step()
	s.nextIs("a", tick)
	s.ticked("a", 0, 0, 0)

	// Room appears, and the process fires the tick again after its pause.
	s.must("delete", s.Engine.Delete(s.ctx, s.ref(), "in-the-way"))
	s.Advance(contract.FullPause)
	s.step()
	s.ranAt("room has appeared", tick)
	s.nextIs("a", tick.Add(24*time.Hour))
}

func fireOrder(s *scene) {
	tick := s.midnight(time.Minute)
	sch := daily("a")
	sch.Overlap = duly.OverlapAllow
	s.put(sch)
	s.configure(duly.QueueConfig{MaxJobs: 1})
	s.push(duly.Job{ID: "in-the-way"})
	item := s.item("a")

	stale := item
	stale.Version++
	s.fires("stale and early and full", stale, contract.FireStale)
	s.fires("early and full", item, contract.FireEarly)
	s.Advance(time.Minute)
	s.fires("full", item, contract.FireFull)
	item.Job = nil
	s.fires("full without a job", item, contract.FireFired)
	s.nextIs("a", tick.Add(24*time.Hour))
}

func fireCounts(s *scene) {
	tick := dueDaily(s, daily("a"))
	first := s.item("a")
	s.fires("the first tick", first, contract.FireFired)
	s.Advance(24 * time.Hour)
	second := s.item("a")
	r := s.fires("a tick while the first run waits", second, contract.FireFired)
	same(s, "the push", r.Run.Status, duly.Merged)
	same(s, "the job that it was merged into", r.Run.ID, first.Job.ID)
	s.ticked("a", 1, 1, 0)
	sameTime(s, "the last tick", s.schedule("a").Last, tick)
	s.nextIs("a", tick.Add(48*time.Hour))

	// A run that exists, as after a delete and a put of its schedule.
	s.Advance(24 * time.Hour)
	third := s.item("a")
	third.Job.ID = first.Job.ID
	r = s.fires("a tick whose run exists", third, contract.FireFired)
	same(s, "the push", r.Run.Status, duly.Exists)
	s.ticked("a", 1, 2, 0)
	s.counted(duly.Counters{Pushed: 2, Merged: 1})
}

func fireNotAllowed(s *scene) {
	sch := daily("a")
	sch.Jitter = time.Hour
	tick := dueDaily(s, sch)
	s.configure(duly.QueueConfig{Defaults: duly.Defaults{TTL: time.Second}})
	item := s.item("a")
	item.Job.Due = tick.Add(30 * time.Minute)
	r := s.fires("a run that would expire before it is due", item, contract.FireFired)
	s.refused("the run", r.Run.Err, duly.CodeInvalid)
	s.ranAt("the run is not allowed")
	s.ticked("a", 0, 0, 1)
	s.nextIs("a", tick.Add(24*time.Hour))
	sameTime(s, "the last tick", s.schedule("a").Last, time.Time{})

	// The pass of the engine ends, too.
	s.Advance(24 * time.Hour)
	s.step()
	s.nextIs("a", tick.Add(48*time.Hour))
	s.ranAt("the run is not allowed")
}

func fireInOrder(s *scene) {
	sch := daily("a")
	sch.Overlap = duly.OverlapAllow
	tick := dueDaily(s, sch)
	s.Advance(4 * 24 * time.Hour)
	s.put(daily("b")) // this schedule is not due

	items := make([]contract.FireItem, 0, 8)
	ticks := make([]time.Time, 5)
	for i := range ticks {
		ticks[i] = tick.Add(time.Duration(i) * 24 * time.Hour)
		item := s.item("a")
		job := *item.Job
		job.ID, job.Headers = fmt.Sprintf("run-%d", i), map[string]string{duly.HeaderTick: tickText(ticks[i])}
		item.Job = &job
		item.Expected, item.Tick, item.Following = ticks[i].UnixMilli(), ticks[i].UnixMilli(),
			ticks[i].Add(24*time.Hour).UnixMilli()
		if i == 2 {
			item.Job = nil
		}
		items = append(items, item)
	}
	early, repeat := s.item("b"), items[0]
	items = append(items, early, repeat)

	var got []string
	for _, r := range s.fireAll(items...) {
		got = append(got, r.Status.String())
	}
	s.sameIDs("the results", got, []string{"fired", "fired", "fired", "fired", "fired", "early", "stale"})
	runs := s.ranAt("four items have a job", ticks[0], ticks[1], ticks[3], ticks[4])
	for i, want := range []string{"", tickText(ticks[0]), tickText(ticks[1]), tickText(ticks[3])} {
		same(s, fmt.Sprintf("the previous run of run %d", i), runs[i].Headers[duly.HeaderPrevious], want)
	}
	s.nextIs("a", tick.Add(5*24*time.Hour))
	s.ticked("a", 4, 0, 0)
}

func fireBadItems(s *scene) {
	tick := dueDaily(s, daily("a"))
	good := s.item("a")
	bad := []contract.FireItem{good, good, good, good}
	bad[0].Tick = bad[0].Expected - 1
	bad[1].Following = bad[1].Tick
	bad[2].Missed = -1
	bad[3].Name = "a b"
	results := s.fireAll(append(bad, good)...)
	for i, r := range results[:4] {
		s.refused(fmt.Sprintf("bad item %d", i), r.Err, duly.CodeInvalid)
		same(s, "its status", r.Status, 0)
	}
	same(s, "the good item", results[4].Status, contract.FireFired)
	s.ranAt("one item is good", tick)

	_, err := s.firer().Fire(s.ctx, s.ref(), make([]contract.FireItem, duly.MaxBatch+1))
	s.refused("1001 items", err, duly.CodeTooLarge)
	none, err := s.firer().Fire(s.ctx, s.ref(), nil)
	s.must("fire of nothing", err)
	same(s, "results of nothing", len(none), 0)
	_, err = s.firer().Fire(s.ctx, duly.Q("a b"), []contract.FireItem{good})
	s.names("a bad queue", err, duly.CodeInvalid, "queue")
}

// fireConcurrent lets many processes fire the same ticks.
func fireConcurrent(s *scene) {
	firer := s.firer() // called here, because a skip must come from the goroutine of the test
	const processes, ticks = 8, 5
	sch := daily("a")
	sch.Overlap = duly.OverlapAllow
	tick := s.midnight(time.Minute)
	s.put(sch)
	for i := range ticks {
		s.Advance(24 * time.Hour)
		item := s.item("a")
		fired := make(chan contract.FireStatus, processes)
		var all sync.WaitGroup
		for range processes {
			all.Go(func() {
				results, err := firer.Fire(s.ctx, s.ref(), []contract.FireItem{item})
				if err != nil {
					s.Errorf("fire returns %v, want no error", err)
					return
				}
				fired <- results[0].Status
			})
		}
		all.Wait()
		close(fired)

		n := 0
		for status := range fired {
			switch status {
			case contract.FireFired:
				n++
			case contract.FireStale:
			default:
				s.Errorf("a process gets the status %s, want fired or stale", status)
			}
		}
		same(s, fmt.Sprintf("the processes that fired tick %d", i), n, 1)
	}
	same(s, "the runs", len(s.runs()), ticks)
	s.ticked("a", ticks, 0, 0)
	s.nextIs("a", tick.Add(ticks*24*time.Hour))
}

func fireDue(s *scene) {
	tick := s.midnight(time.Hour)
	for i := range 3 {
		s.put(duly.Schedule{Name: fmt.Sprintf("late-%d", i), Spec: fmt.Sprintf("%d 0 * * *", 30-i)})
	}
	s.put(daily("paused"))
	s.must("pause", s.scheduler().PauseSchedule(s.ctx, s.ref(), "paused"))
	s.put(duly.Schedule{Name: "over", Spec: "@every 10m", End: tick.Add(-40 * time.Minute)})
	s.configure(duly.QueueConfig{Defaults: duly.Defaults{TTL: 48 * time.Hour}})
	s.Advance(time.Hour + 30*time.Minute - time.Millisecond)
	due := s.due(s.scheduleShard("late-1"))
	same(s, "the engine's clock", due.Now, s.now().UnixMilli())
	same(s, "the default TTL", due.TTL, 48*time.Hour)
	var names []string
	for shard := range s.config().Shards {
		for _, r := range s.due(shard).Schedules {
			names = append(names, r.Name)
			same(s, "its queue", r.Queue, s.ref().Normal())
			same(s, "its next tick", r.Next, s.schedule(r.Name).Next.UnixMilli())
			same(s, "its version", r.Version, s.schedule(r.Name).Version)
		}
	}
	s.sameIDs("the due schedules", names, []string{"over", "late-2", "late-1"})

	// A call returns at most 100 schedules. A pass repeats the call.
	many := s.on("many")
	for i := range contract.MaxDue + 20 {
		many.put(every(fmt.Sprintf("s%03d", i), time.Hour))
	}
	s.Advance(time.Hour)
	same(s, "the due schedules of one call", len(many.due(0).Schedules), contract.MaxDue)
	many.step()
	same(s, "the due schedules after a step", len(many.due(0).Schedules), 0)
	same(s, "the runs", len(many.runs()), contract.MaxDue+20)
}

func fireBehindFull(s *scene) {
	s.configure(duly.QueueConfig{MaxJobs: 1})
	tick := s.midnight(time.Minute)
	s.put(daily("z"))
	s.Advance(time.Minute)
	s.step()
	s.ranAt("the queue is full", tick)

	// More schedules than a page has need room, and z does not: its run waits already.
	for i := range contract.MaxDue + 20 {
		sch := every(fmt.Sprintf("s%03d", i), time.Hour)
		sch.Overlap = duly.OverlapAllow
		s.put(sch)
	}
	s.Advance(24 * time.Hour)
	s.step()
	s.ticked("z", 1, 1, 0)
	s.nextIs("z", tick.Add(48*time.Hour))
	s.ticked("s000", 0, 0, 0)
	s.ranAt("the queue is still full", tick)
}

func fireLast(s *scene) {
	tick := dueDaily(s, daily("a"))
	item := s.item("a")
	item.Following = 0
	s.fires("the last tick", item, contract.FireFired)
	s.nextIs("a", time.Time{})
	s.ranAt("the last tick has fired", tick)
	s.Advance(1000 * time.Hour)
	same(s, "due schedules", len(s.due(s.scheduleShard("a")).Schedules), 0)
	s.step()
	s.ticked("a", 1, 0, 0)
	item.Expected, item.Tick = item.Tick+1, item.Tick+1
	s.fires("a schedule without a next tick", item, contract.FireStale)
}
