package sqliteengine

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/logtest"
)

// scheduled is an engine with schedules in queue q, on a clock that the test moves.
type scheduled struct {
	*testing.T
	e     *Engine
	clock *clock.Fake
	log   logtest.Log
	path  string
}

func newScheduled(t *testing.T, manual bool) *scheduled {
	t.Helper()
	s := &scheduled{T: t, clock: clock.NewFake(), path: filepath.Join(t.TempDir(), "duly.db")}
	s.open(manual)
	t.Cleanup(func() { s.e.Close() })
	return s
}

func (s *scheduled) open(manual bool) {
	s.Helper()
	var err error
	s.e, err = Open(context.Background(), Config{
		Path: s.path, Clock: s.clock, Manual: manual, Logger: s.log.Logger(), Synchronous: SyncNormal,
	})
	s.must(err)
}

func (s *scheduled) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *scheduled) put(name, spec string, change func(*duly.Schedule)) {
	s.Helper()
	sch := duly.Schedule{Name: name, Spec: spec, Overlap: duly.OverlapAllow}
	if change != nil {
		change(&sch)
	}
	_, err := s.e.PutSchedule(s.Context(), duly.Q("q"), sch)
	s.must(err)
}

func (s *scheduled) get(name string) duly.ScheduleInfo {
	s.Helper()
	info, err := s.e.GetSchedule(s.Context(), duly.Q("q"), name)
	s.must(err)
	return info
}

// runs returns "SCHEDULE TICK" of every ready run, the tick in seconds since the epoch of the
// clock, in the order of delivery.
func (s *scheduled) runs() string {
	s.Helper()
	page, err := s.e.List(s.Context(), duly.Q("q"),
		duly.ListParams{State: duly.StateReady, PageParams: duly.PageParams{Limit: 1000}})
	s.must(err)
	var runs []string
	for _, j := range page.Jobs {
		tick, err := time.Parse(time.RFC3339Nano, j.Headers[duly.HeaderTick])
		s.must(err)
		runs = append(runs, fmt.Sprintf("%s %g", j.Headers[duly.HeaderSchedule], tick.Sub(clock.Epoch).Seconds()))
	}
	return strings.Join(runs, ", ")
}

func (s *scheduled) ran(why, want string) {
	s.Helper()
	if got := s.runs(); got != want {
		s.Errorf("%s: the runs are %q, want %q", why, got, want)
	}
}

// exec runs a statement on the writer's connection.
func (s *scheduled) exec(sql string) {
	s.Helper()
	s.must(s.e.change(s.Context(), func(t *tx) error { return t.Exec(sql) }))
}

func (s *scheduled) step() {
	s.Helper()
	for more := true; more; {
		var err error
		more, err = s.e.Step(s.Context(), duly.Q("q"))
		s.must(err)
	}
}

// C17.106, C17.109, C17.114: without Manual, the engine's own timer fires each tick at its own
// time.
func TestTimerFiresTicks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScheduled(t, false)
		s.put("a", "@every 90s", nil)
		s.put("b", "@every 2m", nil)
		s.clock.Advance(90*time.Second - time.Millisecond)
		synctest.Wait()
		s.ran("1 ms before the first tick", "")
		for _, step := range []time.Duration{time.Millisecond, 30 * time.Second, 60 * time.Second} {
			s.clock.Advance(step)
			synctest.Wait()
		}
		s.ran("after three ticks", "a 90, b 120, a 180")
	})
}

// C17.62, C17.107: the ticks of a push queue wake dispatchers, and no worker.
func TestTimerFiresTicksOfAPushQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScheduled(t, false)
		s.put("a", "@every 1h", func(a *duly.Schedule) { a.Template.Callback = "https://example.com/" })
		s.clock.Advance(time.Hour - time.Millisecond)
		woken := map[bool]chan bool{false: make(chan bool, 1), true: make(chan bool, 1)}
		for _, dispatcher := range []bool{false, true} {
			go func() {
				p := duly.WaitParams{Queues: []string{"q"}, Timeout: time.Minute, Dispatcher: dispatcher}
				ready, err := s.e.Wait(t.Context(), p)
				if err != nil {
					t.Error(err)
				}
				woken[dispatcher] <- ready
			}()
		}
		synctest.Wait()
		s.clock.Advance(time.Millisecond)
		synctest.Wait()
		if len(woken[true]) != 1 || !<-woken[true] || len(woken[false]) != 0 {
			t.Error("the tick does not wake the dispatcher alone")
		}
		s.clock.Advance(time.Minute)
		if <-woken[false] {
			t.Error("the tick wakes a worker")
		}
	})
}

// C17.113: a store that opens with overdue ticks fires them at once.
func TestOpenFiresOverdueTicks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScheduled(t, false)
		s.put("a", "@every 1h", nil)
		s.must(s.e.Close())
		s.clock.Advance(5 * time.Hour)
		s.open(false)
		synctest.Wait()
		s.ran("after an absence", "a 18000")
		if i := s.get("a"); i.Missed != 4 || i.Fired != 1 {
			t.Errorf("%+v", i)
		}
	})
}

// C17.93: the ticks of a full queue are tried again every 2 s. That does not delay another schedule
// of the queue.
func TestTicksOfAFullQueueFireAgainAfterAPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScheduled(t, false)
		ctx := t.Context()
		s.must(s.e.Configure(ctx, duly.Q("q"), duly.QueueConfig{MaxJobs: 1}))
		_, err := s.e.Push(ctx, []duly.Job{{Queue: "q", ID: "in-the-way",
			Headers: map[string]string{"duly-tick": "2030-01-01T00:00:00Z", "duly-schedule": "-"}}})
		s.must(err)
		s.put("a", "0 1 0 * * *", nil)
		s.put("b", "1 1 0 * * *", func(b *duly.Schedule) { b.Overlap = duly.OverlapSkip })
		s.clock.Advance(time.Minute)
		synctest.Wait()
		s.ran("the queue is full", "- 0")

		// Room for two: b comes on time, within the pause of a.
		s.must(s.e.Configure(ctx, duly.Q("q"), duly.QueueConfig{MaxJobs: 3}))
		s.clock.Advance(time.Second)
		synctest.Wait()
		s.ran("b is due within the pause", "- 0, b 61")
		s.clock.Advance(time.Second - time.Millisecond)
		synctest.Wait()
		s.ran("the pause of a ends 1 ms later", "- 0, b 61")
		s.clock.Advance(time.Millisecond)
		synctest.Wait()
		s.ran("the pause of a has ended", "- 0, b 61, a 60")
	})
}

// C17.93: the pause after full ends by the monotonic clock. A wall clock that is set back does not
// make it longer.
func TestPauseOfAFullQueueIgnoresTheWallClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScheduled(t, false)
		ctx := t.Context()
		s.must(s.e.Configure(ctx, duly.Q("q"), duly.QueueConfig{MaxJobs: 1}))
		_, err := s.e.Push(ctx, []duly.Job{{Queue: "q", ID: "in-the-way",
			Headers: map[string]string{"duly-tick": "2030-01-01T00:00:00Z", "duly-schedule": "-"}}})
		s.must(err)
		s.put("a", "0 1 0 * * *", nil)
		s.clock.Advance(2 * time.Minute)
		synctest.Wait()
		s.ran("the queue is full", "- 0")

		s.clock.Step(-50 * time.Second) // the tick is still due
		s.must(s.e.Configure(ctx, duly.Q("q"), duly.QueueConfig{MaxJobs: 2}))
		s.clock.Advance(contract.FullPause - time.Millisecond)
		synctest.Wait()
		s.ran("the pause ends 1 ms later", "- 0")
		s.clock.Advance(time.Millisecond)
		synctest.Wait()
		s.ran("the pause has ended", "- 0, a 60")
	})
}

// C17.39: a zone that this process does not know stops one schedule, and is logged once per version
// of the schedule.
func TestUnknownZoneStopsOneSchedule(t *testing.T) {
	t.Parallel()
	s := newScheduled(t, true)
	s.put("a", "@every 1m", nil)
	s.put("b", "@every 1m", nil)
	s.exec(`UPDATE schedules SET record = CAST('{"spec":"@every 1m","zone":"Mars/Phobos","template":{}}' AS BLOB)
 WHERE name = 'a'`)
	for range 3 {
		s.clock.Advance(time.Minute)
		s.step()
	}
	s.ran("only b has a known zone", "b 60, b 120, b 180")
	if n := s.log.Count("cannot be fired by this process"); n != 1 {
		t.Errorf("the log says %d times that a is not fired:\n%s", n, s.log.String())
	}
	if i := s.get("a"); i.Fired != 0 || !i.Next.Equal(clock.Epoch.Add(time.Minute)) {
		t.Errorf("%+v", i)
	}
	if err := s.e.PauseSchedule(t.Context(), duly.Q("q"), "a"); err != nil {
		t.Errorf("a pause: %v", err)
	}
	if err := s.e.ResumeSchedule(t.Context(), duly.Q("q"), "a"); !errors.Is(err, duly.ErrUnsupported) {
		t.Errorf("a resume: %v, want unsupported", err)
	}
}

// C17.92: a next tick that this process would not compute fires, and the log says so once.
func TestForeignTickIsLoggedOnce(t *testing.T) {
	t.Parallel()
	s := newScheduled(t, true)
	s.put("a", "@every 1m", nil)
	for range 2 {
		s.exec("UPDATE schedules SET next = next + 7000")
		s.clock.Advance(s.get("a").Next.Sub(s.clock.Now()))
		s.step()
	}
	s.ran("the stored ticks fire", "a 67, a 127")
	if n := s.log.Count("differs from this process's own result"); n != 1 {
		t.Errorf("the log says %d times that the tick differs:\n%s", n, s.log.String())
	}
}

// C17.145: a record that cannot be read stops no other schedule. The first pass that finds the
// record moves it aside, with its bytes.
func TestUnreadableScheduleIsMovedAside(t *testing.T) {
	t.Parallel()
	s := newScheduled(t, true)
	s.put("a", "@every 1m", nil)
	s.put("b", "@every 1m", nil)
	s.exec(`UPDATE schedules SET record = x'7b01ff' WHERE name = 'a'`)
	ctx := t.Context()
	if _, err := s.e.GetSchedule(ctx, duly.Q("q"), "a"); !errors.Is(err, duly.ErrCorrupt) {
		t.Errorf("get: %v, want corrupt", err)
	}
	if _, err := s.e.PutSchedule(ctx, duly.Q("q"), duly.Schedule{Name: "a", Spec: "@daily"}); !errors.Is(err,
		duly.ErrCorrupt) {
		t.Errorf("put: %v, want corrupt", err)
	}
	if page, err := s.e.Schedules(ctx, duly.Q("q"), duly.PageParams{}); err != nil || len(page.Schedules) != 1 {
		t.Errorf("the list has %+v, %v", page, err)
	}

	s.clock.Advance(time.Minute)
	s.step()
	s.ran("b can be read", "b 60")
	if bytes := ask(t, s.e, "SELECT queue || name || hex(record) FROM unreadable_schedules"); bytes != "1a7B01FF" {
		t.Errorf("the table of unreadable schedules has %q", bytes)
	}
	if s.log.Count("cannot be read and was moved") != 1 {
		t.Errorf("the log is\n%s", s.log.String())
	}
	if st, err := s.e.Stats(ctx, duly.Q("q")); err != nil || st.Schedules != 1 {
		t.Errorf("stats %+v, %v", st, err)
	}
	s.put("a", "@daily", nil)
	if report, err := s.e.Check(ctx, contract.CheckParams{}); err != nil || len(report.Faults) > 0 {
		t.Errorf("the check says %+v, %v", report, err)
	}
}

// C17.145: a tick that the timer would miss.
func TestCheckFindsAMissedTick(t *testing.T) {
	t.Parallel()
	s := newScheduled(t, true)
	s.put("a", "@every 1m", nil)
	s.must(s.e.change(t.Context(), func(t *tx) error {
		q := t.queue(duly.Q("q"))
		q.earliest.tick, q.schedules = never, 7
		return nil
	}))
	s.clock.Advance(time.Minute)
	s.step()
	s.ran("the tick is missed", "")
	report, err := s.e.Check(t.Context(), contract.CheckParams{Repair: true})
	if err != nil || len(report.Faults) != 1 || report.Faults[0].Kind != faultMoment || report.Repaired != 1 {
		t.Errorf("the check says %+v, %v", report, err)
	}
	s.step()
	s.ran("the tick is repaired", "a 60")
}

// C17.140: on a full disk, schedules cannot be put. A tick that makes a run stays due until there
// is room.
func TestFullDiskRefusesRuns(t *testing.T) {
	t.Parallel()
	s := newScheduled(t, true)
	ctx := t.Context()
	s.put("a", "@every 1m", nil)
	s.put("b", "@daily", func(b *duly.Schedule) { b.Catchup = duly.CatchupNone })
	s.put("c", "@every 1h", nil)
	fillDisk(t, s.e, true)
	if _, err := s.e.PutSchedule(ctx, duly.Q("q"), duly.Schedule{Name: "new", Spec: "@daily"}); !errors.Is(err,
		duly.ErrFull) {
		t.Errorf("put: %v, want full", err)
	}
	s.must(s.e.PauseSchedule(ctx, duly.Q("q"), "c"))
	s.must(s.e.ResumeSchedule(ctx, duly.Q("q"), "c"))
	s.must(s.e.DeleteSchedule(ctx, duly.Q("q"), "c", 0))

	// b is late by more than a minute, so it makes no run.
	s.exec("UPDATE schedules SET next = next - 86400000 WHERE name = 'b'")
	s.clock.Advance(61 * time.Second)
	s.step()
	s.ran("the disk is full", "")
	if a, b := s.get("a"), s.get("b"); a.Missed+a.Fired+b.Fired != 0 || b.Missed == 0 {
		t.Errorf("a is %+v, b is %+v", a, b)
	}

	fillDisk(t, s.e, false)
	s.clock.Advance(contract.FullPause)
	s.step()
	s.ran("there is room", "a 60")
}

// C17.139: a queue refuses a schedule beyond its maximum number as full.
func TestQueueHasABoundOfSchedules(t *testing.T) {
	t.Parallel()
	s := newScheduled(t, true)
	s.put("a", "@daily", nil)
	s.exec(`WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
INSERT INTO schedules (queue, name, version, paused, next, fired, skipped, missed, record)
SELECT queue, 'n' || i, version, 0, next, 0, 0, 0, record FROM schedules, n`)
	s.must(s.e.Close())
	s.open(true)
	if st, err := s.e.Stats(t.Context(), duly.Q("q")); err != nil || st.Schedules != duly.MaxSchedules {
		t.Fatalf("stats %+v, %v", st, err)
	}
	put := func(name, spec string) error {
		_, err := s.e.PutSchedule(t.Context(), duly.Q("q"), duly.Schedule{Name: name, Spec: spec})
		return err
	}
	if err := put("more", "@daily"); !errors.Is(err, duly.ErrFull) {
		t.Errorf("schedule 10 001: %v, want full", err)
	}
	s.must(put("n7", "@hourly"))
	s.must(s.e.DeleteSchedule(t.Context(), duly.Q("q"), "n7", 0))
	s.must(put("more", "@daily"))

	// All ticks are due at the same moment.
	s.clock.Advance(24 * time.Hour)
	s.step()
	if st, err := s.e.Stats(t.Context(), duly.Q("q")); err != nil || st.Sizes.Ready != duly.MaxSchedules {
		t.Errorf("stats %+v, %v", st, err)
	}
}

// C17.142: maintenance deletes the rows of a destroyed queue.
func TestDestroyDeletesScheduleRows(t *testing.T) {
	t.Parallel()
	s := newScheduled(t, true)
	s.put("a", "@daily", nil)
	s.put("b", "@every 1m", nil)
	s.exec(`UPDATE schedules SET record = x'00' WHERE name = 'b'`)
	s.clock.Advance(time.Minute)
	s.step()
	s.must(s.e.Destroy(t.Context(), duly.Q("q")))
	for range 20 { // maintenance runs one slice after each transaction
		if ask(t, s.e, "SELECT count(*) FROM graves") == "0" {
			break
		}
	}
	if rows := ask(t, s.e,
		"SELECT (SELECT count(*) FROM schedules) + (SELECT count(*) FROM unreadable_schedules)"); rows != "0" {
		t.Errorf("%s rows are left", rows)
	}
}
