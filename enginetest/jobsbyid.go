package enginetest

import (
	"bytes"
	"errors"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

func jobsByIDTests() []test {
	return []test{
		{"GetReturnsOneResultPerID", []string{"C4.106", "C4.1", "C4.4"}, Options{}, getJobsResults},
		{"GetReadsTheStateByTheClock", []string{"C4.106", "C4.60"}, Options{}, getJobsByClock},
		{"GetOmitsBodies", []string{"C4.106", "C4.50"}, Options{}, getJobsWithoutBodies},
		{"GetBoundsTheBytes", []string{"C4.107", "C4.6"}, Options{}, getJobsBytes},
		{"PromoteReturnsOneResultPerID", []string{"C4.108", "C4.1", "C4.4"}, Options{}, promoteJobsResults},
		{"PromoteTakesEffectInOrder", []string{"C4.108", "C4.3"}, Options{}, promoteJobsInOrder},
		{"TakeABatch", []string{"C4.106", "C4.108", "C4.5"}, Options{}, jobsByIDBatch},
		{"FindNothingInAnUnknownQueue", []string{"C4.106", "C4.108", "C4.86", "C4.87"}, Options{}, jobsByIDUnknown},
		{"RefuseBadParameters", []string{"C4.106", "C4.108", "C4.5", "C13.2"}, Options{}, jobsByIDInput},
	}
}

// getJobs reads jobs by ID and returns the result of each.
func (s *scene) getJobs(bodies bool, ids ...string) []contract.JobResult {
	s.Helper()
	results, err := s.Engine.GetJobs(s.ctx, s.ref(), ids, bodies)
	s.must("the get", err)
	if len(results) != len(ids) {
		s.Fatalf("the get of %q returns %d results", ids, len(results))
	}
	return results
}

// promoteJobs promotes jobs by ID and returns the result of each.
func (s *scene) promoteJobs(ids ...string) []error {
	s.Helper()
	errs, err := s.Engine.PromoteJobs(s.ctx, s.ref(), ids)
	s.must("the promotion", err)
	if len(errs) != len(ids) {
		s.Fatalf("the promotion of %q returns %d results", ids, len(errs))
	}
	return errs
}

func getJobsResults(s *scene) {
	s.kill(duly.Job{ID: "dead", Body: []byte("first")})
	s.pushAll(duly.Job{ID: "ready", Body: []byte("second"), Headers: map[string]string{"a": "b"}},
		duly.Job{ID: "later", Delay: time.Hour})
	ids := []string{"later", "none", "dead", "a bad ID", "ready", "dead"}
	var results []contract.JobResult
	s.unchanged("a get", func() { results = s.getJobs(true, ids...) })

	s.refused("an unknown job", results[1].Err, duly.CodeNotFound)
	s.names("a bad ID", results[3].Err, duly.CodeInvalid, "id")
	for _, i := range []int{0, 2, 4, 5} {
		s.must("job "+ids[i], results[i].Err)
		want, err := s.Engine.Get(s.ctx, s.ref(), ids[i])
		s.must("get", err)
		got := results[i].Info
		same(s, "the ID", got.ID, want.ID)
		same(s, "the state", got.State, want.State)
		same(s, "the body", string(got.Body), string(want.Body))
		same(s, "the last error", got.LastError, want.LastError)
		same(s, "a header", got.Headers["a"], want.Headers["a"])
		same(s, "the size", got.Size, want.Size)
	}
}

func getJobsByClock(s *scene) {
	s.pushAll(duly.Job{ID: "x", Delay: time.Second}, duly.Job{ID: "y", TTL: time.Second})
	s.Advance(time.Second + time.Millisecond)

	// No step has run, so the stored states are old.
	results := s.getJobs(false, "x", "y")
	same(s, "the state of a due job", results[0].Info.State, duly.StateReady)
	s.refused("an expired job", results[1].Err, duly.CodeNotFound)
}

func getJobsWithoutBodies(s *scene) {
	large := bytes.Repeat([]byte("x"), 5000)
	s.push(duly.Job{ID: "done", Body: []byte("abc"), Retain: time.Hour})
	d := s.take()
	s.must("ack", s.settle(duly.SettleRequest{Receipt: d.Receipt, As: duly.Ack, Result: []byte("fine")}))
	s.push(duly.Job{ID: "large", Body: large})

	for i, r := range s.getJobs(false, "done", "large") {
		s.must("a job", r.Err)
		same(s, "the size", r.Info.Size, []int{3, len(large)}[i])
		same(s, "the body without bodies", len(r.Info.Body), 0)
		same(s, "the result without bodies", len(r.Info.Result), 0)
	}
	r := s.getJobs(true, "done", "large")
	same(s, "the body", string(r[0].Info.Body), "abc")
	same(s, "the result", string(r[0].Info.Result), "fine")
	same(s, "the large body", len(r[1].Info.Body), len(large))
}

// getJobsBytes reads more bodies than one answer may have, in several calls.
func getJobsBytes(s *scene) {
	n := duly.MaxBatchBytes/duly.DefaultMaxBody + 2
	var left []string
	for _, j := range numbered(n, "j") {
		j.Body = bytes.Repeat([]byte("x"), duly.DefaultMaxBody)
		s.push(j)
		left = append(left, j.ID)
	}
	for _, r := range s.getJobs(false, left...) {
		s.must("a job without its body", r.Err)
	}

	calls := 0
	for ; len(left) > 0 && calls < n; calls++ {
		size := 0
		var rest []string
		for i, r := range s.getJobs(true, left...) {
			if errors.Is(r.Err, duly.ErrTooLarge) {
				rest = append(rest, left[i])
				continue
			}
			s.must("a job", r.Err)
			same(s, "the ID", r.Info.ID, left[i])
			size += len(r.Info.Body)
		}
		if size == 0 || size > duly.MaxBatchBytes {
			s.Fatalf("an answer has %d bytes of bodies, want 1 to %d", size, duly.MaxBatchBytes)
		}
		left = rest
	}
	same(s, "the calls", calls, 2)
}

func promoteJobsResults(s *scene) {
	s.kill(duly.Job{ID: "dead"})
	s.push(duly.Job{ID: "leased"})
	s.take()
	s.pushAll(duly.Job{ID: "ready"}, duly.Job{ID: "a", Delay: time.Hour}, duly.Job{ID: "b", Delay: time.Hour})
	errs := s.promoteJobs("dead", "b", "none", "leased", "a bad ID", "ready", "b")

	s.conflicts("a dead job", errs[0], duly.StateDead)
	s.must("a delayed job", errs[1])
	s.refused("an unknown job", errs[2], duly.CodeNotFound)
	s.conflicts("a leased job", errs[3], duly.StateLeased)
	s.names("a bad ID", errs[4], duly.CodeInvalid, "id")
	s.must("a ready job", errs[5])
	s.must("the same job again", errs[6])
	s.sizes(duly.Sizes{Delayed: 1, Ready: 2, Leased: 1, Dead: 1})
}

func promoteJobsInOrder(s *scene) {
	s.pushAll(duly.Job{ID: "a", OrderKey: "k", Delay: time.Hour}, duly.Job{ID: "b", OrderKey: "k", Delay: time.Hour},
		duly.Job{ID: "over", TTL: time.Hour, Delay: time.Second})
	for _, err := range s.promoteJobs("b", "a", "b") {
		s.must("a promotion", err)
	}
	// The first job of the call holds the key.
	for i, want := range []duly.State{duly.StateReady, duly.StateBlocked} {
		same(s, "the state", s.getJobs(false, "b", "a")[i].Info.State, want)
	}

	s.Advance(time.Hour + time.Millisecond)
	s.refused("an expired job", s.promoteJobs("over")[0], duly.CodeNotFound)
}

func jobsByIDBatch(s *scene) {
	ids := make([]string, duly.MaxBatch)
	jobs := numbered(duly.MaxBatch, "j")
	for i := range jobs {
		ids[i], jobs[i].Delay = jobs[i].ID, time.Hour
	}
	s.pushAll(jobs...)

	for _, err := range s.promoteJobs(ids...) {
		s.must("a promotion", err)
	}
	s.sizes(duly.Sizes{Ready: duly.MaxBatch})
	for i, r := range s.getJobs(true, ids...) {
		s.must("a job", r.Err)
		same(s, "the ID", r.Info.ID, ids[i])
	}
}

func jobsByIDUnknown(s *scene) {
	errs := s.promoteJobs("x", "a bad ID")
	for i, r := range s.getJobs(true, "x", "a bad ID") {
		code := []duly.Code{duly.CodeNotFound, duly.CodeInvalid}[i]
		s.refused("a get in an unknown queue", r.Err, code)
		s.refused("a promotion in an unknown queue", errs[i], code)
	}
	same(s, "the number of queues", len(s.queues()), 0)
}

func jobsByIDInput(s *scene) {
	many := make([]string, duly.MaxBatch+1)
	s.unchanged("refused calls", func() {
		s.names("a get without IDs", errOf(s.Engine.GetJobs(s.ctx, s.ref(), nil, true)), duly.CodeInvalid, "ids")
		s.names("a get of 1001", errOf(s.Engine.GetJobs(s.ctx, s.ref(), many, true)), duly.CodeTooLarge, "batch")
		s.names("a promotion without IDs", errOf(s.Engine.PromoteJobs(s.ctx, s.ref(), nil)), duly.CodeInvalid, "ids")
		s.names("a promotion of 1001", errOf(s.Engine.PromoteJobs(s.ctx, s.ref(), many)), duly.CodeTooLarge, "batch")
	})
}
