package enginetest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// A suspect is a job that may have crashed its workers (C4.100). It is reserved alone, so that
// its next stall does not count for other jobs.

func suspectTests() []test {
	return []test{
		{"IsDeliveredAlone", []string{"C4.100"}, Options{OneShard: true}, suspectAlone},
		{"IsAJobBeforeItsLastStall", []string{"C4.100", "C2.19"}, Options{OneShard: true}, suspectLastStall},
		{"IsAJobWhoseTriesWereLowered", []string{"C4.100"}, Options{OneShard: true}, suspectLowered},
		{"EndsAReserveOfSeveralQueues", []string{"C4.100", "C4.10"}, Options{OneShard: true}, suspectQueues},
		{"EndsAReserveOfSeveralShards", []string{"C4.100", "C4.14"}, Options{}, suspectShards},
		{"IsClearedByRequeueAndReplace", []string{"C4.100", "C2.20"}, Options{OneShard: true}, suspectCleared},
		{"IsDeliveredAloneToConcurrentCallers", []string{"C4.100", "C4.3", "C4.13"}, Options{}, suspectCallers},
		{"InALimitedQueueDoesNotBlockTheNextQueue", []string{"C4.100", "C4.89"}, Options{OneShard: true}, suspectLimited},
		{"BecomesDeadWithoutOtherJobs", []string{"C4.100", "C2.18"}, Options{}, suspectDies},
		{"AmongManyJobsDoesNotMakeOthersDead", []string{"C4.100", "C2.18"}, Options{}, suspectsDie},
	}
}

// suspect pushes jobs and turns them into suspects. No other job may be deliverable.
func (s *scene) suspect(jobs ...duly.Job) {
	s.Helper()
	s.pushAll(jobs...)
	for range 2 {
		// All leases end together, so one stall reclaims them all.
		ds := s.takeAll()
		same(s, "the jobs to stall", len(ds), len(jobs))
		s.stall(ds[0])
	}
}

func suspectAlone(s *scene) {
	s.suspect(duly.Job{ID: "p"}, duly.Job{ID: "q", Priority: -1})
	s.pushAll(
		duly.Job{ID: "a", Priority: 2}, duly.Job{ID: "b", Priority: 1},
		duly.Job{ID: "c", Priority: -2}, duly.Job{ID: "d", Priority: -3},
	)
	// A suspect ends the reserve before it, and the one that delivers it.
	for i, want := range [][]string{{"a", "b"}, {"p"}, {"q"}, {"c", "d"}, {}} {
		s.sameIDs(fmt.Sprintf("reserve %d", i+1), idsTaken(s.reserve(10)), want)
	}
	s.sizes(duly.Sizes{Leased: 6})
}

// suspectLastStall creates jobs that one more stall makes dead, and others that survive it.
func suspectLastStall(s *scene) {
	const none = duly.None
	for i, c := range []struct {
		ends  string // how its deliveries end: f for failed, s for stalled
		job   duly.Job
		alone bool
	}{
		{"s", duly.Job{}, false},
		{"s", duly.Job{MaxStalls: 1}, true},
		{"s", duly.Job{MaxStalls: 2}, false},
		{"ss", duly.Job{MaxStalls: 2}, true},
		{"f", duly.Job{MaxStalls: 1}, false},
		{"fs", duly.Job{MaxStalls: 1}, true},
		{"fs", duly.Job{MaxStalls: 8, Tries: 2}, false},
		{"", duly.Job{MaxStalls: none, Tries: 1}, false},
		{"f", duly.Job{MaxStalls: none, Tries: 2}, false},
		{"s", duly.Job{MaxStalls: none, Tries: 2}, true},
		{"s", duly.Job{MaxStalls: none, Tries: 3}, false},
		{"fs", duly.Job{MaxStalls: none, Tries: 3}, true},
		{"fs", duly.Job{MaxStalls: none, Tries: 4}, false},
		{"ss", duly.Job{MaxStalls: none, Tries: 4}, true},
	} {
		n := s.on(fmt.Sprintf("q%d", i))
		c.job.ID, c.job.Backoff, c.job.Priority = "p", "fixed:0s", 1
		n.push(c.job)
		for _, end := range c.ends {
			// Bring the job to the number of failures and stalls under test.
			if d := n.take(); end == 'f' {
				n.nack(d, "no")
			} else {
				n.stall(d)
			}
		}

		n.push(duly.Job{ID: "x"})
		want := []string{"p", "x"}
		if c.alone {
			want = want[:1]
		}
		what := fmt.Sprintf("%q of %d stalls and %d tries", c.ends, c.job.MaxStalls, c.job.Tries)
		n.sameIDs(what, idsTaken(n.reserve(10)), want)
	}
}

// suspectLowered lowers the tries of a job to the number of tries that it has used.
func suspectLowered(s *scene) {
	s.push(duly.Job{ID: "p", Backoff: "fixed:1m"})
	s.nack(s.take(), "no")
	s.Advance(time.Minute)
	s.stall(s.take())
	s.nack(s.take(), "no") // delayed again, because only a waiting job can be updated
	s.must("update", s.Engine.Update(s.ctx, s.ref(), "p", duly.Update{Tries: 2, Delay: ptr(time.Duration(0))}))
	s.push(duly.Job{ID: "x", Priority: -1})
	s.sameIDs("the call", idsTaken(s.reserve(10)), []string{"p"})
}

// suspectQueues uses empty bodies. So only the deliveries show which jobs a Reserve has returned.
func suspectQueues(s *scene) {
	s.on("b").suspect(duly.Job{ID: "p"})
	s.on("a").push(duly.Job{ID: "a1"})
	s.on("c").push(duly.Job{ID: "c1"})
	for i, want := range [][]string{{"a1"}, {"p"}, {"c1"}, {}} {
		s.sameIDs(fmt.Sprintf("reserve %d", i+1), idsTaken(s.reserve(10, "a", "b", "c")), want)
	}
}

func suspectShards(s *scene) {
	s.over(duly.QueueConfig{})
	const before, behind = 2, 5

	s.suspect(inShard(before, duly.Job{Priority: 1}), inShard(behind, duly.Job{Priority: -1}))
	s.pushAll(inEach(3, duly.Job{})...)
	var order [manyShards][]bool // for each delivery, whether it was a suspect
	for {
		ds := s.reserve(100)
		s.alone(ds)
		for _, d := range ds {
			at := s.shardOf(d)
			order[at] = append(order[at], isSuspect(d))
		}
		if len(ds) == 0 {
			break
		}
	}

	for shard, got := range order {
		// The suspects of the two shards come first and last by their priorities.
		want := []bool{false, false, false}
		switch shard {
		case before:
			want = []bool{true, false, false, false}
		case behind:
			want = []bool{false, false, false, true}
		}
		same(s, fmt.Sprintf("the suspects of shard %d", shard), fmt.Sprint(got), fmt.Sprint(want))
	}
}

func isSuspect(d duly.Delivery) bool { return contract.Suspect(&d.Job, d.Failures, d.Stalls) }

// alone reports an error if a suspect was delivered together with other jobs.
func (s *scene) alone(ds []duly.Delivery) {
	s.Helper()
	if len(ds) > 1 && slices.ContainsFunc(ds, isSuspect) {
		s.Errorf("a suspect was delivered with other jobs: %v, want it alone", idsTaken(ds))
	}
}

func suspectCleared(s *scene) {
	s.push(duly.Job{ID: "dead", MaxStalls: 1})
	for range 2 {
		s.stall(s.take())
	}

	s.suspect(duly.Job{ID: "replaced", Merge: duly.Merge{Key: "m", Mode: duly.MergeReplace}})
	// Both operations reset the stalls, so the jobs are no longer suspects.
	s.requeue("dead")
	same(s, "the outcome", s.try(duly.Job{Merge: duly.Merge{Key: "m", Mode: duly.MergeReplace}}).Status, duly.Merged)
	same(s, "the jobs that go together", len(s.reserve(10)), 2)
}

// suspectLimited has a suspect in a queue whose limit is reached. A reserve continues with the
// next queue.
func suspectLimited(s *scene) {
	limited := s.on("limited")
	limited.suspect(duly.Job{ID: "p"})
	limited.configure(duly.QueueConfig{MaxLeased: 1})
	limited.push(duly.Job{ID: "first", Priority: 1})
	s.on("next").push(duly.Job{ID: "n"})
	s.sameIDs("the first", idsTaken(s.reserve(10, "limited", "next")), []string{"first", "n"})
}

// suspectCallers reserves concurrently, so that an engine may batch the calls.
func suspectCallers(s *scene) {
	const suspects, others, callers = 12, 60, 16
	s.suspect(numbered(suspects, "p")...)
	jobs := numbered(others, "j")
	for i := range jobs {
		jobs[i].Priority = i%3 - 1 // priorities before, equal to and after those of the suspects
	}
	s.pushAll(jobs...)

	var mu sync.Mutex
	seen := map[string]int{}
	s.each(callers, func(s *scene, i int) {
		for {
			ds := s.reserve(1 + i%7)
			s.alone(ds)
			if len(ds) == 0 {
				// An empty result means that no job is left for any caller.
				return
			}
			mu.Lock()
			for _, d := range ds {
				seen[d.ID]++
			}
			mu.Unlock()
		}
	})
	same(s, "the jobs delivered", len(seen), suspects+others)
	s.sizes(duly.Sizes{Leased: suspects + others})
}

// killer runs a worker that reserves as many jobs as it can. The worker stops without settling if one of its
// jobs is deadly. It returns the largest number of stalls of any other job.
func (s *scene) killer(deadly func(id string) bool) (most int) {
	s.Helper()
	for range 10_000 {
		ds := s.reserve(100)
		if len(ds) == 0 {
			if s.stats().Sizes.Leased == 0 {
				return most
			}
			// Only jobs of a stopped worker are left, so the clock moves to the end of their
			// leases.
			s.Advance(duly.DefaultLease + time.Second)
			continue
		}
		s.alone(ds)
		for _, d := range ds {
			if !deadly(d.ID) {
				most = max(most, d.Stalls)
			}
		}
		// Without a deadly job the worker settles all of its jobs.
		if !slices.ContainsFunc(ds, func(d duly.Delivery) bool { return deadly(d.ID) }) {
			s.ackAll(ds)
		}
	}
	s.Fatal("the jobs were not finished after 10000 reserves")
	return 0
}

func suspectDies(s *scene) {
	const neighbours = 99
	s.pushAll(numbered(neighbours/2, "a")...)
	s.push(duly.Job{ID: "p"})
	s.pushAll(numbered(neighbours-neighbours/2, "b")...)
	// The other jobs stall together with the deadly one until it becomes a suspect. After that it
	// is delivered alone.
	if most := s.killer(func(id string) bool { return id == "p" }); most > 2 {
		s.Errorf("another job has stalled %d times, want at most 2", most)
	}
	s.is("p", duly.StateDead)
	same(s, "its stalls", s.get("p").Stalls, duly.DefaultMaxStalls+1)
	s.sizes(duly.Sizes{Dead: 1})
}

// suspectsDie uses jobs that may stall only once. Every fifth of them is deadly.
func suspectsDie(s *scene) {
	const jobs, each = 60, 5
	all := numbered(jobs, "j")
	for i := range all {
		// Half of the jobs have no stall limit, so that a stall counts as a try.
		if all[i].MaxStalls = 1; i%2 == 1 {
			all[i].MaxStalls, all[i].Tries = duly.None, 2
		}
	}
	s.pushAll(all...)
	s.killer(func(id string) bool {
		var i int
		fmt.Sscanf(id, "j%d", &i)
		return i%each == 0
	})
	s.sizes(duly.Sizes{Dead: jobs / each})
}
