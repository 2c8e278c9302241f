package enginetest

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// scheduleSubjects returns the tests of schedules. An engine without schedules skips them.
func scheduleSubjects() []subject {
	return []subject{
		{"SchedulePut", schedulePutTests()},
		{"ScheduleInput", scheduleInputTests()},
		{"ScheduleOperate", scheduleOperateTests()},
		{"ScheduleRead", scheduleReadTests()},
		{"ScheduleRun", scheduleRunTests()},
		{"ScheduleOverlap", scheduleOverlapTests()},
		{"ScheduleFire", scheduleFireTests()},
		{"ScheduleMissed", scheduleMissedTests()},
		{"ScheduleWake", scheduleWakeTests()},
		{"ScheduleShards", scheduleShardTests()},
		{"ScheduleMove", scheduleMoveTests()},
		{"Schedule", scheduleBugTests()},
	}
}

// hasSchedules reports whether the engines of the suite have schedules. A namespace that moves to
// another engine cannot have schedules, and a server may have an engine without them. A suite over
// sharded queues returns false, because the tests set the number of shards themselves.
func (s Suite) hasSchedules(t *testing.T) (yes bool) {
	if s.Shards > 1 {
		return false
	}
	t.Run("HasSchedules", func(t *testing.T) {
		s.run(t, Options{}, func(t *testing.T, h *Harness) {
			schedules, ok := h.Engine.(duly.Scheduler)
			if !ok {
				t.Skip("the engine has no schedules")
			}

			// A call decides, because a server may have an engine without schedules.
			_, err := schedules.Schedules(t.Context(), duly.Q("q"), duly.PageParams{})
			yes = !errors.Is(err, duly.ErrConflict) && !errors.Is(err, duly.ErrUnsupported)
		})
	})
	return yes
}

// scheduler returns the engine as a Scheduler. It fails the test if the engine has no schedules.
func (s *scene) scheduler() duly.Scheduler {
	s.Helper()
	e, ok := s.Engine.(duly.Scheduler)
	if !ok {
		s.Fatalf("the engine has no schedules")
	}
	return e
}

// firer returns the part of the engine that fires ticks. For a remote engine it is that of
// the server's engine.
func (s *scene) firer() contract.Firer {
	s.Helper()
	e := firerOf(s.Engine, s.Maintainer)
	if e == nil {
		s.Skip("only the engine's own processes fire its ticks")
	}
	return e
}

// daily returns a schedule with a tick at each midnight in UTC. The suite's clock may begin at any
// moment.
func daily(name string) duly.Schedule { return duly.Schedule{Name: name, Spec: "0 0 * * *"} }

// every returns a schedule with a fixed period. Its ticks are the multiples of the period since 1970.
func every(name string, period time.Duration) duly.Schedule {
	return duly.Schedule{Name: name, Spec: "@every " + period.String()}
}

// midnight moves the clock to d before a midnight in UTC, and returns that midnight.
func (s *scene) midnight(d time.Duration) time.Time {
	s.Helper()
	next := s.now().Add(d).Truncate(24 * time.Hour).Add(24 * time.Hour)
	s.Advance(next.Add(-d).Sub(s.now()))
	return next
}

// put puts a schedule, which must work.
func (s *scene) put(sch duly.Schedule) duly.SchedulePut {
	s.Helper()
	put, err := s.scheduler().PutSchedule(s.ctx, s.ref(), sch)
	s.must("put of schedule "+sch.Name, err)
	return put
}

// putIs puts a schedule, and compares the result of the Put.
func (s *scene) putIs(sch duly.Schedule, want duly.ScheduleStatus) duly.SchedulePut {
	s.Helper()
	put := s.put(sch)
	same(s, "the put of "+sch.Name, put.Status, want)
	return put
}

// putErr puts a schedule and returns the error.
func (s *scene) putErr(sch duly.Schedule) error {
	_, err := s.scheduler().PutSchedule(s.ctx, s.ref(), sch)
	return err
}

func (s *scene) schedule(name string) duly.ScheduleInfo {
	s.Helper()
	info, err := s.scheduler().GetSchedule(s.ctx, s.ref(), name)
	s.must("get of schedule "+name, err)
	return info
}

// noSchedule wants no schedule of that name.
func (s *scene) noSchedule(name string) {
	s.Helper()
	_, err := s.scheduler().GetSchedule(s.ctx, s.ref(), name)
	s.refused("get of schedule "+name, err, duly.CodeNotFound)
}

// ticked compares the counters of a schedule.
func (s *scene) ticked(name string, fired, skipped, missed int64) {
	s.Helper()
	i := s.schedule(name)
	if i.Fired != fired || i.Skipped != skipped || i.Missed != missed {
		s.Errorf("schedule %s has fired %d, skipped %d and missed %d ticks, want %d, %d and %d",
			name, i.Fired, i.Skipped, i.Missed, fired, skipped, missed)
	}
}

// nextIs compares the next tick of a schedule. The zero time means that there is no tick.
func (s *scene) nextIs(name string, want time.Time) {
	s.Helper()
	sameTime(s, "the next tick of "+name, s.schedule(name).Next, want)
}

// runs lists the jobs of the queue that are not dead or done, by their ticks and schedules.
func (s *scene) runs() (jobs []duly.JobInfo) {
	s.Helper()
	for _, state := range []duly.State{duly.StateDelayed, duly.StateReady, duly.StateBlocked, duly.StateLeased} {
		jobs = append(jobs, s.list(state)...)
	}
	slices.SortFunc(jobs, func(a, b duly.JobInfo) int {
		return cmp.Or(cmp.Compare(a.Headers[duly.HeaderTick], b.Headers[duly.HeaderTick]),
			cmp.Compare(a.Headers[duly.HeaderSchedule], b.Headers[duly.HeaderSchedule]))
	})
	return jobs
}

// ranAt wants the queue to have exactly the runs of these ticks, oldest first.
func (s *scene) ranAt(why string, ticks ...time.Time) []duly.JobInfo {
	s.Helper()
	runs := s.runs()
	got, want := make([]string, len(runs)), make([]string, len(ticks))
	for i, r := range runs {
		got[i] = r.Headers[duly.HeaderTick]
	}
	for i, t := range ticks {
		want[i] = tickText(t)
	}
	if !slices.Equal(got, want) {
		s.Fatalf("%s: there are runs of the ticks %q, want %q", why, got, want)
	}
	return runs
}

func tickText(t time.Time) string { return contract.TickText(t.UnixMilli()) }

// due reads the due schedules of a shard.
func (s *scene) due(shard int) contract.DueSchedules {
	s.Helper()
	due, err := s.firer().DueSchedules(s.ctx, s.ref(), shard, "")
	s.must("due schedules", err)
	return due
}

// fire calls Fire with one item.
func (s *scene) fire(item contract.FireItem) contract.FireResult {
	s.Helper()
	return s.fireAll(item)[0]
}

func (s *scene) fireAll(items ...contract.FireItem) []contract.FireResult {
	s.Helper()
	results, err := s.firer().Fire(s.ctx, s.ref(), items)
	s.must("fire", err)
	if len(results) != len(items) {
		s.Fatalf("fire of %d items has %d results, want one for each", len(items), len(results))
	}
	return results
}

// fires wants an item to have that result.
func (s *scene) fires(why string, item contract.FireItem, want contract.FireStatus) contract.FireResult {
	s.Helper()
	r := s.fire(item)
	if r.Status != want {
		s.Errorf("fire, %s: %s (%v), want %s", why, r.Status, r.Err, want)
	}
	return r
}

// item returns the item that fires the next tick of a daily schedule, with a run of its own.
func (s *scene) item(name string) contract.FireItem {
	s.Helper()
	i := s.schedule(name)
	run := i.Run()
	run.Namespace, run.Queue = s.namespace, s.queue
	run.ID = name + "-" + i.Next.Format("20060102T150405")
	run.Headers[duly.HeaderTick] = tickText(i.Next)
	tick := i.Next.UnixMilli()
	return contract.FireItem{
		Name: name, Version: i.Version, Expected: tick, Tick: tick,
		Following: i.Next.Add(24 * time.Hour).UnixMilli(), Job: &run,
	}
}

// pagedSchedules lists the schedules of the queue in pages of that many.
func (s *scene) pagedSchedules(limit int) (all []duly.ScheduleInfo) {
	s.Helper()
	p := duly.PageParams{Limit: limit}

	// The bound turns a cursor that never ends into a failed test.
	for range 10_000 {
		page, err := s.scheduler().Schedules(s.ctx, s.ref(), p)
		s.must("list of schedules", err)
		if len(page.Schedules) > limit {
			s.Fatalf("a page of %d schedules has %d, want at most that many", limit, len(page.Schedules))
		}
		all = append(all, page.Schedules...)
		if p.Cursor = page.Next; p.Cursor == "" {
			return all
		}
	}
	s.Fatal("the list of schedules does not end")
	return nil
}

// listed wants the list of schedules to have these names.
func (s *scene) listed(why string, names ...string) {
	s.Helper()
	var got []string
	for _, i := range s.pagedSchedules(duly.MaxBatch) {
		got = append(got, i.Name)
	}
	s.sameIDs("the schedules, "+why, got, names)
}

// canceled returns a context that has ended.
func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
