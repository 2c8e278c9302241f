package chaos

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/hashslot"
	"github.com/dulymq/duly/internal/proctest"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine"
)

// wakeBound is ten times the two seconds that a lost wake-up may cost.
const wakeBound = 20 * time.Second

// TestWaitersSurviveClusterFaults lets a process wait for a queue of eight shards. Meanwhile a
// slot moves, a primary is killed and another one demoted. Afterwards every shard still wakes a
// waiter, with blocking calls on the new nodes. The process has no more goroutines and
// connections than before.
//
// C5.11, C5.17, C11.13
func TestWaitersSurviveClusterFaults(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("the engine runs in another process, so the race detector would not see it")
	}
	c := redistest.NewCluster(t, 1)
	makeShardedQueues(t, c.URL(), []string{"q"})
	x := &waitTrial{T: t, c: c, p: proctest.Start(t, proctest.Options{}, "rediswaiter", c.URL())}
	if !x.p.Await("open", 1, patience) {
		t.Fatal("the process did not start", x.p.Lines())
	}
	x.e, _ = openRedis(t, c.URL())
	x.wokenForEveryShard("before")
	before := x.goroutines(0)

	for range counts(1, 10) {
		const moved = 3
		key := "duly:{" + hashslot.ShardTag(duly.Q("q"), moved) + "}:marker"
		from := c.For(key)
		to := c.Shard(0)
		if to == from {
			to = c.Shard(1)
		}
		c.MoveSlot(c.Slot(key), from, to, nil) // with a blocking call on the slot
		x.wokenFor("a slot has moved", moved)
		x.wokenForEveryShard("a slot has moved")

		old := c.For(key)
		old.Kill() // with blocking calls on the server
		c.AwaitHealthy()
		x.wokenForEveryShard("a primary was killed")

		old.Restart()
		c.AwaitHealthy()
		old.Must("CLUSTER", "FAILOVER") // demotes the primary without stopping it
		redistest.Await(t, "the former primary is the primary again", func() bool { return c.For(key) == old })
		c.AwaitHealthy()
		x.wokenForEveryShard("a primary was demoted")
	}
	// One blocking connection per shard. Per node, one connection for calls, one for other
	// blocking calls, and the test's own.
	redistest.Await(t, "stale connections are closed",
		func() bool { return x.connections() <= clusterShards+3*len(c.Nodes()) })
	// The two clients of the process may now know nodes that they had no connection to. Each
	// connection has a reader and a writer.
	x.goroutines(before + 5 + 2*2*len(c.Nodes()))

	x.push(0, "end")
	if err := x.p.Wait(patience); err != nil {
		t.Error("the process ended with", err)
	}
	t.Logf("woken at most %v after the cluster was complete again; %v", x.longest.Round(time.Millisecond),
		x.p.Lines()[len(x.p.Lines())-1])
	for _, line := range x.p.Lines() {
		if strings.HasPrefix(line, "error") {
			t.Error(line)
		}
	}
	redistest.Await(t, "its connections are closed", func() bool { return x.connections() <= len(c.Nodes()) })
}

// waitTrial is a process that waits on a cluster with faults.
type waitTrial struct {
	*testing.T
	c       *redistest.Cluster
	p       *proctest.Process
	e       *redisengine.Engine
	pushed  int
	longest time.Duration
}

// push pushes a job into a shard.
func (x *waitTrial) push(shard int, body string) {
	x.Helper()
	job := everyShard("q")[shard]
	job.Body = []byte(body)
	redistest.Await(x, "a push is answered", func() bool {
		results, err := x.e.Push(x.Context(), []duly.Job{job})
		job.Made = false
		if err == nil {
			err = results[0].Err
		}
		if err != nil && !maybe(err) {
			x.Error("push:", err)
		}
		return err == nil
	})
}

// wokenFor pushes a job into a shard and requires that the process reserves it.
func (x *waitTrial) wokenFor(why string, shard int) {
	x.Helper()
	x.pushed++
	body := fmt.Sprintf("%d-%d", shard, x.pushed)
	begun := time.Now()
	x.push(shard, body)
	if !x.p.Await("took "+body, 1, wakeBound) {
		x.Fatalf("%s: a job in shard %d was not reserved within %v; the process printed %v", why, shard, wakeBound,
			x.p.Lines())
	}
	x.longest = max(x.longest, time.Since(begun))
}

// wokenForEveryShard calls wokenFor for each shard, once there is a blocking call for each of
// them.
func (x *waitTrial) wokenForEveryShard(why string) {
	x.Helper()
	for shard := range clusterShards {
		redistest.Await(x, why+": a blocking call for every shard", func() bool { return x.blocked() == clusterShards })
		x.wokenFor(why, shard)
	}
}

// blocked returns the number of clients that block on the nodes.
func (x *waitTrial) blocked() (n int) {
	x.each(func(node *redistest.Server) { n += blockedClients(x.Context(), node) })
	return n
}

// connections returns the number of connections that engines have to the nodes.
func (x *waitTrial) connections() (n int) {
	x.each(func(node *redistest.Server) {
		list, err := node.Do(x.Context(), "CLIENT", "LIST")
		if err == nil {
			n += strings.Count(fmt.Sprint(list), " name=duly ")
		}
	})
	return n
}

func (x *waitTrial) each(f func(*redistest.Server)) {
	for _, node := range x.c.Nodes() {
		f(node)
	}
}

// goroutines asks the process for its number of goroutines until there are at most most of them.
// 0 allows any number.
func (x *waitTrial) goroutines(most int) (n int) {
	x.Helper()
	redistest.Await(x, "goroutines come to rest", func() bool {
		x.pushed++
		body := fmt.Sprintf("count-%d", x.pushed)
		x.push(0, body)
		if !x.p.Await(body, 1, wakeBound) {
			x.Fatal("the process does not answer", x.p.Lines())
		}
		for _, line := range x.p.Lines() {
			if said, count, _ := strings.Cut(line, " "); said == body {
				n, _ = strconv.Atoi(count)
			}
		}
		return most == 0 || n <= most
	})
	return n
}

// runRedisWaiter runs three waiters and reserves what they are woken for, until a job says "end".
// Its argument is the URL. It prints what it has reserved, and its number of goroutines when a
// job asks for it.
func runRedisWaiter(args []string) error {
	before := runtime.NumGoroutine()
	engine, err := redisengine.Open(context.Background(), redisengine.Config{URL: args[0],
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	w := &redisWaiter{l: &load{engine: engine, diary: &diary{out: os.Stdout}}}
	w.l.diary.say("open")
	ctx, end := context.WithCancel(context.Background())
	w.end = end
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() { w.run(ctx) })
	}
	all.Wait()
	if err := engine.Close(); err != nil {
		return err
	}
	after := runtime.NumGoroutine()
	for begun := time.Now(); after > before && time.Since(begun) < patience/2; time.Sleep(breath) {
		after = runtime.NumGoroutine()
	}
	if after > before {
		stacks := make([]byte, 1<<16)
		return fmt.Errorf("%d goroutines before, %d after:\n%s", before, after, stacks[:runtime.Stack(stacks, true)])
	}
	w.l.diary.say("%d waits ended without an answer, %d goroutines before, %d after", w.l.open.Load(), before, after)
	return nil
}

type redisWaiter struct {
	l   *load
	end func()
}

func (w *redisWaiter) run(ctx context.Context) {
	for ctx.Err() == nil {
		ready, err := w.l.engine.Wait(ctx, duly.WaitParams{Queues: []string{"q"}, Timeout: patience})
		if err == nil && ready {
			err = w.take()
		}
		if err != nil && ctx.Err() == nil {
			if !w.l.maybe(err) {
				w.l.diary.fault("wait", err)
			}
			time.Sleep(breath)
		}
	}
}

// take reserves all jobs.
func (w *redisWaiter) take() error {
	got, err := w.l.engine.Reserve(context.Background(), duly.ReserveParams{Queues: []string{"q"}, Max: 10})
	if err != nil {
		return err
	}
	for _, d := range got {
		switch body := string(d.Body); {
		case body == "end":
			defer w.end()
		case strings.HasPrefix(body, "count"):
			w.l.diary.say("%s %d", body, runtime.NumGoroutine())
		default:
			w.l.diary.say("took %s", body)
		}
		w.l.settle([]outcome{outcomeOf(&d, duly.Ack)})
	}
	return nil
}
