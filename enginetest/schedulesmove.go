package enginetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

func scheduleMoveTests() []test {
	return []test{
		{"HeldScheduleFiresNothing", []string{"C17.146", "C17.81"}, Options{}, moveHold},
		{"CallersCannotChangeAHeldSchedule", []string{"C17.147"}, Options{}, moveRefused},
		{"DestroyRemovesAHeldSchedule", []string{"C17.147", "C17.142"}, Options{}, moveDestroyed},
		{"HoldReleaseAndDropMayBeRepeated", []string{"C17.150"}, Options{}, moveRepeated},
		{"ImportKeepsTicksAndCounters", []string{"C17.148", "C17.144"}, Options{}, moveImport},
		{"ImportKeepsWhatIsFurtherOn", []string{"C17.149"}, Options{}, moveImportTwice},
		{"BadImportIsRefused", []string{"C17.148"}, Options{}, moveBadImport},
		{"HeldSchedulesArePaged", []string{"C17.150"}, Options{}, moveHeldPages},
	}
}

// moverOf returns the engine whose schedules can move, nil for none. For a remote engine it is the
// server's.
func moverOf(e contract.Engine, m contract.Maintainer) contract.ScheduleMover {
	if f, ok := e.(contract.ScheduleMover); ok {
		return f
	}
	f, _ := m.(contract.ScheduleMover)
	return f
}

func (s *scene) mover() contract.ScheduleMover {
	s.Helper()
	e := moverOf(s.Engine, s.Maintainer)
	if e == nil {
		s.Skip("only the engine's own processes move its schedules")
	}
	return e
}

func (s *scene) hold(name string) contract.ScheduleRecord {
	s.Helper()
	r, err := s.mover().HoldSchedule(s.ctx, s.ref(), name)
	s.must("hold of schedule "+name, err)
	if !r.Held {
		s.Errorf("the record of a held schedule is %+v", r)
	}
	return r
}

func (s *scene) unhold(name string) {
	s.Helper()
	s.must("release of schedule "+name, s.mover().ReleaseSchedule(s.ctx, s.ref(), name))
}

func (s *scene) imports(r contract.ScheduleRecord) contract.ScheduleRecord {
	s.Helper()
	stored, err := s.mover().ImportSchedule(s.ctx, r)
	s.must("import of schedule "+r.Name, err)
	return stored
}

// heldAre compares the names of the held schedules, which it lists in pages of that many.
func (s *scene) heldAre(limit int, want ...string) {
	s.Helper()
	var names []string
	p := duly.PageParams{Limit: limit}
	for range 1000 {
		page, err := s.mover().HeldSchedules(s.ctx, s.ref(), p)
		s.must("list of held schedules", err)
		if len(page.Names) > limit {
			s.Fatalf("a page of %d names has %d", limit, len(page.Names))
		}
		names = append(names, page.Names...)
		if p.Cursor = page.Next; p.Cursor == "" {
			break
		}
	}
	// They are listed in the order of the shards.
	slices.Sort(names)
	s.sameIDs("the held schedules", names, want)
}

func moveHold(s *scene) {
	tick := s.midnight(time.Minute)
	s.put(daily("a"))
	before := s.schedule("a")
	item := s.item("a")
	s.hold("a")
	same(s, "the schedule after a hold", fmt.Sprintf("%+v", s.schedule("a")), fmt.Sprintf("%+v", before))
	same(s, "the next tick of the queue is none", s.stats().NextTick.IsZero(), true)
	same(s, "the number of schedules", s.stats().Schedules, 1)

	// Two ticks pass. Neither a step nor another process fires one.
	s.Advance(25 * time.Hour)
	s.step()
	s.nothing("the schedule is held")
	s.ranAt("the schedule is held")
	same(s, "due schedules", len(s.due(s.scheduleShard("a")).Schedules), 0)
	s.unchanged("an item for a held schedule", func() { s.fires("a held schedule", item, contract.FireStale) })

	s.unhold("a")
	same(s, "the version after a release", s.schedule("a").Version, before.Version)
	s.step()
	s.ranAt("the hold has ended, and the latest tick fires", tick.Add(24*time.Hour))
	s.ticked("a", 1, 0, 1)
	s.nextIs("a", tick.Add(48*time.Hour))
}

func moveRefused(s *scene) {
	s.midnight(time.Hour)
	s.put(daily("a"))
	paused := daily("paused")
	s.put(paused)
	s.must("pause", s.scheduler().PauseSchedule(s.ctx, s.ref(), "paused"))
	s.hold("a")
	s.hold("paused")

	changed := daily("a")
	changed.Template.Priority = 1
	s.unchanged("a held schedule", func() {
		s.refused("a put", s.putErr(changed), duly.CodeUnavailable)
		s.putIs(daily("a"), duly.ScheduleUnchanged)
		for _, name := range []string{"a", "paused"} {
			s.refused("pause", s.scheduler().PauseSchedule(s.ctx, s.ref(), name), duly.CodeUnavailable)
			s.refused("resume", s.scheduler().ResumeSchedule(s.ctx, s.ref(), name), duly.CodeUnavailable)
			s.refused("delete", s.scheduler().DeleteSchedule(s.ctx, s.ref(), name, 0), duly.CodeUnavailable)
		}
	})
	s.listed("two are held", "a", "paused")

	// The hold is a mark of its own, so the pause outlives it.
	s.unhold("a")
	s.unhold("paused")
	same(s, "paused", s.schedule("paused").Paused, true)
	s.putIs(changed, duly.ScheduleChanged)
	s.must("delete", s.scheduler().DeleteSchedule(s.ctx, s.ref(), "paused", 0))
}

func moveDestroyed(s *scene) {
	s.put(daily("a"))
	s.hold("a")
	s.must("destroy", s.Engine.Destroy(s.ctx, s.ref()))
	s.noSchedule("a")
	s.putIs(daily("a"), duly.ScheduleCreated)
	s.heldAre(10)
}

func moveRepeated(s *scene) {
	m := s.mover()
	s.put(daily("a"))
	for _, queue := range []string{"unknown", s.queue} {
		ref := s.on(queue).ref()
		_, err := m.HoldSchedule(s.ctx, ref, "b")
		s.refused("hold", err, duly.CodeNotFound)
		s.refused("release", m.ReleaseSchedule(s.ctx, ref, "b"), duly.CodeNotFound)
		s.refused("drop", m.DropSchedule(s.ctx, ref, "b"), duly.CodeNotFound)
	}
	s.on("unknown").heldAre(10)

	s.unchanged("a schedule without a hold", func() {
		s.refused("drop", m.DropSchedule(s.ctx, s.ref(), "a"), duly.CodeConflict)
		s.unhold("a")
	})
	first := s.hold("a")
	s.heldAre(10, "a")
	same(s, "the record of a second hold", fmt.Sprintf("%+v", s.hold("a")), fmt.Sprintf("%+v", first))
	s.unhold("a")
	s.unhold("a")
	s.heldAre(10)
	s.hold("a")
	s.must("drop", m.DropSchedule(s.ctx, s.ref(), "a"))
	s.noSchedule("a")
	s.refused("a second drop", m.DropSchedule(s.ctx, s.ref(), "a"), duly.CodeNotFound)
}

func moveImport(s *scene) {
	tick := s.midnight(time.Minute)
	sch := daily("a")
	sch.Owner, sch.Template.Body, sch.Template.Headers = "app", []byte("body"), map[string]string{"h": "v"}
	s.put(sch)
	s.put(daily("paused"))
	s.must("pause", s.scheduler().PauseSchedule(s.ctx, s.ref(), "paused"))

	// The schedule fires, skips and misses a tick, so that every counter differs from its default.
	for range 2 {
		s.Advance(24 * time.Hour)
		s.step()
	}
	item := s.item("a")
	s.Advance(24 * time.Hour)
	item.Job, item.Missed = nil, 1
	s.fires("a missed tick", item, contract.FireFired)

	// The copies go to another queue of this engine, as they would to another engine. The queue does not exist yet.
	to := s.on("new")
	for _, name := range []string{"a", "paused"} {
		want := s.schedule(name)
		r := s.hold(name)
		r.Queue = to.ref()
		stored := to.imports(r)
		same(s, "held", stored.Held, true)
		same(s, "schedule "+name+" after the import", fmt.Sprintf("%+v", to.schedule(name)), fmt.Sprintf("%+v", want))
		s.must("drop", s.mover().DropSchedule(s.ctx, s.ref(), name))
	}
	to.heldAre(10, "a", "paused")
	s.Advance(24 * time.Hour)
	to.step()
	to.ranAt("the copies are held")

	to.unhold("a")
	to.unhold("paused")
	to.step()
	runs := to.ranAt("the copies have no hold", tick.Add(3*24*time.Hour))
	same(s, "the tick of the run before", runs[0].Headers[duly.HeaderPrevious], tickText(tick))
	to.ticked("a", 2, 1, 1)
}

func moveImportTwice(s *scene) {
	s.midnight(time.Minute)
	s.put(daily("a"))
	older := s.hold("a")
	s.unhold("a")
	s.Advance(2 * time.Minute)
	s.step()
	later := s.hold("a")
	to := s.on("new")
	older.Queue, later.Queue = to.ref(), to.ref()
	text := func(r contract.ScheduleRecord) string { return fmt.Sprintf("%+v", r) }

	same(s, "the first import", text(to.imports(older)), text(older))
	same(s, "the import of a later tick", text(to.imports(later)), text(later))
	same(s, "the import of an older tick", text(to.imports(older)), text(later))
	newer := later
	newer.Version++
	newer.Template.Priority = 3
	same(s, "the import of a newer version", text(to.imports(newer)), text(newer))
	same(s, "the import of an older version", text(to.imports(later)), text(newer))

	// Without a hold, the schedule belongs to its callers.
	to.unhold("a")
	newer.Version++
	stored := to.imports(newer)
	same(s, "held", stored.Held, false)
	same(s, "the version of a schedule without a hold", stored.Version, newer.Version-1)
	to.heldAre(10)
}

func moveBadImport(s *scene) {
	s.put(daily("a"))
	good := s.hold("a")
	good.Queue = s.on("new").ref()
	for field, spoil := range map[string]func(r *contract.ScheduleRecord){
		"version": func(r *contract.ScheduleRecord) { r.Version = 0 },
		"next":    func(r *contract.ScheduleRecord) { r.Next = -1 },
		"last":    func(r *contract.ScheduleRecord) { r.Last = 1 << 48 },
		"missed":  func(r *contract.ScheduleRecord) { r.Missed = -1 },
		"zone":    func(r *contract.ScheduleRecord) { r.Zone = "Nowhere/None" },
	} {
		bad := good
		spoil(&bad)
		_, err := s.mover().ImportSchedule(s.ctx, bad)
		s.names("import with a bad "+field, err, duly.CodeInvalid, field)
	}
	s.sameIDs("the queues", s.queues(), []string{s.queue})
}

func moveHeldPages(s *scene) {
	var want []string
	for i := range 9 {
		name := fmt.Sprint("s", i)
		s.put(daily(name))
		if i%3 != 0 {
			s.hold(name)
			want = append(want, name)
		}
	}
	s.must("pause", s.scheduler().PauseSchedule(s.ctx, s.ref(), "s0"))
	s.heldAre(2, want...)
	s.heldAre(duly.MaxBatch, want...)
}
