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

// Queue is a queue with one configuration. It is immutable: another configuration is another
// Queue.
type Queue struct {
	Ref     duly.QueueRef
	Config  duly.QueueConfig
	Value   string // the stored configuration, which begins with the version
	Version string
	// Whether the queue is being destroyed; its remains are deleted before it is created again.
	Tomb          bool
	PlainDefaults bool // whether this is a pull queue with the contract's defaults
	Topic         *Topic
	View          *View // set for a group, nil for a queue or topic
	Shards        []*Shard
}

// Dispatched reports whether dispatchers deliver the queue's jobs.
func (q *Queue) Dispatched() bool { return q.Config.Delivery == duly.DeliverPush }

// Base returns the topic of a view, and any other queue itself.
func (q *Queue) Base() *Queue {
	if q.View != nil {
		return q.View.Topic
	}
	return q
}

// Shard returns a shard by its number, or nil if the queue has no such shard.
func (q *Queue) Shard(i int) *Shard {
	if q == nil || i >= len(q.Shards) {
		return nil
	}
	return q.Shards[i]
}

// TakeEmptied reports whether recent Reserves left no job in any shard, and resets that. A job
// that became deliverable since has set a marker or woken a waiter. A new waiter can therefore
// skip its first poll.
func (q *Queue) TakeEmptied(now time.Duration) bool {
	// Every shard is reset, even after the answer is known.
	all := true
	for _, s := range q.Shards {
		at := s.Emptied.Swap(0)
		all = all && at > 0 && now-time.Duration(at-1) < store.Recheck
	}
	return all
}

// dropIdle drops the state of idle shards and reports whether some state is left.
func (q *Queue) dropIdle() (kept bool) {
	if q.Topic != nil {
		for _, view := range q.Topic.known() {
			kept = view.dropIdle() || kept
		}
	}
	for _, s := range q.Shards {
		// The flag is cleared here, so a shard without calls until the next sweep is idle.
		if g := s.State.Load(); g != nil && !g.used.Swap(false) {
			s.State.CompareAndSwap(g, nil)
		}
		kept = kept || s.State.Load() != nil
	}
	return kept
}

// A topic has an entry in its namespace's list, like a queue. Its groups are part of its
// configuration, because Publish must know every group. The calls on a group use a Queue as well,
// a view of its topic. The shards of a view have the keys of the group.

// Topic is the part of a Queue that only a topic has.
type Topic struct {
	// Born is random. A topic that is created again under the same name has a different Born. Born
	// is empty for a topic that an earlier version created.
	Born   string
	Config duly.TopicConfig
	// Groups are sorted by name. A group with Gone set is being destroyed.
	Groups []*Group

	mu    sync.Mutex
	views map[string]*Queue
	calls []*TopicCall // calls by shard index, created on first use
}

// Group is a group in the configuration of its topic.
type Group struct {
	Name   string
	Birth  string // the group's epoch mark: random, 16 hex digits
	Made   uint64 // the number of the configuration that created the group
	Since  int64  // the group's creation time, in ms
	From   string // where the group begins: start, end, a time or a position
	At     []int64
	Gone   bool
	Config duly.QueueConfig
}

// View is the part of a Queue that only the view of a group has.
type View struct {
	Topic *Queue
	Group *Group
}

// Is reports whether the topic has this mark. A topic without a mark matches any.
func (t *Topic) Is(born string) bool { return t.Born == born || t.Born == "" }

// Find returns a group of the topic, or nil if there is none.
func (t *Topic) Find(name string) *Group {
	i, found := slices.BinarySearchFunc(t.Groups, name, func(g *Group,
		name string) int {
		return cmp.Compare(g.Name, name)
	})
	if !found || t.Groups[i].Gone {
		return nil
	}
	return t.Groups[i]
}

// Names returns the names of the topic's groups.
func (t *Topic) Names() (names []string) {
	for _, g := range t.Groups {
		if !g.Gone {
			names = append(names, g.Name)
		}
	}
	return names
}

// known returns the views that are in use.
func (t *Topic) known() []*Queue {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Values(t.views))
}

// Group returns the view of a group, or nil if there is no such group.
func (q *Queue) Group(name string) *Queue {
	if q == nil || q.Topic == nil || q.Tomb {
		return nil
	}
	t := q.Topic
	t.mu.Lock()
	defer t.mu.Unlock()
	// All callers get the same view, so they share batches.
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
		v.Shards[i] = &Shard{Index: i, Tag: store.GroupTag(s.Tag, name), Base: s.Tag,
			Limits: packGroup(t.Config, g.Config, i)}
	}
	t.views[name] = v
	return v
}

// TopicCall holds the arguments of calls on a topic's shard that depend on its groups.
type TopicCall struct {
	Limits string   // the limits of the configuration, packed
	Groups string   // the names of the groups that Publish wakes, packed
	Keys   []string // the topic's keys, and the markers of these groups
}

// TopicCall returns the arguments for calls on a shard of a topic.
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
		// A paused group delivers nothing, so waking its waiters is useless.
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

// Walk is the progress of a call through the shards of a queue. If a shard has another
// configuration, the call is repeated and keeps the answers of the other shards. Otherwise a call
// on a queue that is configured all the time would never end. After a queue was destroyed and
// created again, the walk starts over.
type Walk struct {
	birth string // epoch mark of the queue in the last attempt
	done  int    // number of shards that have answered
}

// Begin reports whether the walk starts over, because the queue was created again.
func (w *Walk) Begin(q *Queue) bool {
	birth := q.Version[8:]
	if w.birth == birth {
		return false
	}
	*w = Walk{birth: birth}
	return true
}

// Each calls f with every shard that is left, beginning at the first one.
func (w *Walk) Each(q *Queue, first int, f func(s *Shard) error) error {
	w.Begin(q)
	for ; w.done < len(q.Shards); w.done++ {
		if err := f(q.Shards[(first+w.done)%len(q.Shards)]); err != nil {
			return err
		}
	}
	return nil
}
