package redisengine_test

import (
	"errors"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/redistest"
)

// TestFullMemoryRefusesOnlyPushes checks that a server with full memory refuses only calls that
// need more memory (fault D4). With free memory it works as before.
//
// C9.11, C9.12
func TestFullMemoryRefusesOnlyPushes(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	e, ctx := open(t, server.URL()), t.Context()
	push := func(queue string) error {
		results, err := e.Push(ctx, []duly.Job{{Queue: queue, Body: make([]byte, 4000)}})
		if err == nil {
			err = results[0].Err
		}
		return err
	}
	for range 200 {
		must(t, push("q"))
	}
	must(t, push("paused"))
	must(t, push("other"))
	take := func(n int) []duly.Delivery {
		t.Helper()
		ds, err := e.Reserve(ctx, duly.ReserveParams{Queues: []string{"q"}, Max: n, Lease: time.Minute})
		if err != nil || len(ds) != n {
			t.Fatalf("reserve %d on a full server: %d jobs, %v", n, len(ds), err)
		}
		return ds
	}
	settle := func(o duly.SettleRequest) {
		t.Helper()
		errs, err := e.Settle(ctx, "", []duly.SettleRequest{o})
		must(t, errors.Join(append(errs, err)...))
	}
	server.Must("CONFIG", "SET", "maxmemory", "1")
	for _, queue := range []string{"q", "new"} {
		if err := push(queue); !errors.Is(err, duly.ErrFull) {
			t.Errorf("a push to %s on a full server: %v, want full", queue, err)
		}
	}
	d := take(1)[0]
	if err := e.Update(ctx, duly.Q("q"), peek(t, e), duly.Update{Body: make([]byte, 5000)}); !errors.Is(err,
		duly.ErrFull) {
		t.Errorf("an update on a full server: %v, want full", err)
	}
	errs, err := e.Extend(ctx, "", []duly.Receipt{d.Receipt}, time.Hour)
	must(t, errors.Join(append(errs, err)...))
	settle(duly.SettleRequest{Receipt: d.Receipt, As: duly.Bury, Error: "no"})
	if _, err := e.Requeue(ctx, duly.Q("q"), duly.RequeueParams{N: 1}); err != nil {
		t.Errorf("requeue on a full server: %v", err)
	}
	settle(duly.SettleRequest{Receipt: take(1)[0].Receipt, As: duly.Nack, Error: "no"})
	settle(duly.SettleRequest{Receipt: take(1)[0].Receipt, As: duly.Release})
	must(t, e.Promote(ctx, duly.Q("q"), d.ID))
	must(t, e.Delete(ctx, duly.Q("q"), peek(t, e)))
	must(t, e.Pause(ctx, duly.Q("paused")))
	must(t, e.Resume(ctx, duly.Q("paused")))
	must(t, e.Destroy(ctx, duly.Q("other")))
	if _, err := e.Purge(ctx, duly.Q("paused"), duly.StateReady, 0); err != nil {
		t.Errorf("purge on a full server: %v", err)
	}
	st, err := e.Stats(ctx, duly.Q("q"))
	must(t, err)
	for n := st.Sizes.Ready + st.Sizes.Delayed; n > 0; {
		ds, err := e.Reserve(ctx, duly.ReserveParams{Queues: []string{"q"}, Max: 50, Lease: time.Minute})
		must(t, err)
		for _, d := range ds {
			settle(duly.SettleRequest{Receipt: d.Receipt, As: duly.Ack})
		}
		n -= int64(len(ds))
		if len(ds) == 0 {
			_, err := e.Wait(ctx, duly.WaitParams{Queues: []string{"q"}, Timeout: time.Second})
			must(t, err)
		}
	}
	server.Must("CONFIG", "SET", "maxmemory", "0")
	must(t, push("q"))
	must(t, push("new"))
	report, err := e.Check(ctx, contract.CheckParams{})
	if err != nil || len(report.Faults) > 0 {
		t.Errorf("Check: %v, %+v", err, report.Faults)
	}
}

// peek returns the ID of the first ready job.
func peek(t *testing.T, e contract.Inspector) string {
	t.Helper()
	j, err := e.Peek(t.Context(), duly.Q("q"))
	must(t, err)
	return j.ID
}

// TestDemotedServerIsUnavailableUntilPromoted checks that a primary which became a replica is
// unavailable for writes until it is the primary again (fault F9).
//
// C11.13
func TestDemotedServerIsUnavailableUntilPromoted(t *testing.T) {
	t.Parallel()
	server, other := redistest.Single(t), redistest.Single(t)
	e := open(t, server.URL()+"?retry=100ms")
	push := func() error {
		results, err := e.Push(t.Context(), []duly.Job{{Queue: "q"}})
		if err == nil {
			err = results[0].Err
		}
		return err
	}
	must(t, push())
	server.Must("CONFIG", "SET", "replica-serve-stale-data", "yes")
	host := "127.0.0.1"
	server.Must("REPLICAOF", host, other.Addr()[len(host)+1:])
	if err := push(); !errors.Is(err, duly.ErrUnavailable) {
		t.Errorf("a push to a replica: %v, want unavailable", err)
	}
	server.Must("REPLICAOF", "NO", "ONE")
	redistest.Await(t, "it serves again", func() bool { return push() == nil })
}

// TestPushWaitsForItsReplica checks that a push without confirmation by its replica is
// not_durable, and that the same push confirms it (C9.7, C9.8, C13.10).
func TestPushWaitsForItsReplica(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	replica := server.Replica()
	e := open(t, server.URL()+"?durability=replicas:1&durability_timeout=200ms")
	j := duly.Job{Queue: "q", ID: "x"}
	push := func() duly.PushResult {
		t.Helper()
		results, err := e.Push(t.Context(), []duly.Job{j})
		must(t, err)
		return results[0]
	}
	redistest.Await(t, "the replica confirms", func() bool {
		j.ID = duly.NewNumber().String()
		return push().Err == nil
	})
	replica.Pause()
	j.ID = "y"
	if r := push(); !errors.Is(r.Err, duly.ErrNotDurable) || r.Status != duly.Created {
		t.Errorf("a push with a silent replica: %+v, want created and not_durable", r)
	}
	if r := push(); !errors.Is(r.Err, duly.ErrNotDurable) || r.Status != duly.Exists {
		t.Errorf("its repeat: %+v, want exists and not_durable", r)
	}
	replica.Continue()
	redistest.Await(t, "the repeat confirms it", func() bool {
		r := push()
		return r.Err == nil && r.Status == duly.Exists
	})
}
