package bench

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
)

// clustered is a gauge of three nodes. The first node does half of the work.
type clustered struct{ *gauge }

func (c clustered) Nodes() (nodes []Node) {
	for i, share := range []time.Duration{50, 20, 30} {
		nodes = append(nodes, Node{Name: string(rune('a' + i)), Read: func(context.Context) (Reading, error) {
			return Reading{CPU: time.Duration(c.calls.Load()) * share * time.Microsecond}, c.failing("node")
		}})
	}
	return nodes
}

func (c clustered) Shards(_ context.Context, q duly.QueueRef, shards int) ([]int, error) {
	if !strings.HasPrefix(q.Name, Prefix) {
		return nil, errors.New("not the measurement's queue: " + q.Name)
	}
	return []int{shards - 3, 1, 2}, c.failing("shards")
}

// spreading returns a Config for the phase spread, with a fake cluster and a fake single server.
// Each call takes 100 µs.
func spreading(g, against *gauge, other *engine) Config {
	return Config{
		Phases: []Phase{Spread}, Shards: 4, Load: Load{Jobs: 1000, Batch: 50},
		Gauge:   func(context.Context) (Gauge, error) { return clustered{g}, g.failing("open") },
		Against: Target{Open: other.open, Gauge: against.open},
	}
}

func TestSpreadComparesTheBusiestNodeWithOneServer(t *testing.T) {
	t.Parallel()
	g, against := &gauge{}, &gauge{}
	e, other := g.on(newEngine()), against.on(newEngine())
	cfg := spreading(g, against, other)
	cfg.Repeat = 3
	measure(t, e, cfg, func(t *testing.T, r *Report, err error) {
		if err != nil {
			t.Fatal(err)
		}
		table := r.Phases[0].Spread
		if table == nil || table.Shards != 4 || table.Rounds != 3 || table.Jobs != 1000 || table.Against != "fake 1" {
			t.Fatalf("%+v", table)
		}
		if want := []NodeShards{{"a", 1}, {"b", 1}, {"c", 2}}; !slices.Equal(table.Nodes, want) {
			t.Errorf("nodes %+v", table.Nodes)
		}

		// A call costs 100 µs, which is 2 µs per job in a call of 50. The first node has half of
		// that cost.
		about := func(got, want float64) bool { return got > want*0.99 && got < want*1.01 }
		for i, want := range []SpreadCost{
			{Batch: 50, Callers: 4, Cluster: true, Shards: 4, Push: 1, Take: 2, Sum: 3, All: 6, ToServer: 0.5},
			{Batch: 50, Callers: 4, Shards: 4, Push: 2, Take: 4, Sum: 6, All: 6, ToServer: 1},
			{Batch: 50, Callers: 4, Shards: 1, Push: 2, Take: 4, Sum: 6, All: 6, ToServer: 1},
			{Batch: 1, Callers: 512, Cluster: true, Shards: 4, Push: 50, Take: 100, Sum: 150, All: 300, ToServer: 0.5},
			{Batch: 1, Callers: 512, Shards: 4, Push: 100, Take: 200, Sum: 300, All: 300, ToServer: 1},
			{Batch: 1, Callers: 512, Shards: 1, Push: 100, Take: 200, Sum: 300, All: 300, ToServer: 1},
			{Batch: 1, Callers: 64, Cluster: true, Shards: 4, Push: 50, Take: 100, Sum: 150, All: 300, ToServer: 0.5},
		} {
			got := table.Costs[i]
			same := got.Batch == want.Batch && got.Callers == want.Callers &&
				got.Cluster == want.Cluster && got.Shards == want.Shards
			if !same || !about(got.Push, want.Push) || !about(got.Take, want.Take) || !about(got.Sum, want.Sum) ||
				!about(got.All, want.All) || !about(got.ToServer, want.ToServer) {
				t.Errorf("got %+v, want %+v", got, want)
			}
		}
		for _, of := range []*engine{e, other} {
			if c := of.stats["spread-4"].Counters; c.Pushed != 3*4*1000 || c.Acked != c.Pushed {
				t.Errorf("%+v", c)
			}
		}
		if len(table.Costs) != 9 {
			t.Errorf("%d costs", len(table.Costs))
		}
		if against.closed.Load() != 1 || other.opened != 1 || other.closed != 1 {
			t.Errorf("the gauge was closed %d times, the engine %d times", against.closed.Load(), other.closed)
		}
	})
}

func TestSpreadRunsWithoutASingleServer(t *testing.T) {
	t.Parallel()
	g := &gauge{}
	cfg := spreading(g, nil, nil)
	cfg.Against = Target{}
	measure(t, g.on(newEngine()), cfg, func(t *testing.T, r *Report, err error) {
		if err != nil {
			t.Fatal(err)
		}
		table := r.Phases[0].Spread
		if len(table.Costs) != 3 || table.Against != "" || table.Costs[0].ToServer != 0 || table.Costs[0].Sum == 0 {
			t.Errorf("%+v", table)
		}
	})
}

func TestSpreadNeedsACluster(t *testing.T) {
	t.Parallel()
	g := &gauge{}
	measure(t, g.on(newEngine()), g.gauged(Config{Phases: []Phase{Spread}}), func(t *testing.T, _ *Report, err error) {
		if !errors.Is(err, duly.ErrInvalid) || !strings.Contains(err.Error(), "redis+cluster://") {
			t.Errorf("got %v", err)
		}
	})
}

func TestErrorsOfSpreadLeaveNoQueue(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, op := range map[string]string{"shards": "shards", "node": "node", "push": "push", "settle": "settle"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, against := &gauge{fail: failOnce(op, 1, broken)}, &gauge{}
			e, other := g.on(newEngine()), against.on(newEngine())
			if op == "push" || op == "settle" {
				e.fail = failOnce(op, 1, broken)
			}
			measure(t, e, spreading(g, against, other), func(t *testing.T, _ *Report, err error) {
				if !errors.Is(err, broken) || other.opened != other.closed {
					t.Errorf("got %v; opened %d times, closed %d times", err, other.opened, other.closed)
				}
			})
		})
	}

	t.Run("against destroy", func(t *testing.T) {
		t.Parallel()
		g, against := &gauge{}, &gauge{}
		e, other := g.on(newEngine()), against.on(newEngine())
		other.fail = failOnce("destroy", 1, broken)
		measure(t, e, spreading(g, against, other), func(t *testing.T, _ *Report, err error) {
			if !errors.Is(err, broken) || other.closed != 1 || against.closed.Load() != 1 {
				t.Errorf("got %v; closed %d times", err, other.closed)
			}
		})
	})

	for _, op := range []string{"open", "read"} {
		t.Run("against "+op, func(t *testing.T) {
			t.Parallel()
			g, against := &gauge{}, &gauge{fail: failOnce(op, 1, broken)}
			other := against.on(newEngine())
			measure(t, g.on(newEngine()), spreading(g, against, other), func(t *testing.T, _ *Report, err error) {
				if !errors.Is(err, broken) || !strings.Contains(err.Error(), "against: ") || other.closed != 1 {
					t.Errorf("got %v; closed %d times", err, other.closed)
				}
			})
		})
	}
}
