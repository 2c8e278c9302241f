package enginetest

import (
	"context"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// ScheduleModel runs random operations on schedules and their queues against the engine and the
// reference model, as [Suite.Model] does for queues. It skips an engine without schedules.
func (s Suite) ScheduleModel(t *testing.T) {
	skipScripts(t)
	if !s.firesTicks(t) {
		t.Skip("the engine has no schedules")
	}

	seen := situations{}
	reachedAll := func() bool { return len(seen.missing()) == 0 }
	asked := s.runScripts(t, scheduleScripts, reachedAll, func(ctx context.Context, h *Harness, sc script) error {
		return playSchedules(ctx, h, sc, seen)
	})

	t.Logf("%v", seen)
	if missing := seen.missing(); asked.rare() && len(missing) > 0 {
		t.Errorf("the scripts did not reach %q", missing)
	}
}

// firesTicks reports whether the engines of the suite have schedules and can fire their ticks.
func (s Suite) firesTicks(t *testing.T) (yes bool) {
	t.Run("FiresTicks", func(t *testing.T) {
		s.onEngine(t, func(ctx context.Context, h *Harness) {
			e, ok := h.Engine.(duly.Scheduler)
			if ok && firerOf(h.Engine, h.Maintainer) != nil {
				_, err := e.Schedules(ctx, scriptQueues[0], duly.PageParams{})
				yes = duly.CodeOf(err) != duly.CodeUnsupported
			}
		})
	})
	return yes
}

// firerOf returns the engine that fires ticks, or nil if there is none. For a remote engine it is
// that of the server.
func firerOf(e contract.Engine, m contract.Maintainer) contract.Firer {
	if f, ok := e.(contract.Firer); ok {
		return f
	}
	f, _ := m.(contract.Firer)
	return f
}

// situations counts how often the scripts reached each situation.
type situations map[string]int

// scheduleSituations are the situations that a long run must reach: results of operations, and
// events that the counters of schedules count.
var scheduleSituations = []string{
	"put created", "put changed", "put unchanged", "put conflict", "put invalid", "put full",
	"fire fired", "fire stale", "fire early", "fire full", "fire not_found", "fire invalid",
	"run created", "run merged", "run exists", "run invalid",
	"hold ok", "release ok", "drop ok", "drop conflict", "copy ok", "put unavailable",
	"delete conflict", "trigger created", "trigger merged", "pass full", "ticks fired", "ticks skipped", "ticks missed",
}

func (v situations) missing() (names []string) {
	for _, name := range scheduleSituations {
		if v[name] == 0 {
			names = append(names, name)
		}
	}
	return names
}

// playSchedules runs a script and returns the first difference. It counts situations in seen.
func playSchedules(ctx context.Context, h *Harness, sc script, seen situations) error {
	p, _ := newPair(ctx, h)
	p.name()
	p.ticks = tickState{start: h.Clock.Now().Truncate(time.Hour), seen: seen}
	return p.playAll(sc, lookSchedulesOp{})
}

// tickState is the state of ticks that a pair keeps.
type tickState struct {
	start time.Time // start of the script, in whole hours
	seen  situations
	held  bool // whether a step has held a due tick, because its queue is full
}

// scriptSchedules are the names of the schedules of a script. The last one never exists.
var scriptSchedules = [...]string{"a", "b", "C-3.x", "none"}

// scheduleSpec describes a schedule. Its times are relative to the start of the script, so that
// a repeated Put means the same.
type scheduleSpec struct {
	Name              int
	Spec, Zone        string
	Start, End        time.Duration // 0 means no limit
	Jitter, Window    time.Duration
	Catchup           duly.Catchup
	Overlap           duly.Overlap
	Owner             string
	Body, Header      string
	Priority, Tries   int
	TTL               time.Duration
	Order, Merge      string
	Callback          string
	TemplateID, Delay bool // fields that a template cannot have
}

func (spec scheduleSpec) schedule(p *pair) duly.Schedule {
	s := duly.Schedule{
		Name: scriptSchedules[spec.Name], Spec: spec.Spec, Zone: spec.Zone, Jitter: spec.Jitter, Window: spec.Window,
		Catchup: spec.Catchup, Overlap: spec.Overlap, Owner: spec.Owner,
		Template: duly.Job{Body: []byte(spec.Body), Priority: spec.Priority, Tries: spec.Tries, TTL: spec.TTL,
			Backoff: "fixed:0s", Callback: spec.Callback, OrderKey: p.key(spec.Order)},
	}

	if spec.Start != 0 {
		s.Start = p.ticks.start.Add(spec.Start)
	}
	if spec.End != 0 {
		s.End = p.ticks.start.Add(spec.End)
	}

	if spec.Header != "" {
		s.Template.Headers = map[string]string{"H": spec.Header}
	}
	if spec.Merge != "" {
		s.Template.Merge = duly.Merge{Key: p.key(spec.Merge)}
	}
	if spec.TemplateID {
		s.Template.ID = "x"
	}
	if spec.Delay {
		s.Template.Delay = time.Second
	}
	return s
}

// scheduleScripts generates scripts. A script has an opening, followed by the given number of
// random operations.
func scheduleScripts(steps int) *rapid.Generator[script] {
	return rapid.Custom(func(t *rapid.T) script {
		opening := of(t, scheduleOpenings)
		return append(slices.Clone(opening), rapid.SliceOfN(rapid.Custom(drawScheduleOperation), steps, steps).Draw(t,
			"operations")...)
	})
}

// scheduleOpenings create situations that random operations seldom reach.
var scheduleOpenings = []script{
	{}, {},
	// Ticks of three schedules at the same moments.
	{
		putScheduleOp{Schedule: scheduleSpec{Spec: "@every 10s"}},
		putScheduleOp{Schedule: scheduleSpec{Name: 1, Spec: "*/5 * * * * *", Overlap: duly.OverlapAll}},
		putScheduleOp{Schedule: scheduleSpec{Name: 2, Spec: "* * * * *", Overlap: duly.OverlapAllow}},
	},
	// A full queue with a due tick.
	{
		configureOp{Patch: duly.QueueConfig{MaxJobs: 2}},
		putScheduleOp{Schedule: scheduleSpec{Spec: "@every 5s", Overlap: duly.OverlapAllow, Catchup: duly.CatchupAll,
			Window: time.Minute}},
		tickOp{By: 20 * time.Second}, stepOp{},
	},
	// The run of a tick that exists already, because another process has created it.
	{
		putScheduleOp{Schedule: scheduleSpec{Spec: "@every 5s", Overlap: duly.OverlapAllow}},
		tickOp{By: 5 * time.Second}, fireOp{Schedules: []fireSpec{{Forge: fireSameRun}}},
		tickOp{By: 5 * time.Second}, fireOp{Schedules: []fireSpec{{Forge: fireSameRun}}},
	},
	// A queue whose settings do not allow the runs of a schedule.
	{
		putScheduleOp{At: 2, Schedule: scheduleSpec{Spec: "@every 5s"}},
		configureOp{At: 2, Patch: duly.QueueConfig{Delivery: duly.DeliverPush,
			Push: duly.PushConfig{URL: duly.NoDestination}}},
		tickOp{By: 5 * time.Second}, fireOp{At: 2, Schedules: []fireSpec{{Forge: fireRight}}},
	},
	// The schedules of two owners.
	{
		putScheduleOp{Schedule: scheduleSpec{Spec: "@every 5s", Owner: "x"}},
		putScheduleOp{Schedule: scheduleSpec{Name: 1, Spec: "@every 5s", Owner: "y"}},
	},
}

// scheduleDrawn lists each operation as often as its weight. The first operations are drawn more
// often.
var scheduleDrawn = func() (all []func(t *rapid.T) operation) {
	add := func(weight int, draw func(t *rapid.T) operation) {
		for range weight {
			all = append(all, draw)
		}
	}
	add(5, drawTick)
	add(5, drawPutSchedule)
	add(6, drawFire)
	add(5, drawTick)
	add(6, func(t *rapid.T) operation { return scheduleReserveOp{drawReserve(t).(reserveOp)} })
	add(5, drawSettle)
	add(4, func(t *rapid.T) operation { return stepOp{drawQueue(t)} })
	add(3, func(*rapid.T) operation { return lookSchedulesOp{} })
	add(3, drawOnSchedule)
	add(2, func(t *rapid.T) operation { return repeatPutOp{drawQueue(t), drawScheduleName(t)} })
	add(3, drawMoveSchedule)
	add(2, func(t *rapid.T) operation { return triggerOp{drawQueue(t), drawScheduleName(t)} })
	add(2, func(t *rapid.T) operation {
		return deleteRunOp{drawQueue(t), rapid.IntRange(0, 2).Draw(t, "n"), rapid.Bool().Draw(t, "promote")}
	})
	add(2, drawPush)
	add(2, drawConfigure)
	add(1, func(t *rapid.T) operation { return setClockOp{of(t, someSteps)} })
	add(1, func(t *rapid.T) operation {
		return purgeOp{drawQueue(t), of(t, duly.States[:]), rapid.IntRange(0, 2).Draw(t, "n")}
	})
	add(1, func(t *rapid.T) operation { return pauseOp{drawQueue(t), rapid.Bool().Draw(t, "resume")} })
	add(1, func(t *rapid.T) operation { return destroyOp{drawQueue(t)} })
	return all
}()

func drawScheduleOperation(t *rapid.T) operation { return of(t, scheduleDrawn)(t) }

// drawScheduleName draws the name of a schedule, mostly the first one.
func drawScheduleName(t *rapid.T) int { return of(t, []int{0, 0, 0, 0, 1, 1, 2, 3}) }

func drawPutSchedule(t *rapid.T) operation {
	s := scheduleSpec{Name: of(t, []int{0, 0, 0, 1, 1, 2}), Spec: of(t, []string{
		"@every 2s", "@every 5s", "@every 5s", "@every 10s", "@every 1m", "*/5 * * * * *", "* * * * *", "7/20 * * * * *"})}

	// Most fields have their default, so that a Put often equals the last one.
	if rarely(t, 3) {
		s.Overlap = of(t, []duly.Overlap{duly.OverlapSkip, duly.OverlapAllow, duly.OverlapAllow, duly.OverlapOne,
			duly.OverlapAll})
	}
	if rarely(t, 3) {
		s.Catchup = of(t, []duly.Catchup{duly.CatchupOne, duly.CatchupNone, duly.CatchupAll})
	}
	if s.Window = of(t, []time.Duration{0, 0, time.Minute, duly.DefaultWindow}); s.Catchup == duly.CatchupAll {
		s.Window = time.Minute // without the window there would be thousands of runs
	}
	if rarely(t, 4) {
		s.Jitter = of(t, []time.Duration{time.Second, 3 * time.Second, time.Hour})
	}
	if rarely(t, 4) {
		s.TTL = of(t, []time.Duration{duly.None, time.Second, 5 * time.Second, 90 * time.Second})
	}
	if rarely(t, 8) {
		s.Start = of(t, []time.Duration{0, 10 * time.Second, time.Minute, 48 * time.Hour})
		s.End = of(t, []time.Duration{0, 0, 5 * time.Minute, 50 * time.Hour})
	}
	if rarely(t, 10) {
		s.Owner = of(t, []string{"x", "y"})
	}
	drawTemplate(t, &s)
	if rarely(t, 16) {
		spoilSchedule(t, &s)
	}
	return putScheduleOp{drawQueue(t), s}
}

// drawTemplate sets some fields of the template.
func drawTemplate(t *rapid.T, s *scheduleSpec) {
	if rarely(t, 4) {
		s.Body, s.Header = of(t, []string{"", "x", "y"}), of(t, []string{"", "v"})
	}
	if rarely(t, 4) {
		s.Priority, s.Tries = of(t, []int{0, 1, -1}), of(t, []int{0, 1, 2})
	}
	if rarely(t, 8) {
		s.Order = of(t, []string{"k", "l"})
	}
	// Other policies set the merge key themselves.
	if s.Overlap == duly.OverlapAllow && rarely(t, 4) {
		s.Merge = "m"
	}
	if rarely(t, 16) {
		s.Callback = of(t, someDestinations)
	}
}

// spoilSchedule makes a schedule invalid. All its other fields are valid, because a remote engine
// checks some fields before the others.
func spoilSchedule(t *rapid.T, s *scheduleSpec) {
	*s = scheduleSpec{Name: s.Name, Spec: s.Spec}
	switch rapid.IntRange(0, 6).Draw(t, "fault") {
	case 0:
		s.Spec = of(t, []string{"", "@reboot", "60 * * * *", "* * * *", "0 0 30 2 *", "@every 1ms"})
	case 1:
		s.Zone = of(t, []string{"Local", "Nowhere/None"})
	case 2:
		s.Window, s.Jitter = time.Second, 25*time.Hour
	case 3:
		s.Body = "far too long"
	case 4:
		s.TemplateID, s.Delay = true, true
	case 5:
		s.Overlap, s.Catchup = "both", "some"
	case 6:
		s.End = -time.Hour // so that no tick follows
	}
}

func drawOnSchedule(t *rapid.T) operation {
	return onScheduleOp{drawQueue(t), drawScheduleName(t),
		of(t, []scheduleAction{pauseSchedule, pauseSchedule, resumeSchedule, resumeSchedule, resumeSchedule, deleteSchedule,
			deleteThisVersion, deleteOldVersion})}
}

// drawMoveSchedule draws a step of a move. Most holds are released soon, because a held schedule does little.
func drawMoveSchedule(t *rapid.T) operation {
	return moveScheduleOp{drawQueue(t), drawQueue(t), drawScheduleName(t),
		of(t, []moveAction{holdSchedule, releaseSchedule, releaseSchedule, releaseSchedule, dropSchedule, copySchedule})}
}

// drawTick draws a step of the clock, mostly to the time of a tick or near it.
func drawTick(t *rapid.T) operation {
	if rarely(t, 3) {
		return tickOp{By: of(t, []time.Duration{time.Second, 3 * time.Second, 20 * time.Second, 2 * time.Minute, time.Hour,
			24*time.Hour + time.Second, 30 * 24 * time.Hour})}
	}
	by := []time.Duration{0, 0, 0, -time.Millisecond, time.Millisecond, 7 * time.Second}
	return tickOp{drawQueue(t), of(t, by), true}
}

func drawFire(t *rapid.T) operation {
	o := fireOp{At: drawQueue(t)}
	for range rapid.IntRange(1, 3).Draw(t, "schedules") {
		o.Schedules = append(o.Schedules, fireSpec{
			drawScheduleName(t), of(t, fireForgeries), rapid.Bool().Draw(t, "job"),
		})
	}
	return o
}
