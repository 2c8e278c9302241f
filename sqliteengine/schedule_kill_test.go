package sqliteengine

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/eventually"
	"github.com/dulymq/duly/internal/proctest"
	"github.com/dulymq/duly/internal/schedule"
)

// The moments at which the process that fires a tick dies.
const (
	diesBeforeRead = "before the read"
	diesAfterRead  = "after the read"
	diesInsideFire = "inside Fire"
	diesAfterFire  = "after Fire"
	diesUnanswered = "after the commit of Fire, without an answer"
)

// killedTick is the time between two ticks. Each process is killed after another tick.
const killedTick = time.Hour

// openKilled opens the store at the time of the n-th tick.
func openKilled(path, n string) (*Engine, error) {
	ticks, err := strconv.Atoi(n)
	if err != nil {
		return nil, err
	}
	c := clock.NewFake()
	c.Advance(time.Duration(ticks) * killedTick)
	return Open(context.Background(), Config{Path: path, Clock: c, Manual: true, Logger: quiet()})
}

// dueItems reads the due schedules and computes their items, as a pass does.
func dueItems(e *Engine) ([]contract.FireItem, error) {
	due, err := e.DueSchedules(context.Background(), duly.Q("q"), 0, "")
	if err != nil || len(due.Schedules) != 1 {
		return nil, fmt.Errorf("due schedules %+v, %w", due, err)
	}
	timing, err := schedule.Timing(&due.Schedules[0].Schedule)
	return schedule.Fold(&due.Schedules[0], timing, due.Now, due.TTL), err
}

// runFiring fires the due ticks up to the given moment, and waits there until it is killed.
func runFiring(args []string) error {
	path, moment := args[0], args[1]
	e, err := openKilled(path, args[2])
	if err != nil {
		return err
	}
	wait := func() {
		fmt.Println("reached")
		select {}
	}
	if moment == diesBeforeRead {
		wait()
	}
	ticks, err := dueItems(e)
	if err != nil {
		return err
	}
	if moment == diesAfterRead {
		wait()
	}
	if moment == diesAfterFire {
		_, err := e.Fire(context.Background(), duly.Q("q"), ticks)
		wait()
		return err
	}

	f := newFireCall(duly.Q("q"), ticks, e.cfg.MaxBody)
	o := &op{Call: items(len(ticks)), run: f.run}
	if moment == diesInsideFire {
		o.run = func(t *tx) error {
			err := f.run(t)
			wait()
			return err
		}
	}
	o.done = func(error) { wait() } // the transaction is committed, and its caller still waits
	return e.write(context.Background(), o)
}

// C17.85, C17.90, C17.91: at whatever moment a process dies, the next process finds the tick due or
// fired, and the tick has one run.
func TestTickSurvivesAKilledProcess(t *testing.T) {
	t.Parallel()
	kills := 2
	if proctest.Long() {
		kills = 200
	}
	for _, moment := range []string{diesBeforeRead, diesAfterRead, diesInsideFire, diesAfterFire, diesUnanswered} {
		t.Run(moment, func(t *testing.T) {
			t.Parallel()
			k := &killedFiring{moment: moment, scheduled: &scheduled{
				T: t, clock: clock.NewFake(), path: filepath.Join(t.TempDir(), "duly.db"),
			}}
			k.open(true)
			k.put("a", "@every 1h", func(a *duly.Schedule) { a.Catchup = duly.CatchupAll })
			k.must(k.e.Close())
			for range kills {
				k.kill()
			}
			k.conclude()
		})
	}
}

// killedFiring is a store whose ticks are fired by processes that are killed.
type killedFiring struct {
	*scheduled
	moment string
	kills  int
	fired  int // ticks that are fired
}

// kill kills a process that fires the due ticks. Every second time, this process then fires the ticks
// that are still due. Otherwise the next killed process finds them.
func (k *killedFiring) kill() {
	k.Helper()
	k.kills++
	p := proctest.Start(k, proctest.Options{}, "fire", k.path, k.moment, strconv.Itoa(k.kills))
	if !p.Await("reached", 1, time.Minute) {
		k.Fatalf("the process says %q", p.Lines())
	}
	p.Kill()
	if k.moment == diesAfterFire || k.moment == diesUnanswered {
		k.fired = k.kills
	}

	k.clock.Advance(killedTick)
	k.open(true)
	k.hasFired("after the kill")
	if k.kills%2 == 0 {
		k.step()
		k.fired = k.kills
		k.hasFired("after a step of another process")
	}
	k.must(k.e.Close())
}

// hasFired checks the numbers of the schedule.
func (k *killedFiring) hasFired(when string) {
	k.Helper()
	i, next := k.get("a"), clock.Epoch.Add(time.Duration(k.fired+1)*killedTick)
	if i.Fired != int64(k.fired) || i.Skipped != 0 || i.Missed != 0 || !i.Next.Equal(next) {
		k.Errorf("kill %d, %s: the schedule is %+v, want %d fired ticks", k.kills, when, i, k.fired)
	}
}

// conclude fires the rest. Each tick has one run.
func (k *killedFiring) conclude() {
	k.Helper()
	k.open(true)
	defer k.e.Close()
	k.step()
	k.fired = k.kills
	k.hasFired("at the end")
	var want []string
	for n := 1; n <= k.kills; n++ {
		want = append(want, fmt.Sprintf("a %d", n*int(killedTick.Seconds())))
	}
	k.ran("another process goes on", strings.Join(want, ", "))
	if report, err := k.e.Check(k.Context(), contract.CheckParams{}); err != nil || len(report.Faults) > 0 {
		k.Errorf("the check says %+v, %v", report, err)
	}
	k.Logf("%d processes were killed, %d ticks fired", k.kills, k.fired)
}

// C17.90: if the answer of a Fire was lost, its repeat is stale.
func TestRepeatedFireIsStale(t *testing.T) {
	t.Parallel()
	s := newScheduled(t, true)
	s.put("a", "@every 1h", func(a *duly.Schedule) { a.Catchup = duly.CatchupAll })
	s.clock.Advance(3 * time.Hour)
	ticks, err := dueItems(s.e)
	s.must(err)

	// The caller leaves before the answer, and the operation still runs.
	letGo := held(t, s.e)
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error, 1)
	queued := waiting(s.e)
	go func() { _, err := s.e.Fire(ctx, duly.Q("q"), ticks); left <- err }()
	eventually.True(t, "Fire waits for the writer", func() bool { return waiting(s.e) > queued })
	cancel()
	if err := <-left; err == nil {
		t.Error("a caller that has left has an answer")
	}
	letGo()
	results, err := s.e.Fire(t.Context(), duly.Q("q"), ticks)
	s.must(err)
	again, err := s.e.Fire(t.Context(), duly.Q("q"), ticks)
	s.must(err)
	for i := range again {
		if again[i].Status != contract.FireStale {
			t.Errorf("item %d: %s, then %s", i, results[i].Status, again[i].Status)
		}
	}
	s.ran("each tick has fired once", "a 3600, a 7200, a 10800")
}

// C17.89, C17.91, C17.111, C17.114: callers that share an engine fire each tick exactly once,
// and none early.
func TestManyCallersFireEachTickOnce(t *testing.T) {
	t.Parallel()
	ticks := 500
	if proctest.Long() {
		ticks = 50_000
	}
	synctest.Test(t, func(t *testing.T) {
		s := newScheduled(t, false)
		all := func(sch *duly.Schedule) { sch.Catchup = duly.CatchupAll }
		s.put("a", "@every 1s", all)
		s.put("b", "@every 2s", all)
		s.put("c", "*/5 * * * * *", all)

		c := &tickCollector{seen: map[string]int{}}
		ctx, cancel := context.WithCancel(t.Context())
		var callers sync.WaitGroup
		for i := range 10 {
			callers.Go(func() { c.collect(ctx, s, i) })
		}
		for range 2 * ticks {
			s.clock.Advance(500 * time.Millisecond)
			if ticks <= 500 {
				synctest.Wait()
			}
		}
		synctest.Wait()
		cancel()
		callers.Wait()
		s.step()
		c.take(t, s.e)

		for name, period := range map[string]int{"a": 1, "b": 2, "c": 5} {
			for at := period; at <= ticks; at += period {
				if n := c.seen[fmt.Sprintf("%s %d", name, at)]; n != 1 {
					t.Fatalf("tick %d of %s has %d runs", at, name, n)
				}
			}
			if i := s.get(name); i.Fired != int64(ticks/period) || i.Skipped+i.Missed != 0 {
				t.Errorf("%s: %+v", name, i)
			}
		}
	})
}

// tickCollector counts the runs of each tick.
type tickCollector struct {
	mu   sync.Mutex
	seen map[string]int
}

// collect reserves, steps and sweeps until ctx ends.
func (c *tickCollector) collect(ctx context.Context, s *scheduled, caller int) {
	for ctx.Err() == nil {
		if _, err := s.e.Wait(ctx, duly.WaitParams{Queues: []string{"q"}, Timeout: 3 * time.Second}); err != nil {
			return
		}
		switch caller % 3 {
		case 0:
			_, _ = s.e.Step(ctx, duly.Q("q"))
		case 1:
			_ = s.e.Sweep(ctx)
		}
		c.take(s.T, s.e)
	}
}

// take reserves and acks all runs.
func (c *tickCollector) take(t *testing.T, e *Engine) {
	for {
		jobs, err := e.Reserve(context.Background(), duly.ReserveParams{Queues: []string{"q"}, Max: 100})
		if err != nil {
			t.Error(err)
			return
		}
		if len(jobs) == 0 {
			return
		}
		var acks []duly.SettleRequest
		c.mu.Lock()
		for _, j := range jobs {
			tick, err := time.Parse(time.RFC3339Nano, j.Headers[duly.HeaderTick])
			if err != nil || j.PushedAt.Before(tick) || j.Now.Before(tick) || j.Due.Before(tick) {
				t.Errorf("the run of tick %s was pushed at %s, due at %s and delivered at %s", tick, j.PushedAt, j.Due, j.Now)
			}
			c.seen[fmt.Sprintf("%s %d", j.Headers[duly.HeaderSchedule], int(tick.Sub(clock.Epoch).Seconds()))]++
			acks = append(acks, duly.SettleRequest{Receipt: j.Receipt, As: duly.Ack})
		}
		c.mu.Unlock()
		if _, err := e.Settle(context.Background(), "", acks); err != nil {
			t.Error(err)
		}
	}
}
