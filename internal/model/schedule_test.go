package model_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/model"
)

func putSchedule(t *testing.T, e *model.Engine, s duly.Schedule) duly.SchedulePut {
	t.Helper()
	put, err := e.PutSchedule(t.Context(), duly.Q("q"), s)
	if err != nil {
		t.Fatal(err)
	}
	return put
}

func scheduleOf(t *testing.T, e *model.Engine, name string) duly.ScheduleInfo {
	t.Helper()
	info, err := e.GetSchedule(t.Context(), duly.Q("q"), name)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// ticks lists the ticks of the waiting jobs of queue q.
func ticks(t *testing.T, e *model.Engine) (all []string) {
	t.Helper()
	for _, state := range []duly.State{duly.StateReady, duly.StateDelayed} {
		page, err := e.List(t.Context(), duly.Q("q"), duly.ListParams{State: state})
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range page.Jobs {
			all = append(all, j.Headers[duly.HeaderTick])
		}
	}
	return all
}

func after(d time.Duration) string { return contract.TickText(clock.Epoch.Add(d).UnixMilli()) }

// C17.109, C17.114: the engine's timer fires each tick at its time, without a caller.
func TestTickFiresByItself(t *testing.T) {
	t.Parallel()
	e, c := own(t)
	putSchedule(t, e, duly.Schedule{Name: "s", Spec: "@every 1m", Overlap: duly.OverlapAllow})
	c.Advance(time.Minute - time.Millisecond)
	if got := ticks(t, e); got != nil {
		t.Errorf("1 ms early: %q", got)
	}
	c.Advance(time.Millisecond)
	c.Advance(2 * time.Minute) // jumps over two ticks
	want := []string{after(time.Minute), after(2 * time.Minute), after(3 * time.Minute)}
	if got := ticks(t, e); !slices.Equal(got, want) {
		t.Errorf("fired %q, want %q", got, want)
	}
	if i := scheduleOf(t, e, "s"); i.Fired != 3 || i.Missed != 0 || !i.Next.Equal(clock.Epoch.Add(4*time.Minute)) {
		t.Errorf("%+v", i)
	}
}

// C17.107: one of several waiters wakes for a tick, in an engine that fires by its timer and
// in one that fires in Reserve only.
func TestTickWakesOneWaiter(t *testing.T) {
	t.Parallel()
	for _, manual := range []bool{false, true} {
		t.Run(fmt.Sprintf("manual=%t", manual), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := clock.NewFake()
				e := model.New(model.Config{Clock: c, Manual: manual})
				defer e.Close()
				putSchedule(t, e, duly.Schedule{Name: "s", Spec: "@every 1m"})
				woken := make(chan bool, 2)
				for range 2 {
					go func() {
						ready, err := e.Wait(t.Context(), duly.WaitParams{Queues: []string{"q"}, Timeout: 2 * time.Minute})
						woken <- ready && err == nil
					}()
				}
				synctest.Wait()
				c.Advance(time.Minute)
				synctest.Wait()
				if len(woken) != 1 || !<-woken {
					t.Error("want one waiter woken")
				}
				if d := reserve(t, e, 1)[0]; d.Headers[duly.HeaderTick] != after(time.Minute) {
					t.Errorf("took %+v", d.Job)
				}
				e.Close()
				<-woken
			})
		})
	}
}

// dueInFullQueue returns an engine with a due tick and a job that leaves no room for its run.
func dueInFullQueue(t *testing.T) (*model.Engine, *clock.Fake) {
	t.Helper()
	e, c := own(t)
	if err := e.Configure(t.Context(), duly.Q("q"), duly.QueueConfig{MaxJobs: 1}); err != nil {
		t.Fatal(err)
	}
	push(t, e, duly.Job{Queue: "q", ID: "first", Delay: time.Hour})
	putSchedule(t, e, duly.Schedule{Name: "s", Spec: "@every 1m"})
	c.Advance(time.Minute)
	return e, c
}

// C17.93: a tick into a full queue stays due. The process holds the tick for 2 s, and wakes no
// waiter during that time.
func TestTickOfAFullQueueIsRepeatedLater(t *testing.T) {
	t.Parallel()
	e, c := dueInFullQueue(t)
	if ready, err := e.Wait(t.Context(), duly.WaitParams{Queues: []string{"q"}}); ready || err != nil {
		t.Errorf("wait: %t, %v", ready, err)
	}

	if err := e.Delete(t.Context(), duly.Q("q"), "first"); err != nil {
		t.Fatal(err)
	}
	next, ok := e.NextMoment()
	if want := clock.Epoch.Add(time.Minute + contract.FullPause); !ok || !next.Equal(want) {
		t.Errorf("the next moment is %s, want %s", next, want)
	}
	c.Advance(contract.FullPause - time.Millisecond)
	if got := ticks(t, e); got != nil {
		t.Errorf("1 ms before the end of the pause: %q", got)
	}
	c.Advance(time.Millisecond)
	if got := ticks(t, e); !slices.Equal(got, []string{after(time.Minute)}) {
		t.Errorf("after the pause: %q", got)
	}
}

// A change of a schedule ends its pause after a full queue.
func TestChangedScheduleIsFiredAtOnce(t *testing.T) {
	t.Parallel()
	e, _ := dueInFullQueue(t)
	if err := e.Delete(t.Context(), duly.Q("q"), "first"); err != nil {
		t.Fatal(err)
	}
	putSchedule(t, e, duly.Schedule{Name: "s", Spec: "@every 1m", Template: duly.Job{Priority: 1}})
	if got := ticks(t, e); !slices.Equal(got, []string{after(time.Minute)}) {
		t.Errorf("after the put: %q", got)
	}
}

// Callers may change the values that they passed in and the results that they got.
func TestSchedulesShareNothingWithCallers(t *testing.T) {
	t.Parallel()
	e, c := own(t)
	template := duly.Job{Body: []byte("body"), Headers: map[string]string{"h": "v"}}
	s := duly.Schedule{Name: "s", Spec: "@every 1m", Template: template}
	putSchedule(t, e, s)
	damage := func(j duly.Job) {
		j.Body[0], j.Headers["h"] = 'X', "X"
	}
	damage(s.Template)
	damage(scheduleOf(t, e, "s").Template)
	page, err := e.Schedules(t.Context(), duly.Q("q"), duly.PageParams{})
	if err != nil || len(page.Schedules) != 1 {
		t.Fatal(page, err)
	}
	damage(page.Schedules[0].Template)
	c.Step(time.Minute)
	due, err := e.DueSchedules(t.Context(), duly.Q("q"), 0, "")
	if err != nil || len(due.Schedules) != 1 {
		t.Fatal(due, err)
	}
	damage(due.Schedules[0].Template)

	d := reserve(t, e, 1)[0]
	if string(d.Body) != "body" || d.Headers["h"] != "v" {
		t.Errorf("the run has %q, %q", d.Body, d.Headers)
	}
}

// C17.145: Check passes over every kind of change.
func TestCheckFindsNoFaultInSchedules(t *testing.T) {
	t.Parallel()
	e, c := own(t)
	for i := range 20 {
		putSchedule(t, e, duly.Schedule{Name: fmt.Sprintf("s%d", i), Spec: fmt.Sprintf("@every %ds", 20-i)})
	}
	for i := range 5 {
		if err := e.PauseSchedule(t.Context(), duly.Q("q"), fmt.Sprintf("s%d", i)); err != nil {
			t.Fatal(err)
		}
		if err := e.DeleteSchedule(t.Context(), duly.Q("q"), fmt.Sprintf("s%d", i+5), 0); err != nil {
			t.Fatal(err)
		}
		if i < 3 {
			if err := e.ResumeSchedule(t.Context(), duly.Q("q"), fmt.Sprintf("s%d", i)); err != nil {
				t.Fatal(err)
			}
		}
		c.Advance(7 * time.Second)
	}
	r, err := e.Check(t.Context(), contract.CheckParams{})
	if err != nil || len(r.Faults) > 0 {
		t.Errorf("%+v, %v", r, err)
	}
	st, err := e.Stats(t.Context(), duly.Q("q"))
	if err != nil || st.Schedules != 15 || !st.NextTick.After(c.Now()) {
		t.Errorf("%+v, %v", st, err)
	}
}
