package sqliteengine

import (
	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// This file has the notifier's state of topics and groups. A group's deliverable messages are its
// ready messages and the messages beyond its cursor, so a commit that adds messages to a log
// updates all groups of the topic. The timer steps a topic when its first delayed message is due.
// Readers of a log wait for a channel that is closed when messages enter.

// applyTopic updates the state that only a topic has.
func (h *notifier) applyTopic(v *queueView, q *queue) {
	v.ready = 0
	v.earliest = noEvents
	// The engine steps the topic by itself at that time, as it does with a queue whose lease ends.
	v.earliest.leaseEnd = q.earliest.due
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
	// A damaged file may have a group without its topic.
	if topic == nil || topic.log == nil {
		return
	}
	v.earliest.due = min(v.earliest.due, topic.earliest.due)

	g := q.asGroup()
	switch n := min(g.lag(topic.asTopic()), g.heldRoom()); {
	case n == 0:
	case g.plainGroup():
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
