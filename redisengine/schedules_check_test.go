package redisengine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/redisengine"
	"github.com/dulymq/duly/redisengine/internal/codec"
)

// scheduleDamages are the ways in which schedules can go wrong.
var scheduleDamages = []damage{
	{"1 TickLost", func(r *damageRig) { r.do("ZREM", r.key(0, "ticks"), "tick-0") }, "schedule_without_tick", false},
	{"1 TicksLost", func(r *damageRig) { r.do("DEL", r.key(0, "ticks")) }, "schedule_without_tick", false},
	{"2 TickOfNoSchedule", func(r *damageRig) { r.do("ZADD", r.key(0, "ticks"), 1, "nobody") }, "tick_without_schedule", false},
	{"2 RecordLost", func(r *damageRig) { r.do("HDEL", r.key(0, "schedules"), "tick-0") }, "tick_without_schedule", false},
	{"3 TickAtAnotherMoment", func(r *damageRig) { r.do("ZADD", r.key(0, "ticks"), 1, "tick-0") }, "tick_wrong", false},
	{"3 TickBetweenMoments", func(r *damageRig) { r.do("ZADD", r.key(0, "ticks"), "1.5", "tick-0") }, "tick_wrong", false},
	{"3 TickOfAPausedSchedule", func(r *damageRig) {
		must(r, r.e.PauseSchedule(r.Context(), damageQueue, "tick-0"))
		r.do("ZADD", r.key(0, "ticks"), r.clock.Now().UnixMilli(), "tick-0")
	}, "tick_wrong", false},
	{"4 RecordCut", func(r *damageRig) { r.harmRecord(func(record string) string { return record[:20] }) }, "schedule_unreadable", false},
	{"4 FieldsCut", func(r *damageRig) { r.harmRecord(func(record string) string { return record[:60] }) }, "schedule_unreadable", false},
	{"4 RecordOfAnother", func(r *damageRig) { r.harmRecord(func(string) string { return "what is this" }) }, "schedule_unreadable", false},
	{"5 MomentMissed", func(r *damageRig) {
		r.do("ZREM", r.key(0, "marker"), "later")
		r.do("HDEL", r.key(0, "tally"), "later")
	}, "moment_missed", true},
}

// harmRecord changes the record of a schedule.
func (r *damageRig) harmRecord(change func(record string) string) {
	r.Helper()
	record := r.do("HGET", r.key(0, "schedules"), "tick-0").(string)
	r.do("HSET", r.key(0, "schedules"), "tick-0", change(record))
}

// C17.145: Check finds every fault of schedules and changes nothing. One repair fixes the fault,
// and the remaining ticks fire.
func TestCheckRepairsSchedules(t *testing.T) {
	t.Parallel()
	for _, d := range scheduleDamages {
		t.Run(strings.ReplaceAll(d.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			r := newDamaged(t, 1, 1)
			for _, name := range []string{"tick-0", "tick-1"} {
				_, err := r.e.PutSchedule(r.Context(), damageQueue, soon(r.clock.Now(), name))
				must(r, err)
				r.bodies[name] = true
			}
			d.harm(r)
			r.findAndMend(d.found)
			if !r.acked["tick-1"] {
				t.Error("the tick of the whole schedule has no run")
			}
		})
	}
}

// C17.145: a repair keeps the bytes of a record that cannot be read, and the schedule can be put
// again. The other schedules of the shard fire even before the repair.
func TestUnreadableScheduleIsMovedAside(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"Check", "Fire"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			r := newDamaged(t, 1, 1)
			scheduled(r)
			r.harmRecord(func(string) string { return "what is this" })
			if _, err := r.e.GetSchedule(r.Context(), damageQueue, "tick-0"); duly.CodeOf(err) != duly.CodeCorrupt {
				t.Errorf("a get of an unreadable schedule: %v, want corrupt", err)
			}

			if how == "Check" {
				r.check(true)
			}
			results := fireOnce(r, r.e, damageQueue)
			if len(results) != 1 || results[0].Status != contract.FireFired {
				t.Errorf("the other schedule: %+v, want one fired item", results)
			}

			fields := r.do("HKEYS", r.key(0, "schedules")).([]any)
			kept := ""
			for _, field := range fields {
				if strings.HasPrefix(field.(string), "!tick-0 ") {
					kept = field.(string)
				}
			}
			if got := r.do("HGET", r.key(0, "schedules"), kept); got != "what is this" {
				t.Errorf("the fields are %q, and %q has %q", fields, kept, got)
			}
			put, err := r.e.PutSchedule(r.Context(), damageQueue, soon(r.clock.Now(), "tick-0"))
			if err != nil || put.Status != duly.ScheduleCreated {
				t.Errorf("a put of the schedule: %+v, %v, want created", put, err)
			}
			r.sound()
		})
	}
}

// C17.145: a tick is due by the server's clock, the marker is gone, and no process comes.
func TestCheckFindsADueTickWithoutAMarker(t *testing.T) {
	t.Parallel()
	r := openDamaged(t, 1, nil)
	_, err := r.e.PutSchedule(t.Context(), damageQueue, duly.Schedule{Name: "nightly", Spec: "@daily"})
	must(t, err)
	info, err := r.e.GetSchedule(t.Context(), damageQueue, "nightly")
	must(t, err)
	due := time.Now().Add(-time.Hour).UnixMilli()
	record := contract.ScheduleRecord{Schedule: info.Schedule, Version: info.Version, Next: due}
	r.do("HSET", r.key(0, "schedules"), "nightly", codec.PackSchedule(&record))
	r.do("ZADD", r.key(0, "ticks"), due, "nightly")
	r.do("DEL", r.key(0, "marker"))

	report := r.check(true)
	if len(report.Faults) != 1 || report.Faults[0].Kind != "moment_missed" || report.Repaired != 1 {
		t.Fatalf("the repair found %+v, want one moment_missed", report)
	}
	if score := r.do("ZSCORE", r.key(0, "marker"), "later"); score != fmt.Sprint(due) {
		t.Errorf("the marker announces %v, want %d", score, due)
	}
	r.sound()
}

// TestLostRecordHidesNoNewSchedule checks that a read of due schedules, which removes a tick
// without a schedule, keeps a schedule that was put under the name meanwhile (C17.129).
func TestLostRecordHidesNoNewSchedule(t *testing.T) {
	t.Parallel()
	r := newDamaged(t, 1, 1)
	_, err := r.e.PutSchedule(t.Context(), damageQueue, duly.Schedule{Name: "nightly", Spec: "@daily"})
	must(t, err)

	// Another process has read the tick before the Put.
	before := redisengine.Config{URL: withPrefix(r.server.URL(), r.prefix), Manual: true, Clock: r.clock}
	other, err := redisengine.Open(t.Context(), redisengine.Sending(before, func(name, source string) string {
		if name == "schedule_list" {
			source = strings.Replace(source, "return {'ok', us, list,", "return {'ok', us, {'nightly', ''},", 1)
		}
		return source
	}))
	must(t, err)
	defer other.Close()
	_, err = other.DueSchedules(t.Context(), damageQueue, 0, "")
	must(t, err)
	if _, err := r.e.GetSchedule(t.Context(), damageQueue, "nightly"); err != nil {
		t.Error(err)
	}
}
