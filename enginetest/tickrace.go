package enginetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/eventually"
)

// TickRace lets several callers fire the ticks of the same schedules at the same time, and handle
// the runs. A ledger of the runs must have each tick exactly once, and none before its time. Every
// schedule has a tick per second.
type TickRace struct {
	// Callers fire ticks and handle runs, each on a goroutine of its own.
	Callers []TickCaller
	// Direct is an engine of the same store whose answers are never lost.
	Direct contract.Engine
	// Schedules is the number of schedules, and Ticks that of the ticks of each.
	Schedules, Ticks int
	// Shards is the number of shards of the queue. The default is one.
	Shards int
	// Losses says that a call of a caller can take effect and return [duly.ErrUnavailable]. The
	// callers repeat no call. Runs whose Reserve was lost come again, after their leases.
	Losses bool
}

// TickCaller is a process, or a goroutine of one. Of four callers, two step the queue, the third sweeps
// as a server does, and the fourth polls. Each of them then reserves runs.
type TickCaller struct {
	Engine interface {
		duly.Engine
		contract.Maintainer
	}
	// Clock is the clock of the caller's engine. Callers may share a clock.
	Clock Clock
}

// The queue of a race, the time for which its runs are leased, and the largest difference between the
// clocks of its callers.
const (
	raceQueue = "ticks"
	raceLease = 10 * time.Second
	raceSkew  = 100 * time.Millisecond
)

// Run runs the race. It takes some hundred calls for each tick.
func (r TickRace) Run(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	race := &tickRace{
		T: t, TickRace: r, random: rand.New(rand.NewPCG(seed, 0)), start: r.Callers[0].Clock.Now(),
		runs: map[tickOf]map[duly.Number]int{},
	}
	for _, c := range r.Callers {
		if !slices.Contains(race.clocks, c.Clock) {
			race.clocks = append(race.clocks, c.Clock)
		}
	}

	race.put()
	for k := range r.Ticks {
		for _, behind := range []time.Duration{raceOffset, time.Second} {
			race.pass(race.start.Add(time.Duration(k)*time.Second + behind))
		}
	}
	race.drain()
	race.check()
}

// tickRace is a TickRace in progress.
type tickRace struct {
	*testing.T
	TickRace
	random *rand.Rand
	clocks []Clock
	start  time.Time

	mu sync.Mutex
	// runs has how often each run of a tick was delivered. A run is known by its number, because two
	// runs of one tick would have the same ID.
	runs map[tickOf]map[duly.Number]int
	lost int // calls without an answer
}

// tickOf is a tick of a schedule, in ms.
type tickOf struct {
	schedule string
	tick     int64
}

// raceOffset is the time from the ticks of most schedules to those of the others.
const raceOffset = 250 * time.Millisecond

// first returns the first tick of a schedule.
func (r *tickRace) first(i int) time.Time {
	if i%4 == 3 {
		return r.start.Add(raceOffset)
	}
	return r.start.Add(time.Second)
}

// put puts the schedules. Each ends with its last tick.
func (r *tickRace) put() {
	r.Helper()
	q, shards := duly.Q(raceQueue), max(r.Shards, 1)
	r.must(r.Direct.Configure(r.Context(), q, duly.QueueConfig{Shards: shards}))
	for i := range r.Schedules {
		s := duly.Schedule{
			Name: fmt.Sprintf("s%d", i), Overlap: duly.OverlapAllow, Start: r.first(i),
			End:      r.first(i).Add(time.Duration(r.Ticks-1) * time.Second),
			Template: duly.Job{MaxStalls: 65535, Tries: 65535},
		}
		switch i % 4 {
		case 0, 3:
			s.Spec = "@every 1s"
		case 1:
			s.Spec, s.Zone, s.Jitter = "* * * * * *", "Australia/Lord_Howe", 700*time.Millisecond
		case 2:
			s.Spec, s.Zone = "* * 0-23 * * *", "America/St_Johns"
		}

		// Without losses, every tick fires before the next one, so none can be missed.
		s.Catchup = duly.CatchupAll
		if !r.Losses {
			s.Catchup = []duly.Catchup{duly.CatchupAll, duly.CatchupOne, duly.CatchupNone}[i%3]
		}
		_, err := r.Direct.(duly.Scheduler).PutSchedule(r.Context(), q, s)
		r.must(err)
	}
}

func (r *tickRace) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// pass lets the callers race before a tick and after it. Before the tick, the clock that is furthest
// ahead is 1 ms before it. With losses, some ticks are passed over, so that several are due at once.
func (r *tickRace) pass(tick time.Time) {
	if r.Losses && r.random.IntN(4) == 0 {
		return
	}

	r.act(tick.Add(-time.Millisecond - raceSkew))
	r.act(tick)
	if !r.Losses {
		r.settled(tick)
	}
}

// act moves each clock to a time, and up to raceSkew further. The callers act concurrently, while the
// clocks move.
func (r *tickRace) act(at time.Time) {
	skews := make([]time.Duration, len(r.clocks))
	for i := range skews {
		skews[i] = time.Duration(r.random.Int64N(int64(raceSkew/time.Millisecond)+1)) * time.Millisecond
	}

	var callers sync.WaitGroup
	for i, c := range r.Callers {
		callers.Go(func() {
			// The first caller of a clock moves it.
			n := slices.Index(r.clocks, c.Clock)
			if slices.IndexFunc(r.Callers, func(o TickCaller) bool { return o.Clock == c.Clock }) == i {
				c.Clock.Advance(max(0, at.Add(skews[n]).Sub(c.Clock.Now())))
			}
			r.fire(c, i)
		})
	}
	callers.Wait()
}

// fire fires due ticks in the way of the caller, and handles runs.
func (r *tickRace) fire(c TickCaller, i int) {
	switch i % 4 {
	case 0, 1:
		for more := true; more; {
			var err error
			if more, err = c.Engine.Step(context.Background(), duly.Q(raceQueue)); r.failed("step", err) {
				break
			}
		}
	case 2:
		r.failed("sweep", c.Engine.Sweep(context.Background()))
	case 3:
		_, err := c.Engine.Wait(context.Background(), duly.WaitParams{Queues: []string{raceQueue}})
		r.failed("poll", err)
	}
	r.handle(c)
}

// failed reports whether a call has failed. Only a race with losses may have failed calls.
func (r *tickRace) failed(call string, err error) bool {
	if err == nil {
		return false
	}
	if !r.Losses || !errors.Is(err, duly.ErrUnavailable) {
		r.Errorf("%s: %v", call, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost++
	return true
}

// handle reserves and acks runs until none is left, or a call fails.
func (r *tickRace) handle(c TickCaller) {
	for {
		runs, err := c.Engine.Reserve(context.Background(), duly.ReserveParams{
			Queues: []string{raceQueue}, Max: duly.MaxBatch, Lease: raceLease,
		})
		if r.failed("reserve", err) || len(runs) == 0 {
			return
		}

		acks := make([]duly.SettleRequest, len(runs))
		for i := range runs {
			r.record(&runs[i])
			acks[i] = duly.SettleRequest{Receipt: runs[i].Receipt, As: duly.Ack}
		}
		errs, err := c.Engine.Settle(context.Background(), "", acks)
		if r.failed("ack", err) {
			return
		}
		for _, err := range errs {
			// With losses, the lease of a run may have ended, if its caller was slow.
			if !r.Losses || !errors.Is(err, duly.ErrLeaseLost) {
				r.failed("ack", err)
			}
		}
	}
}

// latest returns the time of the clock that is furthest ahead.
func (r *tickRace) latest() (latest time.Time) {
	for _, c := range r.clocks {
		if now := c.Now(); now.After(latest) {
			latest = now
		}
	}
	return latest
}

// record enters a delivery into the ledger.
func (r *tickRace) record(d *duly.Delivery) {
	tick, err := time.Parse(time.RFC3339Nano, d.Headers[duly.HeaderTick])
	parts, ok := contract.ParseReceipt(d.Receipt)
	if err != nil || !ok {
		r.Errorf("a run has the headers %v and the receipt %s", d.Headers, d.Receipt)
		return
	}

	// The clock that fired the tick is not ahead of the latest one, which is read after the delivery.
	latest := r.latest()
	if tick.After(latest) || d.Due.After(latest) || d.Due.Before(tick) || d.PushedAt.Before(tick) || d.Now.Before(d.Due) {
		r.Errorf("by %s, the run of tick %s was pushed at %s, due at %s and delivered at %s", latest, tick, d.PushedAt,
			d.Due, d.Now)
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	key := tickOf{d.Headers[duly.HeaderSchedule], tick.UnixMilli()}
	if r.runs[key] == nil {
		r.runs[key] = map[duly.Number]int{}
	}
	r.runs[key][parts.Number]++
	if previous := d.Headers[duly.HeaderPrevious]; previous != r.previous(key) {
		r.Errorf("the run of tick %s of %s follows %q, want %q", tick, key.schedule, previous, r.previous(key))
	}
}

// previous returns the header with the tick before a tick, "" for the first tick.
func (r *tickRace) previous(key tickOf) string {
	var i int
	if _, err := fmt.Sscanf(key.schedule, "s%d", &i); err != nil || key.tick == r.first(i).UnixMilli() {
		return ""
	}
	return contract.TickText(key.tick - 1000)
}

// schedules returns all schedules of the race.
func (r *tickRace) schedules() []duly.ScheduleInfo {
	r.Helper()
	p := duly.PageParams{Limit: duly.MaxBatch}
	page, err := r.Direct.(duly.Scheduler).Schedules(r.Context(), duly.Q(raceQueue), p)
	r.must(err)
	return page.Schedules
}

// settled fires ticks until none is due at a time. A pass that began before the clocks moved may have
// left the tick to the next pass.
func (r *tickRace) settled(at time.Time) {
	r.Helper()
	due := func(s duly.ScheduleInfo) bool { return !s.Next.IsZero() && !s.Next.After(at) }
	eventually.True(r, "the due ticks to fire", func() bool {
		if !slices.ContainsFunc(r.schedules(), due) {
			return true
		}
		r.fire(r.Callers[0], 0)
		return false
	})
}

// drain lets time pass until each tick has fired and each run was handled.
func (r *tickRace) drain() {
	r.Helper()
	r.act(r.start.Add(time.Duration(r.Ticks)*time.Second + raceOffset))
	eventually.True(r, "each run to be handled", func() bool {
		st, err := r.Direct.Stats(r.Context(), duly.Q(raceQueue))
		r.must(err)
		fires := func(s duly.ScheduleInfo) bool { return !s.Next.IsZero() }
		if st.Sizes == (duly.Sizes{}) && !slices.ContainsFunc(r.schedules(), fires) {
			return true
		}

		// Leases of lost runs end meanwhile.
		r.act(r.latest().Add(raceLease))
		return false
	})
}

// check compares the ledger with the ticks, and with the counters of the engine.
func (r *tickRace) check() {
	r.Helper()
	deliveries := 0
	for i := range r.Schedules {
		for k := range r.Ticks {
			key := tickOf{fmt.Sprintf("s%d", i), r.first(i).Add(time.Duration(k) * time.Second).UnixMilli()}
			if n := len(r.runs[key]); n != 1 {
				r.Errorf("tick %s of %s has %d runs", contract.TickText(key.tick), key.schedule, n)
			}
			for _, n := range r.runs[key] {
				if deliveries += n; n != 1 && !r.Losses {
					r.Errorf("the run of tick %s of %s was delivered %d times", contract.TickText(key.tick), key.schedule, n)
				}
			}
		}
	}
	total := r.Schedules * r.Ticks
	if len(r.runs) != total {
		r.Errorf("%d ticks have runs, want %d", len(r.runs), total)
	}

	for _, s := range r.schedules() {
		if s.Fired != int64(r.Ticks) || s.Skipped != 0 || s.Missed != 0 {
			r.Errorf("schedule %s has fired %d ticks, skipped %d and missed %d, want %d, 0 and 0", s.Name, s.Fired, s.Skipped,
				s.Missed, r.Ticks)
		}
	}
	st, err := r.Direct.Stats(r.Context(), duly.Q(raceQueue))
	r.must(err)
	if st.Counters.Pushed != int64(total) || st.Counters.Acked != int64(total) {
		r.Errorf("%d runs were pushed and %d acked, want %d", st.Counters.Pushed, st.Counters.Acked, total)
	}
	r.Logf("%d callers: %d ticks of %d schedules in the ledger, %d deliveries, %d calls without an answer", len(r.Callers),
		total, r.Schedules, deliveries, r.lost)
}
