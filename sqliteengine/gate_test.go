package sqliteengine

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly/internal/clock"
)

// newGate returns a gate, its clock, and how often it called changed.
func newGate() (g *gate, c *clock.Fake, changed *int, closeIt func()) {
	c = clock.NewFake()
	g, changed = &gate{clock: c}, new(int)
	return g, c, changed, func() { g.close(checkpointPause, func() { *changed++ }) }
}

// entering calls enter in a goroutine, and returns a channel for its result.
func entering(ctx context.Context, g *gate) chan error {
	entered := make(chan error, 1)
	go func() { entered <- g.enter(ctx) }()
	return entered
}

// waitsOutside fails the test if a read has entered. It runs in a bubble.
func waitsOutside(t *testing.T, entered chan error) {
	t.Helper()
	synctest.Wait()
	if len(entered) > 0 {
		t.Fatalf("the read did not wait: %v", <-entered)
	}
}

// A closed gate blocks new reads and reports the end of the running ones.
func TestGateWaitsForReadsToEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, _, changed, closeIt := newGate()
		for range 2 {
			if err := g.enter(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		closeIt()
		late := entering(t.Context(), g)
		waitsOutside(t, late)

		for left := 1; left >= 0; left-- {
			if *changed > 0 || !g.busy() || !g.isClosed() {
				t.Errorf("%d reads are inside: called %d times, busy %t", left+1, *changed, g.busy())
			}
			g.leave()
		}
		if *changed != 1 || g.busy() || !g.isClosed() {
			t.Errorf("no read is inside: called %d times, busy %t", *changed, g.busy())
		}
		waitsOutside(t, late)

		g.open()
		if err := <-late; err != nil || g.isClosed() {
			t.Errorf("the gate was opened: closed %t, the read entered with %v", g.isClosed(), err)
		}
		g.leave()
	})
}

// A gate without running reads reports that at once.
func TestGateClosesWithoutReads(t *testing.T) {
	t.Parallel()
	g, c, changed, closeIt := newGate()
	closeIt()
	if *changed != 1 || g.busy() {
		t.Errorf("called %d times, busy %t", *changed, g.busy())
	}
	g.open()
	g.open()
	if n := c.Timers(); n > 0 {
		t.Errorf("%d timers are left", n)
	}
}

// The limit bounds the wait of new reads, even if a running read never ends. Each closing has
// a limit of its own.
func TestGateOpensAfterItsLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, c, changed, closeIt := newGate()
		if err := g.enter(t.Context()); err != nil { // this read never leaves the gate
			t.Fatal(err)
		}
		closeIt()
		c.Advance(checkpointPause - 1)
		g.open()
		closeIt()

		late := entering(t.Context(), g)
		c.Advance(checkpointPause - 1)
		waitsOutside(t, late)
		c.Advance(1)
		if err := <-late; err != nil || g.isClosed() || *changed != 1 {
			t.Errorf("after the limit: closed %t, called %d times, the read entered with %v", g.isClosed(),
				*changed, err)
		}
	})
}

// A read whose caller leaves while it waits is not counted.
func TestGateForgetsCanceledReads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, _, _, closeIt := newGate()
		closeIt()
		ctx, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		if err := g.enter(ctx); !errors.Is(err, errInterrupted) {
			t.Errorf("the canceled read entered with %v", err)
		}
		g.open()
		if closeIt(); g.busy() {
			t.Error("the canceled read is inside")
		}
		g.open()
	})
}
