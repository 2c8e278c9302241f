package catalog

import (
	"slices"
	"sync/atomic"

	"github.com/dulymq/duly/redisengine/internal/store"
)

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

// State returns a shard's state, and creates it if there is none.
func (e *Catalog) State(q *Queue, s *Shard) *State {
	for {
		if g := s.State.Load(); g != nil {
			if !g.used.Load() {
				g.used.Store(true)
			}
			return g
		}
		g := &State{names: store.AppendKeys(make([]string, 0, len(store.ShardKeys)), s.Tag, store.ShardKeys[:]), Calls: e.NewCalls(q, s)}
		if s.State.CompareAndSwap(nil, g) {
			e.Cache.markUsed(q)
		}
	}
}
