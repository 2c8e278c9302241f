package pools_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/model"
	"github.com/dulymq/duly/server/pools"
)

// tickTest moves a namespace whose schedules tick all the time, and works on their runs. Every tick must
// have one run.
type tickTest struct {
	*rig
	names []string
	begin time.Time
	ran   map[string]map[string]int // by schedule and tick
	err   error                     // of the calls of a server that crashes
}

const tickPeriod = 5 * time.Second

// ticking returns a schedule that ticks every 5 s. Each tick makes a run, however late it fires.
func ticking(name string) duly.Schedule {
	return duly.Schedule{Name: name, Spec: "@every 5s", Overlap: duly.OverlapAllow, Catchup: duly.CatchupAll, Owner: "app"}
}

func newTickTest(t *testing.T, schedules int) *tickTest {
	d := &tickTest{rig: newRig(t, "orders"), ran: map[string]map[string]int{}}
	d.begin = d.clock.Now()
	for i := range schedules {
		name := fmt.Sprint("s", i)
		d.names = append(d.names, name)
		d.ran[name] = map[string]int{}
		_, err := d.PutSchedule(t.Context(), shop, ticking(name))
		d.must(err)
	}
	_, err := d.PutSchedule(t.Context(), shop, ticking("paused"))
	d.must(err)
	d.must(d.PauseSchedule(t.Context(), shop, "paused"))
	return d
}

// work fires the due ticks of both pools, as their processes do, and acks the runs.
func (d *tickTest) work() {
	d.t.Helper()
	for _, e := range d.engines {
		for more := true; more; {
			var err error
			more, err = e.Step(d.t.Context(), shop)
			d.must(err)
		}
	}
	for {
		got, err := d.Reserve(d.t.Context(), duly.ReserveParams{Namespace: "shop", Queues: []string{"q"}, Max: 100})
		d.must(err)
		if len(got) == 0 {
			return
		}
		for i := range got {
			d.ran[got[i].Headers[duly.HeaderSchedule]][got[i].Headers[duly.HeaderTick]]++
			d.ack(got[i].Receipt)
		}
	}
}

// turn lets propagationTime pass in steps shorter than the period, with a turn of the move at the end.
func (d *tickTest) turn(p *pools.Pools) {
	d.t.Helper()
	for range 4 {
		d.clock.Advance(pools.Propagation / 4)
		d.work()
	}
	if err := p.Advance(d.t.Context()); err != nil && d.err == nil {
		d.err = err
	}
	d.work()
}

// finish ends the move, and checks that each tick has had one run and the records are whole.
func (d *tickTest) finish(in string) {
	d.t.Helper()
	for n := 0; ; n++ {
		d.err = nil
		d.turn(d.Pools)
		d.must(d.err)
		where, err := d.Where(d.t.Context(), "shop")
		d.must(err)
		if where.From == "" && where.Pool == in {
			break
		}
		if n == 20 {
			d.t.Fatalf("the move does not end: %+v", where)
		}
	}
	d.turn(d.Pools)
	d.check(in)
}

func (d *tickTest) check(in string) {
	d.t.Helper()
	var want []string
	for tick := d.begin.Truncate(tickPeriod).Add(tickPeriod); !tick.After(d.clock.Now()); tick = tick.Add(tickPeriod) {
		want = append(want, contract.TickText(tick.UnixMilli()))
	}
	for _, name := range d.names {
		for _, tick := range want {
			if n := d.ran[name][tick]; n != 1 {
				d.t.Errorf("tick %s of schedule %s has %d runs", tick, name, n)
			}
		}
		info, err := d.engines[in].GetSchedule(d.t.Context(), shop, name)
		if err != nil || info.Fired != int64(len(want)) || info.Skipped+info.Missed != 0 || info.Owner != "app" {
			d.t.Errorf("schedule %s is %+v, %v; want %d fired ticks", name, info, err, len(want))
		}
	}
	if info, err := d.engines[in].GetSchedule(d.t.Context(), shop, "paused"); err != nil || !info.Paused || info.Fired != 0 {
		d.t.Errorf("the paused schedule is %+v, %v", info, err)
	}

	for name, e := range d.engines {
		page, err := e.Schedules(d.t.Context(), shop, duly.PageParams{})
		held, errHeld := e.HeldSchedules(d.t.Context(), shop, duly.PageParams{})
		if err != nil || errHeld != nil || len(held.Names) > 0 || name != in && len(page.Schedules) > 0 {
			d.t.Errorf("pool %s has %d schedules and holds %v, %v",
				name, len(page.Schedules), held.Names, errors.Join(err, errHeld))
		}
	}
}

// C17.143, C17.144: a namespace moves while its schedules tick. Each tick has one run.
func TestSchedulesMoveWhileTheyTick(t *testing.T) {
	t.Parallel()
	d := newTickTest(t, 3)
	before := map[string]duly.ScheduleInfo{}
	for _, name := range d.names {
		before[name], _ = d.GetSchedule(t.Context(), shop, name)
	}
	d.turn(d.Pools)
	_, err := d.Move(t.Context(), "shop", "orders")
	d.must(err)
	d.finish("orders")
	for name, was := range before {
		if info, err := d.GetSchedule(t.Context(), shop, name); err != nil || info.Version != was.Version {
			t.Errorf("schedule %s is %+v, %v, was %+v", name, info, err, was)
		}
	}

	_, err = d.Move(t.Context(), "shop", contract.DefaultPool)
	d.must(err)
	d.finish(contract.DefaultPool)
}

// C17.143, C17.144: a server dies before or after any call of a move. Another one ends the move.
func TestSchedulesSurviveCrashOfMove(t *testing.T) {
	t.Parallel()
	for kind := crashBefore; kind < crashKinds; kind++ {
		t.Run(fmt.Sprint(kind), func(t *testing.T) {
			t.Parallel()
			for n := 1; crashWithSchedules(t, 2, n, kind); n++ {
			}
		})
	}
}

// C17.143: the same with 100 schedules.
func TestHundredSchedulesSurviveCrashOfMove(t *testing.T) {
	t.Parallel()
	if os.Getenv("DULY_LONG") == "" {
		t.Skip("takes minutes; set DULY_LONG=1")
	}
	for kind := crashBefore; kind < crashKinds; kind++ {
		t.Run(fmt.Sprint(kind), func(t *testing.T) {
			t.Parallel()
			for n := 1; crashWithSchedules(t, 100, n, kind); n++ {
			}
		})
	}
}

// crashWithSchedules moves a namespace on a server that crashes at the nth call, and then on another one.
// It reports whether there is such a call.
func crashWithSchedules(t *testing.T, schedules, n int, kind crash) (more bool) {
	d := newTickTest(t, schedules)
	s := &stepCounter{left: n, crash: kind}
	mortal := d.newCountingServer(s)
	if _, err := mortal.Move(t.Context(), "shop", "orders"); err != nil && !errors.Is(err, errCrashed) {
		t.Fatal(err)
	}
	for range 5 {
		d.turn(mortal)
	}
	if d.err != nil && !errors.Is(d.err, errCrashed) {
		t.Errorf("step %d: %v", n, d.err)
	}

	_, err := d.Move(t.Context(), "shop", "orders")
	d.must(err)
	d.finish("orders")
	if t.Failed() {
		t.Logf("at step %d", n)
		return false
	}
	return s.over()
}

// C17.143, C17.144: a server is suspended at any call of a move while others end it, reverse it, or change
// the schedules. When it continues, it changes nothing that is over.
func TestSuspendedServerKeepsSchedules(t *testing.T) {
	t.Parallel()
	for name, event := range map[string]func(d *tickTest) string{
		"ended": func(d *tickTest) string { d.finish("orders"); return "orders" },
		"reversed": func(d *tickTest) string {
			_, err := d.Move(d.t.Context(), "shop", contract.DefaultPool)
			d.must(err)
			return contract.DefaultPool
		},
		"ended and moved back": func(d *tickTest) string {
			d.finish("orders")
			_, err := d.Move(d.t.Context(), "shop", contract.DefaultPool)
			d.must(err)
			d.finish(contract.DefaultPool)
			return contract.DefaultPool
		},
		"deleted after the end": func(d *tickTest) string {
			d.finish("orders")
			last := len(d.names) - 1
			d.must(d.DeleteSchedule(d.t.Context(), shop, d.names[last], 0))
			d.names = d.names[:last]
			return "orders"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for n := 1; suspendWithSchedules(t, n, event); n++ {
			}
		})
	}
}

func suspendWithSchedules(t *testing.T, n int, event func(d *tickTest) string) (more bool) {
	d := newTickTest(t, 2)
	gone, in := d.names[1], ""
	s := &stepCounter{}
	slow := d.newCountingServer(s)
	_, err := slow.Move(t.Context(), "shop", "orders")
	d.must(err)
	*s = stepCounter{left: n, then: func() {
		if where, err := d.Where(t.Context(), "shop"); err != nil || where.From == "" {
			return // the move has ended
		}
		in = event(d)
	}}
	for range 5 {
		d.turn(slow)
	}
	d.err = nil
	if in == "" {
		return false
	}

	d.finish(in)
	if _, err := d.GetSchedule(t.Context(), shop, gone); !slices.Contains(d.names, gone) && !errors.Is(err, duly.ErrNotFound) {
		t.Errorf("a deleted schedule is back: %v", err)
	}
	if t.Failed() {
		t.Logf("at step %d", n)
		return false
	}
	return s.over()
}

// C17.151: callers read and change schedules in every phase of a move.
func TestSchedulesChangeDuringMove(t *testing.T) {
	t.Parallel()
	d := newTickTest(t, 2)
	ctx := t.Context()
	put := func(s duly.Schedule) (duly.ScheduleStatus, error) {
		put, err := d.PutSchedule(ctx, shop, s)
		return put.Status, err
	}
	listed := func(want ...string) {
		t.Helper()
		var names []string
		for cursor := ""; ; {
			page, err := d.Schedules(ctx, shop, duly.PageParams{Cursor: cursor, Limit: 1})
			d.must(err)
			for _, s := range page.Schedules {
				names = append(names, s.Name)
			}
			if cursor = page.Next; cursor == "" {
				break
			}
		}
		slices.Sort(names)
		if !slices.Equal(names, want) {
			t.Errorf("the schedules are %v, want %v", names, want)
		}
	}
	changed := ticking("s1")
	changed.Template.Priority = 1

	_, err := d.Move(ctx, "shop", "orders")
	d.must(err)
	// While the move is prepared, everything is in the old pool.
	if status, err := put(changed); err != nil || status != duly.ScheduleChanged {
		t.Errorf("a put in the old pool: %s, %v", status, err)
	}
	d.advance()
	if phase := d.phase("shop"); phase != contract.Draining {
		t.Fatalf("the phase is %s", phase)
	}

	// The schedules are still in the old pool. Only a put could create one again that has left it.
	if status, err := put(changed); err != nil || status != duly.ScheduleUnchanged {
		t.Errorf("a repeated put: %s, %v", status, err)
	}
	if _, err := put(ticking("s1")); !errors.Is(err, duly.ErrUnavailable) {
		t.Errorf("a put that changes a schedule: %v, want unavailable", err)
	}
	if _, err := put(duly.Schedule{Name: "s1", Spec: "never"}); !errors.Is(err, duly.ErrInvalid) {
		t.Errorf("a bad put: %v, want invalid", err)
	}
	if status, err := put(ticking("young")); err != nil || status != duly.ScheduleCreated {
		t.Errorf("a put of a new schedule: %s, %v", status, err)
	}
	if _, err := d.engines["orders"].GetSchedule(ctx, shop, "young"); err != nil {
		t.Errorf("a new schedule is not in the new pool: %v", err)
	}
	d.must(d.PauseSchedule(ctx, shop, "s0"))
	d.must(d.DeleteSchedule(ctx, shop, "paused", 0))
	listed("s0", "s1", "young")
	if stats, err := d.Stats(ctx, shop); err != nil || stats.Schedules != 3 || stats.NextTick.IsZero() {
		t.Errorf("the stats are %+v, %v", stats, err)
	}

	d.advance()
	if info, err := d.engines["orders"].GetSchedule(ctx, shop, "s0"); err != nil || !info.Paused {
		t.Errorf("the schedule that was paused is %+v, %v", info, err)
	}
	d.must(d.ResumeSchedule(ctx, shop, "s0"))
	if status, err := put(ticking("s1")); err != nil || status != duly.ScheduleChanged {
		t.Errorf("a put in the new pool: %s, %v", status, err)
	}
	listed("s0", "s1", "young")
}

// C17.152: while a queue of the old pool has schedules, it is not removed, and jobs with order keys wait in
// the new pool, because a run could have their key.
func TestQueueWithSchedulesStays(t *testing.T) {
	t.Parallel()
	d := &tickTest{rig: newRig(t, "orders")}
	_, err := d.PutSchedule(t.Context(), shop, duly.Schedule{Name: "s", Spec: "@daily", Template: duly.Job{OrderKey: "k"}})
	d.must(err)
	d.Pools = d.newServer(func(name string, e *model.Engine) contract.Engine {
		return refusingEngine{e, name == "orders"}
	})
	d.move("shop", "orders")
	d.pushJob(duly.Job{ID: "keyed", OrderKey: "k"})
	d.clock.Advance(pools.Propagation)
	for range 3 {
		if err := d.Advance(t.Context()); !errors.Is(err, duly.ErrFull) {
			t.Errorf("a turn of the move: %v, want full", err)
		}
		if ids, _ := d.reserve(1, "q"); len(ids) > 0 {
			t.Errorf("reserved %v", ids)
		}
		d.clock.Advance(pools.Propagation)
	}
	if names := d.queuesIn(contract.DefaultPool); !slices.Equal(names, []string{"q"}) {
		t.Errorf("the old pool has the queues %v", names)
	}
}

// refusingEngine takes no copies of schedules if full is set.
type refusingEngine struct {
	*model.Engine
	full bool
}

func (e refusingEngine) ImportSchedule(ctx context.Context, r contract.ScheduleRecord) (contract.ScheduleRecord, error) {
	if e.full {
		return r, contract.SchedulesFull(r.Queue, 0)
	}
	return e.Engine.ImportSchedule(ctx, r)
}

// C17.153: a schedule that the new pool refuses continues in the old one, and moves when there is room.
func TestRefusedScheduleStaysInTheOldPool(t *testing.T) {
	t.Parallel()
	d := newTickTest(t, 2)
	full := d.newServer(func(name string, e *model.Engine) contract.Engine { return refusingEngine{e, name == "orders"} })
	_, err := full.Move(t.Context(), "shop", "orders")
	d.must(err)
	for range 5 {
		d.turn(full)
	}
	if !errors.Is(d.err, duly.ErrFull) || !contains(d.err, "stays in the old one") {
		t.Errorf("the turns of the move: %v", d.err)
	}
	d.check(contract.DefaultPool)
	d.finish("orders")
}

// C17.143: a server that was suspended puts a schedule to a pool that the namespace has left. It moves, and
// the later put wins.
func TestLatePutOfAScheduleMovesToTheNewPool(t *testing.T) {
	t.Parallel()
	d := &tickTest{rig: newRig(t, "orders")}
	ctx := t.Context()
	d.push("shop", "q", "a")
	_, receipts := d.reserve(1, "q")
	d.move("shop", "orders")
	d.ack(receipts...)
	d.endMove("shop")
	_, err := d.PutSchedule(ctx, shop, duly.Schedule{Name: "both", Spec: "@daily"})
	d.must(err)
	_, err = d.PutSchedule(ctx, shop, duly.Schedule{Name: "owned", Spec: "@daily", Owner: "app"})
	d.must(err)

	d.clock.Advance(time.Minute)
	for _, name := range []string{"both", "owned", "late"} {
		_, err = d.engines[contract.DefaultPool].PutSchedule(ctx, shop, duly.Schedule{Name: name, Spec: "@hourly"})
		d.must(err)
	}
	for range 10 {
		d.advance()
	}
	if left := d.queuesIn(contract.DefaultPool); len(left) > 0 {
		t.Errorf("the old pool has the queues %v", left)
	}
	for name, want := range map[string]string{"both": "@hourly", "owned": "@daily", "late": "@hourly"} {
		if info, err := d.GetSchedule(ctx, shop, name); err != nil || info.Spec != want || info.Next.IsZero() {
			t.Errorf("schedule %s is %+v, %v; want %s", name, info, err, want)
		}
	}
	if held, err := d.engines["orders"].HeldSchedules(ctx, shop, duly.PageParams{}); err != nil || len(held.Names) > 0 {
		t.Errorf("held: %v, %v", held.Names, err)
	}
}

// C17.143: a pool that was restored from a backup of a move has held schedules. A move to the pool where the
// namespace is releases them.
func TestMoveToOwnPoolReleasesHolds(t *testing.T) {
	t.Parallel()
	d := newTickTest(t, 1)
	_, err := d.engines[contract.DefaultPool].HoldSchedule(t.Context(), shop, "s0")
	d.must(err)
	_, err = d.Move(t.Context(), "shop", contract.DefaultPool)
	d.must(err)
	d.turn(d.Pools)
	d.check(contract.DefaultPool)
}
