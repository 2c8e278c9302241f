package redisengine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/faultproxy"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/jobs"
	"github.com/dulymq/duly/redisengine/internal/store"
	"github.com/dulymq/duly/redisengine/internal/wait"
)

// gate holds a batcher back, so that a test decides which calls share a batch.
type gate struct {
	*gauge
	batcher *jobs.Batcher
	release func()
}

func newGate(t *testing.T, jobs int) *gate {
	g := newGauge(t)
	// The first push creates the queue.
	g.push(1, 0)
	g.ack(g.reserve(1))
	if jobs > 0 {
		g.push(jobs, 0)
	}
	g.e.WithoutLook()
	return &gate{gauge: g, batcher: &g.batchers().Reserve}
}

func (g *gauge) shard() *catalog.Shard { return g.e.catalog.Cache.Get(duly.Q("q").Normal()).Shards[0] }

func (g *gauge) batchers() *jobs.Batchers {
	q := g.e.catalog.Cache.Get(duly.Q("q").Normal())
	return g.e.calls.Batchers(q, q.Shards[0])
}

// hold stops the batcher from sending.
func (g *gate) hold() {
	redistest.Await(g, "nobody sends", func() bool {
		g.release = g.batcher.Hold()
		return g.release != nil
	})
}

// open sends the gathered calls.
func (g *gate) open() { g.release() }

// there blocks until n callers wait in the batcher.
func (g *gate) there(n int) {
	g.Helper()
	redistest.Await(g, fmt.Sprintf("%d callers are there", n), func() bool { return g.batcher.Waiting() == n })
}

// taken is the result of one Reserve: its deliveries and its error.
type taken struct {
	ds  []duly.Delivery
	err error
}

// ask reserves in a goroutine, after `before` callers have gathered.
func (g *gate) ask(ctx context.Context, before int, p duly.ReserveParams) <-chan taken {
	g.Helper()
	g.there(before)
	p.Queues = []string{"q"}
	answer := make(chan taken, 1)
	go func() {
		ds, err := g.e.Reserve(ctx, p)
		answer <- taken{ds, err}
	}()
	g.there(before + 1)
	return answer
}

func (g *gate) stats() duly.Stats {
	g.Helper()
	st, err := g.e.Stats(g.Context(), duly.Q("q"))
	if err != nil {
		g.Fatal(err)
	}
	return st
}

// TestConcurrentReservesShareACall checks that Reserves are sent together, and that their jobs
// are distributed in the order of the callers (C11.18).
func TestConcurrentReservesShareACall(t *testing.T) {
	t.Parallel()
	const callers = 60
	g := newGate(t, callers)
	g.hold()
	var answers []<-chan taken
	// Half of the callers want one job, the others two: 90 jobs in total. Only 60 exist.
	for i := range callers / 2 {
		answers = append(answers, g.ask(t.Context(), 2*i, duly.ReserveParams{Max: 1}),
			g.ask(t.Context(), 2*i+1, duly.ReserveParams{Max: 2}))
	}
	var got []taken
	counts := g.calls(func() {
		g.open()
		for _, answer := range answers {
			got = append(got, <-answer)
		}
	})
	last, n := "", 0
	for i, a := range got {
		if want := min(1+i%2, callers-n); a.err != nil || len(a.ds) != want {
			t.Errorf("caller %d got %d jobs, %v; want %d", i, len(a.ds), a.err, want)
		}
		n += len(a.ds)
		for _, d := range a.ds {
			if d.ID <= last {
				t.Errorf("caller %d got %s, but an earlier caller got %s", i, d.ID, last)
			}
			last = d.ID
		}
	}
	if counts["FCALL"] != 1 {
		t.Errorf("%d script calls for %d callers, want 1", counts["FCALL"], callers)
	}
}

// TestReservesOfOneLeaseShareACall checks that Reserves with different leases are not batched,
// and that each caller gets its jobs.
func TestReservesOfOneLeaseShareACall(t *testing.T) {
	t.Parallel()
	g := newGate(t, 9)
	g.hold()
	leases := []time.Duration{time.Minute, 0, time.Hour, time.Minute, time.Hour, 0, 0, time.Minute, time.Hour}
	var answers []<-chan taken
	for i, lease := range leases {
		answers = append(answers, g.ask(t.Context(), i, duly.ReserveParams{Max: 1, Lease: lease}))
	}
	g.open()
	for i, answer := range answers {
		a := <-answer
		want := leases[i]
		if want == 0 {
			want = duly.DefaultLease
		}
		if a.err != nil || len(a.ds) != 1 || a.ds[0].LeaseEnd.Sub(a.ds[0].Now).Round(time.Second) != want {
			t.Errorf("caller %d of %v: %+v, %v", i, leases[i], a.ds, a.err)
		}
	}
}

// TestReserveWithJobsCallsAlone checks that a Reserve with 5 MiB from its first queue has 3 MiB
// left for the next one (C4.7). It calls that queue alone, because a batch may use 8 MiB.
func TestReserveWithJobsCallsAlone(t *testing.T) {
	t.Parallel()
	g := newGate(t, 0)
	push := func(queue string, n int) {
		for range n {
			if _, err := g.e.Push(t.Context(), []duly.Job{{Queue: queue, Body: make([]byte, 1<<20)}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	push("first", 5)
	push("q", 9)
	g.hold()
	one := g.ask(t.Context(), 0, duly.ReserveParams{Max: 1})
	both := make(chan taken, 1)
	go func() {
		ds, err := g.e.Reserve(t.Context(), duly.ReserveParams{Queues: []string{"first", "q"}, Max: 20})
		both <- taken{ds, err}
	}()
	redistest.Await(t, "the second has answered or joined the first", func() bool {
		return len(both) == 1 || g.batcher.Waiting() == 2
	})

	g.open()
	if a := <-one; a.err != nil || len(a.ds) != 1 {
		t.Errorf("the first queue returned %d jobs, %v", len(a.ds), a.err)
	}
	if a := <-both; a.err != nil || len(a.ds) != 8 {
		t.Errorf("the second queue returned %d jobs of 1 MiB, %v; want 8", len(a.ds), a.err)
	}
}

// TestBatchedReservesKeepTheByteLimit checks that a caller whose jobs have no room in a batched
// answer calls again, and does not continue with the next queue (C4.3, C4.6, C4.7). Each caller
// gets the jobs that a single call would return.
func TestBatchedReservesKeepTheByteLimit(t *testing.T) {
	t.Parallel()
	g := newGate(t, 0)
	for range 20 {
		if _, err := g.e.Push(t.Context(), []duly.Job{{Queue: "q", Body: make([]byte, 1<<20)}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := g.e.Push(t.Context(), []duly.Job{{Queue: "other"}}); err != nil {
		t.Fatal(err)
	}
	g.hold()
	var answers []<-chan taken
	for i := range 3 {
		g.there(i)
		answer := make(chan taken, 1)
		go func() {
			ds, err := g.e.Reserve(t.Context(), duly.ReserveParams{Queues: []string{"q", "other"}, Max: 6})
			answer <- taken{ds, err}
		}()
		g.there(i + 1)
		answers = append(answers, answer)
	}
	g.open()
	for i := range answers {
		const want = 6
		a := <-answers[i]
		if a.err != nil || len(a.ds) != want || a.ds[want-1].Queue != "q" {
			t.Errorf("caller %d got %d jobs, %v; want %d", i, len(a.ds), a.err, want)
		}
	}
}

// TestReserveCanceledBeforeSendingLeasesNothing checks that no job is leased for a caller that
// left before its call was sent, and that another waiter gets its wake-up.
func TestReserveCanceledBeforeSendingLeasesNothing(t *testing.T) {
	t.Parallel()
	g := newGate(t, 1)
	g.hold()
	ctx, cancel := context.WithCancel(t.Context())
	gone := g.ask(ctx, 0, duly.ReserveParams{Max: 1})
	stays := g.ask(t.Context(), 1, duly.ReserveParams{Max: 1})
	cancel()
	if a := <-gone; !errors.Is(a.err, context.Canceled) || !errors.Is(a.err, duly.ErrUnavailable) || a.ds != nil {
		t.Errorf("the canceled caller got %+v, %v", a.ds, a.err)
	}
	g.open()
	if a := <-stays; a.err != nil || len(a.ds) != 1 {
		t.Errorf("the other caller got %+v, %v", a.ds, a.err)
	}
	if st := g.stats(); st.Counters.Delivered != 2 || st.Counters.Released != 0 {
		t.Errorf("%+v", st.Counters)
	}
}

func TestReserveCanceledBeforeSendingPassesItsWakeUpOn(t *testing.T) {
	t.Parallel()
	g := newGate(t, 0)
	ref := duly.Q("q").Normal()
	first, _ := g.e.hub.Enter([]wait.Door{{Ref: ref}})
	defer g.e.hub.Leave(first)
	woken := make(chan bool, 1)
	go func() {
		ready, err := g.e.Wait(t.Context(), duly.WaitParams{Queues: []string{"q"}, Timeout: duly.MaxWait})
		woken <- ready && err == nil
	}()
	redistest.Await(t, "he waits", func() bool { return g.e.Waiters() == 2 })
	g.e.Quiet()
	g.hold()
	g.e.hub.WakeAnother(wait.Door{Ref: ref}, 0)
	ctx, cancel := context.WithCancel(t.Context())
	gone := g.ask(ctx, 0, duly.ReserveParams{Max: 1})
	if len(woken) > 0 {
		t.Error("the waiter was woken too early")
	}
	cancel()
	<-gone
	if !<-woken {
		t.Error("the other waiter was not woken")
	}
	g.open()
}

// TestReserveCanceledInFlightReleasesItsJobs checks that jobs of a caller that left while the
// call was in flight go to another caller of the batch, or are released at once.
func TestReserveCanceledInFlightReleasesItsJobs(t *testing.T) {
	t.Parallel()
	for jobs, want := range map[int]duly.Counters{
		1: {Pushed: 2, Delivered: 2, Acked: 1},
		2: {Pushed: 3, Delivered: 3, Acked: 1, Released: 1},
	} {
		g := newGate(t, jobs)
		g.hold()
		ctx, cancel := context.WithCancel(t.Context())
		gone := g.ask(ctx, 0, duly.ReserveParams{Max: 1})
		stays := g.ask(t.Context(), 1, duly.ReserveParams{Max: 1})
		g.server.Pause()
		g.open()
		g.there(0)
		cancel()
		// While the server does not answer.
		if a := <-gone; !errors.Is(a.err, context.Canceled) || a.ds != nil {
			t.Errorf("the canceled caller got %+v, %v", a.ds, a.err)
		}
		g.server.Continue()
		if a := <-stays; a.err != nil || len(a.ds) != 1 {
			t.Errorf("%d jobs: the other caller got %+v, %v", jobs, a.ds, a.err)
		}
		redistest.Await(t, "the jobs without a caller are released", func() bool { return g.stats().Counters == want })
		if st := g.stats(); st.Sizes.Leased != 1 || st.Sizes.Ready != int64(jobs)-1 {
			t.Errorf("%d jobs: %+v", jobs, st.Sizes)
		}
	}
}

// TestReleaseOfUnclaimedJobsIsRetried checks that the jobs of a caller that left are released
// even if the first release was lost.
func TestReleaseOfUnclaimedJobsIsRetried(t *testing.T) {
	t.Parallel()
	for _, do := range []faultproxy.Action{faultproxy.Drop, faultproxy.LoseReply} {
		g := newGate(t, 1)
		proxy := faultproxy.Redis(t, g.server.Addr())
		e := openOn(t, "redis://"+proxy.Addr(), nil)
		gone := jobs.NewReservation(e.calls, duly.ReserveParams{})
		gone.Got = g.reserve(1)
		fault := proxy.Inject(faultproxy.Fault{Match: faultproxy.Function(store.ScriptSettle.Function), Do: do})
		gone.Release()
		<-fault.Done()
		if st := g.stats(); st.Sizes.Ready != 1 || st.Counters.Released != 1 {
			t.Errorf("%v: %+v %+v", do, st.Sizes, st.Counters)
		}
	}
}

// TestCanceledReservesLoseNoJob checks that each job is either with one caller or ready, however
// callers leave.
func TestCanceledReservesLoseNoJob(t *testing.T) {
	t.Parallel()
	const callers, rounds, jobs = 16, 100, 40
	g := newGate(t, jobs)
	var mu sync.Mutex
	held := map[string]duly.Receipt{}
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range rounds {
				ctx, cancel := context.WithCancel(t.Context())
				over := make(chan struct{})
				go func() {
					for range rand.IntN(60) {
						runtime.Gosched()
					}
					cancel()
					close(over)
				}()
				ds, err := g.e.Reserve(ctx, duly.ReserveParams{Queues: []string{"q"}, Max: 1 + rand.IntN(3), Lease: time.Hour})
				<-over
				if err != nil && (len(ds) > 0 || !errors.Is(err, context.Canceled)) {
					t.Error(ds, err)
				}
				var outcomes []duly.SettleRequest
				for _, d := range ds {
					mu.Lock()
					if _, twice := held[d.ID]; twice {
						t.Errorf("%s was delivered twice", d.ID)
					}
					held[d.ID] = d.Receipt
					mu.Unlock()
					if rand.IntN(2) == 0 {
						mu.Lock()
						delete(held, d.ID)
						mu.Unlock()
						outcomes = append(outcomes, duly.SettleRequest{Receipt: d.Receipt, As: duly.Release})
					}
				}
				if _, err := g.e.Settle(t.Context(), "", outcomes); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	redistest.Await(t, "everything else is ready", func() bool {
		st := g.stats()
		return st.Sizes.Leased == int64(len(held)) && st.Sizes.Ready == int64(jobs-len(held))
	})
}

// TestCloseAnswersGatheredReserves checks that Close answers callers that wait in the batcher, and
// that later calls fail.
func TestCloseAnswersGatheredReserves(t *testing.T) {
	t.Parallel()
	g := newGate(t, 4)
	g.hold()
	var answers []<-chan taken
	for i := range 4 {
		answers = append(answers, g.ask(t.Context(), i, duly.ReserveParams{Max: 1}))
	}
	closed := make(chan error)
	go func() { closed <- g.e.Close() }()
	redistest.Await(t, "it closes", g.e.store.Closing.Load)
	g.open()
	for i, answer := range answers {
		if a := <-answer; a.err != nil || len(a.ds) != 1 {
			t.Errorf("caller %d got %+v, %v", i, a.ds, a.err)
		}
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if _, err := g.e.Reserve(t.Context(), duly.ReserveParams{Queues: []string{"q"}, Max: 1}); !errors.Is(err,
		duly.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if err := g.e.Delete(t.Context(), duly.Q("q"), "x"); !errors.Is(err, duly.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// TestBatchedReservesFollowANewConfiguration checks that a batch computed with an old
// configuration is repeated with the new one.
func TestBatchedReservesFollowANewConfiguration(t *testing.T) {
	t.Parallel()
	g := newGate(t, 8)
	other := openOn(t, g.server.URL(), nil)
	g.hold()
	var answers []<-chan taken
	for i := range 8 {
		answers = append(answers, g.ask(t.Context(), i, duly.ReserveParams{Max: 1}))
	}
	if err := other.Configure(t.Context(), duly.Q("q"), duly.QueueConfig{MaxLeased: 5}); err != nil {
		t.Fatal(err)
	}
	g.open()
	got := 0
	for _, answer := range answers {
		a := <-answer
		if a.err != nil {
			t.Error(a.err)
		}
		got += len(a.ds)
	}
	if got != 5 {
		t.Errorf("%d jobs were leased, want as many as the new limit allows", got)
	}
}

// TestBatchedReservesStartAtDifferentShards checks that each caller starts at a different shard, and gets
// jobs if any shard has some.
func TestBatchedReservesStartAtDifferentShards(t *testing.T) {
	t.Parallel()
	g := newGauge(t)
	const callers = 100
	if err := g.e.Configure(t.Context(), duly.Q("q"), duly.QueueConfig{Shards: 4}); err != nil {
		t.Fatal(err)
	}
	g.push(callers, 0)
	var mu sync.Mutex
	got := map[string]bool{}
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			ds := g.reserve(1)
			mu.Lock()
			defer mu.Unlock()
			got[ds[0].ID] = true
		})
	}
	all.Wait()
	if len(got) != callers {
		t.Errorf("%d jobs for %d callers", len(got), callers)
	}
}
