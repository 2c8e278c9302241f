package sqliteengine

import (
	"context"
	"encoding/base64"
	"encoding/binary"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/sqliteengine/internal/sq"
)

// Delayed messages are in a table of their own until they are due. A step of the topic
// then moves them into the log, in the order of their due times. The engine's timer
// steps a topic when the first of them is due.

// delay stores a message that enters the log later.
func (t *tx) delay(q *queue, m *message, due int64) error {
	n := &q.log.n
	n.delayedSeq++
	n.delayed++
	n.delayedBytes += m.size()
	s := t.stmt("delayed_add").Int(1, q.id).Int(2, due).Int(3, n.delayedSeq)
	if _, err := s.Text(4, m.id).Text(5, m.key).BlobOrNull(6, m.headers).Blob(7, m.body).Run(); err != nil {
		return err
	}
	lower(&q.earliest.due, due)
	return t.remember(q, m.id, -n.delayedSeq, 0)
}

// delayedMessage is a row of delayed_messages.
type delayedMessage struct {
	message
	due, seq int64
}

// scanDelayed reads the columns due, seq, id, key, headers, body.
func scanDelayed(s *sq.Stmt) delayedMessage {
	return delayedMessage{
		due: s.ColInt(0), seq: s.ColInt(1),
		message: message{id: s.ColText(2), key: s.ColText(3), headers: s.ColBytes(4), body: s.ColBytes(5)},
	}
}

// enterDue moves due messages into the log. more reports that it stopped at its bound.
func (t *tx) enterDue(q *queue) (more bool, err error) {
	if q.earliest.due > t.now {
		return false, nil
	}

	var due []delayedMessage
	err = eachRow(t.stmt("delayed_first").Int(1, q.id).Int(2, t.now).Int(3, stepBound), func(s *sq.Stmt) {
		due = append(due, scanDelayed(s))
	})
	if err != nil {
		return false, err
	}

	for i := range due {
		if err := t.enterOne(q, &due[i]); err != nil {
			return false, err
		}
	}

	if len(due) == stepBound {
		return true, nil
	}
	return false, q.readDelayed(t.conn)
}

// enterOne moves one message from the delayed ones into the log.
func (t *tx) enterOne(q *queue, m *delayedMessage) error {
	if err := t.dropDelayed(q, m); err != nil {
		return err
	}
	ordinal, err := t.enterLog(q, &m.message)
	if err != nil || q.log.n.ids == 0 {
		return err
	}
	_, err = t.stmt("seen_enter").Int(1, q.id).Text(2, m.id).Int(3, ordinal).Int(4, q.log.n.lastMs).Int(5, m.seq).Run()
	return err
}

func (t *tx) dropDelayed(q *queue, m *delayedMessage) error {
	n := &q.log.n
	n.delayed--
	n.delayedBytes -= m.size()
	_, err := t.stmt("delayed_drop").Int(1, q.id).Int(2, m.due).Int(3, m.seq).Run()
	return err
}

// readDelayed reads the due time of the first delayed message.
func (q *queue) readDelayed(c *conn) error {
	q.earliest.due = never
	return eachRow(c.stmt("first_delayed").Int(1, q.id), func(s *sq.Stmt) { q.earliest.due = s.ColInt(0) })
}

// findDelayed finds a delayed message; nil if there is none.
func (t *tx) findDelayed(q *queue, key, id string) (found *delayedMessage, err error) {
	err = eachRow(t.stmt("delayed_find").Int(1, q.id).Text(2, id).Text(3, key), func(s *sq.Stmt) {
		m := scanDelayed(s)
		found = &m
	})
	return found, err
}

// DelayedMessage implements contract.Topics.
func (e *Engine) DelayedMessage(ctx context.Context, topic duly.QueueRef, key, id string) (m duly.Message, err error) {
	if err := contract.ValidateID(id); err != nil {
		return m, err
	}
	err = e.onTopicSnapshot(ctx, topic, func(t *tx, q *queue) error {
		found, err := t.findDelayed(q, key, id)
		if err != nil {
			return err
		}
		if found == nil {
			return contract.NoMessage(topic, id)
		}
		m = found.public(q.ref)
		return nil
	})
	return m, err
}

// public returns the message as it was published.
func (m *message) public(topic duly.QueueRef) duly.Message {
	return duly.Message{
		Namespace: topic.Namespace, Topic: topic.Name, ID: m.id, Key: m.key, Body: m.body,
		Headers: unpackHeaders(m.headers),
	}
}

func (m *delayedMessage) public(topic duly.QueueRef) duly.Message {
	p := m.message.public(topic)
	p.Due = clock.FromMilli(m.due)
	return p
}

// CancelDelayed implements contract.Topics.
func (e *Engine) CancelDelayed(ctx context.Context, topic duly.QueueRef, key, id string) error {
	if err := contract.ValidateID(id); err != nil {
		return err
	}
	return e.onTopic(ctx, topic, spaceNone, func(t *tx, q *queue) error {
		m, err := t.findDelayed(q, key, id)
		if err != nil {
			return err
		}
		if m == nil {
			return contract.NoMessage(topic, id)
		}
		q.log.n.canceled++
		return t.dropDelayed(q, m)
	})
}

// Delayed implements contract.Topics.
func (e *Engine) Delayed(ctx context.Context, topic duly.QueueRef, p contract.DelayedParams) (page contract.DelayedPage, err error) {
	if err := contract.ValidatePage(&p.PageParams); err != nil {
		return page, err
	}

	from, err := parseDelayedCursor(p.Cursor)
	if err != nil {
		return page, err
	}

	err = e.onTopicSnapshot(ctx, topic, func(t *tx, q *queue) error {
		page = contract.DelayedPage{}
		rows := t.stmt("delayed_list").Int(1, q.id).Int(2, from.due).Text(3, from.id).Text(4, from.key).Int(5,
			int64(p.Limit)+1).Int(6, boolean(p.Bodies))
		defer rows.Reset()
		var last delayedMessage
		bytes := 0
		for {
			row, err := rows.Step()
			if err != nil || !row {
				return err
			}
			m := scanDelayed(rows)
			bytes += len(m.body)
			if n := len(page.Messages); n == p.Limit || n > 0 && bytes > duly.MaxBatchBytes {
				page.Next = delayedCursor(&last)
				return nil
			}
			page.Messages, last = append(page.Messages, m.public(q.ref)), m
		}
	})
	return page, err
}

// delayedCursor returns the cursor of the page after m.
func delayedCursor(m *delayedMessage) string {
	w := packer(binary.BigEndian.AppendUint64(nil, uint64(m.due)))
	w.text(1, m.id)
	w.text(1, m.key)
	return base64.RawURLEncoding.EncodeToString(w)
}

func parseDelayedCursor(text string) (m delayedMessage, err error) {
	if m.due = -1; text == "" {
		return m, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) < 8 {
		return m, contract.BadCursor()
	}
	r := &unpacker{rest: b[8:]}
	m.due, m.id, m.key = int64(binary.BigEndian.Uint64(b)), r.text(1), r.text(1)
	if r.bad || len(r.rest) > 0 {
		return m, contract.BadCursor()
	}
	return m, nil
}
