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

// settings are configurations of which each differs from the usual one in one field.
func settings(usual duly.QueueConfig) map[string]duly.QueueConfig {
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
		"delivery":   func(c *duly.QueueConfig) { *c = contract.PatchConfig(*c, duly.QueueConfig{Delivery: duly.DeliverPush}) },
		"push url": func(c *duly.QueueConfig) {
			*c = contract.PatchConfig(*c, duly.QueueConfig{Delivery: duly.DeliverPush, Push: duly.PushConfig{URL: "target:t", OnDone: "target:u", OnDead: "target:v"}})
		},
		"rate": func(c *duly.QueueConfig) { c.Rate = duly.Rate{PerSecond: 3, Burst: 5} },
	} {
		c := usual
		set(&c)
		all[name] = c
	}

	return all
}

// What a queue was set to in one pool alone is lacking in the other one.
func TestEverySettingIsLacking(t *testing.T) {
	t.Parallel()
	usual := contract.DefaultQueueConfig()
	for name, set := range settings(usual) {
		patch := lacking(set, usual, usual)
		if got := contract.PatchConfig(usual, patch); !reflect.DeepEqual(got, set) {
			t.Errorf("%s: with what is lacking it is %+v, want %+v", name, got, set)
		}
		if name != "shards" { // which have no usual number
			if patch := lacking(usual, set, usual); patch != (duly.QueueConfig{}) {
				t.Errorf("%s is replaced: %+v", name, patch)
			}
		}
		if patch := lacking(set, set, usual); patch != (duly.QueueConfig{}) {
			t.Errorf("%s is lacking where it is: %+v", name, patch)
		}
	}
}

// C16.20: a push queue that a job has made in one pool gets what was set in the other.
func TestSettingsOfAPushQueueAreLacking(t *testing.T) {
	t.Parallel()
	usual := contract.DefaultQueueConfig()
	made := contract.PatchConfig(usual, duly.QueueConfig{Delivery: duly.DeliverPush})
	set := contract.PatchConfig(made, duly.QueueConfig{Push: duly.PushConfig{URL: "target:t", OnDead: "target:v"}, Defaults: duly.Defaults{Tries: 3}})
	want := duly.QueueConfig{Push: set.Push, Defaults: duly.Defaults{Tries: 3}}
	want.Push.OnDone = ""
	if patch := lacking(set, made, usual); patch != want {
		t.Errorf("the patch is %+v, want %+v", patch, want)
	}
}

// desk is a store of placements. Its fields answer for it where they are set.
type desk struct {
	contract.Placer
	puts  []contract.Placement
	watch func(ctx context.Context) error
}

func (d *desk) PutPlacement(_ context.Context, p contract.Placement) error {
	d.puts = append(d.puts, p)
	return nil
}

func (d *desk) FindPlacement(context.Context, string) (contract.Placement, error) {
	return d.puts[len(d.puts)-1], nil
}

func (d *desk) WatchTokens(ctx context.Context, _ func(bool)) error { return d.watch(ctx) }

func onDesk(d *desk) (*Pools, *clock.Fake) {
	c := clock.NewFake()
	return &Pools{cfg: Config{Clock: c, Logger: slog.New(slog.DiscardHandler)}, placer: d, watcher: d, reload: make(chan struct{}, 1)}, c
}

// A placement keeps the last pools that its namespace has left.
func TestFormerPoolsAreBounded(t *testing.T) {
	t.Parallel()
	d := &desk{}
	r, c := onDesk(d)
	p := contract.Placement{Namespace: "shop", Pool: "new", From: "old", Version: 7}
	for i := range contract.MaxFormer + 2 {
		p.Former = append(p.Former, fmt.Sprint("p", i))
	}
	p.Former[3], p.Former[4] = "new", "old"

	got, err := r.put(t.Context(), p)

	want := append(slices.Clone(p.Former[5:]), "old")
	want = append(slices.Clone(p.Former[:3]), want...)
	want = want[len(want)-contract.MaxFormer:]
	if err != nil || !slices.Equal(d.puts[0].Former, want) || got.Version != 8 || d.puts[0].Version != 7 || !got.Since.Equal(c.Now().Truncate(time.Millisecond)) {
		t.Errorf("%+v, %v; stored is %+v, want the former pools %v", got, err, d.puts[0], want)
	}
}

// An engine that stops telling of changes is asked again in a second, unless it
// is closed.
func TestAWatchIsBegunAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		watches, answer := 0, errors.New("the line is broken")
		d := &desk{watch: func(context.Context) error {
			if watches++; watches > 100 {
				panic("it is asked again without a pause")
			}
			return answer
		}}
		r, c := onDesk(d)
		ended := make(chan bool, 1)
		go func() { r.watch(t.Context()); ended <- true }()

		for want := 1; want < 4; want++ {
			synctest.Wait()
			if watches != want || len(ended) > 0 {
				t.Fatalf("%d watches after %d s, want %d", watches, want-1, want)
			}
			c.Advance(watchAgain)
		}
		synctest.Wait()
		answer = duly.ErrClosed
		c.Advance(watchAgain)
		synctest.Wait()
		if watches != 5 || len(ended) != 1 {
			t.Errorf("%d watches after the engine was closed, ended: %d", watches, len(ended))
		}
	})
}

func TestAnErrorIsSaidOnceUntilItIsOver(t *testing.T) {
	t.Parallel()
	s, down, full := said{}, errors.New("port 81 is closed"), errors.New("it is full")
	for i, tt := range []struct {
		err  error
		anew bool
	}{
		{nil, false}, {down, true}, {down, false}, {errors.New("port 82 is closed"), false}, {full, true}, {down, true},
		{nil, false}, {nil, false}, {down, true},
	} {
		if got := s.anew("orders", tt.err); got != tt.anew {
			t.Errorf("%d: %v is new: %t, want %t", i, tt.err, got, tt.anew)
		}
	}
	if !s.anew("logs", down) {
		t.Error("the error of another pool is not new")
	}
}

// closing notes that it was closed.
type closing struct {
	contract.Engine
	closed int
}

func (c *closing) Close() error { c.closed++; return nil }

// An engine that is reached after the end is closed again.
func TestAPoolThatIsReachedTooLateIsClosed(t *testing.T) {
	t.Parallel()
	early, late := &closing{}, &closing{}
	for e, before := range map[*closing]bool{early: true, late: false} {
		p := &pool{name: "orders", heeded: &heeded{}}
		if before {
			p.take(e)
		}
		if err := p.close(); err != nil {
			t.Error(err)
		}
		if !before {
			p.take(e)
		}
		if _, err := p.get(); e.closed != 1 || before != (err == nil) {
			t.Errorf("taken before the end %t: closed %d times, then %v", before, e.closed, err)
		}
	}
}

// A step that takes long goes on if its phase is not over, and is given up if it is.
func TestALateStepLooksAgain(t *testing.T) {
	t.Parallel()
	where := contract.Placement{Namespace: "shop", Pool: "new", From: "old", Phase: contract.Draining, Version: 3}
	d := &desk{puts: []contract.Placement{where}}
	r, c := onDesk(d)
	s, err := r.timely(t.Context(), nil, &where)
	if err != nil {
		t.Fatal(err)
	}
	did := 0
	do := func(ctx context.Context) error {
		if _, bounded := ctx.Deadline(); !bounded {
			t.Error("the step has no bound")
		}
		did++
		return nil
	}

	for _, late := range []time.Duration{0, stepFor - 1, 1, stepFor, 10 * stepFor} {
		c.Advance(late)
		if err := s.inTime(t.Context(), do); err != nil {
			t.Errorf("after %s more: %v", late, err)
		}
	}
	next := where
	next.Phase, next.Version = contract.Placed, 4
	d.puts = append(d.puts, next)
	if err := s.inTime(t.Context(), do); err != nil {
		t.Errorf("within the time of the last look: %v", err)
	}
	c.Advance(stepFor)
	if err := s.inTime(t.Context(), do); !errors.Is(err, duly.ErrConflict) || did != 6 {
		t.Errorf("after the phase: %v; %d steps were done, want 6", err, did)
	}

	w := r.within(nil)
	c.Advance(stepFor)
	if err := w.inTime(t.Context(), do); !errors.Is(err, duly.ErrConflict) || did != 6 {
		t.Errorf("a step without another look: %v", err)
	}
}

// Of the jobs of an order key the first one that falls due counts. Jobs without
// a key hold none.
func TestTheFirstJobOfAKeyIsTheOneThatCounts(t *testing.T) {
	t.Parallel()
	c := clock.NewFake()
	old := model.New(model.Config{Clock: c, Manual: true})
	defer old.Close()
	_, err := old.Push(t.Context(), []duly.Job{
		{Queue: "q", OrderKey: "a", Delay: 2 * time.Hour}, {Queue: "q", OrderKey: "b", Delay: 3 * time.Hour},
		{Queue: "q", OrderKey: "a", Delay: time.Hour}, {Queue: "q", Delay: time.Minute}, {Queue: "q", OrderKey: "a", Delay: 4 * time.Hour},
	})
	if err != nil {
		t.Fatal(err)
	}

	keys, ok := keysLeft(t.Context(), old, duly.Q("q"), duly.Sizes{Delayed: 5})
	if want := map[string]time.Time{"a": c.Now().Add(time.Hour), "b": c.Now().Add(3 * time.Hour)}; !ok || !reflect.DeepEqual(keys, want) {
		t.Errorf("the keys are %v, %t, want %v", keys, ok, want)
	}
	for what, sizes := range map[string]duly.Sizes{"one runs": {Delayed: 5, Leased: 1}, "they have changed": {Delayed: 4}} {
		if _, ok := keysLeft(t.Context(), old, duly.Q("q"), sizes); ok {
			t.Errorf("the keys are known though %s", what)
		}
	}
}

func TestAMissingPoolIsNamedWithItsNamespace(t *testing.T) {
	t.Parallel()
	r, _ := onDesk(&desk{})
	if _, err := r.at("shop", "gone"); err == nil || !strings.Contains(err.Error(), "namespace shop is in pool gone") || !strings.Contains(err.Error(), "--pool gone=URL") {
		t.Error(err)
	}
}
