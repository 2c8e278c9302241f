package redisengine_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine"
)

// bothWays runs a test twice: on a queue of one shard and on a queue of four.
func bothWays(t *testing.T, f func(t *testing.T, shards int)) {
	for _, shards := range []int{1, 4} {
		t.Run(fmt.Sprintf("%dShards", shards), func(t *testing.T) {
			t.Parallel()
			f(t, shards)
		})
	}
}

// TestCheckRestoresTheListOfANamespace checks that Check restores lost entries of the namespace's
// list.
func TestCheckRestoresTheListOfANamespace(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, shards int) {
		list := func(r *damageRig, key string) string { return r.prefix + ":{default}:" + key }
		t.Run("NotListed", func(t *testing.T) {
			r := newDamaged(t, shards, 1)
			r.do("ZREM", list(r, "queues"), damageQueue.Name)
			r.findAndMend("queue_not_listed")
		})
		t.Run("NotConfigured", func(t *testing.T) {
			r := newDamaged(t, shards, 1)
			r.do("DEL", list(r, "configs"))
			r.findAndMend("queue_not_configured")
			if c, err := r.e.Config(t.Context(), damageQueue); err != nil || c.Shards != shards {
				t.Errorf("Config returned %+v, %v", c, err)
			}
		})
		t.Run("NoSuchQueue", func(t *testing.T) {
			r := newDamaged(t, shards, 1)
			r.do("ZADD", list(r, "queues"), 0, "nobody")
			r.findAndMend("queue_not_configured")
		})
	})
}

// TestCheck checks that Check finds every possible fault in the keys, repairs nothing unless
// requested, and repairs each fault (C4.76, C4.77, C4.78, C4.79, C4.80, C4.81, fault D6).
func TestCheck(t *testing.T) {
	t.Parallel()
	for _, d := range damages {
		t.Run(strings.ReplaceAll(d.name, " ", ""), func(t *testing.T) {
			t.Parallel()
			bothWays(t, func(t *testing.T, shards int) {
				r := newDamaged(t, shards, 1)
				d.harm(r)
				r.findAndMend(d.found)
			})
		})
	}
}

// TestCheckRepairsAllFaultsInOneCall repairs all kinds of faults in one call.
func TestCheckRepairsAllFaultsInOneCall(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, shards int) {
		r := newDamaged(t, shards, 16)
		var kinds []string
		for _, d := range damages {
			d.harm(r)
			if !d.alone {
				kinds = append(kinds, d.found)
			}
		}
		r.findAndMend(kinds...)
	})
}

// TestCheckFindsAJobInTwoSets puts a job of every state into every other set.
func TestCheckFindsAJobInTwoSets(t *testing.T) {
	t.Parallel()
	states := map[string]string{"later": "delayed", "plain": "ready", "taken": "leased", "buried": "dead",
		"done": "done", "behind": "blocked", "head": "leased", "merging": "leased"}
	for kind, from := range states {
		for _, to := range []string{"delayed", "ready", "leased", "dead", "done"} {
			if from == to {
				continue
			}
			t.Run(kind+"And"+to, func(t *testing.T) {
				t.Parallel()
				r := newDamaged(t, 1, 1)
				v := r.take(kind)
				v.on("ZADD", to, r.clock.Now().UnixMilli(), v.number)
				r.findAndMend("job_in_two_sets")
			})
		}
	}
}

// TestCheckRepairsAMissingLeaseEntry checks that Check finds a delivered job without a lease entry and makes
// it ready. The old receipt is then void.
func TestCheckRepairsAMissingLeaseEntry(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, shards int) {
		r := openDamaged(t, shards, clock.NewFake())
		r.push(duly.Job{Body: []byte("taken")})
		lost := r.reserve()[0]
		r.locate()
		v := victim{r, r.jobs["taken"], "taken"}
		v.on("ZREM", "leased", v.number)
		r.clock.Advance(time.Hour)
		if got := r.reserve(); len(got) > 0 {
			t.Fatal("the job was delivered before the repair:", got)
		}
		r.locate()
		report := r.check(true)
		if len(report.Faults) != 1 || report.Faults[0].Kind != "job_in_no_set" || report.Faults[0].ID != lost.ID ||
			report.Repaired != 1 {
			t.Fatalf("the repair reported %+v", report)
		}
		again := r.reserve()
		if len(again) != 1 || again[0].ID != lost.ID {
			t.Fatal(again)
		}
		errs, err := r.e.Settle(t.Context(), "", []duly.SettleRequest{{Receipt: lost.Receipt, As: duly.Ack},
			{Receipt: again[0].Receipt, As: duly.Ack}})
		if err != nil || duly.CodeOf(errs[0]) != duly.CodeLeaseLost || errs[1] != nil {
			t.Fatal(errs, err)
		}
		r.sound()
	})
}

// TestUnreadableIsQuarantined checks that a repair turns an unreadable job into a dead letter
// with a reason and its remaining bytes (fault P6). Other jobs are delivered.
func TestUnreadableIsQuarantined(t *testing.T) {
	t.Parallel()
	r := newDamaged(t, 4, 1)
	r.take("own").inline("what is this")
	plain := r.take("plain")
	plain.on("HSET", "records", plain.number, "short")
	r.check(true)
	reasons := map[string]string{}
	for _, j := range r.list() {
		if j.State == duly.StateDead && j.LastError != "no" {
			reasons[string(j.Body)] = j.LastError
			if _, err := r.e.Get(t.Context(), damageQueue, j.ID); err != nil {
				t.Errorf("Get does not find %s by the ID in the list: %v", j.ID, err)
			}
		}
	}
	want := map[string]string{"own-0": "the stored job can't be read: its policy is damaged",
		"short": "the stored job can't be read: its record is damaged"}
	if fmt.Sprint(reasons) != fmt.Sprint(want) {
		t.Errorf("the dead jobs are %v, want %v", reasons, want)
	}
	r.gone["plain-0"] = true
	r.drain()
	r.sound()
}

// TestReserveRepairsDamage checks that damage is repaired without a call to Check (fault P6). A Reserve
// that fails on a damaged job starts a repair of the shard, and the next Reserves return its jobs.
// A job whose policy is damaged is delivered with the default policy.
func TestReserveRepairsDamage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		harm func(v victim)
		want []string
	}{
		"Record":   {func(v victim) { v.on("HSET", "records", v.number, "short") }, []string{"good"}},
		"Policy":   {func(v victim) { v.on("HSET", "policies", v.policyPlace(), "no policy") }, []string{"bad", "good"}},
		"OfItsOwn": {func(v victim) { v.inline("no policy") }, []string{"good"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := openDamaged(t, 1, clock.NewFake())
			r.push(duly.Job{ID: "bad", Body: []byte("bad"), Tries: 3}, duly.Job{ID: "good", Body: []byte("good")})
			r.locate()
			c.harm(victim{r, r.jobs["bad"], "bad"})
			var got []string
			var first error
			redistest.Await(t, "the jobs come", func() bool {
				ds, err := r.e.Reserve(t.Context(), duly.ReserveParams{Queues: []string{damageQueue.Name}, Max: 10})
				if first == nil {
					first = err
				}
				for _, d := range ds {
					got = append(got, d.ID)
				}
				return err == nil && len(got) >= len(c.want)
			})
			if first == nil {
				t.Error("the first Reserve returned no error")
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("reserved %v, want %v", got, c.want)
			}
			if s, err := r.e.Stats(t.Context(), damageQueue); err != nil || s.Sizes.Dead != int64(2-len(c.want)) {
				t.Errorf("the queue has the sizes %+v, %v", s.Sizes, err)
			}
			r.sound()
		})
	}
}

// TestLostRecordOfAStalledJobStopsNoReserve checks that a job whose record is lost, and that has
// stalled once, keeps no other job from being delivered.
func TestLostRecordOfAStalledJobStopsNoReserve(t *testing.T) {
	t.Parallel()
	server, c := redistest.Single(t), clock.NewFake()
	e, _ := tidyEngine(t, server.URL(), c)
	p := duly.ReserveParams{Queues: []string{"q"}, Max: 10, Lease: time.Second}
	push := func(id string) {
		results, err := e.Push(t.Context(), []duly.Job{{Queue: "q", ID: id}})
		must(t, err)
		must(t, results[0].Err)
	}

	push("lost")
	_, err := e.Reserve(t.Context(), p)
	must(t, err)
	c.Advance(2 * time.Second)
	_, err = e.Step(t.Context(), duly.Q("q"))
	must(t, err)
	server.Must("DEL", "duly:{default/q/0}:records")

	push("other")
	if ds, err := e.Reserve(t.Context(), p); err != nil || len(ds) != 1 || ds[0].ID != "other" {
		t.Errorf("Reserve returned %+v, %v, want the other job", ds, err)
	}
}

// TestJobsWithoutPoliciesUseTheDefaults checks that jobs whose policies are lost are delivered with
// the defaults, which a repair then stores.
func TestJobsWithoutPoliciesUseTheDefaults(t *testing.T) {
	t.Parallel()
	r := newDamaged(t, 1, 1)
	r.do("DEL", r.key(0, "policies"))
	p := duly.ReserveParams{Queues: []string{damageQueue.Name}, Max: 1000}
	got, err := r.e.Reserve(t.Context(), p)
	must(t, err)
	for _, d := range got {
		if d.Tries != duly.DefaultTries || d.MaxStalls != duly.DefaultMaxStalls || d.Lease != duly.DefaultLease ||
			d.Backoff != duly.DefaultBackoff {
			t.Errorf("%s is delivered as %+v", d.ID, d)
		}
		r.settle(duly.SettleRequest{Receipt: d.Receipt, As: duly.Release})
	}
	if len(got) == 0 {
		t.Error("nothing was delivered")
	}
	r.findAndMend("policy_missing")
}

// TestCheckAcceptsAnInlinePolicy checks that Check reports no fault for a record that contains its policy.
func TestCheckAcceptsAnInlinePolicy(t *testing.T) {
	t.Parallel()
	r := newDamaged(t, 1, 1)
	for _, kind := range []string{"own", "brief", "merged", "behind", "large", "head", "done", "until"} {
		v := r.take(kind)
		v.inline(v.hash("policies", v.policyPlace()))
	}
	// Check reports no fault for a policy with two indexes either.
	v := r.take("retry")
	v.on("HSET", "policies", "\xc8", v.hash("policies", v.policyPlace()))
	r.sound()
	r.drain()
	r.sound()
}

// TestCheckFindsAMissingMarker checks the fault that jobs are deliverable, but the marker is missing
// and no waiter is woken. It uses the server's clock.
func TestCheckFindsAMissingMarker(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, shards int) {
		r := openDamaged(t, shards, nil)
		r.push(duly.Job{Body: []byte("plain")})
		r.locate()
		v := victim{r, r.jobs["plain"], "plain"}
		v.on("ZREM", "marker", "now")
		report := r.check(true)
		if len(report.Faults) != 1 || report.Faults[0].Kind != "moment_missed" || report.Repaired != 1 {
			t.Fatalf("the repair reported %+v", report)
		}
		for _, said := range []string{"1 jobs are deliverable", "no job is lost", "within " + redisengine.Recheck.String()} {
			if detail := report.Faults[0].Detail; !strings.Contains(detail, said) || strings.Contains(detail, "\n") {
				t.Errorf("the fault's text %q lacks %q", detail, said)
			}
		}
		if score, _ := v.on("ZSCORE", "marker", "now").(string); score != "1" {
			t.Errorf("the marker has the score %q, want 1", score)
		}
		r.sound()
	})
}

// TestCheckAcceptsATakenMarker checks that Check reports no fault while a process takes the marker
// and reserves, even if the marker is taken again at Check's second look.
func TestCheckAcceptsATakenMarker(t *testing.T) {
	t.Parallel()
	r := openDamaged(t, 1, nil)
	r.push(duly.Job{Body: []byte("a")}, duly.Job{Body: []byte("b")})
	if _, err := r.e.Push(t.Context(), []duly.Job{{Queue: "then"}}); err != nil {
		t.Fatal(err)
	}
	take := func() { r.do("ZREM", r.key(0, "marker"), "now") }
	take()
	looks := 0
	report, err := r.e.Check(t.Context(), contract.CheckParams{Progress: func(int64, int64) {
		// This look reads the second queue, so the first queue was already checked.
		if looks++; looks == 2 {
			if got, err := r.e.Reserve(t.Context(), duly.ReserveParams{Queues: []string{damageQueue.Name},
				Max: 1}); err != nil || len(got) != 1 {
				t.Error(got, err)
			}
			take()
		}
	}})
	if err != nil || len(report.Faults) > 0 || looks != 2 {
		t.Errorf("Check found %+v, %v, in %d looks", report.Faults, err, looks)
	}
}

// TestCheckDuringOtherCalls checks that Check finds nothing while other callers push, reserve,
// extend, settle, delete, requeue and update jobs of every kind (C4.81).
func TestCheckDuringOtherCalls(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, shards int) {
		r := openDamaged(t, shards, nil)
		ctx, end := context.WithCancel(t.Context())
		var work sync.WaitGroup
		var done [4]atomic.Int64
		for i := range done {
			work.Go(func() {
				for ctx.Err() == nil {
					r.bustle(i, int(done[i].Load()))
					done[i].Add(1)
				}
			})
		}
		all := func(n int64) bool {
			for i := range done {
				if done[i].Load() < n {
					return false
				}
			}
			return true
		}
		rounds := 4
		if os.Getenv("DULY_LONG") != "" {
			rounds = 100
		}
		for checks := 0; checks < rounds || !all(int64(rounds)); checks++ {
			report, err := r.e.Check(t.Context(), contract.CheckParams{Repair: checks%2 == 1})
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range report.Faults {
				t.Errorf("check %d during other calls found %+v", checks, f)
			}
		}
		end()
		work.Wait()
	})
}

// bustle makes one random call, as one of the concurrent callers.
func (r *damageRig) bustle(who, turn int) {
	key := fmt.Sprint("k", turn%3)
	jobs := []duly.Job{
		{}, {Delay: 3 * time.Millisecond}, {TTL: 4 * time.Millisecond}, {OrderKey: key},
		{OrderKey: key, Delay: 2 * time.Millisecond},
		{OrderKey: key, TTL: 2 * time.Millisecond}, {Merge: duly.Merge{Key: key}, Delay: time.Millisecond},
		{Merge: duly.Merge{Key: key, Mode: duly.MergeReplace}, Priority: 3},
		{Merge: duly.Merge{Key: "u", Until: duly.UntilDone}},
		{ID: fmt.Sprintf("own-%d-%d", who, turn), Retain: time.Millisecond}, {Body: make([]byte, 9<<10)},
		{Tries: 1, Lease: 100 * time.Millisecond},
	}
	for i := range jobs {
		jobs[i].Queue = damageQueue.Name
	}
	results, err := r.e.Push(r.Context(), jobs)
	if err != nil {
		r.Error(err)
		return
	}
	for i, result := range results {
		switch (i + turn) % 7 {
		case 0:
			_ = r.e.Delete(r.Context(), damageQueue, result.ID)
		case 1:
			_ = r.e.Promote(r.Context(), damageQueue, result.ID)
		case 2:
			_ = r.e.Update(r.Context(), damageQueue, result.ID, duly.Update{Priority: &turn})
		}
	}
	got, err := r.e.Reserve(r.Context(), duly.ReserveParams{Queues: []string{damageQueue.Name}, Max: 20})
	if err != nil {
		r.Error(err)
	}
	outcomes := make([]duly.SettleRequest, 0, len(got))
	for i, d := range got {
		// The other deliveries are not settled, so their leases end.
		if i%9 < 8 {
			outcomes = append(outcomes, duly.SettleRequest{Receipt: d.Receipt,
				As: []duly.Settlement{duly.Ack, duly.Nack, duly.Release, duly.Bury}[(i+turn)%4]})
		}
	}
	if _, err := r.e.Settle(r.Context(), "", outcomes); err != nil {
		r.Error(err)
	}
	if _, err := r.e.Requeue(r.Context(), damageQueue, duly.RequeueParams{N: 3}); err != nil {
		r.Error(err)
	}
}
