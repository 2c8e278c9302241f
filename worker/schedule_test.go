package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/worker"
)

// M7: workers on the in-memory engine through 24 hours of a random schedule:
// handlers that fail, stall and panic, a store that is lost, loses answers and
// hangs, workers that are stopped, killed and cut off. I1–I8 hold.
func TestInvariantsHoldOnRandomSchedules(t *testing.T) {
	t.Parallel()
	seeds := uint64(50)
	switch {
	case os.Getenv("DULY_LONG") != "":
		seeds = 1000
	case testing.Short():
		seeds = 12
	}
	var seen sightings
	t.Run("Seeds", func(t *testing.T) {
		for part := range uint64(4) {
			t.Run(fmt.Sprint(part), func(t *testing.T) {
				t.Parallel()
				for seed := part; seed < seeds && !t.Failed(); seed += 4 {
					synctest.Test(t, func(t *testing.T) { newSchedule(t, seed, &seen).run() })
				}
			})
		}
	})
	seen.check(t, seeds)
}

// sightings counts what has happened over all schedules: a fault that never
// occurred proves nothing.
type sightings struct {
	mu     sync.Mutex
	counts map[string]int
}

func (s *sightings) add(what string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counts == nil {
		s.counts = map[string]int{}
	}
	s.counts[what] += n
}

func (s *sightings) check(t *testing.T, seeds uint64) {
	for _, what := range []string{
		"acked", "dead", "stalls", "failures", "releases", "panics", "lease lost", "max hold", "timeouts", "store lost", "store back",
		"answers lost", "hangs", "cut off", "killed", "stopped", "settles refused",
	} {
		if s.counts[what] < int(seeds)/5 {
			t.Errorf("%q was seen %d times in %d schedules", what, s.counts[what], seeds)
		}
	}
	t.Logf("%d schedules: %v", seeds, s.counts)
}

// schedule is 24 hours drawn from a seed.
type schedule struct {
	t      *testing.T
	rnd    *rand.Rand // for the plan; one goroutine
	seed   uint64
	oracle *oracle
	seen   *sightings
	queues []string
	began  time.Time
	calm   time.Time // no faults from here on
	bad    []window  // when the store fails
	wg     sync.WaitGroup
}

type window struct {
	from, to time.Time
	how      fault
}

// fault is how a call fails.
type fault int

const (
	none       fault = iota
	refused          // the call does not reach the engine
	answerLost       // it does, but its answer does not come back
	hangs            // nothing comes back until the caller gives up
	slowly           // it takes a second
)

func newSchedule(t *testing.T, seed uint64, seen *sightings) *schedule {
	s := &schedule{
		t: t, rnd: rand.New(rand.NewPCG(seed, 7)), seed: seed, oracle: newOracle(t, seed), seen: seen,
		queues: []string{"a", "b", "c"}, began: time.Now(),
	}
	s.calm = s.began.Add(24 * time.Hour)
	for range 12 {
		from := s.began.Add(s.within(24 * time.Hour))
		to := from.Add(s.within([]time.Duration{time.Second, time.Minute, 20 * time.Minute}[s.rnd.IntN(3)]))
		s.bad = append(s.bad, window{from, to, fault(1 + s.rnd.IntN(4))})
	}
	return s
}

func (s *schedule) within(d time.Duration) time.Duration {
	return time.Duration(s.rnd.Int64N(int64(d))).Truncate(time.Millisecond)
}

func (s *schedule) run() {
	ctx, stop := context.WithCancel(context.Background())
	for i := range 2 {
		seed := s.rnd.Uint64()
		s.wg.Go(func() { s.place(ctx, i, rand.New(rand.NewPCG(seed, 1))) })
	}
	s.produce(120)
	time.Sleep(time.Until(s.calm))
	for hour := 0; !s.oracle.drained(s.queues); hour++ {
		if hour == 100 {
			s.t.Errorf("seed %d: jobs are left after %d quiet hours", s.seed, hour)
			break
		}
		time.Sleep(time.Hour)
	}
	stop()
	s.wg.Wait()
	s.oracle.judge(s.queues)
	s.oracle.engine.Close()
	for _, r := range s.oracle.jobs {
		s.seen.add("stalls", r.stalls)
		s.seen.add("failures", r.failures)
		s.seen.add("releases", r.releases)
	}
	s.seen.add("acked", s.oracle.done)
	s.seen.add("dead", len(s.oracle.jobs)-s.oracle.done)
	time.Sleep(24 * time.Hour) // handlers that nobody waits for any more end too
}

// produce pushes n jobs, spread over the day in bursts.
func (s *schedule) produce(n int) {
	leases := []time.Duration{100 * time.Millisecond, 2 * time.Second, 30 * time.Second, 5 * time.Minute, 20 * time.Minute}
	for i := 0; i < n; {
		time.Sleep(s.within(25 * time.Minute))
		for range 1 + s.rnd.IntN(4) {
			j := duly.Job{
				ID: fmt.Sprint("job", i), Queue: s.queues[s.rnd.IntN(3)], Body: fmt.Append(nil, i), Delay: s.within(time.Minute),
				Tries: 1 + s.rnd.IntN(4), MaxStalls: 1 + s.rnd.IntN(4), Lease: leases[s.rnd.IntN(len(leases))],
				Backoff: duly.Exponential(time.Second, time.Minute),
			}
			if s.rnd.IntN(4) == 0 {
				j.OrderKey = fmt.Sprint("key", s.rnd.IntN(3))
			}
			s.oracle.push(j)
			i++
		}
	}
}

// place is where a worker runs: when it has ended another one is started, as
// on a machine with a supervisor.
func (s *schedule) place(ctx context.Context, n int, rnd *rand.Rand) {
	for ctx.Err() == nil {
		life := time.Duration(rnd.Int64N(int64(8 * time.Hour)))
		if time.Until(s.calm) < 0 {
			life = 1000 * time.Hour
		}
		s.live(ctx, life, rnd)
	}
}

// live is one worker from its start to its end, which is a stop, a kill, or
// that it is cut off from its store for good.
func (s *schedule) live(ctx context.Context, life time.Duration, rnd *rand.Rand) {
	e := &shaky{schedule: s, rnd: rand.New(rand.NewPCG(rnd.Uint64(), 2))}
	w := worker.New(e, worker.Config{
		Concurrency: 1 + rnd.IntN(8), MaxHold: 40 * time.Minute, Drain: time.Duration(1+rnd.IntN(60)) * time.Second,
		Logger: slog.New(slog.DiscardHandler), Observer: s.observer(),
	})
	for i, q := range s.queues {
		opts := []worker.HandlerOption{}
		if i > 0 {
			opts = append(opts, worker.Timeout(15*time.Minute))
		}
		w.Handle(q, s.handle, opts...)
	}
	run, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := w.Run(run); err != nil {
			s.t.Errorf("seed %d: Run: %v", s.seed, err)
		}
	}()
	over := time.NewTimer(life)
	defer over.Stop()
	select {
	case <-over.C:
		s.end(rnd.IntN(3), w, e, stop)
	case <-ctx.Done():
	}
	<-ended
}

func (s *schedule) end(how int, w *worker.Worker, e *shaky, stop func()) {
	switch how {
	case 0:
		s.seen.add("stopped", 1)
		stop()
	case 1:
		s.seen.add("killed", 1)
		w.Kill()
	case 2: // as if the process had died
		s.seen.add("cut off", 1)
		e.cut()
		w.Kill()
	}
}

// observer checks what it is told: a store is lost and found in turns.
func (s *schedule) observer() worker.Observer {
	var mu sync.Mutex
	lost := false
	turn := func(now bool) {
		mu.Lock()
		defer mu.Unlock()
		if lost == now {
			s.t.Errorf("seed %d: reported twice in a row that the store was lost (%v)", s.seed, now)
		}
		lost = now
	}
	return worker.Observer{
		StoreLost: func(error) { s.seen.add("store lost", 1); turn(true) },
		StoreBack: func(time.Duration) { s.seen.add("store back", 1); turn(false) },
		Panicked:  func(*worker.Delivery, any, []byte) { s.seen.add("panics", 1) },
		LeaseLost: func(_ *worker.Delivery, cause error) {
			s.seen.add(map[error]string{worker.ErrLeaseLost: "lease lost", worker.ErrMaxHold: "max hold"}[cause], 1)
		},
		Settled: func(_ *worker.Delivery, _ duly.Settlement, err error) {
			if errors.Is(err, duly.ErrLeaseLost) {
				s.seen.add("settles refused", 1)
			}
		},
	}
}

// handle does what the job's name and attempt say, so that a seed is a
// schedule whoever runs first.
func (s *schedule) handle(ctx context.Context, d *worker.Delivery) error {
	var n uint64
	fmt.Sscan(string(d.Body), &n)
	rnd := rand.New(rand.NewPCG(s.seed<<20|n, uint64(d.Attempt)<<8|uint64(d.Stalls)))
	length := time.Duration(rnd.Int64N(int64([]time.Duration{time.Second, time.Minute, 30 * time.Minute}[rnd.IntN(3)])))
	length = min(length, 15*d.Lease) // or a day has too many extensions
	what := rnd.IntN(20)
	if what == 0 { // heeds nothing
		time.Sleep(max(length, 2*d.Lease))
		return nil
	}
	defer s.oracle.running(ctx, d.Receipt)()
	if what == 1 && d.Lease >= 5*time.Minute {
		length = time.Hour
	}
	select {
	case <-time.After(length):
	case <-ctx.Done():
		if context.Cause(ctx) == worker.ErrTimeout {
			s.seen.add("timeouts", 1)
		}
		return ctx.Err()
	}
	switch what {
	case 2, 3, 4:
		return errors.New("failed")
	case 5:
		panic("lost my head")
	case 6:
		runtime.Goexit()
	case 7:
		return worker.RetryAfter(time.Minute, errors.New("busy"))
	case 8:
		if d.Attempt == 1 && d.Stalls == 0 && rnd.IntN(2) == 0 {
			return worker.Bury(errors.New("no use"))
		}
	}
	return nil
}

// shaky is the store as one worker sees it.
type shaky struct {
	*schedule
	mu   sync.Mutex
	rnd  *rand.Rand
	dead bool
}

func (e *shaky) cut() {
	e.mu.Lock()
	e.dead = true
	e.mu.Unlock()
}

// fate is how a call made now goes.
func (e *shaky) fate() fault {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.dead {
		return refused
	}
	now := time.Now()
	if now.After(e.calm) {
		return none
	}
	for _, w := range e.bad {
		if now.After(w.from) && now.Before(w.to) {
			return w.how
		}
	}
	switch e.rnd.IntN(200) {
	case 0:
		return refused
	case 1:
		return answerLost
	}
	return none
}

// call makes one call with its fate.
func shakyCall[T any](e *shaky, ctx context.Context, f func() (T, error)) (answer T, err error) {
	var nothing T
	fate := e.fate()
	switch fate {
	case refused:
		return nothing, duly.ErrUnavailable
	case hangs:
		e.seen.add("hangs", 1)
		<-ctx.Done()
		return nothing, ctx.Err()
	case slowly:
		time.Sleep(time.Second)
	}
	answer, err = f()
	if fate == answerLost {
		e.seen.add("answers lost", 1)
		return nothing, duly.ErrUnavailable
	}
	if fate == slowly {
		time.Sleep(time.Second)
	}
	return answer, err
}

func (e *shaky) Push(context.Context, []duly.Job) ([]duly.PushResult, error) {
	return nil, duly.ErrUnsupported
}

func (e *shaky) Reserve(ctx context.Context, p duly.ReserveParams) ([]duly.Delivery, error) {
	return shakyCall(e, ctx, func() ([]duly.Delivery, error) { return e.oracle.reserve(ctx, p) })
}

func (e *shaky) Wait(ctx context.Context, p duly.WaitParams) (bool, error) {
	return shakyCall(e, ctx, func() (bool, error) { return e.oracle.engine.Wait(ctx, p) })
}

func (e *shaky) Settle(ctx context.Context, namespace string, outcomes []duly.SettleRequest) ([]error, error) {
	return shakyCall(e, ctx, func() ([]error, error) { return e.oracle.settle(ctx, namespace, outcomes) })
}

func (e *shaky) Extend(ctx context.Context, namespace string, receipts []duly.Receipt, lease time.Duration) ([]error, error) {
	return shakyCall(e, ctx, func() ([]error, error) { return e.oracle.extend(ctx, namespace, receipts, lease) })
}

func (e *shaky) Delete(context.Context, duly.QueueRef, string) error { return duly.ErrUnsupported }

func (e *shaky) Close() error { return nil }

var _ duly.Engine = (*shaky)(nil)
