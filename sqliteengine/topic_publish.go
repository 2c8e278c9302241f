package sqliteengine

import (
	"bytes"
	"slices"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/sqliteengine/internal/rules"
)

// publishCall is one call to Publish.
type publishCall struct {
	items   []publishItem
	results []duly.PublishResult
	more    bool // whether a topic needs another step before the call can publish
}

// publishItem is one validated message of a call.
type publishItem struct {
	message
	ref duly.QueueRef
	due int64
	err error
}

// message is a message in the form of the tables.
type message struct {
	id, key string
	headers []byte // packed headers; nil means that there are none
	body    []byte
}

// messageOverhead is the engine's estimate of the size of a message without its texts.
const messageOverhead = 64

// size returns the engine's estimate of the stored size of the message.
func (m *message) size() int64 {
	n := messageOverhead + len(m.id) + len(m.key) + len(m.body)
	for name, value := range rules.UnpackHeaders(m.headers) {
		n += len(name) + len(value)
	}
	return int64(n)
}

func (p *publishCall) validate(e *store, messages []duly.Message, copyBodies bool) {
	now := e.cfg.Clock.Now()
	for i := range messages {
		m, item := &messages[i], &p.items[i]
		p.results[i].ID = m.ID
		if item.err = contract.ValidateMessage(m, e.cfg.MaxBody); item.err == nil {
			var planned duly.Message
			planned, item.due, item.err = contract.PlanMessage(*m, now)
			item.ref = duly.QueueRef{Namespace: planned.Namespace, Name: planned.Topic}
			item.message = message{id: m.ID, key: m.Key, headers: rules.PackHeaders(planned.Headers), body: m.Body}
			// The caller may reuse its memory before the writer stores the message.
			if copyBodies {
				item.body = bytes.Clone(m.Body)
			}
		}
		p.results[i].Err = item.err
	}
}

// run publishes the messages in their order. It may run more than once. If a step does not bring a
// topic within its bounds, run publishes nothing and sets more: Publish then repeats the call in
// another transaction, so that other calls run in between.
func (p *publishCall) run(t *tx) error {
	topics, more, err := p.stepTopics(t)
	if p.more = more; err != nil || more {
		return err
	}

	var q topicQueue
	for i := range p.items {
		item := &p.items[i]
		if item.err != nil {
			continue
		}
		// Messages of one topic mostly follow each other, so the topic is looked up only when it
		// changes.
		if q.missing() || q.ref != item.ref {
			next, err := t.makeTopic(item.ref)
			if err != nil {
				if !isRefusal(err) {
					return err
				}
				p.results[i] = duly.PublishResult{ID: item.id, Err: err}
				continue
			}
			if q = next; !slices.Contains(topics, q) {
				topics = append(topics, q)
			}
		}
		if err := q.publishOne(t, item, &p.results[i]); err != nil {
			return err
		}
	}

	for _, q := range topics {
		// floor records which group needs the oldest message now.
		if _, err := q.floor(t); err != nil {
			return err
		}
	}
	return nil
}

// stepTopics steps the topics of the call that exist, before the call publishes. A step
// between its messages could delete messages that the call has just added and no group
// needs. more reports that a topic is still over max_count or max_bytes.
func (p *publishCall) stepTopics(t *tx) (topics []topicQueue, more bool, err error) {
	var ref duly.QueueRef
	for i := range p.items {
		item := &p.items[i]
		if item.err != nil || item.ref == ref {
			continue
		}
		ref = item.ref
		found := t.queue(ref)
		if found == nil || found.kind != kindTopic || slices.Contains(topics, found.asTopic()) {
			continue
		}
		q := found.asTopic()
		topics = append(topics, q)

		if _, err := q.stepLog(t); err != nil {
			return nil, false, err
		}
		last, err := q.overflow(t, 0, 0)
		if err != nil {
			return nil, false, err
		}
		crowded := last >= q.log.n.first
		if !crowded {
			if crowded, err = p.dropAhead(t, q); err != nil {
				return nil, false, err
			}
		}
		more = more || crowded
	}
	return topics, more, nil
}

// dropAhead deletes messages before the call publishes. A publish is one transaction, which may
// delete at most 8 MiB, and max_count can require more: a few small messages replace large ones.
// more reports that further deletes need another transaction.
func (p *publishCall) dropAhead(t *tx, q topicQueue) (more bool, err error) {
	n := &q.log.n
	room := max(0, duly.MaxBatchBytes-t.trimmedBytes)
	if q.log.cfg.MaxCount == duly.None || n.delayed >= int64(q.log.cfg.MaxCount) || n.bytes() <= room {
		return false, nil
	}

	crowd := func(messages int64) (last, size int64, err error) {
		if last, err = q.overflow(t, messages, 0); err != nil || last < n.first {
			return last, 0, err
		}
		until, err := q.enteredUntil(t, last)
		return last, until - n.goneBytes, err
	}
	if _, size, err := crowd(int64(len(p.items))); err != nil || size <= room {
		return false, err
	}
	// The cheap estimate counts repeats as well, so only if it is too large the exact count is
	// needed.
	fresh, err := p.countFresh(t, q)
	if err != nil {
		return false, err
	}
	last, size, err := crowd(fresh)
	if err != nil || size <= room {
		return false, err
	}

	if room == 0 {
		return true, nil
	}
	full, err := q.firstAtSize(t, n.goneBytes+room)
	if err != nil {
		return false, err
	}
	return true, q.drop(t, min(last, full))
}

// countFresh counts the messages of the call that a topic does not know and has room for.
func (p *publishCall) countFresh(t *tx, q topicQueue) (n int64, err error) {
	cfg, ids := &q.log.cfg, map[string]bool{}
	for i := range p.items {
		item := &p.items[i]
		m, delayed := &item.message, item.due > t.now
		if item.err != nil || item.ref != q.ref || cfg.MaxBytes != duly.None &&
			m.size() > cfg.MaxBytes-q.log.n.delayedBytes {
			continue
		}
		if m.id != "" && (cfg.Dedupe != duly.None || delayed) {
			// publishOne calls repeated again, which counts existing messages, so the count is
			// restored.
			existing := q.log.n.existing
			repeated, err := q.repeated(t, m, delayed, &duly.PublishResult{})
			if q.log.n.existing = existing; err != nil {
				return 0, err
			}
			name := m.id + "\x00" + m.key
			if repeated || ids[name] {
				continue
			}
			ids[name] = true
		}
		n++
	}

	return n, nil
}

// publishOne publishes one message, in the contract's order: exists, full.
func (q topicQueue) publishOne(t *tx, p *publishItem, r *duly.PublishResult) error {
	l, m := q.log, p.message
	delayed := p.due > t.now
	*r = duly.PublishResult{ID: m.id, Status: duly.Created}
	if m.id != "" {
		if repeated, err := q.repeated(t, &m, delayed, r); err != nil || repeated {
			return err
		}
	} else if delayed {
		// A delayed message needs an ID by which callers can cancel it.
		m.id = duly.NewNumber().String()
		r.ID = m.id
	}
	if full, err := q.makeRoom(t, &m); err != nil || full != nil {
		if full != nil {
			*r = duly.PublishResult{ID: p.id, Err: full}
		}
		return err
	}

	// From here on the message is neither a repeat nor refused as full, so it is stored.
	l.n.published++
	if delayed {
		return q.delay(t, &m, p.due)
	}
	ordinal, err := q.enterLog(t, &m)
	if err != nil {
		return err
	}
	r.Position = l.position(ordinal, l.n.lastMs)
	return q.remember(t, m.id, ordinal, l.n.lastMs)
}

// repeated reports whether m repeats an earlier message. That is a message with the same ID within
// the dedupe window or, if m is delayed, a delayed message with the same key and ID. For a repeat
// it fills in the result of the earlier message.
func (q topicQueue) repeated(t *tx, m *message, delayed bool, r *duly.PublishResult) (bool, error) {
	if q.log.cfg.Dedupe != duly.None {
		if seen, err := q.seen(t, m.id, r); err != nil || seen {
			return seen, err
		}
	}
	if !delayed || q.log.n.delayed == 0 {
		return false, nil
	}
	first, err := q.findDelayed(t, m.key, m.id)
	if err != nil || first == nil {
		return false, err
	}
	q.log.n.existing++
	r.Status = duly.Exists
	return true, nil
}
