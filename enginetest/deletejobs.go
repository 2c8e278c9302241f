package enginetest

import (
	"time"

	"github.com/dulymq/duly"
)

func deleteJobsTests() []test {
	return []test{
		{"ReturnsOneResultPerID", []string{"C4.103", "C4.1", "C4.4"}, Options{}, deleteJobsResults},
		{"WithAStateDeletesOnlyItsJobs", []string{"C4.104", "C13.5"}, Options{}, deleteJobsOfState},
		{"ReadsTheStateByTheClock", []string{"C4.104", "C4.60"}, Options{}, deleteJobsByClock},
		{"SeesTheEffectOfEarlierIDs", []string{"C4.103", "C4.104", "C4.3"}, Options{}, deleteJobsInOrder},
		{"LeavesAJobThatWasRequeued", []string{"C4.104"}, Options{}, deleteJobsRequeued},
		{"DeletesABatch", []string{"C4.103", "C4.5"}, Options{}, deleteJobsBatch},
		{"OfAnUnknownQueueFindsNothing", []string{"C4.103", "C4.86", "C4.87"}, Options{}, deleteJobsUnknown},
		{"RefusesBadParameters", []string{"C4.103", "C4.5", "C13.2"}, Options{}, deleteJobsInput},
	}
}

// deleteJobs deletes jobs by ID and returns the result of each.
func (s *scene) deleteJobs(state duly.State, ids ...string) []error {
	s.Helper()
	errs, err := s.Engine.DeleteJobs(s.ctx, s.ref(), ids, state)
	s.must("the deletion", err)
	if len(errs) != len(ids) {
		s.Fatalf("the deletion of %q returns %d results", ids, len(errs))
	}
	return errs
}

func deleteJobsResults(s *scene) {
	s.kill(duly.Job{ID: "dead"})
	s.push(duly.Job{ID: "leased"})
	d := s.take()
	s.pushAll(duly.Job{ID: "ready"}, duly.Job{ID: "stays"})
	errs := s.deleteJobs(duly.StateNone, "dead", "none", "leased", "a bad ID", "ready", "dead")

	s.must("a dead job", errs[0])
	s.refused("an unknown job", errs[1], duly.CodeNotFound)
	s.must("a leased job", errs[2])
	s.names("a bad ID", errs[3], duly.CodeInvalid, "id")
	s.must("a ready job", errs[4])
	s.refused("the same job again", errs[5], duly.CodeNotFound)
	s.lost("an ack of the deleted job", s.settle(duly.SettleRequest{Receipt: d.Receipt, As: duly.Ack}))
	s.sizes(duly.Sizes{Ready: 1})
	s.counted(duly.Counters{Pushed: 4, Delivered: 2, Dead: 1, Deleted: 3})
	s.takes("stays")
}

func deleteJobsOfState(s *scene) {
	for _, state := range duly.States {
		n := s.on(state.String())
		id, _ := n.reach(state)
		for _, other := range duly.States {
			if other == state {
				continue
			}
			n.unchanged("a deletion of a job in another state", func() {
				n.conflicts("deletion of a job that is "+state.String(), n.deleteJobs(other, id)[0], state)
			})
		}
		n.must("deletion of a job that is "+state.String(), n.deleteJobs(state, id)[0])
		n.gone(id)
	}
}

func deleteJobsByClock(s *scene) {
	s.pushAll(duly.Job{ID: "x", Delay: time.Second}, duly.Job{ID: "y", TTL: time.Second})
	s.conflicts("a job before its time", s.deleteJobs(duly.StateReady, "x")[0], duly.StateDelayed)
	s.Advance(time.Second + time.Millisecond)

	// No step has run, so the stored states are old.
	errs := s.deleteJobs(duly.StateDelayed, "x", "y")
	s.conflicts("a due job", errs[0], duly.StateReady)
	s.refused("an expired job", errs[1], duly.CodeNotFound)
	s.must("a due job", s.deleteJobs(duly.StateReady, "x")[0])
	s.gone("x")
}

func deleteJobsInOrder(s *scene) {
	pair := func(head, next string) {
		s.pushAll(duly.Job{ID: head, OrderKey: head}, duly.Job{ID: next, OrderKey: head})
	}
	pair("a", "b")
	errs := s.deleteJobs(duly.StateReady, "b", "a", "b")
	s.conflicts("a blocked job", errs[0], duly.StateBlocked)
	s.must("the head of its key", errs[1])
	// The deletion of the head has freed the key.
	s.must("the same job, now ready", errs[2])

	pair("c", "d")
	errs = s.deleteJobs(duly.StateBlocked, "c", "d", "d")
	s.conflicts("the head of a key", errs[0], duly.StateReady)
	s.must("the job behind it", errs[1])
	s.refused("the same job again", errs[2], duly.CodeNotFound)
	s.takes("c")
}

// deleteJobsRequeued requeues a job between its listing and its deletion.
func deleteJobsRequeued(s *scene) {
	s.kill(duly.Job{ID: "a"}, duly.Job{ID: "b"})
	listed := idsOf(s.list(duly.StateDead))
	s.requeue("a")
	results := map[string]error{}
	for i, err := range s.deleteJobs(duly.StateDead, listed...) {
		results[listed[i]] = err
	}

	s.conflicts("the requeued job", results["a"], duly.StateReady)
	s.must("the other one", results["b"])
	s.gone("b")
	s.takes("a")
}

func deleteJobsBatch(s *scene) {
	ids := make([]string, duly.MaxBatch)
	jobs := numbered(duly.MaxBatch, "j")
	for i := range jobs {
		ids[i] = jobs[i].ID
		// Every tenth job is in another state.
		if i%10 == 0 {
			jobs[i].Delay = time.Hour
		}
	}
	s.pushAll(jobs...)

	for i, err := range s.deleteJobs(duly.StateReady, ids...) {
		if i%10 == 0 {
			s.conflicts("a delayed job", err, duly.StateDelayed)
		} else {
			s.must("a ready job", err)
		}
	}
	s.sizes(duly.Sizes{Delayed: duly.MaxBatch / 10})
}

func deleteJobsUnknown(s *scene) {
	errs := s.deleteJobs(duly.StateNone, "x", "a bad ID")
	s.refused("a job of an unknown queue", errs[0], duly.CodeNotFound)
	s.names("a bad ID", errs[1], duly.CodeInvalid, "id")
	same(s, "the number of queues", len(s.queues()), 0)
}

func deleteJobsInput(s *scene) {
	s.push(duly.Job{ID: "x"})
	s.unchanged("refused calls", func() {
		call := func(ids []string, state duly.State) error {
			return errOf(s.Engine.DeleteJobs(s.ctx, s.ref(), ids, state))
		}
		s.names("a deletion without IDs", call(nil, duly.StateNone), duly.CodeInvalid, "ids")
		s.names("a deletion of 1001", call(make([]string, duly.MaxBatch+1), duly.StateNone), duly.CodeTooLarge, "batch")
		s.names("an unknown state", call([]string{"x"}, duly.State(99)), duly.CodeInvalid, "state")
	})
}
