package sqliteengine

import (
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

// The engine has one timer. It is set for the next time at which a waited queue may have
// a deliverable job. Unless the engine is manual, it is also set for the next lease end.
// It fires at least every longestSleep, because only that notices a wall clock set
// forward; a spurious check in memory is cheap. Without waiters and leases no timer runs.

// nextCheck returns when the timer must check the queue, or never. Past times don't count,
// because a poll was requested for them.
func (h *notifier) nextCheck(v *queueView, now int64, mono time.Duration, waited bool) int64 {
	at := int64(never)
	ahead := func(moment int64) {
		if moment > now {
			at = min(at, moment)
		}
	}

	ahead(v.upcoming.leaseEnd)
	if !waited {
		return at
	}

	ahead(v.upcoming.due)
	if v.upcoming.expiry != never {
		ahead(v.upcoming.expiry + 1) // its last millisecond still counts
	}
	if v.limitOpensAt != 0 {
		ahead(v.limitOpensAt)
	}
	if recheckAt, woken := h.waiters.NextExpiry(v.key); woken {
		ahead(now + max(1, clock.Millis(recheckAt-mono)))
	}

	return at
}

// armFor sets the timer earlier if the queue needs it.
func (h *notifier) armFor(v *queueView, now int64) {
	waited := h.waiters.Waiting(v.key) > 0
	_, leasing := h.leasing[v]
	if !waited && !leasing {
		return
	}
	at := min(h.nextCheck(v, now, h.e.cfg.Clock.Mono(), waited), now+longestSleep.Milliseconds())
	if at < h.armed {
		h.set(at)
	}
}

// arm sets the timer for all queues.
func (h *notifier) arm(now int64) {
	mono, at := h.e.cfg.Clock.Mono(), int64(never)
	anyone := len(h.leasing) > 0
	for d := range h.waiters.Keys() {
		at, anyone = min(at, h.nextCheck(h.views[d], now, mono, true)), true
	}
	for v := range h.leasing {
		at = min(at, h.nextCheck(v, now, mono, false))
	}
	if !anyone {
		h.armed = never
		return
	}
	h.set(min(at, now+longestSleep.Milliseconds()))
}

func (h *notifier) set(at int64) {
	h.armed = at
	if h.closed {
		return
	}
	d := max(0, clock.FromMilli(at).Sub(h.e.cfg.Clock.Now()))
	if h.timer == nil {
		h.timer = h.e.cfg.Clock.AfterFunc(d, h.tick)
		return
	}
	h.timer.Reset(d)
}

// tick runs when the timer fires.
func (h *notifier) tick() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}

	now, mono := h.now(), h.e.cfg.Clock.Mono()
	h.waiters.Expire(mono)
	for d := range h.waiters.Keys() {
		v := h.views[d]
		h.wake(v, now, v.ready)
	}

	for v := range h.leasing {
		if v.earliest.leaseEnd <= now && !v.stepping {
			v.stepping = true
			h.e.requestStep(v.key.ref)
		}
	}

	h.arm(now)
}

// requestStep makes the writer step a queue whose first lease has ended.
func (e *Engine) requestStep(ref duly.QueueRef) {
	e.submit(&op{Call: items(stepBound), done: func(err error) { e.stepDone(ref, err) }, run: func(t *tx) error {
		q := t.queue(ref)
		if q == nil {
			return nil
		}
		more, err := t.step(q)
		if more && err == nil {
			e.requestStep(ref)
		}
		return err
	}})
}

// stepDone lets the timer request a failed step again. A successful step reports through
// its commit.
func (e *Engine) stepDone(ref duly.QueueRef, err error) {
	if err == nil {
		return
	}
	e.w.warnOnce(err)
	e.notifier.mu.Lock()
	defer e.notifier.mu.Unlock()
	for _, d := range []waitKey{{ref, false}, {ref, true}} {
		if v := e.notifier.views[d]; v != nil {
			v.stepping = false
		}
	}
}
