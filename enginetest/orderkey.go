package enginetest

import (
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

func orderKeyTests() []test {
	return []test{
		{"FreeKeyIsTakenAndBusyKeyBlocks", []string{"C6.4", "C3.3"}, Options{}, keyTaken},
		{"OneJobPerKeyIsInFlight", []string{"C6.4", "C6.7", "C6.11"}, Options{}, keyOneAtATime},
		{"OverdueJobsTakeTheKeyInDueOrder", []string{"C6.5", "C3.3"}, Options{}, keyLateStep},
		{"EarlierDueJobTakesTheKeyBeforeALaterPush", []string{"C6.5"}, Options{}, keyDueBefore},
		{"HigherPriorityDoesNotReplaceTheHead", []string{"C6.6"}, Options{}, keyHeadStays},
		{"HeadHoldsItsKeyWhileItWaitsForARetry", []string{"C6.8"}, Options{}, keyRetry},
		{"HeadHoldsItsKeyWhileItIsSnoozed", []string{"C6.8"}, Options{}, keySnooze},
		{"HeadHoldsItsKeyAfterAStall", []string{"C6.7", "C6.8"}, Options{}, keyStall},
		{"IsReleasedAtEveryEnd", []string{"C6.9", "C6.11", "C3.10", "C6.13"}, Options{}, keyGivenUp},
		{"IsReleasedWhenTheHeadIsDelayed", []string{"C6.10", "C6.11", "C3.19"}, Options{}, keyPutBack},
		{"IsKeptWhenADeliveredHeadIsDelayed", []string{"C6.8", "C6.10"}, Options{}, keyPutBackDelivered},
		{"GoesToTheFirstBlockedByPriorityDueAndNumber", []string{"C6.11"}, Options{}, keyNextIsFirst},
		{"IsNotHeldByADelayedJob", []string{"C6.12"}, Options{}, keyDelayedHoldsNone},
		{"IsReleasedWhenTheHeadIsDeleted", []string{"C6.13"}, Options{}, keyDeletedHead},
		{"PromotedJobIsBlockedIfItsKeyIsBusy", []string{"C3.21", "C6.4"}, Options{}, keyPromoted},
		{"IdleKeysUseNoStorage", []string{"C6.14"}, Options{}, keyIdle},
		{"OrderSurvivesFailuresAndSnoozes", []string{"C6.8", "C6.15"}, Options{}, keyOrderHolds},
		{"DifferentKeysDoNotWaitForEachOther", []string{"C6.4"}, Options{OneShard: true}, keyIndependent},
		{"JobsWithoutAKeyAreNeverBlocked", []string{"C6.4"}, Options{OneShard: true}, keyNone},
	}
}

// line pushes several jobs of one key.
func (s *scene) line(ids ...string) {
	s.Helper()
	for _, id := range ids {
		s.push(duly.Job{ID: id, OrderKey: "k", Backoff: "fixed:1m"})
	}
}

// keyDueBefore makes a job due without stepping the queue. Jobs that later operations make due
// must still come after it.
func keyDueBefore(s *scene) {
	s.push(duly.Job{ID: "first", OrderKey: "k", Delay: time.Second})
	s.push(duly.Job{ID: "promoted", OrderKey: "k", Delay: time.Hour})
	s.push(duly.Job{ID: "updated", OrderKey: "k", Delay: time.Hour})
	s.Advance(2 * time.Second)
	// None of these calls steps the queue.
	s.push(duly.Job{ID: "pushed", OrderKey: "k"})
	s.Advance(time.Second)
	if err := s.Engine.Promote(s.ctx, s.ref(), "promoted"); err != nil {
		s.Fatal(err)
	}
	s.Advance(time.Second)
	if err := s.Engine.Update(s.ctx, s.ref(), "updated", duly.Update{Delay: new(time.Duration)}); err != nil {
		s.Fatal(err)
	}

	for _, want := range []string{"first", "pushed", "promoted", "updated"} {
		// The key allows one job in flight at a time, whatever the maximum.
		got := s.reserve(10)
		if len(got) != 1 || got[0].ID != want {
			s.Fatalf("reserved %v, want only %s", got, want)
		}
		s.ack(got[0])
	}
}

func keyTaken(s *scene) {
	s.line("a", "b")
	s.is("a", duly.StateReady)
	s.is("b", duly.StateBlocked)
	s.sizes(duly.Sizes{Ready: 1, Blocked: 1})
}

func keyOneAtATime(s *scene) {
	s.line("a", "b", "c")
	for _, id := range []string{"a", "b", "c"} {
		d := s.takes(id)[0]
		s.nothing("the key is busy")
		s.ack(d)
	}
}

func keyLateStep(s *scene) {
	s.pushAll(
		duly.Job{ID: "late", OrderKey: "k", Delay: 3 * time.Second, Priority: 1000},
		duly.Job{ID: "early", OrderKey: "k", Delay: time.Second, Priority: -1000},
		duly.Job{ID: "mid", OrderKey: "k", Delay: 2 * time.Second},
	)
	// All three are overdue. The earliest takes the key in spite of its priority.
	s.Advance(time.Hour)
	s.is("early", duly.StateReady)
	s.ack(s.takes("early")[0])
	// The jobs behind the head are ordered by priority.
	s.ack(s.takes("late")[0])
	s.takes("mid")
}

func keyHeadStays(s *scene) {
	s.line("a")
	s.push(duly.Job{ID: "b", OrderKey: "k", Priority: 1000})
	s.is("a", duly.StateReady)
	s.is("b", duly.StateBlocked)
	// A ready job holds its key even before it is delivered.
	s.ack(s.takes("a")[0])
	s.takes("b")
}

func keyRetry(s *scene) {
	s.line("a", "b", "c")
	s.nack(s.takes("a")[0], "no")
	s.is("a", duly.StateDelayed)
	s.nothing("the head waits for its retry")
	s.sizes(duly.Sizes{Delayed: 1, Blocked: 2})

	s.Advance(time.Minute)
	s.is("a", duly.StateReady)
	s.ack(s.takes("a")[0])
	s.ack(s.takes("b")[0])
	s.takes("c")
}

func keySnooze(s *scene) {
	s.line("a", "b")
	s.snooze(s.takes("a")[0], time.Hour)
	// One millisecond before the snoozed job is due again.
	s.Advance(time.Hour - time.Millisecond)
	s.nothing("the head is snoozed")

	s.Advance(time.Millisecond)
	s.ack(s.takes("a")[0])
	s.takes("b")
}

func keyStall(s *scene) {
	s.line("a")
	d := s.take()
	s.push(duly.Job{ID: "b", OrderKey: "k", Priority: 1000})
	// The stalled job keeps its key, so the higher priority does not matter.
	s.stall(d)
	s.takes("a")
}

func keyGivenUp(s *scene) {
	ends := []struct {
		name string
		do   func(n *scene)
	}{
		{"ack", func(n *scene) { n.ack(n.take()) }},
		{"bury", func(n *scene) { n.bury(n.take(), "no") }},
		{"dead of tries", func(n *scene) { n.nack(n.take(), "no") }},
		{"delete ready", func(n *scene) { n.must("delete", n.Engine.Delete(n.ctx, n.ref(), "a")) }},
		{"delete leased", func(n *scene) { n.take(); n.must("delete", n.Engine.Delete(n.ctx, n.ref(), "a")) }},
		{"delete snoozed", func(n *scene) {
			n.snooze(n.take(), time.Hour)
			n.must("delete", n.Engine.Delete(n.ctx, n.ref(), "a"))
		}},
		{"purge ready", func(n *scene) { n.purged(duly.StateReady, 1) }},
		{"purge leased", func(n *scene) { n.take(); n.purged(duly.StateLeased, 1) }},
		{"purge snoozed", func(n *scene) { n.snooze(n.take(), time.Hour); n.purged(duly.StateDelayed, 1) }},
		{"expire", func(n *scene) { n.Advance(2 * time.Hour); n.step() }},
		{"merge away", func(n *scene) {
			d := n.take()
			n.push(duly.Job{ID: "newer", OrderKey: "k", Merge: duly.Merge{Key: "m"}, Priority: -1})
			n.nack(d, "no")
		}},
	}

	for _, end := range ends {
		n := s.on(nameOf(end.name))
		n.push(duly.Job{ID: "a", OrderKey: "k", Tries: 1, TTL: time.Hour, Merge: duly.Merge{Key: "m"}, Retain: time.Hour})
		n.push(duly.Job{ID: "b", OrderKey: "k"})
		n.is("b", duly.StateBlocked)
		end.do(n)
		n.is("b", duly.StateReady)
		// The operation that ends the job also makes the next job of the key ready, without a
		// further step.
		n.sameIDs("the ready jobs after "+end.name, idsOf(n.list(duly.StateReady)), []string{"b"})
		n.sameIDs("the jobs delivered after "+end.name, idsTaken(n.takeAll()), []string{"b"})
	}
}

// nameOf converts words to a queue name.
func nameOf(words string) string {
	b := []byte(words)
	for i, c := range b {
		if c == ' ' {
			b[i] = '-'
		}
	}
	return string(b)
}

// purged purges up to want jobs of a state, and reports an error unless there were that many.
func (s *scene) purged(state duly.State, want int) {
	s.Helper()
	n, err := s.Engine.Purge(s.ctx, s.ref(), state, want)
	s.must("purge", err)
	same(s, "the jobs purged", n, want)
}

func keyPutBack(s *scene) {
	s.line("a", "b", "c")
	// The head was never delivered, so a delay releases its key.
	s.updateDelay("a", time.Hour)
	s.is("a", duly.StateDelayed)
	s.is("b", duly.StateReady)
	s.is("c", duly.StateBlocked)

	// The former holder of the key is due again, but another job holds the key now.
	s.updateDelay("a", 0)
	s.is("a", duly.StateBlocked)
	s.ack(s.takes("b")[0])

	replace := duly.Merge{Key: "m", Mode: duly.MergeReplace}
	n := s.on("merged")
	n.push(duly.Job{ID: "x", OrderKey: "k", Merge: replace})
	n.line("y")
	n.merges(duly.Job{OrderKey: "k", Merge: replace, Delay: time.Hour}, "x")
	n.is("x", duly.StateDelayed)
	n.is("y", duly.StateReady)
}

func (s *scene) updateDelay(id string, delay time.Duration) {
	s.Helper()
	s.must("update", s.Engine.Update(s.ctx, s.ref(), id, duly.Update{Delay: &delay}))
}

func keyPutBackDelivered(s *scene) {
	s.line("a", "b")
	// A release leaves the job ready, with its key.
	s.release(s.take())
	s.updateDelay("a", time.Hour)
	s.is("a", duly.StateDelayed)
	s.is("b", duly.StateBlocked)
	s.nothing("the head was delivered before, so it holds its key")
	s.Advance(time.Hour)
	s.ack(s.takes("a")[0])
	s.takes("b")
}

func keyNextIsFirst(s *scene) {
	s.line("head")
	s.push(duly.Job{ID: "third", OrderKey: "k"})
	s.Advance(time.Second)
	s.push(duly.Job{ID: "fourth", OrderKey: "k"})
	s.push(duly.Job{ID: "first", OrderKey: "k", Priority: 5})
	s.push(duly.Job{ID: "second", OrderKey: "k", Priority: 5})
	s.push(duly.Job{ID: "last", OrderKey: "k", Priority: -5})

	// The order is by priority, then by due time, then by number.
	s.sameIDs("the blocked jobs", idsOf(s.list(duly.StateBlocked)), []string{"first", "second", "third", "fourth", "last"})
	for _, id := range []string{"head", "first", "second", "third", "fourth", "last"} {
		s.ack(s.takes(id)[0])
	}
}

func keyDelayedHoldsNone(s *scene) {
	s.push(duly.Job{ID: "later", OrderKey: "k", Delay: time.Minute})
	s.line("now")
	s.is("now", duly.StateReady)
	d := s.takes("now")[0]
	// The extension keeps the lease from ending while the clock moves.
	s.must("extend", s.extend(d.Receipt, time.Hour))
	s.Advance(2 * time.Minute)
	s.is("later", duly.StateBlocked)
	s.nothing("the key is busy")
	s.ack(d)
	s.takes("later")
}

func keyDeletedHead(s *scene) {
	s.line("a", "b")
	stale := s.takes("a")[0]
	s.must("delete", s.Engine.Delete(s.ctx, s.ref(), "a"))
	current := s.takes("b")[0]
	// The key belongs to another job now, so the old receipt must not free it.
	s.lost("ack of the deleted head", s.settle(duly.SettleRequest{Receipt: stale.Receipt, As: duly.Ack}))
	s.ack(current)
}

func keyPromoted(s *scene) {
	s.line("a")
	s.push(duly.Job{ID: "b", OrderKey: "k", Delay: time.Hour})
	s.must("promote", s.Engine.Promote(s.ctx, s.ref(), "b"))
	s.is("b", duly.StateBlocked)
	s.ack(s.takes("a")[0])
	s.takes("b")
}

func keyIdle(s *scene) {
	// One order key and one merge key per job.
	jobs := numbered(500, "j")
	for i := range jobs {
		jobs[i].OrderKey, jobs[i].Merge = jobs[i].ID, duly.Merge{Key: jobs[i].ID}
	}
	s.pushAll(jobs...)
	for _, d := range s.reserve(500) {
		s.ack(d)
	}

	// Check would report an entry that no job uses.
	report, err := s.Maintainer.Check(s.ctx, contract.CheckParams{})
	s.must("check", err)
	same(s, "the jobs that check looks at", report.Jobs, 0)
	same(s, "the faults", len(report.Faults), 0)
}

func keyOrderHolds(s *scene) {
	i := 0
	s.orderedRun(5, 12, func(d duly.Delivery) bool {
		// Half of the deliveries fail, are snoozed or released.
		i++
		switch i % 6 {
		case 1:
			s.nack(d, "no")
		case 3:
			s.snooze(d, 3*time.Second)
		case 4:
			s.release(d)
		default:
			s.ack(d)
			return true
		}
		return false
	})
}

func keyIndependent(s *scene) {
	// Keys that are prefixes of each other, or differ in case, are different keys.
	s.pushAll(duly.Job{ID: "a", OrderKey: "k"}, duly.Job{ID: "b", OrderKey: "kk"}, duly.Job{ID: "c", OrderKey: "K"})
	s.on("other").push(duly.Job{ID: "d", OrderKey: "k"})
	s.takes("a", "b", "c")
	s.on("other").takes("d")
}

func keyNone(s *scene) {
	s.line("a", "b")
	s.pushAll(duly.Job{ID: "c"}, duly.Job{ID: "d"})
	s.takes("a", "c", "d")
}
