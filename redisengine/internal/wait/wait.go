package wait

import (
	"context"
	"time"

	"github.com/dulymq/duly"
)

// Wait implements Wait of duly.Engine. Nothing is leased for a waiter.
func (h *Hub) Wait(ctx context.Context, p duly.WaitParams) (bool, error) {
	if err := p.Validate(); err != nil {
		return false, err
	}
	if err := h.Alive(ctx); err != nil {
		return false, err
	}
	h.Busy.begin() // until the waiter sleeps, and again once it is woken
	defer h.Busy.end()
	refs := make([]duly.QueueRef, len(p.Queues))
	for i, name := range p.Queues {
		refs[i] = duly.QueueRef{Namespace: p.Namespace, Name: name}.Normal()
		if _, err := h.Find(ctx, refs[i]); err != nil {
			return false, err
		}
	}
	if p.Timeout == 0 {
		return h.lookOnce(ctx, refs)
	}
	w, unsure := h.Enter(refs)
	defer h.Leave(w)
	if len(unsure) > 0 { // after entering, so that nothing is missed in between
		ready, err := h.firstLook(ctx, unsure)
		if err != nil {
			h.leaveGone(w) // it may have been woken meanwhile, and nobody will reserve for that
			return false, err
		}
		if ready {
			return true, nil
		}
	}
	return h.await(ctx, w, p.Timeout)
}

// firstLook tells whether a waiter has to sleep at all. Where a part of what it
// waits for is not reached, it sleeps: that is looked at again every two
// seconds, and the rest may bring something meanwhile.
func (h *Hub) firstLook(ctx context.Context, refs []duly.QueueRef) (ready bool, err error) {
	g := h.lookAtQueues(ctx, refs, true)
	if g.err != nil && !g.ready && g.answered == 0 {
		g = h.lookAtQueues(ctx, refs, false)
	}
	switch {
	case g.ready:
		return true, nil
	case g.err == nil:
		h.setQuiet(refs)
	case g.answered == 0 || duly.CodeOf(g.err) != duly.CodeUnavailable:
		return false, g.err
	}
	return false, nil
}

func (h *Hub) await(ctx context.Context, w *waiter, d time.Duration) (bool, error) {
	h.Busy.end()
	w.Wait(ctx, h.Local(), d)
	h.Busy.begin()
	if ctx.Err() != nil {
		h.leaveGone(w)
		return false, ctx.Err()
	}
	if h.Closing.Load() {
		return false, duly.ErrClosed
	}
	return h.Leave(w), nil
}
