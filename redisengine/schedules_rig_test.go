package redisengine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/schedule"
	"github.com/dulymq/duly/redisengine"
)

// soon returns a schedule with a single tick, at the next whole second.
func soon(now time.Time, name string) duly.Schedule {
	return duly.Schedule{
		Name: name, Spec: "@every 1s", End: now.Truncate(time.Second).Add(time.Second), Catchup: duly.CatchupAll,
		Overlap: duly.OverlapAllow, Template: duly.Job{Body: []byte(name)},
	}
}

// fireOnce fires the due ticks of a queue of one shard, in one call.
func fireOnce(t testing.TB, e *redisengine.Engine, q duly.QueueRef) (results []contract.FireResult) {
	t.Helper()
	due, err := e.DueSchedules(t.Context(), q, 0, "")
	must(t, err)
	var items []contract.FireItem
	for i := range due.Schedules {
		timing, err := schedule.Timing(&due.Schedules[i].Schedule)
		must(t, err)
		items = append(items, schedule.Fold(&due.Schedules[i], timing, due.Now, due.TTL)...)
	}
	results, err = e.Fire(t.Context(), q, items[:min(len(items), duly.MaxBatch)])
	must(t, err)
	return results
}

// useSchedules calls every script of schedules. No schedule is left in the end.
func useSchedules(t testing.TB, e *redisengine.Engine, q duly.QueueRef) {
	t.Helper()
	ctx := t.Context()
	_, err := e.PutSchedule(ctx, q, duly.Schedule{Name: "nightly", Spec: "@daily"})
	must(t, err)
	must(t, e.PauseSchedule(ctx, q, "nightly"))
	must(t, e.ResumeSchedule(ctx, q, "nightly"))
	_, err = e.Schedules(ctx, q, duly.PageParams{})
	must(t, err)
	info, err := e.GetSchedule(ctx, q, "nightly")
	must(t, err)

	run := schedule.Run(&contract.ScheduleRecord{Queue: q, Schedule: info.Schedule}, info.Next.UnixMilli())
	results, err := e.Fire(ctx, q, []contract.FireItem{{
		Name: "nightly", Version: info.Version, Expected: info.Next.UnixMilli(), Tick: info.Next.UnixMilli(), Job: &run,
	}})
	must(t, err)
	if results[0].Status != contract.FireEarly {
		t.Fatalf("fire of a tick that is ahead: %s, %v", results[0].Status, results[0].Err)
	}
	must(t, e.DeleteSchedule(ctx, q, "nightly", info.Version))
}

// scheduled puts schedules whose first tick is due at once.
func scheduled(r *damageRig) {
	for _, name := range []string{"tick-0", "tick-1"} {
		_, err := r.e.PutSchedule(r.Context(), damageQueue, soon(r.clock.Now(), name))
		must(r, err)
		r.bodies[name] = true
	}
	r.clock.Advance(time.Second)
}

// scheduleOperations are operations on the schedules of a queue.
var scheduleOperations = []operation{
	{"SchedulePut", nil, func(r *damageRig) {
		sch := soon(r.clock.Now(), "tick-2")
		r.bodies["tick-2"], r.bodies["tick-3"] = true, true
		_, _ = r.e.PutSchedule(r.Context(), damageQueue, sch)
		sch.Template.Body = []byte("tick-3")
		_, _ = r.e.PutSchedule(r.Context(), damageQueue, sch)
	}, nil},
	{"ScheduleOperate", scheduled, func(r *damageRig) {
		_, _ = r.e.Schedules(r.Context(), damageQueue, duly.PageParams{})
		_ = r.e.PauseSchedule(r.Context(), damageQueue, "tick-0")
		_ = r.e.ResumeSchedule(r.Context(), damageQueue, "tick-0")
		_ = r.e.DeleteSchedule(r.Context(), damageQueue, "tick-1", 0)
	}, nil},
	{"ScheduleFire", scheduled, func(r *damageRig) { fireOnce(r, r.e, damageQueue) }, nil},
	{"ScheduleFireMerged", func(r *damageRig) {
		sch := soon(r.clock.Now(), "merged-tick")
		sch.Template = duly.Job{
			Body:  []byte("merged-tick" + strings.Repeat(".", 9<<10)),
			Merge: duly.Merge{Key: "m0", Mode: duly.MergeReplace}, TTL: time.Hour,
		}
		r.bodies[string(sch.Template.Body)] = true
		_, err := r.e.PutSchedule(r.Context(), damageQueue, sch)
		must(r, err)
		r.clock.Advance(time.Second)
	}, func(r *damageRig) { fireOnce(r, r.e, damageQueue) }, []string{"merged"}},
	{"ScheduleCheck", func(r *damageRig) {
		scheduled(r)
		r.do("ZREM", r.key(0, "ticks"), "tick-0")
	}, func(r *damageRig) { r.check(true) }, nil},
}
