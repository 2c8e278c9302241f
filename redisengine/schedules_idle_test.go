package redisengine_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine"
)

// TestDistantTicksCauseNoRequests checks that a process that waits on queues with distant ticks sends
// as many requests as a process that waits on queues without schedules. A sweep sends one call more
// for the shards with ticks. No timer waits longer than a time.Duration can, also for a tick 370 years
// ahead.
//
// C5.11, C17.107, C17.113
func TestDistantTicksCauseNoRequests(t *testing.T) {
	t.Parallel()
	const queues, minutes = 20, 10
	without := newIdleProcess(t, queues, time.Time{})
	waiting, sweeping := without.waits(minutes), without.sweeps(minutes)

	for name, first := range map[string]time.Time{
		"InTwoHours": clock.Epoch.Add(2 * time.Hour),
		"InYear2400": time.Date(2400, time.January, 1, 0, 0, 0, 0, time.UTC),
	} {
		t.Run(name, func(t *testing.T) {
			p := newIdleProcess(t, queues, first)
			if n := p.waits(minutes); n["all"] > waiting["all"]+2 {
				t.Errorf("in %d minutes of waiting the process sent %v, and %v without schedules", minutes, n, waiting)
			}
			n := p.sweeps(minutes)
			if n["overdue"] > 2*minutes || n["all"]-n["overdue"] > sweeping["all"]+2 {
				t.Errorf("in %d minutes of sweeps the process sent %v, and %v without schedules", minutes, n, sweeping)
			}
		})
	}
}

// idleProcess is a process with one waiter. It counts its requests by their names.
type idleProcess struct {
	*testing.T
	clock *clock.Fake
	e     *redisengine.Engine

	mu   sync.Mutex
	seen map[string]int
}

// newIdleProcess returns a process that waits on queues. Each queue has a schedule with its first tick
// at that time, unless the time is zero.
func newIdleProcess(t *testing.T, queues int, first time.Time) *idleProcess {
	t.Helper()
	server, prefix := redistest.Shared(t)
	p := &idleProcess{T: t, clock: clock.NewFake(), seen: map[string]int{}}
	url := withPrefix(server.URL(), prefix)
	other := openAt(t, url, p.clock)
	var names []string
	for i := range queues {
		names = append(names, fmt.Sprint("q", i))
		must(t, other.Configure(t.Context(), duly.Q(names[i]), duly.QueueConfig{}))
		if !first.IsZero() {
			_, err := other.PutSchedule(t.Context(), duly.Q(names[i]), duly.Schedule{Name: "a", Spec: "@every 1d", Start: first})
			must(t, err)
		}
	}

	var err error
	p.e, err = redisengine.Open(t.Context(), redisengine.Config{
		URL: url, Clock: p.clock, Logger: slog.New(slog.DiscardHandler), Observe: p.observe,
	})
	must(t, err)
	t.Cleanup(func() { p.e.Close() })
	p.wait(names)
	return p
}

// wait lets a caller wait on queues until the test ends.
func (p *idleProcess) wait(queues []string) {
	p.Helper()
	ctx, leave := context.WithCancel(context.Background())
	var waiter sync.WaitGroup
	waiter.Go(func() { _, _ = p.e.Wait(ctx, duly.WaitParams{Queues: queues, Timeout: duly.MaxWait}) })
	p.Cleanup(func() { leave(); waiter.Wait() })
	redistest.Await(p, "the caller to wait", func() bool { return p.e.Waiters() == len(queues) })
	p.e.Quiet()
}

func (p *idleProcess) observe(call string, _ time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// Quiet itself asks for the number of markers.
	if call != "ZCARD" {
		p.seen[call]++
		p.seen["all"]++
	}
}

// waits returns the requests of so many minutes of waiting.
func (p *idleProcess) waits(minutes int) map[string]int {
	return p.pass(minutes, func() {})
}

// sweeps returns the requests of so many minutes with two sweeps each, as a server makes them.
func (p *idleProcess) sweeps(minutes int) map[string]int {
	p.Helper()
	return p.pass(minutes, func() { must(p, p.e.Sweep(p.Context())) })
}

// pass lets time pass, and calls do every half minute.
func (p *idleProcess) pass(minutes int, do func()) map[string]int {
	p.Helper()
	p.mu.Lock()
	clear(p.seen)
	p.mu.Unlock()
	for range 2 * minutes {
		do()
		p.clock.Advance(30 * time.Second)
		p.e.Quiet()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.seen)
}
