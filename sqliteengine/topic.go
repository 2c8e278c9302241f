package sqliteengine

import (
	"slices"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/sqliteengine/internal/sq"
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

// The kinds.
const (
	kindQueue kind = iota
	kindTopic
	kindGroup
)

// topicLog is the part of a queue that only a topic has.
type topicLog struct {
	cfg      duly.TopicConfig
	n        logNumbers
	checksum uint32          // the checksum that positions carry
	groups   []duly.QueueRef // by name; replaced, never changed
	floor    heldFloor
}

// heldFloor is the group at the floor of a topic and the time since when it is there. It
// is kept only in memory.
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
	delayedSeq              int64 // the seq of the newest delayed message
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

// scanTopic reads a row of topics and topic_logs. The second may be missing in a
// damaged file: the log then seems empty until a check repairs it.
func scanTopic(s *sq.Stmt, ref duly.QueueRef) *topicLog {
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
func (q *queue) saveTopic(c *conn) error {
	l := q.log
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
	if len(byID) == 0 {
		return nil
	}

	err := eachRow(c.stmt("topics_load"), func(s *sq.Stmt) {
		if q := byID[s.ColInt(0)]; q != nil && q.kind == kindTopic {
			q.log = scanTopic(s, q.ref)
		}
	})
	if err != nil {
		return err
	}
	err = eachRow(c.stmt("groups_load"), func(s *sq.Stmt) {
		if q := byID[s.ColInt(0)]; q != nil && q.kind == kindGroup {
			q.scanGroup(s)
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
			slices.SortFunc(q.log.groups, compareNames)
		}
	}
}

// eachRow calls f for every row of a statement.
func eachRow(s *sq.Stmt, f func(s *sq.Stmt)) error {
	for {
		row, err := s.Step()
		if err != nil || !row {
			return err
		}
		f(s)
	}
}
