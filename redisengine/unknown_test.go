package redisengine

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine/internal/store"
	"github.com/dulymq/duly/redisengine/internal/wait"
)

// stranger opens a process that waits for a queue that does not exist yet.
func (s *sleeper) stranger(options, queue string) (e *Engine, woken chan bool) {
	s.Helper()
	e = openOn(s.T, s.server.URL()+options, s.clock)
	e.WithoutLook()
	woken = make(chan bool, 1)
	go func() {
		ready, err := e.Wait(s.Context(), duly.WaitParams{Queues: []string{queue}, Timeout: duly.MaxWait})
		woken <- ready && err == nil
	}()
	redistest.Await(s, "it waits", func() bool { return e.Waiters() == 1 })
	e.Quiet()
	return e, woken
}

// TestFirstJobOfAQueueWakesEarlierWaiters checks waiters for a queue that does not exist yet. The
// first job wakes them at once if it is due, or else at its due time, whichever process creates the
// queue (C5.15). The waiters need no poll for that.
func TestFirstJobOfAQueueWakesEarlierWaiters(t *testing.T) {
	t.Parallel()
	s := newSleeper(t)
	for i, options := range []string{"", "?shards=8"} {
		now, later := fmt.Sprint("now", i), fmt.Sprint("later", i)
		producer := openOn(t, s.server.URL()+options, s.clock)
		_, woken := s.stranger(options, now)
		pushTo(t, producer, duly.Job{Queue: now})
		s.awake(woken, "a queue that it waits for has its first job")

		e, woken := s.stranger(options, later)
		pushTo(t, producer, duly.Job{Queue: later, Delay: time.Minute})
		redistest.Await(t, "it keeps the moment", func() bool {
			return e.hub.Probe().DueTimers() == 1
		})
		s.clock.Advance(time.Minute)
		s.awake(woken, "the first job of a queue that it waits for is due")
	}
}

func pushTo(t *testing.T, e *Engine, j duly.Job) {
	t.Helper()
	if r, err := e.Push(t.Context(), []duly.Job{j}); err != nil || r[0].Err != nil {
		t.Fatal(r, err)
	}
}

// TestWaitingForUnknownQueuesIsCheap checks that a process which waits for unknown queues reads
// the list once every two seconds, does not poll shards, and watches at most a fixed number of
// markers.
func TestWaitingForUnknownQueuesIsCheap(t *testing.T) {
	t.Parallel()
	s := newSleeper(t)
	names := make([]string, duly.MaxReserveQueues)
	for i := range names {
		names[i] = fmt.Sprint("some", i)
	}
	e := s.engine()
	waitFor := func(queues []string) (end func()) {
		ctx, end := context.WithCancel(t.Context())
		go e.Wait(ctx, duly.WaitParams{Queues: queues, Timeout: duly.MaxWait})
		return end
	}
	end := waitFor(names)
	redistest.Await(t, "it waits", func() bool { return e.Waiters() == len(names) })
	e.Quiet()
	s.server.Must("CONFIG", "RESETSTAT")
	const looks = 5
	for range looks {
		s.clock.Advance(store.Recheck)
		e.hub.Probe().Idle()
	}
	stats := s.server.Must("INFO", "commandstats").(string)
	if strings.Contains(stats, "cmdstat_fcall") || !strings.Contains(stats,
		fmt.Sprintf("cmdstat_hmget:calls=%d,", looks)) {
		t.Errorf("%d looks made the calls %s", looks, stats)
	}
	more := []string{"more0", "more1", "more2"}
	endMore := waitFor(more)
	redistest.Await(t, "it waits for more", func() bool { return e.Waiters() == len(names)+len(more) })
	if n := len(e.hub.Probe().Markers()); n != wait.MaxGuesses {
		t.Errorf("the process watches %d markers, want %d", n, wait.MaxGuesses)
	}
	end()
	endMore()
	redistest.Await(t, "nobody waits", func() bool { return e.Waiters() == 0 })
	if markers := e.hub.Probe().Markers(); len(markers) > 0 {
		t.Errorf("the markers %q are still watched", markers)
	}
}
