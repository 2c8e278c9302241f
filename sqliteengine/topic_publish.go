package sqliteengine

import (
	"bytes"
	"context"
	"slices"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/batch"
	"github.com/dulymq/duly/internal/clock"
)

var _ contract.Topics = (*Engine)(nil)

// Publish implements contract.Topics. Like Push, it validates everything that does not depend
// on the topic on the caller's goroutine.
func (e *Engine) Publish(ctx context.Context, messages []duly.Message) ([]duly.PublishResult, error) {
	size := contract.MessageBytes(messages)
	if err := contract.CheckBatch(len(messages), size); err != nil {
		return nil, err
	}
	if len(messages) == 0 {
		return []duly.PublishResult{}, e.checkOpen(ctx)
	}

	p := &publishCall{items: make([]publishItem, len(messages)), results: make([]duly.PublishResult, len(messages))}
	p.validate(e, messages, mayReturnEarly(ctx))
	for {
		if err := e.write(ctx, &op{Call: batch.Call{Items: len(messages), Bytes: size}, run: p.run, kind: opPush,
			space: spaceLarge}); err != nil {
			return nil, err
		}
		if !p.more {
			return p.results, nil
		}
	}
}

// publishCall is one call of Publish.
type publishCall struct {
	items   []publishItem
	results []duly.PublishResult
	more    bool // a topic needs another step before the call publishes
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
	headers []byte // packed; nil for none
	body    []byte
}

// messageOverhead is the engine's estimate of the size of a message without its texts.
const messageOverhead = 64

// size returns the engine's estimate of the stored size of the message.
func (m *message) size() int64 {
	n := messageOverhead + len(m.id) + len(m.key) + len(m.body)
	for name, value := range unpackHeaders(m.headers) {
		n += len(name) + len(value)
	}
	return int64(n)
}

func (p *publishCall) validate(e *Engine, messages []duly.Message, copyBodies bool) {
	now := e.cfg.Clock.Now()
	for i := range messages {
		m, item := &messages[i], &p.items[i]
		p.results[i].ID = m.ID
		if item.err = contract.ValidateMessage(m, e.cfg.MaxBody); item.err == nil {
			var planned duly.Message
			planned, item.due, item.err = contract.PlanMessage(*m, now)
			item.ref = duly.QueueRef{Namespace: planned.Namespace, Name: planned.Topic}
			item.message = message{id: m.ID, key: m.Key, headers: packHeaders(planned.Headers), body: m.Body}
			if copyBodies {
				item.body = bytes.Clone(m.Body)
			}
		}
		p.results[i].Err = item.err
	}
}

// run publishes the messages in their order. It may run more than once. If a step does not
// bring a topic within its bounds, run publishes nothing and sets more: Publish then
// repeats it in another transaction, so that other calls come between.
func (p *publishCall) run(t *tx) error {
	topics, more, err := p.stepTopics(t)
	if p.more = more; err != nil || more {
		return err
	}

	var q *queue
	for i := range p.items {
		item := &p.items[i]
		if item.err != nil {
			continue
		}
		if q == nil || q.ref != item.ref {
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
		if err := t.publishOne(q, item, &p.results[i]); err != nil {
			return err
		}
	}

	for _, q := range topics {
		if _, err := t.floor(q); err != nil { // records which group now holds it
			return err
		}
	}
	return nil
}

// stepTopics steps the topics of the call that exist, before the call publishes. A step
// between its messages could delete messages that the call has just added and no group
// needs. more reports that a topic is still over max_count or max_bytes.
func (p *publishCall) stepTopics(t *tx) (topics []*queue, more bool, err error) {
	var ref duly.QueueRef
	for i := range p.items {
		item := &p.items[i]
		if item.err != nil || item.ref == ref {
			continue
		}
		ref = item.ref
		q := t.queue(ref)
		if q == nil || q.kind != kindTopic || slices.Contains(topics, q) {
			continue
		}
		topics = append(topics, q)

		if _, err := t.stepTopic(q); err != nil {
			return nil, false, err
		}
		last, err := t.overflow(q, 0, 0)
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

// dropAhead drops messages in advance if max_count drops large messages for the call's
// small ones: the call publishes in one transaction, which may delete 8 MiB. more reports
// that the transaction has reached that bound.
func (p *publishCall) dropAhead(t *tx, q *queue) (more bool, err error) {
	n := &q.log.n
	room := max(0, duly.MaxBatchBytes-t.trimmedBytes)
	if q.log.cfg.MaxCount == duly.None || n.delayed >= int64(q.log.cfg.MaxCount) || n.bytes() <= room {
		return false, nil
	}

	crowd := func(messages int64) (last, size int64, err error) {
		if last, err = t.overflow(q, messages, 0); err != nil || last < n.first {
			return last, 0, err
		}
		until, err := t.enteredUntil(q, last)
		return last, until - n.goneBytes, err
	}
	if _, size, err := crowd(int64(len(p.items))); err != nil || size <= room {
		return false, err
	}
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
	full, err := t.firstAtSize(q, n.goneBytes+room)
	if err != nil {
		return false, err
	}
	return true, t.drop(q, min(last, full))
}

// countFresh counts the messages of the call that a topic does not know and has room for.
func (p *publishCall) countFresh(t *tx, q *queue) (n int64, err error) {
	cfg, ids := &q.log.cfg, map[string]bool{}
	for i := range p.items {
		item := &p.items[i]
		m, delayed := &item.message, item.due > t.now
		if item.err != nil || item.ref != q.ref || cfg.MaxBytes != duly.None && m.size() > cfg.MaxBytes-q.log.n.delayedBytes {
			continue
		}
		if m.id != "" && (cfg.Dedupe != duly.None || delayed) {
			// repeated counts what it finds, and publishOne asks it again.
			existing := q.log.n.existing
			repeated, err := t.repeated(q, m, delayed, &duly.PublishResult{})
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
func (t *tx) publishOne(q *queue, p *publishItem, r *duly.PublishResult) error {
	l, m := q.log, p.message
	delayed := p.due > t.now
	*r = duly.PublishResult{ID: m.id, Status: duly.Created}
	if m.id != "" {
		if repeated, err := t.repeated(q, &m, delayed, r); err != nil || repeated {
			return err
		}
	} else if delayed {
		m.id = duly.NewNumber().String()
		r.ID = m.id
	}
	if full, err := t.makeRoom(q, &m); err != nil || full != nil {
		if full != nil {
			*r = duly.PublishResult{ID: p.id, Err: full}
		}
		return err
	}

	l.n.published++
	if delayed {
		return t.delay(q, &m, p.due)
	}
	ordinal, err := t.enterLog(q, &m)
	if err != nil {
		return err
	}
	r.Position = l.position(ordinal, l.n.lastMs)
	return t.remember(q, m.id, ordinal, l.n.lastMs)
}

// repeated reports whether m repeats a message: one with its ID within the window of
// dedupe, or, if m is delayed, a delayed message with its key and ID. It then fills in
// the result of the first message.
func (t *tx) repeated(q *queue, m *message, delayed bool, r *duly.PublishResult) (bool, error) {
	if q.log.cfg.Dedupe != duly.None {
		if seen, err := t.seen(q, m.id, r); err != nil || seen {
			return seen, err
		}
	}
	if !delayed || q.log.n.delayed == 0 {
		return false, nil
	}
	first, err := t.findDelayed(q, m.key, m.id)
	if err != nil || first == nil {
		return false, err
	}
	q.log.n.existing++
	r.Status = duly.Exists
	return true, nil
}

// appended is a message to be stored in the log together with others.
type appended struct {
	topic, ordinal, ms, entered int64
	message
}

// enterLog appends a message to the log and returns its ordinal. Entry times never fall,
// even if the clock was set back.
func (t *tx) enterLog(q *queue, m *message) (ordinal int64, err error) {
	n := &q.log.n
	n.last++
	n.lastMs = max(n.lastMs, t.now)
	n.enteredBytes += m.size()
	t.appended = append(t.appended, appended{q.id, n.last, n.lastMs, n.enteredBytes, *m})
	if len(t.appended) == widths[0] {
		err = t.flushMessages()
	}
	return n.last, err
}

// flushMessages stores the appended messages.
func (t *tx) flushMessages() error {
	for rest := t.appended; len(rest) > 0; {
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
	clear(t.appended) // they hold bodies
	t.appended = t.appended[:0]
	return nil
}

// seen reports whether a topic has seen an ID within its window, and fills in the
// result of the first Publish.
func (t *tx) seen(q *queue, id string, r *duly.PublishResult) (bool, error) {
	s := t.stmt("seen_find").Int(1, q.id).Text(2, id)
	row, err := s.Step()
	if err != nil || !row {
		return false, err
	}
	at, ordinal, ms := s.ColInt(0), s.ColInt(1), s.ColInt(2)
	s.Reset()
	if past(at+clock.Millis(q.log.cfg.Dedupe), t.now) {
		return false, nil
	}
	q.log.n.existing++
	if r.Status = duly.Exists; ordinal > 0 {
		r.Position = q.log.position(ordinal, ms)
	}
	return true, nil
}

// remember stores the ID of a new message, if the topic compares IDs. ordinal is minus the
// seq of a delayed message.
func (t *tx) remember(q *queue, id string, ordinal, ms int64) error {
	n := &q.log.n
	if id == "" || q.log.cfg.Dedupe == duly.None {
		return nil
	}
	dropped, err := t.stmt("seen_drop").Int(1, q.id).Text(2, id).Run() // an ID whose window has ended
	if err != nil {
		return err
	}
	n.ids += 1 - int64(dropped)
	if _, err := t.stmt("seen_add").Int(1, q.id).Text(2, id).Int(3, t.now).Int(4, ordinal).Int(5,
		ms).Run(); err != nil {
		return err
	}
	return t.forgetIDs(q, clock.Millis(q.log.cfg.Dedupe))
}

// forgetOldIDs drops IDs whose window ended a day ago, in a topic that gets no new IDs.
// The day allows for a clock that is set back and for a longer window.
func (t *tx) forgetOldIDs(q *queue) error {
	return t.forgetIDs(q, clock.Millis(max(q.log.cfg.Dedupe, 0)+duly.MaxDedupe))
}

// forgetIDs drops the oldest IDs, up to a bound: IDs whose window has ended, and IDs
// over the maximum number.
func (t *tx) forgetIDs(q *queue, window int64) error {
	n := &q.log.n
	if n.ids == 0 {
		return nil
	}
	old, err := t.oldIDs(q, window)
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

// oldIDs lists the IDs to drop, and counts the ones whose window has not ended.
func (t *tx) oldIDs(q *queue, window int64) (ids []string, err error) {
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

// maxIDs is a variable only for tests.
var maxIDs int64 = duly.MaxIDs

// packHeaders packs the headers of a message; nil for none.
func packHeaders(h map[string]string) []byte {
	if len(h) == 0 {
		return nil
	}
	w := packer(make([]byte, 0, 64))
	w.headers(h)
	return w
}

// unpackHeaders reverses packHeaders. It returns no headers if they are damaged, so that
// the message is still delivered.
func unpackHeaders(b []byte) map[string]string {
	if b == nil {
		return nil
	}
	r := &unpacker{rest: b}
	h := r.headers()
	if r.bad || len(r.rest) > 0 {
		return nil
	}
	return h
}
