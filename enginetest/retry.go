package enginetest

import (
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

func retryTests() []test {
	return []test{
		{"FailedJobIsDueAfterTheBackoff", []string{"C8.1"}, Options{}, retryDue},
		{"FixedDelayIsConstant", []string{"C8.3"}, Options{}, retryFixed},
		{"FixedZeroRetriesAtOnce", []string{"C8.3"}, Options{}, retryAtOnce},
		{"ExponentialDoublesUpToItsMaximum", []string{"C8.4"}, Options{}, retryExponential},
		{"JitterDependsOnlyOnIDAndAttempt", []string{"C8.5"}, Options{}, retryJitter},
		{"ListRepeatsItsLastDelay", []string{"C8.6"}, Options{}, retryStaircase},
		{"StallsDoNotCountAsAttempts", []string{"C8.1", "C2.18"}, Options{OneShard: true}, retryAfterStall},
		{"BackoffIsFixedAtThePush", []string{"C8.1", "C2.34", "C2.32"}, Options{}, retryStored},
	}
}

// retried fails the job once and returns the time until it is due again.
func (s *scene) retried(id string) time.Duration {
	s.Helper()
	s.nack(s.take(), "no")
	wait := s.get(id).Due.Sub(s.now())
	s.Advance(wait)
	return wait
}

func retryDue(s *scene) {
	id := s.push(duly.Job{Backoff: "fixed:5s"})
	s.nack(s.take(), "no")
	s.Advance(5*time.Second - time.Millisecond)
	s.nothing("the backoff has not passed")
	s.Advance(time.Millisecond)
	s.takes(id)
}

func retryFixed(s *scene) {
	id := s.push(duly.Job{Backoff: "fixed:250ms"})
	for range 5 {
		same(s, "the wait", s.retried(id), 250*time.Millisecond)
	}
}

func retryAtOnce(s *scene) {
	id := s.push(duly.Job{Backoff: "fixed:0s"})
	for range 5 {
		s.nack(s.take(), "no")
		s.is(id, duly.StateReady)
	}
}

func retryExponential(s *scene) {
	id := s.push(duly.Job{ID: "x", Backoff: "exp:1s:10s", Tries: 10})
	for _, plain := range []time.Duration{1, 2, 4, 8, 10, 10, 10} {
		wait, plain := s.retried(id), plain*time.Second
		// The jitter changes a delay by up to 10 %.
		if wait < plain*9/10 || wait > plain*11/10 {
			s.Errorf("the wait is %s, want %s ± 10 %%", wait, plain)
		}
	}
}

func retryJitter(s *scene) {
	for _, j := range []duly.Job{{ID: "order-17"}, {ID: "a:b"}, made(duly.Job{}), {ID: "z", Backoff: "exp:3s:5s"}} {
		s.push(j)
		policy := j.Backoff
		if policy == "" {
			policy = duly.DefaultBackoff
		}
		for n := 1; n <= 4; n++ {
			same(s, "the wait of "+j.ID, s.retried(j.ID), contract.BackoffDelay(policy, j.ID, n))
		}
		s.ack(s.take())
	}
}

func retryStaircase(s *scene) {
	const text = "15s,3m,10m,30m,30m,1h,2h,6h,15h"
	id := s.push(duly.Job{Backoff: text})
	steps := strings.Split(text, ",")
	for n := range 12 {
		want, err := time.ParseDuration(steps[min(n, len(steps)-1)])
		s.must("parse", err)
		same(s, "the wait", s.retried(id), want)
	}
}

func retryAfterStall(s *scene) {
	id := s.push(duly.Job{Backoff: "1s,2s,3s"})
	s.stall(s.take())
	same(s, "the wait after the first failure", s.retried(id), time.Second)
	s.stall(s.take())
	// Stalls count as tries if the job has no stall limit.
	same(s, "the wait after the second failure", s.retried(id), 2*time.Second)

	id = s.push(duly.Job{Backoff: "1s,2s,3s", MaxStalls: duly.None, Priority: 1})
	s.stall(s.take())
	same(s, "the wait after a stall that counts", s.retried(id), 2*time.Second)
}

func retryStored(s *scene) {
	s.configure(duly.QueueConfig{Defaults: duly.Defaults{Backoff: "fixed:2s"}})
	id := s.push(duly.Job{})
	// The job keeps the default of the time of its push.
	s.configure(duly.QueueConfig{Defaults: duly.Defaults{Backoff: "fixed:9s"}})
	same(s, "the wait", s.retried(id), 2*time.Second)
}
