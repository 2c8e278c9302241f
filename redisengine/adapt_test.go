package redisengine_test

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/adaptive"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/logtest"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine"
)

// limited is a queue with an adaptive limit, and jobs that survive any number of failures.
type limited struct {
	*testing.T
	server *redistest.Server
	prefix string
	clock  *clock.Fake
	log    logtest.Log
	queue  string
	e      *redisengine.Engine
}

func newLimited(t *testing.T) *limited {
	l := &limited{T: t, clock: clock.NewFake(), queue: "q"}
	l.server, l.prefix = redistest.Shared(t)
	l.e = l.open()
	return l
}

func (l *limited) open() *redisengine.Engine {
	l.Helper()
	e, err := redisengine.Open(l.Context(), redisengine.Config{
		URL: l.server.URL() + "?prefix=" + l.prefix, Manual: true, Clock: l.clock, Logger: l.log.Logger(),
	})
	must(l, err)
	l.Cleanup(func() { e.Close() })
	return e
}

func (l *limited) ref() duly.QueueRef { return duly.Q(l.queue) }

// start configures the queue, and pushes n jobs.
func (l *limited) start(n int, c duly.QueueConfig) {
	l.Helper()
	c.MaxLeased, c.Adapt.Floor = 100, 0.1
	must(l, l.e.Configure(l.Context(), l.ref(), c))
	jobs := make([]duly.Job, n)
	for i := range jobs {
		jobs[i] = duly.Job{Queue: "q", ID: fmt.Sprint("job-", i), Tries: duly.MaxTries, Backoff: "fixed:0s", Lease: time.Minute}
	}
	_, err := l.e.Push(l.Context(), jobs)
	must(l, err)
}

func (l *limited) takeAll() []duly.Delivery {
	l.Helper()
	ds, err := l.e.Reserve(l.Context(), duly.ReserveParams{Queues: []string{l.queue}, Max: 100})
	must(l, err)
	return ds
}

func (l *limited) take() duly.Delivery {
	l.Helper()
	ds, err := l.e.Reserve(l.Context(), duly.ReserveParams{Queues: []string{l.queue}, Max: 1})
	must(l, err)
	if len(ds) != 1 {
		l.Fatalf("%d jobs are delivered, want 1", len(ds))
	}
	return ds[0]
}

func (l *limited) settle(d duly.Delivery, as duly.Settlement) {
	l.Helper()
	errs, err := l.e.Settle(l.Context(), "", []duly.SettleRequest{{Receipt: d.Receipt, As: as}})
	must(l, errors.Join(append(errs, err)...))
}

// fail fails n deliveries, one after the other.
func (l *limited) fail(n int) {
	l.Helper()
	for range n {
		l.settle(l.take(), duly.Nack)
	}
}

// probe starts probing, and takes the first probe.
func (l *limited) probe() duly.Delivery {
	l.Helper()
	l.fail(20)
	l.clock.Advance(time.Second)
	return l.take()
}

func (l *limited) stats() duly.Stats {
	l.Helper()
	s, err := l.e.Stats(l.Context(), l.ref())
	must(l, err)
	return s
}

func (l *limited) key(kind string) string { return l.prefix + ":{default/q/0}:" + kind }

// stored returns the state of the limiter in the store, "" for none.
func (l *limited) stored() string {
	l.Helper()
	text, _ := l.server.Must("HGET", l.key("tally"), "limiter").(string)
	return text
}

// C18.28: the limiter is in the store, so every process goes by it.
func TestProcessesShareTheLimiter(t *testing.T) {
	t.Parallel()
	l := newLimited(t)
	l.start(3, duly.QueueConfig{})
	other := l.open()
	probe := l.probe()
	for _, e := range []*redisengine.Engine{l.e, other} {
		ds, err := e.Reserve(t.Context(), duly.ReserveParams{Queues: []string{"q"}, Max: 10})
		if err != nil || len(ds) != 0 {
			t.Errorf("%d jobs are delivered beside the probe, %v", len(ds), err)
		}
		if s, err := e.Stats(t.Context(), l.ref()); err != nil || s.Factor != 0.1 || s.Probing != 1 {
			t.Errorf("the stats are %+v, %v", s, err)
		}
	}
	errs, err := other.Settle(t.Context(), "", []duly.SettleRequest{{Receipt: probe.Receipt, As: duly.Ack}})
	must(t, errors.Join(append(errs, err)...))
	if ds := l.takeAll(); len(ds) != 2 {
		t.Errorf("%d jobs are delivered after the ack of the probe, want 2", len(ds))
	}
}

// C18.22: without the setting, the tally has no state. With it, an unused limiter has none either.
func TestUnusedLimiterIsNotStored(t *testing.T) {
	t.Parallel()
	l := newLimited(t)
	l.start(2, duly.QueueConfig{})
	if s := l.stats(); l.stored() != "" || s.Factor != 1 {
		t.Errorf("the unused limiter is stored as %q, the factor is %v", l.stored(), s.Factor)
	}
	d := l.take()
	if l.stored() == "" {
		t.Error("the limiter is not stored after a delivery")
	}
	must(t, l.e.Configure(t.Context(), l.ref(), duly.QueueConfig{Adapt: duly.Adapt{Floor: duly.None}}))
	l.settle(d, duly.Nack)
	l.take()
	if got := l.stored(); got != "" {
		t.Errorf("without the setting, the limiter is stored as %q", got)
	}
}

// A factor is stored with all its digits, so every call continues with the same number.
func TestStateOfTheLimiterIsExact(t *testing.T) {
	t.Parallel()
	l := newLimited(t)
	l.start(200, duly.QueueConfig{})
	must(t, l.e.Configure(t.Context(), l.ref(), duly.QueueConfig{MaxLeased: 3}))
	ref, limits := adaptive.New(), adaptive.Config{Floor: 0.1, MaxLeased: 3}
	for range 40 {
		l.clock.Advance(37 * time.Millisecond)
		now := l.clock.Now().UnixMilli()
		d := l.take()
		p, _ := contract.ParseReceipt(d.Receipt)
		ref.Deliver(limits, adaptive.Moment{Now: now}, p.Number)
		l.clock.Advance(41 * time.Millisecond)
		ref.Settle(limits, adaptive.Moment{Now: now + 41, Leased: 1}, p.Number, adaptive.Success)
		l.settle(d, duly.Ack)

		fields := strings.Fields(l.stored())
		for i, want := range []float64{ref.Factor, ref.Good, ref.Allowed, ref.Busy, ref.Room, ref.Used} {
			if got, err := strconv.ParseFloat(fields[i], 64); err != nil || got != want {
				t.Fatalf("number %d is %s, want %v", i+1, fields[i], want)
			}
		}
	}
}

// C18.51: a longer lease of the probe delays the moment for which a caller waits.
func TestExtendedProbeKeepsTheQueueClosed(t *testing.T) {
	t.Parallel()
	l := newLimited(t)
	l.start(3, duly.QueueConfig{})
	probe := l.probe()
	l.clock.Advance(30 * time.Second)
	errs, err := l.e.Extend(t.Context(), "", []duly.Receipt{probe.Receipt}, time.Hour)
	must(t, errors.Join(append(errs, err)...))
	l.clock.Advance(time.Minute)
	ready, err := l.e.Wait(t.Context(), duly.WaitParams{Queues: []string{"q"}})
	if must(t, err); ready || len(l.takeAll()) != 0 {
		t.Error("the queue delivers a job beside the extended probe")
	}
	l.clock.Advance(time.Hour)
	if ready, err := l.e.Wait(t.Context(), duly.WaitParams{Queues: []string{"q"}}); err != nil || !ready {
		t.Errorf("after the end of the lease Wait returned %t, %v", ready, err)
	}
}

// C18.57: each closing, and each begin and end of probing, is a line, at most one per second.
func TestClosingsAndProbingAreLogged(t *testing.T) {
	t.Parallel()
	l := newLimited(t)
	lines := func(why string, closed, began, stopped int) {
		t.Helper()
		got := [3]int{l.log.Count("a queue is closed"), l.log.Count("a queue is probing"), l.log.Count("is no longer probing")}
		if want := [3]int{closed, began, stopped}; got != want {
			t.Errorf("%s: %v lines of closing, begin and end of probing, want %v\n%s", why, got, want, l.log.String())
		}
	}

	l.start(3, duly.QueueConfig{})
	l.fail(19)
	lines("19 failures", 0, 0, 0)
	l.fail(1)
	lines("20 failures", 0, 1, 0)
	l.clock.Advance(time.Second)
	l.settle(l.take(), duly.Nack)
	lines("a failed probe", 1, 1, 0)
	l.clock.Advance(time.Second)
	l.settle(l.take(), duly.Ack)
	lines("a good probe", 1, 1, 1)
	l.fail(20)
	lines("20 failures within the second", 2, 1, 1) // only the closing has a line
	l.clock.Advance(time.Second)
	must(t, l.e.Configure(t.Context(), l.ref(), duly.QueueConfig{Reopen: true}))
	lines("reopened", 2, 1, 2)

	// Workers that close an open queue within a second are one line.
	slow := time.Minute
	for range 3 {
		l.clock.Advance(400 * time.Millisecond)
		o := duly.SettleRequest{Receipt: l.take().Receipt, As: duly.Release, Slow: &slow, Error: "HTTP 429"}
		errs, err := l.e.Settle(t.Context(), "", []duly.SettleRequest{o})
		must(t, errors.Join(append(errs, err)...))
		must(t, l.e.Configure(t.Context(), l.ref(), duly.QueueConfig{Reopen: true}))
	}
	lines("closings within 800 ms", 3, 1, 2)
	if closed := l.log.Lines("a queue is closed"); !strings.Contains(closed[2], `for=1m0s reason="HTTP 429"`) {
		t.Errorf("the line of the closing is %s", closed[2])
	}
}

// C18.61: Check finds each fault of a limiter, and a repair mends it.
func TestCheckFindsFaultsOfTheLimiter(t *testing.T) {
	t.Parallel()
	for name, plant := range map[string]func(l *limited){
		"Unreadable": func(l *limited) { l.server.Must("HSET", l.key("tally"), "limiter", "0.5 many") },
		"Impossible": func(l *limited) {
			l.server.Must("HSET", l.key("tally"), "limiter", strings.Replace(l.stored(), "0.1", "7.1", 1))
		},
		"ProbeIsNotLeased": func(l *limited) {
			l.server.Must("HSET", l.key("tally"), "limiter", strings.Split(l.stored(), ";")[0]+";0123456789abcdef")
		},
		"ProbeEndsAtAnotherTime": func(l *limited) {
			text := l.stored()
			at := strings.LastIndex(text[:strings.Index(text, ";")], " ")
			l.server.Must("HSET", l.key("tally"), "limiter", text[:at]+" 5"+text[strings.Index(text, ";"):])
		},
		"WithoutTheSetting": func(l *limited) {
			text := l.stored()
			must(l, l.e.Configure(l.Context(), l.ref(), duly.QueueConfig{Adapt: duly.Adapt{Floor: duly.None}}))
			l.server.Must("HSET", l.key("tally"), "limiter", text)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLimited(t)
			l.start(3, duly.QueueConfig{})
			l.probe()
			plant(l)
			for _, repair := range []bool{false, true} {
				r, err := l.e.Check(t.Context(), contract.CheckParams{Repair: repair})
				must(t, err)
				if len(r.Faults) != 1 || r.Faults[0].Kind != "limiter_wrong" || r.Faults[0].Repaired != repair {
					t.Errorf("with repair %t Check returned %+v", repair, r.Faults)
				}
			}
			r, err := l.e.Check(t.Context(), contract.CheckParams{})
			must(t, err)
			if len(r.Faults) != 0 {
				t.Errorf("after the repair Check returned %+v", r.Faults)
			}

			// The queue delivers again, in any case after the end of all leases.
			l.clock.Advance(2 * time.Minute)
			l.takeAll()
			l.clock.Advance(time.Minute)
			if s := l.stats(); s.Sizes.Leased == 0 && len(l.takeAll()) == 0 {
				t.Errorf("the repaired queue delivers nothing: %+v", s)
			}
		})
	}
}

// A state that another program has damaged begins again, and makes no call fail.
func TestDamagedLimiterBeginsAgain(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "x", "nan nan", "1e999", strings.Repeat("1 ", 20) + "2 1", strings.Repeat("0 ", 22),
		strings.Repeat("1 ", 23), ";;", "-1 1"} {
		l := newLimited(t)
		l.start(5, duly.QueueConfig{})
		held := l.take()
		l.server.Must("HSET", l.key("tally"), "limiter", text)
		for _, call := range []func(){
			func() { l.settle(held, duly.Nack) },
			func() { l.settle(l.take(), duly.Ack) },
			func() { l.stats() },
			func() { must(t, l.e.Configure(t.Context(), l.ref(), duly.QueueConfig{MaxJobs: 1000})) },
		} {
			call()
			l.server.Must("HSET", l.key("tally"), "limiter", text)
		}
		if s := l.stats(); s.Factor != 1 || s.Probing != 0 {
			t.Errorf("with the state %q the stats are %+v", text, s)
		}
	}
}

// The survey reads the limiter of a queue without jobs, too.
func TestSurveyIncludesTheLimiterOfAnEmptyQueue(t *testing.T) {
	t.Parallel()
	l := newLimited(t)
	l.start(1, duly.QueueConfig{Shards: 2})
	survey := func() duly.Stats {
		t.Helper()
		page, err := l.e.Survey(t.Context(), "", duly.PageParams{})
		must(t, err)
		if len(page.Queues) != 1 {
			t.Fatalf("the survey has %+v", page.Queues)
		}
		return page.Queues[0].Stats
	}
	if s := survey(); s.Factor != 1 || s.Probing != 0 {
		t.Errorf("a new limiter: %+v", s)
	}
	l.settle(l.probe(), duly.Bury)
	must(t, l.e.Delete(t.Context(), l.ref(), "job-0"))
	if s := survey(); s.Factor != 0.1 || s.Probing != 1 || s.Closing.Until.IsZero() {
		t.Errorf("an empty queue in probing: %+v", s)
	}
}

// C18.53: a shard in probing closes the others. They learn from their own deliveries if that call is
// lost.
func TestLostCallOfAProbingShard(t *testing.T) {
	t.Parallel()
	c := newClosing(t)
	must(t, c.e.Configure(t.Context(), duly.Q("q"), duly.QueueConfig{Shards: 2, MaxLeased: 100, Adapt: duly.Adapt{Floor: 0.1}}))
	var jobs []duly.Job
	for i := range 90 {
		jobs = append(jobs, duly.Job{Queue: "q", ID: fmt.Sprint(i)})
	}
	_, err := c.e.Push(t.Context(), jobs)
	must(t, err)

	held := c.takeAll()
	if len(held["0"]) < 21 || len(held["1"]) < 2 {
		t.Fatalf("the shards have %d and %d jobs", len(held["0"]), len(held["1"]))
	}
	for _, d := range held["0"][:20] {
		c.release(d, new(time.Duration)) // an overload that closes nothing
	}
	s, err := c.e.Stats(t.Context(), duly.Q("q"))
	if must(t, err); s.Probing != 1 || s.Closing.Reason != adaptive.Reason {
		t.Errorf("the stats after 20 overloads are %+v", s)
	}
	c.release(held["1"][0], nil)
	if got := c.takeAll(); len(got["0"]) != 0 || len(got["1"]) != 1 {
		t.Errorf("%d and %d jobs are delivered, want 0 and 1", len(got["0"]), len(got["1"]))
	}
}

// C18.22, C11.16: a limited queue pays nothing for the setting if it does not have it. With it, a
// call reads the state with what it reads anyway, and stores it by one command.
func TestLimiterCostsOneCommand(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	e, err := redisengine.Open(t.Context(), redisengine.Config{URL: server.URL(), Manual: true, Clock: clock.NewFake(),
		Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	defer e.Close()
	cost := func(queue string) (all [3]map[string]int) {
		t.Helper()
		ref, ds := duly.Q(queue), []duly.Delivery(nil)
		push := func() {
			_, err := e.Push(t.Context(), []duly.Job{{Queue: queue}, {Queue: queue}})
			must(t, err)
		}
		reserve := func() {
			ds, err = e.Reserve(t.Context(), duly.ReserveParams{Queues: []string{ref.Name}, Max: 1})
			must(t, err)
		}
		settle := func() {
			delay := time.Duration(0)
			errs, err := e.Settle(t.Context(), "", []duly.SettleRequest{{Receipt: ds[0].Receipt, As: duly.Nack, Delay: &delay}})
			must(t, errors.Join(append(errs, err)...))
		}
		for _, call := range []func(){push, reserve, settle} { // the first calls read the configuration
			call()
		}
		for i, call := range []func(){push, reserve, settle} {
			all[i] = commands(t, server, call)
		}
		return all
	}

	limit := duly.QueueConfig{MaxLeased: 100}
	must(t, e.Configure(t.Context(), duly.Q("fixed"), limit))
	limit.Adapt.Floor = 0.1
	must(t, e.Configure(t.Context(), duly.Q("adapts"), limit))
	fixed, adapts := cost("fixed"), cost("adapts")
	for i, want := range []map[string]int{{}, {"HSET": 1, "ZCARD": 1}, {"HSET": 1, "ZCARD": 1}} {
		for command, n := range fixed[i] {
			want[command] += n
		}
		if !maps.Equal(adapts[i], want) {
			t.Errorf("call %d of an adaptive queue costs %v, want %v", i, adapts[i], want)
		}
	}
}

// C4.117, C11.16: Stats of a queue with a rate costs one HMGET more.
func TestTokensCostOneCommand(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	e, err := redisengine.Open(t.Context(), redisengine.Config{URL: server.URL(), Manual: true, Clock: clock.NewFake(),
		Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	defer e.Close()
	cost := func(queue string, limits duly.QueueConfig) map[string]int {
		t.Helper()
		ref := duly.Q(queue)
		must(t, e.Configure(t.Context(), ref, limits))
		_, err := e.Push(t.Context(), []duly.Job{{Queue: queue}})
		must(t, err)
		stats := func() {
			_, err := e.Stats(t.Context(), ref)
			must(t, err)
		}
		stats() // the first call reads the configuration
		return commands(t, server, stats)
	}

	free := cost("free", duly.QueueConfig{MaxLeased: 5})
	rated := cost("rated", duly.QueueConfig{Rate: duly.Rate{PerSecond: 5}})
	free["HMGET"]++
	if !maps.Equal(rated, free) {
		t.Errorf("Stats of a queue with a rate costs %v, want %v", rated, free)
	}
}

// commands returns how often a call makes the server run each command.
func commands(t *testing.T, server *redistest.Server, call func()) map[string]int {
	t.Helper()
	server.Must("CONFIG", "RESETSTAT")
	call()
	counts := map[string]int{}
	for line := range strings.Lines(fmt.Sprint(server.Must("INFO", "commandstats"))) {
		name, rest, ok := strings.Cut(strings.TrimSpace(line), ":calls=")
		n, _, _ := strings.Cut(rest, ",")
		if ok && strings.HasPrefix(name, "cmdstat_") && !strings.Contains(name, "config") && name != "cmdstat_spublish" {
			counts[strings.ToUpper(strings.TrimPrefix(name, "cmdstat_"))], _ = strconv.Atoi(n)
		}
	}
	return counts
}
