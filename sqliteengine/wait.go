package sqliteengine

import (
	"context"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// Wait implements duly.Engine. A waiter uses no goroutine: a commit or the timer wakes
// it through the notifier.
func (e jobAPI) Wait(ctx context.Context, p duly.WaitParams) (bool, error) {
	if err := contract.ValidateWait(&p); err != nil {
		return false, err
	}
	if err := e.checkOpen(ctx); err != nil {
		return false, err
	}

	keys := make([]waitKey, len(p.Queues))
	for i, name := range p.Queues {
		keys[i] = waitKey{duly.QueueRef{Namespace: contract.NamespaceOr(p.Namespace), Name: name}, p.Dispatcher}
	}

	ready, poll, err := e.notifier.check(keys)
	if err != nil || ready || p.Timeout == 0 && !poll {
		return ready, err
	}

	var w *waiter
	// Without a timeout the caller does not wait, so it must not take the wake-up of another
	// waiter.
	if p.Timeout > 0 {
		w = e.notifier.register(keys)
		defer e.notifier.unregister(w)
	}

	// The poll is requested after the registration, so that no commit in between is missed.
	if poll {
		ready, err := e.pollQueues(ctx, keys)
		if err != nil {
			if w != nil {
				e.notifier.abandon(w) // the waiter may have been woken since, and will not reserve
			}
			return false, err
		}
		if ready || p.Timeout == 0 {
			return ready, nil
		}
	}

	return e.await(ctx, w, p)
}

func (e jobAPI) await(ctx context.Context, w *waiter, p duly.WaitParams) (bool, error) {
	w.Wait(ctx, e.cfg.Clock, p.Timeout)
	if err := ctx.Err(); err != nil { // the caller may have been woken at the same moment
		if !e.notifier.abandon(w) {
			return false, duly.ErrClosed
		}
		return false, err
	}
	// Close wakes all waiters, so being woken does not mean that there is a job.
	if e.closing.Load() {
		return false, duly.ErrClosed
	}
	return e.notifier.unregister(w), nil
}

// check reports whether one of the queues has a deliverable job, as far as memory shows. poll
// reports whether a due time has passed, so that only a poll can decide.
func (h *notifier) check(keys []waitKey) (ready, poll bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, d := range keys {
		if err := h.checkKnown(d.ref); err != nil {
			return false, false, err
		}
	}

	now := h.now()
	for _, d := range keys {
		v := h.views[d]
		switch {
		case v == nil || !v.exists:
		case h.tickWaits(v, now):
			return true, false, nil
		case v.outdated(now):
			poll = true
		case v.ready > 0 && v.allowance(now) > 0:
			return true, false, nil
		}
	}

	return false, poll, nil
}

// register registers a waiter. It is woken at once if a job became ready since the call to check.
func (h *notifier) register(keys []waitKey) *waiter {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.waiters.Add(keys...)
	if h.closed {
		return w
	}

	now := h.now()
	for _, d := range keys {
		h.armFor(h.viewOf(d), now)
	}
	for _, d := range keys {
		v := h.views[d]
		if v.exists && !v.outdated(now) && v.ready > 0 && v.allowance(now) > 0 || h.tickWaits(v, now) {
			h.waiters.WakeOne(w, d, 0, h.e.cfg.Clock.Mono())
			break
		}
	}
	return w
}

// unregister unregisters a waiter and reports whether it was woken.
func (h *notifier) unregister(w *waiter) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.waiters.Remove(w)
}

// Pass implements contract.Passer.
func (e jobAPI) Pass(_ context.Context, namespace string, queues []string) {
	// The caller may be of either kind.
	for _, dispatcher := range []bool{false, true} {
		e.notifier.pass(contract.NamespaceOr(namespace), queues, dispatcher)
	}
}

// abandon unregisters a waiter whose caller has left. If the waiter was woken, it will not reserve,
// so abandon wakes another waiter. abandon returns false if the engine is closed.
func (h *notifier) abandon(w *waiter) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if wakeup, woken := h.waiters.Leave(w); woken {
		h.wakeNext(wakeup.Key)
	}
	return !h.closed
}

// pass wakes other waiters instead of a caller that did not reserve from these queues, because it
// has left or had enough jobs from earlier queues. The caller may have been woken for these queues.
func (h *notifier) pass(namespace string, queues []string, dispatcher bool) {
	if len(queues) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, name := range queues {
		d := waitKey{duly.QueueRef{Namespace: namespace, Name: name}, dispatcher}
		if _, woken := h.waiters.Arrive(d); woken {
			h.wakeNext(d)
		}
	}
}

// wakeNext wakes another waiter of a queue instead of a woken one that will not reserve.
func (h *notifier) wakeNext(d waitKey) {
	if v := h.views[d]; v != nil {
		h.wake(v, h.now(), v.ready)
	}
}

// pollQueues polls queues for which a time has passed.
func (e jobAPI) pollQueues(ctx context.Context, keys []waitKey) (ready bool, err error) {
	err = e.write(ctx, &op{Call: items(1), run: func(t *tx) error {
		// The transaction may run twice.
		ready = false
		for _, d := range keys {
			if q := t.queueFor(d); q != nil {
				n, _, err := q.deliverable(t, 1)
				if err != nil {
					return err
				}
				ready = ready || n > 0
			}
		}
		return nil
	}})
	return ready, err
}
