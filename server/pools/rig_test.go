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

// rig is a server with several engines in memory, on one fake clock.
type rig struct {
	*pools.Pools
	t       *testing.T
	clock   *clock.Fake
	engines map[string]*model.Engine
}

// assemble returns a server with the default pool and the given other pools.
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

// serve returns a server with these engines.
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

// createToken creates a token, so that a namespace without a queue and a placement exists.
func createToken(ctx context.Context, p *pools.Pools, namespace string) error {
	return p.PutToken(ctx, contract.Token{Hash: [32]byte{1}, Namespace: namespace, Rights: contract.RightProduce})
}

// newServer returns another server with the rig's engines, each wrapped by the function wrap.
func (r *rig) newServer(wrap func(name string, e *model.Engine) contract.Engine) *pools.Pools {
	r.t.Helper()
	open := map[string]pools.Engine{}
	for name, e := range r.engines {
		open[name] = pools.Engine{Open: wrap(name, e)}
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

// poolsWith returns the names of the pools that have a job.
func (r *rig) poolsWith(namespace, queue, id string) (names []string) {
	r.t.Helper()
	q := duly.QueueRef{Namespace: namespace, Name: queue}
	for _, name := range r.Names() {
		if _, err := r.engines[name].Get(r.t.Context(), q, id); err == nil {
			names = append(names, name)
		}
	}
	return names
}

var shop = duly.QueueRef{Namespace: "shop", Name: "q"}

// advance lets propagationTime pass, and runs the next step of each move.
func (r *rig) advance() {
	r.t.Helper()
	r.must(r.Advance(r.t.Context())) // the time of a phase starts with its first turn
	r.clock.Advance(pools.Propagation)
	r.must(r.Advance(r.t.Context()))
}

// move starts a move and advances it to the draining phase.
func (r *rig) move(namespace, to string) {
	r.t.Helper()
	_, err := r.Move(r.t.Context(), namespace, to)
	r.must(err)
	r.advance()
	where, err := r.Where(r.t.Context(), namespace)
	if err != nil || where.Phase != contract.Draining || where.Pool != to {
		r.t.Fatalf("the placement is %+v, %v", where, err)
	}
}

// endMove advances a move to its end. The old pool must be empty.
func (r *rig) endMove(namespace string) {
	r.t.Helper()
	for range 2 { // repeated, because another server may hold the removal lock
		r.advance()
	}
	if where, err := r.Where(r.t.Context(), namespace); err != nil || where.From != "" {
		r.t.Fatalf("the move does not end: %+v, %v", where, err)
	}
}

// queuesIn returns the queues of the namespace shop in a pool.
func (r *rig) queuesIn(pool string) []string {
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

func (r *rig) reserve(max int, queues ...string) (ids []string, receipts []duly.Receipt) {
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
