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

// Model M7: workers run on the in-memory engine for 24 hours of a random schedule. Handlers fail,
// stall and panic. The store is lost, loses answers and hangs. Workers are stopped, killed
// and disconnected. The oracle checks its invariants after each call.
func TestInvariantsHoldOnRandomSchedules(t *testing.T) {
	t.Parallel()
	seeds := uint64(50)
	switch {
	case os.Getenv("DULY_LONG") != "":
		seeds = 1000
	case testing.Short():
		seeds = 12
	}

	var seen eventCounts
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

// eventCounts counts the events of all schedules, because a fault that never occurs proves nothing.
type eventCounts struct {
	mu     sync.Mutex
	counts map[string]int
}

func (s *eventCounts) add(event string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counts == nil {
		s.counts = map[string]int{}
	}
	s.counts[event] += n
}

func (s *eventCounts) check(t *testing.T, seeds uint64) {
	for _, event := range []string{
		"acked", "dead", "stalls", "failures", "releases", "panics", "lease lost", "max hold", "timeouts",
		"store lost", "store back", "answers lost", "hangs", "disconnected", "killed", "stopped", "settles refused",
	} {
		if s.counts[event] < int(seeds)/5 {
			t.Errorf("%q occurred %d times in %d schedules", event, s.counts[event], seeds)
		}
	}
	t.Logf("%d schedules: %v", seeds, s.counts)
}

// schedule is a random day of the seed.
type schedule struct {
	t      *testing.T
	rnd    *rand.Rand // for the plan; used by one goroutine
	seed   uint64
	oracle *oracle
	seen   *eventCounts
	queues []string
	began  time.Time
	calm   time.Time     // time of the end of the faults
	faults []faultPeriod // periods in which the store fails
	wg     sync.WaitGroup
}

// faultPeriod is a time in which every call fails in the same way.
type faultPeriod struct {
	from, to time.Time
	fault    fault
}

// fault is how a call fails.
type fault int

const (
	none       fault = iota
	refused          // the call does not reach the engine
	answerLost       // the call reaches the engine, but its answer is lost
	hangs            // the call blocks until the caller gives up
	slow             // the call takes a second longer
)

func newSchedule(t *testing.T, seed uint64, seen *eventCounts) *schedule {
	s := &schedule{
		t: t, rnd: rand.New(rand.NewPCG(seed, 7)), seed: seed, oracle: newOracle(t, seed), seen: seen,
		queues: []string{"a", "b", "c"}, began: time.Now(),
	}
	s.calm = s.began.Add(24 * time.Hour)
	for range 12 {
		from := s.began.Add(s.within(24 * time.Hour))
		to := from.Add(s.within([]time.Duration{time.Second, time.Minute, 20 * time.Minute}[s.rnd.IntN(3)]))
		s.faults = append(s.faults, faultPeriod{from, to, fault(1 + s.rnd.IntN(4))})
	}
	return s
}

// within returns a random duration below d.
func (s *schedule) within(d time.Duration) time.Duration {
	return time.Duration(s.rnd.Int64N(int64(d))).Truncate(time.Millisecond)
}

func (s *schedule) run() {
	ctx, stop := context.WithCancel(context.Background())
	for range 2 {
		seed := s.rnd.Uint64()
		s.wg.Go(func() { s.supervise(ctx, rand.New(rand.NewPCG(seed, 1))) })
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
	s.oracle.checkEnd(s.queues)
	s.oracle.engine.Close()
	for _, r := range s.oracle.jobs {
		s.seen.add("stalls", r.stalls)
		s.seen.add("failures", r.failures)
		s.seen.add("releases", r.releases)
	}
	s.seen.add("acked", s.oracle.acked)
	s.seen.add("dead", len(s.oracle.jobs)-s.oracle.acked)
	time.Sleep(24 * time.Hour) // abandoned handlers end before that time as well
}

// produce pushes n jobs, spread over the day in bursts.
func (s *schedule) produce(n int) {
	leases := []time.Duration{
		100 * time.Millisecond, 2 * time.Second, 30 * time.Second, 5 * time.Minute, 20 * time.Minute,
	}
	for i := 0; i < n; {
		time.Sleep(s.within(25 * time.Minute))
		for range 1 + s.rnd.IntN(4) {
			j := duly.Job{
				ID: fmt.Sprint("job", i), Queue: s.queues[s.rnd.IntN(3)], Body: fmt.Append(nil, i),
				Delay: s.within(time.Minute), Tries: 1 + s.rnd.IntN(4), MaxStalls: 1 + s.rnd.IntN(4),
				Lease: leases[s.rnd.IntN(len(leases))], Backoff: duly.Exponential(time.Second, time.Minute),
			}
			if s.rnd.IntN(4) == 0 {
				j.OrderKey = fmt.Sprint("key", s.rnd.IntN(3))
			}
			s.oracle.push(j)
			i++
		}
	}
}

// supervise runs a worker, and starts another worker after its end, like a supervisor.
func (s *schedule) supervise(ctx context.Context, rnd *rand.Rand) {
	for ctx.Err() == nil {
		life := time.Duration(rnd.Int64N(int64(8 * time.Hour)))
		if time.Until(s.calm) < 0 {
			life = 1000 * time.Hour
		}
		s.runWorker(ctx, life, rnd)
	}
}

// runWorker runs one worker from its start to its end: a stop, a kill, or the loss of its
// store.
func (s *schedule) runWorker(ctx context.Context, life time.Duration, rnd *rand.Rand) {
	e := &faultyEngine{schedule: s, rnd: rand.New(rand.NewPCG(rnd.Uint64(), 2))}
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

	timer := time.NewTimer(life)
	defer timer.Stop()
	select {
	case <-timer.C:
		s.endWorker(rnd.IntN(3), w, e, stop)
	case <-ctx.Done():
	}
	<-ended
}

// endWorker ends a worker in one of three ways.
func (s *schedule) endWorker(how int, w *worker.Worker, e *faultyEngine, stop func()) {
	switch how {
	case 0:
		s.seen.add("stopped", 1)
		stop()
	case 1:
		s.seen.add("killed", 1)
		w.Kill()
	case 2: // for the engine, the process has died
		s.seen.add("disconnected", 1)
		e.disconnect()
		w.Kill()
	}
}

// observer checks that the reports of a lost store and of its return alternate.
func (s *schedule) observer() worker.Observer {
	var mu sync.Mutex
	lost := false
	report := func(now bool) {
		mu.Lock()
		defer mu.Unlock()
		if lost == now {
			s.t.Errorf("seed %d: store lost is reported as %v twice in a row", s.seed, now)
		}
		lost = now
	}

	return worker.Observer{
		StoreLost: func(error) { s.seen.add("store lost", 1); report(true) },
		StoreBack: func(time.Duration) { s.seen.add("store back", 1); report(false) },
		Panicked:  func(*worker.Delivery, any, []byte) { s.seen.add("panics", 1) },
		LeaseLost: func(_ *worker.Delivery, cause error) {
			events := map[error]string{worker.ErrLeaseLost: "lease lost", worker.ErrMaxHold: "max hold"}
			s.seen.add(events[cause], 1)
		},
		Settled: func(_ *worker.Delivery, _ duly.Settlement, err error) {
			if errors.Is(err, duly.ErrLeaseLost) {
				s.seen.add("settles refused", 1)
			}
		},
	}
}

// handle acts only by the job and its attempt, so that a seed has the same schedule for every
// order of the goroutines.
func (s *schedule) handle(ctx context.Context, d *worker.Delivery) error {
	var n uint64
	fmt.Sscan(string(d.Body), &n)
	rnd := rand.New(rand.NewPCG(s.seed<<20|n, uint64(d.Attempt)<<8|uint64(d.Stalls)))
	most := []time.Duration{time.Second, time.Minute, 30 * time.Minute}[rnd.IntN(3)]
	length := time.Duration(rnd.Int64N(int64(most)))
	length = min(length, 15*d.Lease) // without the limit, the simulated day would have too many lease extensions
	action := rnd.IntN(20)
	if action == 0 { // this handler ignores its context
		time.Sleep(max(length, 2*d.Lease))
		return nil
	}

	defer s.oracle.running(ctx, d.Receipt)()
	if action == 1 && d.Lease >= 5*time.Minute {
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

	switch action {
	case 2, 3, 4:
		return errors.New("failed")
	case 5:
		panic("boom")
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

// faultyEngine is the engine of one worker, with the faults of a schedule.
type faultyEngine struct {
	*schedule
	mu           sync.Mutex
	rnd          *rand.Rand
	disconnected bool
}

func (e *faultyEngine) disconnect() {
	e.mu.Lock()
	e.disconnected = true
	e.mu.Unlock()
}

// nextFault returns the fault of a call that begins now.
func (e *faultyEngine) nextFault() fault {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.disconnected {
		return refused
	}

	now := time.Now()
	if now.After(e.calm) {
		return none
	}
	for _, p := range e.faults {
		if now.After(p.from) && now.Before(p.to) {
			return p.fault
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

// faultyCall makes one call with the fault that the schedule has for it.
func faultyCall[T any](e *faultyEngine, ctx context.Context, f func() (T, error)) (answer T, err error) {
	var nothing T
	fault := e.nextFault()
	switch fault {
	case refused:
		return nothing, duly.ErrUnavailable
	case hangs:
		e.seen.add("hangs", 1)
		<-ctx.Done()
		return nothing, ctx.Err()
	case slow:
		time.Sleep(time.Second)
	}

	answer, err = f()
	if fault == answerLost {
		e.seen.add("answers lost", 1)
		return nothing, duly.ErrUnavailable
	}
	if fault == slow {
		time.Sleep(time.Second)
	}
	return answer, err
}

func (e *faultyEngine) Push(context.Context, []duly.Job) ([]duly.PushResult, error) {
	return nil, duly.ErrUnsupported
}

func (e *faultyEngine) Reserve(ctx context.Context, p duly.ReserveParams) ([]duly.Delivery, error) {
	return faultyCall(e, ctx, func() ([]duly.Delivery, error) { return e.oracle.reserve(ctx, p) })
}

func (e *faultyEngine) Wait(ctx context.Context, p duly.WaitParams) (bool, error) {
	return faultyCall(e, ctx, func() (bool, error) { return e.oracle.engine.Wait(ctx, p) })
}

func (e *faultyEngine) Settle(ctx context.Context, namespace string, outcomes []duly.SettleRequest) ([]error, error) {
	return faultyCall(e, ctx, func() ([]error, error) { return e.oracle.settle(ctx, namespace, outcomes) })
}

func (e *faultyEngine) Extend(
	ctx context.Context, namespace string, receipts []duly.Receipt, lease time.Duration,
) ([]error, error) {
	return faultyCall(e, ctx, func() ([]error, error) { return e.oracle.extend(ctx, namespace, receipts, lease) })
}

func (e *faultyEngine) Delete(context.Context, duly.QueueRef, string) error {
	return duly.ErrUnsupported
}

func (e *faultyEngine) Close() error { return nil }

var _ duly.Engine = (*faultyEngine)(nil)
