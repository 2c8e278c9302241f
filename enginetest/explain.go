package enginetest

import (
	"errors"
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/adaptive"
)

// The limits and the counts of an Explain are those of one shard.

func explainTests() []test {
	one := Options{OneShard: true}
	return []test{
		{"ReturnsStateTimeAndFactsInOrder", []string{"C4.122"}, one, explainOrder},
		{"ReadyJobWithoutAFactIsNext", []string{"C4.122", "C4.131"}, one, explainNext},
		{"ChangesNothing", []string{"C4.123"}, one, explainReads},
		{"OfAnUnknownJobIsNotFound", []string{"C4.124", "C2.24"}, Options{}, explainUnknown},
		{"RefusesBadParametersAndGroups", []string{"C4.124", "C13.2"}, Options{}, explainInput},
		{"DelayedNamesCauseAndDueTime", []string{"C4.125", "C4.136"}, one, explainDelayed},
		{"DelayedCountsFailedTries", []string{"C4.125", "C4.136"}, one, explainRetry},
		{"PausedHoldsWaitingJobs", []string{"C4.126"}, one, explainPaused},
		{"MaxLeasedNamesTheNextLeaseEnd", []string{"C4.127"}, one, explainMaxLeased},
		{"MaxLeasedIgnoresLeasesThatRanOut", []string{"C4.127", "C4.133"}, one, explainRunOut},
		{"RateNamesTheNextToken", []string{"C4.128"}, one, explainRate},
		{"ClosedNamesOpeningAndReason", []string{"C4.129"}, one, explainClosed},
		{"BlockedNamesTheHolder", []string{"C4.130"}, one, explainBlocked},
		{"BlockedCountsInDeliveryOrder", []string{"C4.130"}, one, explainLane},
		{"BlockedCountsToAThousand", []string{"C4.130", "C4.123"}, one, explainManyBlocked},
		{"BlockedByAnExpiredJobWaitsForAStep", []string{"C4.130", "C4.133"}, one, explainExpiredHolder},
		{"BehindCountsInDeliveryOrder", []string{"C4.131"}, one, explainBehind},
		{"BehindCountsJobsThatWaitForAStep", []string{"C4.131", "C4.133"}, one, explainDueBehind},
		{"BehindCountsToTenThousand", []string{"C4.131", "C4.123"}, one, explainManyReady},
		{"LeasedNamesTheLeaseEnd", []string{"C4.132", "C4.133"}, one, explainLeased},
		{"StepPendingNamesTheMomentThatPassed", []string{"C4.133"}, one, explainPending},
		{"ExpiresNamesTheEnd", []string{"C4.134", "C4.135"}, one, explainExpires},
		{"DeadNamesTheLastError", []string{"C4.135"}, one, explainDead},
		{"MergingNamesModeAndBound", []string{"C4.137"}, one, explainMerging},
	}
}

// explain returns the explanation of a job.
func (s *scene) explain(id string) contract.Explanation {
	s.Helper()
	x, err := contract.ExplainerOf(s.Engine).Explain(s.ctx, s.ref(), id)
	s.must("explain", err)
	return x
}

// explains reports an error unless a job has these facts.
func (s *scene) explains(when, id string, want ...contract.Fact) {
	s.Helper()
	got := s.explain(id)
	same(s, "the state of "+id+" "+when, got.State, s.get(id).State)
	sameTime(s, "the time "+when, got.Now, s.now())
	expected := contract.Explanation{State: got.State, Now: got.Now, Facts: want}
	same(s, "the explanation of "+id+" "+when, explanationText(got), explanationText(expected))
}

// after returns the time d from now.
func (s *scene) after(d time.Duration) time.Time { return s.now().Add(d) }

// Short forms of facts that many tests expect.
func behind(n int) contract.Fact { return contract.Fact{Code: contract.FactBehind, Count: n} }

func blockedBy(h contract.Holder, n int) contract.Fact {
	return contract.Fact{Code: contract.FactBlocked, At: h.At, Holder: h, Count: n}
}

func pendingSince(at time.Time) contract.Fact {
	return contract.Fact{Code: contract.FactStepPending, At: at}
}

func explainOrder(s *scene) {
	s.configure(duly.QueueConfig{MaxLeased: 1, Rate: duly.Rate{PerSecond: 1, Burst: 2}})
	s.pushAll(numbered(3, "j")...)
	d, opens := s.take(), s.after(time.Minute)
	s.slow(d, time.Minute, "429")
	s.configure(duly.QueueConfig{Reopen: true})
	d = s.take()
	s.push(duly.Job{ID: "x", TTL: time.Hour, Merge: duly.Merge{Key: "m", Mode: duly.MergeReplace, MaxWait: time.Minute}})
	expires, bound := s.after(time.Hour), s.after(time.Minute)
	s.must("pause", s.Engine.Pause(s.ctx, s.ref()))

	facts := []contract.Fact{
		{Code: contract.FactPaused},
		{Code: contract.FactMaxLeased, At: d.LeaseEnd, Used: 1, Limit: 1},
		{Code: contract.FactRate, At: s.after(time.Second)},
		behind(2),
		{Code: contract.FactExpires, At: expires},
		{Code: contract.FactMerging, Cause: "replace", At: bound},
	}
	s.explains("that waits for many things", "x", facts...)
	s.must("resume", s.Engine.Resume(s.ctx, s.ref()))
	s.slow(d, time.Minute, "503")
	s.explains("after the lease", "x", facts[2],
		contract.Fact{Code: contract.FactClosed, At: opens, Cause: "503"}, behind(3), facts[4], facts[5])
}

func explainNext(s *scene) {
	held := func(id string) bool {
		x := s.explain(id)
		return x.Held()
	}
	s.pushAll(duly.Job{ID: "a", TTL: time.Minute, Merge: duly.Merge{Key: "m"}}, duly.Job{ID: "b"})
	same(s, "whether the first job is held back", held("a"), false)
	same(s, "whether the second job is held back", held("b"), true)
	s.explains("of the second job", "b", behind(1))
	same(s, "the next delivery", s.take().ID, "a")
	same(s, "whether the leased job is held back", held("a"), true)
	s.explains("after a delivery", "b")
}

func explainReads(s *scene) {
	s.configure(duly.QueueConfig{MaxLeased: 5, Rate: duly.Rate{PerSecond: 1, Burst: 1}})
	s.push(duly.Job{ID: "a", OrderKey: "k", TTL: time.Minute})
	s.push(duly.Job{ID: "b", OrderKey: "k"})
	s.push(duly.Job{ID: "due", Delay: time.Second})
	before := statsLine(s.stats())
	for _, id := range []string{"a", "b", "due"} {
		s.explain(id)
	}
	same(s, "the stats after explaining", statsLine(s.stats()), before)

	s.Advance(2 * time.Minute)
	s.explain("due")
	s.explain("b")
	same(s, "the stored delayed jobs", len(s.list(duly.StateDelayed)), 1)
	same(s, "the stored blocked jobs", len(s.list(duly.StateBlocked)), 1)
	same(s, "the stored ready jobs", len(s.list(duly.StateReady)), 1)
}

func explainUnknown(s *scene) {
	explain := func(q, id string) error {
		_, err := contract.ExplainerOf(s.Engine).Explain(s.ctx, s.on(q).ref(), id)
		return err
	}
	s.refused("explain in an unknown queue", explain("nowhere", "x"), duly.CodeNotFound)
	s.push(duly.Job{ID: "x", TTL: time.Second})
	s.refused("explain of an unknown job", explain(s.queue, "y"), duly.CodeNotFound)
	s.must("explain of a job", explain(s.queue, "x"))
	s.Advance(2 * time.Second)
	s.refused("explain of an expired job", explain(s.queue, "x"), duly.CodeNotFound)

	s.push(duly.Job{ID: "z"})
	s.ack(s.take())
	s.refused("explain of an acked job", explain(s.queue, "z"), duly.CodeNotFound)
	same(s, "the queues", strings.Join(s.queues(), " "), s.queue)
}

func explainInput(s *scene) {
	explain := func(q duly.QueueRef, id string) error {
		_, err := contract.ExplainerOf(s.Engine).Explain(s.ctx, q, id)
		return err
	}
	for _, id := range []string{"", "a b", "a/b", "a\x00", "../x", strings.Repeat("x", duly.MaxID+1),
		strings.Repeat("é", 1<<20)} {
		s.names("explain of a bad id", explain(s.ref(), id), duly.CodeInvalid, "id")
	}
	s.names("explain in a bad queue", explain(duly.Q("a b"), "x"), duly.CodeInvalid, "queue")
	s.names("explain in a group", explain(duly.Q("topic@group"), "x"), duly.CodeInvalid, "queue")

	// One call reports both faults.
	var e *duly.Error
	if err := explain(duly.Q("a b"), "a b"); !errors.As(err, &e) || len(e.Fields) != 2 {
		s.Errorf("explain with two bad parameters returns %v, want both", err)
	}
}

func explainDelayed(s *scene) {
	due := s.after(time.Hour)
	delayed := func(cause string) contract.Fact {
		return contract.Fact{Code: contract.FactDelayed, At: due, Cause: cause}
	}
	s.push(duly.Job{ID: "a", Delay: time.Hour})
	s.explains("after the push", "a", delayed(contract.DelayedByPush))
	s.must("promote", s.Engine.Promote(s.ctx, s.ref(), "a"))
	s.explains("after promote", "a")

	s.snooze(s.take(), time.Hour)
	s.explains("after a snooze", "a", delayed(contract.DelayedBySnooze))
	s.must("promote", s.Engine.Promote(s.ctx, s.ref(), "a"))
	s.nackFor(s.take(), time.Hour)
	either := delayed(contract.DelayedByEither)
	either.Used, either.Limit = 1, duly.DefaultTries
	s.explains("after a snooze and a failure", "a", either)
}

func explainRetry(s *scene) {
	s.push(duly.Job{ID: "a", Tries: 3})
	s.nackFor(s.take(), time.Minute)
	s.explains("after a failure", "a", contract.Fact{Code: contract.FactDelayed, At: s.after(time.Minute),
		Cause: contract.DelayedByRetry, Used: 1, Limit: 3})

	s.push(duly.Job{ID: "b", Tries: 4, MaxStalls: duly.None})
	s.stall(s.take())
	s.nackFor(s.take(), time.Minute)
	s.explains("after a stall that counts as a failure", "b", contract.Fact{Code: contract.FactDelayed,
		At: s.after(time.Minute), Cause: contract.DelayedByRetry, Used: 2, Limit: 4})
}

func explainPaused(s *scene) {
	s.push(duly.Job{ID: "ready", OrderKey: "k"})
	s.push(duly.Job{ID: "blocked", OrderKey: "k"})
	s.push(duly.Job{ID: "delayed", Delay: time.Hour})
	d := s.take()
	s.push(duly.Job{ID: "next"})
	s.must("pause", s.Engine.Pause(s.ctx, s.ref()))

	paused := contract.Fact{Code: contract.FactPaused}
	s.explains("in a paused queue", "next", paused)
	s.explains("in a paused queue", "delayed",
		contract.Fact{Code: contract.FactDelayed, At: s.after(time.Hour), Cause: contract.DelayedByPush}, paused)
	s.explains("in a paused queue", "blocked", paused,
		blockedBy(contract.Holder{ID: "ready", State: duly.StateLeased, At: d.LeaseEnd}, 0))
	s.explains("that runs already", "ready", contract.Fact{Code: contract.FactLeased, At: d.LeaseEnd})
	s.must("resume", s.Engine.Resume(s.ctx, s.ref()))
	s.explains("after resume", "next")
}

func explainMaxLeased(s *scene) {
	s.configure(duly.QueueConfig{MaxLeased: 2})
	s.push(duly.Job{ID: "long", Lease: time.Hour})
	s.push(duly.Job{ID: "short", Lease: time.Minute})
	s.push(duly.Job{ID: "delayed", Delay: time.Second})
	s.push(duly.Job{ID: "x"})
	s.take()
	s.explains("with a free place", "x", behind(1))
	d := s.take()
	s.explains("without a free place", "x", contract.Fact{Code: contract.FactMaxLeased, At: d.LeaseEnd, Used: 2, Limit: 2})
	s.explains("that is not due", "delayed",
		contract.Fact{Code: contract.FactDelayed, At: s.after(time.Second), Cause: contract.DelayedByPush})
	s.ack(d)
	s.explains("after an ack", "x")
}

func explainRunOut(s *scene) {
	s.configure(duly.QueueConfig{MaxLeased: 2})
	s.push(duly.Job{ID: "long", Lease: time.Hour})
	s.push(duly.Job{ID: "short", Lease: time.Minute})
	s.push(duly.Job{ID: "x"})
	s.take()
	d := s.take()
	s.Advance(2 * time.Minute)
	s.explains("after a lease has run out", "x")
	s.explains("that has run out", "short", contract.Fact{Code: contract.FactLeased, At: d.LeaseEnd},
		pendingSince(d.LeaseEnd))
	same(s, "the next delivery", s.take().ID, "x")
}

func explainRate(s *scene) {
	s.configure(duly.QueueConfig{Rate: duly.Rate{PerSecond: 0.5, Burst: 1}})
	s.pushAll(numbered(2, "j")...)
	s.explains("with a token", "j0000")
	s.take()
	s.explains("without a token", "j0001", contract.Fact{Code: contract.FactRate, At: s.after(2 * time.Second)})
	s.Advance(2*time.Second - time.Millisecond)
	s.explains("shortly before the token", "j0001",
		contract.Fact{Code: contract.FactRate, At: s.after(time.Millisecond)})
	s.Advance(time.Millisecond)
	s.explains("with the next token", "j0001")
	same(s, "the next delivery", s.take().ID, "j0001")
}

func explainClosed(s *scene) {
	s.pushAll(numbered(2, "j")...)
	s.slow(s.take(), time.Minute, "429")
	closed := contract.Fact{Code: contract.FactClosed, At: s.after(time.Minute), Cause: "429"}
	s.explains("in a closed queue", "j0000", closed)
	s.explains("in a closed queue", "j0001", closed, behind(1))
	s.Advance(time.Minute)
	s.explains("after the closing", "j0000")
}

func explainBlocked(s *scene) {
	push := func(id string) { s.push(duly.Job{ID: id, OrderKey: "k", Lease: time.Minute}) }
	push("a")
	push("b")
	holder := contract.Holder{ID: "a", State: duly.StateReady}
	s.explains("behind a ready job", "b", blockedBy(holder, 0))

	d := s.take()
	holder.State, holder.At = duly.StateLeased, d.LeaseEnd
	s.explains("behind a leased job", "b", blockedBy(holder, 0))
	s.nackFor(d, time.Hour)
	holder.State, holder.At = duly.StateDelayed, s.after(time.Hour)
	s.explains("behind a retry", "b", blockedBy(holder, 0))

	// The holder is due, but no step has moved it.
	s.Advance(time.Hour)
	s.explains("behind a due retry", "b", blockedBy(contract.Holder{ID: "a", State: duly.StateReady}, 0))
	d = s.take()
	s.Advance(time.Hour)
	s.explains("behind a lease that has run out", "b",
		blockedBy(contract.Holder{ID: "a", State: duly.StateLeased, At: d.LeaseEnd}, 0))
	s.must("delete", s.Engine.Delete(s.ctx, s.ref(), "a"))
	s.explains("after the holder has gone", "b")
}

func explainLane(s *scene) {
	s.push(duly.Job{ID: "head", OrderKey: "k"})
	s.push(duly.Job{ID: "low", OrderKey: "k", Priority: -1})
	s.push(duly.Job{ID: "first", OrderKey: "k"})
	s.push(duly.Job{ID: "second", OrderKey: "k"})
	s.push(duly.Job{ID: "high", OrderKey: "k", Priority: 1})
	s.push(duly.Job{ID: "other-head", OrderKey: "j"})
	s.push(duly.Job{ID: "other", OrderKey: "j", Priority: 9})
	s.push(duly.Job{ID: "longer-head", OrderKey: "kk"})
	s.push(duly.Job{ID: "longer", OrderKey: "kk", Priority: 9})

	head := contract.Holder{ID: "head", State: duly.StateReady}
	for n, id := range []string{"high", "first", "second", "low"} {
		s.explains("in its lane", id, blockedBy(head, n))
	}
	s.explains("in another lane", "other", blockedBy(contract.Holder{ID: "other-head", State: duly.StateReady}, 0))

	// A due job that no step has moved has its place in the lane, too.
	s.push(duly.Job{ID: "late", OrderKey: "k", Delay: time.Second})
	due := s.after(time.Second)
	s.Advance(time.Second)
	s.explains("that waits for its step", "late", blockedBy(head, 3), pendingSince(due))
	s.step()
	s.explains("after its step", "late", blockedBy(head, 3))
	s.explains("with a lower priority", "low", blockedBy(head, 4))
}

func explainManyBlocked(s *scene) {
	jobs := numbered(contract.MaxBlocked+3, "j")
	for i := range jobs {
		jobs[i].OrderKey = "k"
	}
	s.pushAll(jobs[:duly.MaxBatch]...)
	s.pushAll(jobs[duly.MaxBatch:]...)
	fact := blockedBy(contract.Holder{ID: "j0000", State: duly.StateReady}, contract.MaxBlocked)
	s.explains("after as many as are counted", "j1001", fact)
	fact.More = true
	s.explains("after one more", "j1002", fact)
}

func explainExpiredHolder(s *scene) {
	s.push(duly.Job{ID: "a", OrderKey: "k", TTL: time.Second})
	s.push(duly.Job{ID: "b", OrderKey: "k"})
	end := s.after(time.Second)
	s.Advance(2 * time.Second)
	s.explains("behind an expired job", "b", contract.Fact{Code: contract.FactBlocked}, pendingSince(end))
	s.step()
	s.explains("after a step", "b")
}

func explainBehind(s *scene) {
	s.push(duly.Job{ID: "low", Priority: -5})
	s.push(duly.Job{ID: "first"})
	s.push(duly.Job{ID: "second"})
	s.push(duly.Job{ID: "high", Priority: 5})
	s.push(duly.Job{ID: "blocker", OrderKey: "k", Priority: -9})
	s.push(duly.Job{ID: "blocked", OrderKey: "k", Priority: 9})
	s.explains("of the highest priority", "high")
	s.explains("behind one job", "first", behind(1))
	s.explains("behind two jobs", "second", behind(2))
	s.explains("of a low priority", "low", behind(3))
	for n, id := range []string{"high", "first", "second", "low"} {
		s.explains("before its delivery", id)
		same(s, "delivery", s.take().ID, id)
		same(s, "the jobs before the last one", len(s.explain("blocker").Facts), min(1, 3-n))
	}
}

func explainDueBehind(s *scene) {
	s.push(duly.Job{ID: "early", Delay: time.Second})
	s.push(duly.Job{ID: "twin", Delay: time.Second})
	s.push(duly.Job{ID: "high", Delay: time.Second, Priority: 1})
	due := s.after(time.Second)
	s.Advance(time.Second)
	s.step()
	s.push(duly.Job{ID: "same", Delay: time.Second})
	s.push(duly.Job{ID: "urgent", Delay: time.Second, Priority: 2})
	s.push(duly.Job{ID: "low", Delay: time.Second, Priority: -2})
	pending := pendingSince(due.Add(time.Second))
	s.Advance(time.Second)
	s.push(duly.Job{ID: "new"})

	s.explains("that is due and waits for a step", "same", behind(3), pending)
	s.explains("of a higher priority", "urgent", pending)
	s.explains("of a lower priority", "low", behind(4), pending)
	// The order of jobs with the same due time is that of their numbers.
	s.explains("behind its twin", "twin", behind(2))
	s.explains("that was pushed when the others were due", "new", behind(3))
	s.step()
	s.explains("after a step", "same", behind(4))
	s.explains("after a step", "new", behind(5))
}

func explainManyReady(s *scene) {
	s.oneShard(duly.QueueConfig{MaxJobs: 2 * contract.MaxBehind})
	for pushed := 0; pushed < contract.MaxBehind; pushed += duly.MaxBatch {
		s.pushAll(make([]duly.Job, duly.MaxBatch)...)
	}
	s.pushAll(duly.Job{ID: "exact", Priority: -1}, duly.Job{ID: "more", Priority: -2})
	s.push(duly.Job{ID: "due", Priority: -3, Delay: time.Second})
	fact := behind(contract.MaxBehind)
	s.explains("after as many as are counted", "exact", fact)
	fact.More = true
	s.explains("after one more", "more", fact)
	due := s.after(time.Second)
	s.Advance(time.Second)
	s.explains("that waits for a step", "due", fact, pendingSince(due))
}

func explainLeased(s *scene) {
	s.push(duly.Job{ID: "a", Lease: time.Minute, TTL: time.Second})
	d := s.take()
	leased := contract.Fact{Code: contract.FactLeased, At: d.LeaseEnd}
	s.explains("that runs", "a", leased)
	s.Advance(time.Minute - time.Millisecond)
	s.explains("shortly before the end of its lease", "a", leased)
	s.Advance(time.Millisecond)
	s.explains("after the end of its lease", "a", leased, pendingSince(d.LeaseEnd))
	s.must("extend", s.extend(d.Receipt, time.Hour))
	s.explains("after extend", "a", contract.Fact{Code: contract.FactLeased, At: s.after(time.Hour)})
}

func explainPending(s *scene) {
	s.push(duly.Job{ID: "a", Delay: time.Second})
	due := s.after(time.Second)
	s.Advance(time.Second - time.Millisecond)
	s.explains("before it is due", "a",
		contract.Fact{Code: contract.FactDelayed, At: due, Cause: contract.DelayedByPush})
	s.Advance(time.Millisecond)
	s.explains("when it is due", "a", pendingSince(due))
	s.step()
	s.explains("after a step", "a")
}

func explainExpires(s *scene) {
	s.push(duly.Job{ID: "a", TTL: time.Minute, Retain: time.Hour})
	s.explains("with a TTL", "a", contract.Fact{Code: contract.FactExpires, At: s.after(time.Minute)})
	s.ack(s.take())
	s.explains("that is done", "a", contract.Fact{Code: contract.FactExpires, At: s.after(time.Hour)},
		contract.Fact{Code: contract.FactDone, At: s.now()})
}

func explainDead(s *scene) {
	dead := contract.Fact{Code: contract.FactDead, At: s.now(), Cause: "boom", Used: 1, Limit: 1}
	s.push(duly.Job{ID: "a", Tries: 1, TTL: time.Hour})
	s.nack(s.take(), "boom")
	s.explains("that has failed", "a", dead)

	s.push(duly.Job{ID: "b"})
	s.bury(s.take(), "unreadable")
	dead.Cause, dead.Used, dead.Limit = "unreadable", 0, duly.DefaultTries
	s.explains("that was buried", "b", dead)
	s.must("pause", s.Engine.Pause(s.ctx, s.ref()))
	s.explains("in a paused queue", "b", dead)
}

func explainMerging(s *scene) {
	s.push(duly.Job{ID: "a", Body: []byte("x"), Merge: duly.Merge{Mode: duly.MergeKeep}})
	s.explains("with keep", "a", contract.Fact{Code: contract.FactMerging, Cause: "keep"})
	s.take()
	if facts := s.explain("a").Facts; len(facts) != 1 {
		s.Errorf("a leased job with a merge key has the facts %+v, want one", facts)
	}

	debounce := duly.Job{ID: "b", Delay: time.Minute, Merge: duly.Merge{Key: "m", Mode: duly.MergeReplace, MaxWait: time.Hour}}
	s.push(debounce)
	bound := s.after(time.Hour)
	s.Advance(30 * time.Second)
	debounce.ID = "c"
	same(s, "the second push", s.try(debounce).Status, duly.Merged)
	s.explains("after a merge", "b",
		contract.Fact{Code: contract.FactDelayed, At: s.after(time.Minute), Cause: contract.DelayedByPush},
		contract.Fact{Code: contract.FactMerging, Cause: "replace", At: bound})
}

// explainProbing runs with adaptive limits.
func explainProbing(s *scene) {
	s.adaptive(0.1, duly.QueueConfig{MaxLeased: 10})
	s.pushAll(durable(30)...)
	s.fails(20)
	closed := contract.Fact{Code: contract.FactClosed, At: s.after(time.Second), Cause: adaptive.Reason}
	s.explains("after twenty failures", "j0029", closed, behind(29))

	s.Advance(time.Second)
	s.explains("before the probe", "j0029", behind(29))
	probe := s.take()
	holder := contract.Holder{ID: probe.ID, State: duly.StateLeased, At: probe.LeaseEnd}
	full := contract.Fact{Code: contract.FactMaxLeased, At: probe.LeaseEnd, Used: 1, Limit: 1}
	s.explains("during the probe", "j0029", full,
		contract.Fact{Code: contract.FactProbing, At: probe.LeaseEnd, Holder: holder}, behind(28))

	// The step will close the shard from the end of the lease on.
	s.must("extend", s.extend(probe.Receipt, 100*time.Millisecond))
	s.Advance(200 * time.Millisecond)
	closed.At = s.after(900 * time.Millisecond)
	s.explains("after the lease of the probe has run out", "j0029", closed, behind(28))
	s.step()
	// The stall has put the probe behind the other jobs.
	s.explains("after the step", "j0029", closed, behind(28))
}
