package sqliteengine

import (
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/sqliteengine/internal/sq"
)

// Statistics of topics and groups: from their rows at one commit, and from the state
// that is only in memory.

// findKnown is findQueue with an error for the name of a topic or of an unknown group,
// see tx.known.
func (e *Engine) findKnown(c *conn, ref duly.QueueRef) (*tx, *queue, error) {
	t, q, err := e.findQueue(c, ref)
	topicRef, _, isGroup := ref.Group()
	switch {
	case err != nil:
	case q != nil && q.kind == kindTopic:
		err = contract.IsTopic(ref)
	case q == nil && isGroup:
		topic, readErr := t.readQueue(topicRef)
		if err = readErr; err == nil && (topic == nil || topic.kind != kindTopic) {
			err = contract.NoTopic(topicRef)
		} else if err == nil {
			err = contract.NoGroup(ref)
		}
	}
	return t, q, err
}

// readKind reads the other rows of a topic or a group.
func (t *tx) readKind(q *queue) error {
	switch q.kind {
	case kindTopic:
		q.log = newTopicLog(q.ref)
		return eachRow(t.stmt("topic_find").Int(1, q.id), func(s *sq.Stmt) { q.log = scanTopic(s, q.ref) })
	case kindGroup:
		q.group = &groupState{stale: true}
		if err := eachRow(t.stmt("group_find").Int(1, q.id), func(s *sq.Stmt) { q.scanGroup(s) }); err != nil {
			return err
		}
		q.group.called = max(q.group.called, t.w.e.notifier.called(q.ref))
		topic, _, _ := q.ref.Group()
		s := t.stmt("topic_id").Text(1, topic.Namespace).Text(2, topic.Name)
		return eachRow(s, func(s *sq.Stmt) { q.group.topic, q.group.topicID = topic, s.ColInt(0) })
	}
	return nil
}

// topicOf returns the topic of a group, nil if it is missing in a damaged file.
func (t *tx) topicOf(g *queue) *queue {
	if t.readOnly {
		topic, err := t.readQueue(g.group.topic)
		if err != nil || topic == nil || topic.kind != kindTopic {
			return nil
		}
		return topic
	}
	q := t.queue(g.group.topic)
	if q == nil || q.kind != kindTopic {
		return nil
	}
	return q
}

// groupStats returns the statistics that only a group has.
func (t *tx) groupStats(q *queue) (*duly.GroupStats, error) {
	g := q.group
	s := &duly.GroupStats{
		Filtered: g.n.filtered, Skipped: g.n.skipped, Replayed: g.n.replayed, Missed: g.n.missed,
		Parked: q.isParked(t.now), Consumers: t.w.e.consumers.list(q.id, t.now),
	}

	topic := t.topicOf(q)
	if topic == nil {
		return s, nil
	}

	s.Lag, s.Entered = q.lag(topic), topic.log.n.last-g.n.start+1
	floor, err := t.floorOf(topic, q)
	if err != nil {
		return s, err
	}
	if floor.ordinal <= topic.log.n.last && !s.Parked {
		s.OldestNeeded = time.Duration(max(0, t.now-floor.ms)) * time.Millisecond
	}

	if s.AtMaxHeld = s.Lag > 0 && q.heldRoom() == 0; s.AtMaxHeld {
		s.Key, err = t.blockingKey(q)
	}
	return s, err
}

// floorOf returns the first stored message that a group needs.
func (t *tx) floorOf(topic, g *queue) (logPlace, error) {
	first, err := t.messageAt(topic, topic.log.n.first)
	if err != nil {
		return first, err
	}
	held, err := t.firstHeld(topic, g, first)
	if err != nil {
		return first, err
	}
	return t.messageAt(topic, min(held, g.group.n.cursor+1))
}

// blockingKey returns the key that blocks most messages of a group, "" for none.
func (t *tx) blockingKey(q *queue) (string, error) {
	key, most, n, last := "", 0, 0, ""
	err := eachRow(t.stmt("blocked_places").Int(1, q.id), func(s *sq.Stmt) {
		place := s.ColRaw(0)
		if len(place) == 0 || len(place) < 1+int(place[0]) {
			return
		}
		if of := string(place[1 : 1+place[0]]); of != last { // they are sorted by key
			n, last = 0, of
		}
		if n++; n > most || n == most && last < key {
			key, most = last, n
		}
	})
	return key, err
}

// floors returns the group at the floor of a topic, nothing if no group needs a message.
func (t *tx) floors(q *queue) (floors []duly.Floor, err error) {
	groups, err := t.groupsOf(q)
	if err != nil {
		return nil, err
	}

	n := &q.log.n
	next, lowest := n.last+1, logPlace{ordinal: n.last + 1}
	var holder *queue
	for _, g := range groups {
		if g.isParked(t.now) {
			continue
		}
		floor, err := t.floorOf(q, g)
		if err != nil {
			return nil, err
		}
		if floor.ordinal < lowest.ordinal {
			holder, next, lowest = g, lowest.ordinal, floor
		} else {
			next = min(next, floor.ordinal)
		}
	}

	if holder == nil {
		return nil, nil
	}

	_, name, _ := holder.ref.Group()
	f := duly.Floor{Position: q.log.position(lowest.ordinal, lowest.ms), Group: name, Alone: next - lowest.ordinal}
	if held := t.w.e.notifier.floor(q.ref); held.group == holder.ref {
		f.Since = clock.FromMilli(held.since)
	}
	return []duly.Floor{f}, nil
}

// groupsOf reads the groups of a topic, by name.
func (t *tx) groupsOf(q *queue) (groups []*queue, err error) {
	var names []string
	s := t.stmt("group_names").Text(1, duly.GroupName(q.ref.Name, "")).Int(2, duly.MaxGroups)
	s.Text(3, q.ref.Namespace).Text(4, q.ref.Name+"A")
	if err := eachRow(s, func(s *sq.Stmt) { names = append(names, s.ColText(0)) }); err != nil {
		return nil, err
	}
	for _, name := range names {
		g, err := t.readQueue(duly.QueueRef{Namespace: q.ref.Namespace, Name: name})
		if err != nil {
			return nil, err
		}
		if g != nil && g.group != nil {
			groups = append(groups, g)
		}
	}
	return groups, nil
}

// floor returns the group at the floor of a topic, as far as memory has it.
func (h *notifier) floor(topic duly.QueueRef) heldFloor {
	h.mu.Lock()
	defer h.mu.Unlock()
	if v := h.views[waitKey{ref: topic}]; v != nil {
		return v.floor
	}
	return heldFloor{}
}

// called returns the time of a group's last Reserve, as far as memory has it.
func (h *notifier) called(group duly.QueueRef) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if v := h.views[waitKey{ref: group}]; v != nil {
		return v.called
	}
	return 0
}
