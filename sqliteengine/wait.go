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
	refs := make([]duly.QueueRef, len(p.Queues))
	for i, name := range p.Queues {
		refs[i] = duly.QueueRef{Namespace: duly.NamespaceOr(p.Namespace), Name: name}
	}
	ready, look, err := e.hub.ready(refs)
	if err != nil || ready || p.Timeout == 0 && !look {
		return ready, err
	}
	var w *waiter
	if p.Timeout > 0 {
		w = e.hub.enter(refs)
		defer e.hub.exit(w)
	}
	if look { // after joining, so that nothing is missed in between
		ready, err := e.lookAt(ctx, refs)
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
func (h *hub) ready(refs []duly.QueueRef) (ready, look bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, ref := range refs {
		if err := h.known(ref); err != nil {
			return false, false, err
		}
	}
	now := h.now()
	for _, ref := range refs {
		v := h.views[ref]
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
func (h *hub) enter(refs []duly.QueueRef) *waiter {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.waiters.Add(refs...)
	if h.closed {
		return w
	}

	now := h.now()
	for _, ref := range refs {
		h.armFor(h.view(ref), now)
	}
	for _, ref := range refs {
		if v := h.views[ref]; v.exists && !v.passed(now) && v.ready > 0 && v.open(now) > 0 {
			h.waiters.WakeOne(w, ref, 0, h.e.cfg.Clock.Mono())
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
	e.hub.pass(duly.NamespaceOr(namespace), queues)
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
func (h *hub) pass(namespace string, queues []string) {
	if len(queues) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, name := range queues {
		ref := duly.QueueRef{Namespace: namespace, Name: name}
		if _, woken := h.waiters.Arrive(ref); woken {
			h.wakeNext(ref)
		}
	}
}

// wakeNext wakes another waiter of a queue in the place of one that was woken and
// will not reserve.
func (h *hub) wakeNext(ref duly.QueueRef) {
	if v := h.views[ref]; v != nil {
		h.wake(v, h.now(), v.ready)
	}
}
