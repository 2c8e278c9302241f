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

// Pools satisfy the contract during a move, in both phases.
func TestContractDuringMove(t *testing.T) {
	t.Parallel()
	phases := []contract.MovePhase{contract.Draining}
	if os.Getenv("DULY_LONG") != "" {
		phases = append(phases, contract.Preparing)
	}

	for _, phase := range phases {
		t.Run(string(phase), func(t *testing.T) {
			t.Parallel()
			enginetest.Suite{Bubble: true, Subjects: subjects(), New: func(t testing.TB, o enginetest.Options) *enginetest.Harness {
				c := clock.NewFake()
				cfg := model.Config{Manual: !o.Own, MaxBody: o.MaxBody, MaxQueues: o.MaxQueues}
				p, engines := assemble(t, c, cfg, "orders")
				for _, namespace := range []string{"default", "a", "b"} {
					where := contract.Placement{Namespace: namespace, Pool: "orders", From: contract.DefaultPool, Phase: phase}
					if err := engines[contract.DefaultPool].PutPlacement(t.Context(), where); err != nil {
						t.Fatal(err)
					}
					if _, err := p.Stats(t.Context(), duly.QueueRef{Namespace: namespace, Name: "q"}); err != nil {
						t.Fatal(err)
					}
				}
				c.Advance(pools.Propagation) // until this time, jobs with order keys wait
				return &enginetest.Harness{Engine: p, Maintainer: p, Registry: p, Clock: c}
			}}.Run(t)
		})
	}
}

// A move prepares the queues in the new pool, then pushes there, and reserves from the old pool
// first.
func TestMoveServesTheOldPoolFirst(t *testing.T) {
	t.Parallel()
	r := newRig(t, "orders")
	fresh := r.engines["orders"]
	r.must(r.Configure(t.Context(), shop, duly.QueueConfig{MaxJobs: 100, Defaults: duly.Defaults{Tries: 3}}))
	r.must(r.Configure(t.Context(), paused, duly.QueueConfig{DeadAge: duly.None}))
	r.must(r.Pause(t.Context(), paused))
	for _, id := range []string{"a", "b"} {
		r.pushJob(duly.Job{ID: id})
	}

	_, err := r.Move(t.Context(), "shop", "orders")
	r.must(err)
	r.pushJob(duly.Job{ID: "preparing"})
	if got := r.poolsWith("shop", "q", "preparing"); !slices.Equal(got, []string{"default"}) {
		t.Errorf("a push in the first phase goes to %v", got)
	}
	r.advance()
	r.pushJob(duly.Job{ID: "new"})
	if got := r.poolsWith("shop", "q", "new"); !slices.Equal(got, []string{"orders"}) {
		t.Errorf("a push in the second phase goes to %v", got)
	}

	isShop := func(c *duly.QueueConfig) bool { return c.MaxJobs == 100 && c.Defaults.Tries == 3 }
	r.must(checkConfig(r, fresh, shop, isShop))
	isPaused := func(c *duly.QueueConfig) bool { return c.Paused && c.DeadAge == duly.None }
	r.must(checkConfig(r, fresh, paused, isPaused))

	var order []string
	for range 4 {
		ids, receipts := r.reserve(1, "q")
		order = append(order, ids...)
		r.ack(receipts...)
	}
	if !slices.Equal(order, []string{"a", "b", "preparing", "new"}) {
		t.Errorf("reserved %v", order)
	}
}

// A move ends only when the old pool has no job in any state. At the end the old pool has no queue.
func TestMoveEndsWhenOldPoolIsEmpty(t *testing.T) {
	t.Parallel()
	r := newRig(t, "orders")
	for _, id := range []string{"dead", "leased", "a"} {
		r.pushJob(duly.Job{ID: id})
	}
	r.pushJob(duly.Job{ID: "later", Delay: time.Hour})
	_, dead := r.reserve(1, "q")
	_, err := r.Settle(t.Context(), "shop", []duly.SettleRequest{{Receipt: dead[0], As: duly.Bury}})
	r.must(err)
	_, leased := r.reserve(1, "q")

	r.move("shop", "orders")
	r.pushJob(duly.Job{ID: "new"})
	stats, err := r.Stats(t.Context(), shop)
	if want := (duly.Sizes{Delayed: 1, Ready: 2, Leased: 1, Dead: 1}); err != nil || stats.Sizes != want {
		t.Errorf("both pools have %+v, %v", stats.Sizes, err)
	}
	_, receipts := r.reserve(1, "q")
	r.ack(append(receipts, leased...)...)
	moves, err := r.Moves(t.Context(), "")
	want := duly.Sizes{Delayed: 1, Dead: 1}
	if err != nil || len(moves) != 1 || moves[0].Left != want || moves[0].Queues != 1 {
		t.Errorf("the move is %+v, %v", moves, err)
	}
	r.advance()
	if r.phase("shop") != contract.Draining {
		t.Error("the move has ended although the old pool has jobs")
	}

	r.must(r.Promote(t.Context(), shop, "later"))
	r.clock.Advance(3 * time.Second) // the server needs this time to see the change
	_, receipts = r.reserve(5, "q")
	r.ack(receipts...)
	if n, err := r.Purge(t.Context(), shop, duly.StateDead, 0); err != nil || n != 1 {
		t.Errorf("Purge returned %d, %v", n, err)
	}
	r.endMove("shop")
	where, err := r.Where(t.Context(), "shop")
	if err != nil || where.Pool != "orders" || !where.Knows(contract.DefaultPool) {
		t.Errorf("the placement is %+v, %v", where, err)
	}
	if left := r.queuesIn(contract.DefaultPool); len(left) != 0 {
		t.Errorf("the old pool still has the queues %v", left)
	}
}

// Move refuses unknown pools, invalid namespaces and third pools. A repeated call changes
// nothing.
func TestMoveRefusesInvalidArguments(t *testing.T) {
	t.Parallel()
	r := newRig(t, "orders", "logs")
	r.pushJob(duly.Job{ID: "x"})
	if _, err := r.Move(t.Context(), "shop", "nowhere"); !errors.Is(err, duly.ErrInvalid) {
		t.Errorf("an unknown pool: %v", err)
	}
	if _, err := r.Move(t.Context(), "a/b", "orders"); !errors.Is(err, duly.ErrInvalid) {
		t.Errorf("an invalid namespace: %v", err)
	}
	if p, err := r.Move(t.Context(), "shop", contract.DefaultPool); err != nil || p.From != "" {
		t.Errorf("the namespace's own pool: %+v, %v", p, err)
	}

	r.move("shop", "orders")
	if p, err := r.Move(t.Context(), "shop", "orders"); err != nil || p.From != contract.DefaultPool {
		t.Errorf("a repeated call: %+v, %v", p, err)
	}
	if _, err := r.Move(t.Context(), "shop", "logs"); !errors.Is(err, duly.ErrConflict) {
		t.Errorf("a third pool: %v", err)
	}
}

// A move can be reversed. A move to the namespace's own pool drains orphans.
func TestMoveReverses(t *testing.T) {
	t.Parallel()
	r := newRig(t, "orders", "logs")
	r.pushJob(duly.Job{ID: "x"})
	r.move("shop", "orders")
	r.pushJob(duly.Job{ID: "y"})
	p, err := r.Move(t.Context(), "shop", contract.DefaultPool)
	if err != nil || p.From != "orders" || p.Pool != contract.DefaultPool {
		t.Fatalf("the reversed move is %+v, %v", p, err)
	}
	ids, receipts := r.reserve(1, "q")
	r.ack(receipts...)
	if !slices.Equal(ids, []string{"y"}) {
		t.Errorf("reserved %v", ids)
	}
	r.endMove("shop")
	if where, err := r.Where(t.Context(), "shop"); err != nil || where.Pool != contract.DefaultPool {
		t.Errorf("the placement is %+v, %v", where, err)
	}
	if got := r.poolsWith("shop", "q", "x"); !slices.Equal(got, []string{"default"}) {
		t.Errorf("the job is in %v", got)
	}

	orphan := duly.Job{Namespace: "shop", Queue: "q", ID: "orphan"}
	_, err = r.engines["logs"].Push(t.Context(), []duly.Job{orphan})
	r.must(err)
	if p, err := r.Move(t.Context(), "shop", contract.DefaultPool); err != nil || p.From != "logs" {
		t.Errorf("with an orphan: %+v, %v", p, err)
	}
	if ids, _ := r.reserve(1, "q"); !slices.Equal(ids, []string{"orphan"}) {
		t.Errorf("reserved %v", ids)
	}
}

// Move refuses an unknown namespace, whose name is probably mistyped. A placement, a token or a
// queue makes a namespace known.
func TestMoveOfUnknownNamespaceIsNotFound(t *testing.T) {
	t.Parallel()
	r := newRig(t, "orders")
	r.pushJob(duly.Job{ID: "x"})
	all := contract.Token{Hash: [32]byte{9}, Namespace: contract.AllNamespaces, Rights: contract.RightAdmin}
	r.must(r.PutToken(t.Context(), all))
	for _, to := range []string{"orders", contract.DefaultPool} {
		_, err := r.Move(t.Context(), "shpo", to)
		if !errors.Is(err, duly.ErrNotFound) || !contains(err, `"shpo"`) || !contains(err, "--pool "+to) {
			t.Errorf("to %s: %v", to, err)
		}
	}
	_, err := r.engines[contract.DefaultPool].FindPlacement(t.Context(), "shpo")
	if !errors.Is(err, duly.ErrNotFound) {
		t.Errorf("the unknown namespace was placed: %v", err)
	}

	r.must(r.Assign(t.Context(), "placed", "orders"))
	r.must(createToken(t.Context(), r.Pools, "token"))
	r.push("queue", "q", "x")
	for namespace, to := range map[string]string{
		"placed": contract.DefaultPool, "token": "orders", "queue": "orders", duly.DefaultNamespace: "orders", "": "orders",
	} {
		if _, err := r.Move(t.Context(), namespace, to); err != nil {
			t.Errorf("%s: %v", namespace, err)
		}
	}
}

// A move to a pool that cannot have one of the queues fails before any job moves.
func TestMoveFailsIfThePoolCannotHaveAQueue(t *testing.T) {
	t.Parallel()
	c := clock.NewFake()
	many, one := model.New(model.Config{Clock: c}), model.New(model.Config{Clock: c, OneShard: true})
	p := serve(t, c, map[string]pools.Engine{contract.DefaultPool: {Open: many}, "file": {Open: one}})
	for name, shards := range map[string]int{"a": 1, "b": 4} {
		q := duly.QueueRef{Namespace: "shop", Name: name}
		if err := p.Configure(t.Context(), q, duly.QueueConfig{Shards: shards}); err != nil {
			t.Fatal(err)
		}
	}
	_, err := p.Move(t.Context(), "shop", "file")
	if !errors.Is(err, duly.ErrUnsupported) || !contains(err, "shop/b") {
		t.Errorf("Move returned %v", err)
	}
	if where, err := p.Where(t.Context(), "shop"); err != nil || where.From != "" {
		t.Errorf("the placement is %+v, %v", where, err)
	}

	// Queues that the failed move has created are removed later, like orphans.
	if where, err := p.Move(t.Context(), "shop", contract.DefaultPool); err != nil || where.From != "file" {
		t.Errorf("Move to the namespace's own pool returned %+v, %v", where, err)
	}
}

// While one of the two pools is down, calls for jobs of the other pool succeed.
func TestMoveWithPoolDown(t *testing.T) {
	t.Parallel()
	r := newRig(t, "orders", "new")
	r.must(r.Assign(t.Context(), "shop", "orders"))
	r.pushJob(duly.Job{ID: "old"})
	r.move("shop", "new")
	r.pushJob(duly.Job{ID: "new"})
	_, first := r.reserve(1, "q")
	_, second := r.reserve(1, "q")
	p := r.newServer(func(name string, e *model.Engine) contract.Engine {
		if name == "orders" {
			return unreachable{e}
		}
		return e
	})

	acks := []duly.SettleRequest{{Receipt: first[0], As: duly.Ack}, {Receipt: second[0], As: duly.Ack}}
	errs, err := p.Settle(t.Context(), "shop", acks)
	if err != nil || !errors.Is(errs[0], duly.ErrUnavailable) || errs[1] != nil {
		t.Errorf("Settle returned %v, %v", errs, err)
	}
	results, err := p.Push(t.Context(), []duly.Job{
		{Namespace: "shop", Queue: "q", ID: "old"},
		{Namespace: "shop", Queue: "q", ID: duly.NewNumber().String(), Made: true},
	})
	if err != nil || !errors.Is(results[0].Err, duly.ErrUnavailable) || results[1].Status != duly.Created {
		t.Errorf("Push returned %+v, %v", results, err)
	}

	reserve := duly.ReserveParams{Namespace: "shop", Queues: []string{"q"}, Max: 5}
	got, err := p.Reserve(t.Context(), reserve)
	if err != nil || len(got) != 1 {
		t.Errorf("Reserve returned %v, %v", got, err)
	}
	if got, err := p.Reserve(t.Context(), reserve); !errors.Is(err, duly.ErrUnavailable) {
		t.Errorf("without jobs in the new pool, Reserve returned %v, %v", got, err)
	}
	r.ack(first...)
}

// unreachable is an engine whose store does not respond.
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
