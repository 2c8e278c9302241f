package enginetest

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/dulymq/duly"
)

func mergeTests() []test {
	return []test{
		{"WaitingJobsWithOneKeyAreMerged", []string{"C7.1", "C3.15", "C2.35", "C7.14"}, Options{}, mergeWaiting},
		{"AppliesWithinAnOrderKey", []string{"C7.2"}, Options{}, mergeOrderKey},
		{"EmptyKeyIsTheBodysHash", []string{"C7.3"}, Options{}, mergeByBody},
		{"KeepChangesNothingButTheExpiry", []string{"C7.4"}, Options{}, mergeKeep},
		{"KeepTakesTheLaterExpiry", []string{"C7.4"}, Options{}, mergeKeepExpiry},
		{"ReplaceTakesAllFieldsOfTheNewerPush", []string{"C7.5", "C7.6"}, Options{}, mergeReplace},
		{"ReplaceResetsFailuresAndStalls", []string{"C7.5", "C2.20"}, Options{}, mergeReplaceResets},
		{"ReplaceKeepsAHeldOrderKey", []string{"C7.6"}, Options{}, mergeReplaceHeldKey},
		{"MaxWaitBoundsADebounce", []string{"C7.7"}, Options{}, mergeMaxWait},
		{"DebounceWithoutABoundCanDelayForever", []string{"C7.7", "C7.5"}, Options{}, mergeDebounce},
		{"ReadyJobMayGoBackToDelayed", []string{"C7.8", "C3.15"}, Options{}, mergeBackToDelayed},
		{"DefaultIsKeepUntilLeased", []string{"C7.14", "C7.9"}, Options{}, mergeDefaults},
		{"ModeOfTheNewerPushApplies", []string{"C7.15"}, Options{}, mergeModeIsNewer},
		{"UntilOfTheStoredJobApplies", []string{"C7.16"}, Options{}, mergeUntilIsHolders},
		{"DeadAndDoneJobsHoldNoKey", []string{"C3.17"}, Options{}, mergeDeadAndDone},
		{"DeletedJobHoldsNoKey", []string{"C7.1", "C3.26"}, Options{}, mergeDeleted},
	}
}

func mergeWaiting(s *scene) {
	key := duly.Merge{Key: "m"}
	s.push(duly.Job{ID: "delayed", Delay: time.Minute, Merge: key})
	s.merges(duly.Job{ID: "x", Merge: key}, "delayed")
	s.gone("x")
	s.Advance(time.Minute)
	// The job is ready by now.
	s.merges(duly.Job{Merge: key}, "delayed")
	s.counted(duly.Counters{Pushed: 3, Merged: 2})
	s.ack(s.takes("delayed")[0])

	s.push(duly.Job{ID: "head", OrderKey: "k"})
	s.push(duly.Job{ID: "blocked", OrderKey: "k", Merge: key})
	s.merges(duly.Job{OrderKey: "k", Merge: key}, "blocked")
	s.sizes(duly.Sizes{Ready: 1, Blocked: 1})
}

func mergeOrderKey(s *scene) {
	key := duly.Merge{Key: "m"}
	s.pushAll(duly.Job{ID: "none", Merge: key}, duly.Job{ID: "a", OrderKey: "a", Merge: key},
		duly.Job{ID: "b", OrderKey: "b", Merge: key})
	s.merges(duly.Job{OrderKey: "a", Merge: key}, "a")
	s.merges(duly.Job{OrderKey: "b", Merge: key}, "b")
	s.merges(duly.Job{Merge: key}, "none")
	// These are two pairs of keys that are equal if they are joined without a separator.
	s.push(duly.Job{OrderKey: "ab", Merge: duly.Merge{Key: "c"}})
	s.push(duly.Job{OrderKey: "a", Merge: duly.Merge{Key: "bc"}})
	// Another queue has separate keys.
	s.on("other").push(duly.Job{Merge: key})
}

func mergeByBody(s *scene) {
	byBody := duly.Merge{Mode: duly.MergeKeep}
	s.push(duly.Job{ID: "a", Body: []byte("body"), Merge: byBody})
	s.push(duly.Job{ID: "b", Body: []byte("other"), Merge: byBody})
	s.push(duly.Job{ID: "empty", Merge: byBody})
	s.merges(duly.Job{Body: []byte("body"), Merge: byBody}, "a")
	s.merges(duly.Job{Body: []byte{}, Merge: byBody}, "empty")
	sum := sha256.Sum256([]byte("body"))
	// A hash never equals a key that the caller set, not even one with the same text.
	for _, key := range []string{hex.EncodeToString(sum[:]), "body"} {
		s.push(duly.Job{Merge: duly.Merge{Key: key}})
	}

	// An update of the body does not change the key, which is the hash of the pushed body.
	s.updateBody("b", "body")
	s.merges(duly.Job{Body: []byte("other"), Merge: byBody}, "b")
}

func (s *scene) updateBody(id, body string) {
	s.Helper()
	s.must("update", s.Engine.Update(s.ctx, s.ref(), id, duly.Update{Body: []byte(body)}))
}

func mergeKeep(s *scene) {
	key := duly.Merge{Key: "m"}
	s.push(duly.Job{ID: "x", Body: []byte("first"), Priority: 1, Delay: time.Minute, Tries: 3, Merge: key})
	before := s.get("x")
	s.Advance(10 * time.Second)
	s.merges(duly.Job{ID: "y", Body: []byte("second"), Priority: 9, Tries: 9, Headers: map[string]string{"a": "b"},
		Merge: key}, "x")
	after := s.get("x")
	s.sameContent("the job", after.Job, before.Job)
	same(s, "its priority", after.Priority, 1)
	same(s, "its tries", after.Tries, 3)
	// Keep does not change the due time.
	sameTime(s, "its due", after.Due, before.Due)
	sameTime(s, "its push", after.PushedAt, before.PushedAt)
}

func mergeKeepExpiry(s *scene) {
	key := duly.Merge{Key: "m"}
	start := s.now()
	s.push(duly.Job{ID: "x", TTL: time.Minute, Merge: key})
	s.merges(duly.Job{TTL: 30 * time.Second, Merge: key}, "x")
	sameTime(s, "the expiry after a shorter one", s.get("x").ExpiresAt, start.Add(time.Minute))
	s.Advance(30 * time.Second)
	s.merges(duly.Job{TTL: time.Minute, Merge: key}, "x")
	sameTime(s, "the expiry after a later one", s.get("x").ExpiresAt, start.Add(90*time.Second))

	s.Advance(59 * time.Second)
	s.is("x", duly.StateReady)
	// A push without a TTL removes the expiry, and a later one does not restore it.
	s.merges(duly.Job{Merge: key}, "x")
	sameTime(s, "the expiry after none", s.get("x").ExpiresAt, time.Time{})
	s.Advance(time.Hour)
	s.merges(duly.Job{TTL: time.Second, Merge: key}, "x")
	s.Advance(time.Hour)
	s.takes("x")
}

func mergeReplace(s *scene) {
	replace := duly.Merge{Key: "m", Mode: duly.MergeReplace}
	start := s.now()
	s.push(duly.Job{ID: "x", Body: []byte("first"), Priority: 1, Delay: time.Minute,
		Headers: map[string]string{"a": "b"}, Merge: replace})
	s.Advance(10 * time.Second)
	newer := duly.Job{
		ID: "y", Body: []byte("second"), Priority: 2, Delay: 2 * time.Minute, Tries: 3, MaxStalls: 4, Backoff: "fixed:9s",
		TTL: time.Hour, Lease: time.Minute, Retain: time.Hour, Headers: map[string]string{"c": "d"}, Merge: replace,
	}
	s.merges(newer, "x")

	got := s.get("x")
	s.sameContent("the job", got.Job, newer)
	same(s, "its ID", got.ID, "x")
	same(s, "its merging", got.Merge, duly.Merge{Key: "m", Mode: duly.MergeReplace, Until: duly.UntilLeased})
	if got.Priority != 2 || got.Tries != 3 || got.MaxStalls != 4 || got.Backoff != "fixed:9s" ||
		got.Lease != time.Minute || got.Retain != time.Hour {
		s.Errorf("the job is %+v, want the fields of the newer one", got.Job)
	}
	sameTime(s, "its due", got.Due, start.Add(10*time.Second+2*time.Minute))
	sameTime(s, "its expiry", got.ExpiresAt, start.Add(10*time.Second+time.Hour))
	s.gone("y")

	// A push without fields also replaces all of them.
	s.merges(duly.Job{Merge: replace}, "x")
	same(s, "the body of an empty one", len(s.takes("x")[0].Body), 0)
}

func mergeReplaceResets(s *scene) {
	replace := duly.Merge{Key: "m", Mode: duly.MergeReplace}
	s.push(duly.Job{ID: "x", Backoff: "fixed:1m", Merge: replace})
	s.nack(s.take(), "no")
	s.Advance(time.Minute)
	s.stall(s.take())
	s.merges(duly.Job{Merge: replace}, "x")

	info := s.get("x")
	same(s, "its failures", info.Failures, 0)
	same(s, "its stalls", info.Stalls, 0)
	s.counts(s.take(), 1, 0, 0)
}

func mergeReplaceHeldKey(s *scene) {
	replace := duly.Merge{Key: "m", Mode: duly.MergeReplace}
	s.push(duly.Job{ID: "head", OrderKey: "k", Merge: replace, Backoff: "fixed:1m"})
	s.push(duly.Job{ID: "next", OrderKey: "k", Priority: 1000})
	s.merges(duly.Job{OrderKey: "k", Merge: replace, Body: []byte("newer")}, "head")
	s.is("head", duly.StateReady)
	s.is("next", duly.StateBlocked)
	s.nack(s.takes("head")[0], "no")
	// The job was delivered before, so it keeps its order key while it is delayed.
	s.merges(duly.Job{OrderKey: "k", Merge: replace, Delay: 30 * time.Second}, "head")
	s.is("next", duly.StateBlocked)
	s.Advance(30 * time.Second)
	s.ack(s.takes("head")[0])
	s.takes("next")
}

func mergeMaxWait(s *scene) {
	debounce := duly.Job{ID: "x", Delay: 10 * time.Second, Merge: duly.Merge{Key: "m", Mode: duly.MergeReplace,
		MaxWait: 25 * time.Second}}
	start := s.now()
	s.push(debounce)
	// The repeated pushes come after 8, 16 and 24 s. The bound is 25 s.
	for _, due := range []time.Duration{18, 25, 25} {
		s.Advance(8 * time.Second)
		again := debounce
		again.ID = ""
		s.merges(again, "x")
		sameTime(s, "its due", s.get("x").Due, start.Add(due*time.Second))
	}
	s.Advance(time.Second)
	s.takes("x")

	// MaxWait is shorter than the delay. It must not move the due time into the past.
	debounce.Merge.MaxWait = time.Second
	s.push(debouncedAs("y", debounce))
	s.Advance(5 * time.Second)
	s.merges(debouncedAs("", debounce), "y")
	sameTime(s, "its due", s.get("y").Due, s.now())
}

func debouncedAs(id string, j duly.Job) duly.Job {
	j.ID = id
	return j
}

func mergeDebounce(s *scene) {
	debounce := duly.Job{Delay: 10 * time.Second, Merge: duly.Merge{Key: "m", Mode: duly.MergeReplace}}
	id := s.push(debounce)
	for range 20 {
		// Each push comes before the job is due and delays it again.
		s.Advance(9 * time.Second)
		s.merges(debounce, id)
		s.nothing("it was put off")
	}
	s.Advance(10 * time.Second)
	s.takes(id)
	s.counted(duly.Counters{Pushed: 21, Merged: 20, Delivered: 1})
}

func mergeBackToDelayed(s *scene) {
	replace := duly.Merge{Key: "m", Mode: duly.MergeReplace}
	s.push(duly.Job{ID: "x", Merge: replace})
	s.is("x", duly.StateReady)
	s.merges(duly.Job{Delay: time.Minute, Merge: replace}, "x")
	s.is("x", duly.StateDelayed)
	s.nothing("it is due in a minute")
	s.Advance(time.Minute)
	s.takes("x")
}

func mergeDefaults(s *scene) {
	s.push(duly.Job{ID: "x", Body: []byte("first"), Merge: duly.Merge{Key: "m"}})
	s.merges(duly.Job{Body: []byte("second"), Merge: duly.Merge{Key: "m"}}, "x")
	same(s, "the body", string(s.takes("x")[0].Body), "first")
	s.push(duly.Job{ID: "y", Merge: duly.Merge{Key: "m"}}) // the job in flight no longer holds the key
	s.takes("y")
}

func mergeModeIsNewer(s *scene) {
	s.push(duly.Job{ID: "x", Body: []byte("1"), Merge: duly.Merge{Key: "m", Mode: duly.MergeKeep}})
	s.merges(duly.Job{Body: []byte("2"), Merge: duly.Merge{Key: "m", Mode: duly.MergeReplace}}, "x")
	same(s, "the body after replace", string(s.get("x").Body), "2")
	s.merges(duly.Job{Body: []byte("3"), Merge: duly.Merge{Key: "m", Mode: duly.MergeKeep}}, "x")
	same(s, "the body after keep", string(s.get("x").Body), "2")
}

func mergeUntilIsHolders(s *scene) {
	s.push(duly.Job{ID: "x", Merge: duly.Merge{Key: "m", Until: duly.UntilDone}})
	s.merges(duly.Job{Merge: duly.Merge{Key: "m", Until: duly.UntilLeased}}, "x")
	d := s.takes("x")[0]
	// The stored job holds its key until it is done, so a push merges even while it is in flight.
	s.merges(duly.Job{Merge: duly.Merge{Key: "m", Until: duly.UntilLeased}}, "x")
	s.ack(d)

	s.push(duly.Job{ID: "y", Merge: duly.Merge{Key: "m", Until: duly.UntilLeased}})
	s.merges(duly.Job{Merge: duly.Merge{Key: "m", Until: duly.UntilDone}}, "y")
	s.takes("y")
	// The stored job releases its key when it is leased, whatever the push said.
	s.push(duly.Job{ID: "z", Merge: duly.Merge{Key: "m"}})
}

func mergeDeadAndDone(s *scene) {
	for _, until := range []duly.MergeUntil{duly.UntilLeased, duly.UntilDone} {
		n := s.on(string(until))
		key := duly.Merge{Key: "m", Until: until}
		n.push(duly.Job{ID: "dead", Merge: key})
		n.bury(n.take(), "no")
		n.push(duly.Job{ID: "done", Merge: key, Retain: time.Hour})
		n.ack(n.take())
		n.push(duly.Job{ID: "x", Merge: key})
		n.sizes(duly.Sizes{Ready: 1, Dead: 1, Done: 1})
	}
}

func mergeDeleted(s *scene) {
	// Each removal frees the merge key for the next push.
	key := duly.Merge{Key: "m", Until: duly.UntilDone}
	s.push(duly.Job{ID: "a", Merge: key})
	s.must("delete", s.Engine.Delete(s.ctx, s.ref(), "a"))
	s.push(duly.Job{ID: "b", Merge: key})
	s.take()
	s.must("delete", s.Engine.Delete(s.ctx, s.ref(), "b"))
	s.push(duly.Job{ID: "c", Merge: key})
	s.purged(duly.StateReady, 1)
	s.push(duly.Job{ID: "d", Merge: key})
}
