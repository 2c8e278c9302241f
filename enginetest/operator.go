package enginetest

import (
	"time"

	"github.com/dulymq/duly"
)

func operatorTests() []test {
	return []test{
		{"PauseStopsReserveOnly", []string{"C4.63", "C10.3", "C4.89"}, Options{OneShard: true}, operatorPause},
		{"PauseDoesNotEndByItself", []string{"C4.63", "C10.3"}, Options{}, operatorPauseStays},
		{"PausedJobsStillStallAndExpire", []string{"C4.63"}, Options{}, operatorPausedLives},
		{"PurgeRemovesOneStateUpToN", []string{"C4.70", "C3.26"}, Options{}, operatorPurge},
		{"PurgeOfEveryStateEmptiesTheQueue", []string{"C4.70", "C3.26", "C3.27"}, Options{}, operatorPurgeAll},
		{"PurgeRemovesMoreThanOneBatch", []string{"C4.70"}, Options{}, operatorPurgeMany},
		{"DestroyRemovesJobsCountersAndSettings", []string{"C4.71"}, Options{}, operatorDestroy},
		{"DestroyMayBeRepeated", []string{"C4.71", "C13.12"}, Options{}, operatorDestroyTwice},
		{"DestroyLeavesOtherQueuesAlone", []string{"C4.71", "C1.3"}, Options{}, operatorDestroyOthers},
		{"SafeOperationsMayBeRepeated", []string{"C13.12"}, Options{}, operatorRepeated},
	}
}

func operatorPause(s *scene) {
	s.push(duly.Job{ID: "running"})
	d := s.take()
	s.push(duly.Job{ID: "ready"})
	s.must("pause", s.Engine.Pause(s.ctx, s.ref()))
	same(s, "paused", s.config().Paused, true)
	s.nothing("the queue is paused")
	// Pushes, extensions and acks still work, and other queues are not affected.
	s.push(duly.Job{ID: "pushed"})
	s.must("extend", s.extend(d.Receipt, time.Hour))
	s.ack(d)
	s.on("other").push(duly.Job{ID: "free"})
	s.sameIDs("the jobs of another queue", idsTaken(s.reserve(5, s.queue, "other")), []string{"free"})
	s.must("resume", s.Engine.Resume(s.ctx, s.ref()))
	same(s, "paused", s.config().Paused, false)
	s.takes("ready", "pushed")
}

func operatorPauseStays(s *scene) {
	s.push(duly.Job{ID: "x", Delay: time.Minute})
	for range 2 {
		s.must("pause", s.Engine.Pause(s.ctx, s.ref()))
	}
	s.configure(duly.QueueConfig{MaxLeased: 5}) // a change of another setting does not end the pause
	s.Advance(24 * time.Hour)
	s.step()
	s.nothing("the queue is paused")
	s.is("x", duly.StateReady)

	for range 2 {
		s.must("resume", s.Engine.Resume(s.ctx, s.ref()))
	}
	s.takes("x")
}

func operatorPausedLives(s *scene) {
	s.push(duly.Job{ID: "stalls", Lease: time.Second})
	s.take()
	s.push(duly.Job{ID: "due", Delay: time.Second})
	s.push(duly.Job{ID: "expires", TTL: time.Second})
	s.must("pause", s.Engine.Pause(s.ctx, s.ref()))
	s.Advance(time.Minute)
	// The Reserve returns no job, but it applies what is due.
	s.nothing("the queue is paused")
	s.sizes(duly.Sizes{Ready: 2})
	s.counted(duly.Counters{Pushed: 3, Delivered: 1, Stalled: 1, Expired: 1})
}

func operatorPurge(s *scene) {
	s.pushAll(numbered(10, "j")...)
	s.push(duly.Job{ID: "delayed", Delay: time.Hour})
	n, err := s.Engine.Purge(s.ctx, s.ref(), duly.StateReady, 4)
	s.must("purge", err)
	same(s, "the jobs purged", n, 4)
	s.sizes(duly.Sizes{Ready: 6, Delayed: 1})

	// Zero means all jobs of the state.
	n, err = s.Engine.Purge(s.ctx, s.ref(), duly.StateReady, 0)
	s.must("purge", err)
	same(s, "the rest", n, 6)
	s.sizes(duly.Sizes{Delayed: 1})
	s.counted(duly.Counters{Pushed: 11, Deleted: 10})
}

func operatorPurgeAll(s *scene) {
	for _, state := range duly.States {
		n := s.on(state.String())
		id, receipt := n.reach(state)
		n.purged(state, 1)
		n.gone(id)
		n.lost("ack by its receipt", n.settle(duly.SettleRequest{Receipt: receipt, As: duly.Ack}))
		n.push(duly.Job{ID: id, OrderKey: "k2"}) // the ID is free again
	}
}

func operatorPurgeMany(s *scene) {
	const batches = 3
	// More jobs than one call to an engine removes.
	for range batches {
		jobs := make([]duly.Job, 1000)
		for i := range jobs {
			jobs[i].Delay = time.Hour
		}
		s.pushAll(jobs...)
	}
	n, err := s.Engine.Purge(s.ctx, s.ref(), duly.StateDelayed, 0)
	s.must("purge", err)
	same(s, "the jobs purged", n, batches*1000)
	s.sizes(duly.Sizes{})
}

func operatorDestroy(s *scene) {
	s.configure(duly.QueueConfig{MaxJobs: 100, MaxLeased: 50, Defaults: duly.Defaults{Tries: 3}})
	var receipts []duly.Receipt
	// One job in each state, with an own ID, an order key and a merge key.
	for _, state := range []duly.State{duly.StateDead, duly.StateDone, duly.StateDelayed, duly.StateReady,
		duly.StateLeased} {
		j := duly.Job{ID: state.String(), Priority: 1, OrderKey: state.String(), Merge: duly.Merge{Key: state.String()},
			Retain: time.Hour}
		s.push(j)
		d := s.take()
		receipts = append(receipts, d.Receipt)
		switch state {
		case duly.StateDead:
			s.bury(d, "no")
		case duly.StateDone:
			s.ack(d)
		case duly.StateDelayed:
			s.snooze(d, time.Hour)
		case duly.StateReady:
			s.must("extend", s.extend(d.Receipt, time.Hour))
		}
	}

	s.must("pause", s.Engine.Pause(s.ctx, s.ref()))
	s.must("destroy", s.Engine.Destroy(s.ctx, s.ref()))

	same(s, "the number of queues", len(s.queues()), 0)
	same(s, "stats", s.stats(), duly.Stats{Tokens: duly.None})
	same(s, "configuration", s.config(), s.usual())

	for _, state := range duly.States {
		same(s, "the jobs that are left", len(s.list(state)), 0)
		s.gone(state.String())
	}
	for _, r := range receipts {
		s.lost("ack", s.settle(duly.SettleRequest{Receipt: r, As: duly.Ack}))
	}
	// No ID, key or pause of the destroyed queue affects the new one.
	s.push(duly.Job{ID: "leased", OrderKey: "leased", Merge: duly.Merge{Key: "leased"}})
	s.takes("leased")
	s.counted(duly.Counters{Pushed: 1, Delivered: 1})
}

func operatorDestroyTwice(s *scene) {
	s.push(duly.Job{})
	for range 3 {
		s.must("destroy", s.Engine.Destroy(s.ctx, s.ref()))
	}
	same(s, "the number of queues", len(s.queues()), 0)
}

func operatorDestroyOthers(s *scene) {
	s.push(duly.Job{ID: "x"})
	// These queues have similar names, or the same name in another namespace.
	s.on("jobs2").push(duly.Job{ID: "x"})
	s.on("job").push(duly.Job{ID: "x"})
	s.in("other").push(duly.Job{ID: "x"})

	s.must("destroy", s.Engine.Destroy(s.ctx, s.ref()))
	s.gone("x")
	s.on("jobs2").is("x", duly.StateReady)
	s.on("job").is("x", duly.StateReady)
	s.in("other").is("x", duly.StateReady)
}

// operatorRepeated calls twice each operation that a caller may repeat after a lost reply. The
// second call must change nothing.
func operatorRepeated(s *scene) {
	s.push(duly.Job{ID: "x", Delay: time.Hour})
	s.push(duly.Job{ID: "dead", Priority: 1})
	s.bury(s.take(), "no")
	s.push(duly.Job{ID: "running", Priority: 1})
	d := s.take()
	u := duly.Update{Priority: ptr(3), Delay: ptr(time.Minute), Body: []byte("new")}

	for name, op := range map[string]func() error{
		"push":      func() error { return s.try(duly.Job{ID: "x"}).Err },
		"update":    func() error { return s.update("x", u) },
		"promote":   func() error { return s.Engine.Promote(s.ctx, s.ref(), "x") },
		"configure": func() error { return s.Engine.Configure(s.ctx, s.ref(), duly.QueueConfig{MaxJobs: 77}) },
		"pause":     func() error { return s.Engine.Pause(s.ctx, s.ref()) },
		"resume":    func() error { return s.Engine.Resume(s.ctx, s.ref()) },
		"extend":    func() error { return s.extend(d.Receipt, time.Hour) },
	} {
		s.must(name, op())
		s.unchanged("the second "+name, func() { s.must(name, op()) })
	}

	// The second call of these operations reports that the first one has succeeded, and changes
	// nothing either.
	s.must("requeue", s.requeue("dead").Err)
	s.unchanged("the second requeue", func() { s.conflicts("it", s.requeue("dead").Err, duly.StateReady) })
	s.ack(d)
	s.unchanged("the second ack", func() { s.lost("it", s.settle(duly.SettleRequest{Receipt: d.Receipt, As: duly.Ack})) })
	s.must("delete", s.Engine.Delete(s.ctx, s.ref(), "x"))
	s.unchanged("the second delete", func() { s.refused("it", s.Engine.Delete(s.ctx, s.ref(), "x"), duly.CodeNotFound) })
}
