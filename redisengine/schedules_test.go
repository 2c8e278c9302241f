package redisengine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/enginetest"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/faultproxy"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/internal/schedule"
	"github.com/dulymq/duly/redisengine"
)

// often returns a schedule with one tick per second. Each tick creates a run, even while earlier
// runs wait or run.
func often(name string) duly.Schedule {
	return duly.Schedule{Name: name, Spec: "@every 1s", Catchup: duly.CatchupAll, Overlap: duly.OverlapAllow}
}

// openAt opens an engine whose clock the test sets. Only Reserve and Step fire ticks.
func openAt(t *testing.T, url string, c duly.Clock) *redisengine.Engine {
	t.Helper()
	cfg := redisengine.Config{URL: url, Clock: c, Manual: true, Logger: slog.New(slog.DiscardHandler)}
	e, err := redisengine.Open(t.Context(), cfg)
	must(t, err)
	t.Cleanup(func() { e.Close() })
	return e
}

// stepAll steps a queue until nothing is left to do.
func stepAll(t *testing.T, e *redisengine.Engine, q duly.QueueRef) {
	t.Helper()
	for more := true; more; {
		var err error
		more, err = e.Step(t.Context(), q)
		must(t, err)
	}
}

// eachRanOnce checks that each tick of each schedule has exactly one run.
func eachRanOnce(t *testing.T, e *redisengine.Engine, q duly.QueueRef, schedules, ticks int) {
	t.Helper()
	seen := map[string]bool{}
	p := duly.ListParams{State: duly.StateReady, PageParams: duly.PageParams{Limit: duly.MaxBatch}}
	for {
		page, err := e.List(t.Context(), q, p)
		must(t, err)
		for _, j := range page.Jobs {
			run := j.Headers[duly.HeaderSchedule] + " " + j.Headers[duly.HeaderTick]
			if seen[run] {
				t.Errorf("the tick %s has two runs", run)
			}
			seen[run] = true
		}
		if p.Cursor = page.Next; p.Cursor == "" {
			break
		}
	}
	if len(seen) != schedules*ticks {
		t.Errorf("%d ticks have runs, want %d", len(seen), schedules*ticks)
	}

	page, err := e.Schedules(t.Context(), q, duly.PageParams{Limit: duly.MaxBatch})
	must(t, err)
	for _, s := range page.Schedules {
		if s.Fired != int64(ticks) || s.Skipped != 0 || s.Missed != 0 {
			t.Errorf("schedule %s has fired %d ticks, skipped %d and missed %d, want %d, 0 and 0",
				s.Name, s.Fired, s.Skipped, s.Missed, ticks)
		}
	}
}

// Ten processes, each with a clock and connections of its own, fire the ticks of one queue at the same
// time. In the second race, one reply in twenty is lost. The long form has 10 000 ticks.
//
// C17.89, C17.90, C17.91, C17.111, C17.114
func TestTenProcessesFireEachTickOnce(t *testing.T) {
	t.Parallel()
	const processes, schedules = 10, 20
	ticks := 5
	if long() {
		ticks = 500
	}
	for _, name := range []string{"AllReplies", "LostReplies"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, prefix := redistest.Shared(t)
			proxy := faultproxy.Redis(t, server.Addr())
			race := enginetest.TickRace{Schedules: schedules, Ticks: ticks, Shards: 4, Losses: name == "LostReplies"}
			for i := range processes {
				c := clock.NewFake()
				e, err := redisengine.Open(t.Context(), redisengine.Config{
					URL: withPrefix("redis://"+proxy.Addr(), prefix), Clock: c, Logger: slog.New(slog.DiscardHandler),
					Manual: i%2 == 1, // the others also fire ticks by their timers
				})
				must(t, err)
				t.Cleanup(func() { e.Close() })
				race.Callers = append(race.Callers, enginetest.TickCaller{Engine: e, Clock: c})
			}
			race.Direct = openAt(t, withPrefix(server.URL(), prefix), race.Callers[0].Clock.(*clock.Fake))
			if !race.Losses {
				race.Run(t)
				return
			}

			lost := proxy.Inject(faultproxy.Fault{Do: faultproxy.LoseReply, Times: -1, Match: oneIn(t, 20)})
			defer lost.Remove() // the engines close without losses
			race.Run(t)
			t.Logf("%d replies were lost", lost.Count())
			if lost.Count() == 0 {
				t.Error("no reply was lost, so the race proves nothing")
			}
		})
	}
}

// oneIn matches one request in n, on average.
func oneIn(t *testing.T, n int) faultproxy.Match {
	seed := rand.Uint64()
	t.Logf("losses by seed %d", seed)
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(seed, 0))
	return func([]string) bool {
		mu.Lock()
		defer mu.Unlock()
		return random.IntN(n) == 0
	}
}

// C17.90, fault S3: the reply of a Fire is lost. The repeated Fire is stale, and the tick has one run.
func TestLostReplyToAFireMakesOneRun(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	c, q := clock.NewFake(), duly.Q("q")
	proxy := faultproxy.Redis(t, server.Addr())
	e, direct := openAt(t, withPrefix("redis://"+proxy.Addr(), prefix), c), openAt(t, withPrefix(server.URL(), prefix), c)
	_, err := direct.PutSchedule(t.Context(), q, often("a"))
	must(t, err)
	c.Advance(time.Second)
	due, err := direct.DueSchedules(t.Context(), q, 0, "")
	must(t, err)
	timing, err := schedule.Timing(&due.Schedules[0].Schedule)
	must(t, err)
	items := schedule.Fold(&due.Schedules[0], timing, due.Now, due.TTL)

	fault := proxy.Inject(faultproxy.Fault{Match: scriptNamed("schedule_fire"), Do: faultproxy.LoseReply})
	if _, err := e.Fire(t.Context(), q, items); !errors.Is(err, duly.ErrUnavailable) {
		t.Errorf("a Fire whose reply was lost: %v, want unavailable", err)
	}
	<-fault.Done()
	results, err := e.Fire(t.Context(), q, items)
	must(t, err)
	if results[0].Status != contract.FireStale {
		t.Errorf("the repeat is %s, want stale", results[0].Status)
	}
	eachRanOnce(t, direct, q, 1, 1)
}

// C4.17, C17.107: a poll finds a due tick, also if another process has changed the queue's settings.
func TestPollAfterAChangeFindsADueTick(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	c, q := clock.NewFake(), duly.Q("q")
	url := withPrefix(server.URL(), prefix)
	e, other := openAt(t, url, c), openAt(t, url, c)
	_, err := e.PutSchedule(t.Context(), q, often("a"))
	must(t, err)
	must(t, other.Configure(t.Context(), q, duly.QueueConfig{MaxLeased: 5}))
	c.Advance(time.Second)
	if ready, err := e.Wait(t.Context(), duly.WaitParams{Queues: []string{q.Name}}); err != nil || !ready {
		t.Errorf("a poll with a due tick is %v, %v", ready, err)
	}
	stepAll(t, e, q)
	eachRanOnce(t, e, q, 1, 1)
}

// C17.125, C17.141: the reply of a Put is lost. The repeat changes nothing.
func TestLostReplyToAPutChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	put := func() (duly.SchedulePut, error) {
		return w.e.PutSchedule(w.Context(), duly.Q("q"), duly.Schedule{Name: "a", Spec: "@yearly"})
	}
	w.lose("schedule_put", func() error { _, err := put(); return err })
	if p, err := put(); err != nil || p.Status != duly.ScheduleUnchanged {
		t.Errorf("the repeat: %+v, %v, want unchanged", p, err)
	}
	w.lose("schedule_drop", func() error { return w.e.DeleteSchedule(w.Context(), duly.Q("q"), "a", 0) })
	if err := w.e.DeleteSchedule(w.Context(), duly.Q("q"), "a", 0); !errors.Is(err, duly.ErrNotFound) {
		t.Errorf("the repeat of a delete: %v, want not_found", err)
	}
}

// C11.17: after a server has lost its scripts, the engine loads them again, and every tick fires.
func TestTicksFireAfterALossOfScripts(t *testing.T) {
	t.Parallel()
	for _, form := range scriptForms {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			server := redistest.Single(t)
			c, q := clock.NewFake(), duly.Q("q")
			e := openAt(t, server.URL()+"?scripts="+form, c)
			_, err := e.PutSchedule(t.Context(), q, often("a"))
			must(t, err)
			for range 5 {
				server.Must("FUNCTION", "FLUSH")
				server.Must("SCRIPT", "FLUSH")
				c.Advance(time.Second)
				stepAll(t, e, q)
			}
			eachRanOnce(t, e, q, 1, 5)
		})
	}
}

// C9.11, C17.83, C17.140: without memory, ticks wait, and a Put is full. Delete, Pause and Resume
// continue.
func TestTicksWaitForMemory(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	c, q := clock.NewFake(), duly.Q("q")
	e := openAt(t, server.URL(), c)
	for _, name := range []string{"a", "b"} {
		_, err := e.PutSchedule(t.Context(), q, often(name))
		must(t, err)
	}
	c.Advance(time.Second)
	server.Must("CONFIG", "SET", "maxmemory", "1")
	stepAll(t, e, q)
	eachRanOnce(t, e, q, 2, 0)
	if _, err := e.PutSchedule(t.Context(), q, often("c")); !errors.Is(err, duly.ErrFull) {
		t.Errorf("a put without memory: %v, want full", err)
	}
	must(t, e.PauseSchedule(t.Context(), q, "b"))
	must(t, e.ResumeSchedule(t.Context(), q, "b"))
	must(t, e.DeleteSchedule(t.Context(), q, "b", 0))

	server.Must("CONFIG", "SET", "maxmemory", "0")
	c.Advance(contract.FullPause)
	stepAll(t, e, q)
	eachRanOnce(t, e, q, 1, 3)
}

// C17.116: a shard without schedules costs one length check in each step and each look, and nothing
// in the life of a plain job.
func TestShardWithoutSchedulesPaysOneLengthCheck(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	e, q := openAt(t, withPrefix(server.URL(), prefix), clock.NewFake()), duly.Q("q")
	for range 5 {
		pushOne(t, e, duly.Job{Queue: "q"})
	}
	takeOne(t, e, q) // the first Reserve announces the end of its lease in the marker

	var d duly.Delivery
	for _, x := range []struct {
		call string
		do   func()
		want int
	}{
		{"push", func() { pushOne(t, e, duly.Job{Queue: "q"}) }, 0},
		{"reserve", func() { d = takeOne(t, e, q) }, 0},
		{"ack", func() {
			_, err := e.Settle(t.Context(), "", []duly.SettleRequest{{Receipt: d.Receipt, As: duly.Ack}})
			must(t, err)
		}, 0},
		{"step", func() { _, err := e.Step(t.Context(), q); must(t, err) }, 1},
		{"look", func() {
			_, err := e.Wait(t.Context(), duly.WaitParams{Queues: []string{"q"}})
			must(t, err)
		}, 1},
	} {
		var commands []string
		for _, line := range commandsOn(t, server, prefix+":{default/q/0}:ticks", x.do) {
			if !strings.Contains(line, "EXISTS") { // the script look checks several keys in one EXISTS
				commands = append(commands, line)
			}
		}
		if len(commands) != x.want {
			t.Errorf("a %s sends %d commands to the key of the ticks, want %d: %q", x.call, len(commands), x.want, commands)
		}
	}
}

// commandsOn returns the commands that scripts send to a key while f runs.
func commandsOn(t *testing.T, server *redistest.Server, key string, f func()) (lines []string) {
	t.Helper()
	monitor, err := server.Dial(context.Background())
	must(t, err)
	defer monitor.Close()
	_, err = monitor.Do(t.Context(), "MONITOR")
	must(t, err)
	f()
	end := "end " + t.Name() + key
	server.Must("ECHO", end)
	for {
		line, err := monitor.Receive()
		must(t, err)
		text := fmt.Sprint(line)
		if strings.Contains(text, end) {
			return lines
		}
		if strings.Contains(text, " lua] ") && strings.Contains(text, `"`+key+`"`) {
			lines = append(lines, strings.ToUpper(text))
		}
	}
}

// C17.60: for every time that a tick can have, the script formats the header of the previous run as
// Go does.
func TestPreviousTickIsWrittenAsGoWritesIt(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	q := duly.Q("q")
	for _, tick := range []time.Time{
		time.Date(1970, 1, 1, 0, 0, 1, 0, time.UTC), time.Date(1999, 12, 31, 23, 59, 59, 0, time.UTC),
		time.Date(2000, 2, 29, 12, 0, 0, 0, time.UTC), time.Date(2028, 2, 29, 23, 59, 59, 0, time.UTC),
		time.Date(2100, 2, 28, 23, 59, 59, 0, time.UTC), time.Date(2100, 3, 1, 0, 0, 0, 0, time.UTC),
		time.Date(2400, 12, 31, 1, 2, 3, 0, time.UTC), time.Date(9998, 12, 31, 23, 59, 59, 0, time.UTC),
	} {
		c := clock.NewFake()
		for first := tick.Add(-time.Second); !c.Now().Equal(first); { // a time.Duration has at most 292 years
			c.Step(first.Sub(c.Now()))
		}
		e := openAt(t, withPrefix(server.URL(), prefix+fmt.Sprint(tick.Unix())), c)
		_, err := e.PutSchedule(t.Context(), q, often("a"))
		must(t, err)
		c.Advance(2 * time.Second)
		stepAll(t, e, q)
		page, err := e.List(t.Context(), q, duly.ListParams{State: duly.StateReady})
		must(t, err)
		if len(page.Jobs) != 2 || page.Jobs[1].Headers[duly.HeaderPrevious] != contract.TickText(tick.UnixMilli()) {
			t.Errorf("after the tick %s there are %+v", tick, page.Jobs)
		}
	}
}

// C17.113: if a queue has no waiters, a server fires its ticks on time after a sweep has found the
// schedule. The sweep itself fires the ticks that are already due.
func TestServerFiresTicksOfItsSweepOnTime(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	c, q := clock.NewFake(), duly.Q("q")
	other := openAt(t, withPrefix(server.URL(), prefix), c) // this engine keeps no timer
	must(t, other.Configure(t.Context(), q, duly.QueueConfig{Shards: 4}))
	must(t, other.Pause(t.Context(), q)) // ticks fire in a paused queue, too
	for i := range 8 {
		sch := often(fmt.Sprint("s", i))
		sch.Spec = "@every 1m"
		_, err := other.PutSchedule(t.Context(), q, sch)
		must(t, err)
	}
	cfg := redisengine.Config{URL: withPrefix(server.URL(), prefix), Clock: c, Logger: slog.New(slog.DiscardHandler)}
	e, err := redisengine.Open(t.Context(), cfg)
	must(t, err)
	t.Cleanup(func() { e.Close() })

	eachRanOnce(t, e, q, 8, 0)
	must(t, e.Sweep(t.Context()))
	for i := range 3 {
		c.Advance(time.Minute)
		e.Quiet()
		eachRanOnce(t, e, q, 8, i+1)
	}

	// Schedules that were put after a sweep fire with the next sweep.
	for i := range 3 {
		sch := often(fmt.Sprint("new-", i))
		sch.Spec = "@every 1s"
		_, err := other.PutSchedule(t.Context(), duly.Q("new"), sch)
		must(t, err)
	}
	c.Advance(time.Second)
	e.Quiet()
	eachRanOnce(t, e, duly.Q("new"), 3, 0)
	must(t, e.Sweep(t.Context()))
	e.Quiet()
	eachRanOnce(t, e, duly.Q("new"), 3, 1)
}

// C17.94: Fire does not wait until its writes are durable, as a push does.
func TestFireDoesNotWaitForDurability(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	c, q := clock.NewFake(), duly.Q("q")
	e := openAt(t, withPrefix(server.URL(), prefix)+"&durability=replicas:1&durability_timeout=1ms", c)
	results, err := e.Push(t.Context(), []duly.Job{{Queue: "other"}})
	must(t, err)
	if !errors.Is(results[0].Err, duly.ErrNotDurable) {
		t.Errorf("a push without replicas: %v, want not_durable", results[0].Err)
	}

	_, err = e.PutSchedule(t.Context(), q, often("a"))
	must(t, err)
	c.Advance(time.Second)
	for _, r := range fireOnce(t, e, q) {
		if r.Status != contract.FireFired || r.Err != nil || r.Run.Err != nil {
			t.Errorf("fire without replicas: %s, %v, %v, want fired", r.Status, r.Err, r.Run.Err)
		}
	}
	eachRanOnce(t, e, q, 1, 1)
}
