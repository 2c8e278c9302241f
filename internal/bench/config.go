package bench

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
)

// Prefix begins the names of all queues of a measurement.
const Prefix = "bench-"

// Config says what to measure. All fields except Open may be zero.
type Config struct {
	// Open opens the engine. It is called once, and a second time if Backlog.Reopen is set. Run
	// closes the engine.
	Open func(context.Context) (contract.Engine, error)
	// Gauge, if set, opens the gauge of the server behind the engine, after Open. Run closes it.
	Gauge func(context.Context) (Gauge, error)
	// Namespace is the namespace of the queues. Default [duly.DefaultNamespace].
	Namespace string
	// Phases are the phases to run, in this order. Default [Phases], or [GaugePhases] with a
	// gauge. With a backlog the default omits the native phases, Memory, which the backlog itself
	// reports, and Life unless Kinds are given.
	Phases []Phase
	// Repeat is the number of runs of each phase, 1…1000. Default 3.
	Repeat int
	// Load is the work of each run.
	Load Load
	// Kinds are the kinds of jobs in Life and Memory. Default [Kinds].
	Kinds []Kind
	// Batches are the batch sizes in Life, 1…1000 each. Default Load.Batch, or 1, 10 and 50 if
	// Load.Batch is also zero.
	Batches []int
	// Shards is the number of shards of the queue in Spread: a power of two, 1…256. Default 8.
	Shards int
	// Against is a single server on which Spread repeats its work, for comparison.
	Against Target
	// Embedded means that the engine runs in this process, so the process's CPU time is the
	// engine's.
	Embedded bool
	// Backlog is the jobs in the store during the measurement.
	Backlog Backlog
	// Progress, if set, is called with the progress a few times a second, always on the same
	// goroutine, and not after Run returned.
	Progress func(Progress)
	// Logger is the worker's logger. Default: no logging.
	Logger *slog.Logger
	// Clock measures all times. Default: the system's clock.
	Clock clock.Clock
}

// Target is an engine and the gauge of the server behind it.
type Target struct {
	Open  func(context.Context) (contract.Engine, error)
	Gauge func(context.Context) (Gauge, error)
}

// Load is the work of one run of a phase. Zero fields have defaults.
type Load struct {
	Jobs        int           // limit of a run in jobs, 1…100 000 000; default 100 000
	Time        time.Duration // limit of a run in time, 10 ms–1 h; default 10 s
	Batch       int           // jobs in a batch, 1…1000; default 100
	Callers     int           // goroutines that push or take batches, 1…10 000; default 4
	Goroutines  int           // goroutines that push single jobs, 1…10 000; default 64
	Concurrency int           // jobs that the worker handles at a time, 1…10 000; default 64
	Body        int           // bytes of a job's body, 1 to 64 MiB; default 100
	Rate        int           // jobs due per second in lateness, 1…100 000; default 1000
	Queues      int           // queues that idle waits on, 1…100; default 100
}

// Backlog has the numbers of jobs that are in the store during the measurement.
type Backlog struct {
	Ready   int // number of ready jobs, 0…100 000 000
	Delayed int // number of delayed jobs, due from tomorrow on; 0…100 000 000
	// Reopen closes and reopens the engine after the backlog was loaded, so that the engine has
	// nothing of the backlog in memory.
	Reopen bool
	// Compare runs the phases without the backlog first.
	Compare bool
}

// Any reports whether there is a backlog.
func (b Backlog) Any() bool { return b.Ready > 0 || b.Delayed > 0 }

// Progress is the progress of a measurement.
type Progress struct {
	Phase Phase
	// Run is the number of the phase's run, from 1, of Runs. Both are 0 while the backlog is
	// loaded.
	Run, Runs int
	// Loading is set while jobs are prepared, which is not measured.
	Loading bool
	// Done is the number of finished jobs of Total. A run that reaches its time limit ends before
	// Total.
	Done, Total int64
}

const (
	maxJobs       = 100_000_000
	maxGoroutines = 10_000
)

func (c Config) withDefaults() Config {
	c.Namespace = contract.NamespaceOr(c.Namespace)
	if len(c.Phases) == 0 {
		c.Phases = c.usualPhases()
	}
	if len(c.Kinds) == 0 {
		c.Kinds = Kinds()
	}

	if len(c.Batches) == 0 {
		c.Batches = []int{1, 10, 50}
		if c.Load.Batch != 0 {
			c.Batches = []int{c.Load.Batch}
		}
	}

	or(&c.Shards, 8)
	or(&c.Repeat, 3)
	or(&c.Load.Jobs, 100_000)
	or(&c.Load.Time, 10*time.Second)
	or(&c.Load.Batch, 100)
	or(&c.Load.Callers, 4)
	or(&c.Load.Goroutines, 64)
	or(&c.Load.Concurrency, 64)
	or(&c.Load.Body, 100)
	or(&c.Load.Rate, 1000)
	or(&c.Load.Queues, duly.MaxReserveQueues)
	if c.Progress == nil {
		c.Progress = func(Progress) {}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Clock == nil {
		c.Clock = clock.System()
	}

	return c
}

func (c Config) usualPhases() []Phase {
	usual := Phases()
	if c.Gauge != nil {
		usual = GaugePhases()
	}
	if c.Backlog.Any() {
		apart := []Phase{NativePush, NativeTake, Memory}
		if len(c.Kinds) == 0 {
			apart = append(apart, Life)
		}
		usual = slices.DeleteFunc(usual, func(p Phase) bool { return slices.Contains(apart, p) })
	}
	return usual
}

func or[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate returns [duly.ErrInvalid] with every field that is out of bounds. Zero fields have
// defaults and are valid.
func (c Config) Validate() error {
	// Zero fields are valid, so their defaults are validated instead.
	c = c.withDefaults()
	var bad contract.BadFields
	bound := func(field string, n, low, high int) {
		if n < low || n > high {
			bad.Add(field, "is %d, must be between %d and %d", n, low, high)
		}
	}
	l := c.Load
	bound("repeat", c.Repeat, 1, 1000)
	bound("jobs", l.Jobs, 1, maxJobs)
	c.validateBatches(&bad)
	bound("callers", l.Callers, 1, maxGoroutines)
	bound("goroutines", l.Goroutines, 1, maxGoroutines)
	bound("concurrency", l.Concurrency, 1, maxGoroutines)
	bound("body", l.Body, 1, duly.MaxMaxBody)
	bound("rate", l.Rate, 1, 100_000)
	bound("queues", l.Queues, 1, duly.MaxReserveQueues)
	bound("backlog_ready", c.Backlog.Ready, 0, maxJobs)
	bound("backlog_delayed", c.Backlog.Delayed, 0, maxJobs)
	if l.Time < 10*time.Millisecond || l.Time > time.Hour {
		bad.Add("time", "is %s, must be between 10ms and 1h", duly.FormatDuration(l.Time))
	}
	if c.Shards < 1 || c.Shards > duly.MaxShards || c.Shards&(c.Shards-1) != 0 {
		bad.Add("shards", "is %d, must be a power of two between 1 and %d", c.Shards, duly.MaxShards)
	}
	if c.Against.Open != nil && !slices.Contains(c.Phases, Spread) {
		bad.Add("against", "needs the phase spread: add it to phases")
	}
	if slices.Contains(c.Phases, TickLateness) && l.Rate > duly.MaxSchedules {
		bad.Add("rate", "is %d, may be at most %d in tick-lateness, which has a schedule for each tick of a second", l.Rate,
			duly.MaxSchedules)
	}
	if c.Backlog.Compare && !c.Backlog.Any() {
		bad.Add("compare", "needs a backlog: set backlog_ready or backlog_delayed")
	}

	for _, p := range c.Phases {
		switch {
		case !slices.Contains(AllPhases(), p):
			bad.Add("phases", "names %q, must be one of %s", p, strings.Join(names(AllPhases()), ", "))
		case p.needsGauge() && c.Gauge == nil:
			bad.Add("phases", "names %q, which needs a server with a gauge: use redis:// or another form of it", p)
		}
	}

	for _, kind := range c.Kinds {
		if !slices.Contains(Kinds(), kind) {
			bad.Add("job", "names %q, must be one of %s", kind, strings.Join(names(Kinds()), ", "))
		}
	}
	return bad.Err()
}

// validateBatches reports each batch size that is out of its limits, once.
func (c Config) validateBatches(bad *contract.BadFields) {
	sizes := []int{c.Load.Batch}

	// Only Life uses Batches.
	if slices.Contains(c.Phases, Life) {
		sizes = append(sizes, c.Batches...)
	}

	// A size may be in both settings, and is reported once.
	slices.Sort(sizes)
	for _, size := range slices.Compact(sizes) {
		switch {
		case size < 1 || size > duly.MaxBatch:
			bad.Add("batch", "is %d, must be between %d and %d", size, 1, duly.MaxBatch)
		// A batch of one job may exceed the limit, because a larger body is sent in a separate call
		// (C4.6).
		case size > 1 && size*c.Load.Body > duly.MaxBatchBytes:
			bad.Add("batch", "of %d bodies of %d bytes is over %d bytes: make one of the two smaller",
				size, c.Load.Body, duly.MaxBatchBytes)
		}
	}
}
