package pools

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/model"
)

// settings returns configurations. Each differs from the default in one field.
func settings(defaults duly.QueueConfig) map[string]duly.QueueConfig {
	all := map[string]duly.QueueConfig{}
	for name, set := range map[string]func(c *duly.QueueConfig){
		"shards":     func(c *duly.QueueConfig) { c.Shards = 8 },
		"tries":      func(c *duly.QueueConfig) { c.Defaults.Tries = 3 },
		"max stalls": func(c *duly.QueueConfig) { c.Defaults.MaxStalls = 3 },
		"backoff":    func(c *duly.QueueConfig) { c.Defaults.Backoff = duly.Fixed(time.Hour) },
		"lease":      func(c *duly.QueueConfig) { c.Defaults.Lease = time.Hour },
		"ttl":        func(c *duly.QueueConfig) { c.Defaults.TTL = time.Hour },
		"retain":     func(c *duly.QueueConfig) { c.Defaults.Retain = time.Hour },
		"dead age":   func(c *duly.QueueConfig) { c.DeadAge = time.Hour },
		"dead count": func(c *duly.QueueConfig) { c.DeadCount = 3 },
		"max jobs":   func(c *duly.QueueConfig) { c.MaxJobs = 3 },
		"max leased": func(c *duly.QueueConfig) { c.MaxLeased = 3 },
		"delivery": func(c *duly.QueueConfig) {
			*c = contract.PatchConfig(*c, duly.QueueConfig{Delivery: duly.DeliverPush})
		},
		"push url": func(c *duly.QueueConfig) {
			push := duly.PushConfig{URL: "target:t", OnDone: "target:u", OnDead: "target:v"}
			*c = contract.PatchConfig(*c, duly.QueueConfig{Delivery: duly.DeliverPush, Push: push})
		},
		"rate": func(c *duly.QueueConfig) { c.Rate = duly.Rate{PerSecond: 3, Burst: 5} },
	} {
		c := defaults
		set(&c)
		all[name] = c
	}

	return all
}

// missingSettings returns every setting that only one pool has.
func TestMissingSettingsAreThoseOfOnePool(t *testing.T) {
	t.Parallel()
	defaults := contract.DefaultQueueConfig()
	for name, set := range settings(defaults) {
		patch := missingSettings(set, defaults, defaults)
		if got := contract.PatchConfig(defaults, patch); !reflect.DeepEqual(got, set) {
			t.Errorf("%s: with the patch the settings are %+v, want %+v", name, got, set)
		}

		if name != "shards" { // the number of shards has no default
			if patch := missingSettings(defaults, set, defaults); patch != (duly.QueueConfig{}) {
				t.Errorf("%s is replaced: %+v", name, patch)
			}
		}
		if patch := missingSettings(set, set, defaults); patch != (duly.QueueConfig{}) {
			t.Errorf("%s is missing although both have it: %+v", name, patch)
		}
	}
}

// C16.20: a push queue that a job has created in one pool gets the settings of the other pool.
func TestPushQueueGetsSettingsOfTheOtherPool(t *testing.T) {
	t.Parallel()
	defaults := contract.DefaultQueueConfig()
	created := contract.PatchConfig(defaults, duly.QueueConfig{Delivery: duly.DeliverPush})
	set := contract.PatchConfig(created, duly.QueueConfig{
		Push: duly.PushConfig{URL: "target:t", OnDead: "target:v"}, Defaults: duly.Defaults{Tries: 3},
	})
	want := duly.QueueConfig{Push: set.Push, Defaults: duly.Defaults{Tries: 3}}
	want.Push.OnDone = ""
	if patch := missingSettings(set, created, defaults); patch != want {
		t.Errorf("the patch is %+v, want %+v", patch, want)
	}
}

// placementStore is an engine that stores only placements.
type placementStore struct {
	contract.Placer
	puts  []contract.Placement
	watch func(ctx context.Context) error
}

func (d *placementStore) PutPlacement(_ context.Context, p contract.Placement) error {
	d.puts = append(d.puts, p)
	return nil
}

func (d *placementStore) FindPlacement(context.Context, string) (contract.Placement, error) {
	return d.puts[len(d.puts)-1], nil
}

func (d *placementStore) WatchTokens(ctx context.Context, _ func(bool)) error { return d.watch(ctx) }

func newTestPools(d *placementStore) (*Pools, *clock.Fake) {
	c := clock.NewFake()
	cfg := Config{Clock: c, Logger: slog.New(slog.DiscardHandler)}
	return &Pools{cfg: cfg, placer: d, watcher: d, reload: make(chan struct{}, 1)}, c
}

// A placement has only the last MaxFormer pools.
func TestFormerPoolsAreBounded(t *testing.T) {
	t.Parallel()
	d := &placementStore{}
	r, c := newTestPools(d)
	p := contract.Placement{Namespace: "shop", Pool: "new", From: "old", Version: 7}
	for i := range contract.MaxFormer + 2 {
		p.Former = append(p.Former, fmt.Sprint("p", i))
	}
	p.Former[3], p.Former[4] = "new", "old"

	got, err := r.storePhase(t.Context(), p)

	want := append(slices.Clone(p.Former[5:]), "old")
	want = append(slices.Clone(p.Former[:3]), want...)
	want = want[len(want)-contract.MaxFormer:]
	stored := d.puts[0]
	if err != nil || !slices.Equal(stored.Former, want) || got.Version != 8 || stored.Version != 7 ||
		!got.Since.Equal(c.Now().Truncate(time.Millisecond)) {
		t.Errorf("%+v, %v; stored is %+v, want the former pools %v", got, err, stored, want)
	}
}

// A failed watch starts again after watchRetry, unless the engine is closed.
func TestFailedWatchStartsAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		watches, answer := 0, errors.New("the connection is broken")
		d := &placementStore{watch: func(context.Context) error {
			if watches++; watches > 100 {
				panic("watch retries without a pause")
			}
			return answer
		}}
		r, c := newTestPools(d)
		ended := make(chan bool, 1)
		go func() { r.watch(t.Context()); ended <- true }()

		for want := 1; want < 4; want++ {
			synctest.Wait()
			if watches != want || len(ended) > 0 {
				t.Fatalf("%d watches after %d s, want %d", watches, want-1, want)
			}
			c.Advance(watchRetry)
		}
		synctest.Wait()
		answer = duly.ErrClosed
		c.Advance(watchRetry)
		synctest.Wait()
		if watches != 5 || len(ended) != 1 {
			t.Errorf("%d watches after the engine was closed, ended: %d", watches, len(ended))
		}
	})
}

// closableEngine counts the calls to Close.
type closableEngine struct {
	contract.Engine
	closed int
}

func (c *closableEngine) Close() error { c.closed++; return nil }

// If an engine is opened after its pool was closed, the engine is closed as well.
func TestEngineOpenedAfterClose(t *testing.T) {
	t.Parallel()
	early, late := &closableEngine{}, &closableEngine{}
	for e, before := range map[*closableEngine]bool{early: true, late: false} {
		p := &pool{name: "orders", observed: &observedEngine{pools: &Pools{}}}
		if before {
			p.setEngine(e)
		}
		if err := p.close(); err != nil {
			t.Error(err)
		}
		if !before {
			p.setEngine(e)
		}
		if _, err := p.get(); e.closed != 1 || before != (err == nil) {
			t.Errorf("set before close %t: closed %d times, then %v", before, e.closed, err)
		}
	}
}

// A slow step continues if its phase is not over, and fails otherwise.
func TestSlowStepVerifiesPhase(t *testing.T) {
	t.Parallel()
	where := contract.Placement{Namespace: "shop", Pool: "new", From: "old", Phase: contract.Draining, Version: 3}
	d := &placementStore{puts: []contract.Placement{where}}
	r, c := newTestPools(d)
	s, err := r.beginStep(t.Context(), nil, &where)
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	do := func(ctx context.Context) error {
		if _, bounded := ctx.Deadline(); !bounded {
			t.Error("the step has no deadline")
		}
		calls++
		return nil
	}

	for _, late := range []time.Duration{0, stepTimeout - 1, 1, stepTimeout, 10 * stepTimeout} {
		c.Advance(late)
		if err := s.run(t.Context(), do); err != nil {
			t.Errorf("after %s more: %v", late, err)
		}
	}

	next := where
	next.Phase, next.Version = contract.Placed, 4
	d.puts = append(d.puts, next)
	if err := s.run(t.Context(), do); err != nil {
		t.Errorf("before the deadline of the last verification: %v", err)
	}
	c.Advance(stepTimeout)
	if err := s.run(t.Context(), do); !errors.Is(err, duly.ErrConflict) || calls != 6 {
		t.Errorf("after the phase: %v; %d calls, want 6", err, calls)
	}

	w := r.newStep(nil)
	c.Advance(stepTimeout)
	if err := w.run(t.Context(), do); !errors.Is(err, duly.ErrConflict) || calls != 6 {
		t.Errorf("a step that cannot be verified: %v", err)
	}
}

// listKeys returns the first due time of each order key. Jobs without a key do not count.
func TestListKeysReturnsFirstDueTimes(t *testing.T) {
	t.Parallel()
	c := clock.NewFake()
	old := model.New(model.Config{Clock: c, Manual: true})
	defer old.Close()
	_, err := old.Push(t.Context(), []duly.Job{
		{Queue: "q", OrderKey: "a", Delay: 2 * time.Hour}, {Queue: "q", OrderKey: "b", Delay: 3 * time.Hour},
		{Queue: "q", OrderKey: "a", Delay: time.Hour}, {Queue: "q", Delay: time.Minute},
		{Queue: "q", OrderKey: "a", Delay: 4 * time.Hour},
	})
	if err != nil {
		t.Fatal(err)
	}

	keys, ok := listKeys(t.Context(), old, duly.Q("q"), duly.Sizes{Delayed: 5})
	want := map[string]time.Time{"a": c.Now().Add(time.Hour), "b": c.Now().Add(3 * time.Hour)}
	if !ok || !reflect.DeepEqual(keys, want) {
		t.Errorf("the keys are %v, %t, want %v", keys, ok, want)
	}

	for what, sizes := range map[string]duly.Sizes{
		"a job runs": {Delayed: 5, Leased: 1}, "the list has changed": {Delayed: 4},
	} {
		if _, ok := listKeys(t.Context(), old, duly.Q("q"), sizes); ok {
			t.Errorf("listKeys returned the keys although %s", what)
		}
	}
}

func TestErrorOfUnknownPoolNamesTheFlag(t *testing.T) {
	t.Parallel()
	r, _ := newTestPools(&placementStore{})
	_, err := r.poolEngine("shop", "gone")
	if err == nil || !strings.Contains(err.Error(), "namespace shop is in pool gone") ||
		!strings.Contains(err.Error(), "--pool gone=URL") {
		t.Error(err)
	}
}
