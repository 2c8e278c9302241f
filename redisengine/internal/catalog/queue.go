package catalog

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/redisengine/internal/store"
)

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

// ShardRef names a shard of a queue that may be created again meanwhile.
type ShardRef struct {
	Ref   duly.QueueRef
	Index int
}

// meet notes that the shard has its configuration.
func (s *Shard) meet() {
	if n := s.met.Load(); n <= 0 {
		s.met.CompareAndSwap(n, 1-n)
	}
}

// dropIdle reports whether some of the queue's shards keep their state.
func (q *Queue) dropIdle() (kept bool) {
	if q.Topic != nil {
		for _, view := range q.Topic.known() {
			kept = view.dropIdle() || kept
		}
	}
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

// Queue is what this process knows of a queue. It never changes: another
// configuration is another queue.
type Queue struct {
	Ref           duly.QueueRef
	Config        duly.QueueConfig
	Value         string // the configuration as it is stored, version first
	Version       string
	Tomb          bool // being destroyed: its remains are removed before it is created again
	PlainDefaults bool // a pull queue whose defaults are the contract's
	Topic         *Topic
	View          *View // of a group
	Shards        []*Shard
}

// Dispatched reports whether the jobs of the queue are for dispatchers.
func (q *Queue) Dispatched() bool { return q.Config.Delivery == duly.DeliverPush }

// TakeEmptied reports whether recent Reserves have left nothing in any shard. It
// does so once. Whatever has become deliverable since has set a marker or woken a
// waiter, so a new waiter need not look.
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

// Walk is the progress of a call through the shards of a queue. If a shard has
// another configuration, the call is repeated and the answers of the other shards
// stand. Otherwise a call on a queue that is configured all the time would never
// end. A queue that was destroyed and created again is walked from the start.
type Walk struct {
	birth string // of the queue
	done  int    // shards
}

// Begin reports whether the queue is one whose shards were not asked yet.
func (w *Walk) Begin(q *Queue) bool {
	birth := q.Version[8:]
	if w.birth == birth {
		return false
	}
	*w = Walk{birth: birth}
	return true
}

// Each does something with every shard that is left, beginning at the first one.
func (w *Walk) Each(q *Queue, first int, f func(s *Shard) error) error {
	w.Begin(q)
	for ; w.done < len(q.Shards); w.done++ {
		if err := f(q.Shards[(first+w.done)%len(q.Shards)]); err != nil {
			return err
		}
	}
	return nil
}
