package sqliteengine

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dulymq/duly/internal/clock"
)

// gate counts the read transactions under way. A checkpoint closes it while it
// waits for their end: reads that overlap all the time would otherwise keep the
// log from being restarted. The zero value is open; set clock first.
type gate struct {
	clock clock.Clock

	mu      sync.Mutex
	inside  int           // read transactions under way
	opened  chan struct{} // nil: the gate is open; else closed when it opens
	changed func()        // called when the last read leaves, and when time is up
	timer   clock.Timer

	closed atomic.Bool // opened is not nil
}

// enter waits until the gate is open and counts a read. It returns
// errInterrupted if ctx ends first. A read that entered must leave.
func (g *gate) enter(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()

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

// leave ends a read that entered.
func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inside--; g.inside == 0 && g.opened != nil {
		g.changed()
	}
}

// close keeps new reads outside for at most limit. It calls changed once no
// read is inside, and once the limit has passed; changed must not block and
// must not call the gate.
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
		if g.opened == opened { // not opened, or closed again, meanwhile
			g.openLocked()
			changed()
		}
	})
	if g.inside == 0 {
		changed()
	}
}

// open lets reads in again.
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

// isClosed reports whether a checkpoint waits for the end of reads.
func (g *gate) isClosed() bool { return g.closed.Load() }

// busy reports whether the gate is closed and reads are still inside.
func (g *gate) busy() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.opened != nil && g.inside > 0
}
