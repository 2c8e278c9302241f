package enginetest

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// The tests in this file concern a queue with several shards as a whole: lists, counters,
// operators, batches and waiters.

func shardsListed(s *scene) {
	s.over(duly.QueueConfig{})
	jobs := inEach(25, duly.Job{Retain: time.Hour, Lease: time.Hour})
	for i := range jobs {
		jobs[i].Delay = time.Duration(1+i*7%11) * time.Second
		jobs[i].Priority = i * 5 % 3
	}
	s.pushAll(jobs...)
	walked := func(state duly.State, order func(a, b duly.Job) int) {
		s.Helper()
		for _, limit := range []int{1, 17, duly.MaxBatch} {
			seen := map[string]bool{}
			shard, last := 0, duly.Job{}
			for _, j := range s.pageThrough(state, limit, nil) {
				if seen[j.ID] {
					s.Errorf("%s is listed twice, want once", j.ID)
				}
				seen[j.ID] = true
				// Shards follow each other in a list. Within a shard the jobs are sorted.
				switch at := contract.ShardOf(j.ID, manyShards); {
				case at < shard:
					s.Errorf("%s of shard %d is listed after shard %d, want shards in their order", j.ID, at, shard)
				case at == shard && last.ID != "" && order(last, j.Job) >= 0:
					s.Errorf("%s is listed after %s, want the jobs in order", j.ID, last.ID)
				default:
					shard = at
				}
				last = j.Job
			}
			same(s, "the "+state.String()+" jobs listed", len(seen), len(jobs))
		}
	}

	byDue := func(a, b duly.Job) int { return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(a.ID, b.ID)) }
	byID := func(a, b duly.Job) int { return cmp.Compare(a.ID, b.ID) }

	walked(duly.StateDelayed, byDue)
	s.Advance(time.Minute)
	s.step()
	walked(duly.StateReady, byDelivery)
	ds := s.takeAll()
	walked(duly.StateLeased, byID) // all leases end at the same time
	s.ackAll(ds)
	walked(duly.StateDone, byID)
	same(s, "the list of a state without jobs", len(s.pageThrough(duly.StateDead, 3, nil)), 0)
}

func shardsBytes(s *scene) {
	s.over(duly.QueueConfig{})
	s.pushAll(inEach(1, duly.Job{Body: make([]byte, 1<<20)})...)
	s.pushAll(inEach(1, duly.Job{Body: make([]byte, 1<<20)})...)
	// Two calls of 8 MiB each, whether by List or by Reserve.
	p := duly.ListParams{State: duly.StateReady, Bodies: true, PageParams: duly.PageParams{Limit: duly.MaxBatch}}
	for range 2 {
		page, err := s.Engine.List(s.ctx, s.ref(), p)
		s.must("list", err)
		same(s, "the jobs of a page", len(page.Jobs), 8)
		p.Cursor = page.Next
	}
	same(s, "the cursor behind the last page", p.Cursor, "")

	same(s, "the first reserve", len(s.reserve(duly.MaxBatch)), 8)
	same(s, "the second reserve", len(s.reserve(duly.MaxBatch)), 8)
}

func shardsStats(s *scene) {
	s.over(duly.QueueConfig{})
	s.pushAll(inEach(6, duly.Job{Retain: time.Hour})...)
	s.Advance(time.Second)
	s.push(inShard(5, duly.Job{Delay: time.Minute}))
	s.push(inShard(2, duly.Job{Delay: 2 * time.Minute}))
	ds := s.reserve(3 * manyShards)
	s.ackAll(ds[:10])
	for _, d := range ds[10:14] {
		s.bury(d, "no")
	}
	s.release(ds[14])

	s.step()
	same(s, "sizes", s.stats().Sizes, duly.Sizes{Ready: 25, Delayed: 2, Leased: 9, Dead: 4, Done: 10})
	s.counted(duly.Counters{Pushed: 50, Delivered: 24, Acked: 10, Dead: 4, Released: 1})
	same(s, "the oldest ready job's age", s.stats().OldestReady, time.Second)
	sameTime(s, "the next due", s.stats().NextDue, s.now().Add(time.Minute))
}

func shardsPeek(s *scene) {
	s.over(duly.QueueConfig{})
	s.scattered(3)
	// Sort all jobs as if they were in one shard.
	left := append(s.list(duly.StateReady), s.list(duly.StateDelayed)...)
	slices.SortFunc(left, func(a, b duly.JobInfo) int { return byDelivery(a.Job, b.Job) })
	for _, want := range left {
		info, err := s.Engine.Peek(s.ctx, s.ref())
		s.must("peek", err)
		same(s, "the first ready job", info.ID, want.ID)
		s.must("delete", s.Engine.Delete(s.ctx, s.ref(), info.ID))
	}
	_, err := s.Engine.Peek(s.ctx, s.ref())
	s.refused("peek into an empty queue", err, duly.CodeNotFound)
}

func shardsPurge(s *scene) {
	s.over(duly.QueueConfig{})
	s.pushAll(inEach(10, duly.Job{})...)
	s.purged(duly.StateReady, 35)
	s.sizes(duly.Sizes{Ready: 45})
	n, err := s.Engine.Purge(s.ctx, s.ref(), duly.StateReady, 0)
	s.must("purge", err)
	same(s, "the rest", n, 45)
	s.sizes(duly.Sizes{})
}

func shardsRequeue(s *scene) {
	s.over(duly.QueueConfig{})
	jobs := inEach(12, duly.Job{})
	for i := range jobs {
		// The shards get different numbers of jobs, in no regular order.
		jobs[i].ID = inShard((i*i+i/8)%manyShards, duly.Job{}).ID
	}
	s.pushAll(jobs...)
	var died []string
	for _, d := range s.takeAll() {
		s.bury(d, "no")
		died = append(died, d.ID)
		// Each job dies at a time of its own, so that their order is known.
		s.Advance(time.Second)
	}
	for _, n := range []int{1, 30, 1000} {
		results, err := s.Engine.Requeue(s.ctx, s.ref(), duly.RequeueParams{N: n})
		s.must("requeue", err)
		n = min(n, len(died))
		var ids []string
		for _, r := range results {
			s.must("requeue", r.Err)
			ids = append(ids, r.ID)
		}
		s.sameIDs("the oldest dead jobs", ids, died[:n])
		died = died[n:]
	}
	s.sizes(duly.Sizes{Ready: 96})
}

func shardsBatch(s *scene) {
	s.over(duly.QueueConfig{})
	jobs := inEach(5, duly.Job{})
	// Two jobs twice and an invalid one, behind jobs of all shards.
	twice := append(slices.Clone(jobs), jobs[3], duly.Job{ID: "bad", Priority: 5000}, jobs[17])
	results, err := s.pushed(twice...)
	s.must("push", err)
	for i, r := range results {
		switch {
		case i < len(jobs):
			same(s, "the outcome", r.Status, duly.Created)
			same(s, "the ID", r.ID, jobs[i].ID)
		case i == len(jobs)+1:
			s.refused("the bad item", r.Err, duly.CodeInvalid)
		default:
			same(s, "the outcome of the second", r.Status, duly.Exists)
			same(s, "its ID", r.ID, twice[i].ID)
		}
	}

	ds := s.takeAll()
	var receipts []duly.Receipt
	var outcomes []duly.SettleRequest
	for i, d := range ds {
		receipts = append(receipts, d.Receipt)
		outcomes = append(outcomes, duly.SettleRequest{Receipt: d.Receipt, As: duly.Ack})
		// Some receipts are used twice in the call.
		if i%4 == 0 {
			outcomes = append(outcomes, duly.SettleRequest{Receipt: d.Receipt, As: duly.Release})
		}
	}

	// A receipt of another shard, and one of a shard that does not exist.
	p := s.parts(ds[0])
	p.Shard = (p.Shard + 1) % manyShards
	receipts = append(receipts, p.Receipt())
	p.Shard = manyShards
	receipts = append(receipts, p.Receipt())

	errs, err := s.Engine.Extend(s.ctx, "", receipts, time.Hour)
	s.must("extend", err)
	for i, err := range errs[:len(ds)] {
		s.must(fmt.Sprintf("extend %d", i), err)
	}
	s.lost("extend in another shard", errs[len(ds)])
	s.lost("extend in an unknown shard", errs[len(ds)+1])

	errs, err = s.Engine.Settle(s.ctx, "", outcomes)
	s.must("settle", err)
	for i, o := range outcomes {
		if o.As == duly.Ack {
			s.must("ack", errs[i])
		} else {
			s.lost("release of what the same call has acked", errs[i])
		}
	}

	s.sizes(duly.Sizes{})
}

func shardsWake(s *scene) {
	s.over(duly.QueueConfig{})
	for shard := range manyShards {
		w := s.wait()
		s.push(inShard(shard, duly.Job{Delay: time.Minute}))
		s.Advance(time.Minute - time.Millisecond)
		w.sleeps("the job is due in a millisecond")
		s.Advance(time.Millisecond)
		w.woke(fmt.Sprintf("the job of shard %d is due", shard))
		d := s.take()
		// A release wakes a waiter too.
		w = s.wait()
		s.release(d)
		w.woke("it was released")
		s.ack(s.take())
	}

	// One waiter per job, and twice as many waiters as jobs.
	ws := s.crowd(2 * manyShards)
	s.pushAll(inEach(1, duly.Job{})...)
	s.awake(ws, manyShards, "a job was pushed to each shard")
	s.ackAll(s.takeAll())
	s.Advance(time.Second)
	s.awake(ws, manyShards, "everything was taken")
	for _, w := range ws {
		w.cancel()
	}

	n := s.on("limited")
	n.configure(duly.QueueConfig{Shards: manyShards, MaxLeased: manyShards})
	// Both jobs are in one shard, which may lease only one of them.
	n.pushAll(inShard(6, duly.Job{}), inShard(6, duly.Job{}))
	d := n.take()
	w := n.wait()
	w.sleeps("the shard's part of the limit is used")
	n.ack(d)
	w.woke("the shard's limit has opened")
}

func shardsDestroyed(s *scene) {
	s.over(duly.QueueConfig{})
	job := inShard(7, duly.Job{})
	s.push(job)
	s.pushAll(inEach(3, duly.Job{})...)
	ds := s.takeAll()
	s.must("destroy", s.Engine.Destroy(s.ctx, s.ref()))
	same(s, "the number of queues", len(s.queues()), 0)

	// Create the queue again with fewer shards. Receipts of the old shards are lost.
	s.must("configure", s.Engine.Configure(s.ctx, s.ref(), duly.QueueConfig{Shards: 2}))
	same(s, "the shards of the queue that was made again", s.config().Shards, 2)
	s.push(job)
	for _, d := range ds {
		s.lost("ack of a queue that is gone", s.settle(duly.SettleRequest{Receipt: d.Receipt, As: duly.Ack}))
	}

	d := s.take()
	same(s, "the shard", s.shardOf(d), 1)

	// The same test, with more shards than before.
	s.must("destroy", s.Engine.Destroy(s.ctx, s.ref()))
	s.configure(duly.QueueConfig{Shards: manyShards})
	s.lost("ack of a queue that had fewer shards", s.settle(duly.SettleRequest{Receipt: d.Receipt, As: duly.Ack}))
	s.counted(duly.Counters{})
}

// whileConfigured runs f several times, while another goroutine changes the queue's
// configuration. The shards learn a new configuration one after another.
func (s *scene) whileConfigured(times int, before func(), f func(i int)) {
	for i := range times {
		if before != nil {
			before()
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			for k := range 5 {
				if err := s.Engine.Configure(s.ctx, s.ref(), duly.QueueConfig{MaxJobs: 1_000_000 + k}); err != nil {
					s.Error(err)
				}
			}
		})
		f(i)
		wg.Wait()
	}
}

func shardsConfigured(s *scene) {
	s.over(duly.QueueConfig{})
	const times, perCall = 100, 40
	var ids []string
	s.whileConfigured(times, nil, func(i int) {
		jobs := numbered(perCall, fmt.Sprintf("own-%d-", i))
		for k := range jobs {
			if k%2 == 0 {
				jobs[k].ID = "" // the engine creates the ID
			}
		}
		ids = append(ids, s.pushAll(jobs...)...)
	})
	// A retried call must not push its jobs twice.
	s.counted(duly.Counters{Pushed: times * perCall})
	got := idsTaken(s.takeAll())
	slices.Sort(ids)
	slices.Sort(got)
	s.sameIDs("the jobs delivered", got, ids)
}

func shardsRequeuedWhileConfigured(s *scene) {
	s.over(duly.QueueConfig{})
	jobs := inEach(5, duly.Job{})
	s.pushAll(jobs...)
	bury := func() {
		for _, d := range s.takeAll() {
			s.bury(d, "no")
		}
	}
	s.whileConfigured(40, bury, func(i int) {
		// Both forms of a requeue, by IDs and by a number.
		p := duly.RequeueParams{IDs: idsOfJobs(jobs)}
		if i%2 == 0 {
			p = duly.RequeueParams{N: len(jobs)}
		}
		results, err := s.Engine.Requeue(s.ctx, s.ref(), p)
		s.must("requeue", err)
		same(s, "the answers", len(results), len(jobs))
		for _, r := range results {
			if r.Err != nil || r.State != duly.StateReady {
				s.Errorf("result %d of the requeue, for %s, is %s, %v, want ready", i, r.ID, r.State, r.Err)
			}
		}
	})
}
