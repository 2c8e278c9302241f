package pools_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/model"
	"github.com/dulymq/duly/server/pools"
)

// rig is several engines in memory, on one clock.
type rig struct {
	*pools.Pools
	t       *testing.T
	clock   *clock.Fake
	engines map[string]*model.Engine
}

// assemble puts engines together; the first is the default pool.
func assemble(t testing.TB, c *clock.Fake, cfg model.Config, names ...string) (*pools.Pools, map[string]*model.Engine) {
	t.Helper()
	cfg.Clock = c
	engines, open := map[string]*model.Engine{}, map[string]pools.Engine{}
	for _, name := range append([]string{contract.DefaultPool}, names...) {
		engines[name] = model.New(cfg)
		open[name] = pools.Engine{Open: engines[name]}
	}
	return serve(t, c, open), engines
}

// serve is a server with these engines.
func serve(t testing.TB, c *clock.Fake, engines map[string]pools.Engine) *pools.Pools {
	t.Helper()
	p, err := pools.New(pools.Config{Engines: engines, Clock: c, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func newRig(t *testing.T, names ...string) *rig {
	t.Helper()
	c := clock.NewFake()
	p, engines := assemble(t, c, model.Config{Manual: true}, names...)
	return &rig{p, t, c, engines}
}

// meet lets a namespace be known that has neither a queue nor a place: by a token.
func meet(ctx context.Context, p *pools.Pools, namespace string) error {
	return p.PutToken(ctx, contract.Token{Hash: [32]byte{1}, Namespace: namespace, Rights: contract.RightProduce})
}

// another is one more server with the rig's engines, each as around has it.
func (r *rig) another(around func(name string, e *model.Engine) contract.Engine) *pools.Pools {
	r.t.Helper()
	open := map[string]pools.Engine{}
	for name, e := range r.engines {
		open[name] = pools.Engine{Open: around(name, e)}
	}
	return serve(r.t, r.clock, open)
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) push(namespace, queue, id string) {
	r.t.Helper()
	results, err := r.Push(r.t.Context(), []duly.Job{{Namespace: namespace, Queue: queue, ID: id}})
	if err == nil {
		err = results[0].Err
	}
	r.must(err)
}

// holds tells which pools have a job.
func (r *rig) holds(namespace, queue, id string) (names []string) {
	r.t.Helper()
	for _, name := range r.Names() {
		if _, err := r.engines[name].Get(r.t.Context(), duly.QueueRef{Namespace: namespace, Name: queue}, id); err == nil {
			names = append(names, name)
		}
	}
	return names
}

var shop = duly.QueueRef{Namespace: "shop", Name: "q"}

// carryOn lets the time of a phase pass, and does what is next.
func (r *rig) carryOn() {
	r.t.Helper()
	r.must(r.CarryOn(r.t.Context())) // from now on it counts
	r.clock.Advance(pools.Settle)
	r.must(r.CarryOn(r.t.Context()))
}

// move begins a move and brings it to the point where jobs go to the new pool.
func (r *rig) move(namespace, to string) {
	r.t.Helper()
	_, err := r.Move(r.t.Context(), namespace, to)
	r.must(err)
	r.carryOn()
	if where, err := r.Where(r.t.Context(), namespace); err != nil || where.Phase != contract.Draining || where.Pool != to {
		r.t.Fatalf("it is in %+v, %v", where, err)
	}
}

// end lets a move end that has nothing left to wait for.
func (r *rig) end(namespace string) {
	r.t.Helper()
	for range 2 { // another server may have claimed the removal
		r.carryOn()
	}
	if where, err := r.Where(r.t.Context(), namespace); err != nil || where.From != "" {
		r.t.Fatalf("the move does not end: %+v, %v", where, err)
	}
}

// left lists the queues of shop in a pool.
func (r *rig) left(pool string) []string {
	r.t.Helper()
	queues, err := r.engines[pool].Queues(r.t.Context(), "shop", duly.PageParams{})
	r.must(err)
	return queues.Names
}

func (r *rig) phase(namespace string) contract.MovePhase {
	r.t.Helper()
	where, err := r.Where(r.t.Context(), namespace)
	r.must(err)
	return where.Phase
}

func (r *rig) take(max int, queues ...string) (ids []string, receipts []duly.Receipt) {
	r.t.Helper()
	got, err := r.Reserve(r.t.Context(), duly.ReserveParams{Namespace: "shop", Queues: queues, Max: max})
	r.must(err)
	for _, d := range got {
		ids, receipts = append(ids, d.ID), append(receipts, d.Receipt)
	}
	return ids, receipts
}

func (r *rig) ack(receipts ...duly.Receipt) {
	r.t.Helper()
	for _, receipt := range receipts {
		errs, err := r.Settle(r.t.Context(), "shop", []duly.SettleRequest{{Receipt: receipt, As: duly.Ack}})
		if err == nil {
			err = errs[0]
		}
		r.must(err)
	}
}

func (r *rig) pushJob(j duly.Job) duly.PushResult {
	r.t.Helper()
	j.Namespace, j.Queue = "shop", "q"
	results, err := r.Push(r.t.Context(), []duly.Job{j})
	r.must(err)
	return results[0]
}

func contains(err error, text string) bool { return err != nil && strings.Contains(err.Error(), text) }
