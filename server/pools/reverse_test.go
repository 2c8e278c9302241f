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

// A reversed move restores the settings of a queue that was already removed from the first pool,
// and of a queue that only the second pool has. That holds even if a push creates the queue in the
// first pool before the move restores its settings, or if the server that reverses the move crashes.
func TestReversalRestoresSettings(t *testing.T) {
	t.Parallel()
	late, single := duly.QueueRef{Namespace: "shop", Name: "late"}, duly.QueueRef{Namespace: "shop", Name: "single"}
	removed, kept := shop, duly.QueueRef{Namespace: "shop", Name: "kept"}
	for _, crashed := range []bool{false, true} {
		r := newRig(t, "orders")
		ctx := t.Context()
		r.must(r.Configure(ctx, removed, duly.QueueConfig{
			MaxJobs: 77, DeadAge: time.Hour, Shards: 4, Rate: duly.Rate{PerSecond: 5, Burst: 9},
			Defaults: duly.Defaults{Tries: 3},
		}))
		r.must(r.Pause(ctx, removed))
		r.must(r.Configure(ctx, kept, duly.QueueConfig{MaxLeased: 4}))
		r.push("shop", "kept", "x")
		r.move("shop", "orders")
		r.advance()
		r.must(r.Configure(ctx, late, duly.QueueConfig{MaxLeased: 3}))
		r.must(r.Configure(ctx, single, duly.QueueConfig{MaxJobs: 1}))
		if left := r.queuesIn(contract.DefaultPool); !slices.Equal(left, []string{"kept"}) {
			t.Fatalf("the first pool has the queues %v", left)
		}

		if crashed {
			where, err := r.Where(ctx, "shop")
			r.must(err)
			where.Pool, where.From = where.From, where.Pool
			r.must(r.engines[contract.DefaultPool].PutPlacement(ctx, where))
			r.push("shop", "late", "fast")
		} else {
			_, err := r.Move(ctx, "shop", contract.DefaultPool)
			r.must(err)
			r.must(checkConfig(r, r, single, func(c *duly.QueueConfig) bool { return c.MaxJobs == 1 }))
		}
		r.endMove("shop")

		for q, is := range map[duly.QueueRef]func(c *duly.QueueConfig) bool{
			removed: func(c *duly.QueueConfig) bool {
				rate := duly.Rate{PerSecond: 5, Burst: 9}
				return c.MaxJobs == 77 && c.DeadAge == time.Hour && (c.Shards == 4 || crashed) && c.Rate == rate &&
					c.Defaults.Tries == 3 && c.Paused
			},
			late: func(c *duly.QueueConfig) bool { return c.MaxLeased == 3 && !c.Paused },
			kept: func(c *duly.QueueConfig) bool { return c.MaxLeased == 4 },
		} {
			if err := checkConfig(r, r, q, is); err != nil {
				t.Errorf("crashed %v: %v", crashed, err)
			}
		}
	}
}

// The settings of an orphan do not change the queue of its namespace's pool.
func TestOrphanSettingsAreNotRestored(t *testing.T) {
	t.Parallel()
	r := newRig(t, "logs")
	r.pushJob(duly.Job{ID: "x"})
	r.must(r.engines["logs"].Configure(t.Context(), shop, duly.QueueConfig{MaxJobs: 5}))
	r.must(r.engines["logs"].Pause(t.Context(), shop))
	alone := duly.QueueRef{Namespace: "shop", Name: "alone"} // a queue that only the pool logs has
	r.must(r.engines["logs"].Configure(t.Context(), alone, duly.QueueConfig{MaxJobs: 7}))

	if p, err := r.Move(t.Context(), "shop", contract.DefaultPool); err != nil || p.From != "logs" {
		t.Fatalf("Move returned %+v, %v", p, err)
	}
	r.endMove("shop")
	r.must(checkConfig(r, r, shop, func(c *duly.QueueConfig) bool { return c.MaxJobs == duly.None && !c.Paused }))
	r.must(checkConfig(r, r, alone, func(c *duly.QueueConfig) bool { return c.MaxJobs == 7 }))
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
			_, receipts := r.reserve(1, "q")
			_, err := r.Settle(t.Context(), "shop", []duly.SettleRequest{{Receipt: receipts[0], As: duly.Bury}})
			r.must(err)
			r.pushJob(duly.Job{ID: "c1", OrderKey: "c", Delay: time.Hour})
			r.move("shop", "orders")
			r.reserve(1, "q") // the time of the phase starts with its first call
			r.clock.Advance(pools.Propagation)

			// The server lists the remaining order keys. c2 is delivered, because its lease ends
			// before c1 is due.
			r.pushJob(duly.Job{ID: "c2", OrderKey: "c"})
			for range 4 {
				if ids, receipts := r.reserve(10, "q"); ids != nil {
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
			first, _ := r.reserve(1, "q")
			second, _ := r.reserve(10, "q")
			r.clock.Advance(3 * time.Second)
			third, _ := r.reserve(10, "q")
			if all := slices.Concat(first, second, third); len(all) > 1 || len(all) == 1 && all[0] == "c3" {
				t.Errorf("Reserve returned %v at the same time", all)
			}
		})
	}
}
