package catalog

import (
	"slices"
	"sync/atomic"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// ShardRef names a shard of a queue. The queue may be destroyed and created again.
type ShardRef struct {
	Ref   duly.QueueRef
	Index int
}

// Shard is one part of a queue. All its keys begin with one hash tag. They live on one node, so
// one script may access them all.
type Shard struct {
	Index  int
	Tag    string
	Base   string // of a group's shard: the tag of the topic's shard
	Limits string // the shard's part of the limits, packed for the scripts
	// met is positive if the shard is known to have this configuration. After the shard has lost
	// its data, met is the same number negated. When the shard has the configuration again, met is
	// the next number.
	met atomic.Int64
	// Emptied is 1 more than the monotonic time at which a Reserve that left no job was sent. It
	// is 0 after a waiter has used it.
	Emptied atomic.Int64
	State   atomic.Pointer[State] // nil until a call uses the shard
}

// Name returns the name of one of the shard's keys.
func (s *Shard) Name(key string) string {
	if g := s.State.Load(); g != nil {
		return g.Name(key)
	}
	return s.Tag + key
}

// of returns the keys that a script needs.
func (s *Shard) of(sc *store.Script) []string {
	g := s.State.Load()
	// All scripts with all keys share one slice, so the call allocates none.
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

// meet records that the shard has its configuration.
func (s *Shard) meet() {
	if n := s.met.Load(); n <= 0 {
		s.met.CompareAndSwap(n, 1-n)
	}
}

// State holds what calls on a shard need. A process may know a hundred thousand queues, but few are
// in use at a time, and the garbage collector scans all state. The state is therefore created by
// the first call or waiter. A sweep drops it if no call came since the last sweep. A caller with a
// dropped state may continue using it.
type State struct {
	names []string // key names in the order of store.ShardKeys
	Calls any      // the value that Catalog.NewCalls returned
	used  atomic.Bool
}

// Name returns the name of one of the shard's keys.
func (g *State) Name(key string) string { return g.names[slices.Index(store.ShardKeys[:], key)] }

// Stale is a shard's answer to a call that was computed with another configuration. Value is the
// shard's configuration, "" for none.
type Stale struct {
	Shard *Shard
	Value string
	met   int64 // the value of Shard.met before the call
}

// lost reports whether the shard has lost a configuration that it had. It returns true to one
// caller only.
func (s *Stale) lost() bool { return s.met > 0 && s.Shard.met.CompareAndSwap(s.met, -s.met) }

// Error implements error. Callers of the engine never see this error.
func (s *Stale) Error() string { return "redisengine: the shard has another configuration" }
