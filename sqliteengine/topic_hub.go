package sqliteengine

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

// What the hub knows of topics and groups. A group has what it holds ready and what
// lies beyond its cursor; a commit that brings messages into a log updates all its groups.
// A topic with delayed messages is stepped by the timer when the first of them is due,
// as a queue is whose first lease ends. Readers of a log wait for a channel that is
// closed when messages enter.

// learnTopic takes over what only a topic has.
func (h *hub) learnTopic(v *view, q *queue) {
	v.ready = 0
	v.first = noMoments
	v.first.leaseEnd = q.first.due // the engine steps the topic by itself then
	v.floor = q.log.floor
	if v.last != q.log.n.last {
		v.last = q.log.n.last
		v.wakeReaders()
	}
}

// updateGroups takes over what a change of a topic means for its groups.
func (h *hub) updateGroups(topic *queue, now int64) {
	for _, ref := range topic.log.groups {
		if g := h.e.w.queues[ref]; g != nil {
			h.update(g, now)
		}
	}
}

// learnGroup takes over what only a group has. Of a group with a filter or an order
// nobody knows how much of its lag is deliverable until a look was at it.
func (h *hub) learnGroup(v *view, q *queue) {
	v.unsure, v.called = false, q.group.called
	topic := h.e.w.queues[q.group.topic]
	if topic == nil || topic.log == nil {
		return
	}
	v.first.due = min(v.first.due, topic.first.due)
	switch n := min(q.lag(topic), q.heldRoom()); {
	case n == 0:
	case q.plainGroup():
		v.ready += n
	default:
		v.unsure = true
	}
}

// known returns an error for a name that no queue can have; see tx.known.
func (h *hub) known(ref duly.QueueRef) error {
	exists := func(ref duly.QueueRef, k kind) bool {
		v := h.views[door{ref: ref}]
		return v != nil && v.exists && v.kind == k
	}
	switch topic, _, isGroup := ref.Group(); {
	case exists(ref, kindTopic):
		return duly.IsTopic(ref)
	case !isGroup || exists(ref, kindGroup):
		return nil
	case !exists(topic, kindTopic):
		return duly.NoTopic(topic)
	}
	return duly.NoGroup(ref)
}

// entered is closed when messages enter a topic, or when it is destroyed. It is nil for
// an unknown one.
func (h *hub) entered(topic duly.QueueRef) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	v := h.views[door{ref: topic}]
	if v == nil || v.kind != kindTopic {
		return nil
	}
	if v.readers == nil {
		v.readers = make(chan struct{})
	}
	return v.readers
}

func (v *view) wakeReaders() {
	if v.readers != nil {
		close(v.readers)
		v.readers = nil
	}
}

// consumers are the names that callers of Reserve give, by group. They are kept in
// memory alone, so that no call costs a write.
type consumers struct {
	mu     sync.Mutex
	groups map[int64]map[string]int64 // by queue ID and name → the last call
}

// reservedEvery is how exactly the store knows when a group was last reserved from, in
// ms.
const reservedEvery = 60_000

// noteCall notes a Reserve from a group.
func (t *tx) noteCall(q *queue, consumer string) {
	g := q.group
	if g.called = t.now; t.now-g.n.reserved >= reservedEvery || t.now < g.n.reserved {
		g.n.reserved = t.now
	}
	if consumer != "" {
		t.w.e.consumers.note(q.id, consumer, t.now)
	}
}

func (c *consumers) note(group int64, name string, now int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.groups == nil {
		c.groups = map[int64]map[string]int64{}
	}
	names := c.groups[group]
	if names == nil {
		names = map[string]int64{}
		c.groups[group] = names
	}
	names[name] = now
	maps.DeleteFunc(names, func(_ string, at int64) bool { return forgotten(at, now) })
	if len(names) <= duly.MaxConsumers {
		return
	}

	oldest := name
	for other, at := range names {
		if at < names[oldest] {
			oldest = other
		}
	}
	delete(names, oldest)
}

func forgotten(at, now int64) bool { return past(at+clock.Millis(duly.ConsumerMemory), now) }

// list is the names of a group that called within the last hour, by name.
func (c *consumers) list(group, now int64) (all []duly.Consumer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, at := range c.groups[group] {
		if !forgotten(at, now) {
			all = append(all, duly.Consumer{Name: name, LastCall: clock.FromMilli(at)})
		}
	}
	slices.SortFunc(all, func(a, b duly.Consumer) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// forget drops the names of a group that was destroyed.
func (c *consumers) forget(group int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.groups, group)
}
