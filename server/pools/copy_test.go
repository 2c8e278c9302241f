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

// fresh is a queue that is created while a move is being prepared.
var fresh = duly.QueueRef{Namespace: "shop", Name: "fresh"}

// settings are changes while a move is prepared. Each has a check of the new pool after the change.
var settings = map[string]struct {
	set  func(r *rig)
	want func(r *rig, e contract.Engine) error
}{
	"a new queue": {
		func(r *rig) {
			patch := duly.QueueConfig{Shards: 4, MaxJobs: 40, Defaults: duly.Defaults{Tries: 3}}
			r.must(r.Configure(r.t.Context(), fresh, patch))
		},
		func(r *rig, e contract.Engine) error {
			return checkConfig(r, e, fresh, func(c *duly.QueueConfig) bool {
				return c.Shards == 4 && c.MaxJobs == 40 && c.Defaults.Tries == 3
			})
		},
	},
	"a new paused queue": {
		func(r *rig) {
			r.push("shop", "fresh", "x")
			r.must(r.Pause(r.t.Context(), fresh))
		},
		func(r *rig, e contract.Engine) error {
			return checkConfig(r, e, fresh, func(c *duly.QueueConfig) bool { return c.Paused })
		},
	},
	"a changed setting": {
		func(r *rig) {
			r.must(r.Configure(r.t.Context(), shop, duly.QueueConfig{MaxJobs: 5, DeadAge: time.Hour}))
			r.must(r.Configure(r.t.Context(), shop, duly.QueueConfig{MaxJobs: duly.None}))
		},
		func(r *rig, e contract.Engine) error {
			return checkConfig(r, e, shop, func(c *duly.QueueConfig) bool {
				return c.MaxJobs == duly.None && c.DeadAge == time.Hour && c.DeadCount == 55
			})
		},
	},
	"a resumed queue": {
		func(r *rig) { r.must(r.Resume(r.t.Context(), paused)) },
		func(r *rig, e contract.Engine) error {
			return checkConfig(r, e, paused, func(c *duly.QueueConfig) bool {
				return !c.Paused && c.MaxLeased == 3 && c.DeadCount == 55
			})
		},
	},
}

var paused = duly.QueueRef{Namespace: "shop", Name: "paused"}

// checkConfig returns an error unless the configuration of a queue satisfies is.
func checkConfig(r *rig, e contract.Engine, q duly.QueueRef, is func(c *duly.QueueConfig) bool) error {
	c, err := e.Config(r.t.Context(), q)
	if err == nil && !is(&c) {
		err = fmt.Errorf("%s is %+v", q, c)
	}
	return err
}

// preparing returns a rig with a namespace whose move is prepared. Its engines create queues with
// the given number of shards.
func preparing(t *testing.T, shards int) *rig {
	r := &rig{t: t, clock: clock.NewFake()}
	r.Pools, r.engines = assemble(t, r.clock, model.Config{Manual: true, Shards: shards}, "orders")
	r.must(r.Configure(t.Context(), shop, duly.QueueConfig{MaxJobs: 77}))
	r.must(r.Configure(t.Context(), paused, duly.QueueConfig{MaxLeased: 3}))
	r.must(r.Pause(t.Context(), paused))
	_, err := r.Move(t.Context(), "shop", "orders")
	r.must(err)
	for _, q := range []duly.QueueRef{shop, paused} { // pushed by a server that has not seen the move
		r.must(r.engines[contract.DefaultPool].Configure(t.Context(), q, duly.QueueConfig{DeadCount: 55}))
	}
	return r
}

// Settings that change at any step of the preparation are in the new pool when the first job is
// pushed there. Meanwhile one server copies queues, crashes, or is overtaken by another server.
func TestSettingsChangedDuringCopyAreInTheNewPool(t *testing.T) {
	t.Parallel()
	for what, of := range settings {
		for kind := noCrash; kind < crashKinds; kind++ {
			for i := range 4 {
				overtaken, shards := i%2 == 1, 1+i/2
				name := fmt.Sprint(what, " crash ", kind, " overtaken ", overtaken, " shards ", shards)
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					for n := 1; !t.Failed(); n++ {
						set := func(r *rig) {
							of.set(r)
							if overtaken {
								r.must(r.Advance(t.Context()))
							}
						}
						r, more := setDuringCopy(t, n, shards, kind, set)
						if !more {
							break
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

// setDuringCopy changes settings at the nth step of a server that copies queues, and finishes
// the preparation on another server. It reports whether there is such a step.
func setDuringCopy(t *testing.T, n, shards int, kind crash, set func(r *rig)) (r *rig, more bool) {
	t.Helper()
	r = preparing(t, shards)
	s := &stepCounter{}
	slow := r.newCountingServer(s)
	r.must(slow.Advance(t.Context())) // the time of the phase starts with this turn
	r.must(r.Advance(t.Context()))
	r.clock.Advance(pools.Propagation)

	*s = stepCounter{left: n, crash: kind, then: func() { set(r) }}
	if err := slow.Advance(t.Context()); err != nil && !errors.Is(err, errCrashed) {
		t.Errorf("step %d: %v", n, err)
	}
	if !s.over() {
		return r, false
	}

	r.must(r.Advance(t.Context()))
	if r.phase("shop") != contract.Draining {
		t.Fatalf("step %d: the phase is %q", n, r.phase("shop"))
	}
	return r, true
}

// A server that is suspended while it copies queues, and resumes after the end of the move,
// neither overwrites later settings nor creates removed queues.
func TestLateCopyChangesNothing(t *testing.T) {
	t.Parallel()
	for n, more := 1, true; more && !t.Failed(); n++ {
		r := preparing(t, 2)
		s := &stepCounter{}
		slow := r.newCountingServer(s)
		r.must(slow.Advance(t.Context()))
		r.must(r.Advance(t.Context()))
		r.clock.Advance(pools.Propagation)

		*s = stepCounter{left: n, then: func() {
			r.advance()
			r.endMove("shop")
			r.must(r.Configure(t.Context(), shop, duly.QueueConfig{MaxLeased: 9}))
			r.must(r.Resume(t.Context(), paused))
		}}
		r.must(slow.Advance(t.Context()))
		if more = s.over(); !more {
			break
		}

		isShop := func(c *duly.QueueConfig) bool { return c.MaxJobs == 77 && c.DeadCount == 55 && c.MaxLeased == 9 }
		if err := checkConfig(r, r, shop, isShop); err != nil {
			t.Errorf("step %d: %v", n, err)
		}
		isPaused := func(c *duly.QueueConfig) bool { return !c.Paused && c.MaxLeased == 3 && c.DeadCount == 55 }
		if err := checkConfig(r, r, paused, isPaused); err != nil {
			t.Errorf("step %d: %v", n, err)
		}
	}
}

// If the new pool refuses a setting, neither pool is changed.
func TestRefusedSettingDuringMoveChangesNoPool(t *testing.T) {
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
	check := func(maxJobs int) {
		t.Helper()
		for name, e := range r.engines {
			is := func(c *duly.QueueConfig) bool { return c.Shards == 4 && c.MaxJobs == maxJobs }
			if err := checkConfig(r, e, wide, is); err != nil {
				t.Errorf("in %s %v", name, err)
			}
		}
	}
	check(40)
	r.must(r.Configure(t.Context(), wide, duly.QueueConfig{Shards: 4, MaxJobs: 50}))
	check(50)
}

// While a namespace moves to a pool with one shard per queue, the old pool creates no queue with
// several shards, because such a queue could not move.
func TestQueueThatCannotMove(t *testing.T) {
	t.Parallel()
	c := clock.NewFake()
	home, one := model.New(model.Config{Clock: c}), model.New(model.Config{Clock: c, OneShard: true})
	p := serve(t, c, map[string]pools.Engine{contract.DefaultPool: {Open: home}, "file": {Open: one}})
	if err := createToken(t.Context(), p, "shop"); err != nil {
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
			t.Errorf("pool %s has the queues %v, %v", name, queues.Names, err)
		}
	}
}
