package dulytest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/dulytest"
	"github.com/dulymq/duly/enginetest"
	"github.com/dulymq/duly/worker"
)

// The engine has the operations of the contract. The conformance suite does not run on it,
// because the suite moves time itself, and this engine steps by its own.
var _ contract.Engine = (*dulytest.Engine)(nil)
var _ enginetest.Clock = (*dulytest.Clock)(nil)
var _ dulytest.Runner = (*worker.Worker)(nil)

func push(t *testing.T, e *dulytest.Engine, queue, body string, opts ...duly.Option) string {
	t.Helper()
	r, err := e.Client().Push(t.Context(), queue, []byte(body), opts...)
	if err != nil {
		t.Fatal(err)
	}
	return r.ID
}

func TestAdvanceMakesJobsDue(t *testing.T) {
	t.Parallel()
	e := dulytest.New(t)
	week := 7 * 24 * time.Hour
	push(t, e, "q", "x", duly.Delay(week))
	e.Advance(week - time.Millisecond)
	if job := e.Only("q"); job.State != duly.StateDelayed {
		t.Errorf("a millisecond before its time the job is %s, want delayed", job.State)
	}
	e.Advance(time.Millisecond)
	if job := e.Only("q"); job.State != duly.StateReady {
		t.Errorf("at its time the job is %s, want ready", job.State)
	}
}

func TestDrainHandlesWhatIsDeliverable(t *testing.T) {
	t.Parallel()
	e := dulytest.New(t)
	push(t, e, "q", "good")
	push(t, e, "q", "bad", duly.Tries(2), duly.Retry("fixed:1m"))
	push(t, e, "q", "later", duly.Delay(time.Hour))
	var got []string
	handle := func(_ context.Context, d *worker.Delivery) error {
		got = append(got, string(d.Body))
		if string(d.Body) == "bad" {
			return errors.New("no")
		}
		return nil
	}
	if n := e.Drain("q", handle); n != 2 || !slices.Equal(got, []string{"good", "bad"}) {
		t.Errorf("drained %d jobs, %q", n, got)
	}
	e.Advance(time.Minute)
	if n := e.Drain("q", handle); n != 1 {
		t.Errorf("drained %d jobs, want the second try", n)
	}
	if dead := e.Dead("q"); len(dead) != 1 || dead[0].LastError != "no" {
		t.Errorf("dead are %+v, want one with its error", dead)
	}
	if job := e.Only("q"); string(job.Body) != "later" {
		t.Errorf("%q waits", job.Body)
	}
}

// The clock jumps over three ticks. Each fires at its own time.
func TestTicksFireWhenTheClockPassesThem(t *testing.T) {
	t.Parallel()
	e := dulytest.New(t)
	_, err := e.PutSchedule(t.Context(), duly.Q("q"), duly.Schedule{Name: "s", Spec: "@daily", Overlap: duly.OverlapAllow})
	if err != nil {
		t.Fatal(err)
	}
	start := e.Clock.Now()
	e.Advance(24*time.Hour - time.Millisecond)
	e.None("q")
	e.Advance(48*time.Hour + time.Millisecond)
	runs := e.Waiting("q")
	for i, run := range runs {
		tick := start.Add(time.Duration(i+1) * 24 * time.Hour)
		if !run.Due.Equal(tick) || !run.PushedAt.Equal(tick) {
			t.Errorf("run %d was pushed at %s and is due at %s, want %s", i, run.PushedAt, run.Due, tick)
		}
	}
	if len(runs) != 3 {
		t.Errorf("%d runs wait, want 3", len(runs))
	}
}

// A step of the clock fires no timer. The next look at the queue fires the due ticks, like a
// process that was suspended.
func TestStepOverTicksFiresTheLatest(t *testing.T) {
	t.Parallel()
	e := dulytest.New(t)
	if _, err := e.PutSchedule(t.Context(), duly.Q("q"), duly.Schedule{Name: "s", Spec: "@hourly"}); err != nil {
		t.Fatal(err)
	}
	e.Clock.Step(150 * time.Minute)
	want := contract.TickText(e.Clock.Now().Add(-30 * time.Minute).UnixMilli())
	if run := e.Only("q"); run.Headers[duly.HeaderTick] != want {
		t.Errorf("the run has the tick %s, want %s", run.Headers[duly.HeaderTick], want)
	}
	if i, err := e.GetSchedule(t.Context(), duly.Q("q"), "s"); err != nil || i.Missed != 1 {
		t.Errorf("%+v, %v; want one missed tick", i, err)
	}
}

func TestTriggerPushesARun(t *testing.T) {
	t.Parallel()
	e := dulytest.New(t)
	s := duly.Schedule{Name: "s", Spec: "@yearly", Template: duly.Job{Body: []byte("report")}}
	if _, err := e.PutSchedule(t.Context(), duly.Q("q"), s); err != nil {
		t.Fatal(err)
	}
	for _, want := range []duly.PushStatus{duly.Created, duly.Merged} {
		if r, err := e.Client().Trigger(t.Context(), "q", "s"); err != nil || r.Status != want {
			t.Errorf("trigger: %+v, %v; want %s", r, err, want)
		}
	}
	if run := e.Only("q"); string(run.Body) != "report" || run.Headers[duly.HeaderTrigger] != "manual" {
		t.Errorf("the run is %+v", run)
	}
}

// A group is drained as a queue is, and messages that are due enter the log.
func TestTopicsWorkAsQueuesDo(t *testing.T) {
	t.Parallel()
	e := dulytest.New(t)
	if _, err := e.CreateGroup(t.Context(), duly.Q("orders@mail"), duly.FromStart); err != nil {
		t.Fatal(err)
	}
	for _, m := range []duly.Message{{Topic: "orders", Body: []byte("now")}, {Topic: "orders", Body: []byte("later"), Delay: time.Hour}} {
		if _, err := e.Client().Publish(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	published := func() (bodies []string) {
		for _, entry := range e.Published("orders") {
			bodies = append(bodies, string(entry.Body))
		}
		return bodies
	}
	if got := published(); !slices.Equal(got, []string{"now"}) {
		t.Errorf("the log holds %q", got)
	}
	var got []string
	handle := func(_ context.Context, d *worker.Delivery) error {
		got = append(got, string(d.Body))
		return nil
	}
	if n := e.Drain("orders@mail", handle); n != 1 {
		t.Errorf("drained %d messages, want 1", n)
	}
	e.Advance(time.Hour)
	if n := e.Drain("orders@mail", handle); n != 1 || !slices.Equal(got, []string{"now", "later"}) {
		t.Errorf("drained %d messages, %q in all", n, got)
	}
	if got := published(); got != nil {
		t.Errorf("the log holds %q although the group has handled all", got)
	}
}

// Drain settles a job by the handler's error, as a worker does.
func TestDrainSettlesAsAWorkerDoes(t *testing.T) {
	t.Parallel()
	e := dulytest.New(t)
	for _, body := range []string{"snooze", "bury", "retry", "result"} {
		push(t, e, "q", body, duly.ID(body), duly.Retain(time.Hour))
	}
	n := e.Drain("q", func(ctx context.Context, d *worker.Delivery) error {
		if of, ok := worker.FromContext(ctx); !ok || of != d {
			t.Error("the context has no delivery")
		}
		switch string(d.Body) {
		case "snooze":
			return worker.Snooze(time.Minute)
		case "bury":
			return worker.Bury(errors.New("no such user"))
		case "retry":
			return worker.RetryAfter(time.Hour, errors.New("busy"))
		}
		return d.SetResult([]byte("sent"))
	})
	if n != 4 {
		t.Errorf("%d deliveries, want 4", n)
	}

	now := e.Clock.Now()
	waiting := e.Waiting("q")
	if len(waiting) != 2 || waiting[0].ID != "snooze" || !waiting[0].Due.Equal(now.Add(time.Minute)) ||
		waiting[0].Failures != 0 || waiting[1].ID != "retry" || !waiting[1].Due.Equal(now.Add(time.Hour)) || waiting[1].Failures != 1 {
		t.Errorf("waiting are %+v", waiting)
	}
	if dead := e.Dead("q"); len(dead) != 1 || dead[0].LastError != "no such user" {
		t.Errorf("dead are %+v", dead)
	}
	if done, err := e.Get(t.Context(), duly.Q("q"), "result"); err != nil || string(done.Result) != "sent" {
		t.Errorf("the result is %q, %v", done.Result, err)
	}
}

// A unit test may call a typed handler with a job that was never delivered.
func TestTypedHandlerTakesAJobWithoutADelivery(t *testing.T) {
	t.Parallel()
	handle := func(_ context.Context, job *worker.Job[int]) error {
		return job.SetResult(fmt.Append(nil, job.ID, job.Attempt, job.Value))
	}
	if err := handle(t.Context(), &worker.Job[int]{Value: 17}); err != nil {
		t.Error(err)
	}
}

func TestDrainStoresTheResultOfATypedHandler(t *testing.T) {
	t.Parallel()
	e := dulytest.New(t)
	push(t, e, "q", "17", duly.ID("a"), duly.Retain(time.Hour))
	e.Drain("q", worker.JSON(func(_ context.Context, job *worker.Job[int]) error {
		return job.SetResultJSON(job.Value + 1)
	}))
	if done, err := e.Get(t.Context(), duly.Q("q"), "a"); err != nil || string(done.Result) != "18" {
		t.Errorf("the result is %q, %v", done.Result, err)
	}
}

func TestWaitingIsInTheOrderOfDueTimes(t *testing.T) {
	t.Parallel()
	e := dulytest.New(t)
	push(t, e, "q", "third", duly.Delay(time.Hour))
	push(t, e, "q", "first", duly.OrderKey("k"))
	push(t, e, "q", "second", duly.OrderKey("k"))
	jobs := e.Waiting("q")
	var got []string
	for _, j := range jobs {
		got = append(got, fmt.Sprint(j.State, " ", string(j.Body)))
	}
	want := []string{"ready first", "blocked second", "delayed third"}
	if !slices.Equal(got, want) {
		t.Errorf("waiting are %q, want %q", got, want)
	}
	e.None("another")
}

// journal records what handlers did, and the time on the engine's clock.
type journal struct {
	mu    sync.Mutex
	clock *dulytest.Clock
	lines []string
}

func (j *journal) note(text string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, j.clock.Now().Format("15:04:05.000")+" "+text)
}

func (j *journal) is(t *testing.T, want ...string) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	if !slices.Equal(j.lines, want) {
		t.Errorf("the journal says\n%s\nwant\n%s", strings.Join(j.lines, "\n"), strings.Join(want, "\n"))
	}
}

// A started worker handles each job exactly at its due time, however far Advance moves the
// clock.
func TestAdvanceWaitsForWorkersAtEachDueTime(t *testing.T) {
	t.Parallel()
	for _, clocked := range []bool{false, true} {
		t.Run(fmt.Sprintf("WorkerOnTheEnginesClock=%t", clocked), func(t *testing.T) {
			t.Parallel()
			e := dulytest.New(t)
			j := &journal{clock: e.Clock}
			cfg := worker.Config{Logger: quiet}
			if clocked {
				cfg.Clock = e.Clock
			}
			w := worker.New(e, cfg)
			w.Handle("q", func(_ context.Context, d *worker.Delivery) error {
				j.note(fmt.Sprintf("%s %d", d.Body, d.Attempt))
				if d.Attempt < 3 {
					return errors.New("not yet")
				}
				return nil
			})
			push(t, e, "q", "now", duly.Retry("90s"))
			e.Start(w)
			push(t, e, "q", "later", duly.Delay(2*time.Hour), duly.Retry("10m,1500ms"))
			e.Advance(3 * time.Hour)
			j.is(t, "00:00:00.000 now 1", "00:01:30.000 now 2", "00:03:00.000 now 3",
				"02:00:00.000 later 1", "02:10:00.000 later 2", "02:10:01.500 later 3")
			e.None("q")
		})
	}
}

// Several workers share the jobs.
func TestIdleWaitsForJobsThatHandlersPush(t *testing.T) {
	t.Parallel()
	e := dulytest.New(t)
	j := &journal{clock: e.Clock}
	for range 3 {
		w := worker.New(e, worker.Config{Concurrency: 2, Logger: quiet})
		w.Handle("q", func(ctx context.Context, d *worker.Delivery) error {
			j.note(string(d.Body))
			if len(d.Body) < 5 {
				_, err := e.Client().Push(ctx, "q", append(d.Body, 'x'))
				return err
			}
			return nil
		})
		e.Start(w)
	}
	push(t, e, "q", "x")
	e.Idle()
	j.is(t, "00:00:00.000 x", "00:00:00.000 xx", "00:00:00.000 xxx", "00:00:00.000 xxxx", "00:00:00.000 xxxxx")
}

func TestEngineWorksInASynctestBubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := dulytest.New(t)
		j := &journal{clock: e.Clock}
		w := worker.New(e, worker.Config{Logger: quiet})
		w.Handle("q", func(context.Context, *worker.Delivery) error { j.note("done"); return nil })
		e.Start(w)
		push(t, e, "q", "", duly.Delay(time.Minute))
		e.Advance(time.Hour)
		j.is(t, "00:01:00.000 done")
	})
}

// failedTest is a TB that records how the test was ended.
type failedTest struct {
	testing.TB
	text string
}

func (b *failedTest) Fatalf(format string, args ...any) { b.text += fmt.Sprintf(format, args...) }
func (b *failedTest) Cleanup(f func())                  { b.TB.Cleanup(f) }

func TestUnmetExpectationFailsTheTest(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, want string
		do         func(e *dulytest.Engine)
	}{
		{"OnlyOfNone", "0 jobs wait in queue q, want 1", func(e *dulytest.Engine) { e.Only("q") }},
		{"OnlyOfTwo", "2 jobs wait in queue q, want 1\n  ready a", func(e *dulytest.Engine) {
			push(t, e, "q", "", duly.ID("a"))
			push(t, e, "q", "", duly.ID("b"))
			e.Only("q")
		}},
		{
			"None", "1 jobs wait in queue q, want none\n  delayed a due 2030-01-01T01:00:00.000Z, body \"to: ada\"",
			func(e *dulytest.Engine) {
				push(t, e, "q", "to: ada", duly.ID("a"), duly.Delay(time.Hour))
				e.None("q")
			},
		},
		{
			"DrainOfAJobThatComesBackAtOnce", "job a came back 1000 times within one Drain, body \"x\"",
			func(e *dulytest.Engine) {
				push(t, e, "q", "x", duly.ID("a"))
				e.Drain("q", func(context.Context, *worker.Delivery) error { return worker.Release() })
			},
		},
		{"AdvanceBackwards", "time can't go back by 1s", func(e *dulytest.Engine) { e.Advance(-time.Second) }},
		{"WorkerWithoutHandlers", "a worker has ended: invalid: queues are 0", func(e *dulytest.Engine) {
			e.Start(worker.New(e, worker.Config{Logger: quiet}))
		}},
		{"Closed", "the engine is closed", func(e *dulytest.Engine) { e.Close(); e.Waiting("q") }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := &failedTest{TB: t}
			defer func() {
				recover() // the method continues after the end of the test, and may panic
				if !strings.Contains(b.text, tt.want) {
					t.Errorf("ended with %q, want %q", b.text, tt.want)
				}
			}()
			tt.do(dulytest.New(b))
		})
	}
}

func TestIdleReportsABlockedHandler(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // in a bubble, the time limit passes at once
		b := &failedTest{TB: t}
		e := dulytest.New(b)
		w := worker.New(e, worker.Config{Logger: quiet})
		release := make(chan struct{})
		w.Handle("q", func(context.Context, *worker.Delivery) error { <-release; return nil })
		e.Start(w)
		push(t, e, "q", "")
		e.Idle()
		if !strings.Contains(b.text, "a handler blocks") {
			t.Errorf("ended with %q", b.text)
		}
		close(release)
	})
}

func TestFailurePanicsWithoutATest(t *testing.T) {
	t.Parallel()
	e := dulytest.New(nil)
	defer e.Close()
	defer func() {
		if r := recover(); r != "dulytest: 0 jobs wait in queue q, want 1" {
			t.Errorf("panics with %v", r)
		}
	}()
	e.Only("q")
}
