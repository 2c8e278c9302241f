package worker

import (
	"log/slog"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/consumer"
)

// The defaults of a Config.
const (
	// DefaultConcurrency is the number of slots.
	DefaultConcurrency = 16
	// DefaultMaxHold is for how long one delivery is held by extending.
	DefaultMaxHold = 12 * time.Hour
	// DefaultDrain is how long running handlers may go on after a stop.
	DefaultDrain = 30 * time.Second
	// DefaultCallTimeout is how long a call to the engine may take.
	DefaultCallTimeout = 10 * time.Second
	// MaxConcurrency bounds the number of slots.
	MaxConcurrency = 100_000
)

// Config is how a Worker behaves. Its zero value works.
type Config struct {
	// Namespace is that of the queues. Default: the engine's, see
	// [duly.NamespaceOf].
	Namespace string
	// Concurrency is the number of slots: handlers that run at once, over all
	// queues together, 1…100 000. Default 16, or more for batches, see
	// [Worker.HandleBatch].
	Concurrency int
	// StrictOrder takes jobs of a queue only when the queues that were added
	// before it have none. Default: the queues share the slots by [Weight], each
	// with weight 1 unless it says otherwise.
	StrictOrder bool
	// Limiter limits the number of slots in use, for example [AIMD]. It cannot be used with
	// [Worker.HandleBatch]. Default: none, and all slots may be in use.
	Limiter Limiter
	// Lease is for how long jobs are reserved and extended at a time,
	// 100 ms–366 days. Default: what each job itself says (30 s).
	Lease time.Duration
	// Margin is how much earlier than the engine the worker holds a lease for
	// lost. Default: a tenth of the lease, at most 1 s. Never more than half
	// of the lease.
	Margin time.Duration
	// MaxHold is for how long one delivery is held: then its lease is not
	// extended any more and its handler is cancelled with [ErrMaxHold]. A
	// lease that is longer is held to its end. Default 12 h; duly.None: without
	// end.
	MaxHold time.Duration
	// Drain is how long running handlers may go on after Run's context has ended.
	// Default 30 s; duly.None: not at all.
	Drain time.Duration
	// CallTimeout is how long one call to the engine may take before the
	// store counts as lost. Default 10 s. Extending a lease is given up after
	// a third of the lease if that is sooner. Wait is not bounded by it.
	CallTimeout time.Duration
	// Consumer is the name that the stats of groups list. It owns nothing. Default: one
	// name per process, HOST-PID-RANDOM.
	Consumer string
	// Logger takes what goes wrong. Default [slog.Default].
	Logger *slog.Logger
	// Observer is called for what happens. Default: none.
	Observer Observer
	// Clock is for tests. Default the system's.
	Clock duly.Clock

	// slotsByDefault is set if Concurrency was not.
	slotsByDefault bool
}

// withDefaults returns the Config with every zero field filled in.
func (c Config) withDefaults(engine duly.Engine) Config {
	if c.Namespace == "" {
		c.Namespace = duly.NamespaceOf(engine)
	}
	if c.Concurrency == 0 {
		c.Concurrency, c.slotsByDefault = DefaultConcurrency, true
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

// validate names every bad field of a Config that has its defaults.
func (c *Config) validate(f *contract.BadFields) {
	f.Take(contract.ValidateNamespace(c.Namespace))
	if c.Concurrency < 1 || c.Concurrency > MaxConcurrency {
		f.Add("concurrency", "is %d, must be between 1 and %d", c.Concurrency, MaxConcurrency)
	}
	if l, ok := c.Limiter.(*aimd); ok {
		l.validate(f)
	}
	f.Take(contract.ValidateLease(c.Lease))
	if err := contract.ValidateNamespace(c.Consumer); err != nil { // the same names are good
		f.Add("consumer", "is %s, must be 1 to 255 of A-Z a-z 0-9 . _ -", contract.Quoted(c.Consumer))
	}
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

// margin is by how much a lease of that length is given up early.
func (c *Config) margin(lease time.Duration) time.Duration {
	if c.Margin > 0 {
		return min(c.Margin, lease/2)
	}
	return min(lease/10, time.Second)
}
