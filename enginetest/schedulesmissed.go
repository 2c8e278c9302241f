package enginetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

func scheduleMissedTests() []test {
	return []test{
		{"MatrixOfAbsences", []string{"C17.96", "C17.97", "C17.98", "C17.99", "C17.100", "C17.102", "C17.103"},
			Options{OneShard: true}, missedMatrix},
		{"WindowIncludesItsBound", []string{"C17.97", "C17.99"}, Options{}, missedWindow},
		{"AllFiresEachTickOnceOverManyCalls", []string{"C17.98", "C17.61"}, Options{OneShard: true}, missedAll},
		{"ExpiredTickDoesNotFire", []string{"C17.101"}, Options{}, missedExpired},
		{"YearOfSecondsCostsAsMuchAsOneTick", []string{"C17.105", "C17.103"}, Options{}, missedYear},
		{"ClockThatStepsBackMakesTicksLate", []string{"C17.115", "C17.114"}, Options{}, missedStepBack},
		{"ForeignNextTickFires", []string{"C17.92", "C17.104"}, Options{}, missedForeign},
	}
}

// absence is one schedule of the matrix, with the time during which nothing fires.
type absence struct {
	queue    string
	schedule duly.Schedule
	period   time.Duration
}

// missedMatrix compares the result of an absence with a calculation from fixed periods.
func missedMatrix(s *scene) {
	periods := []time.Duration{time.Second, 5 * time.Minute, 24 * time.Hour, 7 * 24 * time.Hour}
	specs := []string{"* * * * * *", "*/5 * * * *", "@every 24h", "@every 168h"}
	catchups := []duly.Catchup{duly.CatchupOne, duly.CatchupAll, duly.CatchupNone}
	overlaps := []duly.Overlap{duly.OverlapSkip, duly.OverlapAllow, duly.OverlapOne, duly.OverlapAll}
	lengths := []time.Duration{time.Second, 61 * time.Second, 25 * time.Hour, 8 * 24 * time.Hour, 365 * 24 * time.Hour}
	// A short run looks for data races, and the length of an absence causes none.
	if testing.Short() {
		lengths = lengths[1:2]
	}

	for round, length := range lengths {
		// The first missed tick is a tick of every period.
		first := time.UnixMilli((s.now().UnixMilli()/week + 1) * week).UTC()
		s.Advance(first.Add(-500 * time.Millisecond).Sub(s.now()))

		var all []absence
		for i, period := range periods {
			for _, catchup := range catchups {
				for _, overlap := range overlaps {
					sch := duly.Schedule{Name: "a", Spec: specs[i], Catchup: catchup, Overlap: overlap}
					if period == time.Second {
						// Shortens the window, because a day of ticks every second takes too long
						// for a test.
						sch.Window = 2 * time.Minute
					}
					all = append(all, absence{fmt.Sprintf("q%d-%d-%s-%s", round, i, catchup, overlap), sch, period})
				}
			}
		}
		for _, a := range all {
			sameTime(s, "the next tick in "+a.queue, s.on(a.queue).put(a.schedule).Next, first)
		}
		s.Advance(500*time.Millisecond + length)
		for _, a := range all {
			s.on(a.queue).comesBack(a, first)
			s.must("destroy", s.Engine.Destroy(s.ctx, s.on(a.queue).ref()))
		}
	}
}

const week = int64(7 * 24 * time.Hour / time.Millisecond)

// comesBack steps a queue after an absence that began with the first tick.
func (s *scene) comesBack(a absence, first time.Time) {
	s.Helper()
	now := s.now()
	latest := first.Add(now.Sub(first).Truncate(a.period))
	window := 24 * time.Hour
	if a.schedule.Window != 0 {
		window = a.schedule.Window
	}
	if a.schedule.Catchup == duly.CatchupNone {
		window = time.Minute
	}

	// want has the ticks that fire.
	var want []time.Time
	for tick := latest; !tick.Before(first) && !tick.Before(now.Add(-window)); tick = tick.Add(-a.period) {
		want = append([]time.Time{tick}, want...)
		if a.schedule.Catchup != duly.CatchupAll {
			break
		}
	}
	passed := int64(latest.Sub(first)/a.period) + 1
	missed := min(passed-int64(len(want)), contract.MaxMissed)

	// With skip and one, the first run waits, and the ticks after it are merged into that run.
	fired, skipped, ran := int64(len(want)), int64(0), want
	if o := a.schedule.Overlap; len(want) > 0 && (o == duly.OverlapSkip || o == duly.OverlapOne) {
		fired, skipped, ran = 1, int64(len(want))-1, want[:1]
	}

	s.step()
	s.ranAt(a.queue, ran...)
	s.ticked("a", fired, skipped, missed)
	s.nextIs("a", latest.Add(a.period))
	last := time.Time{}
	if fired > 0 {
		last = ran[len(ran)-1]
	}
	sameTime(s, "the last tick in "+a.queue, s.schedule("a").Last, last)
}

func missedWindow(s *scene) {
	for i, tt := range []struct {
		catchup duly.Catchup
		late    time.Duration
		fires   bool
	}{
		{duly.CatchupOne, time.Hour, true},
		{duly.CatchupOne, time.Hour + time.Millisecond, false},
		{duly.CatchupAll, time.Hour, true},
		{duly.CatchupAll, time.Hour + time.Millisecond, false},
		{duly.CatchupNone, time.Minute, true},
		{duly.CatchupNone, time.Minute + time.Millisecond, false},
	} {
		q := s.on(fmt.Sprintf("q%d", i))
		sch := daily("a")
		sch.Catchup, sch.Window = tt.catchup, time.Hour
		tick := q.midnight(time.Second)
		q.put(sch)
		q.Advance(time.Second + tt.late)
		q.step()

		q.nextIs("a", tick.Add(24*time.Hour))
		if tt.fires {
			q.ranAt("the tick is in the window", tick)
			continue
		}
		q.ranAt("the tick is older than the window")
		q.ticked("a", 0, 0, 1)
	}
}

// missedAll misses more ticks than one call to Fire handles.
func missedAll(s *scene) {
	sch := every("a", time.Second)
	sch.Catchup, sch.Overlap, sch.Window = duly.CatchupAll, duly.OverlapAllow, time.Hour
	first := s.put(sch).Next
	s.Advance(first.Sub(s.now()) + 2*time.Hour)
	s.step()

	// Only the last hour is in the window.
	runs := s.runs()
	same(s, "the runs", len(runs), 3601)
	for i, run := range runs {
		tick := first.Add(time.Hour + time.Duration(i)*time.Second)
		previous := tickText(tick.Add(-time.Second))
		if i == 0 {
			previous = ""
		}
		if run.Headers[duly.HeaderTick] != tickText(tick) || run.Headers[duly.HeaderPrevious] != previous {
			s.Fatalf("run %d has the headers %v, want the tick %s after %q", i, run.Headers, tickText(tick), previous)
		}
	}
	s.ticked("a", 3601, 0, 1000)
	s.nextIs("a", first.Add(2*time.Hour+time.Second))
	s.must("destroy", s.Engine.Destroy(s.ctx, s.ref()))
}

func missedExpired(s *scene) {
	sch := daily("a")
	sch.Catchup, sch.Overlap, sch.Window, sch.Template.TTL = duly.CatchupAll, duly.OverlapAllow, 100*24*time.Hour,
		49*time.Hour
	tick := s.midnight(time.Second)
	s.put(sch)
	s.Advance(time.Second + 9*24*time.Hour)
	s.step()
	day := 24 * time.Hour
	runs := s.ranAt("older runs have expired", tick.Add(7*day), tick.Add(8*day), tick.Add(9*day))
	for i, run := range runs {
		sameTime(s, "the expiry", run.ExpiresAt, tick.Add(time.Duration(i+7)*day+49*time.Hour))
	}
	s.ticked("a", 3, 0, 7)
}

// missedYear passes a year with a tick every second.
func missedYear(s *scene) {
	first := s.put(every("a", time.Second)).Next
	s.put(duly.Schedule{Name: "zone", Spec: "* * 0-23 * * *", Zone: "America/New_York"})
	s.Advance(365 * 24 * time.Hour)
	latest := s.now().Truncate(time.Second)
	s.step()
	s.ranAt("each has one run", latest, latest)
	s.ticked("a", 1, 0, contract.MaxMissed)
	s.nextIs("a", latest.Add(time.Second))
	s.nextIs("zone", latest.Add(time.Second))
	if first.After(latest) {
		s.Errorf("the first tick %s is after the last one %s, want it before", first, latest)
	}
}

func missedStepBack(s *scene) {
	sch := daily("a")
	sch.Overlap = duly.OverlapAllow
	tick := s.midnight(time.Minute)
	s.put(sch)
	s.Advance(2 * time.Minute)
	s.step()
	s.ranAt("the tick is due", tick)

	// The clock steps back by six hours. The tick does not fire again.
	s.Clock.Step(-6 * time.Hour)
	s.step()
	s.nextIs("a", tick.Add(24*time.Hour))
	s.must("pause", s.scheduler().PauseSchedule(s.ctx, s.ref(), "a"))
	s.must("resume", s.scheduler().ResumeSchedule(s.ctx, s.ref(), "a"))
	s.nextIs("a", tick.Add(24*time.Hour))
	s.Advance(6*time.Hour + 23*time.Hour)
	s.step()
	s.ranAt("the clock is before the next tick", tick)
	s.Advance(time.Hour)
	s.step()
	s.ranAt("the next tick is due", tick, tick.Add(24*time.Hour))
}

// missedForeign fires a tick that this process would not have computed.
func missedForeign(s *scene) {
	tick := dueDaily(s, daily("a"))
	foreign := tick.Add(90 * time.Minute)
	item := s.item("a")
	item.Following = foreign.UnixMilli()
	s.fires("a tick with a foreign following one", item, contract.FireFired)
	s.takes(item.Job.ID)
	s.must("delete", s.Engine.Delete(s.ctx, s.ref(), item.Job.ID))

	s.Advance(2 * time.Hour)
	s.step()
	run := s.ranAt("the stored tick fires", foreign)[0]
	same(s, "the previous tick", run.Headers[duly.HeaderPrevious], tickText(tick))
	s.nextIs("a", tick.Add(24*time.Hour))
	s.ticked("a", 2, 0, 0)
}
