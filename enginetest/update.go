package enginetest

import (
	"slices"
	"time"

	"github.com/dulymq/duly"
)

func updateTests() []test {
	return []test{
		{"ChangesEveryGivenField", []string{"C4.42"}, Options{}, updateFields},
		{"OfALargeBodyDeletesTheOldBody", []string{"C4.77", "C4.42"}, Options{}, updateShrinksBody},
		{"KeepsOtherFields", []string{"C4.42", "C4.45"}, Options{}, updateNothing},
		{"MayChangeTheState", []string{"C3.19"}, Options{}, updateState},
		{"DueBeyondTheExpiryIsInvalid", []string{"C4.43"}, Options{}, updateBeyondExpiry},
		{"TTLCountsFromNow", []string{"C4.42"}, Options{}, updateTTL},
		{"RequiresAWaitingJob", []string{"C4.44", "C3.20", "C13.5"}, Options{}, updateConflicts},
		{"IsAtomic", []string{"C4.44"}, Options{}, updateAtomic},
		{"KeepsFailures", []string{"C4.45"}, Options{}, updateKeepsFailures},
		{"NamesBadFields", []string{"C13.2"}, Options{}, updateBadFields},
		{"OfPriorityMovesTheJob", []string{"C4.42", "C6.1"}, Options{OneShard: true}, updatePriority},
		{"PastDueIsNow", []string{"C2.12", "C4.42"}, Options{OneShard: true}, updatePastDue},
		{"PromoteMakesTheJobDueNow", []string{"C4.46", "C3.21"}, Options{}, promoteDelayed},
		{"PromoteOfADueJobChangesNothing", []string{"C3.22"}, Options{}, promoteDue},
		{"PromoteRequiresAWaitingJob", []string{"C3.23", "C13.5"}, Options{}, promoteConflicts},
		{"DeleteRemovesAJobInAnyState", []string{"C4.41", "C3.26", "C3.27"}, Options{}, deleteAny},
	}
}

func (s *scene) update(id string, u duly.Update) error {
	return s.Engine.Update(s.ctx, s.ref(), id, u)
}

func ptr[T any](v T) *T { return &v }

func updateFields(s *scene) {
	s.push(duly.Job{ID: "x", Body: []byte("old"), Headers: map[string]string{"a": "b"}, OrderKey: "k",
		Merge: duly.Merge{Key: "m"}})
	s.must("update", s.update("x", duly.Update{
		Delay: ptr(time.Minute), Priority: ptr(7), Body: []byte("new"), Headers: map[string]string{"C": "d"}, Tries: 3,
		MaxStalls: 4,
		Backoff:   "fixed:5s", TTL: time.Hour, Lease: time.Minute, Retain: 2 * time.Hour,
	}))
	j := s.get("x")
	s.sameContent("the job", j.Job, duly.Job{Body: []byte("new"), Headers: map[string]string{"c": "d"}})
	sameTime(s, "due", j.Due, s.now().Add(time.Minute))
	sameTime(s, "expiry", j.ExpiresAt, s.now().Add(time.Hour))
	same(s, "size", j.Size, 3)
	if j.Priority != 7 || j.Tries != 3 || j.MaxStalls != 4 || j.Backoff != "fixed:5s" || j.Lease != time.Minute ||
		j.Retain != 2*time.Hour {
		s.Errorf("the job is %+v, want the fields of the update", j.Job)
	}
	same(s, "order key", j.OrderKey, "k")
	same(s, "merge key", j.Merge.Key, "m")

	// Empty values and None remove the old values of the fields.
	s.must("update to none", s.update("x", duly.Update{
		Priority: ptr(0), Body: []byte{}, Headers: map[string]string{}, MaxStalls: duly.None, TTL: duly.None,
		Retain: duly.None,
	}))
	j = s.get("x")
	s.sameContent("the emptied job", j.Job, duly.Job{})
	sameTime(s, "expiry", j.ExpiresAt, time.Time{})
	if j.Priority != 0 || j.MaxStalls != duly.None || j.TTL != duly.None || j.Retain != duly.None {
		s.Errorf("the job is %+v, want the fields removed", j.Job)
	}

	due := s.now().Add(time.Hour)
	s.must("update of due", s.update("x", duly.Update{Due: due}))
	sameTime(s, "due", s.get("x").Due, due)
}

// updateShrinksBody replaces a large body by a small one, with an update and with a replacing
// push. The check finds a large body that is still stored.
func updateShrinksBody(s *scene) {
	large, replace := pattern(100_000), duly.Merge{Key: "m", Mode: duly.MergeReplace}
	s.push(duly.Job{ID: "x", Body: large})
	s.push(duly.Job{ID: "y", Body: large, Merge: replace})
	s.checked()

	s.must("update", s.update("x", duly.Update{Body: []byte("1")}))
	s.merges(duly.Job{Body: []byte("2"), Merge: replace}, "y")
	s.checked()
	for id, want := range map[string]string{"x": "1", "y": "2"} {
		same(s, "the size", s.get(id).Size, 1)
		same(s, "the body", string(s.get(id).Body), want)
	}
	for _, d := range s.takeAll() {
		same(s, "the size of the delivered body", len(d.Body), 1)
	}
}

func updateNothing(s *scene) {
	s.push(duly.Job{ID: "x", Body: []byte("b"), Headers: map[string]string{"a": "b"}, Delay: time.Minute, TTL: time.Hour,
		Priority: 3})
	s.unchanged("an update without fields", func() { s.must("update", s.update("x", duly.Update{})) })

	before := s.get("x")
	s.Advance(10 * time.Second)
	s.must("update", s.update("x", duly.Update{Tries: 2}))
	after := s.get("x")
	sameTime(s, "due", after.Due, before.Due)
	sameTime(s, "expiry", after.ExpiresAt, before.ExpiresAt)
	sameTime(s, "push", after.PushedAt, before.PushedAt)
	s.sameContent("the job", after.Job, before.Job)
	same(s, "priority", after.Priority, 3)
	same(s, "tries", after.Tries, 2)
}

func updateState(s *scene) {
	s.push(duly.Job{ID: "x"})
	s.updateDelay("x", time.Minute)
	s.is("x", duly.StateDelayed)
	s.nothing("it was put off")
	s.updateDelay("x", 0)
	s.is("x", duly.StateReady)
	s.takes("x")

	n := s.on("keys")
	n.line("head", "blocked")
	n.updateDelay("blocked", time.Minute)
	n.is("blocked", duly.StateDelayed)
	n.updateDelay("blocked", 0)
	n.is("blocked", duly.StateBlocked)
}

func updateBeyondExpiry(s *scene) {
	s.push(duly.Job{ID: "x", TTL: time.Minute})
	// The priority of the same update must not change either.
	s.unchanged("an update beyond the expiry", func() {
		s.namesBound("it", s.update("x", duly.Update{Delay: ptr(2 * time.Minute), Priority: ptr(3)}), "ttl",
			"is 1m and ends before")
	})
	s.must("update of both", s.update("x", duly.Update{Delay: ptr(2 * time.Minute), TTL: 3 * time.Minute}))
	s.namesBound("a ttl before the due", s.update("x", duly.Update{TTL: time.Minute}), "ttl", "is 1m and ends before")
}

func updateTTL(s *scene) {
	s.push(duly.Job{ID: "x", TTL: time.Minute})
	s.Advance(30 * time.Second)
	// A new TTL counts from the update.
	s.must("update", s.update("x", duly.Update{TTL: time.Minute}))
	sameTime(s, "expiry", s.get("x").ExpiresAt, s.now().Add(time.Minute))
	s.Advance(59 * time.Second)
	s.is("x", duly.StateReady)
	s.Advance(2 * time.Second)
	s.gone("x")
}

// beyondWaiting are the states in which operations on waiting jobs return a conflict.
var beyondWaiting = [...]duly.State{duly.StateLeased, duly.StateDead, duly.StateDone}

func updateConflicts(s *scene) {
	for _, state := range beyondWaiting {
		n := s.on(state.String())
		id, _ := n.reach(state)
		n.unchanged("an update of a job that is "+state.String(), func() {
			n.conflicts("it", n.update(id, duly.Update{Tries: 3}), state)
		})
	}
}

func updateAtomic(s *scene) {
	s.push(duly.Job{ID: "x", TTL: time.Minute, Body: []byte("old")})
	// Each update has a valid and an invalid field.
	bad := []duly.Update{
		{Body: []byte("new"), Priority: ptr(5000)},
		{Body: []byte("new"), Delay: ptr(time.Hour)},
		{Body: make([]byte, duly.DefaultMaxBody+1), Tries: 3},
	}
	s.unchanged("a bad update", func() {
		for _, u := range bad {
			if err := s.update("x", u); err == nil {
				s.Error("an invalid update succeeded, want an error")
			}
		}
	})
}

func updateKeepsFailures(s *scene) {
	s.push(duly.Job{ID: "x", Tries: 3, Backoff: "fixed:1m"})
	s.nack(s.take(), "no")
	s.must("update", s.update("x", duly.Update{Body: []byte("new"), Delay: ptr(time.Duration(0))}))
	d := s.take()
	s.counts(d, 2, 1, 0)
	same(s, "the body", string(d.Body), "new")
	s.release(d)
	// The job has failed once, so with the new number of tries its next failure is the last one.
	s.must("update", s.update("x", duly.Update{Tries: 2}))
	s.nack(s.take(), "no")
	s.is("x", duly.StateDead)
}

func updateBadFields(s *scene) {
	s.push(duly.Job{ID: "x"})
	for _, b := range []struct {
		field string
		code  duly.Code
		u     duly.Update
	}{
		{"delay", duly.CodeInvalid, duly.Update{Delay: ptr(-time.Second)}},
		{"delay", duly.CodeInvalid, duly.Update{Delay: ptr(time.Second), Due: duly.MaxTime}},
		{"due", duly.CodeInvalid, duly.Update{Due: duly.MaxTime.Add(time.Millisecond)}},
		{"priority", duly.CodeInvalid, duly.Update{Priority: ptr(-1001)}},
		{"body", duly.CodeTooLarge, duly.Update{Body: make([]byte, duly.DefaultMaxBody+1)}},
		{"headers", duly.CodeTooLarge, duly.Update{Headers: manyHeaders(duly.MaxHeaders + 1)}},
		{"headers", duly.CodeInvalid, duly.Update{Headers: map[string]string{"a\n": ""}}},
		{"tries", duly.CodeInvalid, duly.Update{Tries: duly.MaxTries + 1}},
		{"max_stalls", duly.CodeInvalid, duly.Update{MaxStalls: -2}},
		{"backoff", duly.CodeInvalid, duly.Update{Backoff: "x"}},
		{"ttl", duly.CodeInvalid, duly.Update{TTL: -2}},
		{"lease", duly.CodeInvalid, duly.Update{Lease: 1}},
		{"retain", duly.CodeInvalid, duly.Update{Retain: -2}},
	} {
		s.names("an update with a bad "+b.field, s.update("x", b.u), b.code, b.field)
	}
}

func updatePriority(s *scene) {
	s.pushAll(duly.Job{ID: "a"}, duly.Job{ID: "b"}, duly.Job{ID: "c"})
	s.must("update", s.update("c", duly.Update{Priority: ptr(1)}))
	s.must("update", s.update("a", duly.Update{Priority: ptr(-1)}))
	s.takes("c", "b", "a")
}

func updatePastDue(s *scene) {
	s.pushAll(duly.Job{ID: "a"}, duly.Job{ID: "b", Delay: time.Hour})
	s.Advance(time.Minute)
	// A due time in the past does not move the job ahead of the other job.
	s.must("update", s.update("b", duly.Update{Due: s.now().Add(-time.Hour)}))
	sameTime(s, "due", s.get("b").Due, s.now())
	s.takes("a", "b")
}

func promoteDelayed(s *scene) {
	s.push(duly.Job{ID: "x", Delay: time.Hour})
	s.Advance(time.Minute)
	s.must("promote", s.Engine.Promote(s.ctx, s.ref(), "x"))
	s.is("x", duly.StateReady)
	sameTime(s, "due", s.get("x").Due, s.now())
	// A failed job that waits for its retry can be promoted too.
	s.nackFor(s.takes("x")[0], time.Hour)
	s.must("promote of a retry", s.Engine.Promote(s.ctx, s.ref(), "x"))
	s.counts(s.takes("x")[0], 2, 1, 0)
}

func promoteDue(s *scene) {
	s.line("ready", "blocked")
	s.Advance(time.Minute)
	s.unchanged("promoting due jobs", func() {
		s.must("promote", s.Engine.Promote(s.ctx, s.ref(), "ready"))
		s.must("promote", s.Engine.Promote(s.ctx, s.ref(), "blocked"))
	})
}

func promoteConflicts(s *scene) {
	for _, state := range beyondWaiting {
		n := s.on(state.String())
		id, _ := n.reach(state)
		n.unchanged("promoting a job that is "+state.String(), func() {
			n.conflicts("it", n.Engine.Promote(n.ctx, n.ref(), id), state)
		})
	}
}

func deleteAny(s *scene) {
	for _, state := range duly.States {
		n := s.on(state.String())
		id, receipt := n.reach(state)
		n.must("delete of a job that is "+state.String(), n.Engine.Delete(n.ctx, n.ref(), id))
		n.gone(id)
		n.refused("delete of it again", n.Engine.Delete(n.ctx, n.ref(), id), duly.CodeNotFound)
		n.lost("ack by its receipt", n.settle(duly.SettleRequest{Receipt: receipt, As: duly.Ack}))
		if slices.Contains(idsTaken(n.takeAll()), id) {
			n.Errorf("%q was delivered after it was deleted", id)
		}
	}
}
