package model

import (
	"bytes"
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/dulymq/duly/contract"
)

// stored is a schedule of a shard.
type stored struct {
	contract.ScheduleRecord
	hold hold
}

// hold keeps a due tick of a schedule from being fired. It ends when the schedule changes.
type hold struct {
	version, next int64
	until         time.Duration // time on the monotonic clock
}

// noTick is the sort key of a schedule that fires nothing.
const noTick = math.MaxInt64

// place returns the sort key of a schedule: the time of its next tick.
func (r *stored) place() int64 {
	if r.Idle() {
		return noTick
	}
	return r.Next
}

// copy returns a record that shares nothing with the stored one.
func (r *stored) copy() contract.ScheduleRecord {
	c := r.ScheduleRecord
	c.Template.Body, c.Template.Headers = bytes.Clone(c.Template.Body), maps.Clone(c.Template.Headers)
	return c
}

// holdFor keeps the due tick from being fired for some time.
func (r *stored) holdFor(d, mono time.Duration) { r.hold = hold{r.Version, r.Next, mono + d} }

// held returns the time for which the due tick is still held.
func (r *stored) held(mono time.Duration) time.Duration {
	if r.hold.version != r.Version || r.hold.next != r.Next {
		return 0
	}
	return max(0, r.hold.until-mono)
}

// scheduleSet has the schedules of a shard.
type scheduleSet struct {
	byName map[string]*stored
	byTick []*stored // schedules sorted by place and name
}

func byTickAndName(a, b *stored) int {
	return cmp.Or(cmp.Compare(a.place(), b.place()), strings.Compare(a.Name, b.Name))
}

// put stores a record. It replaces the record with the same name.
func (s *scheduleSet) put(record contract.ScheduleRecord) {
	r := &stored{ScheduleRecord: record}
	if old := s.byName[r.Name]; old != nil {
		r.hold = old.hold
		s.remove(r.Name)
	}
	s.byName[r.Name] = r
	i, _ := slices.BinarySearchFunc(s.byTick, r, byTickAndName)
	s.byTick = slices.Insert(s.byTick, i, r)
}

// remove deletes a schedule that exists.
func (s *scheduleSet) remove(name string) {
	i, _ := slices.BinarySearchFunc(s.byTick, s.byName[name], byTickAndName)
	s.byTick = slices.Delete(s.byTick, i, i+1)
	delete(s.byName, name)
}

// due returns the schedules whose tick is due, earliest tick first.
func (s *scheduleSet) due(now int64) []*stored {
	// A copy: firing a tick changes the order of byTick.
	for i, r := range s.byTick {
		if r.place() > now {
			return slices.Clone(s.byTick[:i])
		}
	}
	return slices.Clone(s.byTick)
}

// canFire reports whether a tick is due and not held.
func (s *scheduleSet) canFire(now int64, mono time.Duration) bool {
	for _, r := range s.byTick {
		if r.place() > now {
			return false
		}
		if r.held(mono) == 0 {
			return true
		}
	}
	return false
}

// check reports each fault of the set by its kind and the name of the schedule.
func (s *scheduleSet) check(fault func(kind, name string)) {
	if len(s.byTick) != len(s.byName) {
		fault("ticks_differ", "")
	}
	if !slices.IsSortedFunc(s.byTick, byTickAndName) {
		fault("tick_misplaced", "")
	}
	for _, r := range s.byTick {
		if s.byName[r.Name] != r {
			fault("tick_without_schedule", r.Name)
		}
	}
}
