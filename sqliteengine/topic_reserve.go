package sqliteengine

import (
	"crypto/rand"
	"encoding/binary"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

// A Reserve from a group takes ready messages, as from a queue, and new ones from the
// log. Calls in one transaction share the messages that are read from the log and the
// statements that store the leases.

// newToken draws the token of a Reserve: 2 to 2⁶³−1, so that column ended is never 0.
func newToken() uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails, see crypto/rand
	return max(2, binary.BigEndian.Uint64(b[:])>>1)
}

// fresh is a message of the log beyond the cursor.
type fresh struct {
	ordinal, ms int64
	message
}

// news has a group's new messages, shared by the calls of a transaction.
type news struct {
	all  []fresh // in log order
	next int     // the first of them that the cursor has not passed
	held []heldNew
	keys map[string]bool // the order keys of held
}

// heldNew is a new message that was handed out and is not stored as held yet.
type heldNew struct {
	number  duly.Number
	end, ms int64
	ended   uint64
	rules   []byte
}

// lag returns the number of messages beyond the cursor.
func (q *queue) lag(topic *queue) int64 { return topic.log.n.last - q.group.n.cursor }

// heldRoom returns how many more messages the group may hold.
func (q *queue) heldRoom() int64 { return max(0, int64(q.cfg.Group.MaxHeld)-q.held()) }

// fromGroup takes up to n messages of a group. Ready messages come first. While there are
// new messages, ready ones get at most half of n, new ones come next, and ready ones fill
// the rest.
func (r *reserve) fromGroup(t *tx, s *supply, n int) error {
	q, end := s.q, len(r.got)+n
	topic := t.topicOf(q)
	if topic == nil {
		return duly.NoTopic(q.group.topic)
	}
	if q.lag(topic) > 0 && q.heldRoom() > 0 {
		if err := r.fromReady(t, s, (n+1)/2); err != nil {
			return err
		}
		if err := r.fromLog(t, s, topic, end-len(r.got)); err != nil {
			return err
		}
	}
	return r.fromReady(t, s, end-len(r.got))
}

// fromLog moves the cursor until n new messages are leased. It passes over at most 1000
// messages and some 8 MiB: the other calls wait for its transaction.
func (r *reserve) fromLog(t *tx, s *supply, topic *queue, n int) error {
	g := s.q.group
	for passed, bytes := 0, 0; n > 0 && !r.full && s.q.heldRoom() > 0; {
		m, err := s.newMessage(t, topic, n)
		if err != nil || m == nil {
			return err
		}
		if r.full = len(r.got) > 0 && r.bytes+len(m.body) > duly.MaxBatchBytes; r.full {
			return nil
		}
		if passed == duly.MaxPassed || bytes > duly.MaxBatchBytes {
			r.more = true
			return nil
		}

		g.n.missed += m.ordinal - g.n.cursor - 1 // deleted by another program
		g.n.cursor = m.ordinal
		s.news.next++
		leased, err := r.takeNew(t, s, topic, m)
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

// newMessage returns the first message beyond the cursor, nil for none. It reads ahead
// for a call that may take n.
func (s *supply) newMessage(t *tx, topic *queue, n int) (*fresh, error) {
	w, g := &s.news, s.q.group
	if w.next == len(w.all) && s.q.lag(topic) > 0 {
		limit := min(max(n, t.wanted(s.q.ref)), duly.MaxBatch)
		if err := w.read(t, topic, g.n.cursor+1, limit); err != nil {
			return nil, err
		}
		if len(w.all) == 0 { // another program has deleted the messages
			g.n.missed += s.q.lag(topic)
			g.n.cursor = topic.log.n.last
		}
	}
	if w.next == len(w.all) {
		return nil, nil
	}
	return &w.all[w.next], nil
}

// read reads messages of the log, up to the bound on the bodies of one call.
func (w *news) read(t *tx, topic *queue, from int64, limit int) error {
	if err := t.flushMessages(); err != nil {
		return err
	}

	clear(w.all) // they hold bodies
	w.all, w.next = w.all[:0], 0
	s := t.stmt("messages_from").Int(1, topic.id).Int(2, from).Int(3, int64(limit))
	for bytes := 0; ; {
		row, err := s.Step()
		if err != nil || !row {
			return err
		}
		m := fresh{ordinal: s.ColInt(0), ms: s.ColInt(1)}
		m.key, m.headers, m.body = s.ColText(3), s.ColBytes(4), s.ColBytes(5)
		w.all = append(w.all, m)
		if bytes += len(m.body); bytes > duly.MaxBatchBytes {
			s.Reset()
			return nil
		}
	}
}

// takeNew hands out a new message, unless the filter excludes it or its key is busy.
func (r *reserve) takeNew(t *tx, s *supply, topic *queue, m *fresh) (leased bool, err error) {
	q := s.q
	headers := unpackHeaders(m.headers)
	if !duly.Matches(q.group.conditions, m.key, headers) {
		q.group.n.filtered++
		return false, nil
	}

	j := &job{q: q, number: topic.log.position(m.ordinal, m.ms), pointer: true}
	j.Namespace, j.Queue, j.TTL, j.Retain = q.ref.Namespace, q.ref.Name, duly.None, duly.None
	j.OrderKey, j.Headers, j.Body, j.hasBody = m.key, headers, m.body, true
	j.PushedAt, j.DueAt = m.ms, m.ms
	j.asMessage(nil)
	if free, err := r.lockNew(t, s, j); err != nil || !free {
		return false, err
	}

	w := &s.news
	j.ended, j.state, j.leaseEnd = r.fence()-1, duly.StateLeased, t.leaseEnd(j, r.p.Lease)
	w.held = append(w.held, heldNew{j.number, j.leaseEnd, m.ms, j.ended, j.packMessage()})
	q.group.holds(j.number)
	q.moved(duly.StateNone, duly.StateLeased)
	note(&q.first.leaseEnd, j.leaseEnd)
	q.delivered(t.now)
	r.add(j, t.now, len(w.all)-w.next+1)
	if len(w.held) == widths[0] {
		err = s.flushNews(t)
	}
	return true, err
}

// lockNew takes the order key of a new message. If the key is busy, the message is
// stored as blocked.
func (r *reserve) lockNew(t *tx, s *supply, j *job) (free bool, err error) {
	key, w := j.lockKey(), &s.news
	if key == "" {
		return true, nil
	}

	if w.keys[key] { // its holder must be found
		if err := s.flushNews(t); err != nil {
			return false, err
		}
	}

	if j.state, err = t.readyOrBlocked(j); err != nil {
		return false, err
	}
	if j.state == duly.StateBlocked {
		return false, t.put(j)
	}
	if w.keys == nil {
		w.keys = map[string]bool{}
	}

	w.keys[key] = true
	return true, nil
}

// fence returns the token of this Reserve.
func (r *reserve) fence() uint64 {
	if r.token == 0 {
		r.token = newToken()
	}
	return r.token
}

// flushNews stores the new messages of heldNew.
func (s *supply) flushNews(t *tx) error {
	w := &s.news
	for rest := w.held; len(rest) > 0; {
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
	w.held = w.held[:0]
	clear(w.keys)
	return nil
}

// leaseEnd returns the end of a lease that begins now. A lease of 0 means the job's own.
func (t *tx) leaseEnd(j *job, lease time.Duration) int64 {
	if lease == 0 {
		lease = j.Lease
	}
	return clock.CeilMilli(t.t.Add(lease))
}

// unread counts the new messages that a Reserve would find, up to most: messages beyond
// the cursor, and delayed messages that are due.
func (t *tx) unread(q *queue, most int) (int64, error) {
	topic := t.topicOf(q)
	if topic == nil {
		return 0, nil
	}
	n := q.lag(topic)
	if topic.first.due <= t.now {
		due, err := t.count(t.stmt("delayed_count").Int(1, topic.id).Int(2, t.now).Int(3, countBound))
		if err != nil {
			return 0, err
		}
		n += due
	}
	if n == 0 || q.plainGroup() {
		return min(n, q.heldRoom()), nil
	}
	return t.unreadOf(q, topic, most)
}

// plainGroup reports whether a Reserve finds every new message, because the group has
// neither filter nor order.
func (q *queue) plainGroup() bool {
	return len(q.group.conditions) == 0 && q.cfg.Group.Order != duly.OrderKeys
}

// unreadOf counts for a group with a filter or an order, by the messages themselves. It
// reads as far as a Reserve does in one step. Messages that the filter passes over count
// as one: until a Reserve has passed them the log keeps them, and a full topic could not
// take the message that the group waits for.
func (t *tx) unreadOf(q, topic *queue, most int) (n int64, err error) {
	if err := t.flushMessages(); err != nil {
		return 0, err
	}

	room, seen, filtered, busy := q.heldRoom(), 0, false, map[string]bool{}
	if room == 0 {
		return 0, nil
	}
	look := func(key string, headers []byte) error {
		if seen++; n >= int64(most) || room == 0 {
			return nil
		}
		if !duly.Matches(q.group.conditions, key, unpackHeaders(headers)) {
			filtered = true
			return nil
		}
		room--
		if q.cfg.Group.Order == duly.OrderKeys && key != "" {
			_, held, err := t.head(q, key)
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
		return 1, nil // there may be more behind: a Reserve will find out
	}
	return n, nil
}

// groupNamed returns the group with that name, nil if there is none and for a queue.
func (t *tx) groupNamed(ref duly.QueueRef) *queue {
	if !ref.IsGroup() {
		return nil
	}
	if q := t.queue(ref); q != nil && q.group != nil {
		return q
	}
	return nil
}
