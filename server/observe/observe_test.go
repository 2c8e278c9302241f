package observe_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/model"
	"github.com/dulymq/duly/server/observe"
)

var errBroken = errors.New("broken")

// broken is an engine whose calls fail, or panic.
type broken struct {
	contract.Engine
	panics bool
}

func (b broken) fail() error {
	if b.panics {
		panic(errBroken)
	}
	return errBroken
}

func (b broken) Push(context.Context, []duly.Job) ([]duly.PushResult, error) { return nil, b.fail() }

func (b broken) Destroy(context.Context, duly.QueueRef) error { return b.fail() }

func TestObserversGetTheResultsOfCalls(t *testing.T) {
	t.Parallel()
	ctx, q := t.Context(), duly.QueueRef{Name: "q"}
	var seen []string
	note := func(what string, ok bool) {
		seen = append(seen, what)
		if !ok {
			t.Errorf("%s: wrong arguments", what)
		}
	}
	e := observe.New(model.New(model.Config{Clock: clock.NewFake()}), observe.Observer{}, observe.Observer{
		Pushed: func(_ context.Context, jobs []duly.Job, results []duly.PushResult, err error) {
			note("pushed", jobs[0].ID == "a" && results[0].ID == "a" && err == nil)
		},
		Reserved: func(_ context.Context, deliveries []duly.Delivery, err error) {
			note("reserved", len(deliveries) == 1 && err == nil)
		},
		Settled: func(_ context.Context, _ string, outcomes []duly.SettleRequest, errs []error, err error) {
			note("settled", len(outcomes) == 1 && errs[0] == nil && err == nil)
		},
		Waiting:   func(n int) { note("waiting", n == 1 || n == -1) },
		Destroyed: func(ref duly.QueueRef, err error) { note("destroyed", ref == q && err == nil) },
	})
	defer e.Close()

	if _, err := e.Push(ctx, []duly.Job{{Queue: "q", ID: "a"}}); err != nil {
		t.Fatal(err)
	}
	if ready, err := e.Wait(ctx, duly.WaitParams{Queues: []string{"q"}}); !ready || err != nil {
		t.Fatal(ready, err)
	}
	got, err := e.Reserve(ctx, duly.ReserveParams{Queues: []string{"q"}, Max: 1})
	if err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
	if _, err := e.Settle(ctx, "", []duly.SettleRequest{{Receipt: got[0].Receipt, As: duly.Ack}}); err != nil {
		t.Fatal(err)
	}
	if err := e.Destroy(ctx, q); err != nil {
		t.Fatal(err)
	}
	if want := []string{"pushed", "waiting", "waiting", "reserved", "settled", "destroyed"}; !slices.Equal(seen, want) {
		t.Errorf("observed are %q, want %q", seen, want)
	}
}

type key struct{}

// Pushing replaces the context and the jobs of the push, and gets its result.
func TestPushingReplacesContextAndJobs(t *testing.T) {
	t.Parallel()
	ended := 0
	e := observe.New(model.New(model.Config{Clock: clock.NewFake()}), observe.Observer{
		Pushing: func(ctx context.Context, jobs []duly.Job) (
			context.Context, []duly.Job, func([]duly.PushResult, error),
		) {
			return context.WithValue(ctx, key{}, "value"), []duly.Job{{Queue: "q", ID: "b"}},
				func(results []duly.PushResult, err error) {
					if ended++; results[0].ID != "b" || err != nil {
						t.Errorf("the push ended with %v, %v", results, err)
					}
				}
		},
		Pushed: func(ctx context.Context, jobs []duly.Job, _ []duly.PushResult, _ error) {
			if ctx.Value(key{}) != "value" || jobs[0].ID != "b" {
				t.Errorf("the push had the jobs %v", jobs)
			}
		},
	})
	defer e.Close()
	if _, err := e.Push(t.Context(), []duly.Job{{Queue: "q", ID: "a"}}); err != nil || ended != 1 {
		t.Errorf("%v, ended %d times", err, ended)
	}
}

// A span ends and a cache forgets, whether the engine fails or panics.
func TestObserversAreCalledAfterAFault(t *testing.T) {
	t.Parallel()
	for _, panics := range []bool{false, true} {
		ended, destroyed := 0, 0
		e := observe.New(broken{panics: panics}, observe.Observer{
			Pushing: func(ctx context.Context, jobs []duly.Job) (
				context.Context, []duly.Job, func([]duly.PushResult, error),
			) {
				return ctx, jobs, func([]duly.PushResult, error) { ended++ }
			},
			Destroyed: func(duly.QueueRef, error) { destroyed++ },
		})

		for _, call := range []func(){
			func() { _, _ = e.Push(t.Context(), []duly.Job{{}}) },
			func() { _ = e.Destroy(t.Context(), duly.QueueRef{}) },
		} {
			func() {
				defer func() { _ = recover() }()
				call()
			}()
		}
		if ended != 1 || destroyed != 1 {
			t.Errorf("panics %v: ended %d times, destroyed %d times, want once each", panics, ended, destroyed)
		}
	}
}

// ticking is an engine that fires ticks by itself.
type ticking struct {
	contract.Engine
	firing contract.Firing
}

func (e *ticking) ObserveFire(f contract.Firing) { e.firing = f }

// Every observer sees the ticks that the engine fires, in their order.
func TestObserversSeeTicks(t *testing.T) {
	t.Parallel()
	var calls []string
	observer := func(name string) observe.Observer {
		return observe.Observer{Firing: func(ctx context.Context, _ duly.QueueRef, _ int64, items []contract.FireItem) (
			context.Context, []contract.FireItem, func([]contract.FireResult, error),
		) {
			calls = append(calls, "begin "+name)
			items = append(slices.Clone(items), contract.FireItem{Name: name})
			return context.WithValue(ctx, key{}, name), items, func([]contract.FireResult, error) {
				calls = append(calls, "end "+name)
			}
		}}
	}
	engine := &ticking{}
	e := observe.New(engine, observer("a"), observe.Observer{})
	e.Observe(observer("b"))

	ctx, items, end := engine.firing(t.Context(), duly.Q("q"), 0, nil)
	if ctx.Value(key{}) != "b" || len(items) != 2 || items[0].Name != "a" {
		t.Errorf("the items are %+v", items)
	}
	end(nil, nil)
	if got := strings.Join(calls, ", "); got != "begin a, begin b, end b, end a" {
		t.Errorf("the calls are %s", got)
	}
}
