package enginetest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/dulymq/duly"
)

func concurrencyTests() []test {
	return []test{
		{"HundredPushesWithOneIDMakeOneJob", []string{"C2.4", "C4.3"}, Options{}, concurrentSameID},
		{"HundredPushesWithOneMergeKeyMakeOneJob", []string{"C7.1", "C4.3"}, Options{}, concurrentSameMergeKey},
		{"EveryJobIsDeliveredToOneWorker", []string{"C4.3", "C9.1", "C3.8"}, Options{}, concurrentReserve},
		{"KeysRunOneAtATimeUnderManyWorkers", []string{"C6.4", "C6.7", "C6.13", "C6.15"}, Options{}, concurrentKeys},
		{"PurgeAndPauseRaceWithWorkers", []string{"C4.63", "C4.70", "C4.3"}, Options{}, concurrentOperators},
		{"MixedConcurrentCallsKeepCountersConsistent", []string{"C4.59", "C4.3", "C9.1"}, Options{}, concurrentMixture},
		{"WaitersReceiveEveryPushedJob", []string{"C4.17", "C5.11", "C5.16"}, Options{}, concurrentWaiters},
		{"ReclaimRacesCompletion", []string{"C1.7", "C1.9", "C4.39"}, Options{}, reclaimRacesCompletion},
		{"ItemsOfOneBatchKeepTheirOrder", []string{"C4.3", "C4.8"}, Options{OneShard: true}, concurrentBatches},
	}
}

// each runs f n times concurrently. Each call gets a scene that may be used by its goroutine.
func (s *scene) each(n int, f func(s *scene, i int)) {
	other := *s
	other.inGoroutine = true
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(&other, i) })
	}
	wg.Wait()
}

// countResults pushes n jobs concurrently and counts the statuses and IDs that are returned.
func (s *scene) countResults(n int, job func(i int) duly.Job) (outcomes map[duly.PushStatus]int, ids map[string]int) {
	s.Helper()
	outcomes, ids = map[duly.PushStatus]int{}, map[string]int{}
	var mu sync.Mutex
	s.each(n, func(s *scene, i int) {
		r := s.try(job(i))
		mu.Lock()
		defer mu.Unlock()
		if r.Err != nil {
			s.Errorf("a concurrent push returns %v, want no error", r.Err)
		}
		outcomes[r.Status]++
		ids[r.ID]++
	})
	return outcomes, ids
}

func concurrentSameID(s *scene) {
	outcomes, _ := s.countResults(100, func(i int) duly.Job { return duly.Job{ID: "x", Body: []byte{byte(i)}} })
	same(s, "created", outcomes[duly.Created], 1)
	same(s, "exists", outcomes[duly.Exists], 99)
	s.sizes(duly.Sizes{Ready: 1})
	s.counted(duly.Counters{Pushed: 1})
}

func concurrentSameMergeKey(s *scene) {
	outcomes, ids := s.countResults(100, func(i int) duly.Job {
		return duly.Job{ID: fmt.Sprintf("j%d", i), Merge: duly.Merge{Key: "m"}}
	})
	same(s, "created", outcomes[duly.Created], 1)
	same(s, "merged", outcomes[duly.Merged], 99)
	same(s, "the number of IDs", len(ids), 1) // every push returns the ID of the surviving job
	s.sizes(duly.Sizes{Ready: 1})
	s.counted(duly.Counters{Pushed: 100, Merged: 99})
}

func concurrentReserve(s *scene) {
	const jobs = 400
	// Batches of different sizes, so that the workers do not run in step.
	s.pushAll(numbered(jobs, "j")...)

	var mu sync.Mutex
	seen := map[string]int{}
	s.each(16, func(s *scene, i int) {
		for {
			ds := s.reserve(1 + i%5)
			if len(ds) == 0 {
				return
			}
			mu.Lock()
			for _, d := range ds {
				seen[d.ID]++
			}
			mu.Unlock()
			for _, d := range ds {
				s.ack(d)
			}
		}
	})
	same(s, "the jobs seen", len(seen), jobs)
	s.counted(duly.Counters{Pushed: jobs, Delivered: jobs, Acked: jobs})
}

// concurrentKeys runs many workers, some of whose jobs fail. It checks that no key ever has two
// jobs in flight, and that each key's jobs run in order.
func concurrentKeys(s *scene) {
	const keys, perKey = 20, 15
	for i := range perKey {
		jobs := make([]duly.Job, keys)
		for k := range jobs {
			jobs[k] = duly.Job{ID: fmt.Sprintf("%d-%d", k, i), OrderKey: fmt.Sprintf("key-%d", k), Backoff: "fixed:0s",
				Tries: 100}
		}
		s.pushAll(jobs...)
	}

	var mu sync.Mutex
	running, next := map[string]bool{}, map[int]int{}
	begin := func(d duly.Delivery) {
		mu.Lock()
		defer mu.Unlock()
		var k, i int
		fmt.Sscanf(d.ID, "%d-%d", &k, &i)
		if running[d.OrderKey] || next[k] != i {
			s.Errorf("%q was delivered when %d-%d was next (running: %t)", d.ID, k, next[k], running[d.OrderKey])
		}
		running[d.OrderKey] = true
	}
	end := func(d duly.Delivery, done bool) {
		mu.Lock() // counted before the settle, because the key's next job may start right after the settle
		defer mu.Unlock()
		running[d.OrderKey] = false
		if done {
			var k, i int
			fmt.Sscanf(d.ID, "%d-%d", &k, &i)
			next[k] = i + 1
		}
	}
	s.each(16, func(s *scene, i int) {
		r := rand.New(rand.NewPCG(1, uint64(i)))
		// Loop until all jobs are acknowledged. A failure ends the loop, because the count may
		// then never be reached.
		for s.stats().Counters.Acked < keys*perKey && !s.Failed() {
			for _, d := range s.reserve(2) {
				begin(d)
				if r.IntN(10) == 0 {
					end(d, false)
					s.nack(d, "no")
				} else {
					end(d, true)
					s.ack(d)
				}
			}
		}
	})
	s.sizes(duly.Sizes{})
}

func concurrentOperators(s *scene) {
	const rounds = 60
	s.each(6, func(s *scene, i int) {
		for n := range rounds {
			// There are two pushers, two workers, one purger, and one operator that pauses and
			// resumes.
			switch i {
			case 0, 1:
				s.pushAll(duly.Job{}, duly.Job{Delay: time.Second}, duly.Job{OrderKey: "k"})
			case 2, 3:
				for _, d := range s.reserve(3) {
					// A purge may have removed the job already.
					if err := s.settle(duly.SettleRequest{Receipt: d.Receipt, As: duly.Ack}); err != nil {
						s.lost("ack", err)
					}
				}
			case 4:
				_, err := s.Engine.Purge(s.ctx, s.ref(), duly.States[n%len(duly.States)], 2)
				s.must("purge", err)
			case 5:
				if err := s.Engine.Pause(s.ctx, s.ref()); err != nil {
					s.refused("pause", err, duly.CodeNotFound) // before the first push
					continue
				}
				s.must("resume", s.Engine.Resume(s.ctx, s.ref()))
			}
		}
	})
	s.must("pause", s.Engine.Pause(s.ctx, s.ref()))
	// No goroutine may receive a job after Pause has returned.
	s.each(8, func(s *scene, _ int) { s.nothing("the queue is paused") })
	s.conserved()
}

// concurrentWaiters runs workers that wait and reserve concurrently with pushers. Every job must
// be delivered, although a worker asks again only after a wake-up.
func concurrentWaiters(s *scene) {
	const jobs, workers = 200, 8
	var mu sync.Mutex
	taken := 0
	all := make(chan struct{})
	enough := sync.OnceFunc(func() { close(all) }) // also called on failure, so that the test ends
	for range workers {
		go func() {
			for {
				ready, err := s.Engine.Wait(s.ctx, duly.WaitParams{Queues: []string{s.queue}, Timeout: duly.MaxWait})
				// A Wait that timed out ends the worker.
				if err == nil && !ready {
					return
				}

				var ds []duly.Delivery
				if err == nil {
					ds, err = s.Engine.Reserve(s.ctx, duly.ReserveParams{Queues: []string{s.queue}, Max: 2})
				}
				if err != nil {
					if s.ctx.Err() == nil {
						s.Errorf("a worker got the error %v, want none", err)
					}
					enough()
					return
				}
				mu.Lock()
				if taken += len(ds); taken >= jobs {
					enough()
				}
				mu.Unlock()
			}
		}()
	}
	s.each(4, func(s *scene, _ int) {
		for range jobs / 4 {
			// The long lease keeps taken jobs leased until the end of the test.
			s.push(duly.Job{Lease: time.Hour})
		}
	})
	if s.Failed() {
		enough()
	}
	<-all
	mu.Lock()
	same(s, "the jobs taken", taken, jobs)
	mu.Unlock()
	s.sizes(duly.Sizes{Leased: jobs})
	s.Advance(duly.MaxWait) // ends the Waits of the workers
	s.Quiet()
}

// concurrentBatches pushes several batches of one key concurrently. The items of each batch keep
// their order.
func concurrentBatches(s *scene) {
	s.each(10, func(s *scene, i int) { s.pushAll(numbered(50, fmt.Sprintf("b%d-", i))...) })
	last := map[string]string{}
	for _, d := range s.takeAll() {
		// The first two characters of an ID name its batch.
		batch := d.ID[:2]
		if d.ID <= last[batch] {
			s.Errorf("%q was delivered after %q, want the order of the batch", d.ID, last[batch])
		}
		last[batch] = d.ID
	}
	same(s, "the batches", len(last), 10)
}
