package pools_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/enginetest"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/model"
	"github.com/dulymq/duly/server/pools"
)

// The whole contract holds while a namespace moves, before and after its jobs go
// to the new pool.
func TestContractWhileMoving(t *testing.T) {
	t.Parallel()
	phases := []contract.MovePhase{contract.Draining}
	if os.Getenv("DULY_LONG") != "" {
		phases = append(phases, contract.Preparing)
	}
	for _, phase := range phases {
		t.Run(string(phase), func(t *testing.T) {
			t.Parallel()
			enginetest.Suite{Bubble: true, New: func(t testing.TB, o enginetest.Options) *enginetest.Harness {
				c := clock.NewFake()
				p, engines := assemble(t, c, model.Config{Manual: !o.Own, MaxBody: o.MaxBody, MaxQueues: o.MaxQueues}, "orders")
				for _, namespace := range []string{"default", "a", "b"} {
					err := engines[contract.DefaultPool].PutPlacement(t.Context(), contract.Placement{Namespace: namespace, Pool: "orders", From: contract.DefaultPool, Phase: phase})
					if err != nil {
						t.Fatal(err)
					}
					if _, err := p.Stats(t.Context(), duly.QueueRef{Namespace: namespace, Name: "q"}); err != nil {
						t.Fatal(err)
					}
				}
				c.Advance(pools.Settle) // else jobs with order keys wait for those who have not heard of it
				return &enginetest.Harness{Engine: p, Maintainer: p, Registry: p, Clock: c}
			}}.Run(t)
		})
	}
}

func TestAMoveDrainsTheOldPool(t *testing.T) {
	t.Parallel()
	r := newRig(t, "orders")
	fresh := r.engines["orders"]
	r.must(r.Configure(t.Context(), shop, duly.QueueConfig{MaxJobs: 100, Defaults: duly.Defaults{Tries: 3}}))
	r.must(r.Configure(t.Context(), duly.QueueRef{Namespace: "shop", Name: "paused"}, duly.QueueConfig{DeadAge: duly.None}))
	r.must(r.Pause(t.Context(), duly.QueueRef{Namespace: "shop", Name: "paused"}))
	for _, id := range []string{"dead", "leased", "a", "b"} {
		r.pushJob(duly.Job{ID: id})
	}
	r.pushJob(duly.Job{ID: "later", Delay: time.Hour})
	_, dead := r.take(1, "q")
	_, err := r.Settle(t.Context(), "shop", []duly.SettleRequest{{Receipt: dead[0], As: duly.Bury}})
	r.must(err)
	_, leased := r.take(1, "q")

	_, err = r.Move(t.Context(), "shop", "orders")
	r.must(err)
	r.pushJob(duly.Job{ID: "preparing"})
	if got := r.holds("shop", "q", "preparing"); !slices.Equal(got, []string{"default"}) {
		t.Errorf("while it is prepared a push goes to %v", got)
	}
	r.carryOn()
	r.pushJob(duly.Job{ID: "new"})
	if got := r.holds("shop", "q", "new"); !slices.Equal(got, []string{"orders"}) {
		t.Errorf("then it goes to %v", got)
	}
	if c, err := fresh.Config(t.Context(), shop); err != nil || c.MaxJobs != 100 || c.Defaults.Tries != 3 {
		t.Errorf("the queue there is %+v, %v", c, err)
	}
	if c, err := fresh.Config(t.Context(), duly.QueueRef{Namespace: "shop", Name: "paused"}); err != nil || !c.Paused || c.DeadAge != duly.None {
		t.Errorf("the paused queue there is %+v, %v", c, err)
	}
	stats, err := r.Stats(t.Context(), shop)
	if want := (duly.Sizes{Delayed: 1, Ready: 4, Leased: 1, Dead: 1}); err != nil || stats.Sizes != want {
		t.Errorf("together there are %+v, %v", stats.Sizes, err)
	}
	var order []string
	for range 4 {
		ids, receipts := r.take(1, "q")
		order = append(order, ids...)
		r.ack(receipts...)
	}
	if !slices.Equal(order, []string{"a", "b", "preparing", "new"}) {
		t.Errorf("taken are %v", order)
	}
	r.ack(leased...)
	moves, err := r.Moves(t.Context(), "")
	if want := (duly.Sizes{Delayed: 1, Dead: 1}); err != nil || len(moves) != 1 || moves[0].Left != want || moves[0].Queues != 2 {
		t.Errorf("the move is %+v, %v", moves, err)
	}
	r.carryOn()
	if r.phase("shop") != contract.Draining {
		t.Error("it has ended although jobs are left")
	}
	r.must(r.Promote(t.Context(), shop, "later"))
	_, receipts := r.take(5, "q")
	r.ack(receipts...)
	if n, err := r.Purge(t.Context(), shop, duly.StateDead, 0); err != nil || n != 1 {
		t.Errorf("purged are %d, %v", n, err)
	}
	r.end("shop")
	if where, err := r.Where(t.Context(), "shop"); err != nil || where.Pool != "orders" || !where.Knows(contract.DefaultPool) {
		t.Errorf("it is in %+v, %v", where, err)
	}
	if left := r.left(contract.DefaultPool); len(left) != 0 {
		t.Errorf("left behind are %v", left)
	}
}

// A move is turned around, begun once, and refused where it can't be.
func TestMovesThatAreRefusedOrTurnedAround(t *testing.T) {
	t.Parallel()
	r := newRig(t, "orders", "logs")
	r.pushJob(duly.Job{ID: "x"})
	if _, err := r.Move(t.Context(), "shop", "nowhere"); !errors.Is(err, duly.ErrInvalid) {
		t.Errorf("to no pool: %v", err)
	}
	if _, err := r.Move(t.Context(), "a/b", "orders"); !errors.Is(err, duly.ErrInvalid) {
		t.Errorf("of no namespace: %v", err)
	}
	if p, err := r.Move(t.Context(), "shop", contract.DefaultPool); err != nil || p.From != "" {
		t.Errorf("to where it is: %+v, %v", p, err)
	}
	r.move("shop", "orders")
	if p, err := r.Move(t.Context(), "shop", "orders"); err != nil || p.From != contract.DefaultPool {
		t.Errorf("said again: %+v, %v", p, err)
	}
	if _, err := r.Move(t.Context(), "shop", "logs"); !errors.Is(err, duly.ErrConflict) {
		t.Errorf("to a third one: %v", err)
	}
	r.pushJob(duly.Job{ID: "y"})
	if p, err := r.Move(t.Context(), "shop", contract.DefaultPool); err != nil || p.From != "orders" || p.Pool != contract.DefaultPool {
		t.Fatalf("turned around: %+v, %v", p, err)
	}
	ids, receipts := r.take(1, "q")
	r.ack(receipts...)
	if !slices.Equal(ids, []string{"y"}) {
		t.Errorf("taken are %v", ids)
	}
	r.end("shop")
	if where, err := r.Where(t.Context(), "shop"); err != nil || where.Pool != contract.DefaultPool {
		t.Errorf("it is in %+v, %v", where, err)
	}
	if got := r.holds("shop", "q", "x"); !slices.Equal(got, []string{"default"}) {
		t.Errorf("the job is in %v", got)
	}
	// What is left in a pool by whatever accident is drained on demand.
	_, err := r.engines["logs"].Push(t.Context(), []duly.Job{{Namespace: "shop", Queue: "q", ID: "stray"}})
	r.must(err)
	if p, err := r.Move(t.Context(), "shop", contract.DefaultPool); err != nil || p.From != "logs" {
		t.Errorf("with strays: %+v, %v", p, err)
	}
	if ids, _ := r.take(1, "q"); !slices.Equal(ids, []string{"stray"}) {
		t.Errorf("taken are %v", ids)
	}
}

// A namespace of which nothing is known has most likely a mistyped name, and is
// not moved; a place, a token or a queue is enough.
func TestAMoveOfAnUnknownNamespaceIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, "orders")
	r.pushJob(duly.Job{ID: "x"})
	all := contract.Token{Hash: [32]byte{9}, Namespace: contract.AllNamespaces, Rights: contract.RightAdmin}
	r.must(r.PutToken(t.Context(), all))
	for _, to := range []string{"orders", contract.DefaultPool} {
		if _, err := r.Move(t.Context(), "shpo", to); !errors.Is(err, duly.ErrNotFound) || !contains(err, `"shpo"`) || !contains(err, "--pool "+to) {
			t.Errorf("to %s: %v", to, err)
		}
	}
	if _, err := r.engines[contract.DefaultPool].FindPlacement(t.Context(), "shpo"); !errors.Is(err, duly.ErrNotFound) {
		t.Errorf("it was placed: %v", err)
	}
	r.must(r.Assign(t.Context(), "placed", "orders"))
	r.must(meet(t.Context(), r.Pools, "token"))
	r.push("queue", "q", "x")
	for namespace, to := range map[string]string{"placed": contract.DefaultPool, "token": "orders", "queue": "orders", duly.DefaultNamespace: "orders", "": "orders"} {
		if _, err := r.Move(t.Context(), namespace, to); err != nil {
			t.Errorf("%s: %v", namespace, err)
		}
	}
}

// A move to a pool that cannot have one of the queues fails before any job moves.
func TestAPoolThatCanNotTakeAQueue(t *testing.T) {
	t.Parallel()
	c := clock.NewFake()
	many, one := model.New(model.Config{Clock: c}), model.New(model.Config{Clock: c, OneShard: true})
	p := serve(t, c, map[string]pools.Engine{contract.DefaultPool: {Open: many}, "file": {Open: one}})
	for name, shards := range map[string]int{"a": 1, "b": 4} {
		if err := p.Configure(t.Context(), duly.QueueRef{Namespace: "shop", Name: name}, duly.QueueConfig{Shards: shards}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.Move(t.Context(), "shop", "file"); !errors.Is(err, duly.ErrUnsupported) || !contains(err, "shop/b") {
		t.Errorf("%v", err)
	}
	if where, err := p.Where(t.Context(), "shop"); err != nil || where.From != "" {
		t.Errorf("it moves: %+v, %v", where, err)
	}

	// The queues that the failed move has created are removed like strays.
	if where, err := p.Move(t.Context(), "shop", contract.DefaultPool); err != nil || where.From != "file" {
		t.Errorf("Move to the namespace's own pool returned %+v, %v", where, err)
	}
}

// While one of the two pools is down, what is in the other one goes on.
func TestAMoveWithAPoolDown(t *testing.T) {
	t.Parallel()
	r := newRig(t, "orders", "new")
	r.must(r.Assign(t.Context(), "shop", "orders"))
	r.pushJob(duly.Job{ID: "old"})
	r.move("shop", "new")
	r.pushJob(duly.Job{ID: "new"})
	_, first := r.take(1, "q")
	_, second := r.take(1, "q")
	p := r.another(func(name string, e *model.Engine) contract.Engine {
		if name == "orders" {
			return unreachable{e}
		}
		return e
	})
	errs, err := p.Settle(t.Context(), "shop", []duly.SettleRequest{{Receipt: first[0], As: duly.Ack}, {Receipt: second[0], As: duly.Ack}})
	if err != nil || !errors.Is(errs[0], duly.ErrUnavailable) || errs[1] != nil {
		t.Errorf("settled: %v, %v", errs, err)
	}
	results, err := p.Push(t.Context(), []duly.Job{{Namespace: "shop", Queue: "q", ID: "old"}, {Namespace: "shop", Queue: "q", ID: duly.NewNumber().String(), Made: true}})
	if err != nil || !errors.Is(results[0].Err, duly.ErrUnavailable) || results[1].Status != duly.Created {
		t.Errorf("pushed: %+v, %v", results, err)
	}
	reserve := duly.ReserveParams{Namespace: "shop", Queues: []string{"q"}, Max: 5}
	got, err := p.Reserve(t.Context(), reserve)
	if err != nil || len(got) != 1 {
		t.Errorf("taken are %v, %v", got, err)
	}
	if got, err := p.Reserve(t.Context(), reserve); !errors.Is(err, duly.ErrUnavailable) {
		t.Errorf("where nothing else is left, taken are %v, %v", got, err)
	}
	r.ack(first...)
}

// unreachable is an engine behind a broken line.
type unreachable struct{ *model.Engine }

func (unreachable) Get(context.Context, duly.QueueRef, string) (duly.JobInfo, error) {
	return duly.JobInfo{}, duly.ErrUnavailable
}

func (unreachable) Settle(context.Context, string, []duly.SettleRequest) ([]error, error) {
	return nil, duly.ErrUnavailable
}

func (unreachable) Reserve(context.Context, duly.ReserveParams) ([]duly.Delivery, error) {
	return nil, duly.ErrUnavailable
}

func (unreachable) Stats(context.Context, duly.QueueRef) (duly.Stats, error) {
	return duly.Stats{}, duly.ErrUnavailable
}
