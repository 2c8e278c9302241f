package enginetest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// scheduleBugTests test for bugs of other systems, which the engine's schedules must not have. Each
// test has the name of its bug. Its comment describes the bug and names its issues, such as
// river#791.
func scheduleBugTests() []test {
	return []test{
		{"SecondProcessDoublesTick", []string{"C17.89", "C17.91"}, Options{}, secondProcessDoublesTick},
		{"LeaderElectionLosesTick", []string{"C17.109", "C17.89"}, Options{}, leaderElectionLosesTick},
		{"DeployResetsWeeklyRun", []string{"C17.119"}, Options{}, deployResetsWeeklyRun},
		{"CatchUpFloods", []string{"C17.97", "C17.103"}, Options{}, catchUpFloods},
		{"DeletedRunBreaksChain", []string{"C17.106"}, Options{}, deletedRunBreaksChain},
		{"ConcurrentUpserts", []string{"C17.117", "C17.125", "C17.91"}, Options{}, concurrentUpserts},
		{"SpringForwardSkipsRun", []string{"C17.44", "C17.46", "C17.45"}, Options{}, springForwardSkipsRun},
		{"HundredMissedTicksStopSchedule", []string{"C17.97", "C17.105"}, Options{}, hundredMissedTicks},
		{"CoveredRangeUnknown", []string{"C17.61", "C17.60"}, Options{}, coveredRangeUnknown},
	}
}

// asynq#1013, asynq#554, sidekiq#3773, oban#1488: two processes push the run of one tick. In this
// test, processes step, reserve and fire at the same moment.
func secondProcessDoublesTick(s *scene) {
	const processes, ticks = 6, 4
	sch := daily("a")
	sch.Overlap = duly.OverlapAllow
	tick := s.midnight(time.Minute)
	s.put(sch)
	s.Advance(time.Minute)

	for i := range ticks {
		if i > 0 {
			s.Advance(24 * time.Hour)
		}
		var all sync.WaitGroup
		for range processes {
			all.Go(func() {
				for more := true; more; {
					var err error
					if more, err = s.Maintainer.Step(s.ctx, s.ref()); err != nil {
						s.Errorf("step returns %v, want no error", err)
					}
				}
			})
			all.Go(func() {
				if err := s.Maintainer.Sweep(s.ctx); err != nil {
					s.Errorf("sweep returns %v, want no error", err)
				}
			})
		}
		all.Wait()
		s.Quiet()
		same(s, fmt.Sprintf("the runs after tick %d", i), len(s.runs()), i+1)
	}
	s.ticked("a", ticks, 0, 0)
	s.nextIs("a", tick.Add(ticks*24*time.Hour))
}

// sidekiq#6804, good_job#1484, dkron#1210: a tick is lost while no leader is elected. In this test,
// the process that has read the due schedule never fires it.
func leaderElectionLosesTick(s *scene) {
	tick := s.midnight(time.Minute)
	s.put(daily("a"))
	s.Advance(time.Minute)
	same(s, "the due schedules that the first process reads", len(s.due(s.scheduleShard("a")).Schedules), 1)
	item := s.item("a")

	// The first process dies. Another process finds the tick, and the Fire of the first one comes
	// too late.
	s.step()
	s.ranAt("another process fires the tick", tick)
	s.fires("the first process was only slow", item, contract.FireStale)
	s.ranAt("the tick has fired once", tick)
}

// river#791: each deployment begins the period again, so a weekly run never comes.
func deployResetsWeeklyRun(s *scene) {
	weekly := duly.Schedule{Name: "a", Spec: "0 0 * * 0", Overlap: duly.OverlapAllow}
	period := every("b", 7*24*time.Hour)
	period.Overlap = duly.OverlapAllow
	first := s.put(weekly).Next
	second := s.put(period).Next
	for range 15 {
		s.Advance(24 * time.Hour)
		s.putIs(weekly, duly.ScheduleUnchanged)
		s.putIs(period, duly.ScheduleUnchanged)
		s.step()
	}

	var got []string
	for _, run := range s.runs() {
		got = append(got, run.Headers[duly.HeaderSchedule]+run.Headers[duly.HeaderTick])
	}
	const week = 7 * 24 * time.Hour
	want := []string{"a" + tickText(first), "a" + tickText(first.Add(week)), "b" + tickText(second),
		"b" + tickText(second.Add(week))}
	for _, tick := range want {
		if !slices.Contains(got, tick) {
			s.Errorf("there is no run of %s in %q", tick, got)
		}
	}
}

// river#1035: after an absence, all missed ticks run immediately.
func catchUpFloods(s *scene) {
	s.put(every("a", 5*time.Second))
	s.Advance(14 * 24 * time.Hour)
	s.step()
	latest := s.now().Truncate(5 * time.Second)
	s.ranAt("two weeks of ticks make one run", latest)
	s.ticked("a", 1, 0, contract.MaxMissed)
	s.nextIs("a", latest.Add(5*time.Second))
}

// bullmq#3063, bullmq#3262, bullmq#3381: the next run is made by the one before, so a run
// that is deleted, dead or expired ends the schedule.
func deletedRunBreaksChain(s *scene) {
	tick := s.midnight(time.Minute)
	sch := daily("a")
	sch.Template.TTL = 12 * time.Hour
	s.put(sch)
	s.Advance(time.Minute)

	// Whatever the end of a run is, the next tick must not change.
	for i, end := range []func(id string){
		func(id string) { s.must("delete", s.Engine.Delete(s.ctx, s.ref(), id)) },
		func(string) { s.bury(s.take(), "no") },
		func(string) {
			_, err := s.Engine.Purge(s.ctx, s.ref(), duly.StateReady, 0)
			s.must("purge", err)
		},
		func(id string) {
			s.Advance(13 * time.Hour)
			s.step()
			s.gone(id)
		},
		func(string) { s.ack(s.take()) },
	} {
		at := tick.Add(time.Duration(i) * 24 * time.Hour)
		s.Advance(at.Sub(s.now()))
		s.step()
		run := s.ranAt(fmt.Sprintf("tick %d", i), at)[0]
		end(run.ID)
		s.nextIs("a", at.Add(24*time.Hour))
	}
	s.ticked("a", 5, 0, 0)
}

// bullmq#2876, bullmq#2988, bullmq#3430, bullmq#3378: concurrent upserts leave two next runs,
// or none.
func concurrentUpserts(s *scene) {
	const callers = 10
	tick := s.midnight(time.Minute)
	specs := []string{"0 0 * * *", "@daily"}
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for k := range 5 {
				if err := s.putErr(duly.Schedule{Name: "a", Spec: specs[(i+k)%len(specs)]}); err != nil {
					s.Errorf("put returns %v, want no error", err)
				}
			}
		})
	}
	all.Wait()
	s.listed("after concurrent puts", "a")
	s.nextIs("a", tick)

	// Puts that continue while the tick fires.
	s.Advance(time.Minute)
	for i := range callers {
		all.Go(func() {
			if err := s.putErr(duly.Schedule{Name: "a", Spec: "0 0 * * *", Template: duly.Job{Priority: i % 2}}); err != nil {
				s.Errorf("put returns %v, want no error", err)
			}
		})
		all.Go(func() {
			if _, err := s.Maintainer.Step(s.ctx, s.ref()); err != nil {
				s.Errorf("step returns %v, want no error", err)
			}
		})
	}
	all.Wait()
	s.step()
	if n := len(s.runs()); n > 1 {
		s.Errorf("one tick has %d runs, want 1", n)
	}
	s.listed("after the tick", "a")
	s.nextIs("a", tick.Add(24*time.Hour))
}

// robfig/cron#541: the run of a local time that does not exist is skipped.
func springForwardSkipsRun(s *scene) {
	zone := mustZone(s, "America/New_York")
	_, change := s.now().In(zone).ZoneBounds()
	if _, offset := change.Zone(); offset != -4*3600 {
		s.Fatalf("the clock jumps back at %s, and not forward", change)
	}
	s.Advance(change.Add(-24 * time.Hour).Sub(s.now()))
	for i, spec := range []string{"30 2 * * *", "0,30 2 * * *", "*/15 2 * * *"} {
		s.put(duly.Schedule{Name: fmt.Sprintf("s%d", i), Spec: spec, Zone: "America/New_York", Overlap: duly.OverlapAllow,
			Start: change.Add(-time.Hour)})
	}
	s.Advance(24 * time.Hour)
	s.step()
	s.ranAt("a local time in the gap runs once, at its end", change, change, change)

	// When the clock jumps back, a local time that occurs twice runs once.
	_, back := change.ZoneBounds()
	b := s.on("back")
	b.put(duly.Schedule{Name: "a", Spec: "30 1 * * *", Zone: "America/New_York", Start: back.Add(-time.Hour),
		Catchup: duly.CatchupAll, Overlap: duly.OverlapAllow})
	b.nextIs("a", back.Add(-30*time.Minute))
	b.Advance(back.Add(2 * time.Hour).Sub(s.now()))
	b.step()
	b.ranAt("a local time that occurs twice runs once", back.Add(-30*time.Minute))
}

// kubernetes/website#9296, kubernetes/website#11512: a schedule stops for good after a
// hundred missed ticks.
func hundredMissedTicks(s *scene) {
	for i, missed := range []int{0, 1, 99, 100, 101, 1000, 1001, 1_000_000} {
		q := s.on(fmt.Sprintf("q%d", i))
		tick := q.put(every("a", time.Second)).Next
		q.Advance(tick.Add(time.Duration(missed) * time.Second).Sub(q.now()))
		q.step()
		latest := tick.Add(time.Duration(missed) * time.Second)
		q.ranAt(fmt.Sprintf("after %d missed ticks", missed), latest)
		q.ticked("a", 1, 0, int64(min(missed, contract.MaxMissed)))
		q.nextIs("a", latest.Add(time.Second))
	}
}

// kubernetes#79995: a run cannot know which time it has to cover.
func coveredRangeUnknown(s *scene) {
	tick := s.midnight(time.Minute)
	sch := daily("a") // with overlap skip, ticks are merged, and none is lost
	s.put(sch)
	s.Advance(time.Minute)
	covered := ""
	cover := func() {
		s.Helper()
		d := s.take()
		same(s, "the end of the last covered range", d.Headers[duly.HeaderPrevious], covered)
		covered = d.Headers[duly.HeaderTick]
		s.ack(d)
	}

	s.step()
	s.Advance(24 * time.Hour) // this tick is merged into the waiting run
	s.step()
	cover()
	s.Advance(24 * time.Hour)
	s.step()
	cover()
	s.must("pause", s.scheduler().PauseSchedule(s.ctx, s.ref(), "a"))
	s.Advance(48 * time.Hour)
	s.must("resume", s.scheduler().ResumeSchedule(s.ctx, s.ref(), "a"))
	s.Advance(24 * time.Hour)
	s.step()
	cover()
	sch.Spec = "0 6 * * *"
	s.put(sch)
	s.Advance(10 * 24 * time.Hour)
	s.step()
	cover()
	same(s, "the end of the last range", covered, tickText(s.schedule("a").Last))
	if s.schedule("a").Last.Before(tick.Add(14 * 24 * time.Hour)) {
		s.Errorf("the last tick is %s, want at least 14 days after the first", s.schedule("a").Last)
	}
}
