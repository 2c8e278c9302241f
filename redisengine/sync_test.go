package redisengine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// syncRig is two processes that share a queue of eight shards on a cluster.
type syncRig struct {
	*testing.T
	c      *redistest.Cluster
	prefix string
	clock  *clock.Fake
	a, b   *Engine
	ref    duly.QueueRef
}

const syncShards = 8

func newTreaty(t *testing.T) *syncRig {
	c, prefix := redistest.SharedCluster(t)
	x := &syncRig{T: t, c: c, prefix: prefix, clock: clock.NewFake(), ref: duly.Q("q").Normal()}
	x.a, x.b = x.process(), x.process()
	x.must(x.a.Configure(t.Context(), x.ref, duly.QueueConfig{Shards: syncShards}))
	return x
}

func (x *syncRig) process() *Engine {
	x.Helper()
	return openOn(x.T, x.c.URL()+"&prefix="+x.prefix, x.clock)
}

func (x *syncRig) must(err error) {
	x.Helper()
	if err != nil {
		x.Fatal(err)
	}
}

// push pushes n jobs into a shard.
func (x *syncRig) push(e *Engine, shard, n int) {
	x.Helper()
	var jobs []duly.Job
	for len(jobs) < n {
		j := duly.Job{Queue: x.ref.Name, Made: true}
		if j.ID = duly.MakeID(&j); contract.ShardOf(j.ID, syncShards) == shard {
			jobs = append(jobs, j)
		}
	}
	results, err := e.Push(x.Context(), jobs)
	x.must(err)
	for _, r := range results {
		x.must(r.Err)
	}
}

// take returns how many jobs a Reserve gets.
func (x *syncRig) take(e *Engine, most int) int {
	x.Helper()
	got, err := e.Reserve(x.Context(), duly.ReserveParams{Queues: []string{x.ref.Name}, Max: most, Lease: time.Minute})
	x.must(err)
	return len(got)
}

func (x *syncRig) key(shard int, name string) string {
	return store.ShardTag(x.prefix, x.ref, shard) + name
}

// kept returns the configuration that a shard has, or "".
func (x *syncRig) kept(shard int) string {
	x.Helper()
	return plainOrNone(x.c.For(x.key(shard, "config")).Must("GET", x.key(shard, "config")))
}

// listed returns the queue's entry in the list.
func (x *syncRig) listed() string {
	x.Helper()
	key := x.a.store.ConfigsKey(x.ref.Namespace)
	return plainOrNone(x.c.For(key).Must("HGET", key, x.ref.Name))
}

func plainOrNone(v any) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}

// agreed checks that the list and all shards have the same configuration, with the given
// max_leased.
func (x *syncRig) agreed(why string, maxLeased int) {
	x.Helper()
	value := x.listed()
	q, err := x.a.catalog.ReadQueue(x.ref, value)
	if err != nil || q.Config.MaxLeased != maxLeased {
		x.Errorf("%s: the list has %q, %v", why, value, err)
	}
	for i := range syncShards {
		if got := x.kept(i); got != value {
			x.Errorf("%s: shard %d has %q, but the list has %q", why, i, got, value)
		}
	}
}

// held returns all data of a shard.
func (x *syncRig) held(shard int) (all string) {
	x.Helper()
	for _, name := range store.ShardKeys {
		key := x.key(shard, name)
		all += plainOrNone(x.c.For(key).Must("DUMP", key)) + "\n"
	}
	return all
}

// TestShardsRejectCallsOfAnotherConfiguration checks that every shard stores the configuration with
// its version, and rejects a call that was computed with another version (C10.15). A rejected call
// changes nothing, and is repeated with the list's configuration.
func TestShardsRejectCallsOfAnotherConfiguration(t *testing.T) {
	t.Parallel()
	x := newTreaty(t)
	x.agreed("made", duly.None)
	const shard = 3
	x.push(x.b, shard, 3)
	old := x.b.catalog.Cache.Get(x.ref)
	x.must(x.a.Configure(t.Context(), x.ref, duly.QueueConfig{MaxLeased: syncShards}))
	x.agreed("changed", syncShards)

	before := x.held(shard)
	s := old.Shards[shard]
	for _, c := range []struct {
		*store.Script
		args []string
	}{
		{store.ScriptReserve, []string{s.Limits, "10", "0", "1000", "0"}},
		{store.ScriptDelete, []string{s.Limits, "", codec.Alias("x")}},
		{store.ScriptStep, []string{s.Limits}},
		{store.ScriptPush, []string{s.Limits, "", "", "0", "", "", "", "0", "1", "0123456789abcdef", "record"}},
		{store.ScriptSettle, []string{s.Limits, "0123456789abcdef"}},
		{store.ScriptExtend, []string{s.Limits, "1000000", "0123456789abcdef1"}},
		{store.ScriptStats, []string{s.Limits, ""}},
		{store.ScriptPurge, []string{s.Limits, "ready", "10"}},
	} {
		_, err := x.b.catalog.Call(t.Context(), old, s, c.Script, c.args...)
		var other *catalog.Stale
		if !errors.As(err, &other) || other.Value != x.listed() {
			t.Errorf("%s returned %v, want the shard's configuration", c.Name, err)
		}
	}
	if x.held(shard) != before {
		t.Error("a call with another configuration has changed the shard")
	}
	// The limit allows one leased job in each of the eight shards.
	if n := x.take(x.b, 10); n != 1 {
		t.Errorf("a process with an old configuration reserved %d jobs, want 1", n)
	}
	if got := x.b.catalog.Cache.Get(x.ref); got == old || got.Config.MaxLeased != syncShards {
		t.Errorf("the process has cached %+v", got.Config)
	}
}

// TestNextCallUpdatesAStaleShard checks that creating and changing a queue goes from the list to
// the shards (C10.15). If a process dies in between, the next call of any process finishes the
// work.
func TestNextCallUpdatesAStaleShard(t *testing.T) {
	t.Parallel()
	x := newTreaty(t)
	x.push(x.b, 1, 2)
	was := x.a.catalog.Cache.Get(x.ref)
	cfg := was.Config
	cfg.MaxLeased = syncShards
	now, err := x.a.catalog.Replace(t.Context(), was, catalog.PackConfig(x.a.catalog.NextVersion(was.Value), cfg, false))
	x.must(err) // here the process that changes the configuration dies
	fresh := x.process()
	for i := range syncShards {
		x.push(fresh, i, 2)
		if x.kept(i) != now.Value {
			t.Errorf("shard %d has the old configuration", i)
		}
	}
	x.agreed("updated by the next calls", syncShards)
	if n := x.take(x.b, 100); n != syncShards {
		t.Errorf("reserved %d jobs, want one of each shard", n)
	}

	// This shard has no configuration, because its node has lost it.
	x.c.For(x.key(5, "config")).Must("DEL", x.key(5, "config"))
	x.push(x.b, 5, 1)
	x.agreed("after a loss", syncShards)

	// After the list has lost a change, the next configuration gets a version above both.
	newer := catalog.PackConfig(x.a.catalog.NextVersion(now.Value), cfg, false)
	key := x.key(6, "config")
	x.c.For(key).Must("SET", key, newer)
	x.push(x.b, 6, 1)
	if got := x.listed(); got[:catalog.VersionSize] <= newer[:catalog.VersionSize] {
		t.Errorf("the list has %q, want a version above %q", got, newer)
	}
}

// TestQueueKnownOnlyToItsShardsIsRestored checks that a client adds a queue to the namespace's
// list if it finds the queue only in its shards (C10.15).
func TestQueueKnownOnlyToItsShardsIsRestored(t *testing.T) {
	t.Parallel()
	x := newTreaty(t)
	x.must(x.a.Configure(t.Context(), x.ref, duly.QueueConfig{MaxLeased: 3 * syncShards}))
	x.push(x.a, 2, 1)
	for _, key := range []string{x.a.store.ConfigsKey(x.ref.Namespace), x.a.store.NamesKey(x.ref.Namespace)} {
		x.c.For(key).Must("DEL", key)
	}
	x.push(x.process(), 4, 1)
	x.push(x.b, 2, 1)
	q, err := x.a.catalog.ReadQueue(x.ref, x.listed())
	if err != nil || q.Config.MaxLeased != 3*syncShards || q.Config.Shards != syncShards {
		t.Errorf("the restored queue is %+v, %v", q, err)
	}
	page, err := x.b.Queues(t.Context(), "", duly.PageParams{})
	if err != nil || fmt.Sprint(page.Names) != "[q]" {
		t.Errorf("the list has %v, %v", page.Names, err)
	}
	if n := x.take(x.b, 10); n != 3 {
		t.Errorf("reserved %d jobs, want 3", n)
	}
}

// TestInterruptedDestroyIsFinished checks that Destroy changes first the list, then the shards,
// then the list again (C10.15). A process that finds an emptied shard finishes the Destroy.
func TestInterruptedDestroyIsFinished(t *testing.T) {
	t.Parallel()
	x := newTreaty(t)
	for i := range syncShards {
		x.push(x.b, i, 1)
	}
	was := x.a.catalog.Cache.Get(x.ref)
	tomb, err := x.a.catalog.Replace(t.Context(), was, catalog.PackConfig(x.a.catalog.NextVersion(was.Value), was.Config,
		true))
	x.must(err)
	half := *tomb
	half.Shards = tomb.Shards[:3]
	x.emptied(&half) // here the process that destroys the queue dies
	if x.kept(0) != tomb.Value || x.kept(7) != was.Value || x.listed() != tomb.Value {
		t.Fatal("the queue is not half destroyed")
	}
	// The other process finds an emptied shard, and then creates the queue again with one shard.
	x.push(x.b, 0, 1)
	for i := range syncShards {
		if want := map[bool]string{true: x.listed(), false: tomb.Value}[i == 0]; x.kept(i) != want {
			t.Errorf("after the queue was created again, shard %d has %q, want %q", i, x.kept(i), want)
		}
	}
	if got := x.listed(); got[8:catalog.VersionSize] == was.Value[8:catalog.VersionSize] {
		t.Error("the new queue has the epoch mark of the old one")
	}
	if n := x.take(x.b, 100); n != 1 {
		t.Errorf("the queue has %d jobs, want only the new one", n)
	}
	x.must(x.a.Destroy(t.Context(), x.ref))
	for i := range syncShards {
		if !strings.Contains(x.kept(i), `"gone":true`) || x.listed() != "" {
			t.Errorf("after Destroy shard %d has %q, and the list has %q", i, x.kept(i), x.listed())
		}
	}
}

// emptied does the second step of Destroy to shards.
func (x *syncRig) emptied(q *catalog.Queue) {
	x.Helper()
	for _, s := range q.Shards {
		_, err := x.a.store.Link.Run(context.Background(), catalog.DestroyCall(q, s))
		x.must(err)
	}
}
