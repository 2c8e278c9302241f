package enginetest

import (
	"slices"
	"time"

	"github.com/dulymq/duly"
)

func deadTests() []test {
	return []test{
		{"KeepsItsErrorAttemptsAndTimes", []string{"C8.8"}, Options{}, deadKeeps},
		{"AttemptStaysWithinItsTries", []string{"C4.96"}, Options{}, deadAttempt},
		{"DoesNotExpire", []string{"C8.8", "C3.4"}, Options{}, deadLosesTTL},
		{"IsBoundedByAge", []string{"C8.9", "C10.5", "C3.6", "C8.14"}, Options{}, deadAge},
		{"IsBoundedByCount", []string{"C8.10", "C10.5", "C3.6", "C8.13", "C8.14"}, Options{OneShard: true}, deadCount},
		{"EachDeathEnforcesTheCountBound", []string{"C8.13"}, Options{OneShard: true}, deadCountLowered},
		{"AgeBoundIsExactToTheMillisecond", []string{"C8.9"}, Options{}, deadAgeExact},
		{"OneDeathDropsTwoExpiredJobs", []string{"C8.13", "C8.9"}, Options{OneShard: true}, deadAgeDropsTwo},
		{"IsUnboundedByNone", []string{"C8.11", "C10.5"}, Options{}, deadUnbounded},
		{"BoundsDefaultTo90DaysAnd100000", []string{"C8.9", "C8.10"}, Options{}, deadDefaults},
		{"DoneJobsAreBoundedByRetain", []string{"C8.12", "C3.7", "C10.4"}, Options{}, doneRetain},
		{"DoneJobsAreBoundedBy100000", []string{"C8.12"}, Options{}, doneCount},
	}
}

// kill pushes jobs and buries them.
func (s *scene) kill(jobs ...duly.Job) []string {
	s.Helper()
	ids := s.pushAll(jobs...)
	for _, d := range s.reserve(len(jobs)) {
		s.bury(d, "killed")
	}
	return ids
}

func deadKeeps(s *scene) {
	start := s.now()
	id := s.push(duly.Job{Tries: 2, Backoff: "fixed:1s", Body: []byte("b"), Headers: map[string]string{"h": "v"}})
	// One failure, one stall and another failure use up both tries.
	s.nack(s.take(), "first")
	s.Advance(time.Second)
	s.stall(s.take())
	s.nack(s.take(), "second")

	info := s.get(id)
	same(s, "its state", info.State, duly.StateDead)
	same(s, "its last error", info.LastError, "second")
	same(s, "its failures", info.Failures, 2)
	same(s, "its stalls", info.Stalls, 1)
	sameTime(s, "its push", info.PushedAt, start)
	sameTime(s, "its end", info.FinishedAt, s.now())
	sameTime(s, "its lease", info.LeaseEnd, time.Time{})
	s.sameContent("the dead job", info.Job, duly.Job{Body: []byte("b"), Headers: map[string]string{"h": "v"}})
}

// deadAttempt creates three dead jobs: one failed all tries, one stalled, and one was buried in
// its first try.
func deadAttempt(s *scene) {
	s.push(duly.Job{ID: "failed", Tries: 2, Backoff: "fixed:0s"})
	s.nack(s.take(), "first")
	s.nack(s.take(), "second")

	s.push(duly.Job{ID: "stalled", Tries: 1, MaxStalls: duly.None})
	s.stall(s.take())
	s.step()

	s.kill(duly.Job{ID: "buried", Tries: 3})

	for id, want := range map[string]int{"failed": 2, "stalled": 1, "buried": 1} {
		info := s.get(id)
		same(s, id+": its state", info.State, duly.StateDead)
		same(s, id+": its attempt", info.Attempt, want)
	}
	for _, info := range s.list(duly.StateDead) {
		if info.Attempt > info.Tries {
			s.Errorf("the list has attempt %d of %d for %s, want at most the number of tries", info.Attempt, info.Tries, info.ID)
		}
	}
}

func deadLosesTTL(s *scene) {
	s.kill(duly.Job{ID: "x", TTL: time.Minute})
	sameTime(s, "its expiry", s.get("x").ExpiresAt, time.Time{})
	// The TTL of a minute ends, but a dead job keeps only the bounds of its queue.
	s.Advance(time.Hour)
	s.step()
	s.is("x", duly.StateDead)
	s.counted(duly.Counters{Pushed: 1, Delivered: 1, Dead: 1})
}

func deadAge(s *scene) {
	s.configure(duly.QueueConfig{DeadAge: time.Hour})
	s.kill(duly.Job{ID: "old"})
	s.Advance(30 * time.Minute)
	s.kill(duly.Job{ID: "young"})

	// One second before the older job exceeds the limit.
	s.Advance(30*time.Minute - time.Second)
	s.step()
	s.is("old", duly.StateDead)
	// The bound of the younger job ends half an hour later.
	s.Advance(2 * time.Second)
	s.step()
	s.gone("old")
	s.is("young", duly.StateDead)
	s.sizes(duly.Sizes{Dead: 1})
	s.counted(duly.Counters{Pushed: 2, Delivered: 2, Dead: 2, Dropped: 1})
}

func deadCount(s *scene) {
	s.configure(duly.QueueConfig{DeadCount: 3})
	for i, j := range numbered(7, "j") {
		s.kill(j)
		// No step is needed: each operation that adds a dead job enforces the bound.
		same(s, "the dead jobs", len(s.list(duly.StateDead)), min(i+1, 3))
		s.Advance(time.Second)
	}
	s.sameIDs("the dead jobs", idsOf(s.list(duly.StateDead)), []string{"j0004", "j0005", "j0006"})
	s.gone("j0000")
	s.counted(duly.Counters{Pushed: 7, Delivered: 7, Dead: 7, Dropped: 4})
}

// deadCountLowered reserves the jobs before it lowers the bound, because Reserve would step the
// queue and drop every job over the bound.
func deadCountLowered(s *scene) {
	s.kill(numbered(10, "j")...)
	s.pushAll(numbered(9, "k")...)
	ds := s.reserve(9)
	s.configure(duly.QueueConfig{DeadCount: 4})
	for _, d := range ds {
		// Each death drops at most two jobs, so a lowered bound is reached gradually.
		before := len(s.list(duly.StateDead))
		s.bury(d, "no")
		after := len(s.list(duly.StateDead))
		if after != max(4, before-1) {
			s.Errorf("with %d dead jobs and a bound of 4, one more death leaves %d, want two jobs dropped, or 4 left",
				before, after)
		}
	}
	same(s, "the dead jobs", len(s.list(duly.StateDead)), 4)
}

// deadAgeExact checks the limit with Step and with Sweep, which finds overdue queues by itself.
func deadAgeExact(s *scene) {
	for _, applied := range []struct {
		name string
		do   func(n *scene)
	}{
		{"step", (*scene).step},
		{"sweep", func(n *scene) { n.must("sweep", n.Maintainer.Sweep(n.ctx)) }},
	} {
		n := s.on(applied.name)
		n.configure(duly.QueueConfig{DeadAge: time.Hour})
		n.kill(duly.Job{ID: "x"})
		// Exactly at the limit the job stays. One millisecond later it is dropped.
		n.Advance(time.Hour)
		applied.do(n)
		n.is("x", duly.StateDead)
		n.Advance(time.Millisecond)
		applied.do(n)
		n.gone("x")
		n.counted(duly.Counters{Pushed: 1, Delivered: 1, Dead: 1, Dropped: 1})
	}
}

// deadAgeDropsTwo kills one job after four jobs have exceeded the age. A settle does not step the
// queue, so it drops two of them. The next death drops the other two.
func deadAgeDropsTwo(s *scene) {
	s.configure(duly.QueueConfig{DeadAge: time.Hour})
	s.kill(numbered(4, "old")...)
	s.pushAll(duly.Job{ID: "a", Lease: 3 * time.Hour}, duly.Job{ID: "b", Lease: 3 * time.Hour})
	ds := s.reserve(2)
	// Move the clock without a step.
	s.Clock.Advance(time.Hour + time.Millisecond)

	s.bury(ds[0], "no")
	s.sameIDs("the dead jobs after one death", idsOf(s.list(duly.StateDead)), []string{"old0002", "old0003", "a"})
	s.bury(ds[1], "no")
	s.sameIDs("the dead jobs after the second death", idsOf(s.list(duly.StateDead)), []string{"a", "b"})
}

func deadUnbounded(s *scene) {
	s.configure(duly.QueueConfig{DeadAge: duly.None, DeadCount: duly.None})
	c := s.config()
	same(s, "dead age", c.DeadAge, duly.None)
	same(s, "dead count", c.DeadCount, duly.None)
	s.kill(numbered(20, "j")...)
	// Ten years pass.
	s.Advance(10 * 366 * 24 * time.Hour)
	s.sizes(duly.Sizes{Dead: 20})
}

func deadDefaults(s *scene) {
	s.kill(duly.Job{ID: "x"})
	c := s.config()
	same(s, "dead age", c.DeadAge, 90*24*time.Hour)
	same(s, "dead count", c.DeadCount, 100_000)

	// One second before the default age is reached.
	s.Advance(90*24*time.Hour - time.Second)
	s.step()
	s.is("x", duly.StateDead)
	s.Advance(2 * time.Second)
	s.step()
	s.gone("x")
}

func doneRetain(s *scene) {
	s.pushAll(duly.Job{ID: "short", Retain: time.Minute}, duly.Job{ID: "long", Retain: time.Hour})
	// The queue's default applies to jobs that are pushed afterwards without a value.
	s.configure(duly.QueueConfig{Defaults: duly.Defaults{Retain: time.Hour}})
	s.pushAll(duly.Job{ID: "usual"}, duly.Job{ID: "none", Retain: duly.None})
	for _, d := range s.reserve(4) {
		s.ack(d)
	}

	s.sizes(duly.Sizes{Done: 3})
	s.Advance(2 * time.Minute)
	s.step()
	s.gone("short")
	s.is("long", duly.StateDone)
	s.is("usual", duly.StateDone)

	s.Advance(time.Hour)
	s.sizes(duly.Sizes{})
}

// doneCount pushes more jobs than the bound. Only the long suites do so, because it takes long.
// The short form checks that no job is dropped before the bound.
func doneCount(s *scene) {
	n := duly.MaxDone + 10
	if !long() || s.raced() {
		n = 1000
	}
	first := ""
	for at := 0; at < n; at += 1000 {
		jobs := make([]duly.Job, min(1000, n-at))
		for i := range jobs {
			jobs[i].Retain = 24 * time.Hour
		}
		ids := s.pushAll(jobs...)
		// The oldest job is the first one that the limit drops.
		if at == 0 {
			first = ids[0]
		}

		ds := s.reserve(1000)
		outcomes := make([]duly.SettleRequest, len(ds))
		for i, d := range ds {
			outcomes[i] = duly.SettleRequest{Receipt: d.Receipt, As: duly.Ack}
		}
		errs, err := s.Engine.Settle(s.ctx, "", outcomes)
		s.must("settle", err)
		if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
			s.Fatal(errs[i])
		}
	}

	done := s.stats().Sizes.Done
	// Each shard enforces its part of the bound, and the jobs are not spread evenly.
	if n > duly.MaxDone && s.Shards > 1 {
		if done > duly.MaxDone || done < duly.MaxDone*9/10 {
			s.Errorf("%d jobs are done, want a little less than %d", done, duly.MaxDone)
		}
		return
	}
	same(s, "the done jobs", done, int64(min(n, duly.MaxDone)))
	if n > duly.MaxDone {
		s.gone(first)
	} else {
		s.is(first, duly.StateDone)
	}
}
