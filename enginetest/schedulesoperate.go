package enginetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

func scheduleOperateTests() []test {
	return []test{
		{"PausedScheduleFiresNothing", []string{"C17.126", "C17.127", "C17.16"}, Options{}, schedulePause},
		{"TicksOfAPauseAreMissed", []string{"C17.128", "C17.18"}, Options{}, scheduleResume},
		{"ResumeBeforeTheTickKeepsIt", []string{"C17.128"}, Options{}, scheduleResumeEarly},
		{"PauseAndResumeMayBeRepeated", []string{"C17.126", "C17.141"}, Options{}, schedulePauseRepeat},
		{"DeleteKeepsTheRuns", []string{"C17.129"}, Options{}, scheduleDelete},
		{"DeleteWithAnOldVersionConflicts", []string{"C17.129"}, Options{}, scheduleDeleteVersion},
		{"UnknownScheduleIsNotFound", []string{"C17.126", "C17.138", "C4.86"}, Options{}, scheduleUnknown},
		{"PruneDeletesWhatAnOwnerNoLongerHas", []string{"C17.132", "C17.133", "C17.134"}, Options{}, schedulePrune},
		{"DestroyRemovesTheSchedules", []string{"C17.142", "C4.71"}, Options{}, scheduleDestroy},
		{"PausedQueueStillTicks", []string{"C17.108"}, Options{OneShard: true}, scheduleQueuePaused},
	}
}

func schedulePause(s *scene) {
	tick := s.midnight(time.Minute)
	s.put(daily("a"))
	s.must("pause", s.scheduler().PauseSchedule(s.ctx, s.ref(), "a"))
	same(s, "paused", s.schedule("a").Paused, true)
	s.nextIs("a", tick)

	// Two days, so that a pause that only delays a tick would show.
	s.Advance(48 * time.Hour)
	s.step()
	s.nothing("the schedule is paused")
	s.ranAt("the schedule is paused")
	s.ticked("a", 0, 0, 0)
	s.nextIs("a", tick)
	same(s, "the next tick of the queue is none", s.stats().NextTick.IsZero(), true)
	same(s, "the number of schedules", s.stats().Schedules, 1)
}

func scheduleResume(s *scene) {
	tick := s.midnight(time.Minute)
	s.put(daily("a"))
	s.must("pause", s.scheduler().PauseSchedule(s.ctx, s.ref(), "a"))
	s.Advance(time.Minute + 3*24*time.Hour)
	s.must("resume", s.scheduler().ResumeSchedule(s.ctx, s.ref(), "a"))
	s.nextIs("a", tick.Add(4*24*time.Hour))

	// The resume counts every tick that passed in the pause.
	s.ticked("a", 0, 0, 4)
	s.step()
	s.ranAt("the ticks of the pause never fire")
	s.Advance(24 * time.Hour)
	s.step()
	s.ranAt("the schedule ticks again", tick.Add(4*24*time.Hour))

	// More ticks pass than are counted, so the counter ends at its bound.
	fast := every("fast", time.Second)
	s.put(fast)
	s.must("pause", s.scheduler().PauseSchedule(s.ctx, s.ref(), "fast"))
	s.Advance(time.Hour)
	s.must("resume", s.scheduler().ResumeSchedule(s.ctx, s.ref(), "fast"))
	s.ticked("fast", 0, 0, contract.MaxMissed)
	s.nextIs("fast", s.now().Truncate(time.Second).Add(time.Second))
}

func scheduleResumeEarly(s *scene) {
	tick := s.midnight(time.Hour)
	s.put(daily("a"))
	s.must("pause", s.scheduler().PauseSchedule(s.ctx, s.ref(), "a"))
	s.Advance(time.Minute)
	s.must("resume", s.scheduler().ResumeSchedule(s.ctx, s.ref(), "a"))
	s.nextIs("a", tick)
	s.ticked("a", 0, 0, 0)
	s.Advance(time.Hour)
	s.step()
	s.ranAt("the pause has ended before the tick", tick)
}

func schedulePauseRepeat(s *scene) {
	s.put(daily("a"))
	pause := func() { s.must("pause", s.scheduler().PauseSchedule(s.ctx, s.ref(), "a")) }
	resume := func() { s.must("resume", s.scheduler().ResumeSchedule(s.ctx, s.ref(), "a")) }
	for _, op := range []func(){pause, resume} {
		op()
		first := s.schedule("a")

		// Time passes between the two calls, so a repeat that writes would change the version.
		s.Advance(time.Minute)
		op()
		if again := s.schedule("a"); again.Version != first.Version || again.Paused != first.Paused ||
			!again.Next.Equal(first.Next) {
			s.Errorf("a repeated call changes\n%+v to\n%+v, want no change", first, again)
		}
	}
}

func scheduleDelete(s *scene) {
	tick := s.midnight(time.Minute)
	s.put(daily("a"))
	s.put(daily("b"))
	s.Advance(time.Minute)
	s.step()
	s.must("delete", s.scheduler().DeleteSchedule(s.ctx, s.ref(), "a", 0))
	s.noSchedule("a")
	s.ranAt("a deleted schedule keeps its run", tick, tick)
	s.listed("after a delete", "b")

	// The next day shows that no part of the schedule is left.
	s.Advance(24 * time.Hour)
	s.step()
	s.ranAt("a deleted schedule fires nothing", tick, tick)
	s.refused("a second delete", s.scheduler().DeleteSchedule(s.ctx, s.ref(), "a", 0), duly.CodeNotFound)

	// Put again, it begins with the first tick after the put.
	put := s.putIs(daily("a"), duly.ScheduleCreated)
	sameTime(s, "the next tick", put.Next, tick.Add(2*24*time.Hour))
	s.ticked("a", 0, 0, 0)
}

func scheduleDeleteVersion(s *scene) {
	old := s.put(daily("a"))
	changed := daily("a")
	changed.Template.Priority = 1
	put := s.put(changed)
	s.refused("a delete with an old version", s.scheduler().DeleteSchedule(s.ctx, s.ref(), "a", old.Version),
		duly.CodeConflict)
	s.schedule("a")
	s.must("a delete with the version", s.scheduler().DeleteSchedule(s.ctx, s.ref(), "a", put.Version))
	s.noSchedule("a")
}

func scheduleUnknown(s *scene) {
	s.on("known").put(daily("b"))
	e := s.scheduler()

	// One queue is unknown, the other only lacks the schedule.
	for _, queue := range []string{"unknown", "known"} {
		ref := s.on(queue).ref()
		_, err := e.GetSchedule(s.ctx, ref, "a")
		s.refused("get", err, duly.CodeNotFound)
		s.refused("pause", e.PauseSchedule(s.ctx, ref, "a"), duly.CodeNotFound)
		s.refused("resume", e.ResumeSchedule(s.ctx, ref, "a"), duly.CodeNotFound)
		s.refused("delete", e.DeleteSchedule(s.ctx, ref, "a", 0), duly.CodeNotFound)
		s.refused("delete with a version", e.DeleteSchedule(s.ctx, ref, "a", 7), duly.CodeNotFound)
	}
	s.on("unknown").listed("of an unknown queue")
	same(s, "the number of schedules", s.on("unknown").stats().Schedules, 0)
	s.sameIDs("the queues", s.queues(), []string{"known"})
}

func schedulePrune(s *scene) {
	owned := func(name, owner string) duly.Schedule {
		sch := daily(name)
		sch.Owner = owner
		return sch
	}
	for _, sch := range []duly.Schedule{owned("keep", "app"), owned("old", "app"), owned("other", "web"),
		owned("none", "")} {
		s.put(sch)
	}

	// A prune deletes schedules that the owner no longer names, and leaves the other owners alone.
	got, err := contract.PruneSchedules(s.ctx, s.scheduler(), s.ref(), "app", []string{"keep", "new"})
	s.must("prune", err)
	s.sameIDs("the deleted schedules", got.Deleted, []string{"old"})
	s.sameIDs("the changed schedules", got.Changed, nil)
	s.listed("after a prune", "keep", "none", "other")
	_, err = contract.PruneSchedules(s.ctx, s.scheduler(), s.ref(), "", nil)
	s.names("a prune without an owner", err, duly.CodeInvalid, "owner")
	got, err = contract.PruneSchedules(s.ctx, s.scheduler(), s.on("unknown").ref(), "app", nil)
	s.must("prune of an unknown queue", err)
	same(s, "the deleted schedules", len(got.Deleted), 0)
}

func scheduleDestroy(s *scene) {
	s.put(daily("a"))
	s.put(daily("b"))
	s.Advance(25 * time.Hour)
	s.must("destroy", s.Engine.Destroy(s.ctx, s.ref()))
	s.noSchedule("a")
	s.listed("of a destroyed queue")
	s.step()
	s.sameIDs("the queues", s.queues(), nil)

	// A queue of the same name begins without schedules.
	s.push(duly.Job{ID: "x"})
	s.listed("of a queue that was made again")
	s.Advance(25 * time.Hour)
	s.step()
	s.takes("x")
	put := s.putIs(daily("a"), duly.ScheduleCreated)
	if !put.Next.After(s.now()) {
		s.Errorf("the next tick is %s at the time %s, want a later tick", put.Next, s.now())
	}
}

func scheduleQueuePaused(s *scene) {
	tick := s.midnight(time.Minute)
	s.put(daily("a"))
	s.configure(duly.QueueConfig{MaxLeased: 1})
	s.must("pause", s.Engine.Pause(s.ctx, s.ref()))
	s.Advance(2 * time.Minute)
	s.step()
	s.nothing("the queue is paused")
	s.ranAt("the pause of a queue holds back no tick", tick)
	s.ticked("a", 1, 0, 0)
	s.must("resume", s.Engine.Resume(s.ctx, s.ref()))
	s.take()
}

func scheduleReadTests() []test {
	return []test{
		{"ListIsOrderedByTickAndName", []string{"C17.136", "C4.51"}, Options{}, scheduleList},
		{"ListIsPaged", []string{"C17.136", "C4.51", "C4.52"}, Options{}, schedulePages},
		{"StatsHaveNumberAndNextTick", []string{"C17.137"}, Options{}, scheduleStats},
	}
}

func scheduleList(s *scene) {
	tick := s.midnight(time.Hour)
	s.put(daily("c"))
	s.put(daily("a"))
	s.put(duly.Schedule{Name: "z", Spec: "50 23 * * *"})
	s.put(daily("p"))
	s.put(duly.Schedule{Name: "over", Spec: "@every 10m", End: tick.Add(-40 * time.Minute)})
	s.put(daily("b-paused"))
	for _, name := range []string{"p", "b-paused"} {
		s.must("pause", s.scheduler().PauseSchedule(s.ctx, s.ref(), name))
	}

	s.Advance(30 * time.Minute)
	s.step()

	// The schedule named over has passed its end, so it sorts with the paused ones.
	s.nextIs("over", time.Time{})
	s.listed("by tick and name", "z", "a", "c", "b-paused", "over", "p")
	for _, i := range s.pagedSchedules(duly.MaxBatch) {
		got := s.schedule(i.Name)
		same(s, i.Name+" as listed", fmt.Sprintf("%+v", i), fmt.Sprintf("%+v", got))
	}
}

func schedulePages(s *scene) {
	var want []string
	for i := range 25 {
		name := fmt.Sprintf("s%02d", i)
		s.put(daily(name))
		want = append(want, name)
	}

	// The limits end a page before, at and after the end of the list.
	for _, limit := range []int{1, 7, 24, 25, 26} {
		var got []string
		for _, i := range s.pagedSchedules(limit) {
			got = append(got, i.Name)
		}
		s.sameIDs(fmt.Sprintf("the schedules in pages of %d", limit), got, want)
	}
	page, err := s.scheduler().Schedules(s.ctx, s.ref(), duly.PageParams{Limit: 10})
	s.must("list", err)
	same(s, "the length of a page", len(page.Schedules), 10)

	// Deleting the listed schedules does not move the remaining ones.
	for _, i := range page.Schedules {
		s.must("delete", s.scheduler().DeleteSchedule(s.ctx, s.ref(), i.Name, i.Version))
	}
	page, err = s.scheduler().Schedules(s.ctx, s.ref(), duly.PageParams{Limit: 100, Cursor: page.Next})
	s.must("list", err)
	var got []string
	for _, i := range page.Schedules {
		got = append(got, i.Name)
	}
	s.sameIDs("the second page", got, want[10:])
}

func scheduleStats(s *scene) {
	tick := s.midnight(time.Hour)
	same(s, "the number before the first put", s.stats().Schedules, 0)
	s.put(daily("a"))
	s.put(duly.Schedule{Name: "b", Spec: "30 23 * * *"})
	s.on("other").put(daily("c"))
	check := func(why string, n int64, next time.Time) {
		s.Helper()
		st := s.stats()
		same(s, "the number of schedules, "+why, st.Schedules, n)
		sameTime(s, "the next tick, "+why, st.NextTick, next)

		// The survey must agree with Stats, although it reads many queues in one call.
		page, err := contract.SurveyorOf(s.Engine).Survey(s.ctx, s.namespace, duly.PageParams{})
		s.must("survey", err)
		i := slices.IndexFunc(page.Queues, func(q contract.QueueStats) bool { return q.Name == s.queue })
		if i < 0 {
			s.Fatalf("the survey has no queue %s", s.queue)
		}
		same(s, "the number in the survey", page.Queues[i].Stats.Schedules, n)
		sameTime(s, "the next tick in the survey", page.Queues[i].Stats.NextTick, next)
	}

	check("after two puts", 2, tick.Add(-30*time.Minute))
	s.must("pause", s.scheduler().PauseSchedule(s.ctx, s.ref(), "b"))
	check("with one paused", 2, tick)
	s.must("delete", s.scheduler().DeleteSchedule(s.ctx, s.ref(), "b", 0))
	check("after a delete", 1, tick)
	s.Advance(2 * time.Hour)
	check("with a due tick", 1, tick)
	s.step()
	check("after a tick", 1, tick.Add(24*time.Hour))

	// A tick counts in NextTick only, because no job exists before it (C4.57).
	same(s, "a tick is not a job", s.stats().NextDue.IsZero(), true)
}

func scheduleWakeTests() []test {
	return []test{
		{"NoJobExistsBeforeItsTick", []string{"C17.106", "C17.114"}, Options{}, wakeNoJob},
		{"ReserveFiresADueTick", []string{"C17.109", "C17.112"}, Options{}, wakeReserve},
		{"SweepFiresADueTick", []string{"C17.109"}, Options{}, wakeSweep},
		{"StepIsBoundedAndFiresTheRest", []string{"C17.110", "C17.109"}, Options{OneShard: true}, wakeStep},
		{"PollFindsADueTick", []string{"C4.17", "C17.107"}, Options{}, wakePoll},
		{"OneWaiterWakesForATick", []string{"C17.107", "C5.16"}, Options{}, wakeOne},
		{"WaiterWakesForAnEarlierTick", []string{"C17.107", "C5.12"}, Options{}, wakeEarlier},
		{"TickNeedsNoWaiter", []string{"C17.113", "C17.106"}, Options{Own: true}, wakeOwn},
		{"QueueOfAPausedScheduleSleeps", []string{"C17.127"}, Options{}, wakePaused},
	}
}

func wakeNoJob(s *scene) {
	tick := s.midnight(time.Hour)
	s.put(daily("a"))
	s.Advance(time.Hour - time.Millisecond)
	s.nothing("the tick is 1 ms ahead")
	s.sizes(duly.Sizes{})
	s.Advance(time.Millisecond)
	s.step()
	s.sizes(duly.Sizes{Ready: 1})
	s.ranAt("the tick is due", tick)
}

// wakeReserve allows a Reserve to return before the tick has fired.
func wakeReserve(s *scene) {
	s.midnight(time.Minute)
	s.put(daily("a"))
	s.Advance(2 * time.Minute)
	for range 100 {
		if ds := s.reserve(1); len(ds) == 1 {
			same(s, "the schedule", ds[0].Headers[duly.HeaderSchedule], "a")
			return
		}
		s.Quiet()
	}
	s.Error("100 Reserves have not fired a due tick, want a run")
}

func wakeSweep(s *scene) {
	tick := s.midnight(time.Minute)
	for _, queue := range []string{"x", "y"} {
		s.on(queue).put(daily("a"))
	}

	// A sweep must not step a queue whose tick is not due.
	s.on("later").put(duly.Schedule{Name: "a", Spec: "0 12 * * *"})
	s.Advance(2 * time.Minute)
	s.must("sweep", s.Maintainer.Sweep(s.ctx))
	s.Quiet()
	for _, queue := range []string{"x", "y"} {
		s.on(queue).ranAt("the sweep finds the tick", tick)
	}
	s.on("later").ranAt("the tick is not due")
}

func wakeStep(s *scene) {
	sch := every("a", time.Second)
	sch.Catchup, sch.Overlap = duly.CatchupAll, duly.OverlapAllow
	s.put(sch)
	s.Advance(time.Hour)
	steps := 1
	for ; steps < 100; steps++ {
		more, err := s.Maintainer.Step(s.ctx, s.ref())
		s.must("step", err)
		if !more {
			break
		}
	}

	// The clock may start in the middle of a second, so one more tick may be due.
	if n := len(s.runs()); n < 3600 || n > 3601 || steps < 2 {
		s.Errorf("%d steps made %d runs, want 3600 or 3601 runs in at least 2 steps", steps, n)
	}

	// Thousands of runs would only make the audit slow.
	s.must("destroy", s.Engine.Destroy(s.ctx, s.ref()))
}

func wakePoll(s *scene) {
	poll := func(want bool) {
		s.Helper()
		ready, err := s.Engine.Wait(s.ctx, duly.WaitParams{Namespace: s.namespace, Queues: []string{s.queue}})
		s.must("wait", err)
		same(s, "a queue may have a job", ready, want)
	}
	tick := s.midnight(time.Minute)
	s.put(daily("a"))
	poll(false)
	s.Advance(time.Minute)

	// Its Reserve fires the tick, so the queue may have a job.
	poll(true)
	s.step()
	s.takes(s.ranAt("the tick has fired", tick)[0].ID)
	poll(false)
}

func wakeOne(s *scene) {
	s.midnight(time.Minute)
	s.put(daily("a"))
	waiters := []*waiter{s.wait(), s.wait(), s.wait()}
	for _, w := range waiters {
		w.sleeps("the tick is a minute ahead")
	}

	s.Advance(time.Minute - time.Millisecond)
	for _, w := range waiters {
		w.sleeps("the tick is 1 ms ahead")
	}
	s.Advance(time.Millisecond)
	woken := 0
	for _, w := range waiters {
		if w.returned() {
			woken++
		}
	}
	same(s, "the waiters that woke for one tick", woken, 1)
	s.take()
	for _, w := range waiters {
		w.end()
	}
}

func wakeEarlier(s *scene) {
	tick := s.midnight(10 * time.Minute)
	w := s.wait()
	s.put(daily("a"))
	w.sleeps("the tick is 10 min ahead")

	// The waiter sleeps until the first tick, so it must be notified of the earlier one.
	s.put(duly.Schedule{Name: "b", Spec: "55 23 * * *"})
	s.Advance(5 * time.Minute)
	w.woke("an earlier tick was put")
	d := s.take()
	same(s, "the schedule", d.Headers[duly.HeaderSchedule], "b")
	s.ack(d)
	w = s.wait()
	w.sleeps("the second tick is ahead")
	s.Advance(tick.Sub(s.now()))
	w.woke("the second tick is due")
	same(s, "the schedule", s.take().Headers[duly.HeaderSchedule], "a")
}

// wakeOwn uses an engine without waiters and without calls to Step.
func wakeOwn(s *scene) {
	tick := s.midnight(time.Minute)
	sch := daily("a")
	sch.Overlap = duly.OverlapAllow
	s.put(sch)
	s.Advance(time.Minute - time.Millisecond)
	s.ranAt("the tick is 1 ms ahead")
	s.Advance(time.Millisecond)
	s.Advance(30 * time.Second) // a remote engine may check again only after this time
	s.ranAt("the tick is due", tick)

	// The run wakes a waiter, as any job does.
	w := s.wait()
	w.woke("a run is ready")
	s.ack(s.take())
	s.Advance(24*time.Hour - 31*time.Second)

	// The waiter begins a second before the tick, so only the tick can wake it.
	w = s.wait()
	s.Advance(2 * time.Second)
	w.woke("the next tick is due")
	same(s, "the tick", s.take().Headers[duly.HeaderTick], tickText(tick.Add(24*time.Hour)))
}

func wakePaused(s *scene) {
	s.midnight(time.Minute)
	s.put(daily("a"))
	s.must("pause", s.scheduler().PauseSchedule(s.ctx, s.ref(), "a"))
	w := s.wait()

	// The next tick passes while the waiter sleeps.
	s.Advance(5 * time.Minute)
	w.sleeps("the schedule is paused")
	w.end()
}
