package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// spreadJobs limits the jobs of one load in a round, which keeps rounds short.
const spreadJobs = 20_000

// spreadLoad is one way to load a queue.
type spreadLoad struct{ batch, callers int }

// spreadSide is a queue in a cluster or on a single server.
type spreadSide struct {
	*bench
	cluster bool
	shards  int
	queue   duly.QueueRef
	nodes   []*meter // one meter per node
}

// spreadStep is one load on one side: the cluster or the single server.
type spreadStep struct {
	load spreadLoad
	side *spreadSide
}

// spread loads the cluster and the single server in turn, once per round, so that other work on the
// machine affects both alike.
func (b *bench) spread(ctx context.Context, at Progress) (_ Result, failure error) {
	cluster, ok := b.meter.gauge.(Cluster)
	if !ok || len(cluster.Nodes()) < 2 {
		return Result{}, contract.Invalid("phases",
			"names spread, but this server is a single node: use the URL of a cluster, "+
				"redis+cluster://, and give the single server with against")
	}
	side, err := b.newSide(ctx, b.meter.gauge, b.cfg.Shards)
	if err != nil {
		return Result{}, err
	}
	side.cluster = true
	sides := []*spreadSide{side}

	table := &SpreadTable{Shards: b.cfg.Shards, Rounds: b.cfg.Repeat, Jobs: min(b.cfg.Load.Jobs, spreadJobs)}
	if table.Nodes, err = holders(ctx, cluster, side); err != nil {
		return Result{}, err
	}

	if b.cfg.Against.Open != nil {
		server, err := b.openServer(ctx)
		if err != nil {
			return Result{}, fmt.Errorf("against: %w", err)
		}
		defer func() { failure = errors.Join(failure, server.leave(ctx)) }()
		more, err := server.sides(ctx)
		if err != nil {
			return Result{}, fmt.Errorf("against: %w", err)
		}
		sides, table.Against = append(sides, more...), server.gauge.About().Server
	}
	return b.spreadRounds(ctx, at, table, sides)
}

// newSide creates a queue, and a meter for each node.
func (b *bench) newSide(ctx context.Context, g Gauge, shards int) (*spreadSide, error) {
	q, err := b.shardedQueue(ctx, fmt.Sprintf("spread-%d", shards), shards)
	if err != nil {
		return nil, err
	}

	// A single server counts as one node.
	nodes := []Node{{Read: g.Read}}
	if cluster, ok := g.(Cluster); ok {
		nodes = cluster.Nodes()
	}
	side := &spreadSide{bench: b, shards: shards, queue: q}
	for _, n := range nodes {
		m := &meter{counter: n.Read}
		if err := m.calibrate(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", n.Name, err)
		}
		side.nodes = append(side.nodes, m)
	}
	return side, nil
}

// holders returns how many shards each node of a cluster has.
func holders(ctx context.Context, cluster Cluster, side *spreadSide) (all []NodeShards, err error) {
	held, err := cluster.Shards(ctx, side.queue, side.shards)
	if err != nil {
		return nil, fmt.Errorf("finding the shards' nodes: %w", err)
	}
	for i, n := range cluster.Nodes() {
		all = append(all, NodeShards{Node: n.Name, Shards: held[i]})
	}
	return all, nil
}

// oneServer is the single server that a cluster is compared with.
type oneServer struct {
	*bench
	gauge Gauge
}

// openServer opens the single server.
func (b *bench) openServer(ctx context.Context) (*oneServer, error) {
	s := &oneServer{bench: &bench{cfg: b.cfg, clock: b.clock, body: b.body, name: b.name, progress: b.progress}}
	var err error
	if s.engine, err = b.cfg.Against.Open(ctx); err != nil {
		return nil, err
	}
	if s.gauge, err = b.cfg.Against.Gauge(ctx); err != nil {
		return nil, errors.Join(err, s.engine.Close())
	}
	return s, nil
}

// sides returns a queue with as many shards as in the cluster, and one with a single shard, the
// usual form on a single server.
func (s *oneServer) sides(ctx context.Context) (all []*spreadSide, err error) {
	// For one shard, both queues would be the same.
	for _, shards := range slices.Compact([]int{s.cfg.Shards, 1}) {
		side, err := s.newSide(ctx, s.gauge, shards)
		if err != nil {
			return nil, err
		}
		all = append(all, side)
	}
	return all, nil
}

// leave removes the queues and closes the engine and the gauge.
func (s *oneServer) leave(ctx context.Context) error {
	err := errors.Join(s.clean(ctx), s.engine.Close())
	s.gauge.Close()
	return err
}

// spreadRounds runs all rounds and fills in the costs of a table.
func (b *bench) spreadRounds(
	ctx context.Context, at Progress, table *SpreadTable, sides []*spreadSide,
) (Result, error) {
	var steps []spreadStep
	for _, load := range []spreadLoad{{b.cfg.Load.Batch, b.cfg.Load.Callers}, {1, 512}, {1, 64}} {
		for _, side := range sides {
			steps = append(steps, spreadStep{load, side})
		}
	}

	// The first round isn't kept: its calls open connections and load scripts.
	at.Loading = true
	if _, err := b.spreadRound(ctx, at, steps, min(table.Jobs, 1000)); err != nil {
		return Result{}, err
	}
	at.Loading = false

	begin := b.clock.Mono()
	var rounds []map[spreadStep]SpreadCost
	for i := range b.cfg.Repeat {
		at.Run, at.Runs = i+1, b.cfg.Repeat
		costs, err := b.spreadRound(ctx, at, steps, table.Jobs)
		if err != nil {
			return Result{}, err
		}
		rounds = append(rounds, costs)
	}
	for _, step := range steps {
		table.Costs = append(table.Costs, medianSpread(step, steps, rounds))
	}
	return Result{
		Phase: Spread, Runs: b.cfg.Repeat, Jobs: int64(b.cfg.Repeat * len(steps) * table.Jobs),
		Seconds: (b.clock.Mono() - begin).Seconds(), Spread: table,
	}, nil
}

// spreadRound measures each step once.
func (b *bench) spreadRound(
	ctx context.Context, at Progress, steps []spreadStep, jobs int,
) (map[spreadStep]SpreadCost, error) {
	progress := newRun(ctx, len(steps))
	defer progress.stop(nil)
	b.progress.watch(at, progress)

	costs := map[spreadStep]SpreadCost{}
	for _, step := range steps {
		cost, err := step.side.measureLoad(ctx, step.load, jobs)
		if err != nil {
			return nil, fmt.Errorf("%d jobs per call, %d callers: %w", step.load.batch, step.load.callers, err)
		}
		costs[step] = cost
		progress.done.Add(1)
	}
	return costs, nil
}

// measureLoad pushes and takes jobs. It returns the cost of the node with the highest sum of both.
func (s *spreadSide) measureLoad(ctx context.Context, load spreadLoad, jobs int) (cost SpreadCost, err error) {
	push := newRun(ctx, jobs)
	defer push.stop(nil)
	defer push.timed(s.clock, s.cfg.Load.Time)()
	pushed, err := s.spent(ctx, func() error { return s.push(ctx, push, s.queue, load.callers, load.batch, 0) })
	if err != nil {
		return cost, err
	}

	// The push may have ended early at its time limit.
	done := max(1, int(push.done.Load()))
	take := newRun(ctx, done)
	defer take.stop(nil)
	taken, err := s.spent(ctx, func() error { return s.takeBatches(ctx, take, s.queue, load.callers, load.batch) })
	if err != nil {
		return cost, err
	}

	for i := range s.nodes {
		push, take := micros(pushed[i])/float64(done), micros(taken[i])/float64(done)
		cost.All += push + take

		// The busiest node limits the cluster, so its cost is reported.
		if push+take > cost.Sum {
			cost.Push, cost.Take, cost.Sum = push, take, push+take
		}
	}
	return cost, nil
}

// spent returns the CPU time that each node uses while do runs.
func (s *spreadSide) spent(ctx context.Context, do func() error) ([]time.Duration, error) {
	before := make([]Reading, len(s.nodes))
	for i, m := range s.nodes {
		var err error
		if before[i], err = m.read(ctx); err != nil {
			return nil, err
		}
	}
	err := do()
	if err == nil {
		// An interrupted run has no meaningful cost.
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}

	all := make([]time.Duration, len(s.nodes))
	for i, m := range s.nodes {
		spent, err := m.since(ctx, before[i])
		if err != nil {
			return nil, err
		}
		all[i] = spent.CPU
	}
	return all, nil
}
