package redisengine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/redistest"
)

// openQuietly opens an engine that keeps its log to itself.
func openQuietly(t *testing.T, url string) *Engine {
	t.Helper()
	e, err := Open(t.Context(), Config{URL: url, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// waitFor waits for a queue until the test ends.
func waitFor(t *testing.T, e *Engine, ref duly.QueueRef) {
	t.Helper()
	before := e.Waiters()
	go func() {
		_, _ = e.Wait(t.Context(), duly.WaitParams{Namespace: ref.Namespace, Queues: []string{ref.Name}, Timeout: duly.MaxWait})
	}()
	redistest.Await(t, "it waits", func() bool { return e.Waiters() > before })
}

// A process that keeps the moments of many shards ends soon, also where the
// server that it would hand them back to is down.
func TestCloseWhileTheServerIsDown(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	const shards, retry = 64, 300 * time.Millisecond
	e := openQuietly(t, fmt.Sprintf("%s?retry=%s&shards=%d", server.URL(), retry, shards))
	jobs := make([]duly.Job, 40*shards)
	for i := range jobs {
		jobs[i] = duly.Job{Queue: "q", ID: fmt.Sprintf("job%d", i), Delay: time.Hour} // an ID of its own, so that every shard has some
	}
	for len(jobs) > 0 {
		n := min(len(jobs), duly.MaxBatch)
		if _, err := e.Push(t.Context(), jobs[:n]); err != nil {
			t.Fatal(err)
		}
		jobs = jobs[n:]
	}
	waitFor(t, e, duly.Q("q"))
	redistest.Await(t, "it keeps the moments", func() bool {
		return e.hub.Probe().DueTimers() == shards
	})
	server.Stop()
	began := clock.Monotonic()
	e.Close()
	if took := clock.Monotonic() - began; took > shards*retry/2 {
		t.Errorf("Close takes %s: it gives the moments back one by one", took)
	}
}

// A server that stands still, with its connections open, holds up no Close, and
// who has no deadline is answered by it.
func TestCloseWhileTheServerStandsStill(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	e := openQuietly(t, server.URL())
	push := func() error {
		_, err := e.Push(context.Background(), []duly.Job{{Queue: "q"}})
		return err
	}
	if err := push(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, e, duly.Q("other"))
	server.Pause()
	pushed, reserved := make(chan error, 1), make(chan error, 1)
	go func() { pushed <- push() }()
	go func() {
		_, err := e.Reserve(context.Background(), duly.ReserveParams{Queues: []string{"q"}, Max: 1})
		reserved <- err
	}()
	redistest.Await(t, "both are on their way", func() bool {
		return e.store.Tasks.Running() >= 3 // and the watch
	})
	began := clock.Monotonic()
	e.Close()
	if took := clock.Monotonic() - began; took > 3*closeLimit {
		t.Errorf("Close takes %s", took)
	}
	for _, answer := range []chan error{pushed, reserved} {
		if err := <-answer; !errors.Is(err, duly.ErrClosed) {
			t.Errorf("answered %v, want closed", err)
		}
	}
}

// Whoever waits for the turn to sweep leaves with his context.
func TestSweepEndsWithItsContext(t *testing.T) {
	t.Parallel()
	server, _ := redistest.Shared(t)
	e := openQuietly(t, server.URL())
	e.Sweeps.Turn <- struct{}{}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := e.Sweep(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a sweep behind another is answered %v", err)
	}
	<-e.Sweeps.Turn
}

// C5.17: a namespace on a node that stands still keeps nobody from the look at
// the queues on the others.
func TestTheLookDoesNotWaitForANodeThatIsDown(t *testing.T) {
	t.Parallel()
	cluster := redistest.NewCluster(t, 0, redistest.Config("cluster-node-timeout 60000"))
	e := openQuietly(t, cluster.URL()+"?retry=1m")
	up := duly.QueueRef{Namespace: "up", Name: "q"}
	if err := e.Configure(t.Context(), up, duly.QueueConfig{}); err != nil {
		t.Fatal(err)
	}
	alive := cluster.For(e.catalog.Cache.Get(up).Shards[0].Name("config"))
	down := duly.QueueRef{Name: "unknown"}
	for i := 0; down.Namespace == ""; i++ {
		if namespace := fmt.Sprint("down", i); cluster.For(e.store.ConfigsKey(namespace)) != alive {
			down.Namespace = namespace
		}
	}
	waitFor(t, e, up)
	waitFor(t, e, down)
	dead := cluster.For(e.store.ConfigsKey(down.Namespace))
	dead.Pause()
	defer dead.Continue()
	alive.Must("CONFIG", "RESETSTAT")
	redistest.Await(t, "the queue on the other node is looked at", func() bool {
		return strings.Contains(alive.Must("INFO", "commandstats").(string), "cmdstat_fcall_ro")
	})
}

// A process that comes while a node of a cluster is down, whichever it is,
// serves the queues that lie on the others with their namespace's list.
//
// C11.13
func TestOpenWhileANodeIsDown(t *testing.T) {
	t.Parallel()
	for i := range redistest.Shards {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			c := redistest.NewCluster(t, 0, redistest.Config("cluster-require-full-coverage no"))
			down, namespace := c.Nodes()[i], "n"
			for c.For("duly:{"+namespace+"/q/0}:config") == down || c.For("duly:{"+namespace+"}:configs") == down {
				namespace += "n"
			}
			if _, err := openQuietly(t, c.URL()).Push(t.Context(), []duly.Job{{Namespace: namespace, Queue: "q"}}); err != nil {
				t.Fatal(err)
			}
			down.Kill()
			got, err := openQuietly(t, c.URL()).Reserve(t.Context(), duly.ReserveParams{Namespace: namespace, Queues: []string{"q"}, Max: 1})
			if err != nil || len(got) != 1 {
				t.Errorf("%d jobs, %v", len(got), err)
			}
		})
	}
}

// C4.75: a sweep waits for a node that is down once, however many namespaces have
// their lists there, and goes on with the others.
func TestASweepWaitsOnceForANodeThatIsDown(t *testing.T) {
	t.Parallel()
	const retry, many = time.Second, 12
	c := redistest.NewCluster(t, 0, redistest.Config("cluster-require-full-coverage no"), redistest.Config("cluster-node-timeout 60000"))
	clocked := clock.NewFake()
	e := openOn(t, fmt.Sprintf("%s&retry=%s", c.URL(), retry), clocked)
	down, up, below := c.Nodes()[0], "z", 0
	for c.For("duly:namespaces") == down {
		down = c.Nodes()[1]
	}
	for c.For("duly:{"+up+"/q/0}:config") == down || c.For("duly:{"+up+"}:configs") == down {
		up += "z" // behind the others
	}
	for i := 0; below < many; i++ {
		if ref := (duly.QueueRef{Namespace: fmt.Sprint("n", i), Name: "q"}); c.For(e.store.ConfigsKey(ref.Namespace)) == down {
			pushIn(t, e, ref)
			below++
		}
	}
	last := duly.QueueRef{Namespace: up, Name: "q"}
	pushIn(t, e, last)
	clocked.Advance(time.Hour)
	down.Kill()
	began := clock.Monotonic()
	if err := e.Sweep(t.Context()); duly.CodeOf(err) != duly.CodeUnavailable {
		t.Errorf("a sweep while a node is down: %v", err)
	}
	if took := clock.Monotonic() - began; took > many*retry/2 {
		t.Errorf("it takes %s: it waits for each of %d namespaces", took, many)
	}
	page, err := e.List(t.Context(), last, duly.ListParams{State: duly.StateReady}) // as the sets stand
	if err != nil || len(page.Jobs) != 1 {
		t.Errorf("%d jobs of the namespace behind them were moved, %v", len(page.Jobs), err)
	}
}

func pushIn(t *testing.T, e *Engine, ref duly.QueueRef) {
	t.Helper()
	r, err := e.Push(t.Context(), []duly.Job{{Namespace: ref.Namespace, Queue: ref.Name, Delay: time.Minute}})
	if err != nil || r[0].Err != nil {
		t.Fatal(r, err)
	}
}
