package enginetest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/dulymq/duly"
)

func reserveTests() []test {
	return []test{
		{"ReturnsUpToMaxJobs", []string{"C4.11", "C3.8"}, Options{}, reserveMax},
		{"NeverBlocks", []string{"C4.11", "C4.86"}, Options{}, reserveEmpty},
		{"ReadsQueuesInStrictOrder", []string{"C4.10"}, Options{OneShard: true}, reserveQueueOrder},
		{"ReadsAQueueTwiceIfItIsNamedTwice", []string{"C4.10"}, Options{OneShard: true}, reserveQueueTwice},
		{"AppliesWhatIsDueFirst", []string{"C4.12", "C3.2", "C3.9"}, Options{OneShard: true}, reserveSteps},
		{"ReturnsNothingOnlyIfNothingIsDeliverable", []string{"C4.13"}, Options{}, reserveNotEmpty},
		{"DeliversEachJobOnce", []string{"C4.15", "C3.8"}, Options{}, reserveOnce},
		{"CanceledCallLeasesNothing", []string{"C4.16"}, Options{}, reserveGone},
		{"CanceledCallsLeaveNothingLeased", []string{"C4.16", "C4.2"}, Options{}, reserveCancelled},
		{"NeverDeliversEarly", []string{"C5.4"}, Options{}, reserveNeverEarly},
		{"DeliversAgainUntilTheJobIsSettled", []string{"C9.1"}, Options{}, reserveAtLeastOnce},
	}
}

func reserveMax(s *scene) {
	jobs := numbered(10, "j")
	s.pushAll(jobs...)
	same(s, "a reserve of 3", len(s.reserve(3)), 3)
	s.sizes(duly.Sizes{Ready: 7, Leased: 3})
	same(s, "a reserve of 1000", len(s.reserve(1000)), 7)
	s.counted(duly.Counters{Pushed: 10, Delivered: 10})
}

func reserveEmpty(s *scene) {
	s.nothing("the queue does not exist")
	s.push(duly.Job{Delay: time.Hour})
	s.nothing("its job is due in an hour")
	s.on("other").nothing("that queue does not exist either")
}

func reserveQueueOrder(s *scene) {
	s.pushAll(
		duly.Job{ID: "b1", Queue: "b", Priority: 1000}, duly.Job{ID: "b2", Queue: "b"},
		duly.Job{ID: "a1", Queue: "a"}, duly.Job{ID: "a2", Queue: "a", Priority: -1000},
		duly.Job{ID: "c1", Queue: "c", Priority: 5},
	)
	// Priorities count within a queue only.
	s.sameIDs("the first four", idsTaken(s.reserve(4, "a", "empty", "c", "b")), []string{"a1", "a2", "c1", "b1"})
	s.sameIDs("the rest", idsTaken(s.reserve(4, "a", "empty", "c", "b")), []string{"b2"})
}

func reserveQueueTwice(s *scene) {
	s.pushAll(numbered(3, "j")...)
	s.sameIDs("the jobs", idsTaken(s.reserve(5, s.queue, s.queue)), []string{"j0000", "j0001", "j0002"})
}

func reserveSteps(s *scene) {
	s.push(duly.Job{ID: "stalled", Lease: time.Second})
	s.take()
	s.push(duly.Job{ID: "due", Delay: 2 * time.Second})
	s.push(duly.Job{ID: "expired", TTL: time.Second})
	s.Advance(3 * time.Second)
	// The step of this Reserve stalls the job, which is due from now. The delayed job was due a
	// second ago, so it comes first.
	s.sameIDs("the jobs", idsTaken(s.reserve(10)), []string{"due", "stalled"})
	s.counted(duly.Counters{Pushed: 3, Delivered: 3, Stalled: 1, Expired: 1})
}

// reserveNotEmpty hides a deliverable job behind more expired and stalled jobs than one step
// applies.
func reserveNotEmpty(s *scene) {
	const batches, perBatch = 2, 600
	for i := range batches {
		jobs := numbered(perBatch, fmt.Sprintf("e%d-", i))
		for k := range jobs {
			jobs[k].TTL, jobs[k].Priority = time.Second, 10
		}
		s.pushAll(jobs...)
		// These jobs stall, and each stall uses up their last try.
		for k := range jobs {
			jobs[k].ID = "s" + jobs[k].ID
			jobs[k].TTL, jobs[k].Lease, jobs[k].MaxStalls, jobs[k].Tries = 0, duly.MinLease, duly.None, 1
			jobs[k].Queue = "stalls"
		}
		s.pushAll(jobs...)
		s.reserve(perBatch, "stalls")
	}

	s.pushAll(duly.Job{ID: "x"}, duly.Job{ID: "y", Queue: "stalls", Delay: time.Second})
	s.Advance(2 * time.Second)

	s.sameIDs("behind the expired", idsTaken(s.reserve(1)), []string{"x"})
	s.sameIDs("behind the stalled", idsTaken(s.reserve(1, "stalls")), []string{"y"})
	s.sizes(duly.Sizes{Leased: 1})
	s.on("stalls").sizes(duly.Sizes{Leased: 1, Dead: batches * perBatch})
}

func reserveOnce(s *scene) {
	s.pushAll(numbered(20, "j")...)
	seen := map[string]bool{}
	for range 4 {
		for _, d := range s.reserve(5) {
			if seen[d.ID] {
				s.Errorf("%q was delivered twice, want once", d.ID)
			}
			seen[d.ID] = true
		}
	}
	s.nothing("everything is leased")
	s.counted(duly.Counters{Pushed: 20, Delivered: 20})
}

func reserveGone(s *scene) {
	s.push(duly.Job{ID: "x"})
	ended, cancel := context.WithCancel(s.ctx)
	cancel()
	ds, err := s.Engine.Reserve(ended, duly.ReserveParams{Queues: []string{s.queue}, Max: 1})
	if len(ds) > 0 {
		// The call has leased a job, so it must return the job instead of an error.
		return
	}
	if err == nil {
		// A canceled call must not report an empty queue.
		s.Error("a canceled Reserve returned neither jobs nor an error, want one of them")
	}
	s.eventually("the job is ready again", func() bool { return s.get("x").State == duly.StateReady })
	s.counts(s.take(), 1, 0, 0)
}

// eventually waits for a condition that another goroutine or process fulfills without a change of
// the clock.
func (s *scene) eventually(what string, done func() bool) {
	s.Helper()
	for range 1000 {
		if done() {
			return
		}
		s.Quiet()
	}
	s.Errorf("not fulfilled after 1000 attempts: %s", what)
}

func reserveCancelled(s *scene) {
	const jobs, callers = 40, 40
	s.pushAll(numbered(jobs, "j")...)
	var mu sync.Mutex
	held := map[string]bool{}
	var wg sync.WaitGroup
	for i := range callers {
		ctx, cancel := context.WithCancel(s.ctx)
		wg.Go(func() {
			ds, _ := s.Engine.Reserve(ctx, duly.ReserveParams{Queues: []string{s.queue}, Max: 1})
			mu.Lock()
			defer mu.Unlock()
			for _, d := range ds {
				held[d.ID] = true
			}
		})
		// Half of the calls are canceled while they run.
		if i%2 == 0 {
			go cancel()
		} else {
			defer cancel()
		}
	}

	wg.Wait()
	// Jobs of canceled calls have to return to the queue.
	s.eventually("only what callers hold is leased", func() bool { return s.stats().Sizes.Leased == int64(len(held)) })
	for _, d := range s.takeAll() {
		if held[d.ID] {
			s.Errorf("%q was delivered again while a caller holds it, want one delivery at a time", d.ID)
		}
		s.counts(d, 1, 0, 0)
	}
}

func reserveNeverEarly(s *scene) {
	const n = 200
	jobs := numbered(n, "j")
	for i := range jobs {
		// The jobs are due in a different order than they are pushed.
		jobs[i].Delay = time.Duration(i*37%n) * time.Millisecond
	}
	s.pushAll(jobs...)

	taken := 0
	for range n {
		for _, d := range s.reserve(1000) {
			taken++
			if d.Now.Before(d.Due) || s.now().Before(d.Due) {
				s.Errorf("%q is due at %s, but was delivered at %s, want no early delivery", d.ID, d.Due, s.now())
			}
			// The loop reserves every millisecond, so no job may be late either.
			if late := s.now().Sub(d.Due); late > 0 {
				s.Errorf("%q was delivered %s late although the queue was reserved every millisecond", d.ID, late)
			}
		}
		s.Clock.Advance(time.Millisecond)
	}
	same(s, "the jobs delivered", taken, n)
}

func reserveAtLeastOnce(s *scene) {
	s.push(duly.Job{ID: "x"})
	// The workers of these deliveries never settle the job.
	for i := range duly.DefaultMaxStalls {
		d := s.take()
		same(s, "stalls", d.Stalls, i)
		s.Advance(duly.DefaultLease + time.Second)
	}
	s.ack(s.take())
	s.gone("x")
}
