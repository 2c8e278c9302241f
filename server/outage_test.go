package server

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/logtest"
	"github.com/dulymq/duly/internal/model"
	"github.com/dulymq/duly/server/metrics"
	"github.com/dulymq/duly/server/pools"
)

// outage is an engine whose calls fail while it is down.
type outage struct {
	*model.Engine
	down bool
}

func (o *outage) err() error {
	if o.down {
		return duly.ErrUnavailable
	}
	return nil
}

func (o *outage) Reserve(ctx context.Context, p duly.ReserveParams) ([]duly.Delivery, error) {
	if o.down {
		return nil, o.err()
	}
	return o.Engine.Reserve(ctx, p)
}

func (o *outage) Settle(ctx context.Context, namespace string, outcomes []duly.SettleRequest) ([]error, error) {
	if o.down {
		return nil, o.err()
	}
	return o.Engine.Settle(ctx, namespace, outcomes)
}

func (o *outage) Stats(ctx context.Context, q duly.QueueRef) (duly.Stats, error) {
	if o.down {
		return duly.Stats{}, o.err()
	}
	return o.Engine.Stats(ctx, q)
}

// While a namespace moves and one of its two pools is down, the log has one line, which names that
// pool.
func TestPoolLostDuringMoveIsLoggedOnce(t *testing.T) {
	t.Parallel()
	c, log := clock.NewFake(), new(logtest.Log)
	quiet := slog.New(slog.DiscardHandler)
	home := model.New(model.Config{Clock: c})
	old, fresh := &outage{Engine: model.New(model.Config{Clock: c})}, model.New(model.Config{Clock: c})
	p, err := pools.New(pools.Config{Clock: c, Logger: quiet,
		Engines: map[string]pools.Engine{contract.DefaultPool: {Open: home}, "old": {Open: old}, "new": {Open: fresh}}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := home.PutPlacement(t.Context(),
		contract.Placement{Namespace: "shop", Pool: "new", From: "old", Phase: contract.Draining}); err != nil {
		t.Fatal(err)
	}
	newHealthLog(&Config{Pools: p, Clock: c, Logger: slog.New(slog.NewJSONHandler(log, nil))})

	use := func() {
		for range 3 {
			_, _ = p.Push(t.Context(), []duly.Job{{Namespace: "shop", Queue: "q"}})
			_, _ = p.Push(t.Context(), []duly.Job{{Queue: "q"}})
			got, _ := p.Reserve(t.Context(), duly.ReserveParams{Namespace: "shop", Queues: []string{"empty"}, Max: 1})
			_, _ = p.Settle(t.Context(), "shop",
				[]duly.SettleRequest{{Receipt: "q:0:01J0000000000000000000000A:1", As: duly.Ack}})
			if len(got) > 0 {
				t.Errorf("taken are %v", got)
			}
		}
	}

	logged := func() string { defer func() { *log = logtest.Log{} }(); return log.String() }
	use()
	if text := logged(); text != "" {
		t.Errorf("nothing is wrong: %s", text)
	}
	old.down = true
	use()
	if text := logged(); strings.Count(text, "\n") != 1 || !strings.Contains(text, `the store is lost`) ||
		!strings.Contains(text, `"pool":"old"`) {
		t.Errorf("while it is down: %s", text)
	}
	old.down = false
	use()
	if text := logged(); strings.Count(text, "\n") != 1 || !strings.Contains(text, `the store is back`) ||
		!strings.Contains(text, `"pool":"old"`) {
		t.Errorf("once it is back: %s", text)
	}
}

// faulty is an engine that fails when it reads the stats of one queue.
type faulty struct {
	contract.Inspector
	queue string
}

func (f *faulty) Stats(ctx context.Context, q duly.QueueRef) (duly.Stats, error) {
	if q.Name == f.queue {
		return duly.Stats{}, contract.Errorf(duly.CodeInternal, "can't be read")
	}
	return f.Inspector.Stats(ctx, q)
}

// Even if the stats of one queue can't be read, the dead jobs of other queues are logged, A
// destroyed queue is forgotten.
func TestDeathLogContinuesAndForgets(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	ctx := t.Context()
	f.deaths.begin(&metrics.Snapshot{Complete: true})
	f.deaths.engine = &faulty{f.deaths.engine, "a"}
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h"}

	for _, name := range names {
		f.send("POST", "/v1/default/push", `{"jobs":[{"queue":"`+name+`","tries":1}]}`)
		a := f.send("POST", "/v1/default/reserve", `{"queues":["`+name+`"]}`)
		receipt, _, _ := strings.Cut(strings.SplitN(a.body, `"receipt":"`, 2)[1], `"`)
		f.send("POST", "/v1/default/settle", `{"outcomes":[{"receipt":"`+receipt+`","as":"nack"}]}`)
	}

	f.deaths.check(ctx)
	if logged := strings.Count(f.log.String(), `"jobs have become dead"`); logged != len(names)-1 {
		t.Errorf("%d deaths are logged", logged)
	}

	for _, name := range names[1:] {
		if a := f.send("DELETE", "/v1/default/queues/"+name, ""); a.status >= 300 {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	f.deaths.check(ctx)
	if len(f.deaths.seen) != 0 {
		t.Errorf("remembered are %v", f.deaths.seen)
	}
}
