package auth

import (
	"context"
	"errors"
	"sync"

	"github.com/dulymq/duly"
)

// maxRechecks is the maximum number of concurrent look-ups after a change.
const maxRechecks = 16

// Watch receives changes from the engine until ctx ends. While it runs, cached grants
// need no look-up, and tracked grants end with their tokens. It returns the reason for
// its end. Without a Watcher it returns nil at once.
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
				g.recheckTracked(ctx)
			case <-ctx.Done():
				return
			}
		}
	})

	err := g.cfg.Watcher.WatchTokens(ctx, g.notify)
	g.notify(false)
	cancel()
	checking.Wait()
	return err
}

// notify handles a notice of the engine: every previous look-up may be out of date.
// watching reports whether the engine will send further notices.
func (g *Guard) notify(watching bool) {
	g.mu.Lock()
	g.watching = watching
	g.version++
	g.mu.Unlock()
	if !watching {
		// The tracked grants are verified when the watch is back.
		return
	}

	select {
	case g.recheck <- struct{}{}:
	default:
	}
}

// recheckTracked verifies every grant that a request waits with.
func (g *Guard) recheckTracked(ctx context.Context) {
	g.mu.RLock()
	grants := make([]*Grant, 0, len(g.tracked))
	for grant := range g.tracked {
		grants = append(grants, grant)
	}
	g.mu.RUnlock()

	var running sync.WaitGroup
	slots := make(chan struct{}, maxRechecks)
	for _, grant := range grants {
		slots <- struct{}{}
		running.Go(func() {
			g.verify(ctx, grant)
			<-slots
		})
	}
	running.Wait()
}

// verify looks the token of a grant up, and ends the grant if the token has changed. It also ends
// the grant if the look-up fails: the waiting requests of the grant may retry.
func (g *Guard) verify(ctx context.Context, grant *Grant) {
	t, version, err := g.lookUp(ctx, grant.Token.Hash)
	switch {
	case ctx.Err() != nil:
		return
	case errors.Is(err, duly.ErrNotFound):
		g.invalidate(grant.Token.Hash, revoked())
		return
	case err == nil && !grant.matches(&t):
		err = errChanged
	}

	g.mu.Lock()
	defer g.mu.Unlock()
	if err == nil {
		grant.version = max(grant.version, version)
		return
	}
	grant.cancel(err)
	if g.grants[grant.Token.Hash] == grant {
		delete(g.grants, grant.Token.Hash)
	}
}

// Track registers a waiting request: until release is called, the grant ends when its token is
// revoked or changed. If the grant has ended already, Track returns the cause. Callers must call
// release in any case.
func (g *Guard) Track(ctx context.Context, grant *Grant) (release func(), err error) {
	if grant == nil || grant.Account() {
		return func() {}, nil
	}

	g.mu.Lock()
	g.tracked[grant]++
	valid := g.validLocked(grant)
	g.mu.Unlock()
	// The notice of a change may have come before the grant was tracked.
	if !valid {
		g.verify(ctx, grant)
	}
	return func() { g.untrack(grant) }, context.Cause(grant.ctx)
}

func (g *Guard) untrack(grant *Grant) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.tracked[grant]--; g.tracked[grant] == 0 {
		delete(g.tracked, grant)
	}
}
