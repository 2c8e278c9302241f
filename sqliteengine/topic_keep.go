package sqliteengine

import (
	"slices"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/sqliteengine/internal/sq"
)

// Retention of a log. The floor is the first message that some group needs. A step
// trims messages before the floor and drops messages that exceed a bound. It only
// deletes the beginning of the log, which is one range of a primary key.

// stepTopic moves a topic forward to now: due messages enter the log, and messages that
// are not kept are deleted. more reports that it stopped at a bound.
func (t *tx) stepTopic(q *queue) (more bool, err error) {
	if more, err = t.enterDue(q); err != nil {
		return false, err
	}
	if err := t.forgetOldIDs(q); err != nil {
		return false, err
	}
	again, err := t.trimLog(q)
	return more || again, err
}

// topicOverdue reports whether a topic may need a step although no call and no timer
// steps it.
func (t *tx) topicOverdue(q *queue) bool {
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

// trimLog deletes the beginning of a log: messages that no group needs, and messages over
// max_age, max_count and max_bytes. It ends early after MaxTrimmed messages, and
// once its transaction has deleted about 8 MiB, because other calls wait for it.
func (t *tx) trimLog(q *queue) (more bool, err error) {
	l := q.log
	if err := t.flushMessages(); err != nil {
		return false, err
	}
	for left := int64(duly.MaxTrimmed); ; {
		last, counter, err := t.nextToDelete(q)
		n := last - l.n.first + 1
		if err != nil || n <= 0 {
			return false, err
		}
		if left == 0 || t.trimmedBytes >= duly.MaxBatchBytes {
			return true, nil
		}

		last = min(last, l.n.first+left-1)
		if room := duly.MaxBatchBytes - t.trimmedBytes; l.n.bytes() > room {
			full, err := t.firstAtSize(q, l.n.goneBytes+room)
			if err != nil {
				return false, err
			}
			last = min(last, full)
		}

		first, gone := l.n.first, l.n.goneBytes
		if err := t.deleteUntil(q, last, counter); err != nil {
			return false, err
		}
		left -= l.n.first - first
		t.trimmedBytes += l.n.goneBytes - gone
	}
}

// nextToDelete returns how far the log can be deleted for one reason, and the counter of
// that reason.
func (t *tx) nextToDelete(q *queue) (last int64, counter *int64, err error) {
	n := &q.log.n
	if last, err = t.unneeded(q); err != nil || last >= n.first {
		return last, &n.trimmed, err
	}
	if last, err = t.overBounds(q); err != nil || last < n.first {
		return last, &n.dropped, err
	}
	// Messages up to the floor are dropped as one range, and so are messages beyond every
	// cursor. In between, unneeded messages follow held ones.
	floor, err := t.floor(q)
	if floor > n.first {
		last = min(last, floor-1)
	} else if t.isHeld(q, floor) {
		last = floor
	}
	return last, &n.dropped, err
}

// isHeld reports whether a message is needed only because groups hold it.
func (t *tx) isHeld(q *queue, ordinal int64) bool {
	for _, ref := range q.log.groups {
		if g := t.peek(ref); g != nil && !g.isParked(t.now) && g.group.n.cursor < ordinal {
			return false
		}
	}
	return true
}

// voids reports whether a trim of a topic may void receipts: it has a bound, or a group
// that may be parked.
func (t *tx) voids(topic duly.QueueRef) bool {
	q := t.peek(topic)
	if q == nil || q.log == nil {
		return false
	}
	c := &q.log.cfg
	return c.MaxAge != duly.None || c.MaxCount != duly.None || c.MaxBytes != duly.None ||
		slices.ContainsFunc(q.log.groups, func(ref duly.QueueRef) bool {
			g := t.peek(ref)
			return g != nil && g.cfg.Group.Idle != duly.None
		})
}

// unneeded returns the last message that no group needs.
func (t *tx) unneeded(q *queue) (int64, error) {
	l := q.log
	if len(l.groups) == 0 {
		return 0, nil
	}
	floor, err := t.floor(q)
	if err != nil || floor <= l.n.first || l.cfg.Keep == duly.None {
		return floor - 1, err
	}
	kept, err := t.firstSince(q, t.now-clock.Millis(l.cfg.Keep))
	return min(floor, kept.ordinal) - 1, err
}

// overBounds returns the last message that a bound drops.
func (t *tx) overBounds(q *queue) (last int64, err error) {
	l := q.log
	if l.n.messages() == 0 {
		return 0, nil
	}
	if l.cfg.MaxAge != duly.None {
		young, err := t.firstSince(q, t.now-clock.Millis(l.cfg.MaxAge))
		if err != nil {
			return 0, err
		}
		last = young.ordinal - 1
	}
	crowd, err := t.overflow(q, 0, 0)
	return max(last, crowd), err
}

// overflow returns the last message that max_count and max_bytes drop to make room for that
// many additional messages and bytes. With overflow refuse no group needs that message.
func (t *tx) overflow(q *queue, messages, bytes int64) (last int64, err error) {
	l, n := q.log, &q.log.n
	if l.cfg.MaxCount != duly.None {
		over := n.messages() + n.delayed + messages - int64(l.cfg.MaxCount)
		last = n.first - 1 + min(max(over, 0), n.messages())
	}

	if l.cfg.MaxBytes != duly.None {
		if over := n.bytes() + n.delayedBytes + bytes - l.cfg.MaxBytes; over > 0 {
			p, err := t.firstAtSize(q, n.goneBytes+over)
			if err != nil {
				return 0, err
			}
			last = max(last, p)
		}
	}

	if last < n.first || l.cfg.Overflow == duly.OverflowDrop {
		return last, nil
	}

	floor, err := t.floor(q)
	return min(last, floor-1), err
}

// firstAtSize finds the first message up to which the log has a size. The size rises
// with the ordinals, so this is a binary search.
func (t *tx) firstAtSize(q *queue, size int64) (int64, error) {
	low, high := q.log.n.first, q.log.n.last
	for low < high {
		middle := low + (high-low)/2
		p, err := t.messageAt(q, middle)
		if err != nil {
			return 0, err
		}
		if p.ordinal <= q.log.n.last && p.entered < size {
			low = p.ordinal + 1
		} else {
			high = middle
		}
	}
	return low, nil
}

// makeRoom drops messages by max_count and max_bytes until m fits. It returns ErrFull
// if it may not drop enough.
func (t *tx) makeRoom(q *queue, m *message) (full, err error) {
	l, n := q.log, &q.log.n
	if l.cfg.MaxCount == duly.None && l.cfg.MaxBytes == duly.None {
		return nil, nil
	}
	if err := t.flushMessages(); err != nil {
		return nil, err
	}

	last, err := t.overflow(q, 1, m.size())
	if err != nil {
		return nil, err
	}

	gone, goneBytes := max(0, last-n.first+1), int64(0)
	if gone > 0 {
		until, err := t.enteredUntil(q, last)
		if err != nil {
			return nil, err
		}
		goneBytes = until - n.goneBytes
	}

	switch {
	case l.cfg.MaxCount != duly.None && n.messages()-gone+n.delayed >= int64(l.cfg.MaxCount):
		return contract.TopicFull(q.ref, "max_count", int64(l.cfg.MaxCount)), nil
	case l.cfg.MaxBytes != duly.None && n.bytes()-goneBytes+n.delayedBytes+m.size() > l.cfg.MaxBytes:
		return contract.TopicFull(q.ref, "max_bytes", l.cfg.MaxBytes), nil
	case gone > 0:
		return nil, t.drop(q, last)
	}
	return nil, nil
}

// drop drops the beginning of a log by a bound.
func (t *tx) drop(q *queue, last int64) error {
	gone := q.log.n.goneBytes
	err := t.deleteUntil(q, last, &q.log.n.dropped)
	t.trimmedBytes += q.log.n.goneBytes - gone
	return err
}

func (t *tx) enteredUntil(q *queue, ordinal int64) (int64, error) {
	size, ok, err := t.integer(t.stmt("entered_until").Int(1, q.id).Int(2, ordinal))
	if !ok {
		size = q.log.n.goneBytes
	}
	return size, err
}

// deleteUntil deletes the beginning of a log. Groups that needed some of these messages
// count them as missed.
func (t *tx) deleteUntil(q *queue, last int64, counter *int64) error {
	n := &q.log.n
	from, err := t.messageAt(q, n.first)
	if err != nil {
		return err
	}
	to, err := t.messageAt(q, last+1)
	if err != nil {
		return err
	}
	size, err := t.enteredUntil(q, last)
	if err != nil {
		return err
	}
	if _, err := t.stmt("messages_drop").Int(1, q.id).Int(2, last).Run(); err != nil {
		return err
	}
	first := n.first
	*counter += last - first + 1
	n.first, n.goneBytes = last+1, size

	for _, ref := range q.log.groups {
		g := t.peek(ref)
		if g == nil || g.group.floor() > last {
			continue
		}
		g = t.queue(ref)
		held, err := t.heldBetween(q, g, from, to)
		if err != nil {
			return err
		}
		if err := t.miss(g, held, first, last); err != nil {
			return err
		}
	}
	return nil
}

// floor returns the first message of a topic that some group needs. If no group needs
// one, it returns the ordinal after the last message.
func (t *tx) floor(q *queue) (int64, error) {
	for {
		floor, lowest := q.log.n.last+1, (*queue)(nil)
		for _, ref := range q.log.groups {
			g := t.peek(ref)
			if g == nil || g.isParked(t.now) {
				continue
			}
			if needs := g.group.floor(); needs < floor {
				floor, lowest = needs, g
			}
		}

		if lowest == nil || !lowest.group.stale {
			q.log.noteHolder(lowest, t.now)
			return floor, nil
		}
		if err := t.readHeld(q, t.queue(lowest.ref)); err != nil {
			return 0, err
		}
	}
}

// noteHolder records the group at the floor, nil for none.
func (l *topicLog) noteHolder(g *queue, now int64) {
	var ref duly.QueueRef
	if g != nil {
		ref = g.ref
	}
	if l.floor.group != ref {
		l.floor = heldFloor{ref, now}
	}
}

// floor returns the first message that the group needs. It may be stale.
func (g *groupState) floor() int64 { return min(g.held, g.n.cursor+1) }

// readHeld reads the first message of the log that a group holds, from the known lower
// bound on.
func (t *tx) readHeld(topic, g *queue) error {
	if err := t.flushMessages(); err != nil {
		return err
	}
	from, err := t.messageAt(topic, max(topic.log.n.first, min(g.group.held, topic.log.n.last+1)))
	if err != nil {
		return err
	}
	first, err := t.firstHeld(topic, g, from)
	g.group.held, g.group.stale = first, false
	return err
}

// firstHeld finds the first message of the log that a group holds, from a place on. It
// skips requeued copies, which need no message of the log. Dead copies come last.
func (t *tx) firstHeld(topic, g *queue, from logPlace) (int64, error) {
	number := topic.log.position(from.ordinal, from.ms)
	s := t.stmt("held_from").Int(1, g.id).Blob(2, number[:])
	defer s.Reset()
	for {
		row, err := s.Step()
		if err != nil || !row {
			return never, err
		}
		held := numberAt(s, 0)
		if isCopy(held) {
			return never, nil
		}
		if !packedCopy(s.ColRaw(1)) {
			return int64(contract.PositionPartsOf(held).Ordinal), nil
		}
	}
}

// miss counts the deleted messages between two ordinals as missed by a group.
func (t *tx) miss(g *queue, held []duly.Number, first, last int64) error {
	n := &g.group.n
	missed := max(0, last-n.cursor)
	n.cursor = max(n.cursor, last)
	for _, number := range held {
		// Freeing the key of an earlier message may have changed this one.
		j, err := t.byNumber(g, number)
		if err != nil {
			return err
		}
		if j == nil {
			continue
		}
		if err := t.remove(j); err != nil {
			return err
		}
		missed++
	}

	if n.missed += missed; missed > 0 {
		t.misses = append(t.misses, missedRange{group: g.ref, first: first, last: last, n: missed})
	}
	return nil
}

// heldBetween lists the messages that a group holds between two places of the log,
// without copies.
func (t *tx) heldBetween(topic, g *queue, from, to logPlace) (held []duly.Number, err error) {
	first, last := topic.log.position(from.ordinal, from.ms), topic.log.position(to.ordinal, to.ms)
	err = eachRow(t.stmt("held_between").Int(1, g.id).Blob(2, first[:]).Blob(3, last[:]), func(s *sq.Stmt) {
		if !packedCopy(s.ColRaw(1)) {
			held = append(held, numberAt(s, 0))
		}
	})
	return held, err
}

// isParked reports whether a group was idle for too long. It then needs no message.
func (q *queue) isParked(now int64) bool {
	idle := q.cfg.Group.Idle
	return idle != duly.None && past(q.group.called+clock.Millis(idle), now)
}

// missedRange is a range of messages that a group has missed, for logging.
type missedRange struct {
	group       duly.QueueRef
	first, last int64 // ordinals
	n           int64
	logged      int64 // when a range of the group was logged last
}

// missPause is the minimum time between two log lines about missed messages of a group.
const missPause = time.Minute

// logMisses logs the messages that groups have missed, at most once a minute for each
// group. The next line covers the messages missed in between.
func (w *writer) logMisses(t *tx) {
	for _, m := range t.misses {
		if w.misses == nil {
			w.misses = map[duly.QueueRef]missedRange{}
		}
		if before, ok := w.misses[m.group]; ok {
			m.logged = before.logged
			if before.n > 0 {
				m.first, m.n = min(m.first, before.first), m.n+before.n
			}
		}
		if m.logged == 0 || t.now >= m.logged+clock.Millis(missPause) {
			w.log.Warn("a group has missed messages, which a bound of its topic or idle has deleted",
				"group", m.group.String(), "first", m.first, "last", m.last, "messages", m.n)
			m.n, m.logged = 0, t.now
		}
		w.misses[m.group] = m
	}
}
