package sqliteengine

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dulymq/duly"
)

// gate counts the running read transactions. A checkpoint closes it while it waits for their
// end. Otherwise overlapping reads could prevent the WAL from ever restarting. The zero value
// is open; clock must be set.
type gate struct {
	clock duly.Clock

	mu      sync.Mutex
	inside  int           // number of running read transactions
	opened  chan struct{} // nil while the gate is open, else closed when it opens
	changed func()        // called when the last read leaves and when the limit has passed
	timer   duly.Timer

	closed atomic.Bool // whether opened is not nil
}

// enter waits until the gate is open and counts a read, which must call leave at its end. It
// returns errInterrupted if ctx ends first.
func (g *gate) enter(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()

	// The gate may close again between its opening and this goroutine's turn.
	for g.opened != nil {
		opened := g.opened
		g.mu.Unlock()
		select {
		case <-opened:
		case <-ctx.Done():
		}
		g.mu.Lock()

		if ctx.Err() != nil {
			return errInterrupted
		}
	}
	g.inside++
	return nil
}

// leave ends a read.
func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inside--; g.inside == 0 && g.opened != nil {
		g.changed()
	}
}

// close blocks new reads for at most limit. It calls changed once no read is running, and
// once the limit has passed. changed must not block or call the gate.
func (g *gate) close(limit time.Duration, changed func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened != nil {
		return
	}

	opened := make(chan struct{})
	g.opened, g.changed = opened, changed
	g.closed.Store(true)
	g.timer = g.clock.AfterFunc(limit, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.opened == opened { // the gate was not opened since this timer was set
			g.openLocked()
			changed()
		}
	})
	// Without running reads, nobody will leave the gate, so nobody else calls changed.
	if g.inside == 0 {
		changed()
	}
}

// open lets reads start again.
func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened != nil {
		g.timer.Stop()
		g.openLocked()
	}
}

func (g *gate) openLocked() {
	close(g.opened)
	g.opened, g.changed = nil, nil
	g.closed.Store(false)
}

// isClosed reports whether a checkpoint waits for reads to end.
func (g *gate) isClosed() bool { return g.closed.Load() }

// busy reports whether the gate is closed and reads are still running.
func (g *gate) busy() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.opened != nil && g.inside > 0
}
