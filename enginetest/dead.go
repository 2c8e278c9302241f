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
		{"LosesItsTTL", []string{"C8.8", "C3.4"}, Options{}, deadLosesTTL},
		{"IsBoundedByAge", []string{"C8.9", "C10.5", "C3.6", "C8.14"}, Options{}, deadAge},
		{"IsBoundedByCount", []string{"C8.10", "C10.5", "C3.6", "C8.13", "C8.14"}, Options{OneShard: true}, deadCount},
		{"BoundIsKeptWithoutAHelper", []string{"C8.13"}, Options{OneShard: true}, deadCountLowered},
		{"BoundByAgeIsExactToTheMillisecond", []string{"C8.9"}, Options{}, deadAgeExact},
		{"OneDeathDropsTwoThatAreTooOld", []string{"C8.13", "C8.9"}, Options{OneShard: true}, deadAgeDropsTwo},
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

// deadAttempt has jobs that die of failures, of a stall that counts as one, and of
// a bury at the first try.
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
			s.Errorf("the list says attempt %d of %d for %s", info.Attempt, info.Tries, info.ID)
		}
	}
}

func deadLosesTTL(s *scene) {
	s.kill(duly.Job{ID: "x", TTL: time.Minute})
	sameTime(s, "its expiry", s.get("x").ExpiresAt, time.Time{})
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
	s.Advance(30*time.Minute - time.Second)
	s.step()
	s.is("old", duly.StateDead)
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
		// Without a step: whatever adds a dead job keeps the bound.
		same(s, "the dead jobs", len(s.list(duly.StateDead)), min(i+1, 3))
		s.Advance(time.Second)
	}
	s.sameIDs("the dead jobs", idsOf(s.list(duly.StateDead)), []string{"j0004", "j0005", "j0006"})
	s.gone("j0000")
	s.counted(duly.Counters{Pushed: 7, Delivered: 7, Dead: 7, Dropped: 4})
}

// deadCountLowered takes the jobs before it lowers the bound: a Reserve would
// step the queue, and drop all that is over it.
func deadCountLowered(s *scene) {
	s.kill(numbered(10, "j")...)
	s.pushAll(numbered(9, "k")...)
	ds := s.reserve(9)
	s.configure(duly.QueueConfig{DeadCount: 4})
	for _, d := range ds {
		before := len(s.list(duly.StateDead))
		s.bury(d, "no")
		after := len(s.list(duly.StateDead))
		if after != max(4, before-1) {
			s.Errorf("with %d dead jobs and a bound of 4, one more makes %d; two that are over the bound go", before, after)
		}
	}
	same(s, "the dead jobs", len(s.list(duly.StateDead)), 4)
}

// deadAgeExact looks by steps and by sweeps, which find overdue queues on their
// own.
func deadAgeExact(s *scene) {
	for _, look := range []struct {
		name string
		do   func(n *scene)
	}{
		{"step", (*scene).step},
		{"sweep", func(n *scene) { n.must("sweep", n.Maintainer.Sweep(n.ctx)) }},
	} {
		n := s.on(look.name)
		n.configure(duly.QueueConfig{DeadAge: time.Hour})
		n.kill(duly.Job{ID: "x"})
		n.Advance(time.Hour)
		look.do(n)
		n.is("x", duly.StateDead)
		n.Advance(time.Millisecond)
		look.do(n)
		n.gone("x")
		n.counted(duly.Counters{Pushed: 1, Delivered: 1, Dead: 1, Dropped: 1})
	}
}

// deadAgeDropsTwo kills one job after four have become too old. A settle is no
// step, so it drops two of them and the next death the others.
func deadAgeDropsTwo(s *scene) {
	s.configure(duly.QueueConfig{DeadAge: time.Hour})
	s.kill(numbered(4, "old")...)
	s.pushAll(duly.Job{ID: "a", Lease: 3 * time.Hour}, duly.Job{ID: "b", Lease: 3 * time.Hour})
	ds := s.reserve(2)
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
	s.Advance(10 * 366 * 24 * time.Hour)
	s.sizes(duly.Sizes{Dead: 20})
}

func deadDefaults(s *scene) {
	s.kill(duly.Job{ID: "x"})
	c := s.config()
	same(s, "dead age", c.DeadAge, 90*24*time.Hour)
	same(s, "dead count", c.DeadCount, 100_000)
	s.Advance(90*24*time.Hour - time.Second)
	s.step()
	s.is("x", duly.StateDead)
	s.Advance(2 * time.Second)
	s.step()
	s.gone("x")
}

func doneRetain(s *scene) {
	s.pushAll(duly.Job{ID: "short", Retain: time.Minute}, duly.Job{ID: "long", Retain: time.Hour})
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

// doneCount fills the bound and goes over it. It is long, so only the long
// suites fill it to the brim; the short form sees that nothing goes before.
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
	if n > duly.MaxDone && s.Shards > 1 { // each shard has its part, and not all have the same number of jobs
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
