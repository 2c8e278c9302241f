package sqliteengine

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
)

// The notifier's state of topics and groups. A group's deliverable messages are its ready
// messages and the messages beyond its cursor, so a commit that adds messages to a log
// updates all its groups. The timer steps a topic when its first delayed message is due.
// Readers of a log wait for a channel that is closed when messages enter.

// applyTopic updates the state that only a topic has.
func (h *notifier) applyTopic(v *queueView, q *queue) {
	v.ready = 0
	v.earliest = noEvents
	v.earliest.leaseEnd = q.earliest.due // the engine steps the topic at that time
	v.floor = q.log.floor
	if v.last != q.log.n.last {
		v.last = q.log.n.last
		v.wakeReaders()
	}
}

// updateGroups updates the state of a topic's groups after a change of the topic.
func (h *notifier) updateGroups(topic *queue, now int64) {
	for _, ref := range topic.log.groups {
		if g := h.e.w.queues[ref]; g != nil {
			h.update(g, now)
		}
	}
}

// applyGroup updates the state that only a group has. With a filter or an
// order, only a poll of the messages finds how much of the lag is deliverable.
func (h *notifier) applyGroup(v *queueView, q *queue) {
	v.uncounted, v.called = false, q.group.called
	topic := h.e.w.queues[q.group.topic]
	if topic == nil || topic.log == nil {
		return
	}
	v.earliest.due = min(v.earliest.due, topic.earliest.due)
	switch n := min(q.lag(topic), q.heldRoom()); {
	case n == 0:
	case q.plainGroup():
		v.ready += n
	default:
		v.uncounted = true
	}
}

// checkKnown returns an error for the name of a topic or of an unknown group, see tx.known.
func (h *notifier) checkKnown(ref duly.QueueRef) error {
	exists := func(ref duly.QueueRef, k kind) bool {
		v := h.views[waitKey{ref: ref}]
		return v != nil && v.exists && v.kind == k
	}
	switch topic, _, isGroup := ref.Group(); {
	case exists(ref, kindTopic):
		return contract.IsTopic(ref)
	case !isGroup || exists(ref, kindGroup):
		return nil
	case !exists(topic, kindTopic):
		return contract.NoTopic(topic)
	}
	return contract.NoGroup(ref)
}

// entered returns a channel that is closed when messages enter a topic, or when the
// topic is destroyed. It returns nil for an unknown topic.
func (h *notifier) entered(topic duly.QueueRef) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	v := h.views[waitKey{ref: topic}]
	if v == nil || v.kind != kindTopic {
		return nil
	}
	if v.readers == nil {
		v.readers = make(chan struct{})
	}
	return v.readers
}

func (v *queueView) wakeReaders() {
	if v.readers != nil {
		close(v.readers)
		v.readers = nil
	}
}

// consumers holds the names that callers pass with Reserve, by group. It is kept only in
// memory, so that no call costs a write.
type consumers struct {
	mu     sync.Mutex
	groups map[int64]map[string]int64 // by queue ID and name → the last call
}

// reservedEvery is the precision of the stored time of a group's last Reserve, in ms.
const reservedEvery = 60_000

// noteCall records a Reserve from a group.
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

// list returns the consumers of a group that called within the last hour, by name.
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
