package redisengine

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// manyQueues creates queues with the same jobs, and makes a process wait for each with its own
// Wait. It returns how many of the Waits have returned.
func (s *sleeper) manyQueues(n int, jobs ...duly.Job) (woken *atomic.Int64) {
	s.Helper()
	for i := range n {
		queue := fmt.Sprint("many", i)
		s.must(s.e.Configure(s.Context(), duly.Q(queue), duly.QueueConfig{}))
		for _, j := range jobs {
			j.Queue = queue
			pushTo(s.T, s.e, j)
		}
	}

	woken = new(atomic.Int64)
	ctx, cancel := context.WithCancel(s.Context())
	s.Cleanup(cancel)
	for i := range n {
		go func() {
			ready, err := s.e.Wait(ctx, duly.WaitParams{Queues: []string{fmt.Sprint("many", i)}, Timeout: duly.MaxWait})
			if ready && err == nil {
				woken.Add(1)
			}
		}()
	}
	redistest.Await(s, "they wait", func() bool { return s.e.Waiters() == n })
	s.e.Quiet()
	return woken
}

// looksOfATick counts the requests of the next look every two seconds.
func (s *sleeper) looksOfATick() (calls int) {
	s.Helper()
	s.server.Must("CONFIG", "RESETSTAT")
	s.clock.Advance(store.Recheck)
	s.e.Quiet()
	for line := range strings.Lines(fmt.Sprint(s.server.Must("INFO", "commandstats"))) {
		if _, err := fmt.Sscanf(line, "cmdstat_fcall_ro:calls=%d", &calls); err == nil {
			break
		}
	}
	return calls
}

// TestOneRequestLooksAtAThousandIdleQueues checks that one request covers a thousand queues
// without jobs (C16.18).
func TestOneRequestLooksAtAThousandIdleQueues(t *testing.T) {
	t.Parallel()
	s := newSleeper(t)
	s.manyQueues(1000)
	if n := s.looksOfATick(); n != 1 {
		t.Errorf("got %d requests, want 1", n)
	}
}

// TestLookContinuesAfterQueuesWithJobs checks that one request covers 200 queues with jobs, and
// the next ones cover the rest. The jobs become ready without a marker, as if a process had died
// with it.
func TestLookContinuesAfterQueuesWithJobs(t *testing.T) {
	t.Parallel()
	s := newSleeper(t)
	const queues = 450
	woken := s.manyQueues(queues, duly.Job{Delay: time.Hour})
	if n := s.looksOfATick(); n != 3 {
		t.Errorf("got %d requests for %d queues with jobs, want 3", n, queues)
	}

	for i := range queues {
		key := fmt.Sprintf("duly:{default/many%d/0}:", i)
		for _, member := range s.server.Must("ZRANGE", key+"delayed", 0, -1).([]any) {
			s.server.Must("ZREM", key+"delayed", member)
			s.server.Must("ZADD", key+"ready", 0, member)
		}
	}
	s.clock.Advance(store.Recheck)
	redistest.Await(t, "every Wait returns", func() bool { return woken.Load() == queues })
}
