package redisengine_test

import (
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine"
)

// at opens an engine with the clock of a test.
func at(t *testing.T, url string, c duly.Clock) *redisengine.Engine {
	t.Helper()
	e, err := redisengine.Open(t.Context(), redisengine.Config{URL: url, Clock: c, Manual: true,
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// TestSweepReadsManyIdleShardsPerCall checks that a sweep makes one read-only call for every 250 idle shards, and
// one for every 100 shards with jobs. It steps none of these shards (C4.75).
func TestSweepReadsManyIdleShardsPerCall(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	e := at(t, server.URL(), clock.NewFake())
	idleQueues(t, e, 2, 10)
	for range 2 { // the first sweep reads the configurations
		server.Must("CONFIG", "RESETSTAT")
		if err := e.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	// Each of the two namespaces has 115 shards: one call each. Only one of them has shards with jobs:
	// one more call.
	if calls := scriptCalls(server); calls != "fcall_ro 3 " {
		t.Errorf("a sweep of 230 idle queues made the calls %s", calls)
	}
}

// idleQueues creates 230 queues, distributed over some namespaces: n0, n1 and so on. One in `every`
// queues has a delayed job.
func idleQueues(t *testing.T, e *redisengine.Engine, namespaces, every int) {
	t.Helper()
	for i := range 230 {
		ref := duly.QueueRef{Namespace: "n" + strconv.Itoa(i%namespaces), Name: "q" + strconv.Itoa(i)}
		must(t, e.Configure(t.Context(), ref, duly.QueueConfig{MaxJobs: 10}))
		if i%every == 0 {
			pushOne(t, e, duly.Job{Namespace: ref.Namespace, Queue: ref.Name, Delay: time.Hour})
		}
	}
}

// remake destroys a queue and creates it again, with this number of shards.
func remake(t *testing.T, e *redisengine.Engine, ref duly.QueueRef, shards int) {
	t.Helper()
	must(t, e.Destroy(t.Context(), ref))
	must(t, e.Configure(t.Context(), ref, duly.QueueConfig{Shards: shards}))
}

func pushOne(t *testing.T, e *redisengine.Engine, j duly.Job) {
	t.Helper()
	results, err := e.Push(t.Context(), []duly.Job{j})
	if err != nil || results[0].Err != nil {
		t.Fatal(results, err)
	}
}

// scriptCalls returns how often scripts were called since the last reset.
func scriptCalls(server *redistest.Server) (calls string) {
	stats := server.Must("INFO", "commandstats").(string)
	for _, m := range regexp.MustCompile(`cmdstat_(eval\w*|fcall\w*):calls=(\d+)`).FindAllStringSubmatch(stats, -1) {
		calls += fmt.Sprintf("%s %s ", m[1], m[2])
	}
	return calls
}

// TestSweepFindsOverdueJobs checks that a sweep steps overdue jobs, even in a queue that another
// process has changed, destroyed or created again since the last sweep (C4.75).
func TestSweepFindsOverdueJobs(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	c := clock.NewFake()
	e, other := at(t, withPrefix(server.URL(), prefix), c), at(t, withPrefix(server.URL(), prefix), c)
	ctx := t.Context()
	ref := func(name string) duly.QueueRef { return duly.QueueRef{Namespace: "some", Name: name} }
	take := func(name string) duly.Delivery {
		t.Helper()
		pushOne(t, e, duly.Job{Namespace: "some", Queue: name, Retain: time.Minute})
		got, err := e.Reserve(ctx, duly.ReserveParams{Namespace: "some", Queues: []string{name}, Max: 1})
		if err != nil || len(got) != 1 {
			t.Fatal(got, err)
		}
		return got[0]
	}
	settle := func(d duly.Delivery, as duly.Settlement) {
		t.Helper()
		if errs, err := e.Settle(ctx, "some", []duly.SettleRequest{{Receipt: d.Receipt, As: as}}); err != nil ||
			errs[0] != nil {
			t.Fatal(errs, err)
		}
	}
	for _, name := range []string{"due", "wide", "changed", "made"} {
		if err := e.Configure(ctx, ref(name), duly.QueueConfig{Shards: map[string]int{"wide": 8}[name]}); err != nil {
			t.Fatal(err)
		}
		for range 10 {
			pushOne(t, e, duly.Job{Namespace: "some", Queue: name, Delay: time.Minute})
		}
	}
	pushOne(t, e, duly.Job{Namespace: "some", Queue: "expired", Delay: time.Second, TTL: time.Minute})
	take("leased")
	settle(take("done"), duly.Ack)
	for name, patch := range map[string]duly.QueueConfig{"old": {DeadAge: time.Minute}, "many": {DeadCount: 1},
		"kept": {}} {
		settle(take(name), duly.Bury)
		settle(take(name), duly.Bury)
		if err := e.Configure(ctx, ref(name), patch); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Sweep(ctx); err != nil { // this sweep reads all configurations
		t.Fatal(err)
	}
	must(t, other.Configure(ctx, ref("changed"), duly.QueueConfig{MaxJobs: 100}))
	remake(t, other, ref("made"), 4)
	for range 10 {
		pushOne(t, other, duly.Job{Namespace: "some", Queue: "made", Delay: time.Minute})
	}
	c.Advance(2 * time.Minute)
	for range 2 { // the second sweep already has the changed configurations
		if err := e.Sweep(ctx); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]duly.Sizes{
		"due": {Ready: 10}, "wide": {Ready: 10}, "changed": {Ready: 10}, "made": {Ready: 10}, "leased": {Ready: 1},
		"kept": {Dead: 2}, "many": {Dead: 1},
	} {
		s, err := e.Stats(ctx, ref(name))
		// List does not move jobs between sets, so it shows what the sweep has done.
		page, err2 := e.List(ctx, ref(name), duly.ListParams{State: duly.StateReady})
		if err != nil || err2 != nil || s.Sizes != want || len(page.Jobs) != int(want.Ready) {
			t.Errorf("%s has the sizes %+v and lists %d ready jobs, want %+v (%v, %v)", name, s.Sizes, len(page.Jobs), want,
				err, err2)
		}
	}
	for _, name := range []string{"expired", "done", "old"} {
		if s, err := e.Stats(ctx, ref(name)); err != nil || s.Sizes != (duly.Sizes{}) {
			t.Errorf("%s has the sizes %+v, want none (%v)", name, s.Sizes, err)
		}
	}
}

// TestSweepContinuesAfterADamagedQueue checks that damage in one queue does not affect the
// others.
func TestSweepContinuesAfterADamagedQueue(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	c := clock.NewFake()
	e := at(t, withPrefix(server.URL(), prefix), c)
	for _, name := range []string{"a", "b", "c"} {
		pushOne(t, e, duly.Job{Queue: name, Delay: time.Minute})
	}
	server.Must("SET", prefix+":{default/b/0}:policies", "no hash")
	c.Advance(time.Hour)
	if err := e.Sweep(t.Context()); duly.CodeOf(err) != duly.CodeCorrupt {
		t.Errorf("Sweep returned %v, want %s", err, duly.CodeCorrupt)
	}
	for _, name := range []string{"a", "c"} {
		page, err := e.List(t.Context(), duly.Q(name), duly.ListParams{State: duly.StateReady})
		if err != nil || len(page.Jobs) != 1 {
			t.Errorf("%s lists %+v, %v", name, page, err)
		}
	}
}

// TestSweepContinuesAfterADamagedNamespace checks that a namespace whose list can't be read does
// not affect the others.
func TestSweepContinuesAfterADamagedNamespace(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	c := clock.NewFake()
	e := at(t, withPrefix(server.URL(), prefix), c)
	for _, namespace := range []string{"a", "b"} {
		pushOne(t, e, duly.Job{Namespace: namespace, Queue: "q", Delay: time.Minute})
	}
	server.Must("DEL", prefix+":{a}:configs")
	server.Must("SET", prefix+":{a}:configs", "no hash")
	c.Advance(time.Hour)
	if err := e.Sweep(t.Context()); duly.CodeOf(err) != duly.CodeCorrupt {
		t.Errorf("Sweep returned %v, want %s", err, duly.CodeCorrupt)
	}
	page, err := e.List(t.Context(), duly.QueueRef{Namespace: "b", Name: "q"}, duly.ListParams{State: duly.StateReady})
	if err != nil || len(page.Jobs) != 1 {
		t.Errorf("the other namespace lists %+v, %v", page, err)
	}
}
