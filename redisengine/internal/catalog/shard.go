package catalog

import (
	"slices"
	"sync/atomic"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// ShardRef names a shard of a queue that may be created again meanwhile.
type ShardRef struct {
	Ref   duly.QueueRef
	Index int
}

// Shard is one part of a queue. The names of all its keys begin with one hash
// tag, so they live on one node and one script may touch them.
type Shard struct {
	Index  int
	Tag    string
	Base   string // of a group's: the tag of the topic's shard
	Limits string // what the configuration bounds here, packed for the scripts
	// met is above 0 if it has this configuration, as far as this process knows.
	// When that turns out wrong it is the same number below 0, until it is met
	// again, with the next number.
	met atomic.Int64
	// Emptied is 1 more than when a Reserve was sent that has left nothing here,
	// on the monotonic clock; 0 once somebody waits, or has it.
	Emptied atomic.Int64
	State   atomic.Pointer[State] // nil while the shard is not in use
}

// Name returns the name of one of the shard's keys.
func (s *Shard) Name(key string) string {
	if g := s.State.Load(); g != nil {
		return g.Name(key)
	}
	return s.Tag + key
}

// of lists the keys that a script wants.
func (s *Shard) of(sc *store.Script) []string {
	g := s.State.Load()
	if g != nil && sc.All {
		return g.names
	}
	keys := make([]string, 0, len(sc.Keys))
	if g == nil {
		return store.AppendKeys(keys, s.Tag, sc.Keys)
	}
	for _, k := range sc.Places {
		keys = append(keys, g.names[k])
	}
	return keys
}

// meet notes that the shard has its configuration.
func (s *Shard) meet() {
	if n := s.met.Load(); n <= 0 {
		s.met.CompareAndSwap(n, 1-n)
	}
}

// State is what calls that use a shard work with. Of a hundred thousand queues
// that a process knows few are in use at a time, and the garbage collector has to go
// through all that is known. So the state is created when a caller calls or waits,
// and a sweep drops it if no call came since the sweep before. A caller that still
// holds a dropped state may go on using it.
type State struct {
	names []string // of shardKeys
	Calls any      // by newCalls
	used  atomic.Bool
}

// Name returns the name of one of the shard's keys.
func (g *State) Name(key string) string { return g.names[slices.Index(store.ShardKeys[:], key)] }

// Stale is a shard's answer to a call that was computed with another configuration.
// value is the one that the shard has, "" for none.
type Stale struct {
	Shard *Shard
	Value string
	met   int64 // what the shard's met was before the call
}

// lost reports whether the shard has lost what this process knew it to have. It
// returns true to one caller.
func (s *Stale) lost() bool { return s.met > 0 && s.Shard.met.CompareAndSwap(s.met, -s.met) }

// Error implements error. No caller of the engine ever sees it.
func (s *Stale) Error() string { return "redisengine: the shard has another configuration" }
