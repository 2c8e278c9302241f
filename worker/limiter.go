package worker

import (
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// Limiter limits the number of slots in use. It protects the services that the handlers call, such
// as a database: while a service is overloaded, fewer handlers run, and jobs wait in their queues.
// [AIMD] returns such a Limiter. Its methods must be safe for concurrent use. If a method panics,
// Run returns an error.
type Limiter interface {
	// Limit returns how many slots may be in use, between 1 and Config.Concurrency. Values
	// outside act as the nearest bound. A lower limit cancels no handler. The worker calls
	// Limit before each Reserve and after each Done.
	Limit() int
	// Done receives the result of each delivery after its handler has returned.
	Done(f Finished)
}

// slotLimit calls the Limiter of a worker. A nil slotLimit does nothing.
type slotLimit struct {
	limiter Limiter
	tracker *tracker
	log     *slog.Logger
	changed func(slots int) // called with each new limit; may be nil
	fail    func(error)

	// mu serializes the calls to Limit, so that an older answer replaces no newer one.
	mu     sync.Mutex
	broken atomic.Bool // whether the Limiter has panicked, and so is not called again
}

// newSlotLimit returns nil for a worker without a Limiter.
func newSlotLimit(r *run) *slotLimit {
	if r.cfg.Limiter == nil {
		return nil
	}
	return &slotLimit{
		limiter: r.cfg.Limiter, tracker: r.tracker, log: r.log, changed: r.cfg.Observer.Limit, fail: r.fail,
	}
}

// update reads the limit.
func (l *slotLimit) update() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	limit := 0
	if !l.call(func() { limit = l.limiter.Limit() }) {
		return
	}

	// The observer is called while mu is held, so that it sees the limits in their order.
	if slots, changed := l.tracker.setLimit(limit); changed && l.changed != nil {
		l.changed(slots)
	}
}

// done reports a result to the Limiter. The delivery still has its slot.
func (l *slotLimit) done(f Finished) {
	if l != nil && l.call(func() { l.limiter.Done(f) }) {
		l.update()
	}
}

// call calls a method of the Limiter and reports whether it returned. After a panic the
// worker stops, and its last limit holds while it drains.
func (l *slotLimit) call(method func()) (returned bool) {
	if l.broken.Load() {
		return false
	}
	defer func() {
		if returned {
			return
		}
		value := recover()
		if !l.broken.Swap(true) {
			l.log.Error("limiter panicked", "panic", value, "stack", string(trimStack(debug.Stack())))
			l.fail(contract.Errorf(duly.CodeInternal, "the Limiter panicked: %v; see the log for the stack", value))
		}
	}()
	method()
	return true
}
