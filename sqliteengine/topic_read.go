package sqliteengine

import (
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/logcursor"
	"github.com/dulymq/duly/sqliteengine/internal/sqliteconn"
)

// readEntries adds the messages from a place on.
func (t readTx) readEntries(q topicQueue, next logcursor.Place, limit int, page *contract.ReadPage) error {
	defer func() { page.Next = logcursor.Next([]logcursor.Place{next}) }()
	s := t.stmt("messages_from").Int(1, q.id).Int(2, int64(next.Ordinal)).Int(3, int64(limit))
	defer s.Reset()

	for bytes := 0; ; {
		row, err := s.Step()
		if err != nil || !row {
			return err
		}
		ordinal, ms := s.ColInt(0), s.ColInt(1)
		m := message{id: s.ColText(2), key: s.ColText(3), headers: s.ColRaw(4), body: s.ColBytes(5)}
		if bytes += len(m.body); len(page.Entries) > 0 && bytes > duly.MaxBatchBytes {
			return nil
		}
		page.Entries = append(page.Entries, contract.Entry{
			Message: m.public(q.ref), Position: q.log.position(ordinal, ms), EnteredAt: clock.FromMilli(ms),
		})
		next = logcursor.Place{Ordinal: uint64(ordinal) + 1, Seen: ms}
	}
}

// readFrom returns where a Read begins.
func (t readTx) readFrom(q topicQueue, from duly.From) (next logcursor.Place, err error) {
	parts, _ := contract.ParseFrom(from) // was validated before, so the error is impossible
	if parts.Kind == contract.KindNext {
		return t.readFromNext(q, from, parts.Next)
	}
	at, ahead, err := q.point(t.tx, parts)
	if err == nil && !ahead && parts.Kind == contract.KindPosition {
		ahead, err = t.replaced(q, at.wanted, contract.PositionPartsOf(parts.Position).Millis)
	}
	if err == nil && ahead {
		err = q.log.ends(from)
	}
	return logcursor.Place{Ordinal: uint64(at.wanted)}, err
}

func (t readTx) readFromNext(q topicQueue, from duly.From, text string) (next logcursor.Place, err error) {
	places, err := logcursor.Parse(text, 1)
	if err != nil {
		return next, err
	}
	next = places[0]
	lost := int64(next.Ordinal) > q.log.n.last+1
	if !lost && next.Seen > 0 {
		lost, err = t.replaced(q, int64(next.Ordinal)-1, next.Seen)
	}
	if err == nil && lost {
		err = q.log.ends(from)
	}
	return next, err
}

// replaced reports whether the log never had, or has lost, a message that entered at ms. A deleted
// message is known only to have entered before the remaining ones.
func (t readTx) replaced(q topicQueue, ordinal, ms int64) (bool, error) {
	p, err := q.messageAt(t.tx, ordinal)
	if p.ordinal == ordinal {
		return p.ms != ms, err
	}
	return ms > p.ms, err
}

// topicStats returns the sizes and counters of a topic.
func (t readTx) topicStats(q topicQueue) (s duly.TopicStats, err error) {
	n := &q.log.n
	s = duly.TopicStats{
		Messages: n.messages(), Bytes: n.bytes() + n.delayedBytes, Delayed: n.delayed,
		Published: n.published, Exists: n.existing, Entered: n.last, Canceled: n.canceled,
		Trimmed: n.trimmed, Dropped: n.dropped, Forgotten: n.forgotten,
	}

	if n.messages() > 0 {
		first, err := q.messageAt(t.tx, n.first)
		if err != nil {
			return s, err
		}
		s.First, s.Last = q.log.position(first.ordinal, first.ms), q.log.position(n.last, n.lastMs)
	}

	next, ok, err := t.integer(t.stmt("first_delayed").Int(1, q.id))
	if ok {
		s.NextDue = clock.FromMilli(next)
	}
	if err == nil {
		s.Floors, err = t.floors(q)
	}
	return s, err
}

// floors returns the group at the floor of a topic. The list is empty if no group needs a message.
func (t readTx) floors(q topicQueue) (floors []duly.Floor, err error) {
	groups, err := t.groupsOf(q)
	if err != nil {
		return nil, err
	}

	n := &q.log.n
	next, lowest := n.last+1, logPlace{ordinal: n.last + 1}
	var holder groupQueue
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

	if holder.queue == nil {
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
func (t readTx) groupsOf(q topicQueue) (groups []groupQueue, err error) {
	var names []string
	s := t.stmt("group_names").Text(1, duly.GroupName(q.ref.Name, "")).Int(2, duly.MaxGroups)
	s.Text(3, q.ref.Namespace).Text(4, q.ref.Name+"A")
	if err := eachRow(s, func(s *sqliteconn.Stmt) { names = append(names, s.ColText(0)) }); err != nil {
		return nil, err
	}
	for _, name := range names {
		g, err := t.readQueue(duly.QueueRef{Namespace: q.ref.Namespace, Name: name})
		if err != nil {
			return nil, err
		}
		if g != nil && g.group != nil {
			groups = append(groups, g.asGroup())
		}
	}
	return groups, nil
}

// floorOf returns the first stored message that a group needs.
func (t readTx) floorOf(topic topicQueue, g groupQueue) (logPlace, error) {
	first, err := topic.messageAt(t.tx, topic.log.n.first)
	if err != nil {
		return first, err
	}
	held, err := topic.firstHeld(t.tx, g.queue, first)
	if err != nil {
		return first, err
	}
	return topic.messageAt(t.tx, min(held, g.group.n.cursor+1))
}

// groupStats returns the statistics that only a group has.
func (t readTx) groupStats(q groupQueue) (*duly.GroupStats, error) {
	g := q.group
	s := &duly.GroupStats{
		Filtered: g.n.filtered, Skipped: g.n.skipped, Replayed: g.n.replayed, Missed: g.n.missed,
		Parked: q.isParked(t.now), Consumers: t.w.e.consumers.list(q.id, t.now),
	}

	topic := q.topic(t.tx)
	if topic.missing() {
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

// blockingKey returns the key that blocks most messages of a group, or "" if none does.
func (t readTx) blockingKey(q groupQueue) (string, error) {
	key, most, n, last := "", 0, 0, ""
	err := eachRow(t.stmt("blocked_places").Int(1, q.id), func(s *sqliteconn.Stmt) {
		place := s.ColRaw(0)
		if len(place) == 0 || len(place) < 1+int(place[0]) {
			return
		}
		// The sort keys are in the order of the keys.
		if of := string(place[1 : 1+place[0]]); of != last {
			n, last = 0, of
		}
		if n++; n > most || n == most && last < key {
			key, most = last, n
		}
	})
	return key, err
}
