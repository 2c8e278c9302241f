package sqliteengine

import (
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

// The engine's one timer. It is set for the next moment at which a watched
// queue may have a deliverable job or, unless the engine is manual, a lease
// ends. It fires early rather than late, and no later than longestSleep from
// now, for a wall clock that is set forward is noticed by looking only; a look
// at moments in memory costs next to nothing. With nobody waiting and nothing
// leased there is no timer at all.

// moment is when somebody should look at the view; never if there is no need.
// What has passed is not a moment any more: a look was asked for.
func (h *hub) moment(v *view, now int64, mono time.Duration, waited bool) int64 {
	at := int64(never)
	ahead := func(moment int64) {
		if moment > now {
			at = min(at, moment)
		}
	}

	ahead(v.next.leaseEnd)
	if !waited {
		return at
	}

	ahead(v.next.due)
	if v.next.expiry != never {
		ahead(v.next.expiry + 1) // its last millisecond still counts
	}
	if v.opensAt != 0 {
		ahead(v.opensAt)
	}
	if recheckAt, woken := h.waiters.NextExpiry(v.door); woken {
		ahead(now + max(1, clock.Millis(recheckAt-mono)))
	}

	return at
}

// armFor brings the timer nearer for one view.
func (h *hub) armFor(v *view, now int64) {
	waited := h.waiters.Waiting(v.door) > 0
	_, leasing := h.leasing[v]
	if !waited && !leasing {
		return
	}
	at := min(h.moment(v, now, h.e.cfg.Clock.Mono(), waited), now+longestSleep.Milliseconds())
	if at < h.armed {
		h.set(at)
	}
}

// arm sets the timer anew over all views.
func (h *hub) arm(now int64) {
	mono, at := h.e.cfg.Clock.Mono(), int64(never)
	anyone := len(h.leasing) > 0
	for d := range h.waiters.Keys() {
		at, anyone = min(at, h.moment(h.views[d], now, mono, true)), true
	}
	for v := range h.leasing {
		at = min(at, h.moment(v, now, mono, false))
	}
	if !anyone {
		h.armed = never
		return
	}
	h.set(min(at, now+longestSleep.Milliseconds()))
}

func (h *hub) set(at int64) {
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

// tick is called by the timer.
func (h *hub) tick() {
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
		if v.first.leaseEnd <= now && !v.stepping {
			v.stepping = true
			h.e.stepSoon(v.door.ref)
		}
	}

	h.arm(now)
}

// stepSoon lets the writer step a queue whose first lease has ended.
func (e *Engine) stepSoon(ref duly.QueueRef) {
	e.submit(&op{Call: items(stepBound), ended: func(err error) { e.stepped(ref, err) }, run: func(t *tx) error {
		q := t.queue(ref)
		if q == nil {
			return nil
		}
		more, err := t.step(q)
		if more && err == nil {
			e.stepSoon(ref)
		}
		return err
	}})
}

// stepped lets the timer ask again for a step that has failed. One that has not
// is told of by its commit.
func (e *Engine) stepped(ref duly.QueueRef, err error) {
	if err == nil {
		return
	}
	e.w.tell(err)
	e.hub.mu.Lock()
	defer e.hub.mu.Unlock()
	for _, d := range []door{{ref, false}, {ref, true}} {
		if v := e.hub.views[d]; v != nil {
			v.stepping = false
		}
	}
}
