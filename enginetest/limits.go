package enginetest

import (
	"fmt"
	"sync"
	"time"

	"github.com/dulymq/duly"
)

func limitTests() []test {
	return []test{
		{"MaxJobsCountsUnfinishedJobs", []string{"C10.6", "C13.9"}, Options{OneShard: true}, limitMaxJobs},
		{"MaxJobsAppliesItemByItem", []string{"C10.6", "C4.3", "C4.4"}, Options{OneShard: true}, limitMaxJobsBatch},
		{"MaxJobsDoesNotCountExpiredJobs", []string{"C10.6", "C2.24"}, Options{}, limitMaxJobsExpired},
		{"MaxLeasedBoundsJobsInFlight", []string{"C10.7", "C10.11"}, Options{OneShard: true}, limitMaxLeased},
		{"MaxLeasedIsNeverExceeded", []string{"C10.7", "C10.11", "C10.14"}, Options{OneShard: true},
			limitMaxLeasedConcurrent},
		{"RateIsATokenBucketThatStartsFull", []string{"C10.8", "C10.11"}, Options{OneShard: true}, limitRate},
		{"RateIsNeverExceeded", []string{"C10.8", "C10.14"}, Options{OneShard: true}, limitRateLong},
		{"ReleaseReturnsNoTokenToTheRate", []string{"C10.9"}, Options{}, limitRateRelease},
		{"BurstDefaultsToTheRate", []string{"C10.8"}, Options{OneShard: true}, limitBurst},
		{"SmallerBurstDeliversAfterOneToken", []string{"C10.8", "C10.12"}, Options{OneShard: true}, limitSmallerBurst},
		{"LimitedReserveUsesNoAttempt", []string{"C10.11", "C4.89"}, Options{OneShard: true}, limitBurnsNothing},
		{"LimitOfOneQueueDoesNotDelayAnother", []string{"C10.11", "C4.10"}, Options{OneShard: true}, limitOtherQueue},
		{"QueuesOfANamespaceAreBounded", []string{"C10.10", "C13.9"}, Options{MaxQueues: 2}, limitQueues},
	}
}

func limitMaxJobs(s *scene) {
	s.configure(duly.QueueConfig{MaxJobs: 4})
	s.push(duly.Job{ID: "leased", OrderKey: "k", Retain: time.Hour})
	d := s.take()
	// There is one job in each state that counts.
	s.pushAll(duly.Job{ID: "blocked", OrderKey: "k"}, duly.Job{ID: "delayed", Delay: time.Hour}, duly.Job{ID: "ready"})
	s.refused("one more", s.try(duly.Job{ID: "more"}).Err, duly.CodeFull)
	s.gone("more")
	// Done jobs do not count.
	s.ack(d)
	s.push(duly.Job{ID: "more"})
	s.refused("one more", s.try(duly.Job{}).Err, duly.CodeFull)
	// Dead jobs do not count.
	s.bury(s.take(), "no")
	s.push(duly.Job{})

	s.must("delete", s.Engine.Delete(s.ctx, s.ref(), "delayed"))
	s.push(duly.Job{})
	s.refused("one more", s.try(duly.Job{}).Err, duly.CodeFull)
}

func limitMaxJobsBatch(s *scene) {
	s.configure(duly.QueueConfig{MaxJobs: 2})
	// Items that exist need no room, and another queue has a separate limit.
	results, err := s.pushed(duly.Job{ID: "a"}, duly.Job{ID: "a"}, duly.Job{ID: "b"}, duly.Job{ID: "c"},
		duly.Job{ID: "b"}, duly.Job{Queue: "other"})
	s.must("push", err)
	want := []string{"created", "exists", "created", "full", "exists", "created"}
	for i, r := range results {
		got := r.Status.String()
		if r.Err != nil {
			got = string(duly.CodeOf(r.Err))
		}
		same(s, fmt.Sprintf("the answer to item %d", i), got, want[i])
	}
	s.sizes(duly.Sizes{Ready: 2})
}

func limitMaxJobsExpired(s *scene) {
	s.configure(duly.QueueConfig{MaxJobs: 1})
	s.push(duly.Job{TTL: time.Minute})
	s.Advance(2 * time.Minute)
	s.step()
	s.push(duly.Job{})
}

func limitMaxLeased(s *scene) {
	s.configure(duly.QueueConfig{MaxLeased: 2})
	s.pushAll(numbered(6, "j")...)
	ds := s.takes("j0000", "j0001")
	s.nothing("two are leased")
	// Each way to end a delivery frees one slot.
	s.ack(ds[0])
	s.nack(ds[1], "no")
	ds = s.takes("j0002", "j0003")
	s.must("delete", s.Engine.Delete(s.ctx, s.ref(), "j0002"))
	s.takes("j0004")
	s.stall(ds[1])

	same(s, "the jobs delivered after two stalls", len(s.takeAll()), 2)
}

// limitMaxLeasedConcurrent lets many workers reserve concurrently.
func limitMaxLeasedConcurrent(s *scene) {
	const limit, workers, jobs = 5, 16, 200
	s.configure(duly.QueueConfig{MaxLeased: limit})
	s.pushAll(numbered(jobs, "j")...)

	var mu sync.Mutex
	running, done := 0, 0
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			// The bound on rounds ends the test if jobs get lost.
			for range 100 * jobs {
				ds, err := s.Engine.Reserve(s.ctx, duly.ReserveParams{Queues: []string{s.queue}, Max: 3})
				if err != nil {
					s.Error(err)
					return
				}
				mu.Lock()
				running += len(ds)
				if running > limit {
					s.Errorf("%d jobs are leased at once, want at most the limit", running)
				}
				mu.Unlock()
				for _, d := range ds {
					// Count the job as finished before its ack, because another worker may get a
					// job right after the ack.
					mu.Lock()
					running--
					done++
					mu.Unlock()
					s.ack(d)
				}
				mu.Lock()
				over := done == jobs
				mu.Unlock()
				if over {
					return
				}
			}
		})
	}
	wg.Wait()
	s.counted(duly.Counters{Pushed: jobs, Delivered: jobs, Acked: jobs})
}

func limitRate(s *scene) {
	s.configure(duly.QueueConfig{Rate: duly.Rate{PerSecond: 2, Burst: 3}})
	s.pushAll(numbered(20, "j")...)
	same(s, "the jobs of a full bucket", len(s.takeAll()), 3)
	// A token takes half a second.
	s.Advance(499 * time.Millisecond)
	s.nothing("the bucket has no whole token")
	s.Advance(time.Millisecond)
	same(s, "the jobs after half a second", len(s.takeAll()), 1)
	// Parts of a token add up over several steps.
	s.Advance(1250 * time.Millisecond)
	same(s, "the jobs after 1.25 s", len(s.takeAll()), 2)
	s.Advance(250 * time.Millisecond)
	same(s, "the jobs after another quarter", len(s.takeAll()), 1)
	// However long it takes, the bucket holds at most the burst.
	s.Advance(time.Hour)
	same(s, "the jobs of a bucket that is full again", len(s.reserve(2)), 2)
	same(s, "the rest of the bucket", len(s.reserve(5)), 1)
}

// limitRateLong reserves as often as possible for a minute.
func limitRateLong(s *scene) {
	const perSecond, burst, seconds = 7, 4, 60
	s.configure(duly.QueueConfig{Rate: duly.Rate{PerSecond: perSecond, Burst: burst}})
	s.pushAll(numbered(600, "j")...)
	taken := len(s.takeAll())

	for range seconds * 10 {
		s.Clock.Advance(100 * time.Millisecond)
		taken += len(s.reserve(100))
	}
	same(s, "the jobs of a minute", taken, burst+perSecond*seconds)
}

func limitRateRelease(s *scene) {
	s.configure(duly.QueueConfig{Rate: duly.Rate{PerSecond: 1, Burst: 1}})
	s.push(duly.Job{ID: "x"})
	s.release(s.take())
	// The release has not returned its token.
	s.nothing("the release gave nothing back")
	s.Advance(time.Second)
	s.takes("x")
}

func limitBurst(s *scene) {
	s.configure(duly.QueueConfig{Rate: duly.Rate{PerSecond: 2.5}})
	s.pushAll(numbered(10, "j")...)
	// The burst is the rate per second, rounded up.
	same(s, "the burst", s.config().Rate.Burst, 3)
	same(s, "the jobs of a full bucket", len(s.takeAll()), 3)

	// A rate below one per second has a burst of one.
	slow := s.on("slow")
	slow.configure(duly.QueueConfig{Rate: duly.Rate{PerSecond: 0.1}})
	slow.pushAll(numbered(3, "j")...)
	same(s, "the jobs of a slow queue", len(slow.takeAll()), 1)
	slow.Advance(10*time.Second - time.Millisecond)
	slow.nothing("one in ten seconds")
	slow.Advance(time.Millisecond)
	same(s, "the jobs ten seconds later", len(slow.takeAll()), 1)
}

func limitSmallerBurst(s *scene) {
	s.configure(duly.QueueConfig{Rate: duly.Rate{PerSecond: 2, Burst: 10}})
	s.pushAll(numbered(20, "j")...)
	same(s, "the jobs of a full bucket", len(s.takeAll()), 10)

	// Three deliveries are missing now, and not ten.
	s.configure(duly.QueueConfig{Rate: duly.Rate{PerSecond: 2, Burst: 3}})
	s.Advance(499 * time.Millisecond)
	s.nothing("the smaller bucket has no whole token")
	s.Advance(time.Millisecond)
	same(s, "the jobs after half a second", len(s.takeAll()), 1)
}

func limitBurnsNothing(s *scene) {
	s.configure(duly.QueueConfig{MaxLeased: 1, Rate: duly.Rate{PerSecond: 1, Burst: 2}})
	s.pushAll(duly.Job{ID: "a"}, duly.Job{ID: "b", Tries: 1, MaxStalls: 1})
	d := s.take()
	// Reserves that find the limit reached must not count as deliveries.
	for range 10 {
		s.nothing("the limit is reached")
	}
	s.is("b", duly.StateReady)
	s.ack(d)
	s.counts(s.takes("b")[0], 1, 0, 0)
	s.counted(duly.Counters{Pushed: 2, Delivered: 2, Acked: 1})
}

func limitOtherQueue(s *scene) {
	s.configure(duly.QueueConfig{MaxLeased: 1})
	s.pushAll(duly.Job{ID: "a"}, duly.Job{ID: "b"}, duly.Job{ID: "c", Queue: "other"})
	s.sameIDs("the jobs delivered", idsTaken(s.reserve(3, s.queue, "other")), []string{"a", "c"})
}

func limitQueues(s *scene) {
	// Push and Configure both create queues.
	s.on("a").push(duly.Job{ID: "x"})
	s.on("b").configure(duly.QueueConfig{})
	s.refused("a push to a third queue", s.on("c").try(duly.Job{}).Err, duly.CodeFull)
	s.refused("a configuration of a third queue", s.Engine.Configure(s.ctx, duly.Q("c"), duly.QueueConfig{MaxJobs: 1}),
		duly.CodeFull)

	// Only the item for the third queue fails.
	results, err := s.pushed(duly.Job{Queue: "a"}, duly.Job{Queue: "c"}, duly.Job{Queue: "b"})
	s.must("push", err)
	s.must("the first", results[0].Err)
	s.refused("the second", results[1].Err, duly.CodeFull)
	s.must("the third", results[2].Err)
	s.sameIDs("the queues", s.queues(), []string{"a", "b"})
	// Each namespace has its own bound.
	s.in("other").push(duly.Job{})
	// A destroyed queue no longer counts.
	s.must("destroy", s.Engine.Destroy(s.ctx, duly.Q("b")))
	s.on("c").push(duly.Job{})
}
