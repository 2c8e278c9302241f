package chaos

import (
	"context"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/proctest"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine"
)

// TestTicksThroughFailovers replaces primaries that have not sent their last writes to a replica. A
// tick runs again only if the store has lost its Fire, and then with the same ID. No tick is lost
// (fault F12).
//
// C17.51, C17.85, C17.91, C17.94, C9.5
func TestTicksThroughFailovers(t *testing.T) {
	t.Parallel()
	t.Run("Sentinel", func(t *testing.T) {
		t.Parallel()
		group := redistest.NewSentinel(t)
		failTicksOver(t, group.URL(), group.Servers(), group.AwaitHealthy, func(n int, r *rand.Rand) {
			if n%2 == 0 {
				group.Demote()
				return
			}
			old := group.Primary()
			killWithTail(t, r, old, group.Servers())
			redistest.Await(t, "another primary", func() bool { return group.Primary() != old })
			group.AwaitHealthy()
			old.Restart()
		})
	})
	t.Run("Cluster", func(t *testing.T) {
		t.Parallel()
		c := redistest.NewCluster(t, 1)
		failTicksOver(t, c.URL(), c.Nodes(), c.AwaitHealthy, func(_ int, r *rand.Rand) {
			old := c.Shard(r.IntN(redistest.Shards))
			killWithTail(t, r, old, c.Nodes())
			c.AwaitHealthy()
			old.Restart()
		})
	})
}

// killWithTail kills a primary some time after it has lost its replicas, which therefore lack its
// last writes.
func killWithTail(t *testing.T, r *rand.Rand, primary *redistest.Server, servers []*redistest.Server) {
	t.Helper()
	replicas := replicasOf(primary, servers)
	for _, s := range replicas {
		s.Pause()
	}
	if len(replicas) == 0 {
		t.Fatal("the primary has no replica")
	}

	// A paused replica cannot connect again.
	primary.Must("CLIENT", "KILL", "TYPE", "replica")
	restUpTo(r, 100*time.Millisecond, 500*time.Millisecond)
	primary.Kill()
	for _, s := range replicas {
		s.Continue()
	}
}

// replicasOf returns the servers that follow a primary.
func replicasOf(primary *redistest.Server, servers []*redistest.Server) (replicas []*redistest.Server) {
	info := primary.Must("INFO", "replication").(string)
	for _, s := range servers {
		if host, port, _ := strings.Cut(s.Addr(), ":"); strings.Contains(info, "ip="+host+",port="+port+",") {
			replicas = append(replicas, s)
		}
	}
	return replicas
}

// awaitReplicated waits until every replica has what its primary has now.
func awaitReplicated(t *testing.T, servers []*redistest.Server) {
	t.Helper()
	offset := func(s *redistest.Server) int {
		_, rest, _ := strings.Cut(s.Must("INFO", "replication").(string), "master_repl_offset:")
		digits, _, _ := strings.Cut(rest, "\r")
		n, err := strconv.Atoi(digits)
		must(t, err)
		return n
	}
	for _, primary := range servers {
		written := offset(primary)
		for _, replica := range replicasOf(primary, servers) {
			redistest.Await(t, "a replica has all writes", func() bool { return offset(replica) >= written })
		}
	}
}

// failTicksOver fires ticks and handles their runs while replace replaces primaries.
func failTicksOver(t *testing.T, url string, servers []*redistest.Server, healthy func(),
	replace func(n int, r *rand.Rand)) {
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	reader := openReader(t, url)
	must(t, reader.Configure(t.Context(), duly.Q("q"), duly.QueueConfig{Shards: clusterShards}))
	x := &tickFailover{T: t, ledger: keepTicks(t, reader, "q", spread(50)...), ids: map[tickOf][]string{}}
	awaitReplicated(t, servers)

	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	defer func() { stop(); wg.Wait() }()
	for range 3 {
		e, _ := openRedis(t, url)
		e.ObserveFire(x.observe)
		wg.Go(func() { x.handle(ctx, e) })
	}
	failovers := counts(1, 20)
	for n := range failovers {
		restUpTo(r, tickPeriod, 2*tickPeriod)
		replace(n, r)
		healthy()
	}
	restUpTo(r, tickPeriod, 2*tickPeriod)

	end := x.ledger.awaitFired(reader)
	x.pause(reader)
	x.awaitHandled(reader)
	x.check(reader)
	ticks, repeated := x.ledger.conclude(reader, end, false)
	again := x.firedAgain()
	t.Logf("seed %d: %d failovers, %d ticks; %d were answered more than once as fired, and %d deliveries were repeated; "+
		"%d calls to Fire had no answer", seed, failovers, ticks, again, repeated, x.unanswered)
	if again == 0 && proctest.Long() {
		t.Error("no Fire was lost, so the run proves nothing")
	}
}

// tickFailover is a store whose primaries are replaced while ticks fire.
type tickFailover struct {
	*testing.T
	ledger *tickLedger

	mu         sync.Mutex
	ids        map[tickOf][]string // the IDs in the answers of Fire
	unanswered int
}

// observe records the answers of Fire. It implements contract.Firing.
func (x *tickFailover) observe(ctx context.Context, _ duly.QueueRef, _ int64, items []contract.FireItem) (
	context.Context, []contract.FireItem, func([]contract.FireResult, error),
) {
	return ctx, items, func(results []contract.FireResult, err error) {
		x.mu.Lock()
		defer x.mu.Unlock()
		if err != nil {
			x.unanswered++
		}
		for i := range results {
			if results[i].Status == contract.FireFired {
				of := tickOf{items[i].Name, items[i].Tick}
				x.ids[of] = append(x.ids[of], results[i].Run.ID)
			}
		}
	}
}

// handle waits, reserves and acks until ctx ends. Its engine fires the ticks.
func (x *tickFailover) handle(ctx context.Context, e *redisengine.Engine) {
	queues := []string{x.ledger.queue.Name}
	for ctx.Err() == nil {
		if _, err := e.Wait(ctx, duly.WaitParams{Queues: queues, Timeout: time.Second}); err != nil {
			time.Sleep(breath)
			continue
		}
		ds, err := e.Reserve(ctx, duly.ReserveParams{Queues: queues, Max: 10, Lease: time.Second})
		if err != nil {
			time.Sleep(breath)
			continue
		}
		var acks []duly.SettleRequest
		for i := range ds {
			x.ledger.take(&ds[i])
			acks = append(acks, duly.SettleRequest{Receipt: ds[i].Receipt, As: duly.Ack})
		}
		if len(acks) > 0 {
			_, _ = e.Settle(ctx, "", acks) // a run whose ack is lost comes again
		}
	}
}

// pause stops the schedules.
func (x *tickFailover) pause(e duly.Scheduler) {
	x.Helper()
	for name := range x.ledger.schedules {
		for begun := time.Now(); ; time.Sleep(breath) {
			err := e.PauseSchedule(x.Context(), x.ledger.queue, name)
			if err == nil {
				break
			}
			if time.Since(begun) > patience {
				x.Fatalf("schedule %s could not be paused in %v: %v", name, patience, err)
			}
		}
	}
}

// awaitHandled waits until all runs are acked.
func (x *tickFailover) awaitHandled(e contract.Inspector) {
	x.Helper()
	redistest.Await(x, "every run is handled", func() bool {
		s, err := e.Stats(x.Context(), x.ledger.queue)
		return err == nil && s.Sizes == (duly.Sizes{})
	})
}

// check checks the store. A failover may undo writes, but never half of a step.
func (x *tickFailover) check(e contract.Maintainer) {
	x.Helper()
	report, err := e.Check(x.Context(), contract.CheckParams{})
	must(x.T, err)
	if len(report.Faults) > 0 {
		x.Errorf("Check finds %d faults: %+v", len(report.Faults), report.Faults[:min(3, len(report.Faults))])
	}
}

// firedAgain returns the number of ticks that were answered more than once as fired. All answers
// have the ID of the tick. The store has such a Fire only once, as conclude checks by its counters,
// so it has lost the others.
func (x *tickFailover) firedAgain() (n int) {
	x.Helper()
	x.mu.Lock()
	defer x.mu.Unlock()
	for of, ids := range x.ids {
		for _, id := range ids {
			if want := x.ledger.id(of); id != want {
				x.Errorf("tick %+v was fired with the ID %s, want %s", of, id, want)
			}
		}
		if len(ids) > 1 {
			n++
		}
	}
	return n
}
