package enginetest

import (
	"slices"
	"time"

	"github.com/dulymq/duly"
)

func requeueTests() []test {
	return []test{
		{"ResetsTheJobUnderItsID", []string{"C4.66", "C3.25", "C2.20"}, Options{OneShard: true}, requeueResets},
		{"ByCountTakesTheOldestJobs", []string{"C4.64"}, Options{OneShard: true}, requeueOldest},
		{"ByIDsReturnsOneResultPerID", []string{"C4.64", "C3.24", "C4.1"}, Options{}, requeueByIDs},
		{"KeepsTriesAndRemovesTheTTLByDefault", []string{"C4.65"}, Options{}, requeueRules},
		{"KeepsTheDefaultsOfAPlainJob", []string{"C4.65"}, Options{}, requeuePlain},
		{"ResetsStalls", []string{"C2.20", "C4.66"}, Options{}, requeueStalls},
		{"BlocksTheJobIfItsKeyIsBusy", []string{"C4.67", "C3.25"}, Options{}, requeueBlocked},
		{"TakesAFreeKey", []string{"C4.67", "C6.4"}, Options{}, requeueTakesKey},
		{"MergesTheJobIfItsMergeKeyIsHeld", []string{"C4.68", "C3.25"}, Options{}, requeueMerged},
		{"TakesAFreeMergeKey", []string{"C4.68", "C3.17"}, Options{}, requeueTakesMergeKey},
		{"IgnoresMaxJobs", []string{"C4.69"}, Options{OneShard: true}, requeueFull},
		{"OfAJobThatIsNotDeadIsAConflict", []string{"C3.24", "C13.5"}, Options{}, requeueConflicts},
		{"OfAnUnknownQueueFindsNothing", []string{"C4.86", "C4.87"}, Options{}, requeueUnknown},
	}
}

func requeueResets(s *scene) {
	s.push(duly.Job{ID: "x", Tries: 1, Body: []byte("b"), Priority: 3})
	s.stall(s.take())
	s.nack(s.take(), "no")
	s.Advance(time.Hour)
	// The requeued job gets a new due time, so this job comes before it.
	s.push(duly.Job{ID: "before", Priority: 3})
	s.Advance(time.Minute)

	r := s.requeue("x")
	same(s, "the answer", r, duly.RequeueResult{ID: "x", State: duly.StateReady})
	info := s.get("x")
	same(s, "its state", info.State, duly.StateReady)
	same(s, "its failures", info.Failures, 0)
	same(s, "its stalls", info.Stalls, 0)
	sameTime(s, "its push", info.PushedAt, s.now())
	sameTime(s, "its due", info.Due, s.now())
	s.counted(duly.Counters{Pushed: 2, Delivered: 2, Stalled: 1, Failed: 1, Dead: 1, Requeued: 1})
	ds := s.takes("before", "x")
	same(s, "its body", string(ds[1].Body), "b")
	s.counts(ds[1], 1, 0, 0)
}

func requeueOldest(s *scene) {
	for _, j := range numbered(5, "j") {
		s.kill(j)
		s.Advance(time.Second)
	}
	results, err := s.Engine.Requeue(s.ctx, s.ref(), duly.RequeueParams{N: 3})
	s.must("requeue", err)
	want := []duly.RequeueResult{{ID: "j0000", State: duly.StateReady}, {ID: "j0001", State: duly.StateReady},
		{ID: "j0002", State: duly.StateReady}}
	if !slices.Equal(results, want) {
		s.Errorf("the answers are %+v, want %+v", results, want)
	}
	s.sizes(duly.Sizes{Ready: 3, Dead: 2})

	// A number larger than that of the dead jobs requeues all of them.
	results, err = s.Engine.Requeue(s.ctx, s.ref(), duly.RequeueParams{N: 1000})
	s.must("requeue", err)
	same(s, "the rest", len(results), 2)
	results, err = s.Engine.Requeue(s.ctx, s.ref(), duly.RequeueParams{N: 1000})
	s.must("requeue", err)
	same(s, "what is left", len(results), 0)
}

func requeueByIDs(s *scene) {
	s.kill(duly.Job{ID: "a"}, duly.Job{ID: "b"})
	s.push(duly.Job{ID: "ready"})
	// There are two dead jobs, a ready one, an unknown one, and one that the same call has requeued
	// already.
	results, err := s.Engine.Requeue(s.ctx, s.ref(), duly.RequeueParams{IDs: []string{"b", "ready", "none", "a", "a"}})
	s.must("requeue", err)
	s.must("the first", results[0].Err)
	s.conflicts("a ready job", results[1].Err, duly.StateReady)
	s.refused("an unknown job", results[2].Err, duly.CodeNotFound)
	s.must("the fourth", results[3].Err)
	s.conflicts("the same job again", results[4].Err, duly.StateReady)
	for i, id := range []string{"b", "ready", "none", "a", "a"} {
		same(s, "the ID of an answer", results[i].ID, id)
	}
	s.sizes(duly.Sizes{Ready: 3})
}

func requeueRules(s *scene) {
	s.kill(duly.Job{ID: "own", Tries: 5, TTL: time.Hour}, duly.Job{ID: "given", Tries: 5, TTL: time.Hour})
	s.requeue("own")
	_, err := s.Engine.Requeue(s.ctx, s.ref(), duly.RequeueParams{IDs: []string{"given"}, Tries: 2, TTL: time.Minute})
	s.must("requeue", err)
	own, given := s.get("own"), s.get("given")
	same(s, "its own tries", own.Tries, 5)
	same(s, "its own ttl", own.TTL, duly.None)
	sameTime(s, "its own expiry", own.ExpiresAt, time.Time{})
	same(s, "the given tries", given.Tries, 2)
	same(s, "the given ttl", given.TTL, time.Minute)
	sameTime(s, "the given expiry", given.ExpiresAt, s.now().Add(time.Minute))

	// The TTL counts from the requeue.
	s.Advance(2 * time.Minute)
	s.gone("given")
	s.takes("own")
}

func requeuePlain(s *scene) {
	// A job without own settings has the compact form in some engines.
	id := s.kill(made(duly.Job{Body: []byte("b")}))[0]
	_, err := s.Engine.Requeue(s.ctx, s.ref(), duly.RequeueParams{IDs: []string{id}, Tries: 2, TTL: time.Minute})
	s.must("requeue", err)
	info, d := s.get(id), s.take()
	for what, j := range map[string]duly.Job{"from Get": info.Job, "delivered": d.Job} {
		same(s, "the given tries "+what, j.Tries, 2)
		same(s, "the given ttl "+what, j.TTL, time.Minute)
		same(s, "its stalls "+what, j.MaxStalls, duly.DefaultMaxStalls)
		same(s, "its backoff "+what, j.Backoff, duly.DefaultBackoff)
		same(s, "its lease "+what, j.Lease, duly.DefaultLease)
		same(s, "its retain "+what, j.Retain, duly.None)
		same(s, "its body "+what, string(j.Body), "b")
	}
	s.ack(d)
	s.gone(id)
}

func requeueStalls(s *scene) {
	s.push(duly.Job{ID: "x", MaxStalls: 1})
	s.stall(s.take())
	s.stall(s.take())
	s.is("x", duly.StateDead)
	s.requeue("x")
	// The stall limit counts from the requeue.
	s.stall(s.take())
	s.counts(s.take(), 1, 0, 1)
}

func requeueBlocked(s *scene) {
	s.kill(duly.Job{ID: "x", OrderKey: "k"})
	s.push(duly.Job{ID: "head", OrderKey: "k"})
	same(s, "the answer", s.requeue("x"), duly.RequeueResult{ID: "x", State: duly.StateBlocked})
	s.is("x", duly.StateBlocked)
	s.ack(s.takes("head")[0])
	s.takes("x")
}

func requeueTakesKey(s *scene) {
	s.kill(duly.Job{ID: "x", OrderKey: "k"})
	s.requeue("x")
	s.push(duly.Job{ID: "next", OrderKey: "k"})
	s.is("next", duly.StateBlocked)
	s.takes("x")
}

func requeueMerged(s *scene) {
	key := duly.Merge{Key: "m"}
	s.kill(duly.Job{ID: "x", Merge: key})
	s.push(duly.Job{ID: "newer", Merge: key})

	same(s, "the answer", s.requeue("x"), duly.RequeueResult{ID: "x", Merged: "newer"})
	s.gone("x")
	s.counted(duly.Counters{Pushed: 2, Delivered: 1, Dead: 1, Merged: 1, Requeued: s.stats().Counters.Requeued})
	s.takes("newer")

	once := duly.Merge{Key: "o", Until: duly.UntilDone}
	s.kill(duly.Job{ID: "y", Merge: once})
	s.push(duly.Job{ID: "running", Merge: once})
	// The job holds its key until it is done, so it holds the key while it is leased.
	s.takes("running")
	same(s, "the answer", s.requeue("y"), duly.RequeueResult{ID: "y", Merged: "running"})
}

func requeueTakesMergeKey(s *scene) {
	key := duly.Merge{Key: "m"}
	s.kill(duly.Job{ID: "x", Merge: key})
	s.requeue("x")
	s.merges(duly.Job{Merge: key}, "x")
}

func requeueFull(s *scene) {
	s.kill(duly.Job{ID: "x"})
	s.configure(duly.QueueConfig{MaxJobs: 1})
	s.push(duly.Job{})
	// The queue is full for pushes, but not for requeues.
	s.refused("one more job", s.try(duly.Job{}).Err, duly.CodeFull)
	s.requeue("x")
	s.is("x", duly.StateReady)
	s.sizes(duly.Sizes{Ready: 2})
}

func requeueConflicts(s *scene) {
	for _, state := range duly.States {
		if state == duly.StateDead {
			continue
		}
		n := s.on("of-" + state.String())
		id, _ := n.reach(state)
		n.unchanged("a requeue of a job that is not dead", func() {
			n.conflicts("requeue of a job that is "+state.String(), n.requeue(id).Err, state)
		})
	}
}

func requeueUnknown(s *scene) {
	s.refused("requeue by ID", s.requeue("x").Err, duly.CodeNotFound)
	results, err := s.Engine.Requeue(s.ctx, s.ref(), duly.RequeueParams{N: 10})
	s.must("requeue by count", err)
	same(s, "the answers", len(results), 0)
	same(s, "the number of queues", len(s.queues()), 0)
}
