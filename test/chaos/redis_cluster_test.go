package chaos

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/hashslot"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine"
)

// clusterShards is the number of shards of the queues in these tests.
const clusterShards = 8

// TestClusterFaultsLoseTheStatedWindow moves slots of a cluster and kills its primaries under
// load on queues of eight shards (fault F8). A move causes no error. A kill loses at most what was
// answered in the last second before it, or nothing if a replica confirms writes. The nodes also
// lose their functions.
//
// C9.5, C9.7, C10.15, C11.13, C11.14, C11.17
func TestClusterFaultsLoseTheStatedWindow(t *testing.T) {
	t.Parallel()
	t.Run("Asynchronous", func(t *testing.T) { hurtCluster(t, "", false) })
	t.Run("ConfirmedByAReplica", func(t *testing.T) {
		if testing.Short() {
			t.Skip("the asynchronous run has the same faults")
		}
		hurtCluster(t, "&durability=replicas:1", true)
	})
}

// clusterTrial is a cluster with faults under load.
type clusterTrial struct {
	*testing.T
	c         *redistest.Cluster
	f         *fleet
	r         *rand.Rand
	confirmed bool // every answer was confirmed by a replica
	undone    []window
	moves     int
	redirects int // redirects of calls while slots moved
	outage    time.Duration
}

func hurtCluster(t *testing.T, options string, confirmed bool) {
	t.Parallel()
	c := redistest.NewCluster(t, 1)
	s := lightLoad()
	s.call = 20 * time.Second // longer than any move of a slot
	makeShardedQueues(t, c.URL(), s.queues)
	f := setOut(t, c.URL()+options, counts(2, 3), s)
	x := &clusterTrial{T: t, c: c, f: f, r: f.random(), confirmed: confirmed}
	kills := counts(1, 15)
	for range kills {
		x.moveShard()
		x.moveNamespace()
		// A slot that was moved in the last second counts as written in the last second.
		restUpTo(x.r, time.Second, 2*time.Second)
		x.kill(x.r.IntN(redistest.Shards))
	}
	f.rest()
	f.comeHome()
	report, err := f.engines[0].Check(t.Context(), contract.CheckParams{Repair: true})
	if err != nil {
		t.Fatal(err)
	}
	h := newHistory()
	h.read(f.pages.lines())
	trial := trial{undone: x.undone, calm: f.calm, slack: slack}
	v := h.conclude(t, f.engines[0], trial, s.queues...)
	x.neverAcrossSlots()
	answered, _ := h.in(x.undone)
	t.Logf("%d slots moved, %d redirects and refusals met, %d primaries killed; no answer for at most %v; %d pushes "+
		"answered, %d of them in the last second before a kill: "+
		"%d lost, %d delivered again after their ack, %d delivered twice with one receipt; the repair fixed %d faults",
		x.moves, x.redirects, kills, x.outage.Round(time.Millisecond), v.answered, answered, v.lost, v.resurrected, v.twice,
		len(report.Faults))
	if confirmed && v.lost+v.resurrected > 0 {
		t.Errorf("%d jobs were lost and %d returned, although a replica had confirmed them", v.lost, v.resurrected)
	}
	if x.outage > 50*time.Second { // ten times the promised 5 s
		t.Errorf("no push was answered for %v", x.outage)
	}
	if n := f.logged("store reset"); n != 0 && confirmed {
		t.Errorf("%d resets were logged, although nothing was lost", n)
	}
}

// makeShardedQueues creates the queues with eight shards and waits until the replicas have them.
func makeShardedQueues(t *testing.T, url string, queues []string) {
	t.Helper()
	e, _ := openRedis(t, url+"&durability=replicas:1")
	defer e.Close()
	for _, q := range queues {
		if err := e.Configure(t.Context(), duly.Q(q), duly.QueueConfig{Shards: clusterShards}); err != nil {
			t.Fatal(err)
		}
		for _, job := range everyShard(q) {
			results, err := e.Push(t.Context(), []duly.Job{job})
			if err != nil || results[0].Err != nil {
				t.Fatal(err, results)
			}
			if err := e.Delete(t.Context(), duly.Q(q), results[0].ID); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// everyShard returns one job per shard of a queue.
func everyShard(queue string) []duly.Job {
	jobs := make([]duly.Job, clusterShards)
	for i := range jobs {
		jobs[i] = duly.Job{Queue: queue, Made: true}
		for jobs[i].ID == "" || contract.ShardOf(jobs[i].ID, clusterShards) != i {
			jobs[i].ID = duly.MakeID(&jobs[i])
		}
	}
	return jobs
}

// moveShard moves a slot with the keys of a shard. At each stage it waits until a call has been
// redirected.
func (x *clusterTrial) moveShard() {
	x.Helper()
	queue := x.f.shape.queues[x.r.IntN(len(x.f.shape.queues))]
	key := "duly:{" + hashslot.ShardTag(duly.Q(queue), x.r.IntN(clusterShards)) + "}:config"
	meets := map[redistest.MoveStage]string{redistest.MoveMigrating: "TRYAGAIN", redistest.MoveEmptied: "ASK"}
	from := x.c.For(key)
	x.move(key, func(stage redistest.MoveStage) {
		if word := meets[stage]; word != "" {
			before := errorsOf(from, word)
			redistest.Await(x, "a call meets "+word, func() bool { return errorsOf(from, word) > before })
		}
	})
}

// moveNamespace moves the slot with the namespace's list of queues. At each stage it requests a
// configuration.
func (x *clusterTrial) moveNamespace() {
	x.Helper()
	x.move("duly:{default}:configs", func(stage redistest.MoveStage) {
		if _, err := x.f.engines[0].Config(x.Context(), duly.Q(x.f.shape.queues[0])); err != nil {
			x.Errorf("a configuration could not be read while its list moved (%s): %v", stage, err)
		}
	})
}

// move moves the slot of a key to another primary. No call may fail.
func (x *clusterTrial) move(key string, at func(redistest.MoveStage)) {
	x.Helper()
	from := x.c.For(key)
	to := x.c.Shard(x.r.IntN(redistest.Shards))
	for to == from {
		to = x.c.Shard(x.r.IntN(redistest.Shards))
	}
	x.f.awaitOlderCalls()
	unanswered, met := x.f.unanswered(), redirects(from)+redirects(to)
	x.c.MoveSlot(x.c.Slot(key), from, to, func(stage redistest.MoveStage) {
		if stage != redistest.MoveKey {
			from.Must("FUNCTION", "FLUSH")
			to.Must("FUNCTION", "FLUSH")
		}
		at(stage)
	})
	x.f.servesEverywhere()
	if n := x.f.unanswered() - unanswered; n > 0 {
		x.Errorf("%d calls failed during the move of a slot: %v", n, x.f.reasons())
	}
	x.moves++
	x.redirects += redirects(from) + redirects(to) - met
}

// kill kills a primary. Its replica takes over, and the killed server returns as a replica.
func (x *clusterTrial) kill(shard int) {
	x.Helper()
	x.neverAcrossSlots() // before the kill, because the server's counters are lost
	from := at() - time.Second.Microseconds()
	begun := time.Now()
	x.c.Shard(shard).Must("FUNCTION", "FLUSH")
	old := x.c.KillPrimary(shard)
	x.undone = append(x.undone, window{from: from, to: at()})
	if !x.confirmed { // until the killed server is back, no replica can confirm
		x.f.servesEverywhere()
		x.outage = max(x.outage, time.Since(begun))
	}
	x.c.AwaitHealthy()
	old.Restart()
	x.c.AwaitHealthy()
	x.f.servesEverywhere()
	if x.confirmed {
		x.outage = max(x.outage, time.Since(begun))
	}
}

// servesEverywhere pushes a job to each shard of every queue until all pushes are answered.
func (f *fleet) servesEverywhere() {
	f.t.Helper()
	l := &load{engine: f.engines[0], diary: &f.pages.diary, shape: f.shape}
	l.shape.call = patience
	for _, queue := range f.shape.queues {
		f.pushUntilAnswered(l, everyShard(queue))
	}
}

// awaitOlderCalls waits until every call in flight has ended. A call that a kill has broken may
// end long after the cluster works again.
func (f *fleet) awaitOlderCalls() {
	f.t.Helper()
	now := at()
	for _, l := range f.loads {
		redistest.Await(f.t, "the calls under way have ended", func() bool { return !l.calls.olderThan(now) })
	}
}

// unanswered returns the number of calls without an answer, of all loads.
func (f *fleet) unanswered() (n int64) {
	for _, l := range f.loads {
		n += l.open.Load()
	}
	return n
}

// reasons returns the last error of each load.
func (f *fleet) reasons() (list []any) {
	for _, l := range f.loads {
		list = append(list, l.why.Load())
	}
	return list
}

// neverAcrossSlots checks that no node has refused a call because its keys are in several slots.
func (x *clusterTrial) neverAcrossSlots() {
	x.Helper()
	for _, node := range x.c.Nodes() {
		if n := errorsOf(node, "CROSSSLOT"); n > 0 {
			x.Errorf("%s returned CROSSSLOT %d times", node.Addr(), n)
		}
	}
}

// redirects returns how often a node has redirected a call because a slot moves or has moved.
func redirects(node *redistest.Server) (n int) {
	for _, word := range []string{"MOVED", "ASK", "TRYAGAIN"} {
		n += errorsOf(node, word)
	}
	return n
}

// errorsOf returns how often a server has returned an error that begins with this word.
func errorsOf(server *redistest.Server, word string) int {
	stats, err := server.Do(context.Background(), "INFO", "errorstats")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(stats.(string), "errorstat_"+word+":count=")
	digits, _, _ := strings.Cut(rest, "\r")
	n, _ := strconv.Atoi(digits)
	return n
}

// in counts the pushes that were answered in these windows, and those of them whose jobs are
// lost.
func (h *history) in(windows []window) (answered, lost int) {
	for _, j := range h.jobs {
		if slices.ContainsFunc(windows, func(w window) bool { return w.from <= j.answered && j.answered <= w.to }) {
			answered++
			if !j.acked && !j.dead {
				lost++
			}
		}
	}
	return answered, lost
}

// TestNodeThatJoinsCausesNoErrors adds a node without functions to a cluster and moves shards to
// it under load. No call may fail.
//
// C11.13, C11.17
func TestNodeThatJoinsCausesNoErrors(t *testing.T) {
	t.Parallel()
	c := redistest.NewCluster(t, 0)
	s := lightLoad()
	s.call = 20 * time.Second // longer than any move of a slot
	e, _ := openRedis(t, c.URL())
	for _, q := range s.queues {
		if err := e.Configure(t.Context(), duly.Q(q), duly.QueueConfig{Shards: clusterShards}); err != nil {
			t.Fatal(err)
		}
	}
	f := setOut(t, c.URL(), 2, s)
	joined := c.Join()
	for _, q := range s.queues {
		slot := c.Slot("duly:{default/" + q + "/0}:config")
		c.MoveSlot(slot, c.Primary(slot), joined, nil)
		f.servesEverywhere()
	}
	// Redirected calls to the new node use EVAL until their client knows the new place of the
	// slot.
	redistest.Await(t, "the new node has the library", func() bool {
		f.servesEverywhere()
		return len(joined.Must("FUNCTION", "LIST").([]any)) > 0
	})
	f.rest()
	f.comeHome()
	if n := f.unanswered(); n > 0 {
		t.Errorf("%d calls failed while slots moved: %v", n, f.reasons())
	}
	h := newHistory()
	h.read(f.pages.lines())
	h.conclude(t, f.engines[0], trial{calm: f.calm, slack: slack}, s.queues...)
}

// TestHealthyShardsAreServedWhileANodeIsDown kills a node that has no replica. The shards of the
// other nodes can still be reserved from, waited for and swept, also by a client that connects
// later.
//
// C4.14, C4.75, C11.13
func TestHealthyShardsAreServedWhileANodeIsDown(t *testing.T) {
	t.Parallel()
	c := redistest.NewCluster(t, 0, redistest.Config("cluster-require-full-coverage no"))
	e, _ := openRedis(t, c.URL())
	q := duly.Q("q")
	if err := e.Configure(t.Context(), q, duly.QueueConfig{Shards: clusterShards}); err != nil {
		t.Fatal(err)
	}
	shardKey := func(i int) string { return "duly:{" + hashslot.ShardTag(duly.Q("q"), i) + "}:config" }
	down := c.For(shardKey(0))
	var healthy []int
	for i := range clusterShards {
		if c.For(shardKey(i)) != down {
			healthy = append(healthy, i)
		}
	}
	if len(healthy) == 0 || c.For("duly:{default}:configs") == down {
		t.Fatal("the queue's shards are on other nodes than expected; choose another queue name")
	}
	taken := takeEveryShard(t, e)
	down.Kill()
	settleWithDeadline(t, e, taken, func(shard int) bool { return slices.Contains(healthy, shard) })
	begun := time.Now()
	for n := range 20 {
		woken := make(chan error, 1)
		go func() {
			_, err := e.Wait(t.Context(), duly.WaitParams{Queues: []string{"q"}, Timeout: patience})
			woken <- err
		}()
		job := everyShard("q")[healthy[n%len(healthy)]]
		if results, err := e.Push(t.Context(), []duly.Job{job}); err != nil || results[0].Err != nil {
			t.Fatal(err, results)
		}
		if err := <-woken; err != nil {
			t.Fatal("wait:", err)
		}
		got, err := e.Reserve(t.Context(), duly.ReserveParams{Queues: []string{"q"}, Max: 10})
		if err != nil || len(got) != 1 || got[0].ID != job.ID {
			t.Fatalf("reserve: %v, %v", got, err)
		}
		if errs, err := e.Settle(t.Context(), "", []duly.SettleRequest{{Receipt: got[0].Receipt,
			As: duly.Ack}}); err != nil || errs[0] != nil {
			t.Fatal("settle:", err, errs)
		}
	}
	// A client that insists on the node that is down would give up after five seconds per job.
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("20 jobs took %v", took)
	}

	other, _ := openRedis(t, c.URL()+"&retry=50ms") // has no waiters, whose steps would hide the sweep
	job := everyShard("q")[healthy[0]]
	job.Delay = 10 * time.Millisecond
	if results, err := other.Push(t.Context(), []duly.Job{job}); err != nil || results[0].Err != nil {
		t.Fatal(err, results)
	}
	ready := strings.Replace(shardKey(healthy[0]), ":config", ":ready", 1)
	redistest.Await(t, "a sweep moves what is due on the nodes that are up", func() bool {
		if err := other.Sweep(t.Context()); !errors.Is(err, duly.ErrUnavailable) {
			t.Errorf("a sweep with a node that is down returned %v", err)
		}
		return c.For(ready).Must("ZCARD", ready) == int64(1)
	})
}

func takeEveryShard(t *testing.T, e *redisengine.Engine) []duly.Delivery {
	t.Helper()
	if _, err := e.Push(t.Context(), everyShard("q")); err != nil {
		t.Fatal(err)
	}
	taken, err := e.Reserve(t.Context(), duly.ReserveParams{Queues: []string{"q"}, Max: clusterShards, Lease: time.Minute})
	if err != nil || len(taken) != clusterShards {
		t.Fatal(err, len(taken))
	}
	return taken
}

// settleWithDeadline extends and acknowledges jobs with a deadline. The results of healthy shards
// must arrive although the deadline ends the wait for the others.
func settleWithDeadline(t *testing.T, e *redisengine.Engine, taken []duly.Delivery, healthy func(shard int) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	var receipts []duly.Receipt
	var outcomes []duly.SettleRequest
	for _, d := range taken {
		receipts, outcomes = append(receipts, d.Receipt), append(outcomes,
			duly.SettleRequest{Receipt: d.Receipt, As: duly.Ack})
	}
	var extended, settled []error
	var extend, settle error
	var wg sync.WaitGroup
	wg.Go(func() { extended, extend = e.Extend(ctx, "", receipts, time.Minute) })
	wg.Go(func() { settled, settle = e.Settle(ctx, "", outcomes) })
	wg.Wait()
	if extend != nil || settle != nil {
		t.Fatalf("extend: %v; settle: %v", extend, settle)
	}
	for i, d := range taken {
		if healthy(contract.ShardOf(d.ID, clusterShards)) {
			if settled[i] != nil || extended[i] != nil && !errors.Is(extended[i], duly.ErrLeaseLost) {
				t.Errorf("%s on a healthy shard: %v, %v", d.ID, extended[i], settled[i])
			}
		} else if !errors.Is(settled[i], duly.ErrUnavailable) || !errors.Is(extended[i], duly.ErrUnavailable) {
			t.Errorf("%s on the node that is down: %v, %v", d.ID, extended[i], settled[i])
		}
	}
}
