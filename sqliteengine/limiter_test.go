package sqliteengine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/adaptive"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/logtest"
	"github.com/dulymq/duly/internal/proctest"
)

// limited is a queue with adaptive limits, and one job that survives any number of failures.
type limited struct {
	*testing.T
	e     *Engine
	clock *clock.Fake
	path  string
	queue string
	lease time.Duration
}

func newLimited(t *testing.T) *limited {
	t.Helper()
	l := &limited{T: t, clock: clock.NewFake(), queue: "q", lease: time.Minute}
	l.path = filepath.Join(t.TempDir(), "duly.db")
	l.open()
	t.Cleanup(func() { l.e.Close() })
	return l
}

func (l *limited) open() {
	l.Helper()
	var err error
	l.e, err = Open(context.Background(), Config{Path: l.path, Clock: l.clock, Manual: true, Logger: quiet(),
		Synchronous: SyncNormal})
	l.must(err)
}

func (l *limited) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

// take reserves the job.
func (l *limited) take() duly.Delivery {
	l.Helper()
	got, err := l.e.Reserve(context.Background(), duly.ReserveParams{Queues: []string{l.queue}, Max: 10, Lease: l.lease})
	l.must(err)
	if len(got) != 1 {
		l.Fatalf("%d jobs are delivered, want 1", len(got))
	}
	return got[0]
}

func (l *limited) settle(d duly.Delivery, as duly.Settlement) {
	l.Helper()
	l.must(settleAs(l.e, d.Receipt, as))
}

// settleAs settles a delivery. A nack makes the job ready at once.
func settleAs(e *Engine, r duly.Receipt, as duly.Settlement) error {
	o := duly.SettleRequest{Receipt: r, As: as}
	if as == duly.Nack {
		o.Delay = new(time.Duration)
	}
	errs, err := e.Settle(context.Background(), "", []duly.SettleRequest{o})
	return errors.Join(append(errs, err)...)
}

// fail makes the job fail n times.
func (l *limited) fail(n int) {
	l.Helper()
	for range n {
		l.settle(l.take(), duly.Nack)
	}
}

// start configures the queue and pushes the job.
func (l *limited) start() {
	l.Helper()
	l.must(l.e.Configure(context.Background(), duly.Q(l.queue),
		duly.QueueConfig{MaxLeased: 5, Rate: duly.Rate{PerSecond: 1000}, Adapt: duly.Adapt{Floor: 0.1}}))
	results, err := l.e.Push(context.Background(), []duly.Job{{Queue: l.queue, ID: "probe", Tries: duly.MaxTries}})
	l.must(errors.Join(err, results[0].Err))
}

// startProbing makes the queue probe.
func (l *limited) startProbing() {
	l.Helper()
	l.start()
	l.fail(20)
}

// state returns the state of the limiter as the writer knows it.
func (l *limited) state() (state adaptive.State) {
	l.Helper()
	l.must(l.e.change(context.Background(), func(t *tx) error {
		state = adaptive.State{}
		if q := t.peek(duly.Q(l.queue).Normal()); q != nil && q.limiter != nil {
			state = *q.limiter
		}
		return nil
	}))
	return state
}

// limiterStep is a call that changes the limiter. wait is the time between prepare and the call.
type limiterStep struct {
	name    string
	prepare func(l *limited) duly.Receipt
	wait    time.Duration
	call    func(e *Engine, r duly.Receipt) error
}

// limiterSteps returns each kind of call that changes the limiter.
func limiterSteps() []limiterStep {
	settles := func(as duly.Settlement) func(*Engine, duly.Receipt) error {
		return func(e *Engine, r duly.Receipt) error { return settleAs(e, r, as) }
	}
	probe := func(l *limited) duly.Receipt {
		l.startProbing()
		l.clock.Advance(time.Second)
		return l.take().Receipt
	}
	return []limiterStep{
		{"deliver", func(l *limited) duly.Receipt { l.start(); return "" }, 0, reserveOne},
		{"ack", func(l *limited) duly.Receipt { l.start(); return l.take().Receipt }, 0, settles(duly.Ack)},
		{"overload", func(l *limited) duly.Receipt { l.start(); return l.take().Receipt }, time.Second,
			func(e *Engine, r duly.Receipt) error {
				o := duly.SettleRequest{Receipt: r, As: duly.Release, Slow: new(time.Duration)}
				errs, err := e.Settle(context.Background(), "", []duly.SettleRequest{o})
				return errors.Join(append(errs, err)...)
			}},
		{"begin of probing", func(l *limited) duly.Receipt { l.start(); l.fail(19); return l.take().Receipt }, 0,
			settles(duly.Nack)},
		{"begin of a probe", func(l *limited) duly.Receipt { l.startProbing(); return "" }, time.Second, reserveOne},
		{"good probe", probe, 0, settles(duly.Ack)},
		{"failed probe", probe, 0, settles(duly.Nack)},
		{"buried probe", probe, 0, settles(duly.Bury)},
		{"deleted probe", probe, 0, func(e *Engine, _ duly.Receipt) error {
			return e.Delete(context.Background(), duly.Q("q"), "probe")
		}},
		{"purged probe", probe, 0, func(e *Engine, _ duly.Receipt) error {
			return second(e.Purge(context.Background(), duly.Q("q"), duly.StateLeased, 0))
		}},
		{"stalled probe", probe, time.Minute, func(e *Engine, _ duly.Receipt) error {
			return second(e.Step(context.Background(), duly.Q("q")))
		}},
		{"reopen", probe, 0, func(e *Engine, _ duly.Receipt) error {
			return e.Configure(context.Background(), duly.Q("q"), duly.QueueConfig{Reopen: true})
		}},
		{"adapt none", probe, 0, func(e *Engine, _ duly.Receipt) error {
			return e.Configure(context.Background(), duly.Q("q"), duly.QueueConfig{Adapt: duly.Adapt{Floor: duly.None}})
		}},
		{"destroy", probe, 0, func(e *Engine, _ duly.Receipt) error {
			return e.Destroy(context.Background(), duly.Q("q"))
		}},
	}
}

func reserveOne(e *Engine, _ duly.Receipt) error {
	return second(e.Reserve(context.Background(), duly.ReserveParams{Queues: []string{"q"}, Max: 1, Lease: time.Minute}))
}

// C18.28: after a restart, the limiter has the state of the last committed call.
func TestLimiterSurvivesARestart(t *testing.T) {
	t.Parallel()
	for _, step := range limiterSteps() {
		t.Run(step.name, func(t *testing.T) {
			t.Parallel()
			l := newLimited(t)
			receipt := step.prepare(l)
			before := l.state()
			l.clock.Advance(step.wait)
			l.must(step.call(l.e, receipt))
			after := l.state()
			if after == before {
				t.Error("the call does not change the limiter")
			}
			l.must(l.e.Close())
			l.open()
			if got := l.state(); got != after {
				t.Errorf("after the restart the state is\n%+v, want\n%+v", got, after)
			}
			l.checked()
		})
	}
}

// checked runs a Check, which must find no faults.
func (l *limited) checked() {
	l.Helper()
	if report, err := l.e.Check(l.Context(), contract.CheckParams{}); err != nil || len(report.Faults) > 0 {
		l.Errorf("the check says %+v, %v", report.Faults, err)
	}
}

// When the process dies.
const (
	diesInside = "inside"
	diesAfter  = "after"
)

// runLimiting makes one call. It waits inside the transaction of the call, or after it, until it
// is killed.
func runLimiting(args []string) error {
	path, name, receipt, moment, at := args[0], args[1], duly.Receipt(args[2]), args[3], args[4]
	passed, err := time.ParseDuration(at)
	if err != nil {
		return err
	}
	c := clock.NewFake()
	c.Advance(passed)
	e, err := Open(context.Background(), Config{Path: path, Clock: c, Manual: true, Logger: quiet()})
	if err != nil {
		return err
	}
	var call func(*Engine, duly.Receipt) error
	for _, step := range limiterSteps() {
		if step.name == name {
			call = step.call
		}
	}
	if moment == diesAfter {
		if err := call(e, receipt); err != nil {
			return err
		}
		fmt.Println("reached")
		select {}
	}

	// Calls that wait for the writer share the next transaction.
	ctx, busy, free := context.Background(), make(chan struct{}), make(chan struct{})
	go e.change(ctx, func(*tx) error { close(busy); <-free; return nil })
	<-busy
	go call(e, receipt)
	for waiting(e) == 0 {
		runtime.Gosched()
	}
	go e.change(ctx, func(*tx) error { fmt.Println("reached"); select {} })
	for waiting(e) < 2 {
		runtime.Gosched()
	}
	close(free)
	select {}
}

// C18.28: a call and its effect on the limiter are stored together, or not at all.
func TestLimiterSurvivesAKilledProcess(t *testing.T) {
	t.Parallel()
	for _, step := range limiterSteps() {
		for _, moment := range []string{diesInside, diesAfter} {
			t.Run(step.name+"/"+moment, func(t *testing.T) {
				t.Parallel()
				l := newLimited(t)
				receipt := step.prepare(l)
				want := l.state()
				l.must(l.e.Close())

				// The same call in this process, on a copy of the file, has the state that must follow.
				l.clock.Advance(step.wait)
				if moment == diesAfter {
					want = l.afterCopy(step, receipt)
				}
				passed := l.clock.Now().Sub(clock.Epoch).String()
				p := proctest.Start(t, proctest.Options{}, "limit", l.path, step.name, string(receipt), moment, passed)
				if !p.Await("reached", 1, time.Minute) {
					t.Fatalf("the process says %q", p.Lines())
				}
				p.Kill()

				l.open()
				if got := l.state(); got != want {
					t.Errorf("after the kill the state is\n%+v, want\n%+v", got, want)
				}
				l.checked()
			})
		}
	}
}

// afterCopy returns the state after a call on a copy of the closed file.
func (l *limited) afterCopy(step limiterStep, receipt duly.Receipt) adaptive.State {
	l.Helper()
	text, err := os.ReadFile(l.path)
	l.must(err)
	other := &limited{T: l.T, clock: l.clock, queue: l.queue, path: filepath.Join(l.TempDir(), "duly.db")}
	l.must(os.WriteFile(other.path, text, 0o600))
	other.open()
	defer other.e.Close()
	l.must(step.call(other.e, receipt))
	return other.state()
}

// C18.57: each closing, and each begin and end of probing, is a line, at most one per second.
func TestClosingsAndProbingAreLogged(t *testing.T) {
	t.Parallel()
	var log logtest.Log
	l := &limited{T: t, clock: clock.NewFake(), queue: "q", lease: time.Minute}
	l.path = filepath.Join(t.TempDir(), "duly.db")
	var err error
	l.e, err = Open(t.Context(), Config{Path: l.path, Clock: l.clock, Manual: true, Logger: log.Logger()})
	l.must(err)
	t.Cleanup(func() { l.e.Close() })
	lines := func(why string, closed, began, stopped int) {
		t.Helper()
		got := [3]int{log.Count("a queue is closed"), log.Count("a queue is probing"), log.Count("is no longer probing")}
		if want := [3]int{closed, began, stopped}; got != want {
			t.Errorf("%s: %v lines of closing, begin and end of probing, want %v\n%s", why, got, want, log.String())
		}
	}

	l.start()
	l.fail(19)
	lines("19 failures", 0, 0, 0)
	l.fail(1)
	lines("20 failures", 0, 1, 0)
	l.clock.Advance(time.Second)
	l.settle(l.take(), duly.Nack)
	lines("a failed probe", 1, 1, 0)
	l.clock.Advance(time.Second)
	l.settle(l.take(), duly.Release)
	lines("a released probe", 2, 1, 0)
	l.clock.Advance(time.Second)
	d := l.take()
	l.must(l.e.Configure(t.Context(), duly.Q("q"), duly.QueueConfig{Reopen: true}))
	lines("reopened", 2, 1, 1)

	// Workers that close an open queue within a second are one line.
	slow := time.Minute
	for range 3 {
		errs, err := l.e.Settle(t.Context(), "", []duly.SettleRequest{{Receipt: d.Receipt, As: duly.Release, Slow: &slow,
			Error: "HTTP 429"}})
		l.must(errors.Join(append(errs, err)...))
		l.clock.Advance(400 * time.Millisecond)
		l.must(l.e.Configure(t.Context(), duly.Q("q"), duly.QueueConfig{Reopen: true}))
		d = l.take()
	}
	lines("closings after 0, 400 and 800 ms", 3, 1, 1)
	if closed := log.Lines("a queue is closed"); !strings.Contains(closed[2], `for=1m0s reason="HTTP 429"`) {
		t.Errorf("the line of the closing is %s", closed[2])
	}
}

// limiterFailpoints returns operations of queues with adaptive limits.
func limiterFailpoints() []failpointOp {
	start := func(f *failpoints, q duly.QueueRef) *limited {
		l := &limited{T: f.T, e: f.e, clock: f.clock, queue: q.Name, lease: time.Minute}
		l.start()
		return l
	}
	return []failpointOp{
		{"fail", 0, func(f *failpoints, q duly.QueueRef) func() error {
			d := start(f, q).take()
			return func() error { return settleAs(f.e, d.Receipt, duly.Nack) }
		}},
		{"end adaptive limits", 0, func(f *failpoints, q duly.QueueRef) func() error {
			start(f, q)
			return func() error {
				return f.e.Configure(f.Context(), q, duly.QueueConfig{Adapt: duly.Adapt{Floor: duly.None}})
			}
		}},
	}
}

// C18.22: a queue without adaptive limits runs none of the statements of limiters.
func TestLimiterCostsNothingWithoutAdapt(t *testing.T) {
	t.Parallel()
	l := newLimited(t)
	l.must(l.e.Configure(t.Context(), duly.Q("q"), duly.QueueConfig{MaxLeased: 5, Rate: duly.Rate{PerSecond: 1000}}))
	ran := func() (names []string) {
		l.must(l.e.change(t.Context(), func(tx *tx) error {
			names = nil
			for name := range tx.named {
				names = append(names, name)
			}
			return nil
		}))
		return names
	}
	for _, as := range []duly.Settlement{duly.Nack, duly.Release, duly.Ack} {
		results, err := l.e.Push(t.Context(), []duly.Job{{Queue: "q"}})
		l.must(errors.Join(err, results[0].Err))
		l.settle(l.take(), as)
		l.must(second(l.e.Purge(t.Context(), duly.Q("q"), duly.StateReady, 0)))
	}
	l.must(second(l.e.Stats(t.Context(), duly.Q("q"))))
	l.must(l.e.Destroy(t.Context(), duly.Q("q")))
	for _, name := range ran() {
		if len(name) > 7 && name[:7] == "limiter" {
			t.Errorf("a queue without adaptive limits runs %s", name)
		}
	}
}
