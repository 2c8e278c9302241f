package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
)

// bench is one measurement in progress.
type bench struct {
	cfg    Config
	clock  clock.Clock
	engine contract.Engine
	meter  *meter
	native Native       // nil without a gauge
	more   []Native     // more native parts, with other batch sizes
	stored atomic.Int64 // number of jobs that native commands have stored and not taken
	// streams does the native work on messages. added counts its messages that were not taken.
	streams Native
	added   atomic.Int64
	body    []byte
	name    string // name of the queues, without the phase

	queues []duly.QueueRef // queues that the measurement has created
	topics []duly.QueueRef
	shared *stock   // the queue with the backlog; nil without a backlog
	left   []*stock // queues that a run has filled, for a later run that takes jobs

	offset clockOffset
	timed  bool // whether offset was measured

	firstTick time.Time // first tick of the schedules of the current run

	progress *ticker
}

// stock is a queue with its known number of ready jobs.
type stock struct {
	queue duly.QueueRef
	ready int
}

// cleanTime bounds the removal of the queues at the end. Millions of jobs take a while.
const cleanTime = 5 * time.Minute

// Run measures, and returns a report even if it fails or its context ends. In that case the report
// has the finished phases. Run removes its queues, and returns an error if that fails.
func Run(ctx context.Context, cfg Config) (report *Report, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	b := &bench{
		cfg: cfg, clock: cfg.Clock, body: []byte(strings.Repeat("x", cfg.Load.Body)),
		name: Prefix + strings.ToLower(duly.NewNumber().String()),
	}
	report = newReport(cfg)
	if b.engine, err = cfg.Open(ctx); err != nil {
		return report, err
	}

	b.progress = tick(cfg.Clock, cfg.Progress)
	defer func() {
		b.progress.end()
		// A failed measurement must not leave its queues in the store.
		err = errors.Join(err, b.clean(ctx), b.engine.Close())
	}()
	if err := b.openGauge(ctx, report); err != nil {
		return report, err
	}

	// The comparison runs first, because the backlog could not be removed and loaded again in the
	// same state.
	if cfg.Backlog.Compare {
		if err := b.phases(ctx, &report.Without); err != nil {
			return report, fmt.Errorf("phases without the backlog: %w", err)
		}
	}

	if err := b.loadBacklog(ctx, report); err != nil {
		return report, fmt.Errorf("backlog: %w", err)
	}
	err = b.phases(ctx, &report.Phases)
	report.rateLife()
	return report, err
}

// openGauge opens the gauge if one is configured.
func (b *bench) openGauge(ctx context.Context, report *Report) (err error) {
	var g Gauge
	if b.cfg.Gauge != nil {
		if g, err = b.cfg.Gauge(ctx); err != nil {
			return err
		}
		b.native = g.Native(b.cfg.Load.Batch, b.cfg.Load.Body)
		b.streams = g.Streams(b.cfg.Load.Batch, b.cfg.Load.Body)
		report.Server = newServerView(g.About())
	}
	if b.meter, err = newMeter(ctx, g); err != nil && g != nil {
		g.Close()
		// With a nil native, clean removes nothing and does not close the gauge again.
		b.native = nil
	}
	return err
}

// phases runs the phases and stores their results.
func (b *bench) phases(ctx context.Context, results *[]Result) error {
	for _, p := range b.cfg.Phases {
		result, err := b.phase(ctx, p)
		if err != nil {
			return in(string(p), err)
		}
		*results = append(*results, result)
	}
	return nil
}

// in adds the name of a part of a run to an error, unless the error begins with that name.
func in(part string, err error) error {
	if strings.HasPrefix(err.Error(), part+": ") {
		return err
	}
	return fmt.Errorf("%s: %w", part, err)
}

// loadBacklog loads the backlog, and reopens the engine if the configuration asks for it.
func (b *bench) loadBacklog(ctx context.Context, report *Report) (err error) {
	want := b.cfg.Backlog
	if want.Any() {
		b.shared = &stock{queue: b.queue("backlog"), ready: want.Ready}
		view := &MemoryView{}
		if view.Ready, err = b.loadWeighed(ctx, Progress{}, b.shared.queue, want.Ready, delayed(0)); err != nil {
			return err
		}
		tomorrow := delayed(24 * time.Hour)
		if view.Delayed, err = b.loadWeighed(ctx, Progress{}, b.shared.queue, want.Delayed, tomorrow); err != nil {
			return err
		}
		if b.meter.gauge != nil {
			report.Phases = append(report.Phases, Result{Phase: Memory, Runs: 1, Jobs: int64(want.Ready + want.Delayed),
				Memory: view})
		}
	}

	// The memory of a reopened engine has no part of the backlog.
	if !want.Reopen {
		return nil
	}
	if err := b.engine.Close(); err != nil {
		return err
	}

	engine, err := b.cfg.Open(ctx)
	if err != nil {
		return fmt.Errorf("reopening the engine: %w", err)
	}
	b.engine = engine
	return nil
}

// load pushes n jobs without measuring.
func (b *bench) load(ctx context.Context, p Progress, q duly.QueueRef, n int, delay time.Duration) error {
	return b.loadShaped(ctx, p, q, n, delayed(delay))
}

// loadShaped pushes n jobs of a shape without measuring.
func (b *bench) loadShaped(ctx context.Context, p Progress, q duly.QueueRef, n int, shape shape) error {
	if n <= 0 {
		return nil
	}
	r := newRun(ctx, n)
	defer r.stop(nil)
	p.Loading = true
	// The user sees that jobs are loaded, which can take long.
	b.progress.watch(p, r)
	if err := b.pushShaped(ctx, r, q, b.cfg.Load.Callers, b.cfg.Load.Batch, shape); err != nil {
		return err
	}
	return ctx.Err()
}

// phase runs one phase as often as configured.
func (b *bench) phase(ctx context.Context, p Phase) (Result, error) {
	s := specOf(p)
	// A phase with whole makes its own runs and its own result.
	if s.whole != nil {
		return s.whole(b, ctx, Progress{Phase: p, Run: 1, Runs: 1})
	}
	var runs []*run
	for i := range b.cfg.Repeat {
		r, err := b.runOnce(ctx, p, s, i+1)
		if err != nil {
			return Result{}, err
		}
		runs = append(runs, r)
	}
	result := summarize(p, s, runs, b.offset)
	if b.meter.gauge != nil {
		result.Server = costOf(runs)
	}
	return result, nil
}

func (b *bench) runOnce(ctx context.Context, p Phase, s spec, number int) (*run, error) {
	at := Progress{Phase: p, Run: number, Runs: b.cfg.Repeat}
	jobs := b.cfg.Load.Jobs
	// The phase lasts as long as its jobs, so the time limit becomes a limit in jobs.
	if s.paced {
		jobs = max(1, min(jobs, int(float64(b.cfg.Load.Rate)*b.cfg.Load.Time.Seconds())))
	}

	place := b.place(s, fmt.Sprintf("%s-%d", p, number))
	if err := b.prepare(ctx, at, s, place, jobs); err != nil {
		return nil, fmt.Errorf("loading: %w", err)
	}
	r := newRun(ctx, jobs)
	defer r.stop(nil)
	b.progress.watch(at, r)
	// A paced phase ends with its jobs.
	if !s.paced {
		defer r.timed(b.clock, b.cfg.Load.Time)()
	}
	if err := b.measure(ctx, r, func() error { return s.measure(b, ctx, r, place.queue) }); err != nil {
		return nil, err
	}
	b.account(s, r, place)

	return r, nil
}

// measure runs do and records what do used.
func (b *bench) measure(ctx context.Context, r *run, do func() error) error {
	before, err := b.meter.read(ctx)
	if err != nil {
		return err
	}

	r.start = b.clock.Mono()
	// The readings are the last step before the work and the first step after it, so that they
	// don't count themselves.
	cpu := cpuTime()
	err = do()
	r.cpu = cpuTime() - cpu
	// A phase with a worker has set it already.
	if r.elapsed == 0 {
		r.elapsed = b.clock.Mono() - r.start
	}

	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		r.server, err = b.meter.since(ctx, before)
	}
	return err
}

// place returns the queue of a phase. It is the backlog's queue, a queue that an earlier run has
// filled if the phase takes jobs, or a new queue. Queues are removed only at the end, because an
// engine may still be removing jobs while the next run is measured.
func (b *bench) place(s spec, name string) *stock {
	switch last := len(b.left) - 1; {
	case s.native:
		return &stock{}
	// Other jobs in the queue would change the delays.
	case s.apart:
	case b.shared != nil:
		return b.shared
	case s.loaded && last >= 0:
		place := b.left[last]
		b.left = b.left[:last]
		return place
	}
	return &stock{queue: b.queue(name)}
}

// prepare loads the jobs that a run takes, and compares the clocks if necessary.
func (b *bench) prepare(ctx context.Context, at Progress, s spec, place *stock, jobs int) error {
	if s.apart && !b.timed {
		if err := b.compareClocks(ctx); err != nil {
			return err
		}
	}
	if s.load != nil {
		return s.load(b, ctx, at, place.queue, jobs)
	}
	if !s.loaded {
		return nil
	}
	// A run must not empty the backlog.
	if place == b.shared {
		jobs += b.cfg.Backlog.Ready
	}
	missing := max(0, jobs-place.ready)
	place.ready += missing
	return b.load(ctx, at, place.queue, missing, 0)
}

// account updates the number of jobs in a queue after a run.
func (b *bench) account(s spec, r *run, place *stock) {
	done := int(r.done.Load())
	switch {
	case s.loaded:
		place.ready -= done
	case !s.apart && !s.native:
		place.ready += done
		if place != b.shared {
			b.left = append(b.left, place)
		}
	}
}

// queue returns the name of a new queue, which is removed at the end.
func (b *bench) queue(suffix string) duly.QueueRef {
	q := duly.QueueRef{Namespace: b.cfg.Namespace, Name: b.name + "-" + suffix}
	b.queues = append(b.queues, q)
	return q
}

// shardedQueue creates a queue with this number of shards, whatever the engine's default.
func (b *bench) shardedQueue(ctx context.Context, suffix string, shards int) (duly.QueueRef, error) {
	q := b.queue(suffix)
	if err := b.engine.Configure(ctx, q, duly.QueueConfig{Shards: shards}); err != nil {
		return q, fmt.Errorf("creating queue %s: %w", q, err)
	}
	return q, nil
}

// clean removes every queue, even if the caller's context has ended.
func (b *bench) clean(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
	defer cancel()
	var errs []error

	if b.native != nil {
		for _, native := range append(b.more, b.native, b.streams) {
			if err := native.Remove(ctx); err != nil {
				errs = append(errs, fmt.Errorf("can't remove what native commands have stored: %w", err))
			}
		}
		b.meter.gauge.Close()
	}

	// All removals are tried, and every failure is reported.
	for _, q := range b.queues {
		if err := b.remove(ctx, q, b.engine.Destroy); err != nil {
			errs = append(errs, fmt.Errorf("can't remove queue %s: %w", q, err))
		}
	}
	for _, topic := range b.topics {
		if err := b.remove(ctx, topic, b.engine.(contract.Topics).DestroyTopic); err != nil {
			errs = append(errs, fmt.Errorf("can't remove topic %s: %w", topic, err))
		}
	}
	return errors.Join(errs...)
}

// newNative returns another Native, whose data is removed at the end.
func (b *bench) newNative(batch int) Native {
	native := b.meter.gauge.Native(batch, b.cfg.Load.Body)
	b.more = append(b.more, native)
	return native
}

// drop removes a queue before the end of the measurement.
func (b *bench) drop(ctx context.Context, q duly.QueueRef) error {
	if err := b.remove(ctx, q, b.engine.Destroy); err != nil {
		return err
	}
	b.queues = slices.DeleteFunc(b.queues, func(other duly.QueueRef) bool { return other == q })
	return nil
}

// remove removes a queue or a topic. It repeats Destroy, because a queue with millions of jobs
// takes longer than a remote call may.
func (b *bench) remove(ctx context.Context, q duly.QueueRef, destroy func(context.Context, duly.QueueRef) error) error {
	err := destroy(ctx, q)
	for range 9 {
		if !errors.Is(err, duly.ErrUnavailable) || ctx.Err() != nil {
			break
		}
		// The store may still be working on the previous call.
		pause(ctx, b.clock, time.Second)
		err = destroy(ctx, q)
	}
	return err
}
