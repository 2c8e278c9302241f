package enginetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/schedule"
)

// schedulesOf returns the schedules of one side.
func schedulesOf(s side, ref duly.QueueRef) duly.Scheduler {
	return s.in(ref.Namespace).(duly.Scheduler)
}

// firerOf returns the engine of one side that fires ticks.
func (s side) firer(ref duly.QueueRef) contract.Firer {
	return firerOf(s.in(ref.Namespace), s.maintainer)
}

// counting returns a function that counts a situation on the model's turn. both calls the
// engine first.
func (p *pair) counting() func(name string) {
	turn := map[string]int{}
	return func(name string) {
		if turn[name]++; turn[name]%2 == 0 {
			p.ticks.seen[name]++
		}
	}
}

// outcome returns the name of a result for the count of situations.
func outcome(status any, err error) string {
	if err != nil {
		return string(duly.CodeOf(err))
	}
	return fmt.Sprint(status)
}

// putScheduleOp puts a schedule.
type putScheduleOp struct {
	At       queueSpec
	Schedule scheduleSpec
}

func (o putScheduleOp) play(p *pair) {
	s, count := o.Schedule.schedule(p), p.counting()
	p.both("put of schedule "+s.Name, func(side side) (string, error) {
		put, err := schedulesOf(side, o.At.ref()).PutSchedule(p.ctx, o.At.ref(), s)
		count("put " + outcome(put.Status, err))
		return putText(put), err
	})
	p.getSchedule(o.At, s.Name)
}

// repeatPutOp puts a stored schedule again, as a deployment does.
type repeatPutOp struct {
	At   queueSpec
	Name int
}

func (o repeatPutOp) play(p *pair) {
	ref, name, count := o.At.ref(), scriptSchedules[o.Name], p.counting()
	p.both("repeated put of schedule "+name, func(s side) (string, error) {
		info, err := schedulesOf(s, ref).GetSchedule(p.ctx, ref, name)
		if err != nil {
			return "", err
		}
		put, err := schedulesOf(s, ref).PutSchedule(p.ctx, ref, info.Schedule)
		count("put " + outcome(put.Status, err))
		return putText(put), err
	})
	p.getSchedule(o.At, name)
}

func putText(put duly.SchedulePut) string {
	return fmt.Sprintf("%s version %d next %s", put.Status, put.Version, moment(put.Next))
}

// getSchedule compares one schedule.
func (p *pair) getSchedule(at queueSpec, name string) {
	p.both(fmt.Sprintf("schedule %s of %s", name, at), func(s side) (string, error) {
		info, err := schedulesOf(s, at.ref()).GetSchedule(p.ctx, at.ref(), name)
		return scheduleText(info), err
	})
}

// scheduleText returns everything of a schedule.
func scheduleText(i duly.ScheduleInfo) string {
	return fmt.Sprintf("%s %q in %s from %s to %s jitter %s window %s catchup %s overlap %s owner %q version %d "+
		"paused %t next %s last %s fired %d skipped %d missed %d: %s",
		i.Name, i.Spec, i.Zone, moment(i.Start), moment(i.End), i.Jitter, i.Window, i.Catchup, i.Overlap, i.Owner, i.Version,
		i.Paused, moment(i.Next), moment(i.Last), i.Fired, i.Skipped, i.Missed, jobText(i.Template))
}

// scheduleAction is an operation on a schedule by its name.
type scheduleAction string

const (
	pauseSchedule     scheduleAction = "pause"
	resumeSchedule    scheduleAction = "resume"
	deleteSchedule    scheduleAction = "delete"
	deleteThisVersion scheduleAction = "delete this version of"
	deleteOldVersion  scheduleAction = "delete an old version of"
)

// onScheduleOp pauses, resumes or deletes a schedule.
type onScheduleOp struct {
	At   queueSpec
	Name int
	Do   scheduleAction
}

func (o onScheduleOp) play(p *pair) {
	name, count := scriptSchedules[o.Name], p.counting()
	p.both(string(o.Do)+" schedule "+name, func(s side) (string, error) {
		e, ref := schedulesOf(s, o.At.ref()), o.At.ref()
		switch o.Do {
		case pauseSchedule:
			return "", e.PauseSchedule(p.ctx, ref, name)
		case resumeSchedule:
			return "", e.ResumeSchedule(p.ctx, ref, name)
		}

		version := int64(0)
		if info, err := e.GetSchedule(p.ctx, ref, name); err == nil && o.Do != deleteSchedule {
			version = info.Version
		}
		if o.Do == deleteOldVersion {
			// 0 would mean any version, so an old version is at least 1.
			version = max(1, version-1)
		}
		err := e.DeleteSchedule(p.ctx, ref, name, version)
		count("delete " + outcome("deleted", err))
		return "", err
	})
	p.getSchedule(o.At, name)
}

// triggerOp pushes a run of a schedule as [duly.Client.Trigger] does, with one ID on both sides.
type triggerOp struct {
	At   queueSpec
	Name int
}

func (o triggerOp) play(p *pair) {
	ref, count := o.At.ref(), p.counting()
	var id string
	p.both("trigger of "+scriptSchedules[o.Name], func(s side) (string, error) {
		info, err := schedulesOf(s, ref).GetSchedule(p.ctx, ref, scriptSchedules[o.Name])
		if err != nil {
			return "", err
		}

		run := info.Run()
		if id == "" {
			id = p.make(0, &run)
		}
		run.Namespace, run.Queue, run.ID, run.Made = ref.Namespace, ref.Name, id, true
		run.Headers[duly.HeaderTrigger] = "manual"

		results, err := s.in(ref.Namespace).Push(p.ctx, []duly.Job{run})
		if err == nil {
			count("trigger " + outcome(results[0].Status, results[0].Err))
		}
		return pushesText(results), err
	})
}

// fireSpec selects a schedule for Fire and a change that spoils its item.
type fireSpec struct {
	Name  int
	Forge fireForgery
	NoJob bool
}

// fireForgery is a change of an item of Fire.
type fireForgery string

const (
	fireRight     fireForgery = "right"
	fireVersion   fireForgery = "other version"
	fireExpected  fireForgery = "other expected"
	fireAhead     fireForgery = "a tick ahead"
	fireBackwards fireForgery = "following before tick"
	fireRepeated  fireForgery = "twice"
	fireUnknown   fireForgery = "unknown name"
	fireSameRun   fireForgery = "the run of an earlier tick"
)

var fireForgeries = []fireForgery{
	fireRight, fireRight, fireRight, fireRight, fireVersion, fireExpected, fireAhead, fireBackwards, fireRepeated,
	fireUnknown, fireSameRun,
}

// apply changes the items of one schedule.
func (f fireForgery) apply(items []contract.FireItem) []contract.FireItem {
	first := &items[0]

	switch f {
	case fireVersion:
		first.Version--
	case fireExpected:
		first.Expected--
	case fireAhead:
		last := &items[len(items)-1]
		last.Tick += time.Hour.Milliseconds()
		last.Following = last.Tick + 1
	case fireBackwards:
		first.Following = first.Tick
	case fireRepeated:
		return append(items, items[0])
	case fireUnknown:
		first.Name = "unknown"
	}
	return items
}

// fireOp fires ticks as another process does, even before they are due.
type fireOp struct {
	At        queueSpec
	Schedules []fireSpec
}

func (o fireOp) play(p *pair) {
	ref, count := o.At.ref(), p.counting()
	p.both("fire", func(s side) (string, error) {
		// Each side makes the items from its own record, so that a difference between the records shows.
		items, err := o.items(p, s)
		if err != nil {
			return "", err
		}

		results, err := s.firer(ref).Fire(p.ctx, ref, items)
		texts := make([]string, len(results))
		for i, r := range results {
			count("fire " + outcome(r.Status, r.Err))
			if items[i].Job != nil && r.Status == contract.FireFired {
				count("run " + outcome(r.Run.Status, r.Run.Err))
			}
			texts[i] = fmt.Sprintf("%s %s run %s", r.Status, errorText(r.Err), pushesText([]duly.PushResult{r.Run}))
		}
		return strings.Join(texts, "; "), err
	})
	for _, spec := range o.Schedules {
		p.getSchedule(o.At, scriptSchedules[spec.Name])
	}
}

// items returns the items for the schedules of one side.
func (o fireOp) items(p *pair, s side) (all []contract.FireItem, err error) {
	ref := o.At.ref()
	config, err := s.in(ref.Namespace).Config(p.ctx, ref)
	if err != nil {
		return nil, err
	}
	for _, spec := range o.Schedules {
		info, err := schedulesOf(s, ref).GetSchedule(p.ctx, ref, scriptSchedules[spec.Name])
		if err != nil || info.Next.IsZero() {
			continue
		}

		r := contract.ScheduleRecord{
			Queue: ref, Schedule: info.Schedule, Version: info.Version, Next: info.Next.UnixMilli(),
		}
		timing, err := schedule.Timing(&r.Schedule)
		if err != nil {
			return nil, err
		}

		// A tick that is not due makes an item that is too early.
		now := max(p.h.Clock.Now().UnixMilli(), r.Next)
		items := spec.Forge.apply(schedule.Fold(&r, timing, now, config.Defaults.TTL))
		if spec.Forge == fireSameRun && items[0].Job != nil {
			// The engine has pushed a run with this ID before, so this push returns exists.
			items[0].Job.ID = schedule.Run(&r, p.ticks.start.UnixMilli()).ID
		}
		if spec.NoJob {
			items[len(items)-1].Job = nil
		}
		all = append(all, items...)
	}
	return all, nil
}

// tickOp moves the clock to a place relative to the next tick of a queue, or by a duration.
type tickOp struct {
	At     queueSpec
	By     time.Duration
	ToTick bool
}

func (o tickOp) play(p *pair) {
	by := o.By
	if o.ToTick {
		// The model decides about the next tick, so that the script does not depend on the engine.
		st, err := p.sides[1].in(o.At.ref().Namespace).Stats(p.ctx, o.At.ref())
		if err != nil || st.NextTick.IsZero() {
			return
		}
		by += st.NextTick.Sub(p.h.Clock.Now())
	}
	// A tick that is already due does not move the clock.
	p.h.Advance(max(by, 0))
}

// scheduleReserveOp steps the queues, waits and reserves. The step fires due ticks first, because
// engines differ in whether they fire them before or after they reserve.
type scheduleReserveOp struct{ reserveOp }

func (o scheduleReserveOp) play(p *pair) {
	p.stepAll(o.params())
	waitOp{o.reserveOp}.play(p)
	p.h.Quiet() // an engine may fire ticks after a Reserve has returned
}

// dueTick reports whether the model has a due tick.
func (p *pair) dueTick(ref duly.QueueRef) bool {
	st, err := p.sides[1].in(ref.Namespace).Stats(p.ctx, ref)
	return err == nil && !st.NextTick.IsZero() && !st.NextTick.After(p.clock.Now())
}

// noteHeld notes that a tick is still due after a step, because its queue is full.
func (p *pair) noteHeld(ref duly.QueueRef) {
	if p.ticks.seen == nil || p.err != nil || !p.dueTick(ref) {
		return
	}
	p.ticks.held = true
	p.ticks.seen["pass full"]++
}

// endPause moves the clock to the end of the pause of held ticks. After that, every engine may fire
// the ticks.
func (p *pair) endPause() {
	if p.ticks.held {
		p.ticks.held = false
		p.tick()
		p.h.Advance(contract.FullPause)
		// A pause ends by the monotonic clock, which a step of the wall clock does not change.
		p.clock.Advance(contract.FullPause)
	}
}

// deleteRunOp deletes or promotes one of the waiting jobs of a queue, which may be a run.
type deleteRunOp struct {
	At      queueSpec
	Which   int
	Promote bool
}

func (o deleteRunOp) play(p *pair) {
	ref := o.At.ref()
	p.step(o.At)
	var ids []string
	for _, state := range []duly.State{duly.StateReady, duly.StateDelayed, duly.StateBlocked} {
		page, err := p.sides[1].in(ref.Namespace).List(p.ctx, ref, duly.ListParams{State: state})
		if err != nil {
			p.err = fmt.Errorf("list of the model: %w", err)
			return
		}
		for _, j := range page.Jobs {
			ids = append(ids, j.ID)
		}
	}

	if len(ids) <= o.Which {
		return
	}

	slices.Sort(ids)
	id := ids[o.Which]
	p.both("operation on job "+id, func(s side) (string, error) {
		if o.Promote {
			return "", s.in(ref.Namespace).Promote(p.ctx, ref, id)
		}
		return "", s.in(ref.Namespace).Delete(p.ctx, ref, id)
	})
	p.get(o.At, id)
}

// lookSchedulesOp compares everything that the API shows of the schedules and the queues. It
// compares the schedules twice: before the steps of the queues, and after them.
type lookSchedulesOp struct{}

func (lookSchedulesOp) play(p *pair) {
	for i := range scriptQueues {
		p.lookSchedules(queueSpec(i))
	}
	lookOp{}.play(p)
	for i := range scriptQueues {
		p.lookSchedules(queueSpec(i))
	}
}

func (p *pair) lookSchedules(at queueSpec) {
	ref, count := at.ref(), p.counting()
	p.both(fmt.Sprintf("schedules of %s", at), func(s side) (string, error) {
		var texts []string
		params := duly.PageParams{Limit: 2}
		// The limit ends a list whose cursors never end.
		for range 1000 {
			page, err := schedulesOf(s, ref).Schedules(p.ctx, ref, params)
			if err != nil {
				return "", err
			}
			for _, i := range page.Schedules {
				texts = append(texts, "\n  "+scheduleText(i))
				countTicks(count, i)
			}
			if params.Cursor = page.Next; page.Next == "" {
				return strings.Join(texts, ""), nil
			}
		}
		return "a list without an end, want at most 1000 pages", nil
	})

	p.both(fmt.Sprintf("held schedules of %s", at), func(s side) (string, error) {
		page, err := moverOf(s.in(ref.Namespace), s.maintainer).HeldSchedules(p.ctx, ref, duly.PageParams{})
		slices.Sort(page.Names)
		return strings.Join(page.Names, " "), err
	})

	p.both(fmt.Sprintf("due schedules of %s", at), func(s side) (string, error) {
		text := ""
		for shard := range max(1, p.h.Shards) {
			due, err := s.firer(ref).DueSchedules(p.ctx, ref, shard, "")
			if err != nil {
				return "", err
			}
			text += fmt.Sprintf("\n  at %d ttl %s:", due.Now, due.TTL)
			for _, r := range due.Schedules {
				text += "\n    " + scheduleText(r.Info())
			}
		}
		return text, nil
	})
}

// countTicks counts the situations that the counters of a schedule show.
func countTicks(count func(name string), i duly.ScheduleInfo) {
	for name, n := range map[string]int64{
		"ticks fired": i.Fired, "ticks skipped": i.Skipped, "ticks missed": i.Missed,
	} {
		if n > 0 {
			count(name)
		}
	}
}

// plainer returns all variants of the schedule that have one field less.
func (spec scheduleSpec) plainer() (forms []scheduleSpec) {
	less := func(set bool, clear func(*scheduleSpec)) {
		if set {
			next := spec
			clear(&next)
			forms = append(forms, next)
		}
	}

	less(spec.Start != 0 || spec.End != 0, func(s *scheduleSpec) { s.Start, s.End = 0, 0 })
	less(spec.Jitter != 0, func(s *scheduleSpec) { s.Jitter = 0 })
	less(spec.Window != 0 && spec.Catchup != duly.CatchupAll, func(s *scheduleSpec) { s.Window = 0 })
	less(spec.Catchup != "", func(s *scheduleSpec) { s.Catchup = "" })
	less(spec.Overlap != "", func(s *scheduleSpec) { s.Overlap, s.Merge = "", "" })
	less(spec.Owner != "", func(s *scheduleSpec) { s.Owner = "" })
	less(spec.Body != "" || spec.Header != "", func(s *scheduleSpec) { s.Body, s.Header = "", "" })
	less(spec.Priority != 0 || spec.Tries != 0, func(s *scheduleSpec) { s.Priority, s.Tries = 0, 0 })
	less(spec.TTL != 0, func(s *scheduleSpec) { s.TTL = 0 })
	less(spec.Order != "", func(s *scheduleSpec) { s.Order = "" })
	less(spec.Callback != "", func(s *scheduleSpec) { s.Callback = "" })
	return forms
}
