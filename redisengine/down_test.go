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

// openQuietly opens an engine without a log.
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
		_, _ = e.Wait(t.Context(), duly.WaitParams{Namespace: ref.Namespace, Queues: []string{ref.Name},
			Timeout: duly.MaxWait})
	}()
	redistest.Await(t, "it waits", func() bool { return e.Waiters() > before })
}

// TestCloseWhileTheServerIsDown checks that a process with due timers of many shards closes soon,
// although the server that must take them back is down.
func TestCloseWhileTheServerIsDown(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	const shards, retry = 64, 300 * time.Millisecond
	e := openQuietly(t, fmt.Sprintf("%s?retry=%s&shards=%d", server.URL(), retry, shards))
	jobs := make([]duly.Job, 40*shards)
	for i := range jobs {
		// The IDs spread the jobs, so that every shard has some.
		jobs[i] = duly.Job{Queue: "q", ID: fmt.Sprintf("job%d", i), Delay: time.Hour}
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
		t.Errorf("Close took %s: it returned the due timers one by one", took)
	}
}

// TestCloseWhileTheServerHangs checks that a hung server with open connections does not delay
// Close, and that Close answers callers without a deadline.
func TestCloseWhileTheServerHangs(t *testing.T) {
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
		// The watch is one of these three tasks.
		return e.store.Tasks.Running() >= 3
	})
	began := clock.Monotonic()
	e.Close()
	if took := clock.Monotonic() - began; took > 3*closeLimit {
		t.Errorf("Close took %s", took)
	}
	for _, answer := range []chan error{pushed, reserved} {
		if err := <-answer; !errors.Is(err, duly.ErrClosed) {
			t.Errorf("got %v, want closed", err)
		}
	}
}

// TestSweepEndsWithItsContext checks that a Sweep which waits for another one ends with its
// context.
func TestSweepEndsWithItsContext(t *testing.T) {
	t.Parallel()
	server, _ := redistest.Shared(t)
	e := openQuietly(t, server.URL())
	e.Sweeps.Turn <- struct{}{}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := e.Sweep(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a Sweep that waits for another returned %v", err)
	}
	<-e.Sweeps.Turn
}

// TestLookDoesNotWaitForAHungNode checks that a namespace on a hung node does not delay the look
// at queues on other nodes (C5.17).
func TestLookDoesNotWaitForAHungNode(t *testing.T) {
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

// TestOpenWhileANodeIsDown checks that a process which starts while any node of a cluster is down
// serves the queues on the other nodes.
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
			got, err := openQuietly(t, c.URL()).Reserve(t.Context(), duly.ReserveParams{Namespace: namespace,
				Queues: []string{"q"}, Max: 1})
			if err != nil || len(got) != 1 {
				t.Errorf("got %d jobs, %v", len(got), err)
			}
		})
	}
}

// TestSweepWaitsOnceForANodeThatIsDown checks that a sweep waits only once for a node that is
// down, however many namespaces have their lists there, and continues with the others (C4.75).
func TestSweepWaitsOnceForANodeThatIsDown(t *testing.T) {
	t.Parallel()
	const retry, many = time.Second, 12
	c := redistest.NewCluster(t, 0, redistest.Config("cluster-require-full-coverage no"),
		redistest.Config("cluster-node-timeout 60000"))
	clocked := clock.NewFake()
	e := openOn(t, fmt.Sprintf("%s&retry=%s", c.URL(), retry), clocked)
	down, up, below := c.Nodes()[0], "z", 0
	for c.For("duly:namespaces") == down {
		down = c.Nodes()[1]
	}
	for c.For("duly:{"+up+"/q/0}:config") == down || c.For("duly:{"+up+"}:configs") == down {
		// The name of this namespace must sort after the names of the other namespaces.
		up += "z"
	}
	for i := 0; below < many; i++ {
		if ref := (duly.QueueRef{Namespace: fmt.Sprint("n", i),
			Name: "q"}); c.For(e.store.ConfigsKey(ref.Namespace)) == down {
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
		t.Errorf("a Sweep while a node is down returned %v", err)
	}
	if took := clock.Monotonic() - began; took > many*retry/2 {
		t.Errorf("Sweep took %s: it waited for each of %d namespaces", took, many)
	}
	// List does not move jobs between sets, so it shows what the sweep has done.
	page, err := e.List(t.Context(), last, duly.ListParams{State: duly.StateReady})
	if err != nil || len(page.Jobs) != 1 {
		t.Errorf("%d jobs of the last namespace were moved, %v", len(page.Jobs), err)
	}
}

func pushIn(t *testing.T, e *Engine, ref duly.QueueRef) {
	t.Helper()
	r, err := e.Push(t.Context(), []duly.Job{{Namespace: ref.Namespace, Queue: ref.Name, Delay: time.Minute}})
	if err != nil || r[0].Err != nil {
		t.Fatal(r, err)
	}
}
