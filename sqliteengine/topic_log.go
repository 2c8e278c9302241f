package sqliteengine

import (
	"encoding/base64"
	"encoding/binary"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/sqliteengine/internal/rules"
	"github.com/dulymq/duly/sqliteengine/internal/sqliteconn"
)

// Delayed messages are in a separate table until they are due. A step of the topic then moves them
// into the log, in the order of their due times. The engine's timer steps a topic when its first
// delayed message is due.

// delay stores a message that enters the log later.
func (q topicQueue) delay(t *tx, m *message, due int64) error {
	n := &q.log.n
	n.delayedSeq++
	n.delayed++
	n.delayedBytes += m.size()
	s := t.stmt("delayed_add").Int(1, q.id).Int(2, due).Int(3, n.delayedSeq)
	if _, err := s.Text(4, m.id).Text(5, m.key).BlobOrNull(6, m.headers).Blob(7, m.body).Run(); err != nil {
		return err
	}
	// The timer must not miss a message that is due before the other messages.
	lower(&q.earliest.due, due)
	return q.remember(t, m.id, -n.delayedSeq, 0)
}

// delayedMessage is a row of delayed_messages.
type delayedMessage struct {
	message
	due, seq int64
}

// scanDelayed reads the columns due, seq, id, key, headers, body.
func scanDelayed(s *sqliteconn.Stmt) delayedMessage {
	return delayedMessage{
		due: s.ColInt(0), seq: s.ColInt(1),
		message: message{id: s.ColText(2), key: s.ColText(3), headers: s.ColBytes(4), body: s.ColBytes(5)},
	}
}

// enterDue moves due messages into the log. more reports that it stopped at its bound.
func (q topicQueue) enterDue(t *tx) (more bool, err error) {
	if q.earliest.due > t.now {
		return false, nil
	}

	var due []delayedMessage
	err = eachRow(t.stmt("delayed_first").Int(1, q.id).Int(2, t.now).Int(3, stepBound), func(s *sqliteconn.Stmt) {
		due = append(due, scanDelayed(s))
	})
	if err != nil {
		return false, err
	}

	for i := range due {
		if err := q.enterOne(t, &due[i]); err != nil {
			return false, err
		}
	}

	// More messages may be due, so the earliest time stays in the past for the next step.
	if len(due) == stepBound {
		return true, nil
	}
	return false, q.readDelayed(t.conn)
}

// enterOne moves one delayed message into the log.
func (q topicQueue) enterOne(t *tx, m *delayedMessage) error {
	if err := q.dropDelayed(t, m); err != nil {
		return err
	}
	ordinal, err := q.enterLog(t, &m.message)
	// Without stored IDs, no row needs the position of the message.
	if err != nil || q.log.n.ids == 0 {
		return err
	}
	_, err = t.stmt("seen_enter").Int(1, q.id).Text(2, m.id).Int(3, ordinal).Int(4, q.log.n.lastMs).Int(5, m.seq).Run()
	return err
}

func (q topicQueue) dropDelayed(t *tx, m *delayedMessage) error {
	n := &q.log.n
	n.delayed--
	n.delayedBytes -= m.size()
	_, err := t.stmt("delayed_drop").Int(1, q.id).Int(2, m.due).Int(3, m.seq).Run()
	return err
}

// readDelayed reads the due time of the first delayed message.
func (q topicQueue) readDelayed(c *conn) error {
	q.earliest.due = never
	return eachRow(c.stmt("first_delayed").Int(1, q.id), func(s *sqliteconn.Stmt) { q.earliest.due = s.ColInt(0) })
}

// findDelayed finds a delayed message. It returns nil if there is none.
func (q topicQueue) findDelayed(t *tx, key, id string) (found *delayedMessage, err error) {
	err = eachRow(t.stmt("delayed_find").Int(1, q.id).Text(2, id).Text(3, key), func(s *sqliteconn.Stmt) {
		m := scanDelayed(s)
		found = &m
	})
	return found, err
}

// public returns the message as it was published.
func (m *message) public(topic duly.QueueRef) duly.Message {
	return duly.Message{
		Namespace: topic.Namespace, Topic: topic.Name, ID: m.id, Key: m.key, Body: m.body,
		Headers: rules.UnpackHeaders(m.headers),
	}
}

func (m *delayedMessage) public(topic duly.QueueRef) duly.Message {
	p := m.message.public(topic)
	p.Due = clock.FromMilli(m.due)
	return p
}

// delayedCursor returns the cursor of the page after m.
func delayedCursor(m *delayedMessage) string {
	b := binary.BigEndian.AppendUint64(nil, uint64(m.due))
	b = rules.AppendText(rules.AppendText(b, m.id), m.key)
	return base64.RawURLEncoding.EncodeToString(b)
}

func parseDelayedCursor(text string) (m delayedMessage, err error) {
	// Every due time is later, so the first page begins with the first message.
	if m.due = -1; text == "" {
		return m, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) < 8 {
		return m, contract.BadCursor()
	}
	texts, ok := rules.Texts(b[8:], 2)
	if !ok {
		return m, contract.BadCursor()
	}
	m.due, m.id, m.key = int64(binary.BigEndian.Uint64(b)), texts[0], texts[1]
	return m, nil
}

// messageBatch holds the messages that wait for a shared INSERT statement.
type messageBatch []appended

// appended is a message of the log that is not stored yet.
type appended struct {
	topic, ordinal, ms, entered int64
	message
}

// flush stores the waiting messages.
func (b *messageBatch) flush(t *tx) error {
	for rest := *b; len(rest) > 0; {
		// A few fixed widths keep the number of prepared statements small.
		w := width(len(rest))
		s := t.conn.many("message_add_many", w)
		for k := range rest[:w] {
			m, i := &rest[k], 8*k
			s.Int(i+1, m.topic).Int(i+2, m.ordinal).Int(i+3, m.ms).Int(i+4, m.entered)
			s.TextOrNull(i+5, m.id).TextOrNull(i+6, m.key).BlobOrNull(i+7, m.headers).Blob(i+8, m.body)
		}
		if _, err := s.Run(); err != nil {
			return err
		}
		rest = rest[w:]
	}
	b.reset()
	return nil
}

func (b *messageBatch) reset() {
	// The bodies can then be freed.
	clear(*b)
	*b = (*b)[:0]
}

// enterLog appends a message to the log and returns its ordinal. Entry times never fall,
// even if the clock was set back.
func (q topicQueue) enterLog(t *tx, m *message) (ordinal int64, err error) {
	n := &q.log.n
	n.last++
	n.lastMs = max(n.lastMs, t.now)
	n.enteredBytes += m.size()
	t.messages = append(t.messages, appended{q.id, n.last, n.lastMs, n.enteredBytes, *m})
	if len(t.messages) == widths[0] {
		err = t.messages.flush(t)
	}
	return n.last, err
}

// seen reports whether a topic has seen an ID within its window, and fills in the
// result of the first Publish.
func (q topicQueue) seen(t *tx, id string, r *duly.PublishResult) (bool, error) {
	s := t.stmt("seen_find").Int(1, q.id).Text(2, id)
	row, err := s.Step()
	if err != nil || !row {
		return false, err
	}
	at, ordinal, ms := s.ColInt(0), s.ColInt(1), s.ColInt(2)
	s.Reset()
	// The row of an ID whose window has ended stays until forgetIDs deletes it.
	if past(at+clock.Millis(q.log.cfg.Dedupe), t.now) {
		return false, nil
	}
	q.log.n.existing++
	// A message that is still delayed has no position.
	if r.Status = duly.Exists; ordinal > 0 {
		r.Position = q.log.position(ordinal, ms)
	}
	return true, nil
}

// remember stores the ID of a new message, if the topic compares IDs. ordinal is minus the
// seq of a delayed message.
func (q topicQueue) remember(t *tx, id string, ordinal, ms int64) error {
	n := &q.log.n
	if id == "" || q.log.cfg.Dedupe == duly.None {
		return nil
	}
	// The ID may still be stored although its window has ended.
	dropped, err := t.stmt("seen_drop").Int(1, q.id).Text(2, id).Run()
	if err != nil {
		return err
	}
	n.ids += 1 - int64(dropped)
	if _, err := t.stmt("seen_add").Int(1, q.id).Text(2, id).Int(3, t.now).Int(4, ordinal).Int(5,
		ms).Run(); err != nil {
		return err
	}
	return q.forgetIDs(t, clock.Millis(q.log.cfg.Dedupe))
}

// forgetOldIDs drops IDs whose window ended a day ago, in a topic that gets no new IDs. The extra
// day is for a clock that is set back, or a window that is made longer.
func (q topicQueue) forgetOldIDs(t *tx) error {
	return q.forgetIDs(t, clock.Millis(max(q.log.cfg.Dedupe, 0)+duly.MaxDedupe))
}

// forgetIDs deletes the oldest IDs, up to a limit: IDs whose window has ended, and IDs that exceed
// the maximum number.
func (q topicQueue) forgetIDs(t *tx, window int64) error {
	n := &q.log.n
	if n.ids == 0 {
		return nil
	}
	// The list is complete before the deletions, which would disturb a running read.
	old, err := q.oldIDs(t, window)
	if err != nil {
		return err
	}
	for _, id := range old {
		if _, err := t.stmt("seen_drop").Int(1, q.id).Text(2, id).Run(); err != nil {
			return err
		}
		n.ids--
	}
	return nil
}

// oldIDs lists the IDs to delete, and counts those whose window has not ended.
func (q topicQueue) oldIDs(t *tx, window int64) (ids []string, err error) {
	n := &q.log.n
	s := t.stmt("seen_first").Int(1, q.id).Int(2, stepBound)
	defer s.Reset()
	for {
		row, err := s.Step()
		if err != nil || !row {
			return ids, err
		}
		if !past(s.ColInt(1)+window, t.now) {
			if n.ids-int64(len(ids)) <= maxIDs {
				return ids, nil
			}
			n.forgotten++
		}
		ids = append(ids, s.ColText(0))
	}
}

// maxIDs is a variable so that tests can change it.
var maxIDs int64 = duly.MaxIDs
