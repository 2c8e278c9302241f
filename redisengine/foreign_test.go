package redisengine_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/enginetest"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// TestForeignKeyStopsAScriptBeforeItWrites checks that a script fails before it writes if another
// program has stored a wrong type under one of its keys (C11.17). It covers every key of every
// script call, in each form of the scripts.
func TestForeignKeyStopsAScriptBeforeItWrites(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("a short run looks for data races, and a script runs in the server's one thread")
	}
	for _, form := range scriptForms {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			x := newInterrupter(t, form)
			x.overAll(t, x.takeAllKeys, "met no foreign key")
		})
	}
}

// takeAllKeys runs an operation, and then repeats each of its script calls with each key replaced
// by a wrong type.
func (x *interrupter) takeAllKeys(o trial) {
	t := o.t
	before := x.snapshot(t)
	calls := x.listen(t, o.do)
	x.restore(t, before)
	for _, c := range calls {
		before := x.snapshot(t)
		n, err := strconv.Atoi(fmt.Sprint(c.args[0]))
		must(t, err)
		for _, key := range c.args[1 : n+1] {
			x.must(t, "DEL", key)
			x.must(t, "LPUSH", key, "what is this")
			digest := x.must(t, "DEBUG", "DIGEST")
			_, err := x.conn.Do(t.Context(), x.usual[c.name].with(c.args...)...)
			switch {
			case err == nil: // the script did not access this key
			case !strings.HasPrefix(err.Error(), "WRONGTYPE"):
				t.Errorf("%s with a foreign %s: %v", c.name, key, err)
			case x.must(t, "DEBUG", "DIGEST") != digest:
				t.Errorf("%s with a foreign %s failed after it had written", c.name, key)
			default:
				x.raised[c.name]++
			}
			x.restore(t, before)
		}
		x.must(t, x.usual[c.name].with(c.args...)...)
	}
}

// TestForeignKeyIsNamed checks that the error of a call that failed for a foreign key names the
// key and how to fix it. After the fix the call succeeds.
//
// C13.15
func TestForeignKeyIsNamed(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	for _, options := range []string{"", "&durability=replicas:1&durability_timeout=1ms"} {
		e := open(t, withPrefix(server.URL(), prefix)+options)
		must(t, e.Configure(t.Context(), duly.Q("q"), duly.QueueConfig{}))
		pushed := func() error {
			results, err := e.Push(t.Context(), []duly.Job{{Queue: "q"}})
			if err == nil && !errors.Is(results[0].Err, duly.ErrNotDurable) {
				err = results[0].Err
			}
			return err
		}
		reserve := func() error {
			_, err := e.Reserve(t.Context(), duly.ReserveParams{Queues: []string{"q"}, Max: 1})
			return err
		}
		for name, call := range map[string]func() error{"marker": pushed, "tally": pushed, "ready": pushed,
			"records": reserve, "config": reserve} {
			key := prefix + ":{default/q/0}:" + name
			must(t, pushed())
			had := server.Must("DUMP", key)
			server.Must("DEL", key)
			server.Must("LPUSH", key, "what is this")
			err := call()
			if !errors.Is(err, duly.ErrCorrupt) || !strings.Contains(err.Error(), strconv.Quote(key)) ||
				!strings.Contains(err.Error(), "duly check --repair") || strings.Contains(err.Error(), "\n") {
				t.Errorf("with a foreign %s: %v", name, err)
			}
			server.Must("DEL", key)
			if had != nil {
				server.Must("RESTORE", key, 0, had)
			}
			if err := call(); err != nil {
				t.Errorf("without the foreign %s: %v", name, err)
			}
		}
	}
	e := open(t, withPrefix(server.URL(), prefix))
	for key, call := range map[string]func() error{
		":{shop}:queues": func() error {
			return e.Configure(t.Context(), duly.QueueRef{Namespace: "shop", Name: "q"}, duly.QueueConfig{})
		},
		":{fair}:queues": func() error { _, err := e.Queues(t.Context(), "fair", duly.PageParams{}); return err },
		":{shop}:configs": func() error {
			_, err := e.Stats(t.Context(),
				duly.QueueRef{Namespace: "shop", Name: "q"})
			return err
		},
		":{tokens}:tokens": func() error { return e.PutToken(t.Context(), token("a")) },
		":{market/q/0}:config": func() error {
			_, err := e.Push(t.Context(),
				[]duly.Job{{Namespace: "market", Queue: "q"}})
			return err
		},
		":namespaces": func() error { _, err := e.Namespaces(t.Context(), duly.PageParams{}); return err },
	} {
		key = prefix + key
		server.Must("DEL", key)
		server.Must("LPUSH", key, "what is this")
		if err := call(); !errors.Is(err, duly.ErrCorrupt) || !strings.Contains(err.Error(), strconv.Quote(key)) {
			t.Errorf("with a foreign %s: %v", key, err)
		}
		server.Must("DEL", key)
	}
}

// TestPushReportsFailedQueuesPerJob checks that an unusable queue or shard is reported at its own
// jobs. The stored jobs are reported as stored.
//
// C4.4
func TestPushReportsFailedQueuesPerJob(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	e := open(t, withPrefix(server.URL(), prefix))
	must(t, e.Configure(t.Context(), duly.Q("wide"), duly.QueueConfig{Shards: 4}))
	must(t, e.Configure(t.Context(), duly.Q("well"), duly.QueueConfig{}))
	must(t, e.Configure(t.Context(), duly.Q("bad"), duly.QueueConfig{}))
	for _, key := range []string{store.ShardTag("", duly.Q("wide"), 2) + "ready", ":{default/bad/0}:ready"} {
		server.Must("LPUSH", prefix+key, "what is this")
	}
	var jobs []duly.Job
	for i := range 40 {
		jobs = append(jobs, duly.Job{Queue: "wide", ID: strconv.Itoa(i)})
	}
	jobs = append(jobs, duly.Job{Queue: "well"}, duly.Job{Queue: "bad"})
	for _, call := range [][]duly.Job{jobs[:40], jobs[40:], jobs} {
		results, err := e.Push(t.Context(), call)
		if err != nil {
			t.Fatalf("%d jobs: %v", len(call), err)
		}
		for i, r := range results {
			fails := call[i].Queue == "bad" || call[i].Queue == "wide" && contract.ShardOf(call[i].ID, 4) == 2
			if fails != errors.Is(r.Err, duly.ErrCorrupt) || fails != (r.Status == 0) {
				t.Errorf("%s %q: %+v", call[i].Queue, call[i].ID, r)
			}
		}
	}
	if results, err := e.Push(t.Context(), jobs[41:]); !errors.Is(err, duly.ErrCorrupt) || results != nil {
		t.Errorf("with nothing stored, Push returned %v, %v; want an error of the call", results, err)
	}
}

// TestSettleReportsFailedShardsPerReceipt checks that an unusable shard is reported at its own
// receipts. Receipts of other shards are settled, and reported as settled.
//
// C4.4
func TestSettleReportsFailedShardsPerReceipt(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	e := open(t, withPrefix(server.URL(), prefix))
	must(t, e.Configure(t.Context(), duly.Q("wide"), duly.QueueConfig{Shards: 4}))
	var jobs []duly.Job
	for i := range 40 {
		jobs = append(jobs, duly.Job{Queue: "wide", ID: strconv.Itoa(i)})
	}
	_, err := e.Push(t.Context(), jobs)
	must(t, err)
	ds, err := e.Reserve(t.Context(), duly.ReserveParams{Queues: []string{"wide"}, Max: len(jobs), Lease: time.Minute})
	must(t, err)
	leased := store.ShardTag("", duly.Q("wide"), 2) + "leased"
	server.Must("RENAME", prefix+leased, prefix+store.ShardTag("", duly.Q("wide"), 2)+"kept")
	server.Must("LPUSH", prefix+leased, "what is this")
	var receipts []duly.Receipt
	var outcomes, broken []duly.SettleRequest
	for _, d := range ds {
		o := duly.SettleRequest{Receipt: d.Receipt, As: duly.Ack}
		if contract.ShardOf(d.ID, 4) == 2 {
			broken = append(broken, o)
		}
		receipts, outcomes = append(receipts, d.Receipt), append(outcomes, o)
	}
	extended, err := e.Extend(t.Context(), "", receipts, time.Hour)
	must(t, err)
	settled, err := e.Settle(t.Context(), "",
		append(outcomes, duly.SettleRequest{Receipt: "q:0:01J0000000000000000000000A:1", As: duly.Ack}))
	must(t, err)
	for i, d := range ds {
		for _, err := range []error{extended[i], settled[i]} {
			if fails := contract.ShardOf(d.ID, 4) == 2; fails != errors.Is(err, duly.ErrCorrupt) || fails != (err != nil) {
				t.Errorf("%q: %v", d.ID, err)
			}
		}
	}
	if err := settled[len(ds)]; !errors.Is(err, duly.ErrLeaseLost) {
		t.Errorf("an unknown receipt returned %v", err)
	}
	if results, err := e.Settle(t.Context(), "", broken); !errors.Is(err, duly.ErrCorrupt) || results != nil {
		t.Errorf("with nothing settled, Settle returned %v, %v; want an error of the call", results, err)
	}
}

// TestUnreadableListEntryIsRepaired damages an entry of a namespace's list. Calls fail with one
// line that names the key. Check names the queue and continues with the others, and a repair
// makes its jobs available again.
//
// C13.15
func TestUnreadableListEntryIsRepaired(t *testing.T) {
	t.Parallel()
	good := "\x00\x06\x00\x00\x00\x00\x00\x01birthday"
	fields := `"layout":3,"tries":16,"max_stalls":8,"backoff":"exp:1s:1h","lease":30000000000,` +
		`"ttl":-1,"dead_age":1,"dead_count":1,"max_jobs":-1,"max_leased":-1,"rate":-1`
	for name, entry := range map[string]string{
		"short": "x", "garbage": "a text that is no configuration at all", "no JSON": good + "{",
		"no version": strings.Repeat("\xff", 16) + `{"shards":1,` + fields + `}`,
		"nothing":    good + "{}", "no shards": good + `{` + fields + `}`,
		"three shards": good + `{"shards":3,` + fields + `}`,
		"no defaults":  good + `{"layout":3,"shards":1}`, "no tries": good + `{"shards":1,` + strings.Replace(fields,
			`"tries":16`, `"tries":0`, 1) + `}`,
		"a wrong backoff": good + `{"shards":1,` + strings.Replace(fields, "exp:1s:1h", "soon", 1) + `}`,
	} {
		for _, lostShard := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " ", lostShard), func(t *testing.T) {
				t.Parallel()
				server, prefix := redistest.Shared(t)
				maker := open(t, withPrefix(server.URL(), prefix))
				// The limit is 25 leased jobs in each shard, so one Reserve can lease all jobs,
				// wherever they are.
				must(t, maker.Configure(t.Context(), duly.Q("q"), duly.QueueConfig{Shards: 4, MaxLeased: 100}))
				jobs := make([]duly.Job, 20)
				for i := range jobs {
					jobs[i].Queue = "q"
				}
				_, err := maker.Push(t.Context(), jobs)
				must(t, err)
				_, err = maker.Push(t.Context(), []duly.Job{{Queue: "other"}})
				must(t, err)
				server.Must("HSET", prefix+":{default}:configs", "q", entry)
				if lostShard {
					server.Must("SET", prefix+":{default/q/0}:config", strings.Repeat("\xff", 40))
				}
				e, log := openLogged(t, withPrefix(server.URL(), prefix))
				_, pushing := e.Push(t.Context(), []duly.Job{{Queue: "q"}})
				_, reserving := e.Reserve(t.Context(), duly.ReserveParams{Queues: []string{"q"}, Max: 1})
				_, looking := e.Stats(t.Context(), duly.Q("q"))
				for _, err := range []error{pushing, reserving, looking,
					e.Configure(t.Context(), duly.Q("q"), duly.QueueConfig{MaxJobs: 9}), e.Destroy(t.Context(), duly.Q("q"))} {
					if !errors.Is(err, duly.ErrCorrupt) || !strings.Contains(err.Error(), prefix+":{default}:configs") ||
						!strings.Contains(err.Error(), "duly check --repair") {
						t.Errorf("got %v, want corrupt with the key and the fix", err)
					}
				}
				report, err := e.Check(t.Context(), contract.CheckParams{})
				if err != nil || len(report.Faults) != 1 || report.Faults[0].Kind != "queue_unreadable" ||
					report.Faults[0].Queue.Name != "q" || report.Jobs != 1 {
					t.Errorf("Check found %+v, %v", report, err)
				}
				report, err = e.Check(t.Context(), contract.CheckParams{Repair: true})
				if err != nil || report.Repaired != len(report.Faults) || report.Jobs != 21 {
					t.Errorf("the repair reported %+v, %v; log %s", report, err, log)
				}
				ds, err := e.Reserve(t.Context(), duly.ReserveParams{Queues: []string{"q"}, Max: 100})
				c, err2 := e.Config(t.Context(), duly.Q("q"))
				if err != nil || err2 != nil || len(ds) != 20 || c.Shards != 4 || !lostShard && c.MaxLeased != 100 {
					t.Errorf("reserved %d jobs, %v; the queue is %+v, %v", len(ds), err, c, err2)
				}
				if report, err = e.Check(t.Context(), contract.CheckParams{}); err != nil || len(report.Faults) > 0 {
					t.Errorf("after the repair Check found %+v, %v", report, err)
				}
			})
		}
	}
}

// TestLateConfigurationOfADestroyedQueueIsRefused checks that a configuration which arrives after
// its queue was destroyed does not create the queue again.
//
// C10.15
func TestLateConfigurationOfADestroyedQueueIsRefused(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	e, log := openLogged(t, withPrefix(server.URL(), prefix))
	late := duly.Q("q")
	must(t, e.Configure(t.Context(), late, duly.QueueConfig{MaxLeased: 7, Shards: 2}))
	send := e.LateConfigure(late)
	must(t, e.Destroy(t.Context(), late))
	must(t, send(t.Context()))
	for i := range 2 {
		key := store.ShardTag(prefix, duly.Q("q"), i) + "config"
		if held := fmt.Sprint(server.Must("GET", key)); !strings.Contains(held, `"gone":true`) {
			t.Errorf("shard %d has the configuration %q", i, held)
		}
		if left := server.Must("PTTL", key).(int64); left <= 0 || left > 600_000 {
			t.Errorf("shard %d keeps its mark for %d ms", i, left)
		}
	}
	fresh := open(t, withPrefix(server.URL(), prefix))
	for _, e := range []contract.Engine{e, fresh} {
		c, err := e.Config(t.Context(), late)
		names, err2 := e.Queues(t.Context(), "", duly.PageParams{})
		if err != nil || err2 != nil || c.MaxLeased != duly.None || len(names.Names) > 0 {
			t.Errorf("the queue is %+v, %v; there are %v, %v", c, err, names.Names, err2)
		}
	}
	_, err := e.Push(t.Context(), []duly.Job{{Queue: "q"}})
	must(t, err)
	must(t, send(t.Context()))
	ds, err := fresh.Reserve(t.Context(), duly.ReserveParams{Queues: []string{"q"}, Max: 10})
	c, err2 := fresh.Config(t.Context(), late)
	if err != nil || err2 != nil || len(ds) != 1 || c.MaxLeased != duly.None || c.Shards != 1 ||
		log.Count("store reset") != 0 {
		t.Errorf("the new queue is %+v, %v, and Reserve returned %v, %v; log %s", c, err2, ds, err, log)
	}
}

// TestDestroyedQueueIsCreatedAgainByASlowClock checks that a process whose clock is behind that
// of the destroying process can create the queue again.
func TestDestroyedQueueIsCreatedAgainByASlowClock(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	ahead, behind := clock.NewFake(), clock.NewFake()
	ahead.Step(1000 * 3600 * 1e9)
	e := openOn(t, func(testing.TB) string { return withPrefix(server.URL(), prefix) }, ahead, enginetest.Options{})
	defer e.Close()
	other := openOn(t, func(testing.TB) string { return withPrefix(server.URL(), prefix) }, behind, enginetest.Options{})
	defer other.Close()
	for range 3 {
		must(t, e.Configure(t.Context(), duly.Q("q"), duly.QueueConfig{Shards: 2}))
		must(t, e.Destroy(t.Context(), duly.Q("q")))
		results, err := other.Push(t.Context(), slices.Repeat([]duly.Job{{Queue: "q"}}, 5))
		must(t, err)
		for _, r := range results {
			must(t, r.Err)
		}
		if st, err := e.Stats(t.Context(), duly.Q("q")); err != nil || st.Counters.Pushed != 5 {
			t.Errorf("the stats are %+v, %v", st, err)
		}
		must(t, other.Destroy(t.Context(), duly.Q("q")))
	}
}
