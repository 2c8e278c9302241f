package worker

import (
	"time"

	"github.com/dulymq/duly"
)

// Observer is called for what a Worker does, for metrics and tests. Every field may
// be nil. The functions are called from the worker's own goroutines, several
// at once, in the middle of the hot path: they must be quick, and neither
// block nor panic.
type Observer struct {
	// Reserved: a Reserve has brought n jobs (0: none) and took that long.
	Reserved func(n int, took time.Duration)
	// Started: a handler is about to be called. late is how long after its due
	// moment, on the engine's clock, and rather too much than too little: the
	// time that the Reserve was under way counts in full.
	Started func(d *Delivery, late time.Duration)
	// Finished: a handler has returned; what it decided is not settled yet.
	Finished func(f Finished)
	// Settled: the engine has answered for the delivery. err is nil, or
	// [duly.ErrLeaseLost], or why the outcome was given up.
	Settled func(d *Delivery, as duly.Settlement, err error)
	// LeaseLost: the lease of a running handler is gone, by the worker's own
	// judgement or by the engine's word, or was let go after MaxHold, or the job
	// was canceled. cause is the cause of the handler's context.
	LeaseLost func(d *Delivery, cause error)
	// Limit: Config.Limiter has another limit now, within its bounds.
	Limit func(slots int)
	// Panicked: a handler has panicked, with that value and stack.
	Panicked func(d *Delivery, value any, stack []byte)
	// StoreLost: calls to the engine fail, and go on failing.
	StoreLost func(err error)
	// StoreBack: they succeed again, after that long.
	StoreBack func(after time.Duration)
}

// Finished is how a handler ended.
type Finished struct {
	Delivery *Delivery
	// As is how the delivery is about to be settled.
	As duly.Settlement
	// Err is what the handler returned; for a panic an error with its value.
	Err error
	// Overload reports whether the handler returned [Overloaded].
	Overload bool
	// At is when the handler returned, on Config.Clock.
	At time.Time
	// Took is how long the handler ran.
	Took time.Duration
	// Late is as in Started.
	Late time.Duration
	// Running is the number of slots in use, including that of this delivery.
	Running int
}
