package sqliteengine

import (
	"context"
	"errors"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
)

// Unless the engine is manual, the timer fires due ticks, with or without waiters. The runs wake
// waiters like other jobs. In a manual engine, a due tick wakes one waiter, whose Reserve fires it.

// tickAt returns when the next tick of the queue can fire, or now if it can fire already.
func (h *notifier) tickAt(v *queueView, now int64) int64 {
	if v.earliest.tick == never {
		return never
	}
	// The monotonic clock keeps the pause correct if the wall clock is set.
	pause := max(0, v.tickHold-h.e.cfg.Clock.Mono())
	return max(v.earliest.tick, now+clock.Millis(pause))
}

// tickWaits reports whether a due tick waits for a Reserve or a Step.
func (h *notifier) tickWaits(v *queueView, now int64) bool {
	return h.e.cfg.Manual && v.exists && h.tickAt(v, now) <= now
}

// applyTicks applies the schedules of a queue's new state.
func (h *notifier) applyTicks(v *queueView, q *queue) {
	if q.tickMoved {
		v.tickHold = 0
	}
	if h.e.cfg.Manual {
		return
	}
	if q.earliest.tick == never {
		delete(h.scheduled, v)
		return
	}
	h.scheduled[v] = struct{}{}
}

// fireDue starts to fire the due ticks of a queue, unless that goes on already.
func (h *notifier) fireDue(v *queueView, now int64) {
	if h.e.cfg.Manual || !v.exists || h.tickAt(v, now) > now {
		return
	}
	h.startPass(v.key.ref)
}

// startPass starts to fire the due ticks of a queue, unless that goes on already.
func (h *notifier) startPass(ref duly.QueueRef) {
	if h.closed || h.firing[ref] {
		return
	}
	h.firing[ref] = h.e.firing.Go(func() {
		var err error
		for more := true; more && err == nil; {
			_, more, err = h.e.fireRound(context.Background(), ref)
		}
		h.passDone(ref, err)
	})
}

// passDone ends a pass. After an error, the next pass begins only after a pause.
func (h *notifier) passDone(ref duly.QueueRef, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.firing, ref)
	v := h.viewNamed(ref)
	if v == nil || h.closed {
		return
	}

	now := h.now()
	if err != nil {
		v.tickHold = h.e.cfg.Clock.Mono() + contract.FullPause
		// If the store is down, every pass fails with the same error, so it is logged once.
		if text := err.Error(); !errors.Is(err, duly.ErrClosed) && text != h.tickWarning {
			h.tickWarning = text
			h.e.w.log.Warn("due ticks could not be fired; they stay due and will be tried again", "queue", ref.String(), "error", err)
		}
	} else {
		h.tickWarning = ""
	}
	// A tick may have become due since the last round read the ticks.
	h.fireDue(v, now)
	h.armFor(v, now)
}

// viewNamed returns the state of an existing queue, or nil if the queue is unknown.
func (h *notifier) viewNamed(ref duly.QueueRef) *queueView {
	for _, d := range []waitKey{{ref, false}, {ref, true}} {
		if v := h.views[d]; v != nil && v.exists {
			return v
		}
	}
	return nil
}

// ticksHeld reports whether the due ticks of a queue must not be fired now.
func (h *notifier) ticksHeld(ref duly.QueueRef) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	v := h.viewNamed(ref)
	return v != nil && v.tickHold > h.e.cfg.Clock.Mono()
}

// tickDue reports whether the queue has a due tick, as far as memory shows.
func (h *notifier) tickDue(ref duly.QueueRef) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	v := h.viewNamed(ref)
	return v != nil && v.earliest.tick <= h.now()
}

// holdTicks keeps the due ticks of a queue from being fired for the given time.
func (h *notifier) holdTicks(ref duly.QueueRef, pause time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if v := h.viewNamed(ref); v != nil {
		v.tickHold = h.e.cfg.Clock.Mono() + pause
		h.armFor(v, h.now())
	}
}

// reserved starts to fire due ticks that a Reserve with jobs has found.
func (h *notifier) reserved(refs []duly.QueueRef) {
	if len(refs) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, ref := range refs {
		if v := h.viewNamed(ref); v != nil && h.tickAt(v, h.now()) <= h.now() {
			h.startPass(ref)
		}
	}
}
