package worker

import (
	"time"

	"github.com/dulymq/duly"
)

// Observer has functions that a Worker calls, for metrics and tests. Every field may be nil.
// The functions must be safe for concurrent use. A worker calls them between two jobs, so they must
// be quick, and must neither block nor panic.
type Observer struct {
	// Reserved is called after a Reserve that returned n jobs, 0 or more, and took so long.
	Reserved func(n int, took time.Duration)
	// Started is called before a handler. late is the time since the job was due, on the engine's
	// clock. It may be too long, because it includes the whole duration of the Reserve.
	Started func(d *Delivery, late time.Duration)
	// Finished is called after a handler has returned, before its outcome is settled.
	Finished func(f Finished)
	// Settled is called after the engine has answered for the delivery. err is nil,
	// [duly.ErrLeaseLost], or the reason why the worker gave up the outcome.
	Settled func(d *Delivery, as duly.Settlement, err error)
	// LeaseLost is called when a running handler loses its lease: by the worker's estimate,
	// by the engine's answer, after MaxHold, or because the job was canceled. cause is the
	// cause of the handler's context.
	LeaseLost func(d *Delivery, cause error)
	// Limit is called with every new limit of Config.Limiter, within its bounds.
	Limit func(slots int)
	// Panicked is called with the value and the stack of a handler's panic.
	Panicked func(d *Delivery, value any, stack []byte)
	// StoreLost is called when calls to the engine begin to fail repeatedly.
	StoreLost func(err error)
	// StoreBack is called when the calls to the engine succeed again, with the time since the first
	// failure.
	StoreBack func(after time.Duration)
}

// Finished is the result of a handler.
type Finished struct {
	Delivery *Delivery
	// As is how the worker settles the delivery.
	As duly.Settlement
	// Err is the handler's error. After a panic it has the panic's value.
	Err error
	// Overload reports whether the handler returned [Overloaded].
	Overload bool
	// At is the time at which the handler returned, on Config.Clock.
	At time.Time
	// Took is how long the handler ran.
	Took time.Duration
	// Late is as in Started.
	Late time.Duration
	// Running is the number of slots in use, including that of this delivery.
	Running int
}
