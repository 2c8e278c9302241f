package redisengine_test

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine"
)

// settable is a server with a settable clock, and two processes.
type settable struct {
	*testing.T
	server    *redistest.Server
	e, worker *redisengine.Engine
}

func newSettable(t *testing.T) *settable {
	redistest.NeedClocks(t)
	server := redistest.Single(t, redistest.Ahead(0))
	s := &settable{T: t, server: server, e: open(t, server.URL()), worker: open(t, server.URL())}
	must(t, s.e.Configure(t.Context(), duly.Q("q"), duly.QueueConfig{}))
	return s
}

func (s *settable) push(n int, j duly.Job) {
	s.Helper()
	j.Queue = "q"
	jobs := make([]duly.Job, n)
	for i := range jobs {
		jobs[i] = j
	}
	results, err := s.e.Push(s.Context(), jobs)
	must(s, err)
	for _, r := range results {
		must(s, r.Err)
	}
}

func (s *settable) take(n int, lease time.Duration) []duly.Delivery {
	s.Helper()
	ds, err := s.e.Reserve(s.Context(), duly.ReserveParams{Queues: []string{"q"}, Max: max(n, 1), Lease: lease})
	if err != nil || len(ds) != n {
		s.Fatalf("reserved %d of %d jobs, %v", len(ds), n, err)
	}
	return ds
}

func (s *settable) ack(d *duly.Delivery) error {
	s.Helper()
	errs, err := s.e.Settle(s.Context(), "", []duly.SettleRequest{{Receipt: d.Receipt, As: duly.Ack}})
	must(s, err)
	return errs[0]
}

// collect makes the worker wait for jobs, reserve and ack them, until it has n jobs. The worker
// polls every two seconds, and the test allows ten times that.
func (s *settable) collect(n int) (all []duly.Delivery) {
	s.Helper()
	for limit := clock.Monotonic() + 20*time.Second; len(all) < n; {
		left := limit - clock.Monotonic()
		if left <= 0 {
			s.Fatalf("got %d of %d jobs within 20 s", len(all), n)
		}
		if _, err := s.worker.Wait(s.Context(), duly.WaitParams{Queues: []string{"q"}, Timeout: left}); err != nil {
			s.Fatal(err)
		}
		ds, err := s.worker.Reserve(s.Context(), duly.ReserveParams{Queues: []string{"q"}, Max: 100, Lease: time.Minute})
		must(s, err)
		for i := range ds {
			if ds[i].Now.Before(ds[i].Due) {
				s.Errorf("delivered early, at %v, due at %v", ds[i].Now, ds[i].Due)
			}
			must(s, s.ack(&ds[i]))
		}
		all = append(all, ds...)
	}
	if len(all) > n {
		s.Errorf("got %d jobs, want %d", len(all), n)
	}
	return all
}

func (s *settable) nothing(d time.Duration) {
	s.Helper()
	if ready, err := s.worker.Wait(s.Context(), duly.WaitParams{Queues: []string{"q"}, Timeout: d}); err != nil || ready {
		s.Errorf("Wait for jobs that are not due returned %t, %v", ready, err)
	}
}

// sound expects these counters and no faults.
func (s *settable) sound(want duly.Counters) {
	s.Helper()
	st, err := s.e.Stats(s.Context(), duly.Q("q"))
	if err != nil || st.Counters != want {
		s.Errorf("the counters are %+v, %v; want %+v", st.Counters, err, want)
	}
	report, err := s.e.Check(s.Context(), contract.CheckParams{})
	if err != nil || len(report.Faults) > 0 {
		s.Errorf("Check: %+v, %v", report.Faults, err)
	}
}

// TestServerClockSetAhead sets the server's clock an hour ahead (fault T3). Jobs scheduled before are
// delivered at once. Every lease ends once, and its receipt is void.
//
// C5.7, C5.8, C1.9
func TestServerClockSetAhead(t *testing.T) {
	t.Parallel()
	s := newSettable(t)
	s.push(5, duly.Job{})
	held := s.take(5, 10*time.Minute)
	s.push(5, duly.Job{Delay: 30 * time.Minute})
	s.server.SetClock(time.Hour)
	stalls := 0
	for _, d := range s.collect(10) {
		stalls += d.Stalls
	}
	for i := range held {
		if err := s.ack(&held[i]); !errors.Is(err, duly.ErrLeaseLost) {
			t.Errorf("the receipt of an ended lease: %v", err)
		}
	}
	if stalls != 5 {
		t.Errorf("5 leases ended %d times", stalls)
	}
	s.sound(duly.Counters{Pushed: 10, Delivered: 15, Stalled: 5, Acked: 10})

	s.push(1, duly.Job{MaxStalls: 2})
	for i := range 3 {
		s.take(1, time.Minute)
		s.server.SetClock(time.Duration(i+2) * time.Hour)
	}
	// Reserve also makes the job a dead letter.
	s.take(0, time.Minute)
	s.sound(duly.Counters{Pushed: 11, Delivered: 18, Stalled: 8, Acked: 10, Dead: 1})
}

// TestServerClockSetBack sets the server's clock an hour back, and right again (fault T4). Jobs
// scheduled before are delivered later by that step and never early. Each lease ends once, ready
// jobs stay ready, and new jobs are on time.
//
// C5.6, C5.7, C5.8
func TestServerClockSetBack(t *testing.T) {
	t.Parallel()
	s := newSettable(t)
	s.push(2, duly.Job{})
	held := s.take(2, 700*time.Millisecond)
	s.push(1, duly.Job{})
	s.push(3, duly.Job{Delay: 700 * time.Millisecond})
	s.server.SetClock(-time.Hour)
	s.push(3, duly.Job{Delay: 100 * time.Millisecond})
	// The job that was ready before, and the new ones.
	s.collect(4)
	s.nothing(1200 * time.Millisecond)
	if err := s.ack(&held[0]); err != nil {
		t.Errorf("the receipt of a lease that has not ended by the server's clock: %v", err)
	}
	s.server.SetClock(0)
	stalls := 0
	for _, d := range s.collect(4) {
		stalls += d.Stalls
	}
	if err := s.ack(&held[1]); !errors.Is(err, duly.ErrLeaseLost) || stalls != 1 {
		t.Errorf("the receipt of a lease that has ended %d times: %v", stalls, err)
	}
	s.sound(duly.Counters{Pushed: 9, Delivered: 10, Stalled: 1, Acked: 9})

	s.push(3, duly.Job{Delay: 200 * time.Millisecond})
	s.server.SetClock(-2 * time.Second)
	// The jobs are late by at most the step of the clock. The test allows ten times that.
	s.collect(3)
	s.sound(duly.Counters{Pushed: 12, Delivered: 13, Stalled: 1, Acked: 12})
}

// TestServerClockSetUnderLoad sets the server's clock repeatedly while processes work (faults T3, T4).
// No job is early or lost, none is acked twice, and none is delivered again after its ack.
//
// C5.4, C5.6, C5.7, C9.1
func TestServerClockSetUnderLoad(t *testing.T) {
	t.Parallel()
	s := newSettable(t)
	span := 3 * time.Second
	if long() {
		span = 3 * time.Minute
	}
	seed := uint64(clock.System().Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	b := &books{acked: map[string]int{}}
	for i := range 6 {
		e := []*redisengine.Engine{s.e, s.worker}[i%2]
		all.Go(func() { s.work(ctx, e, b, rand.New(rand.NewPCG(seed, uint64(i+1)))) })
	}
	pushed, ahead := 0, time.Duration(0)
	for end := clock.Monotonic() + span; clock.Monotonic() < end; {
		s.push(20, duly.Job{Delay: time.Duration(r.IntN(300)) * time.Millisecond, MaxStalls: 10_000})
		pushed += 20
		steps := []time.Duration{time.Hour, -time.Hour, 5 * time.Minute, -5 * time.Minute, time.Second, -time.Second,
			50 * time.Millisecond, -50 * time.Millisecond}
		ahead += steps[r.IntN(len(steps))]
		s.server.SetClock(ahead)
		_ = clock.Sleep(ctx, clock.System(), time.Duration(r.Int64N(int64(100*time.Millisecond))))
	}
	// All jobs are due now.
	s.server.SetClock(ahead + 1000*time.Hour)
	redistest.Await(t, "all are acked", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.acked) == pushed || t.Failed()
	})
	stop()
	all.Wait()
	for id, n := range b.acked {
		if n != 1 {
			t.Errorf("job %s was acked %d times", id, n)
		}
	}
	st, err := s.e.Stats(t.Context(), duly.Q("q"))
	must(t, err)
	c := st.Counters
	t.Logf("%+v", c)
	s.sound(duly.Counters{Pushed: int64(pushed), Acked: int64(pushed), Delivered: c.Acked + c.Stalled, Stalled: c.Stalled})
}

// books records how often each job was acked.
type books struct {
	mu    sync.Mutex
	acked map[string]int
}

// copy returns how often each job has been acked until now.
func (b *books) copy() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.acked)
}

func (s *settable) work(ctx context.Context, e *redisengine.Engine, b *books, r *rand.Rand) {
	for ctx.Err() == nil {
		if _, err := e.Wait(ctx, duly.WaitParams{Queues: []string{"q"}, Timeout: time.Second}); err != nil &&
			ctx.Err() == nil {
			s.Error(err)
		}
		// Another caller may ack a job after this Reserve, if the lease ends before the next lines.
		before := b.copy()
		ds, err := e.Reserve(context.WithoutCancel(ctx), duly.ReserveParams{Queues: []string{"q"}, Max: 5,
			Lease: 200 * time.Millisecond})
		if err != nil {
			s.Error(err)
		}
		for i := range ds {
			d := &ds[i]
			if d.Now.Before(d.Due) {
				s.Errorf("delivered early, at %v, due at %v", d.Now, d.Due)
			}
			if before[d.ID] > 0 {
				s.Errorf("job %s was delivered after its ack", d.ID)
			}
			if r.IntN(20) == 0 {
				// This delivery is not settled, so its lease ends.
				continue
			}
			errs, err := e.Settle(context.WithoutCancel(ctx), "", []duly.SettleRequest{{Receipt: d.Receipt, As: duly.Ack}})
			switch {
			case err != nil:
				s.Error(err)
			case errs[0] == nil:
				b.mu.Lock()
				b.acked[d.ID]++
				b.mu.Unlock()
			case !errors.Is(errs[0], duly.ErrLeaseLost):
				s.Error(errs[0])
			}
		}
	}
}
