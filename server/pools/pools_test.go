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

// The whole contract holds through pools: for one of several, and in the long
// form for the default one, too.
func TestContract(t *testing.T) {
	t.Parallel()
	homes := []string{"orders"}
	if os.Getenv("DULY_LONG") != "" {
		homes = append(homes, contract.DefaultPool)
	}
	for _, home := range homes {
		t.Run(home, func(t *testing.T) {
			t.Parallel()
			enginetest.Suite{Bubble: true, New: func(t testing.TB, o enginetest.Options) *enginetest.Harness {
				c := clock.NewFake()
				p, _ := assemble(t, c, model.Config{OneShard: true, Manual: !o.Own, MaxBody: o.MaxBody, MaxQueues: o.MaxQueues}, "orders", "spare")
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

func TestANamespaceIsInItsPool(t *testing.T) {
	t.Parallel()
	r := newRig(t, "orders")
	r.must(r.Assign(t.Context(), "shop", "orders"))
	r.push("shop", "q", "one")
	r.push("default", "q", "two")
	if got := r.holds("shop", "q", "one"); !slices.Equal(got, []string{"orders"}) {
		t.Errorf("the placed namespace's job is in %v", got)
	}
	if got := r.holds("default", "q", "two"); !slices.Equal(got, []string{"default"}) {
		t.Errorf("the other one's is in %v", got)
	}
	results, err := r.Push(t.Context(), []duly.Job{{Namespace: "shop", Queue: "q", ID: "a"}, {Queue: "q", ID: "b"}, {Namespace: "shop", Queue: "q", ID: "c"}, {Queue: "q", ID: "two"}})
	r.must(err)
	for i, want := range []duly.PushStatus{duly.Created, duly.Created, duly.Created, duly.Exists} {
		if results[i].Status != want {
			t.Errorf("job %d: %+v", i, results[i])
		}
	}
	if got := append(r.holds("shop", "q", "c"), r.holds("", "q", "b")...); !slices.Equal(got, []string{"orders", "default"}) {
		t.Errorf("a batch of two namespaces is in %v", got)
	}
}

func TestANamespaceIsPlacedOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, "orders", "logs")
	r.must(r.Assign(t.Context(), "shop", "orders"))
	r.must(r.Assign(t.Context(), "shop", "orders"))
	r.push("used", "q", "x")
	for _, bad := range []struct {
		namespace, pool string
		want            duly.Code
	}{
		{"shop", "logs", duly.CodeConflict}, {"shop", "default", duly.CodeConflict}, {"used", "orders", duly.CodeConflict},
		{"new", "ordres", duly.CodeInvalid}, {"a/b", "orders", duly.CodeInvalid}, {"*", "orders", duly.CodeInvalid},
	} {
		if err := r.Assign(t.Context(), bad.namespace, bad.pool); duly.CodeOf(err) != bad.want {
			t.Errorf("%s in %s: %v, want %s", bad.namespace, bad.pool, err, bad.want)
		}
	}
	r.must(r.Assign(t.Context(), "used", "default"))
	if where, err := r.Where(t.Context(), "shop"); err != nil || where.Pool != "orders" {
		t.Errorf("it is in %+v, %v", where, err)
	}
	var none *pools.Pools
	r.must(none.Assign(t.Context(), "shop", "default"))
	if err := none.Assign(t.Context(), "shop", "orders"); !errors.Is(err, duly.ErrInvalid) {
		t.Errorf("another pool than the only one: %v", err)
	}
}

// C4.92: what one server places, others know once they are told; and while
// nobody tells, at once.
func TestPlacementsAreTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "orders")
		other := r.another(func(_ string, e *model.Engine) contract.Engine { return e })
		r.must(other.Assign(t.Context(), "early", "orders")) // nobody runs
		if where, _ := r.Where(t.Context(), "early"); where.Pool != "orders" {
			t.Errorf("nobody tells: %+v", where)
		}
		ctx, stop := context.WithCancel(t.Context())
		go r.Run(ctx)
		synctest.Wait()
		if got := r.Label("early"); got != "orders" {
			t.Errorf("it remembers %s", got)
		}
		r.must(other.Assign(t.Context(), "late", "orders"))
		synctest.Wait()
		if got := r.Label("late"); got != "orders" {
			t.Errorf("it was told, and remembers %s", got)
		}
		stop()
		synctest.Wait()
	})
}

// dumb is an engine that tells of no change after the first word.
type dumb struct{ *model.Engine }

func (dumb) WatchTokens(ctx context.Context, tell func(hearing bool)) error {
	tell(true)
	<-ctx.Done()
	return ctx.Err()
}

// A server goes by what it has placed itself, however late the notice is.
func TestAServerKnowsWhatItHasPlaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "orders")
		r.Pools = r.another(func(_ string, e *model.Engine) contract.Engine { return dumb{e} })
		ctx, stop := context.WithCancel(t.Context())
		go r.Run(ctx)
		synctest.Wait() // it has read that there is nothing
		r.must(r.Assign(t.Context(), "shop", "orders"))
		r.push("shop", "q", "x")
		if got := r.holds("shop", "q", "x"); !slices.Equal(got, []string{"orders"}) {
			t.Errorf("the job is in %v", got)
		}
		stop()
		synctest.Wait()
	})
}

func TestAnUnknownPoolIsNamed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.must(r.PutToken(t.Context(), contract.Token{Hash: [32]byte{1}, Namespace: "shop", Rights: contract.RightProduce}))
	r.must(r.engines[contract.DefaultPool].PutPlacement(t.Context(), contract.Placement{Namespace: "shop", Pool: "gone"}))
	_, err := r.Push(t.Context(), []duly.Job{{Namespace: "shop", Queue: "q", ID: "x"}})
	if !errors.Is(err, duly.ErrUnavailable) || !contains(err, "pool gone") || !contains(err, "--pool gone=URL") {
		t.Errorf("a push: %v", err)
	}
	results, err := r.Push(t.Context(), []duly.Job{{Namespace: "shop", Queue: "q", ID: "x"}, {Queue: "q", ID: "y"}})
	if err != nil || !errors.Is(results[0].Err, duly.ErrUnavailable) || results[1].Status != duly.Created {
		t.Errorf("a push of two namespaces: %+v, %v", results, err)
	}
}

// A pool that is down takes its own namespaces with it, and is named.
func TestAPoolThatIsDown(t *testing.T) {
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
			t.Errorf("sweep: %v", err)
		}
		if _, err := p.Check(t.Context(), contract.CheckParams{}); !errors.Is(err, duly.ErrUnavailable) || !contains(err, "pool orders") {
			t.Errorf("check: %v", err)
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
			t.Errorf("a push once it is there: %v", err)
		}
		stop()
		synctest.Wait()
	})
}

// C4.85: the namespaces of all pools, by name, however the pages fall.
func TestNamespacesOfAllPools(t *testing.T) {
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
			t.Errorf("by %d: %v", limit, got)
		}
	}
	for _, cursor := range []string{"x", "!", "e30"} {
		if _, err := r.Namespaces(t.Context(), duly.PageParams{Cursor: cursor}); !errors.Is(err, duly.ErrInvalid) {
			t.Errorf("cursor %q: %v", cursor, err)
		}
	}
}

// C4.76: a check goes over every pool, and says where a fault is.
func TestCheckOfAllPools(t *testing.T) {
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

func TestPoolsThatCanNotBe(t *testing.T) {
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

// C4.82: a backup is of one pool.
func TestABackupIsOfOnePool(t *testing.T) {
	t.Parallel()
	r := newRig(t, "orders")
	if _, err := r.Backuper("orders"); !errors.Is(err, duly.ErrUnsupported) || !contains(err, "pool orders") {
		t.Errorf("the model's: %v", err)
	}
	if _, err := r.Backuper("x"); !errors.Is(err, duly.ErrInvalid) {
		t.Errorf("of none: %v", err)
	}
}
