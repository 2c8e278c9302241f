package enginetest

import (
	"fmt"
	"time"

	"github.com/dulymq/duly"
)

func orderTests() []test {
	return []test{
		{"IsByPriorityThenDueThenNumber", []string{"C6.1", "C2.14"}, Options{OneShard: true}, orderOfReady},
		{"FollowsThePushesOfOneProcess", []string{"C6.2"}, Options{OneShard: true}, orderOfPushes},
		{"AppliesToJobsThatBecomeDueTogether", []string{"C6.1", "C6.5"}, Options{OneShard: true}, orderOfDue},
		{"IsTheSameForPeekListAndReserve", []string{"C6.1", "C4.52", "C4.47"}, Options{OneShard: true}, orderEverywhere},
		{"PlacesARetryByItsNewDueTime", []string{"C6.1", "C4.33"}, Options{OneShard: true}, orderOfRetry},
	}
}

func orderOfReady(s *scene) {
	s.push(duly.Job{ID: "low-early", Priority: -1000})
	s.push(duly.Job{ID: "mid-early"})
	s.push(duly.Job{ID: "mid-early-2"})

	s.Advance(time.Second)
	s.pushAll(duly.Job{ID: "high-late", Priority: 1000}, duly.Job{ID: "mid-late"}, duly.Job{ID: "one", Priority: 1})
	s.Advance(time.Second)
	s.push(duly.Job{ID: "high-later", Priority: 1000})
	s.takes("high-late", "high-later", "one", "mid-early", "mid-early-2", "mid-late", "low-early")
}

func orderOfPushes(s *scene) {
	var want []string
	// More pushes than fit into one millisecond.
	for range 300 {
		want = append(want, s.push(made(duly.Job{})))
	}
	s.takes(want...)
}

func orderOfDue(s *scene) {
	s.pushAll(
		duly.Job{ID: "c", Delay: 3 * time.Second}, duly.Job{ID: "a", Delay: time.Second},
		duly.Job{ID: "b", Delay: 2 * time.Second},
		duly.Job{ID: "b2", Delay: 2 * time.Second}, duly.Job{ID: "top", Delay: 4 * time.Second, Priority: 1},
	)
	s.Advance(time.Hour)
	s.takes("top", "a", "b", "b2", "c")
}

func orderEverywhere(s *scene) {
	jobs := numbered(60, "j")
	// Mixed priorities and due times, without a random generator.
	for i := range jobs {
		jobs[i].Priority = i * 7 % 5
		jobs[i].Delay = time.Duration(i*11%4) * time.Second
	}
	s.pushAll(jobs...)

	s.Advance(10 * time.Second)
	s.step()
	listed := idsOf(s.list(duly.StateReady))
	for _, want := range listed {
		info, err := s.Engine.Peek(s.ctx, s.ref())
		s.must("peek", err)
		same(s, "the first ready job", info.ID, want)
		same(s, "the job delivered", s.take().ID, want)
	}
	same(s, "the jobs listed", len(listed), len(jobs))
}

func orderOfRetry(s *scene) {
	s.push(duly.Job{ID: "a", Backoff: "fixed:10s"})
	s.nack(s.take(), "no")
	s.Advance(5 * time.Second)
	s.push(duly.Job{ID: "b"})
	// The retry is due at 10 s, after the other job was pushed.
	s.Advance(10 * time.Second)
	s.takes("b", "a")
}

// orderedRun pushes n jobs for each of several keys and processes them. Each key's jobs must end
// in the order in which they were pushed.
func (s *scene) orderedRun(keys, n int, work func(d duly.Delivery) (settled bool)) {
	s.Helper()
	for i := range n {
		jobs := make([]duly.Job, keys)
		for k := range jobs {
			jobs[k] = duly.Job{ID: fmt.Sprintf("%d-%d", k, i), OrderKey: fmt.Sprintf("key-%d", k), Backoff: "fixed:1s"}
		}
		s.pushAll(jobs...)
	}

	next := make([]int, keys)
	// The bound on rounds ends the test if the queue never drains.
	for range 20 * keys * n {
		ds := s.reserve(7)
		// No job is ready: either all jobs are done, or some wait for a retry.
		if len(ds) == 0 {
			if s.stats().Sizes == (duly.Sizes{}) {
				return
			}
			s.Advance(time.Second)
			continue
		}
		running := map[string]bool{}
		for _, d := range ds {
			var k, i int
			fmt.Sscanf(d.ID, "%d-%d", &k, &i)
			if i != next[k] || running[d.OrderKey] {
				s.Fatalf("%q was delivered when %d-%d was next (running: %t)", d.ID, k, next[k], running[d.OrderKey])
			}
			running[d.OrderKey] = true
			if work(d) {
				next[k]++
			}
		}
	}
	s.Fatalf("the queue did not drain: %+v", s.stats())
}
