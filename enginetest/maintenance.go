package enginetest

import (
	"fmt"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

func maintenanceTests() []test {
	return []test{
		{"StepAppliesWhatIsDueLikeReserve", []string{"C4.72"}, Options{OneShard: true}, stepForward},
		{"StepWithoutWorkChangesNothing", []string{"C4.73"}, Options{}, stepHarmless},
		{"StepIsBoundedAndReportsMore", []string{"C4.73"}, Options{OneShard: true}, stepBounded},
		{"SweepStepsOverdueQueues", []string{"C4.72", "C4.73"}, Options{}, sweepSteps},
		{"CheckReadsEveryJobAndFindsNoFault", []string{"C4.72"}, Options{}, checkClean},
		{"CheckReportsProgress", []string{"C4.73"}, Options{}, checkProgress},
	}
}

func stepForward(s *scene) {
	// There is one job for each change that time causes.
	s.configure(duly.QueueConfig{DeadAge: time.Minute})
	s.kill(duly.Job{ID: "dead"})
	s.push(duly.Job{ID: "done", Retain: time.Minute})
	s.ack(s.take())
	s.push(duly.Job{ID: "leased", Lease: time.Minute})
	s.take()
	s.push(duly.Job{ID: "expires", TTL: time.Minute})
	s.push(duly.Job{ID: "due", Delay: time.Minute})
	s.push(duly.Job{ID: "head", OrderKey: "k"})
	s.push(duly.Job{ID: "behind", OrderKey: "k", Delay: time.Minute})

	s.Advance(2 * time.Minute)
	// A single step applies all of them.
	s.step()
	s.sameIDs("the delayed", idsOf(s.list(duly.StateDelayed)), nil)
	s.sameIDs("the ready", idsOf(s.list(duly.StateReady)), []string{"head", "due", "leased"})
	s.sameIDs("the blocked", idsOf(s.list(duly.StateBlocked)), []string{"behind"})
	s.sameIDs("the leased", idsOf(s.list(duly.StateLeased)), nil)
	s.sameIDs("the dead", idsOf(s.list(duly.StateDead)), nil)
	s.sameIDs("the done", idsOf(s.list(duly.StateDone)), nil)
	s.counted(duly.Counters{Pushed: 7, Delivered: 3, Acked: 1, Stalled: 1, Dead: 1, Expired: 1, Dropped: 1})
}

func stepHarmless(s *scene) {
	for _, state := range duly.States {
		s.on(state.String()).reach(state)
	}
	// The first step applies what is due, so the second one has nothing to do.
	s.step()
	for _, state := range duly.States {
		n := s.on(state.String())
		n.unchanged("a step with nothing to do", func() {
			more, err := n.Maintainer.Step(n.ctx, n.ref())
			n.must("step", err)
			same(n, "more", more, false)
		})
	}

	// A step of an unknown queue succeeds and does not create it.
	more, err := s.Maintainer.Step(s.ctx, duly.Q("unknown"))
	s.must("step of an unknown queue", err)
	same(s, "more", more, false)
	for _, name := range s.queues() {
		same(s, "unknown was made by a step", name == "unknown", false)
	}
}

// stepBounded makes more jobs due than one step may move.
func stepBounded(s *scene) {
	const many = 3000
	for i := range many / 1000 {
		jobs := numbered(1000, fmt.Sprintf("b%d-", i))
		for k := range jobs {
			jobs[k].Delay = time.Second
		}
		s.pushAll(jobs...)
	}

	s.Advance(time.Minute)
	steps := 1
	for ; steps < many; steps++ {
		more, err := s.Maintainer.Step(s.ctx, s.ref())
		s.must("step", err)
		if !more {
			break
		}
	}
	if steps < 2 {
		s.Errorf("%d jobs were moved by %d steps, want at least 2", many, steps)
	}

	page, err := s.Engine.List(s.ctx, s.ref(), duly.ListParams{State: duly.StateDelayed})
	s.must("list", err)
	same(s, "the delayed jobs that are left", len(page.Jobs), 0)
	same(s, "the ready jobs", s.stats().Sizes.Ready, many)
}

func sweepSteps(s *scene) {
	for _, name := range []string{"a", "b", "idle"} {
		s.on(name).push(duly.Job{ID: "x", Delay: time.Minute})
	}
	// The update moves the job of the third queue to a later time, so it is not overdue.
	s.updateOn("idle", time.Hour)
	s.Advance(2 * time.Minute)
	s.must("sweep", s.Maintainer.Sweep(s.ctx))
	s.sameIDs("the ready jobs of a", idsOf(s.on("a").list(duly.StateReady)), []string{"x"})
	s.sameIDs("the ready jobs of b", idsOf(s.on("b").list(duly.StateReady)), []string{"x"})
	s.sameIDs("the delayed jobs of idle", idsOf(s.on("idle").list(duly.StateDelayed)), []string{"x"})
	// A second sweep finds nothing to do.
	s.must("sweep", s.Maintainer.Sweep(s.ctx))
}

func (s *scene) updateOn(queue string, delay time.Duration) {
	s.Helper()
	s.on(queue).updateDelay("x", delay)
}

func checkClean(s *scene) {
	for _, state := range duly.States {
		s.on(state.String()).reach(state)
	}
	s.in("other").push(duly.Job{})
	for _, repair := range []bool{false, true} {
		report, err := s.Maintainer.Check(s.ctx, contract.CheckParams{Repair: repair})
		s.must("check", err)
		// The head of the blocked job and the one in the other namespace.
		same(s, "the jobs that were checked", report.Jobs, int64(len(duly.States))+2)
		same(s, "the faults", len(report.Faults), 0)
		same(s, "the number of repaired faults", report.Repaired, 0)
	}
	for _, state := range duly.States {
		s.on(state.String()).is("x", state)
	}
}

func checkProgress(s *scene) {
	s.pushAll(numbered(1000, "j")...)
	last := int64(0)
	report, err := s.Maintainer.Check(s.ctx, contract.CheckParams{Progress: func(done, total int64) {
		if done < last {
			s.Errorf("the progress went back from %d to %d, want it to rise", last, done)
		}
		last = done
	}})
	s.must("check", err)
	same(s, "the jobs looked at", report.Jobs, 1000)
}
