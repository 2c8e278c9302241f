package model

import (
	"context"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

// Idle blocks until that many calls to Wait are under way and no job is leased: that is the state
// when all workers have nothing left to do. It returns [duly.ErrClosed], or the context's error, if
// it ends earlier.
func (e *Engine) Idle(ctx context.Context, waiters int) error {
	for {
		if err := e.begin(ctx); err != nil {
			return err
		}
		idle := len(e.waiters) >= waiters && e.leased() == 0

		// The channel is taken under the lock, so no change between the check and the select is missed.
		if e.changed == nil {
			e.changed = make(chan struct{})
		}
		changed := e.changed
		e.mu.Unlock()
		if idle {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// notify lets every Idle look again.
func (e *Engine) notify() {
	if e.changed != nil {
		close(e.changed)
		e.changed = nil
	}
}

func (e *Engine) leased() (n int) {
	for _, q := range e.queues {
		for _, s := range q.shards {
			n += s.size(duly.StateLeased)
		}
	}
	return n
}

// NextMoment returns the next time of the clock at which the engine may change by itself, because a
// job or a tick becomes due, a lease or a Wait ends, or a limit opens.
func (e *Engine) NextMoment() (at time.Time, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, now := e.now()
	next := int64(0)

	// A time in the past is not a reason to move the clock.
	soonest := func(at int64) {
		if at > now && (next == 0 || at < next) {
			next = at
		}
	}
	for _, q := range e.queues {
		q.moments(now, soonest)
		e.tickMoments(q, now, soonest)
	}
	for _, t := range e.topics {
		t.moments(soonest)
	}
	for _, w := range e.waiters {
		soonest(w.until)
	}
	return clock.FromMilli(next), next != 0
}
