package enginetest

import (
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// Harness is one engine under test, with the clock that it goes by.
type Harness struct {
	// Engine is the engine under test. Its default namespace is "default".
	Engine contract.Engine
	// In gives the same engine in another namespace, for engines that serve
	// but one. Nil: Engine serves all of them.
	In func(namespace string) contract.Engine
	// Dispatcher is the engine that a dispatcher reserves from; it runs in the server.
	// Nil: Engine, and In.
	Dispatcher duly.Engine
	// Maintainer steps and checks the store behind the engine. For a remote
	// engine it is that of the server's engine.
	Maintainer contract.Maintainer
	// Registry and Backuper are those of the store behind the engine; nil if
	// it has none.
	Registry contract.Registry
	Backuper contract.Backuper
	// Clock is the engine's clock.
	Clock Clock
	// Sharded: the engine can keep a queue in several shards.
	Sharded bool
	// Shards is how many parts a queue has that was made without saying. The
	// suite sets it from its own; 0 is one.
	Shards int
	// Quiet blocks until every call that can return at this moment of the
	// clock has returned. In a bubble (see Suite) it is synctest.Wait.
	Quiet func()
}

// Clock is a clock that only the test moves.
type Clock interface {
	// Now is the moment that the engine takes for now.
	Now() time.Time
	// Advance moves the clock by d ≥ 0; timers on the way fire in order.
	Advance(d time.Duration)
	// Step sets the clock, forwards or backwards, without any timer noticing.
	Step(d time.Duration)
}

// Advance moves the clock. After it, every Wait that should have woken has
// returned.
func (h *Harness) Advance(d time.Duration) {
	h.Clock.Advance(d)
	h.Quiet()
}

// Options is what a test asks of the engine that it is given. Zero fields are
// the engine's defaults.
type Options struct {
	MaxBody   int
	MaxQueues int
	// Shards is how many parts a queue gets that is made without saying; it is
	// the Suite's.
	Shards int
	// Own makes the engine reclaim leases by itself (C4.74), by timers of the
	// suite's clock. Else only Reserve and Step apply the time.
	Own bool
	// OneShard: the test judges what holds within a shard, so on queues of
	// several its jobs share one. No engine needs to know.
	OneShard bool
}

// Suite says how to make engines and how to run tests against them.
type Suite struct {
	// New makes an empty engine. Unless Options.Own is set it steps nothing by
	// itself: time goes on only in Reserve and Step. It registers its own
	// clean-up with t.
	New func(t testing.TB, o Options) *Harness
	// Subjects are the groups of tests that Run plays, by the first part of
	// their names ("Push", "Wait"). Nil: all of them.
	Subjects []string
	// Bubble runs every test in a bubble of testing/synctest, for engines
	// without sockets: Quiet may then be left nil.
	Bubble bool
	// Shards lets the tests run on queues of that many parts: order is then
	// judged per key and shard, limits per shard. Default: one.
	Shards int
	// Sequences is how many scripts Model plays in its usual form. Default 300.
	Sequences int
}

// run gives one test an engine of its own.
func (s Suite) run(t *testing.T, o Options, body func(t *testing.T, h *Harness)) {
	o.Shards = s.Shards
	play := func(t *testing.T) {
		h := s.New(t, o)
		if s.Bubble && h.Quiet == nil {
			h.Quiet = synctest.Wait
		}
		if o.Shards > 1 {
			overShards(h, o, t.Name())
		}
		body(t, h)
	}
	if s.Bubble {
		synctest.Test(t, play)
	} else {
		play(t)
	}
}

// long tells that the long suites were asked for.
func long() bool { return os.Getenv("DULY_LONG") != "" }
