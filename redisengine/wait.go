package redisengine

import (
	"context"
	"time"

	"github.com/dulymq/duly"
)

var _ duly.Passer = (*Engine)(nil)

// Wait implements duly.Engine. Nothing is leased for a waiter.
func (e *Engine) Wait(ctx context.Context, p duly.WaitParams) (bool, error) {
	if err := p.Validate(); err != nil {
		return false, err
	}
	if err := e.alive(ctx); err != nil {
		return false, err
	}
	e.hub.busy.begin() // until the waiter sleeps, and again once it is woken
	defer e.hub.busy.end()
	refs := make([]duly.QueueRef, len(p.Queues))
	for i, name := range p.Queues {
		refs[i] = duly.QueueRef{Namespace: p.Namespace, Name: name}.Normal()
		if _, err := e.find(ctx, refs[i]); err != nil {
			return false, err
		}
	}
	if p.Timeout == 0 {
		return e.lookOnce(ctx, refs)
	}
	w, unsure := e.hub.enter(refs)
	defer e.hub.leave(w)
	if len(unsure) > 0 { // after entering, so that nothing is missed in between
		ready, err := e.lookFirst(ctx, unsure)
		if err != nil {
			e.hub.passOn(w) // it may have been woken meanwhile, and nobody will reserve for that
			return false, err
		}
		if ready {
			return true, nil
		}
	}
	return e.await(ctx, w, p.Timeout)
}

// Pass implements duly.Passer.
func (e *Engine) Pass(_ context.Context, namespace string, queues []string) {
	e.hub.pass(namespace, queues)
}

// lookFirst tells whether a waiter has to sleep at all. Where a part of what it
// waits for is not reached, it sleeps: that is looked at again every two
// seconds, and the rest may bring something meanwhile.
func (e *Engine) lookFirst(ctx context.Context, refs []duly.QueueRef) (ready bool, err error) {
	g := e.glance(ctx, refs, true)
	if g.err != nil && !g.ready && g.answered == 0 {
		g = e.glance(ctx, refs, false)
	}
	switch {
	case g.ready:
		return true, nil
	case g.err == nil:
		e.hub.quieten(refs)
	case g.answered == 0 || duly.CodeOf(g.err) != duly.CodeUnavailable:
		return false, g.err
	}
	return false, nil
}

func (e *Engine) await(ctx context.Context, w *waiter, d time.Duration) (bool, error) {
	e.hub.busy.end()
	w.Wait(ctx, e.local(), d)
	e.hub.busy.begin()
	if ctx.Err() != nil {
		e.hub.passOn(w)
		return false, ctx.Err()
	}
	if e.closing.Load() {
		return false, duly.ErrClosed
	}
	return e.hub.leave(w), nil
}
