package redisengine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine"
)

// wallClock is a process's clock that a test sets while the process runs. Its timers are the
// machine's.
type wallClock struct {
	duly.Clock
	ahead atomic.Int64
}

func (w *wallClock) Now() time.Time { return w.Clock.Now().Add(time.Duration(w.ahead.Load())) }

// skews are the differences between the processes' clocks and the server's clock.
var skews = []time.Duration{-time.Hour, -5 * time.Minute, 5 * time.Minute, time.Hour}

// skewed is a server with several processes, whose clocks all differ.
type skewed struct {
	*testing.T
	server  *redistest.Server
	clocks  []*wallClock
	engines []*redisengine.Engine
}

func newSkewed(t *testing.T) *skewed {
	s := &skewed{T: t, server: redistest.Single(t)}
	for _, ahead := range skews {
		c := &wallClock{Clock: clock.System()}
		c.ahead.Store(int64(ahead))
		e, err := redisengine.Open(t.Context(), redisengine.Skewed(redisengine.Config{URL: s.server.URL(),
			Logger: slog.New(slog.DiscardHandler)}, c))
		must(t, err)
		t.Cleanup(func() { e.Close() })
		s.clocks, s.engines = append(s.clocks, c), append(s.engines, e)
	}
	must(t, s.engines[0].Configure(t.Context(), duly.Q("q"), duly.QueueConfig{}))
	return s
}

// no is like must for the goroutines of a test.
func (s *skewed) no(err error) {
	s.Helper()
	if err != nil {
		s.Error(err)
	}
}

// now returns the server's time, in µs.
func (s *skewed) now() int64 {
	s.Helper()
	t := s.server.Must("TIME").([]any)
	var seconds, micros int64
	_, err := fmt.Sscan(fmt.Sprint(t[0])+" "+fmt.Sprint(t[1]), &seconds, &micros)
	must(s, err)
	return seconds*1_000_000 + micros
}

// set sets the clocks of all processes repeatedly, until the context ends.
func (s *skewed) set(ctx context.Context) {
	r := rand.New(rand.NewPCG(1, uint64(s.now())))
	for ctx.Err() == nil {
		c := s.clocks[r.IntN(len(s.clocks))]
		c.ahead.Store(r.Int64N(int64(2*time.Hour)) - int64(time.Hour))
		_ = clock.Sleep(ctx, clock.System(), time.Millisecond)
	}
}

// madeAt returns an ID as a client whose clock shows this time creates it.
func madeAt(at time.Time) string {
	n, ms := duly.NewNumber(), at.UnixMilli()
	for i := range 6 {
		n[i] = byte(ms >> (40 - 8*i))
	}
	return n.String()
}

// TestProducersClocksDoNotMatter checks that a job is due after its delay by the server's clock,
// and is never early, whatever the producers' clocks are (fault T1).
//
// C5.2, C5.4
func TestProducersClocksDoNotMatter(t *testing.T) {
	t.Parallel()
	s := newSkewed(t)
	each := 60
	if long() {
		each = 3000
	}
	ctx, stop := context.WithCancel(t.Context())
	var setting, pushing sync.WaitGroup
	defer setting.Wait()
	defer stop()
	setting.Go(func() { s.set(ctx) })
	type pushed struct {
		before, after int64
		delay, ttl    time.Duration
	}
	var mu sync.Mutex
	jobs := map[string]pushed{}
	for i, e := range s.engines {
		pushing.Go(func() {
			r := rand.New(rand.NewPCG(2, uint64(i)))
			for n := range each {
				j := duly.Job{Queue: "q", Delay: time.Duration(r.IntN(150)) * time.Millisecond}
				if n%2 == 0 {
					j.ID, j.Made = madeAt(s.clocks[i].Now()), true
				}
				if n%3 == 0 {
					j.Priority, j.TTL = r.IntN(3), time.Minute
				}
				p := pushed{before: s.now(), delay: j.Delay, ttl: j.TTL}
				results, err := e.Push(t.Context(), []duly.Job{j})
				if err != nil || results[0].Status != duly.Created {
					t.Error(results, err)
					return
				}
				p.after = s.now()
				mu.Lock()
				jobs[results[0].ID] = p
				mu.Unlock()
			}
		})
	}
	var got []duly.Delivery
	for len(got) < each*len(s.engines) && !t.Failed() {
		got = append(got, s.takeAll(s.engines[len(got)%len(s.engines)])...)
	}
	pushing.Wait()
	for _, d := range got {
		p := jobs[d.ID]
		// Times are rounded down to the millisecond.
		if at := d.PushedAt.UnixMicro(); at < p.before-999 || at > p.after {
			t.Errorf("pushed between %d and %d, but PushedAt is %d", p.before, p.after, at)
		}
		if delay := d.Due.Sub(d.PushedAt); delay != p.delay && delay != p.delay+time.Millisecond {
			t.Errorf("the delay of %v became %v", p.delay, delay)
		}
		if d.Now.UnixMicro()+999 < p.before+p.delay.Microseconds() || d.Now.Before(d.Due) {
			t.Errorf("early delivery: pushed after %d with %v, delivered at %d, due at %v", p.before, p.delay,
				d.Now.UnixMicro(), d.Due)
		}
		if ttl := d.ExpiresAt.Sub(d.PushedAt); p.ttl > 0 && (ttl < p.ttl || ttl > p.ttl+time.Millisecond) {
			t.Errorf("the TTL of %v became %v", p.ttl, ttl)
		}
	}
}

// takeAll waits for jobs and acks them.
func (s *skewed) takeAll(e *redisengine.Engine) []duly.Delivery {
	s.Helper()
	if ready, err := e.Wait(s.Context(), duly.WaitParams{Queues: []string{"q"},
		Timeout: 30 * time.Second}); err != nil || !ready {
		s.Fatalf("Wait for due jobs returned %t, %v", ready, err)
	}
	ds, err := e.Reserve(s.Context(), duly.ReserveParams{Queues: []string{"q"}, Max: 50, Lease: time.Minute})
	must(s, err)
	outcomes := make([]duly.SettleRequest, len(ds))
	for i, d := range ds {
		outcomes[i] = duly.SettleRequest{Receipt: d.Receipt, As: duly.Ack}
	}
	errs, err := e.Settle(s.Context(), "", outcomes)
	must(s, errors.Join(append(errs, err)...))
	return ds
}

// TestLaterConfigurationWinsWithAnyClock checks that the later of two Configures wins, whatever
// the processes' clocks are (C10.15).
func TestLaterConfigurationWinsWithAnyClock(t *testing.T) {
	t.Parallel()
	s := newSkewed(t)
	for i := range 12 {
		e := s.engines[(i*3)%len(s.engines)]
		must(t, e.Configure(t.Context(), duly.Q("q"), duly.QueueConfig{MaxLeased: i + 1}))
		for _, e := range s.engines {
			// The push reads the new configuration.
			_, err := e.Push(t.Context(), []duly.Job{{Queue: "q"}})
			must(t, err)
			if c, err := e.Config(t.Context(), duly.Q("q")); err != nil || c.MaxLeased != i+1 {
				t.Fatalf("after change %d a process has the limit %d, %v", i+1, c.MaxLeased, err)
			}
		}
	}
}

// holding is a delivery with its times by the server's clock.
type holding struct {
	now, end int64 // in µs: the time of delivery, and the earliest end of the lease
	settled  bool  // whether the delivery was settled successfully
	acked    bool
}

// holdings has the deliveries of each job, sorted by time.
type holdings struct {
	mu   sync.Mutex
	jobs map[string][]*holding
}

func (h *holdings) note(d *duly.Delivery) *holding {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := &holding{now: d.Now.UnixMicro(), end: d.LeaseEnd.UnixMicro()}
	h.jobs[d.ID] = append(h.jobs[d.ID], n)
	return n
}

// TestWorkersClocksDoNotMatter checks that no lease ends early by the server's clock, no job is
// lost, and none is held twice, whatever the workers' clocks are (fault T2).
//
// C5.2, C1.9, C9.1
func TestWorkersClocksDoNotMatter(t *testing.T) {
	t.Parallel()
	s := newSkewed(t)
	jobs := 300
	if long() {
		jobs = 30_000
	}
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	all.Go(func() { s.set(ctx) })
	h := &holdings{jobs: map[string][]*holding{}}
	for i := range 8 {
		all.Go(func() { s.work(ctx, h, rand.New(rand.NewPCG(3, uint64(i)))) })
	}
	r := rand.New(rand.NewPCG(4, 4))
	for n := 0; n < jobs; n += 10 {
		batch := make([]duly.Job, 10)
		for i := range batch {
			batch[i] = duly.Job{Queue: "q", Delay: time.Duration(r.IntN(100)) * time.Millisecond, MaxStalls: 1000}
		}
		_, err := s.engines[r.IntN(len(s.engines))].Push(t.Context(), batch)
		must(t, err)
	}
	for tenth := 1; tenth <= 10; tenth++ {
		redistest.Await(t, fmt.Sprintf("%d0 %% are acked", tenth), func() bool {
			st, err := s.engines[0].Stats(t.Context(), duly.Q("q"))
			must(t, err)
			return st.Counters.Acked >= int64(jobs*tenth/10) || t.Failed()
		})
	}
	stop()
	all.Wait()
	st, err := s.engines[0].Stats(t.Context(), duly.Q("q"))
	must(t, err)
	if c := st.Counters; c.Pushed != c.Acked || c.Delivered != c.Acked+c.Stalled+c.Released || len(h.jobs) != jobs {
		t.Errorf("%d jobs were delivered, but the counters are %+v", len(h.jobs), c)
	}
	for id, list := range h.jobs {
		slices.SortFunc(list, func(a, b *holding) int { return int(a.now - b.now) })
		for i, n := range list {
			if last := i == len(list)-1; last != n.acked {
				t.Errorf("job %s: delivery %d of %d: acked %t", id, i+1, len(list), n.acked)
			} else if !last && !n.settled && list[i+1].now < n.end {
				t.Errorf("job %s is held until %d, but by another worker from %d", id, n.end, list[i+1].now)
			}
		}
	}
}

// work reserves jobs. It acks them, releases them, extends their leases, or lets them end.
func (s *skewed) work(ctx context.Context, h *holdings, r *rand.Rand) {
	for ctx.Err() == nil {
		e := s.engines[r.IntN(len(s.engines))]
		if _, err := e.Wait(ctx, duly.WaitParams{Queues: []string{"q"}, Timeout: time.Second}); err != nil {
			continue
		}
		ds, err := e.Reserve(context.WithoutCancel(ctx), duly.ReserveParams{Queues: []string{"q"}, Max: 4,
			Lease: 150 * time.Millisecond})
		s.no(err)
		for i := range ds {
			n := h.note(&ds[i])
			s.finish(ctx, e, n, &ds[i], r)
		}
	}
}

func (s *skewed) finish(ctx context.Context, e *redisengine.Engine, n *holding, d *duly.Delivery, r *rand.Rand) {
	o := duly.SettleRequest{Receipt: d.Receipt, As: duly.Ack}
	switch r.IntN(12) {
	case 0:
		o.As = duly.Release
	case 1:
		before := s.now()
		errs, err := e.Extend(context.WithoutCancel(ctx), "", []duly.Receipt{d.Receipt}, 300*time.Millisecond)
		s.no(err)
		if errs[0] == nil {
			n.end = before + 300_000
		}
	case 2:
		_ = clock.Sleep(ctx, clock.System(), 200*time.Millisecond)
	}
	errs, err := e.Settle(context.WithoutCancel(ctx), "", []duly.SettleRequest{o})
	s.no(err)
	n.settled = errs[0] == nil
	n.acked = n.settled && o.As == duly.Ack
	if errs[0] != nil && !errors.Is(errs[0], duly.ErrLeaseLost) {
		s.Error(errs[0])
	}
}
