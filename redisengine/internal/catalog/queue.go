package catalog

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/store"
)

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

// Base returns the topic of a view, and any other queue itself.
func (q *Queue) Base() *Queue {
	if q.View != nil {
		return q.View.Topic
	}
	return q
}

// Shard is a shard by its number, nil if the queue has none such.
func (q *Queue) Shard(i int) *Shard {
	if q == nil || i >= len(q.Shards) {
		return nil
	}
	return q.Shards[i]
}

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

// A topic has an entry in its namespace's list, as a queue has. Its groups are part of
// its configuration, because Publish must know every group. For the calls on a group
// there is a Queue as well, a view of its topic: its shards have the keys of the group.

// Topic is what only a topic has of a Queue.
type Topic struct {
	// Born is random. A topic that is made again under the name has another one. It is
	// empty for a topic of an earlier version.
	Born   string
	Config duly.TopicConfig
	// Groups are sorted by name. Those that are Gone are being destroyed.
	Groups []*Group

	mu    sync.Mutex
	views map[string]*Queue
	calls []*TopicCall // by shard, made on first use
}

// Group is a group in the configuration of its topic.
type Group struct {
	Name   string
	Birth  string // random, 16 hex digits
	Made   uint64 // the number of the configuration that made it
	Since  int64  // when that was, in ms
	From   string // where it begins: start, end, time or place
	At     []int64
	Gone   bool
	Config duly.QueueConfig
}

// View is what only the view of a group has of a Queue.
type View struct {
	Topic *Queue
	Group *Group
}

// Is reports whether this is the topic with that birth mark, as far as the marks say.
func (t *Topic) Is(born string) bool { return t.Born == born || t.Born == "" }

// Find returns a group of the topic, nil for none.
func (t *Topic) Find(name string) *Group {
	i, found := slices.BinarySearchFunc(t.Groups, name, func(g *Group, name string) int { return cmp.Compare(g.Name, name) })
	if !found || t.Groups[i].Gone {
		return nil
	}
	return t.Groups[i]
}

// Names lists the groups of the topic.
func (t *Topic) Names() (names []string) {
	for _, g := range t.Groups {
		if !g.Gone {
			names = append(names, g.Name)
		}
	}
	return names
}

// known are the views that are in use.
func (t *Topic) known() []*Queue {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Values(t.views))
}

// Group returns the view of a group, nil for none.
func (q *Queue) Group(name string) *Queue {
	if q == nil || q.Topic == nil || q.Tomb {
		return nil
	}
	t := q.Topic
	t.mu.Lock()
	defer t.mu.Unlock()
	if v := t.views[name]; v != nil {
		return v
	}
	g := t.Find(name)
	if g == nil {
		return nil
	}

	v := &Queue{
		Ref:    duly.QueueRef{Namespace: q.Ref.Namespace, Name: duly.GroupName(q.Ref.Name, name)},
		Config: g.Config, Value: q.Value, Version: q.Version,
		View: &View{q, g}, Shards: make([]*Shard, len(q.Shards)),
	}
	for i, s := range q.Shards {
		v.Shards[i] = &Shard{Index: i, Tag: store.GroupTag(s.Tag, name), Base: s.Tag, Limits: packGroup(t.Config, g.Config, i)}
	}
	t.views[name] = v
	return v
}

// TopicCall is what the calls on a topic's shard need of its groups.
type TopicCall struct {
	Limits string   // what the configuration bounds, packed
	Groups string   // the names of the groups that Publish wakes, packed
	Keys   []string // the topic's keys, and the markers of these groups
}

// TopicCall returns what the calls on a shard of a topic need.
func (q *Queue) TopicCall(s *Shard) *TopicCall {
	t := q.Topic
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.calls == nil {
		t.calls = make([]*TopicCall, len(q.Shards))
	}
	if c := t.calls[s.Index]; c != nil {
		return c
	}

	c := &TopicCall{Keys: store.LogKeys(store.TopicKeys, s.Tag, "")}
	var limits, names codec.Packer
	limits.Array(7)
	limits.Integer(codec.MillisOrNone(t.Config.Dedupe))
	packRetention(&limits, t.Config, s.Index, false)
	var woken []string
	for _, g := range t.Groups {
		if !g.Gone && !g.Config.Paused {
			woken = append(woken, g.Name)
			c.Keys = append(c.Keys, store.GroupTag(s.Tag, g.Name)+"marker")
		}
	}
	names.Array(len(woken))
	for _, name := range woken {
		names.Text(name)
	}
	c.Limits, c.Groups = string(limits), string(names)
	t.calls[s.Index] = c
	return c
}

// Walk is the progress of a call through the shards of a queue. If a shard has
// another configuration, the call is repeated and the answers of the other shards
// are kept. Otherwise a call on a queue that is configured all the time would never
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
