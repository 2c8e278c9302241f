package pools_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/pools"
)

// What a queue is set to is not lost when a move is turned around: that of one
// that was removed from the first pool already, and of one that only the second
// has; also where a push was quicker, or who turned it around dies thereafter.
func TestSettingsComeBackWhenAMoveIsTurnedAround(t *testing.T) {
	t.Parallel()
	for _, died := range []bool{false, true} {
		r := newRig(t, "orders")
		ctx := t.Context()
		removed, late, single, kept := shop, duly.QueueRef{Namespace: "shop", Name: "late"}, duly.QueueRef{Namespace: "shop", Name: "single"}, duly.QueueRef{Namespace: "shop", Name: "kept"}
		r.must(r.Configure(ctx, removed, duly.QueueConfig{MaxJobs: 77, DeadAge: time.Hour, Shards: 4, Rate: duly.Rate{PerSecond: 5, Burst: 9}, Defaults: duly.Defaults{Tries: 3}}))
		r.must(r.Pause(ctx, removed))
		r.must(r.Configure(ctx, kept, duly.QueueConfig{MaxLeased: 4}))
		r.push("shop", "kept", "x")
		r.move("shop", "orders")
		r.carryOn()
		r.must(r.Configure(ctx, late, duly.QueueConfig{MaxLeased: 3}))
		r.must(r.Configure(ctx, single, duly.QueueConfig{MaxJobs: 1}))
		if left := r.left(contract.DefaultPool); !slices.Equal(left, []string{"kept"}) {
			t.Fatalf("in the first pool are %v", left)
		}
		if died {
			where, err := r.Where(ctx, "shop")
			r.must(err)
			where.Pool, where.From = where.From, where.Pool
			r.must(r.engines[contract.DefaultPool].PutPlacement(ctx, where))
			r.push("shop", "late", "quick")
		} else {
			_, err := r.Move(ctx, "shop", contract.DefaultPool)
			r.must(err)
			if c, err := r.Config(ctx, single); err != nil || c.MaxJobs != 1 {
				t.Errorf("a bound of one job is %+v, %v", c, err)
			}
		}
		r.end("shop")
		c, err := r.Config(ctx, removed)
		if err != nil || c.MaxJobs != 77 || c.DeadAge != time.Hour || c.Shards != 4 && !died || c.Rate != (duly.Rate{PerSecond: 5, Burst: 9}) || c.Defaults.Tries != 3 || !c.Paused {
			t.Errorf("died %v: the removed queue is %+v, %v", died, c, err)
		}
		if c, err := r.Config(ctx, late); err != nil || c.MaxLeased != 3 || c.Paused {
			t.Errorf("died %v: the late queue is %+v, %v", died, c, err)
		}
		if c, err := r.Config(ctx, kept); err != nil || c.MaxLeased != 4 {
			t.Errorf("died %v: the kept queue is %+v, %v", died, c, err)
		}
	}
}

// A stray queue's settings do not come to the queue that is in use.
func TestStraySettingsAreNotBrought(t *testing.T) {
	t.Parallel()
	r := newRig(t, "logs")
	r.pushJob(duly.Job{ID: "x"})
	r.must(r.engines["logs"].Configure(t.Context(), shop, duly.QueueConfig{MaxJobs: 5}))
	r.must(r.engines["logs"].Pause(t.Context(), shop))
	alone := duly.QueueRef{Namespace: "shop", Name: "alone"} // not at home
	r.must(r.engines["logs"].Configure(t.Context(), alone, duly.QueueConfig{MaxJobs: 7}))
	if p, err := r.Move(t.Context(), "shop", contract.DefaultPool); err != nil || p.From != "logs" {
		t.Fatalf("%+v, %v", p, err)
	}
	r.end("shop")
	if c, err := r.Config(t.Context(), shop); err != nil || c.MaxJobs != duly.None || c.Paused {
		t.Errorf("it is %+v, %v", c, err)
	}
	if c, err := r.Config(t.Context(), alone); err != nil || c.MaxJobs != 7 {
		t.Errorf("the queue that is not at home is %+v, %v", c, err)
	}
}

// A delayed job of the old pool that becomes due sooner does not run next to a job of
// the new pool with its order key. Servers see the new due time within two seconds.
func TestOrderKeyWhoseOldJobBecomesDueSooner(t *testing.T) {
	t.Parallel()
	now, soon := time.Duration(0), 10*time.Second
	for how, sooner := range map[string]func(ctx context.Context, e contract.Engine) error{
		"promote": func(ctx context.Context, e contract.Engine) error { return e.Promote(ctx, shop, "c1") },
		"update": func(ctx context.Context, e contract.Engine) error {
			return e.Update(ctx, shop, "c1", duly.Update{Delay: &now})
		},
		"update later": func(ctx context.Context, e contract.Engine) error {
			return e.Update(ctx, shop, "c1", duly.Update{Delay: &soon})
		},
		"requeue": func(ctx context.Context, e contract.Engine) error {
			_, err := e.Requeue(ctx, shop, duly.RequeueParams{IDs: []string{"c0"}})
			return err
		},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "orders")
			r.pushJob(duly.Job{ID: "c0", OrderKey: "c"})
			_, receipts := r.take(1, "q")
			_, err := r.Settle(t.Context(), "shop", []duly.SettleRequest{{Receipt: receipts[0], As: duly.Bury}})
			r.must(err)
			r.pushJob(duly.Job{ID: "c1", OrderKey: "c", Delay: time.Hour})
			r.move("shop", "orders")
			r.take(1, "q") // the first call of the phase starts its time
			r.clock.Advance(pools.Settle)

			// The server lists the order keys that are left: c2 runs, because its lease
			// ends before c1 is due.
			r.pushJob(duly.Job{ID: "c2", OrderKey: "c"})
			for range 4 {
				if ids, receipts := r.take(10, "q"); ids != nil {
					r.ack(receipts...)
				}
				r.clock.Advance(3 * time.Second)
			}
			if j, err := r.engines["orders"].Get(t.Context(), shop, "c2"); err == nil {
				t.Fatalf("c2 did not run: %+v", j)
			}

			r.must(sooner(t.Context(), r.Pools))
			r.clock.Advance(3 * time.Second)
			r.pushJob(duly.Job{ID: "c3", OrderKey: "c"})
			first, _ := r.take(1, "q")
			second, _ := r.take(10, "q")
			r.clock.Advance(3 * time.Second)
			third, _ := r.take(10, "q")
			if all := slices.Concat(first, second, third); len(all) > 1 || len(all) == 1 && all[0] == "c3" {
				t.Errorf("Reserve returned %v at the same time", all)
			}
		})
	}
}
