package model

import (
	"cmp"
	"maps"
	"slices"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
)

// log is one shard of a topic. Shards are independent of each other.
type log struct {
	topic *topic
	index int
	// messages have consecutive ordinals: because only the oldest messages are ever deleted.
	messages []*message
	// last is the position of the last message that entered, stored or not.
	last contract.PositionParts
	// delayed messages have not entered the log. Sorted by (due, turn).
	delayed []*message
	turns   int
	// seen has the IDs that were published with dedupe. order has the same IDs, sorted by age.
	seen     map[string]*seen
	order    []*seen
	bytes    int64 // bytes of all messages, including the delayed ones
	counters duly.TopicStats
	// holder is the group at the floor, which is the group that needs the oldest message. since is
	// the time at which it got there.
	holder string
	since  int64
}

// message is one message, in the log or delayed.
type message struct {
	duly.Message
	due  int64
	turn int // order of the publishes, for delayed messages
	// The following fields are set when the message is in the log.
	position duly.Position
	ordinal  uint64
	entered  int64
}

// seen is an ID that was published with dedupe.
type seen struct {
	at      int64
	message *message
}

// size estimates the stored size, for max_bytes.
func (m *message) size() int64 {
	n := len(m.ID) + len(m.Key) + len(m.Body)
	for name, value := range m.Headers {
		n += len(name) + len(value)
	}
	return int64(n) + 64
}

// entry returns the message in the form of Read.
func (m *message) entry() contract.Entry {
	e := contract.Entry{Message: m.Message, Position: m.position, EnteredAt: clock.FromMilli(m.entered)}
	e.Headers, e.Body = maps.Clone(m.Headers), slices.Clone(m.Body)
	return e
}

// first returns the ordinal of the oldest stored message, or that of the next message to enter if
// the log is empty.
func (l *log) first() uint64 { return l.last.Ordinal + 1 - uint64(len(l.messages)) }

// from returns the stored messages from an ordinal on.
func (l *log) from(ordinal uint64) []*message {
	if ordinal <= l.first() {
		return l.messages
	}
	return l.messages[min(ordinal-l.first(), uint64(len(l.messages))):]
}

// at returns the stored message at a position, or nil if there is none.
func (l *log) at(p duly.Position) *message {
	parts := contract.PositionPartsOf(p)
	if parts.Ordinal < l.first() {
		return nil
	}
	if rest := l.from(parts.Ordinal); len(rest) > 0 && rest[0].position == p {
		return rest[0]
	}
	return nil
}

// enter appends a message to the log. Positions rise even if the clock was set back.
func (l *log) enter(m *message, now int64) {
	l.last = contract.PositionParts{
		Millis: max(now, l.last.Millis), Ordinal: l.last.Ordinal + 1, Shard: l.index,
		Topic: contract.TopicChecksum(l.topic.ref),
	}
	m.position, m.ordinal, m.entered = l.last.Position(), l.last.Ordinal, l.last.Millis
	l.messages = append(l.messages, m)
	l.counters.Entered++
	for s := range l.readers() {
		s.reader.stats.Entered++
	}
}

// step lets the due messages enter the log, and deletes messages that no group needs.
func (l *log) step(now int64) (more bool) {
	more = l.enterDue(now)
	return l.trim(now) || more
}

// enterDue lets due messages enter in their order. more reports whether it stopped at its limit.
func (l *log) enterDue(now int64) (more bool) {
	for n := 0; len(l.delayed) > 0 && l.delayed[0].due <= now; n++ {
		if n == stepBound {
			return true
		}
		m := l.delayed[0]
		l.delayed = l.delayed[1:]
		l.enter(m, now)
	}
	return false
}

// delay stores a message until it is due.
func (l *log) delay(m *message) {
	l.turns++
	m.turn = l.turns
	i, _ := slices.BinarySearchFunc(l.delayed, m, byEntry)
	l.delayed = slices.Insert(l.delayed, i, m)
}

// byEntry compares delayed messages by the order in which they enter.
func byEntry(a, b *message) int {
	return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.turn, b.turn))
}

// findDelayed returns the delayed message with the given ID and key, or nil if there is none.
func (l *log) findDelayed(key, id string) *message {
	for _, m := range l.delayed {
		if m.ID == id && m.Key == key {
			return m
		}
	}
	return nil
}

func (l *log) moments(soonest func(int64)) {
	if len(l.delayed) > 0 {
		soonest(l.delayed[0].due)
	}
}

// repeats returns the message that was first published with the ID, if the window of
// dedupe still covers it.
func (l *log) repeats(id string, now int64) *message {
	window := l.topic.cfg.Dedupe
	if s := l.seen[id]; s != nil && window != duly.None && !past(s.at+clock.Millis(window), now) {
		return s.message
	}
	return nil
}

// see stores the ID of a new message for the window of dedupe.
func (l *log) see(m *message, now int64) {
	window := l.topic.cfg.Dedupe
	if window == duly.None || m.ID == "" {
		return
	}
	for len(l.order) > 0 && (past(l.order[0].at+clock.Millis(window), now) || len(l.seen) >= duly.MaxIDs) {
		oldest := l.order[0]
		l.order = l.order[1:]
		if l.seen[oldest.message.ID] != oldest {
			continue // the ID was published again since
		}
		delete(l.seen, oldest.message.ID)
		if !past(oldest.at+clock.Millis(window), now) {
			l.counters.Forgotten++
		}
	}
	s := &seen{now, m}
	l.seen[m.ID] = s
	l.order = append(l.order, s)
}
