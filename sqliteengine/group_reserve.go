package sqliteengine

import (
	"crypto/rand"
	"encoding/binary"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/sqliteengine/internal/rules"
)

// A Reserve from a group returns ready messages, as from a queue, and new messages from the log.
// Calls in one transaction share the messages that are read from the log and the statements that
// store the leases.

// newToken draws the token of a Reserve: 2 to 2⁶³−1, so that column ended is never 0.
func newToken() uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails; see crypto/rand
	return max(2, binary.BigEndian.Uint64(b[:])>>1)
}

// logMessage is a message of the log beyond the cursor.
type logMessage struct {
	ordinal, ms int64
	message
}

// newMessages buffers a group's new messages for the calls of a transaction.
type newMessages struct {
	all    []logMessage // in log order
	next   int          // index of the first message beyond the cursor
	leased []leasedNew
	keys   map[string]bool // order keys of the held messages
}

// leasedNew is a new message that was leased and whose row is not stored yet.
type leasedNew struct {
	number  duly.Number
	end, ms int64
	ended   uint64
	rules   []byte
}

// fromGroup reserves up to n messages of a group. Ready messages come first. While there are new
// messages, ready messages get at most half of n. New messages come next, and further ready
// messages fill the rest.
func (r *reserveCall) fromGroup(t *tx, s *readyBuffer, n int) error {
	q, end := s.q.asGroup(), len(r.deliveries)+n
	topic := q.topic(t)
	if topic.missing() {
		return contract.NoTopic(q.group.topic)
	}
	// New messages must not starve because ready messages come back again and again.
	if q.lag(topic) > 0 && q.heldRoom() > 0 {
		if err := r.fromReady(t, s, (n+1)/2); err != nil {
			return err
		}
		if err := r.fromLog(t, s, topic, end-len(r.deliveries)); err != nil {
			return err
		}
	}
	return r.fromReady(t, s, end-len(r.deliveries))
}

// fromLog moves the cursor until n new messages are leased. It skips at most 1000 messages and
// about 8 MiB, because other calls wait for the end of its transaction.
func (r *reserveCall) fromLog(t *tx, s *readyBuffer, topic topicQueue, n int) error {
	g := s.q.asGroup()
	for passed, bytes := 0, 0; n > 0 && !r.full && g.heldRoom() > 0; {
		m, err := s.newMessage(t, topic, n)
		if err != nil || m == nil {
			return err
		}
		if r.full = len(r.deliveries) > 0 && r.bytes+len(m.body) > duly.MaxBatchBytes; r.full {
			return nil
		}
		// The call is repeated in another transaction and continues at the cursor.
		if passed == duly.MaxPassed || bytes > duly.MaxBatchBytes {
			r.more = true
			return nil
		}

		// Another program has made the gap in the ordinals.
		g.group.n.missed += m.ordinal - g.group.n.cursor - 1
		g.group.n.cursor = m.ordinal
		s.new.next++
		leased, err := r.leaseNew(t, s, topic, m)
		if err != nil {
			return err
		}
		if leased {
			n--
		} else {
			passed, bytes = passed+1, bytes+len(m.body)
		}
	}
	return nil
}

// newMessage returns the first message beyond the cursor, or nil if there is none. For a call that
// may take n messages, it reads that many in one query.
func (s *readyBuffer) newMessage(t *tx, topic topicQueue, n int) (*logMessage, error) {
	w, g := &s.new, s.q.asGroup()
	if w.next == len(w.all) && g.lag(topic) > 0 {
		// Later Reserves of the transaction use the same messages.
		limit := min(max(n, t.wanted(s.q.ref)), duly.MaxBatch)
		if err := w.read(t, topic, g.group.n.cursor+1, limit); err != nil {
			return nil, err
		}
		if len(w.all) == 0 { // another program has deleted the messages
			g.group.n.missed += g.lag(topic)
			g.group.n.cursor = topic.log.n.last
		}
	}
	if w.next == len(w.all) {
		return nil, nil
	}
	return &w.all[w.next], nil
}

// read reads messages of the log, up to the limit for the bodies of one call.
func (w *newMessages) read(t *tx, topic topicQueue, from int64, limit int) error {
	// Messages of this transaction are not in the table before the flush.
	if err := t.messages.flush(t); err != nil {
		return err
	}

	// The bodies can then be freed.
	clear(w.all)
	w.all, w.next = w.all[:0], 0
	s := t.stmt("messages_from").Int(1, topic.id).Int(2, from).Int(3, int64(limit))
	for bytes := 0; ; {
		row, err := s.Step()
		if err != nil || !row {
			return err
		}
		m := logMessage{ordinal: s.ColInt(0), ms: s.ColInt(1)}
		m.key, m.headers, m.body = s.ColText(3), s.ColBytes(4), s.ColBytes(5)
		w.all = append(w.all, m)
		// No call can return more bytes of bodies.
		if bytes += len(m.body); bytes > duly.MaxBatchBytes {
			s.Reset()
			return nil
		}
	}
}

// leaseNew leases a new message, unless the filter excludes it or its key is busy.
func (r *reserveCall) leaseNew(t *tx, s *readyBuffer, topic topicQueue, m *logMessage) (leased bool, err error) {
	q := s.q
	headers := rules.UnpackHeaders(m.headers)
	// The cursor has moved, so the message is skipped for good.
	if !contract.Matches(q.group.conditions, m.key, headers) {
		q.group.n.filtered++
		return false, nil
	}

	j := &job{q: q, number: topic.log.position(m.ordinal, m.ms), pointer: true}
	j.Namespace, j.Queue, j.TTL, j.Retain = q.ref.Namespace, q.ref.Name, duly.None, duly.None
	j.OrderKey, j.Headers, j.Body, j.hasBody = m.key, headers, m.body, true
	j.PushedAt, j.DueAt = m.ms, m.ms
	j.asMessage(nil)
	if free, err := r.lockKeyOfNew(t, s, j); err != nil || !free {
		return false, err
	}

	w := &s.new
	j.ended, j.state, j.leaseEnd = r.fence()-1, duly.StateLeased, j.newLeaseEnd(t, r.p.Lease)
	w.leased = append(w.leased, leasedNew{j.number, j.leaseEnd, m.ms, j.ended, j.packed()})
	q.group.noteHeld(j.number)
	q.noteDelivery(j.number, t.now)
	q.countMove(duly.StateNone, duly.StateLeased)
	lower(&q.earliest.leaseEnd, j.leaseEnd)
	r.deliver(j, t.now, len(w.all)-w.next+1)
	// A full statement is run at once, so that the batch stays small.
	if len(w.leased) == widths[0] {
		err = s.flushNew(t)
	}
	return true, err
}

// lockKeyOfNew takes the order key of a new message. If the key is busy, the message is
// stored as blocked.
func (r *reserveCall) lockKeyOfNew(t *tx, s *readyBuffer, j *job) (free bool, err error) {
	key, w := j.lockKey(), &s.new
	if key == "" {
		return true, nil
	}

	// readyOrBlocked must find the holder's row, which is not stored yet.
	if w.keys[key] {
		if err := s.flushNew(t); err != nil {
			return false, err
		}
	}

	if j.state, err = j.readyOrBlocked(t); err != nil {
		return false, err
	}
	if j.state == duly.StateBlocked {
		return false, j.put(t)
	}
	if w.keys == nil {
		w.keys = map[string]bool{}
	}

	w.keys[key] = true
	return true, nil
}

// fence returns the token of this Reserve.
func (r *reserveCall) fence() uint64 {
	if r.token == 0 {
		r.token = newToken()
	}
	return r.token
}

// flushNew stores the leased new messages.
func (s *readyBuffer) flushNew(t *tx) error {
	w := &s.new
	for rest := w.leased; len(rest) > 0; {
		n := width(len(rest))
		q := t.conn.many("hold_many", n)
		for k := range rest[:n] {
			h, i := &rest[k], 7*k
			q.Int(i+1, s.q.id).Blob(i+2, h.number[:]).Int(i+3, h.end).Int(i+4, h.ms).Int(i+5, h.ms)
			q.Int(i+6, int64(h.ended)).BlobOrNull(i+7, h.rules)
		}
		if _, err := q.Run(); err != nil {
			return err
		}
		rest = rest[n:]
	}

	w.leased = w.leased[:0]
	clear(w.keys)
	// The rows are stored now, so lookups find the keys without this map.
	return nil
}

// unread counts the new messages that a Reserve would find, up to most. They are the messages
// beyond the cursor, and the delayed messages that are due.
func (q groupQueue) unread(t *tx, most int) (int64, error) {
	topic := q.topic(t)
	if topic.missing() {
		return 0, nil
	}
	n := q.lag(topic)
	// Due messages enter the log at the next step, so they count as well.
	if topic.earliest.due <= t.now {
		due, err := t.count(t.stmt("delayed_count").Int(1, topic.id).Int(2, t.now).Int(3, countBound))
		if err != nil {
			return 0, err
		}
		n += due
	}
	if n == 0 || q.plainGroup() {
		return min(n, q.heldRoom()), nil
	}
	return q.unreadOf(t, topic, most)
}

// unreadOf counts the new messages of a group with a filter or an order by reading them. It reads
// as many messages as a Reserve does in one step. Messages that the filter excludes count as one
// message: the log keeps them until a Reserve has skipped them, and a full topic could not store
// the message that the group waits for.
func (q groupQueue) unreadOf(t *tx, topic topicQueue, most int) (n int64, err error) {
	if err := t.messages.flush(t); err != nil {
		return 0, err
	}

	room, seen, filtered, busy := q.heldRoom(), 0, false, map[string]bool{}
	if room == 0 {
		return 0, nil
	}
	// Messages over the limits are counted only in seen, because they can't be delivered now.
	look := func(key string, headers []byte) error {
		if seen++; n >= int64(most) || room == 0 {
			return nil
		}
		if !contract.Matches(q.group.conditions, key, rules.UnpackHeaders(headers)) {
			filtered = true
			return nil
		}
		room--
		if q.cfg.Group.Order == duly.OrderKeys && key != "" {
			// Of all messages with one key, only the first is deliverable.
			_, held, err := q.keyHolder(t, key)
			if err != nil || held || busy[key] {
				return err
			}
			busy[key] = true
		}
		n++
		return nil
	}

	for _, name := range []string{"keys_from", "delayed_keys"} {
		s := t.stmt(name).Int(1, topic.id).Int(3, duly.MaxPassed)
		if s.Int(2, q.group.n.cursor+1); name == "delayed_keys" {
			s.Int(2, t.now)
		}
		for {
			row, err := s.Step()
			if err != nil {
				return 0, err
			}
			if !row {
				break
			}
			if err := look(s.ColText(0), s.ColRaw(1)); err != nil {
				return 0, err
			}
		}
	}

	if n == 0 && (filtered || seen >= duly.MaxPassed) {
		// More messages may follow. Only a Reserve can find out, because it moves the cursor.
		return 1, nil
	}
	return n, nil
}
