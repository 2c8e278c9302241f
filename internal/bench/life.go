package bench

import (
	"context"
	"fmt"
	"slices"
	"time"
)

const (
	// lifeJobs is the largest number of jobs of one kind and batch size in one round. A round must
	// be short, so that other work on the machine affects all kinds alike.
	lifeJobs = 10_000
	// lifeCalls is the largest number of calls in one stage, so that a round of single jobs is also
	// short.
	lifeCalls = 2000
	// lifeChunk is the largest number of jobs in flight: the number of jobs with distinct order
	// keys.
	lifeChunk = orderKeys
	// Until the engine has removed a queue, its idle cost is measured every restEvery, for at most
	// restTime.
	restEvery = 50 * time.Millisecond
	restTime  = 2 * time.Second
)

// lifeStep is one kind of job with one batch size.
type lifeStep struct {
	kind  Kind
	batch int
}

// life measures every kind in every batch size once per round, so that changes of the machine's
// speed affect all of them.
func (b *bench) life(ctx context.Context, at Progress) (Result, error) {
	steps := b.lifeSteps()
	bare := map[int]Native{}
	if b.native != nil {
		for _, batch := range b.cfg.Batches {
			bare[batch] = b.newNative(batch)
		}
	}

	l := life{bench: b, bare: bare, most: min(b.cfg.Load.Jobs, lifeChunk), basis: b.basis()}

	// The first calls open connections and load scripts, so this round is not counted.
	at.Loading = true
	if _, err := l.round(ctx, at, steps); err != nil {
		return Result{}, err
	}
	at.Loading = false

	// The rounds before this line were warm-up. The following ones count.
	l.most, l.done, l.cut = min(b.cfg.Load.Jobs, lifeJobs), 0, 0
	begin := b.clock.Mono()
	var rounds []map[lifeStep]LifeCost
	for i := range b.cfg.Repeat {
		at.Run, at.Runs = i+1, b.cfg.Repeat
		costs, err := l.round(ctx, at, steps)
		if err != nil {
			return Result{}, err
		}
		rounds = append(rounds, costs)
		// The order is reversed, so that a step does not always follow the same other step.
		slices.Reverse(steps)
	}

	table := &LifeTable{
		Basis: l.basis, Rounds: b.cfg.Repeat, Callers: b.cfg.Load.Callers, Cut: l.cut,
	}
	// Taken again, because slices.Reverse has changed the order of steps.
	for _, step := range b.lifeSteps() {
		cost := medianCost(step, rounds)
		cost.Jobs = l.jobs(step)
		table.Costs = append(table.Costs, cost)
	}
	return Result{
		Phase: Life, Runs: b.cfg.Repeat, Jobs: l.done, Seconds: (b.clock.Mono() - begin).Seconds(), Life: table,
	}, nil
}

// lifeSteps returns the steps of a round. Plain jobs are always included, because the other kinds
// are compared with them.
func (b *bench) lifeSteps() (steps []lifeStep) {
	for _, batch := range b.cfg.Batches {
		if b.native != nil {
			steps = append(steps, lifeStep{Bare, batch})
		}
		for _, kind := range append([]Kind{Plain}, b.cfg.Kinds...) {
			if step := (lifeStep{kind, batch}); !slices.Contains(steps, step) {
				steps = append(steps, step)
			}
		}
	}
	return steps
}

// basis returns the kind of cost that can be measured for the engine.
func (b *bench) basis() Basis {
	switch {
	case b.meter.gauge != nil:
		return ServerCPU
	case b.cfg.Embedded && cpuTime() > 0:
		return ProcessCPU
	}
	return Elapsed
}

// life is a phase life in progress.
type life struct {
	*bench
	bare  map[int]Native // native work for plain jobs, by batch size
	basis Basis
	most  int   // number of jobs per step
	made  int   // number of queues created so far
	done  int64 // number of acked jobs
	cut   int   // number of steps whose pushes ended at the time limit
}

// stages has the three stages in the life of the jobs of one step.
type stages interface {
	// push creates the run's jobs.
	push(ctx context.Context, r *run) error
	// reserve reserves the run's jobs and keeps them for ack.
	reserve(ctx context.Context, r *run) error
	// ack acks the reserved jobs.
	ack(ctx context.Context, r *run) error
}

// jobs returns how many jobs a step has.
func (l *life) jobs(step lifeStep) int { return min(l.most, lifeCalls*step.batch) }

// round measures each step once.
func (l *life) round(ctx context.Context, at Progress, steps []lifeStep) (map[lifeStep]LifeCost, error) {
	progress := newRun(ctx, len(steps))
	defer progress.stop(nil)
	l.progress.watch(at, progress)

	costs := map[lifeStep]LifeCost{}
	for _, step := range steps {
		cost, err := l.step(ctx, step)
		if err != nil {
			return nil, in(fmt.Sprintf("%s jobs, %d per call", step.kind, step.batch), err)
		}
		costs[step] = cost
		progress.done.Add(1)
	}
	return costs, nil
}

// step measures one step in a separate queue.
func (l *life) step(ctx context.Context, step lifeStep) (LifeCost, error) {
	if step.kind == Bare {
		return l.measureStages(ctx, l.jobs(step), &bareStages{native: l.bare[step.batch]})
	}

	l.made++
	// In a queue with several shards, a job can't have both an order key and a caller's ID.
	q, err := l.shardedQueue(ctx, fmt.Sprintf("life-%s-%d-%d", step.kind, step.batch, l.made), 1)
	if err != nil {
		return LifeCost{}, err
	}
	cost, err := l.measureStages(ctx, l.jobs(step), &jobStages{bench: l.bench, queue: q, step: step})
	if err != nil {
		return LifeCost{}, err
	}

	// Retained jobs are still in the queue. If the engine removed them a minute later, the cost would
	// count for another kind.
	if err := l.drop(ctx, q); err != nil {
		return LifeCost{}, fmt.Errorf("removing the queue: %w", err)
	}
	return cost, l.rest(ctx)
}

// measureStages measures the stages of a step with the given number of jobs. At most lifeChunk jobs
// are in flight.
func (l *life) measureStages(ctx context.Context, jobs int, s stages) (cost LifeCost, err error) {
	var spent struct{ push, reserve, ack time.Duration }
	pushed, err := l.stage(ctx, jobs, l.cfg.Load.Time, s.push, &spent.push)
	if err != nil {
		return cost, err
	}
	if pushed < jobs {
		l.cut++
	}

	for left := pushed; left > 0; left -= lifeChunk {
		n := min(left, lifeChunk)
		if _, err := l.stage(ctx, n, 0, s.reserve, &spent.reserve); err != nil {
			return cost, err
		}
		if _, err := l.stage(ctx, n, 0, s.ack, &spent.ack); err != nil {
			return cost, err
		}
	}

	l.done += int64(pushed)
	each := func(d time.Duration) float64 { return micros(d) / float64(max(1, pushed)) }
	cost.Push, cost.Reserve, cost.Ack = each(spent.push), each(spent.reserve), each(spent.ack)
	cost.Sum = cost.Push + cost.Reserve + cost.Ack
	return cost, nil
}

// stage measures one stage of n jobs, adds its cost to spent, and returns how many jobs it handled.
// A bound of 0 means no time limit.
func (l *life) stage(
	ctx context.Context, n int, bound time.Duration, do func(context.Context, *run) error, spent *time.Duration,
) (int, error) {
	r := newRun(ctx, n)
	defer r.stop(nil)
	if bound > 0 {
		defer r.timed(l.clock, bound)()
	}
	if err := l.measure(ctx, r, func() error { return do(ctx, r) }); err != nil {
		return 0, err
	}

	switch l.basis {
	case ServerCPU:
		*spent += r.server.CPU
	case ProcessCPU:
		*spent += r.cpu
	default:
		*spent += r.elapsed
	}
	return int(r.done.Load()), nil
}

// rest waits until the engine has removed a queue. It waits until an idle engine costs almost
// nothing.
func (l *life) rest(ctx context.Context) error {
	if l.basis == Elapsed {
		return ctx.Err()
	}
	idle := func(ctx context.Context, _ *run) error {
		pause(ctx, l.clock, restEvery)
		return nil
	}
	for until := l.clock.Mono() + restTime; l.clock.Mono() < until; {
		var spent time.Duration
		if _, err := l.stage(ctx, 1, 0, idle, &spent); err != nil {
			return err
		}
		if spent < restEvery/50 {
			break
		}
	}
	return nil
}
