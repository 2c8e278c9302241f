package pools_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/enginetest"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/model"
	"github.com/dulymq/duly/server/pools"
)

// Pools satisfy the contract for a namespace in another pool, and in the long form also for a
// namespace in the default pool.
func TestContract(t *testing.T) {
	t.Parallel()
	homes := []string{"orders"}
	if os.Getenv("DULY_LONG") != "" {
		homes = append(homes, contract.DefaultPool)
	}

	for _, home := range homes {
		t.Run(home, func(t *testing.T) {
			t.Parallel()
			enginetest.Suite{Bubble: true, Subjects: subjects(), New: func(t testing.TB, o enginetest.Options) *enginetest.Harness {
				c := clock.NewFake()
				cfg := model.Config{OneShard: true, Manual: !o.Own, MaxBody: o.MaxBody, MaxQueues: o.MaxQueues}
				p, _ := assemble(t, c, cfg, "orders", "spare")
				if home != contract.DefaultPool {
					for _, namespace := range []string{"default", "a", "b"} {
						if err := p.Assign(t.Context(), namespace, home); err != nil {
							t.Fatal(err)
						}
					}
				}
				return &enginetest.Harness{Engine: p, Maintainer: p, Registry: p, Clock: c}
			}}.Run(t)
		})
	}
}

// subjects returns the subjects of the contract with concurrent calls for a short run, which looks
// for data races, and otherwise nil for all subjects.
func subjects() []string {
	if !testing.Short() {
		return nil
	}
	return []string{"Push", "Reserve", "Settle", "Wait", "Cancels", "TokenWatch", "Limits", "Concurrency", "TopicReserve",
		"TopicFence"}
}

// Jobs go to the pool of their namespace, even if one push has jobs of several namespaces.
func TestPushGoesToPoolOfNamespace(t *testing.T) {
	t.Parallel()
	r := newRig(t, "orders")
	r.must(r.Assign(t.Context(), "shop", "orders"))
	r.push("shop", "q", "one")
	r.push("default", "q", "two")
	if got := r.poolsWith("shop", "q", "one"); !slices.Equal(got, []string{"orders"}) {
		t.Errorf("the job of the placed namespace is in %v", got)
	}
	if got := r.poolsWith("default", "q", "two"); !slices.Equal(got, []string{"default"}) {
		t.Errorf("the job of the other namespace is in %v", got)
	}

	results, err := r.Push(t.Context(), []duly.Job{
		{Namespace: "shop", Queue: "q", ID: "a"}, {Queue: "q", ID: "b"},
		{Namespace: "shop", Queue: "q", ID: "c"}, {Queue: "q", ID: "two"},
	})
	r.must(err)
	for i, want := range []duly.PushStatus{duly.Created, duly.Created, duly.Created, duly.Exists} {
		if results[i].Status != want {
			t.Errorf("job %d: %+v", i, results[i])
		}
	}
	got := append(r.poolsWith("shop", "q", "c"), r.poolsWith("", "q", "b")...)
	if !slices.Equal(got, []string{"orders", "default"}) {
		t.Errorf("the jobs of two namespaces are in %v", got)
	}
}

// Assign places a namespace once, and only if it has no queue.
func TestAssignPlacesANamespaceOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, "orders", "logs")
	r.must(r.Assign(t.Context(), "shop", "orders"))
	r.must(r.Assign(t.Context(), "shop", "orders"))
	r.push("used", "q", "x")

	for _, bad := range []struct {
		namespace, pool string
		want            duly.Code
	}{
		{"shop", "logs", duly.CodeConflict}, {"shop", "default", duly.CodeConflict},
		{"used", "orders", duly.CodeConflict}, {"new", "ordres", duly.CodeInvalid},
		{"a/b", "orders", duly.CodeInvalid}, {"*", "orders", duly.CodeInvalid},
	} {
		if err := r.Assign(t.Context(), bad.namespace, bad.pool); duly.CodeOf(err) != bad.want {
			t.Errorf("%s in %s: %v, want %s", bad.namespace, bad.pool, err, bad.want)
		}
	}
	r.must(r.Assign(t.Context(), "used", "default"))
	if where, err := r.Where(t.Context(), "shop"); err != nil || where.Pool != "orders" {
		t.Errorf("the placement is %+v, %v", where, err)
	}

	var none *pools.Pools
	r.must(none.Assign(t.Context(), "shop", "default"))
	if err := none.Assign(t.Context(), "shop", "orders"); !errors.Is(err, duly.ErrInvalid) {
		t.Errorf("another pool without pools: %v", err)
	}
}

// C4.92: a server sees a placement that another server has stored after a notice. Without notices,
// every call reads the placement.
func TestServerSeesPlacementsOfOtherServers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "orders")
		other := r.newServer(func(_ string, e *model.Engine) contract.Engine { return e })
		r.must(other.Assign(t.Context(), "early", "orders")) // no watch is running
		if where, _ := r.Where(t.Context(), "early"); where.Pool != "orders" {
			t.Errorf("without notices the placement is %+v", where)
		}

		ctx, stop := context.WithCancel(t.Context())
		go r.Run(ctx)
		synctest.Wait()
		if got := r.Label("early"); got != "orders" {
			t.Errorf("the cached pool is %s", got)
		}

		r.must(other.Assign(t.Context(), "late", "orders"))
		synctest.Wait()
		if got := r.Label("late"); got != "orders" {
			t.Errorf("after a notice the cached pool is %s", got)
		}
		stop()
		synctest.Wait()
	})
}

// silentEngine is an engine that reports no change after the start of the watch.
type silentEngine struct{ *model.Engine }

func (silentEngine) WatchTokens(ctx context.Context, notify func(watching bool)) error {
	notify(true)
	<-ctx.Done()
	return ctx.Err()
}

// A server sees its own placements before the notice.
func TestServerSeesOwnPlacement(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "orders")
		r.Pools = r.newServer(func(_ string, e *model.Engine) contract.Engine { return silentEngine{e} })
		ctx, stop := context.WithCancel(t.Context())
		go r.Run(ctx)
		synctest.Wait() // the server has cached that the namespace has no placement

		r.must(r.Assign(t.Context(), "shop", "orders"))
		r.push("shop", "q", "x")
		if got := r.poolsWith("shop", "q", "x"); !slices.Equal(got, []string{"orders"}) {
			t.Errorf("the job is in %v", got)
		}
		stop()
		synctest.Wait()
	})
}

// The error for a pool that the server does not have names the pool.
func TestErrorForUnknownPoolNamesThePool(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.must(r.PutToken(t.Context(), contract.Token{Hash: [32]byte{1}, Namespace: "shop", Rights: contract.RightProduce}))
	r.must(r.engines[contract.DefaultPool].PutPlacement(t.Context(), contract.Placement{Namespace: "shop", Pool: "gone"}))
	_, err := r.Push(t.Context(), []duly.Job{{Namespace: "shop", Queue: "q", ID: "x"}})
	if !errors.Is(err, duly.ErrUnavailable) || !contains(err, "pool gone") || !contains(err, "--pool gone=URL") {
		t.Errorf("a push: %v", err)
	}

	results, err := r.Push(t.Context(), []duly.Job{
		{Namespace: "shop", Queue: "q", ID: "x"}, {Queue: "q", ID: "y"},
	})
	if err != nil || !errors.Is(results[0].Err, duly.ErrUnavailable) || results[1].Status != duly.Created {
		t.Errorf("a push of two namespaces: %+v, %v", results, err)
	}
}

// While a pool is not open, calls for its namespaces fail and other calls succeed. The errors
// name the pool.
func TestCallsFailForAPoolThatIsNotOpen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clock.NewFake()
		engine, late, tries := model.New(model.Config{Clock: c}), model.New(model.Config{Clock: c}), 0
		p := serve(t, c, map[string]pools.Engine{
			contract.DefaultPool: {Open: engine},
			"orders": {Opener: func(context.Context) (contract.Engine, error) {
				if tries++; tries < 3 {
					return nil, duly.ErrUnavailable
				}
				return late, nil
			}},
		})
		if err := p.Assign(t.Context(), "shop", "orders"); err != nil {
			t.Fatal(err)
		}

		_, err := p.Push(t.Context(), []duly.Job{{Namespace: "shop", Queue: "q"}})
		if !errors.Is(err, duly.ErrUnavailable) || !contains(err, "pool orders") {
			t.Errorf("a push to it: %v", err)
		}
		if _, err := p.Push(t.Context(), []duly.Job{{Queue: "q", ID: "x"}}); err != nil {
			t.Errorf("a push to the other: %v", err)
		}
		if down := p.Down(t.Context()); !slices.Equal(down, []string{"orders"}) {
			t.Errorf("down are %v", down)
		}
		if err := p.Sweep(t.Context()); !errors.Is(err, duly.ErrUnavailable) || !contains(err, "pool orders") {
			t.Errorf("Sweep returned %v", err)
		}
		_, err = p.Check(t.Context(), contract.CheckParams{})
		if !errors.Is(err, duly.ErrUnavailable) || !contains(err, "pool orders") {
			t.Errorf("Check returned %v", err)
		}

		ctx, stop := context.WithCancel(t.Context())
		go p.Run(ctx)
		for range 2 {
			synctest.Wait()
			c.Advance(2 * time.Second)
		}
		synctest.Wait()
		if down := p.Down(t.Context()); down != nil || tries != 3 {
			t.Errorf("after %d tries %v are down", tries, down)
		}
		if _, err := p.Push(t.Context(), []duly.Job{{Namespace: "shop", Queue: "q", ID: "x"}}); err != nil {
			t.Errorf("a push to the open pool: %v", err)
		}
		stop()
		synctest.Wait()
	})
}

// C4.85: Namespaces lists the namespaces of all pools by name, with any page size.
func TestNamespacesListsAllPools(t *testing.T) {
	t.Parallel()
	r := newRig(t, "a", "b")
	var want []string
	for i := range 30 {
		namespace := fmt.Sprintf("ns%02d", i)
		want = append(want, namespace)
		r.must(r.Assign(t.Context(), namespace, r.Names()[[]int{0, 1, 1, 2, 0}[i%5]]))
		r.push(namespace, "q", "x")
	}
	r.must(r.Assign(t.Context(), "empty", "b"))

	for _, limit := range []int{1, 2, 3, 7, 29, 30, 31, 0} {
		var got []string
		page := duly.PageParams{Limit: limit}
		for range 100 {
			names, err := r.Namespaces(t.Context(), page)
			r.must(err)
			if limit > 0 && len(names.Names) > limit {
				t.Fatalf("a page of %d has %d", limit, len(names.Names))
			}
			got = append(got, names.Names...)
			if page.Cursor = names.Next; page.Cursor == "" {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("with pages of %d: %v", limit, got)
		}
	}

	for _, cursor := range []string{"x", "!", "e30"} {
		if _, err := r.Namespaces(t.Context(), duly.PageParams{Cursor: cursor}); !errors.Is(err, duly.ErrInvalid) {
			t.Errorf("cursor %q: %v", cursor, err)
		}
	}
}

// C4.76: Check checks every pool, with one progress over all pools.
func TestCheckCoversAllPools(t *testing.T) {
	t.Parallel()
	r := newRig(t, "orders")
	r.must(r.Assign(t.Context(), "shop", "orders"))
	for i := range 3 {
		r.push("shop", "q", fmt.Sprint("a", i))
		r.push("default", "q", fmt.Sprint("b", i))
	}

	var done, total int64
	report, err := r.Check(t.Context(), contract.CheckParams{Progress: func(n, of int64) {
		if n < done || of < total || n > of {
			t.Errorf("%d of %d jobs, after %d of %d", n, of, done, total)
		}
		done, total = n, of
	}})
	if err != nil || report.Jobs != 6 || len(report.Faults) > 0 || done != 6 || total != 6 {
		t.Errorf("%+v, %v; %d of %d jobs", report, err, done, total)
	}
	r.must(r.Sweep(t.Context()))
}

func TestNewRefusesInvalidEngines(t *testing.T) {
	t.Parallel()
	engine := model.New(model.Config{})
	defer engine.Close()
	for what, engines := range map[string]map[string]pools.Engine{
		"no default":   {"orders": {Open: engine}},
		"a bad name":   {contract.DefaultPool: {Open: engine}, "a,b": {Open: engine}},
		"not open":     {contract.DefaultPool: {}},
		"no registry":  {contract.DefaultPool: {Open: struct{ contract.Engine }{engine}}},
		"no pool ever": nil,
	} {
		if _, err := pools.New(pools.Config{Engines: engines}); !errors.Is(err, duly.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// C4.82: Backuper returns the backuper of one pool.
func TestBackuperFindsThePool(t *testing.T) {
	t.Parallel()
	r := newRig(t, "orders")
	if _, err := r.Backuper("orders"); !errors.Is(err, duly.ErrUnsupported) || !contains(err, "pool orders") {
		t.Errorf("an engine without backup: %v", err)
	}
	if _, err := r.Backuper("x"); !errors.Is(err, duly.ErrInvalid) {
		t.Errorf("an unknown pool: %v", err)
	}
}
