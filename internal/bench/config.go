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

// Prefix is what the name of every queue that is measured in begins with.
const Prefix = "bench-"

// Config says what to measure. All but Open may be left zero.
type Config struct {
	// Open opens the engine. It is called once, and once more for
	// Backlog.Reopen; Run closes what it opened.
	Open func(context.Context) (contract.Engine, error)
	// Gauge, if set, opens the gauge of the server behind the engine, once Open
	// has succeeded. Run closes it.
	Gauge func(context.Context) (Gauge, error)
	// Namespace to measure in. Default [duly.DefaultNamespace].
	Namespace string
	// Phases to go through, in this order. Default [Phases], or [GaugePhases]
	// where there is a gauge; with a backlog, without the native ones and, unless
	// Kinds are given, Life, which have none, and without Memory, which the
	// backlog itself tells.
	Phases []Phase
	// Repeat is how often each phase is run, 1…1000. Default 3.
	Repeat int
	// Load is what each run does.
	Load Load
	// Kinds are the kinds of jobs in Life and Memory. Default [Kinds].
	Kinds []Kind
	// Batches are the batch sizes in Life, 1…1000 each. Default Load.Batch, and
	// 1, 10 and 50 where that is zero too.
	Batches []int
	// Shards of the queue in Spread: a power of two, 1…256. Default 8.
	Shards int
	// Against is one server on which Spread does the same, for comparison.
	Against Target
	// Embedded says that the engine runs in this process, so that the processor
	// time of this process is the engine's.
	Embedded bool
	// Backlog is what lies in the store meanwhile.
	Backlog Backlog
	// Progress, if set, is told a few times a second how far it is, always
	// from the same goroutine, and never again once Run has returned.
	Progress func(Progress)
	// Logger is the worker's. Default: nothing is logged.
	Logger *slog.Logger
	// Clock times everything. Default the system's.
	Clock clock.Clock
}

// Target is an engine and the gauge of the server behind it.
type Target struct {
	Open  func(context.Context) (contract.Engine, error)
	Gauge func(context.Context) (Gauge, error)
}

// Load is what one run of a phase does. Zero fields take their defaults.
type Load struct {
	Jobs        int           // bound of a run in jobs, 1…100 000 000; default 100 000
	Time        time.Duration // bound of a run in time, 10 ms–1 h; default 10 s
	Batch       int           // jobs in a batch, 1…1000; default 100
	Callers     int           // goroutines that push or take batches, 1…10 000; default 4
	Goroutines  int           // goroutines that push single jobs, 1…10 000; default 64
	Concurrency int           // jobs that the worker runs at once, 1…10 000; default 64
	Body        int           // bytes of a job's body, 1 to 64 MiB; default 100
	Rate        int           // jobs due per second in lateness, 1…100 000; default 1000
	Queues      int           // that idle waits on, 1…100; default 100
}

// Backlog are jobs that lie in the store while it is measured.
type Backlog struct {
	Ready   int // 0…100 000 000
	Delayed int // due from tomorrow on; 0…100 000 000
	// Reopen closes the engine and opens it again once the backlog is loaded,
	// so that nothing of it is in the engine's memory.
	Reopen bool
	// Compare goes through the phases without the backlog first.
	Compare bool
}

// Any reports whether there is a backlog.
func (b Backlog) Any() bool { return b.Ready > 0 || b.Delayed > 0 }

// Progress is how far a measurement is.
type Progress struct {
	Phase Phase
	// Run is the number of the phase's run, from 1, of Runs. Both are 0 while
	// the backlog is loaded.
	Run, Runs int
	// Loading: the jobs are being prepared, which is not measured.
	Loading bool
	// Done jobs of Total. A run that reaches its bound in time ends before
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

// Validate reports [duly.ErrInvalid] with every field that is out of bounds.
// Zero fields are their defaults and so are good.
func (c Config) Validate() error {
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
		bad.Add("against", "is for the phase spread: name it with phases")
	}
	if c.Backlog.Compare && !c.Backlog.Any() {
		bad.Add("compare", "is about a backlog: name one with backlog_ready or backlog_delayed")
	}

	for _, p := range c.Phases {
		switch {
		case !slices.Contains(AllPhases(), p):
			bad.Add("phases", "names %q, must be of %s", p, strings.Join(names(AllPhases()), ", "))
		case p.needsGauge() && c.Gauge == nil:
			bad.Add("phases", "names %q, which is for an engine whose server tells what it has used: redis:// and its kin", p)
		}
	}

	for _, kind := range c.Kinds {
		if !slices.Contains(Kinds(), kind) {
			bad.Add("job", "names %q, must be of %s", kind, strings.Join(names(Kinds()), ", "))
		}
	}
	return bad.Err()
}

// validateBatches reports each batch size that is out of bounds, once.
func (c Config) validateBatches(bad *contract.BadFields) {
	sizes := []int{c.Load.Batch}
	if slices.Contains(c.Phases, Life) {
		sizes = append(sizes, c.Batches...)
	}
	slices.Sort(sizes)
	for _, size := range slices.Compact(sizes) {
		switch {
		case size < 1 || size > duly.MaxBatch:
			bad.Add("batch", "is %d, must be between %d and %d", size, 1, duly.MaxBatch)
		case size > 1 && size*c.Load.Body > duly.MaxBatchBytes:
			bad.Add("batch", "of %d bodies of %d bytes is over %d bytes: make one of the two smaller",
				size, c.Load.Body, duly.MaxBatchBytes)
		}
	}
}
