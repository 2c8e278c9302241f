package worker

import (
	"log/slog"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/consumer"
)

// The defaults of the fields of Config.
const (
	// DefaultConcurrency is the number of slots.
	DefaultConcurrency = 16
	// DefaultMaxHold is the longest time for which the worker extends the lease of one delivery.
	DefaultMaxHold = 12 * time.Hour
	// DefaultDrain is how long running handlers may continue after a stop.
	DefaultDrain = 30 * time.Second
	// DefaultCallTimeout is how long a call to the engine may take.
	DefaultCallTimeout = 10 * time.Second
	// MaxConcurrency bounds the number of slots.
	MaxConcurrency = 100_000
)

// Config configures a Worker. Its zero value works.
type Config struct {
	// Namespace is the namespace of the queues. Default: the engine's, see
	// [duly.NamespaceOf].
	Namespace string
	// Concurrency is the number of slots, 1…100 000: how many handlers run at a time, over all
	// queues together. Default 16, or more for batches, see [Worker.HandleBatch].
	Concurrency int
	// StrictOrder reserves jobs of a queue only while the queues that were added before it
	// are empty. Default: the queues share the slots by [Weight], each with weight 1.
	StrictOrder bool
	// Limiter limits the number of slots in use, for example [AIMD]. It cannot be used with
	// [Worker.HandleBatch]. Default nil: all slots may be in use.
	Limiter Limiter
	// Lease is how long a Reserve or an extension leases a job, 100 ms–366 days. Default:
	// the job's own lease (30 s).
	Lease time.Duration
	// Margin is how much earlier than the engine the worker considers a lease lost, at most
	// half of the lease. Default: a tenth of the lease, at most 1 s.
	Margin time.Duration
	// MaxHold is the longest time for which the worker holds one delivery. When it has passed, the
	// worker stops extending the lease and cancels the handler with [ErrMaxHold]. A longer lease is
	// held to its end. Default 12 h; duly.None means no limit.
	MaxHold time.Duration
	// Drain is how long running handlers may continue after Run's context has ended. Default 30 s;
	// duly.None means that they are canceled at once.
	Drain time.Duration
	// CallTimeout is how long one call to the engine may take before the store counts as lost.
	// Default 10 s. An extension may take a third of the lease at most. CallTimeout does not apply
	// to Wait.
	CallTimeout time.Duration
	// Consumer is the worker's name in the stats of groups. It grants no rights. Default:
	// HOST-PID-RANDOM, the same name for all workers of a process.
	Consumer string
	// Logger logs faults. Default [slog.Default].
	Logger *slog.Logger
	// Observer is called for metrics. Default: the zero Observer, which does nothing.
	Observer Observer
	// Clock is for tests. Default: the system's.
	Clock duly.Clock

	// defaultConcurrency reports that Concurrency was not set.
	defaultConcurrency bool
}

// withDefaults returns the Config with every zero field filled in.
func (c Config) withDefaults(engine duly.Engine) Config {
	if c.Namespace == "" {
		c.Namespace = duly.NamespaceOf(engine)
	}
	if c.Concurrency == 0 {
		c.Concurrency, c.defaultConcurrency = DefaultConcurrency, true
	}

	if c.MaxHold == 0 {
		c.MaxHold = DefaultMaxHold
	}
	if c.Drain == 0 {
		c.Drain = DefaultDrain
	}
	if c.CallTimeout == 0 {
		c.CallTimeout = DefaultCallTimeout
	}

	if c.Consumer == "" {
		c.Consumer = consumer.Name()
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Clock == nil {
		c.Clock = clock.System()
	}
	return c
}

// validate adds every bad field of a Config that has its defaults.
func (c *Config) validate(f *contract.BadFields) {
	f.Take(contract.ValidateNamespace(c.Namespace))
	// The name of a consumer follows the rules of a namespace.
	if contract.ValidateNamespace(c.Consumer) != nil {
		f.Add("consumer", "is %s, must be 1 to 255 of A-Z a-z 0-9 . _ -", contract.Quoted(c.Consumer))
	}
	if c.Concurrency < 1 || c.Concurrency > MaxConcurrency {
		f.Add("concurrency", "is %d, must be between 1 and %d", c.Concurrency, MaxConcurrency)
	}
	if l, ok := c.Limiter.(*aimd); ok {
		l.validate(f)
	}

	f.Take(contract.ValidateLease(c.Lease))
	if c.Margin < 0 {
		f.Add("margin", "is %s, must be at least 0s", duly.FormatDuration(c.Margin))
	}
	if c.MaxHold < 0 && c.MaxHold != duly.None {
		f.Add("max_hold", "is %s, must be at least 1ms, or none", duly.FormatDuration(c.MaxHold))
	}
	if c.Drain < 0 && c.Drain != duly.None {
		f.Add("drain", "is %s, must be at least 1ms, or none", duly.FormatDuration(c.Drain))
	}
	if c.CallTimeout < 0 {
		f.Add("call_timeout", "is %s, must be at least 1ms", duly.FormatDuration(c.CallTimeout))
	}
}

// margin returns how much earlier a lease of that length counts as lost.
func (c *Config) margin(lease time.Duration) time.Duration {
	if c.Margin > 0 {
		return min(c.Margin, lease/2)
	}
	return min(lease/10, time.Second)
}
