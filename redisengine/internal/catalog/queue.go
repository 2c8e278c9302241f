package catalog

import (
	"sync/atomic"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// meet notes that the shard has its configuration.
func (s *Shard) meet() {
	if n := s.met.Load(); n <= 0 {
		s.met.CompareAndSwap(n, 1-n)
	}
}

// dropIdle tells whether some of the queue's shards keep their gear.
func (q *Queue) dropIdle() (kept bool) {
	for _, s := range q.Shards {
		if g := s.State.Load(); g != nil && !g.used.Swap(false) {
			s.State.CompareAndSwap(g, nil)
		}
		kept = kept || s.State.Load() != nil
	}
	return kept
}

// Shard is one part of a queue. The names of all its keys begin with one hash
// tag, so they live on one node and one script may touch them.
type Shard struct {
	Index  int
	Tag    string
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

// Queue is what this process knows of a queue. It never changes: another
// configuration is another queue.
type Queue struct {
	Ref           duly.QueueRef
	Config        duly.QueueConfig
	Value         string // the configuration as it is stored, version first
	Version       string
	Tomb          bool // to be destroyed: what is left of it goes before it is made anew
	PlainDefaults bool // its defaults are the contract's
	Shards        []*Shard
}

// TakeEmptied tells, once, whether Reserves of the last moments have left
// nothing in any shard. Whatever has become deliverable since then stands in a
// marker, or somebody was told: who waits now need not look.
func (q *Queue) TakeEmptied(now time.Duration) bool {
	all := true
	for _, s := range q.Shards {
		at := s.Emptied.Swap(0)
		all = all && at > 0 && now-time.Duration(at-1) < store.Recheck
	}
	return all
}

// Shard is a shard by its number, nil if the queue has none such.
func (q *Queue) Shard(i int) *Shard {
	if q == nil || i >= len(q.Shards) {
		return nil
	}
	return q.Shards[i]
}
