package sqliteengine

import (
	"slices"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/sqliteengine/internal/sqliteconn"
)

// Topics and groups are rows of table queues. So code that works by a queue's ID works
// for both: the bound of the namespace, Destroy and the notifier. A group also uses the
// rest of a queue.
//
// The log of a topic is table messages, in which a message is written once. A message
// that a group holds is a job of the group without a body, whose number is the position:
// a pointer into the log. A dead message is a job with a body: a copy.

// kind is the kind of a row of queues.
type kind int64

// The kinds of rows in table queues.
const (
	kindQueue kind = iota
	kindTopic
	kindGroup
)

// topicQueue is a queue of kind kindTopic.
type topicQueue struct{ *queue }

// groupQueue is a queue of kind kindGroup.
type groupQueue struct{ *queue }

// missing reports whether a topic was not found.
func (q topicQueue) missing() bool { return q.queue == nil }

// topicLog is the part of a queue that only a topic has.
type topicLog struct {
	cfg      duly.TopicConfig
	n        logNumbers
	checksum uint32          // checksum that the topic's positions contain
	groups   []duly.QueueRef // groups sorted by name; the list is replaced, and never changed in place
	floor    heldFloor
}

// heldFloor is the group at the floor of a topic: the group that needs the oldest message. It also
// has the time since when that group is at the floor. It is kept only in memory.
type heldFloor struct {
	group duly.QueueRef
	since int64
}

// logNumbers is the row of topic_logs.
type logNumbers struct {
	// first is the ordinal of the oldest message, last + 1 in an empty log.
	first, last, lastMs int64
	// enteredBytes is the size of all messages that entered, goneBytes the size of the
	// messages before first.
	enteredBytes, goneBytes int64
	delayed, delayedBytes   int64
	delayedSeq              int64 // sequence number of the newest delayed message
	ids                     int64
	published, existing     int64
	canceled                int64
	trimmed, dropped        int64
	forgotten               int64
}

// columns returns the numbers in the order of their columns.
func (n *logNumbers) columns() [15]*int64 {
	return [...]*int64{
		&n.first, &n.last, &n.lastMs, &n.enteredBytes, &n.goneBytes, &n.delayed, &n.delayedBytes, &n.delayedSeq, &n.ids,
		&n.published, &n.existing, &n.canceled, &n.trimmed, &n.dropped, &n.forgotten,
	}
}

// messages returns the number of messages in the log.
func (n *logNumbers) messages() int64 { return n.last - n.first + 1 }

// bytes returns the size of the log.
func (n *logNumbers) bytes() int64 { return n.enteredBytes - n.goneBytes }

func newTopicLog(ref duly.QueueRef) *topicLog {
	return &topicLog{cfg: contract.DefaultTopicConfig(), n: logNumbers{first: 1}, checksum: contract.TopicChecksum(ref)}
}

// position returns the position of a message of the log.
func (l *topicLog) position(ordinal, ms int64) duly.Position {
	return contract.PositionParts{Millis: ms, Ordinal: uint64(ordinal), Topic: l.checksum}.Position()
}

// scanTopic reads a row of topics and topic_logs. If the row of topic_logs is missing in a damaged
// file, the log seems empty until a check repairs it.
func scanTopic(s *sqliteconn.Stmt, ref duly.QueueRef) *topicLog {
	l := newTopicLog(ref)
	c := &l.cfg
	for i, d := range []*time.Duration{&c.Dedupe, &c.Keep, &c.MaxAge} {
		*d = time.Duration(s.ColInt(1 + i))
	}
	c.MaxCount, c.MaxBytes, c.Overflow = int(s.ColInt(4)), s.ColInt(5), duly.Overflow(s.ColText(6))
	if s.ColNull(7) {
		return l
	}
	for i, n := range l.n.columns() {
		*n = s.ColInt(7 + i)
	}
	return l
}

// saveTopic writes the changed rows of a topic.
func (q topicQueue) saveTopic(c *conn) error {
	l := q.log
	// Without a base log, the topic is new, or a check repairs its missing rows.
	if q.cfgDirty || q.base.log == nil {
		s := c.stmt("topic_save").Int(1, q.id).Int(2, int64(l.cfg.Dedupe)).Int(3, int64(l.cfg.Keep)).Int(4,
			int64(l.cfg.MaxAge))
		if _, err := s.Int(5, int64(l.cfg.MaxCount)).Int(6, l.cfg.MaxBytes).Text(7,
			string(l.cfg.Overflow)).Run(); err != nil {
			return err
		}
	}

	if q.base.log != nil && q.base.log.n == l.n {
		return nil
	}

	s := c.stmt("log_save").Int(1, q.id)
	for i, n := range l.n.columns() {
		s.Int(2+i, *n)
	}

	_, err := s.Run()
	return err
}

// loadTopics reads the topic and group rows of queues.
func loadTopics(c *conn, queues map[duly.QueueRef]*queue) error {
	byID := map[int64]*queue{}
	for _, q := range queues {
		if q.kind != kindQueue {
			byID[q.id] = q
		}
	}
	// Most stores have no topics.
	if len(byID) == 0 {
		return nil
	}

	err := eachRow(c.stmt("topics_load"), func(s *sqliteconn.Stmt) {
		// A damaged file may have rows of no topic, which Check reports.
		if q := byID[s.ColInt(0)]; q != nil && q.kind == kindTopic {
			q.log = scanTopic(s, q.ref)
		}
	})
	if err != nil {
		return err
	}
	err = eachRow(c.stmt("groups_load"), func(s *sqliteconn.Stmt) {
		if q := byID[s.ColInt(0)]; q != nil && q.kind == kindGroup {
			q.asGroup().scanGroup(s)
		}
	})
	if err != nil {
		return err
	}
	linkGroups(queues)
	return nil
}

// linkGroups lists the groups of every topic. It fills in defaults for rows that a
// damaged file lacks, so that no other code has to expect that.
func linkGroups(queues map[duly.QueueRef]*queue) {
	for _, q := range queues {
		// The topics come first, because the next loop adds groups to their logs.
		if q.kind == kindTopic && q.log == nil {
			q.log = newTopicLog(q.ref)
		}
	}

	for ref, q := range queues {
		if q.kind != kindGroup {
			continue
		}
		if q.group == nil {
			q.group = &groupState{stale: true}
			q.cfg.Group = contract.DefaultGroupConfig().Group
		}
		topic, _, _ := ref.Group()
		if t := queues[topic]; t != nil && t.log != nil {
			q.group.topic, q.group.topicID = topic, t.id
			t.log.groups = append(t.log.groups, ref)
		}
	}

	for _, q := range queues {
		if q.log != nil {
			// A map has no order, and the list must be sorted by name.
			slices.SortFunc(q.log.groups, compareNames)
		}
	}
}

// logPlace is the place of a message in a log: its ordinal and its entry time.
type logPlace struct{ ordinal, ms, entered int64 }

// messageAt finds the first message at or after an ordinal. After the last message, it
// returns the place where the next message enters.
func (q topicQueue) messageAt(t *tx, ordinal int64) (p logPlace, err error) {
	s := t.stmt("message_at").Int(1, q.id).Int(2, ordinal)
	row, err := s.Step()
	if err != nil {
		return p, err
	}
	if !row {
		n := &q.log.n
		return logPlace{n.last + 1, n.lastMs, n.enteredBytes}, nil
	}
	p = logPlace{s.ColInt(0), s.ColInt(1), s.ColInt(2)}
	s.Reset()
	return p, nil
}

// firstSince finds the first message that entered at ms or later. Entry times rise with
// the ordinals, so this is a binary search.
func (q topicQueue) firstSince(t *tx, ms int64) (logPlace, error) {
	n := &q.log.n
	low, high := n.first, n.last+1 // the message is in [low, high]
	for low < high {
		middle := low + (high-low)/2
		p, err := q.messageAt(t, middle)
		if err != nil {
			return p, err
		}
		// The place after the last message is never before ms, whatever its time is.
		if p.ordinal <= n.last && p.ms < ms {
			low = p.ordinal + 1
		} else {
			high = middle
		}
	}
	return q.messageAt(t, low)
}

// stepAll steps a topic and all its groups.
func (q topicQueue) stepAll(t *tx) (more bool, err error) {
	// The log is stepped first, so that the groups get the messages that are due now.
	if more, err = q.stepLog(t); err != nil {
		return false, err
	}
	for _, ref := range q.log.groups {
		if g := t.queue(ref); g != nil {
			again, err := g.step(t)
			if err != nil {
				return false, err
			}
			more = more || again
		}
	}
	return more, nil
}

// stepLog steps a topic to the current time: due messages enter the log, and messages that are not
// kept are deleted. more reports whether it stopped at a limit.
func (q topicQueue) stepLog(t *tx) (more bool, err error) {
	if more, err = q.enterDue(t); err != nil {
		return false, err
	}
	if err := q.forgetOldIDs(t); err != nil {
		return false, err
	}
	again, err := q.trimLog(t)
	return more || again, err
}

// logOverdue reports whether a topic may have work for a step that no call and no timer does.
func (q topicQueue) logOverdue(t *tx) bool {
	c, n := &q.log.cfg, &q.log.n
	if q.earliest.due <= t.now || n.ids > 0 {
		return true
	}
	if n.messages() == 0 {
		return false
	}
	floor, idle := n.last+1, false
	for _, ref := range q.log.groups {
		if g := t.peek(ref); g != nil {
			floor = min(floor, g.group.floor())
			idle = idle || g.cfg.Group.Idle != duly.None
		}
	}
	return c.MaxAge != duly.None || c.Keep != duly.None || idle || len(q.log.groups) > 0 && floor > n.first
}

// addGroup stores a new group.
func (q topicQueue) addGroup(t *tx, ref duly.QueueRef, first int64) error {
	g := &queue{ref: ref, kind: kindGroup, cfg: contract.DefaultGroupConfig()}
	g.group = &groupState{
		topic: q.ref, topicID: q.id, held: never, called: t.now,
		n: groupNumbers{start: first, cursor: first - 1, reserved: t.now},
	}
	if err := t.addQueue(g); err != nil {
		return err
	}
	// Other versions of the topic share the old list, so it is copied.
	groups := append(slices.Clone(q.log.groups), ref)
	slices.SortFunc(groups, compareNames)
	q.log.groups = groups
	_, err := q.floor(t)
	return err
}

// seekPoint is the place in a log that a From names.
type seekPoint struct {
	first   int64 // ordinal of the first stored message at or after the place
	wanted  int64 // ordinal of the From, whose message may have been deleted
	clipped bool  // whether messages from wanted on were deleted
}

// findPlace finds a From in a log. It returns ErrInvalid for a From ahead of the log.
func (q topicQueue) findPlace(t *tx, from duly.From, parts contract.FromParts) (seekPoint, error) {
	// A future time would skip messages that enter before it.
	if parts.Kind == contract.KindTime && parts.Time.After(t.time) {
		return seekPoint{}, contract.AheadOfLog(from)
	}
	at, ahead, err := q.point(t, parts)
	if err == nil && ahead {
		err = contract.AheadOfLog(from)
	}
	return at, err
}

// point finds a From in a log. ahead reports a position beyond the end.
func (q topicQueue) point(t *tx, p contract.FromParts) (at seekPoint, ahead bool, err error) {
	n := &q.log.n
	switch p.Kind {
	case contract.KindEnd:
		at.wanted = n.last + 1
	case contract.KindTime:
		at, err = q.pointAtTime(t, clock.CeilMilli(p.Time))
	case contract.KindPosition:
		parts := contract.PositionPartsOf(p.Position)
		at.wanted = int64(parts.Ordinal)
		at.clipped = at.wanted < n.first
		// A topic has only one shard here, so a position in another one does not exist.
		ahead = parts.Shard != 0 || at.wanted > n.last
	default:
		at.wanted = n.first
	}
	at.first = max(at.wanted, n.first)
	return at, ahead, err
}

// pointAtTime finds the first message that entered at ms or later.
func (q topicQueue) pointAtTime(t *tx, ms int64) (at seekPoint, err error) {
	n := &q.log.n
	// In an empty log, the place may be that of the last message.
	oldest := logPlace{ms: n.lastMs + 1}
	if n.messages() > 0 {
		if oldest, err = q.messageAt(t, n.first); err != nil {
			return at, err
		}
	}
	// Messages since ms can be missing only if the beginning of the log was deleted.
	p, err := q.firstSince(t, ms)
	return seekPoint{wanted: p.ordinal, clipped: n.first > 1 && ms < oldest.ms}, err
}

// ends returns the error for a From beyond the end of the log.
func (l *topicLog) ends(from duly.From) error {
	if l.n.last == 0 {
		return contract.LogEnds(from, "")
	}
	return contract.LogEnds(from, l.position(l.n.last, l.n.lastMs).String())
}

// noteHolder records the group at the floor, or nil if no group holds a message.
func (l *topicLog) noteHolder(g *queue, now int64) {
	var ref duly.QueueRef
	if g != nil {
		ref = g.ref
	}
	if l.floor.group != ref {
		l.floor = heldFloor{ref, now}
	}
}
