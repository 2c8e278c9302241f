package pools_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/model"
	"github.com/dulymq/duly/server/pools"
)

// fresh is a queue that is first heard of while a move is prepared.
var fresh = duly.QueueRef{Namespace: "shop", Name: "fresh"}

// settings are what is set while a move is prepared, and what must hold then in
// the new pool.
var settings = map[string]struct {
	set  func(r *rig)
	want func(r *rig, e contract.Engine) error
}{
	"a queue that is new": {
		func(r *rig) {
			r.must(r.Configure(r.t.Context(), fresh, duly.QueueConfig{Shards: 4, MaxJobs: 40, Defaults: duly.Defaults{Tries: 3}}))
		},
		func(r *rig, e contract.Engine) error {
			return differs(r, e, fresh, func(c *duly.QueueConfig) bool { return c.Shards == 4 && c.MaxJobs == 40 && c.Defaults.Tries == 3 })
		},
	},
	"a queue that is new and paused": {
		func(r *rig) {
			r.push("shop", "fresh", "x")
			r.must(r.Pause(r.t.Context(), fresh))
		},
		func(r *rig, e contract.Engine) error {
			return differs(r, e, fresh, func(c *duly.QueueConfig) bool { return c.Paused })
		},
	},
	"a setting that changes": {
		func(r *rig) {
			r.must(r.Configure(r.t.Context(), shop, duly.QueueConfig{MaxJobs: 5, DeadAge: time.Hour}))
			r.must(r.Configure(r.t.Context(), shop, duly.QueueConfig{MaxJobs: duly.None}))
		},
		func(r *rig, e contract.Engine) error {
			return differs(r, e, shop, func(c *duly.QueueConfig) bool {
				return c.MaxJobs == duly.None && c.DeadAge == time.Hour && c.DeadCount == 55
			})
		},
	},
	"a queue that goes on": {
		func(r *rig) { r.must(r.Resume(r.t.Context(), paused)) },
		func(r *rig, e contract.Engine) error {
			return differs(r, e, paused, func(c *duly.QueueConfig) bool { return !c.Paused && c.MaxLeased == 3 && c.DeadCount == 55 })
		},
	},
}

var paused = duly.QueueRef{Namespace: "shop", Name: "paused"}

func differs(r *rig, e contract.Engine, q duly.QueueRef, is func(c *duly.QueueConfig) bool) error {
	c, err := e.Config(r.t.Context(), q)
	if err == nil && !is(&c) {
		err = fmt.Errorf("%s is %+v", q, c)
	}
	return err
}

// preparing is a namespace whose move is about to end its first phase, on engines
// that make queues of so many shards.
func preparing(t *testing.T, shards int) *rig {
	r := &rig{t: t, clock: clock.NewFake()}
	r.Pools, r.engines = assemble(t, r.clock, model.Config{Manual: true, Shards: shards}, "orders")
	r.must(r.Configure(t.Context(), shop, duly.QueueConfig{MaxJobs: 77}))
	r.must(r.Configure(t.Context(), paused, duly.QueueConfig{MaxLeased: 3}))
	r.must(r.Pause(t.Context(), paused))
	_, err := r.Move(t.Context(), "shop", "orders")
	r.must(err)
	for _, q := range []duly.QueueRef{shop, paused} { // by a server that has not heard
		r.must(r.engines[contract.DefaultPool].Configure(t.Context(), q, duly.QueueConfig{DeadCount: 55}))
	}
	return r
}

// What is set at whatever moment of a move's preparation holds in the new pool
// when the first job is pushed there: while a server copies queues, dies at it, or
// is overtaken by another one.
func TestWhatIsSetWhileQueuesAreCopied(t *testing.T) {
	t.Parallel()
	for what, of := range settings {
		for dies := lives; dies < deaths; dies++ {
			for i := range 4 {
				overtaken, shards := i%2 == 1, 1+i/2
				t.Run(fmt.Sprint(what, " dies ", dies, " overtaken ", overtaken, " shards ", shards), func(t *testing.T) {
					t.Parallel()
					for n, more := 1, true; more && !t.Failed(); n++ {
						r := preparing(t, shards)
						s := &steps{}
						slow := r.stepping(s)
						r.must(slow.CarryOn(t.Context())) // from now on it counts
						r.must(r.CarryOn(t.Context()))
						r.clock.Advance(pools.Settle)
						*s = steps{left: n, death: dies, then: func() {
							of.set(r)
							if overtaken {
								r.must(r.CarryOn(t.Context()))
							}
						}}
						if err := slow.CarryOn(t.Context()); err != nil && !errors.Is(err, errDied) {
							t.Errorf("step %d: %v", n, err)
						}
						if more = s.over(); !more {
							break
						}
						r.must(r.CarryOn(t.Context()))
						if r.phase("shop") != contract.Draining {
							t.Fatalf("step %d: it is %q", n, r.phase("shop"))
						}
						if err := of.want(r, r.engines["orders"]); err != nil {
							t.Errorf("step %d: %v", n, err)
						}
					}
				})
			}
		}
	}
}

// A server that stands still while it copies queues brings nothing back when the
// move is over: neither what was set meanwhile nor what was removed.
func TestWhoeverCopiesLateChangesNothing(t *testing.T) {
	t.Parallel()
	for n, more := 1, true; more && !t.Failed(); n++ {
		r := preparing(t, 2)
		s := &steps{}
		slow := r.stepping(s)
		r.must(slow.CarryOn(t.Context()))
		r.must(r.CarryOn(t.Context()))
		r.clock.Advance(pools.Settle)
		*s = steps{left: n, then: func() {
			r.carryOn()
			r.end("shop")
			r.must(r.Configure(t.Context(), shop, duly.QueueConfig{MaxLeased: 9}))
			r.must(r.Resume(t.Context(), paused))
		}}
		r.must(slow.CarryOn(t.Context()))
		if more = s.over(); !more {
			break
		}
		if err := differs(r, r, shop, func(c *duly.QueueConfig) bool { return c.MaxJobs == 77 && c.DeadCount == 55 && c.MaxLeased == 9 }); err != nil {
			t.Errorf("step %d: %v", n, err)
		}
		if err := differs(r, r, paused, func(c *duly.QueueConfig) bool { return !c.Paused && c.MaxLeased == 3 && c.DeadCount == 55 }); err != nil {
			t.Errorf("step %d: %v", n, err)
		}
	}
}

// A setting that the new pool refuses is made in neither.
func TestASettingThatIsRefusedWhileMoving(t *testing.T) {
	t.Parallel()
	r := newRig(t, "orders")
	r.must(r.Configure(t.Context(), wide, duly.QueueConfig{Shards: 4, MaxJobs: 40}))
	r.push("shop", "wide", "x")
	r.move("shop", "orders")
	for _, patch := range []duly.QueueConfig{{MaxJobs: 3}, {Shards: 8, MaxJobs: 80}, {MaxJobs: -7}} {
		if err := r.Configure(t.Context(), wide, patch); !errors.Is(err, duly.ErrInvalid) {
			t.Errorf("%+v: %v", patch, err)
		}
	}
	for name, e := range r.engines {
		if err := differs(r, e, wide, func(c *duly.QueueConfig) bool { return c.Shards == 4 && c.MaxJobs == 40 }); err != nil {
			t.Errorf("in %s %v", name, err)
		}
	}
	r.must(r.Configure(t.Context(), wide, duly.QueueConfig{Shards: 4, MaxJobs: 50}))
	for name, e := range r.engines {
		if err := differs(r, e, wide, func(c *duly.QueueConfig) bool { return c.Shards == 4 && c.MaxJobs == 50 }); err != nil {
			t.Errorf("in %s %v", name, err)
		}
	}
}

// While a namespace is about to go to a pool that has one shard for a queue, none
// of several is made where it is, for that could not go along.
func TestAQueueThatCanNotGoAlong(t *testing.T) {
	t.Parallel()
	c := clock.NewFake()
	home, one := model.New(model.Config{Clock: c}), model.New(model.Config{Clock: c, OneShard: true})
	p := serve(t, c, map[string]pools.Engine{contract.DefaultPool: {Open: home}, "file": {Open: one}})
	if err := meet(t.Context(), p, "shop"); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Move(t.Context(), "shop", "file"); err != nil {
		t.Fatal(err)
	}
	if err := p.Configure(t.Context(), fresh, duly.QueueConfig{Shards: 4}); !errors.Is(err, duly.ErrUnsupported) {
		t.Errorf("%v", err)
	}
	for name, e := range map[string]*model.Engine{contract.DefaultPool: home, "file": one} {
		if queues, err := e.Queues(t.Context(), "shop", duly.PageParams{}); err != nil || len(queues.Names) > 0 {
			t.Errorf("in %s are %v, %v", name, queues.Names, err)
		}
	}
}
