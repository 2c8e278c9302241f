package sqliteengine

import (
	"context"

	"github.com/dulymq/duly"
)

var _ duly.Passer = (*Engine)(nil)

// Wait implements duly.Engine. Nothing runs for a waiter: it stands in the
// hub until a commit or the timer brings something for it.
func (e *Engine) Wait(ctx context.Context, p duly.WaitParams) (bool, error) {
	if err := p.Validate(); err != nil {
		return false, err
	}
	if err := e.alive(ctx); err != nil {
		return false, err
	}

	doors := make([]door, len(p.Queues))
	for i, name := range p.Queues {
		doors[i] = door{duly.QueueRef{Namespace: duly.NamespaceOr(p.Namespace), Name: name}, p.Dispatcher}
	}

	ready, look, err := e.hub.ready(doors)
	if err != nil || ready || p.Timeout == 0 && !look {
		return ready, err
	}

	var w *waiter
	if p.Timeout > 0 {
		w = e.hub.enter(doors)
		defer e.hub.exit(w)
	}

	if look { // after joining, so that nothing is missed in between
		ready, err := e.lookAt(ctx, doors)
		if err != nil {
			if w != nil {
				e.hub.passOn(w) // it may have been woken meanwhile, and nobody will reserve for that
			}
			return false, err
		}
		if ready || p.Timeout == 0 {
			return ready, nil
		}
	}

	return e.await(ctx, w, p)
}

func (e *Engine) await(ctx context.Context, w *waiter, p duly.WaitParams) (bool, error) {
	w.Wait(ctx, e.cfg.Clock, p.Timeout)
	if err := ctx.Err(); err != nil { // also of a caller that was woken at the same moment
		if !e.hub.passOn(w) {
			return false, duly.ErrClosed
		}
		return false, err
	}
	if e.closing.Load() {
		return false, duly.ErrClosed
	}
	return e.hub.exit(w), nil
}

// ready tells whether one of the queues has a deliverable job, as far as
// memory can tell; look: it can't, for a moment has passed.
func (h *hub) ready(doors []door) (ready, look bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, d := range doors {
		if err := h.known(d.ref); err != nil {
			return false, false, err
		}
	}

	now := h.now()
	for _, d := range doors {
		v := h.views[d]
		switch {
		case v == nil || !v.exists:
		case v.passed(now):
			look = true
		case v.ready > 0 && v.open(now) > 0:
			return true, false, nil
		}
	}

	return false, look, nil
}

// enter adds a waiter to its queues. What has become ready since the caller
// looked wakes it here.
func (h *hub) enter(doors []door) *waiter {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.waiters.Add(doors...)
	if h.closed {
		return w
	}

	now := h.now()
	for _, d := range doors {
		h.armFor(h.view(d), now)
	}
	for _, d := range doors {
		if v := h.views[d]; v.exists && !v.passed(now) && v.ready > 0 && v.open(now) > 0 {
			h.waiters.WakeOne(w, d, 0, h.e.cfg.Clock.Mono())
			break
		}
	}
	return w
}

// exit takes a waiter out and tells whether it was woken.
func (h *hub) exit(w *waiter) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.waiters.Remove(w)
}

// Pass implements duly.Passer.
func (e *Engine) Pass(_ context.Context, namespace string, queues []string) {
	for _, dispatcher := range []bool{false, true} { // the caller may be either
		e.hub.pass(duly.NamespaceOr(namespace), queues, dispatcher)
	}
}

// passOn takes out a waiter whose caller has gone. If it was woken, nobody will
// reserve what it was woken for, and another one is woken in its place. False
// if the engine was closed.
func (h *hub) passOn(w *waiter) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if wakeup, woken := h.waiters.Leave(w); woken {
		h.wakeNext(wakeup.Key)
	}
	return !h.closed
}

// pass wakes others in the place of a caller that has not asked for the jobs of
// these queues, although it may be the one that was woken for them: it has gone,
// or had enough from the queues before.
func (h *hub) pass(namespace string, queues []string, dispatcher bool) {
	if len(queues) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, name := range queues {
		d := door{duly.QueueRef{Namespace: namespace, Name: name}, dispatcher}
		if _, woken := h.waiters.Arrive(d); woken {
			h.wakeNext(d)
		}
	}
}

// wakeNext wakes another waiter of a queue in the place of one that was woken and
// will not reserve.
func (h *hub) wakeNext(d door) {
	if v := h.views[d]; v != nil {
		h.wake(v, h.now(), v.ready)
	}
}
