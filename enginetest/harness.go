package enginetest

import (
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// Harness is an engine under test together with its clock.
type Harness struct {
	// Engine is the engine under test. Its default namespace is "default".
	Engine contract.Engine
	// In returns the same engine for another namespace, for engines that serve only one. If it is
	// nil, Engine serves all of them.
	In func(namespace string) contract.Engine
	// Dispatcher is the engine from which a dispatcher reserves: that of the server. If it is nil,
	// dispatchers use Engine and In.
	Dispatcher duly.Engine
	// Maintainer steps and checks the store of the engine. For a remote engine it belongs to the
	// server's engine.
	Maintainer contract.Maintainer
	// Registry and Backuper belong to the store of the engine. They are nil if the store has no
	// such part.
	Registry contract.Registry
	Backuper contract.Backuper
	// Logged returns how many lines of the engine's log contain all of the texts. If it is nil, the
	// suite does not test the log.
	Logged func(texts ...string) int
	// Clock is the engine's clock.
	Clock Clock
	// Sharded says that the engine can split a queue into several shards.
	Sharded bool
	// Shards is the number of shards of a queue that does not configure it. The suite sets it.
	// The default is one.
	Shards int
	// Quiet blocks until every call that can return at the clock's current time has returned. In
	// a bubble (see Suite) it is synctest.Wait.
	Quiet func()
}

// Clock is a clock that only the test moves.
type Clock interface {
	// Now returns the time that the engine sees.
	Now() time.Time
	// Advance moves the clock by d ≥ 0. Timers fire in order on the way.
	Advance(d time.Duration)
	// Step sets the clock forwards or backwards without firing a timer.
	Step(d time.Duration)
}

// Advance moves the clock. When it returns, every Wait that must wake up has returned.
func (h *Harness) Advance(d time.Duration) {
	h.Clock.Advance(d)
	h.Quiet()
}

// Options are the properties of the engine that a test needs. Zero fields are the engine's
// defaults.
type Options struct {
	MaxBody   int
	MaxQueues int
	// Shards is the number of shards of a queue that does not configure it. The suite sets it.
	Shards int
	// Own lets the engine reclaim leases by itself (C4.74), with timers of the suite's clock.
	// Without it only Reserve and Step apply the time.
	Own bool
	// OneShard says that the test checks order or limits within a shard. On queues with several
	// shards its jobs then share one. Engines may ignore it.
	OneShard bool
}

// Suite says how to create engines and how to run tests against them.
type Suite struct {
	// New creates an empty engine and registers its clean-up with t. Unless Options.Own is set,
	// the engine applies the time only in Reserve and Step.
	New func(t testing.TB, o Options) *Harness
	// Subjects are the groups of tests to run, by the first part of their names ("Push", "Wait").
	// Nil means all of them.
	Subjects []string
	// Bubble runs every test in a bubble of testing/synctest, for engines without sockets. Quiet
	// may then be nil.
	Bubble bool
	// Shards is the number of shards of the tests' queues. With several, order is checked per key
	// and shard, and limits per shard. The default is one.
	Shards int
	// Sequences is the number of scripts that Model runs in its short form. The default is 300.
	Sequences int
}

// run runs a test with its own engine.
func (s Suite) run(t *testing.T, o Options, body func(t *testing.T, h *Harness)) {
	o.Shards = s.Shards
	play := func(t *testing.T) {
		h := s.New(t, o)
		if s.Bubble && h.Quiet == nil {
			h.Quiet = synctest.Wait
		}
		// Queues with several shards need IDs that all fall into one shard.
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

// long reports whether the long suites were requested.
func long() bool { return os.Getenv("DULY_LONG") != "" }
