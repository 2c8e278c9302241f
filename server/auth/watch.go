package auth

import (
	"context"
	"errors"
	"sync"

	"github.com/dulymq/duly"
)

// rechecks is how many passes are looked up at once after a change.
const rechecks = 16

// Watch listens to the engine until ctx ends, so that passes need not be
// looked up for every request and end when their tokens do. It returns why it
// has ended; without a Watcher that is at once, with nil.
func (g *Guard) Watch(ctx context.Context) error {
	if g.cfg.Watcher == nil {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	var checking sync.WaitGroup
	checking.Go(func() {
		for {
			select {
			case <-g.recheck:
				g.recheckHeld(ctx)
			case <-ctx.Done():
				return
			}
		}
	})
	err := g.cfg.Watcher.WatchTokens(ctx, g.told)
	g.told(false)
	cancel()
	checking.Wait()
	return err
}

// told takes the engine's notice: whatever was looked up before it is doubtful.
func (g *Guard) told(hearing bool) {
	g.mu.Lock()
	g.hearing = hearing
	g.change++
	g.mu.Unlock()
	if !hearing {
		return // the passes that are held have to wait until it can be told
	}
	select {
	case g.recheck <- struct{}{}:
	default:
	}
}

// recheckHeld looks every pass up that a request waits with.
func (g *Guard) recheckHeld(ctx context.Context) {
	g.mu.RLock()
	passes := make([]*Pass, 0, len(g.held))
	for p := range g.held {
		passes = append(passes, p)
	}
	g.mu.RUnlock()
	var running sync.WaitGroup
	turns := make(chan struct{}, rechecks)
	for _, p := range passes {
		turns <- struct{}{}
		running.Go(func() {
			g.verify(ctx, p)
			<-turns
		})
	}
	running.Wait()
}

// verify looks a pass up and ends it if its token is not as it was. Where that
// can't be found out it ends as well: who waits with it is to come again.
func (g *Guard) verify(ctx context.Context, p *Pass) {
	t, change, err := g.lookUp(ctx, p.Token.Hash)
	switch {
	case ctx.Err() != nil:
		return
	case errors.Is(err, duly.ErrNotFound):
		g.forget(p.Token.Hash, revoked())
		return
	case err == nil && !p.same(&t):
		err = errChanged
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if err == nil {
		p.checked = max(p.checked, change)
		return
	}
	p.end(err)
	if g.passes[p.Token.Hash] == p {
		delete(g.passes, p.Token.Hash)
	}
}

// Hold is for a request that waits: from now on the pass ends when its token
// is revoked or changed. It answers the cause if the pass has ended already.
// release must be called in any case.
func (g *Guard) Hold(ctx context.Context, p *Pass) (release func(), err error) {
	if p == nil || p.Account() {
		return func() {}, nil
	}
	g.mu.Lock()
	g.held[p]++
	good := g.goodLocked(p)
	g.mu.Unlock()
	if !good { // a notice of before may have passed it by
		g.verify(ctx, p)
	}
	return func() { g.release(p) }, context.Cause(p.over)
}

func (g *Guard) release(p *Pass) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.held[p]--; g.held[p] == 0 {
		delete(g.held, p)
	}
}
