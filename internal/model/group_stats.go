package model

import (
	"cmp"
	"slices"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
)

// groupStats returns the statistics that only a group has.
func (q *queue) groupStats(now int64) *duly.GroupStats {
	st := &duly.GroupStats{Parked: q.parked(now)}
	blocked := map[string]int{}
	for _, s := range q.shards {
		s.addGroupStats(st, now, blocked)
	}

	for key, n := range blocked {
		// Equal counts go to the lesser key, so that the result does not depend on map order.
		if most := blocked[st.Key]; n > most || n == most && key < st.Key {
			st.Key = key
		}
	}

	for name, at := range q.group.consumers {
		if !forgotten(at, now) {
			st.Consumers = append(st.Consumers, duly.Consumer{Name: name, LastCall: clock.FromMilli(at)})
		}
	}
	slices.SortFunc(st.Consumers, func(a, b duly.Consumer) int { return cmp.Compare(a.Name, b.Name) })

	// A parked group needs no message, whatever its cursor says.
	if st.Parked {
		st.OldestNeeded = 0
	}
	return st
}

// addGroupStats adds the shard's statistics to the group's. It counts the blocked
// messages of each key if the shard is at its bound.
func (s *shard) addGroupStats(st *duly.GroupStats, now int64, blocked map[string]int) {
	r := s.reader
	st.Lag += s.lag()
	st.Entered += r.stats.Entered
	st.Filtered += r.stats.Filtered
	st.Skipped += r.stats.Skipped
	st.Replayed += r.stats.Replayed
	st.Missed += r.stats.Missed

	// At the end of the log the floor has no message yet, so there is no age.
	if floor := s.floor(); floor <= r.log.last.Ordinal {
		st.OldestNeeded = max(st.OldestNeeded, time.Duration(now-r.log.from(floor)[0].entered)*time.Millisecond)
	}

	// max_held holds messages back only in a shard that has no room and has lag (C12.106).
	if s.room() > 0 || s.lag() == 0 {
		return
	}
	st.AtMaxHeld = true
	for j := range s.sets[duly.StateBlocked].all() {
		blocked[j.OrderKey]++
	}
}

func (s *shard) copies() int {
	if s.reader == nil {
		return 0
	}
	return len(s.reader.copies)
}

// finds reports whether the indexes have the job where its state says.
func (s *shard) finds(j *job) bool {
	if s.isCopy(j.state) {
		return s.reader.copies[j.ID] == j
	}
	return s.byID[j.ID] == j && s.byNumber[j.number] == j
}

// checkReader compares the messages with the log. It also checks that entered + replayed
// equals the sum of the other counters (C12.154).
func (s *shard) checkReader() (faults []contract.Fault) {
	r, c := s.reader, s.counters
	fault := func(kind, id string) { faults = append(faults, contract.Fault{Kind: kind, Queue: s.ref, ID: id}) }
	if r.cursor+1 < r.log.first() || r.cursor > r.log.last.Ordinal {
		fault("cursor_outside_log", "")
	}
	for j := range r.held.all() {
		if m := r.log.at(j.number); m == nil || m.ordinal > r.cursor {
			fault("held_without_message", j.ID)
		}
	}

	// The cursor decides what counts as lag, so this sum also checks the cursor.
	sizes := s.lag() + int64(s.held()+s.size(duly.StateDead))
	if r.stats.Entered+r.stats.Replayed != sizes+c.Acked+r.stats.Filtered+r.stats.Skipped+r.stats.Missed+c.Deleted+c.Dropped {
		fault("not_conserved", "")
	}
	return faults
}
