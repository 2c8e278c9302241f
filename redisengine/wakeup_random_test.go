package redisengine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// TestNoWakeUpIsLost checks that no waiter sleeps while a job is due (C5.11, C5.15, C11.19).
// Processes start and end, callers wait, leave, reserve and release, and operators change the
// queue, all concurrently and at random. The poll every two seconds is switched off, because it
// would hide a lost wake-up. The rounds are short, because a later event could also hide a lost
// wake-up.
func TestNoWakeUpIsLost(t *testing.T) {
	t.Parallel()
	redistest.Need(t)
	span := 3 * time.Second
	if os.Getenv("DULY_LONG") != "" {
		span = 12 * time.Minute
	} else if testing.Short() {
		span = time.Second
	}
	var rounds atomic.Int64
	var all sync.WaitGroup
	end := clock.Monotonic() + span
	for range 6 {
		v := newVigil(t)
		all.Go(func() {
			for turn := 0; clock.Monotonic() < end && !t.Failed(); turn++ {
				v.round(turn)
				rounds.Add(1)
			}
		})
	}
	all.Wait()
	t.Logf("%d rounds", rounds.Load())
}

// waits is a server with three processes.
type waits struct {
	*testing.T
	server  *redistest.Server
	engines [3]atomic.Pointer[Engine]
}

func newVigil(t *testing.T) *waits {
	v := &waits{T: t, server: redistest.Single(t)}
	for i := range v.engines {
		v.engines[i].Store(v.open())
	}
	t.Cleanup(func() {
		for i := range v.engines {
			v.engines[i].Load().Close()
		}
	})
	return v
}

func (v *waits) open() *Engine {
	e, err := Open(context.Background(), Config{URL: v.server.URL(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		// The server is private to the round, so its failure is a panic. The goroutine may not be
		// the test's.
		panic(err)
	}
	e.WithoutLook()
	return e
}

// randomWaits is one round of the test. It uses its own queues, which must be empty at the end.
type randomWaits struct {
	*waits
	queues []string
	seed   uint64
	ctx    context.Context // is canceled at the end of the round
	sticky bool            // whether a woken caller reserves from the process in which it waited
}

func (v *waits) round(turn int) {
	r := &randomWaits{waits: v, seed: rand.Uint64()}
	lot := r.random(0)
	ctx, cancel := context.WithCancel(v.Context())
	defer cancel()
	r.ctx, r.sticky = ctx, lot.IntN(4) > 0
	for i := range 1 + lot.IntN(2) {
		r.queues = append(r.queues, fmt.Sprintf("q%d.%d", turn, i))
		r.must(r.engine(lot).Configure(ctx, duly.Q(r.queues[i]), r.config(lot)))
	}
	var all, pushing sync.WaitGroup
	for i := range 1 + lot.IntN(4) {
		// One consumer stays until the end, so every job is delivered.
		all.Go(func() { r.consume(r.random(uint64(i)+100), i > 0) })
	}
	for i := range 1 + lot.IntN(3) {
		pushing.Go(func() { r.produce(r.random(uint64(i) + 200)) })
	}
	if lot.IntN(3) == 0 {
		pushing.Go(func() { r.operate(r.random(300)) })
	}
	if lot.IntN(4) == 0 {
		pushing.Go(func() { r.renew(r.random(400)) })
	}
	pushing.Wait()
	r.awaitEmpty()
	cancel()
	all.Wait()
	for _, q := range r.queues {
		r.must(r.engine(lot).Destroy(v.Context(), duly.Q(q)))
	}
}

func (r *randomWaits) random(part uint64) *rand.Rand { return rand.New(rand.NewPCG(r.seed, part)) }

func (r *randomWaits) engine(lot *rand.Rand) *Engine {
	return r.engines[lot.IntN(len(r.engines))].Load()
}

func (r *randomWaits) must(err error) {
	r.Helper()
	if err != nil && r.ctx.Err() == nil && !errors.Is(err, duly.ErrClosed) {
		r.Errorf("seed %d: %v", r.seed, err)
	}
}

// config returns a configuration that sometimes has a limit.
func (r *randomWaits) config(lot *rand.Rand) duly.QueueConfig {
	c := duly.QueueConfig{Shards: 1 << lot.IntN(3)}
	switch lot.IntN(6) {
	case 0:
		c.MaxLeased = c.Shards
	case 1:
		c.Rate = duly.Rate{PerSecond: 400, Burst: c.Shards}
	}
	return c
}

// rest pauses for at most this time, and often not at all.
func (r *randomWaits) rest(lot *rand.Rand, most time.Duration) {
	if lot.IntN(2) == 0 {
		_ = clock.Sleep(r.ctx, clock.System(), time.Duration(lot.Int64N(int64(most))))
	}
}

func (r *randomWaits) produce(lot *rand.Rand) {
	for range 1 + lot.IntN(4) {
		jobs := make([]duly.Job, 1+lot.IntN(4))
		for i := range jobs {
			j := &jobs[i]
			j.Queue = r.queues[lot.IntN(len(r.queues))]
			if lot.IntN(4) > 0 {
				j.Delay = time.Duration(lot.Int64N(int64(15 * time.Millisecond)))
			}
			if lot.IntN(4) == 0 {
				j.Priority = lot.IntN(3)
			}
		}
		for { // a process closes only after all its pushes have been answered
			_, err := r.engine(lot).Push(r.ctx, jobs)
			if !errors.Is(err, duly.ErrClosed) {
				r.must(err)
				break
			}
		}
		r.rest(lot, 4*time.Millisecond)
	}
}

// consume waits and reserves. A guest leaves at random: by its timeout, by its context, or after it
// was woken.
func (r *randomWaits) consume(lot *rand.Rand, guest bool) {
	for r.ctx.Err() == nil {
		e := r.engine(lot)
		ctx, cancel := context.WithCancel(r.ctx)
		p := duly.WaitParams{Queues: r.queues, Timeout: duly.MaxWait}
		leaves := guest && lot.IntN(3) == 0
		switch {
		case leaves && lot.IntN(2) == 0:
			p.Timeout = time.Duration(1 + lot.Int64N(int64(8*time.Millisecond)))
		case leaves:
			stop := clock.System().AfterFunc(time.Duration(lot.Int64N(int64(8*time.Millisecond))), cancel)
			defer stop.Stop()
		}
		ready, err := e.Wait(ctx, p)
		if ready && leaves {
			// This ends the Wait in the engine.
			cancel()
		}
		if !r.sticky {
			e = r.engine(lot)
		}
		if ready && err == nil {
			r.take(ctx, lot, e)
		} else if ctx.Err() == nil {
			r.must(err)
		}
		cancel()
	}
}

func (r *randomWaits) take(ctx context.Context, lot *rand.Rand, e *Engine) {
	lease := time.Minute
	if lot.IntN(60) == 0 {
		lease = duly.MinLease
	}
	ds, err := e.Reserve(ctx, duly.ReserveParams{Queues: r.queues, Max: 1 + lot.IntN(3), Lease: lease})
	if err != nil && ctx.Err() == nil {
		r.must(err)
	}
	var outcomes []duly.SettleRequest
	for _, d := range ds {
		o := duly.SettleRequest{Receipt: d.Receipt, As: duly.Ack}
		first := d.Failures+d.Stalls == 0
		delay := time.Duration(lot.Int64N(int64(5 * time.Millisecond)))
		switch n := lot.IntN(10); {
		case lease == duly.MinLease && first:
			// This delivery is not settled, so its lease ends.
			continue
		case n == 0 && first:
			o.As, o.Delay = duly.Nack, &delay
		case n == 1 && first:
			o.As = duly.Release
		}
		outcomes = append(outcomes, o)
	}
	r.rest(lot, 2*time.Millisecond)
	// A caller with a job settles the job in another process if the process that reserved it has
	// ended.
	for len(outcomes) > 0 {
		errs, err := r.engine(lot).Settle(r.Context(), "", outcomes)
		// A part of the batch may be settled already: the repeated settle then returns lease_lost
		// for those receipts.
		if !slices.ContainsFunc(append(errs, err), isClosed) {
			r.must(err)
			return
		}
	}
}

func isClosed(err error) bool { return errors.Is(err, duly.ErrClosed) }

// operate makes jobs deliverable, or makes cached configurations stale.
func (r *randomWaits) operate(lot *rand.Rand) {
	for range 1 + lot.IntN(3) {
		q := duly.Q(r.queues[lot.IntN(len(r.queues))])
		switch lot.IntN(4) {
		case 0:
			r.pause(lot, q)
		case 1:
			tries := 2 + lot.IntN(9)
			r.must(r.engine(lot).Configure(r.ctx, q, duly.QueueConfig{Defaults: duly.Defaults{Tries: tries}}))
		case 2:
			r.each(lot, q, func(e *Engine, id string) error { return e.Promote(r.ctx, q, id) })
		case 3:
			delay := time.Duration(lot.Int64N(int64(5 * time.Millisecond)))
			r.each(lot, q, func(e *Engine, id string) error { return e.Update(r.ctx, q, id, duly.Update{Delay: &delay}) })
		}
		r.rest(lot, 4*time.Millisecond)
	}
}

func (r *randomWaits) pause(lot *rand.Rand, q duly.QueueRef) {
	r.must(r.engine(lot).Pause(r.ctx, q))
	r.rest(lot, 4*time.Millisecond)
	for {
		err := r.engine(lot).Resume(r.ctx, q)
		if err == nil || !errors.Is(err, duly.ErrClosed) {
			r.must(err)
			return
		}
	}
}

// each applies an operation to the delayed jobs of a queue.
func (r *randomWaits) each(lot *rand.Rand, q duly.QueueRef, do func(e *Engine, id string) error) {
	e := r.engine(lot)
	page, err := e.List(r.ctx, q, duly.ListParams{State: duly.StateDelayed})
	r.must(err)
	for _, j := range page.Jobs {
		if err := do(e, j.ID); !errors.Is(err, duly.ErrNotFound) && !errors.Is(err, duly.ErrConflict) {
			r.must(err)
		}
	}
}

// renew closes one of the processes, and opens a new one.
func (r *randomWaits) renew(lot *rand.Rand) {
	r.rest(lot, 8*time.Millisecond)
	i := lot.IntN(len(r.engines))
	old := r.engines[i].Swap(r.open())
	r.must(old.Close())
}

// awaitEmpty waits until every job was acked, which only wake-ups can cause.
func (r *randomWaits) awaitEmpty() {
	deadline := clock.Monotonic() + 20*time.Second
	for _, q := range r.queues {
		for {
			st, err := r.engines[0].Load().Stats(r.Context(), duly.Q(q))
			if errors.Is(err, duly.ErrClosed) {
				continue
			}
			r.must(err)
			if st.Sizes.Delayed+st.Sizes.Ready+st.Sizes.Blocked+st.Sizes.Leased == 0 {
				break
			}
			if clock.Monotonic() > deadline {
				r.Errorf("seed %d: a wake-up was lost: %+v %+v\n%s", r.seed, st.Sizes, st.Counters, r.state(q))
				return
			}
			Pause()
		}
	}
}

// state describes a queue in which a waiter sleeps although a job is due.
func (r *randomWaits) state(q string) string {
	var b strings.Builder
	fmt.Fprintln(&b, "time", r.server.Must("TIME"))
	for i := range 4 {
		key := store.ShardTag("duly", duly.Q(q), i)
		fmt.Fprintln(&b, "shard", i, "marker", r.server.Must("ZRANGE", key+"marker", 0, -1, "WITHSCORES"), "later",
			r.server.Must("HGET", key+"tally", "later"),
			"delayed", r.server.Must("ZRANGE", key+"delayed", 0, 0, "WITHSCORES"), "ready", r.server.Must("ZCARD", key+"ready"),
			"leased", r.server.Must("ZRANGE", key+"leased", 0, 0, "WITHSCORES"))
	}
	c, _ := r.engines[0].Load().Config(context.Background(), duly.Q(q))
	fmt.Fprintf(&b, "sticky %t %+v\n", r.sticky, c)
	for i := range r.engines {
		h := r.engines[i].Load().hub
		fmt.Fprintf(&b, "process %d: %s", i, h.Probe())
	}
	return b.String()
}
