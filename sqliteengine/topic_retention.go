package sqliteengine

import (
	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/sqliteengine/internal/rules"
	"github.com/dulymq/duly/sqliteengine/internal/sqliteconn"
)

// This file has the retention of a log. The floor is the first message that some group needs. A
// step deletes messages before the floor, and drops messages that exceed a limit. It only deletes
// the beginning of the log, which is one range of a primary key.

// trimLog deletes the beginning of a log: messages that no group needs, and messages over max_age,
// max_count and max_bytes. It ends early after MaxTrimmed messages, and once its transaction has
// deleted about 8 MiB, because other calls wait for the end of that transaction.
func (q topicQueue) trimLog(t *tx) (more bool, err error) {
	l := q.log
	// The messages of this transaction must be in the table, because the deletion would otherwise
	// miss them.
	if err := t.messages.flush(t); err != nil {
		return false, err
	}
	for left := int64(duly.MaxTrimmed); ; {
		last, counter, err := q.nextToDelete(t)
		n := last - l.n.first + 1
		if err != nil || n <= 0 {
			return false, err
		}
		if left == 0 || t.trimmedBytes >= duly.MaxBatchBytes {
			return true, nil
		}

		// The bounds cut the range, so that no transaction takes long.
		last = min(last, l.n.first+left-1)
		if room := duly.MaxBatchBytes - t.trimmedBytes; l.n.bytes() > room {
			full, err := q.firstAtSize(t, l.n.goneBytes+room)
			if err != nil {
				return false, err
			}
			last = min(last, full)
		}

		first, gone := l.n.first, l.n.goneBytes
		if err := q.deleteUntil(t, last, counter); err != nil {
			return false, err
		}
		left -= l.n.first - first
		t.trimmedBytes += l.n.goneBytes - gone
	}
}

// nextToDelete returns how far the log can be deleted for one reason, and the counter of
// that reason.
func (q topicQueue) nextToDelete(t *tx) (last int64, counter *int64, err error) {
	n := &q.log.n
	if last, err = q.unneeded(t); err != nil || last >= n.first {
		return last, &n.trimmed, err
	}
	if last, err = q.overBounds(t); err != nil || last < n.first {
		return last, &n.dropped, err
	}
	// Messages up to the floor are dropped as one range, and so are messages beyond every cursor.
	// Between the two, messages that no group needs follow held messages.
	floor, err := q.floor(t)
	if floor > n.first {
		last = min(last, floor-1)
	} else if q.isHeld(t, floor) {
		last = floor
	}
	return last, &n.dropped, err
}

// isHeld reports whether a message is needed only because groups hold it.
func (q topicQueue) isHeld(t *tx, ordinal int64) bool {
	for _, ref := range q.log.groups {
		if g := t.peek(ref); g != nil && !g.asGroup().isParked(t.now) && g.group.n.cursor < ordinal {
			return false
		}
	}
	return true
}

// unneeded returns the last message that no group needs.
func (q topicQueue) unneeded(t *tx) (int64, error) {
	l := q.log
	// Without groups every message is kept, because a later group may need it.
	if len(l.groups) == 0 {
		return 0, nil
	}
	floor, err := q.floor(t)
	if err != nil || floor <= l.n.first || l.cfg.Keep == duly.None {
		return floor - 1, err
	}
	kept, err := q.firstSince(t, t.now-clock.Millis(l.cfg.Keep))
	return min(floor, kept.ordinal) - 1, err
}

// overBounds returns the last message that a bound drops.
func (q topicQueue) overBounds(t *tx) (last int64, err error) {
	l := q.log
	if l.n.messages() == 0 {
		return 0, nil
	}
	if l.cfg.MaxAge != duly.None {
		young, err := q.firstSince(t, t.now-clock.Millis(l.cfg.MaxAge))
		if err != nil {
			return 0, err
		}
		last = young.ordinal - 1
	}
	crowd, err := q.overflow(t, 0, 0)
	return max(last, crowd), err
}

// overflow returns the last message that max_count and max_bytes drop to make room for that
// many additional messages and bytes. With overflow refuse no group needs that message.
func (q topicQueue) overflow(t *tx, messages, bytes int64) (last int64, err error) {
	l, n := q.log, &q.log.n
	if l.cfg.MaxCount != duly.None {
		over := n.messages() + n.delayed + messages - int64(l.cfg.MaxCount)
		last = n.first - 1 + min(max(over, 0), n.messages())
	}

	if l.cfg.MaxBytes != duly.None {
		if over := n.bytes() + n.delayedBytes + bytes - l.cfg.MaxBytes; over > 0 {
			p, err := q.firstAtSize(t, n.goneBytes+over)
			if err != nil {
				return 0, err
			}
			last = max(last, p)
		}
	}

	if last < n.first || l.cfg.Overflow == duly.OverflowDrop {
		return last, nil
	}

	// With overflow refuse, a message that a group needs is kept, and the publisher gets an error.
	floor, err := q.floor(t)
	return min(last, floor-1), err
}

// firstAtSize finds the first message up to which the log has at least the given size. The size
// rises with the ordinals, so this is a binary search.
func (q topicQueue) firstAtSize(t *tx, size int64) (int64, error) {
	low, high := q.log.n.first, q.log.n.last
	for low < high {
		middle := low + (high-low)/2
		p, err := q.messageAt(t, middle)
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

// makeRoom drops messages by max_count and max_bytes until m fits. It returns ErrFull if it is not
// allowed to drop enough messages.
func (q topicQueue) makeRoom(t *tx, m *message) (full, err error) {
	l, n := q.log, &q.log.n
	if l.cfg.MaxCount == duly.None && l.cfg.MaxBytes == duly.None {
		return nil, nil
	}
	if err := t.messages.flush(t); err != nil {
		return nil, err
	}

	last, err := q.overflow(t, 1, m.size())
	if err != nil {
		return nil, err
	}

	gone, goneBytes := max(0, last-n.first+1), int64(0)
	if gone > 0 {
		until, err := q.enteredUntil(t, last)
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
		return nil, q.drop(t, last)
	}
	return nil, nil
}

// drop drops the beginning of a log by a bound.
func (q topicQueue) drop(t *tx, last int64) error {
	gone := q.log.n.goneBytes
	err := q.deleteUntil(t, last, &q.log.n.dropped)
	t.trimmedBytes += q.log.n.goneBytes - gone
	return err
}

func (q topicQueue) enteredUntil(t *tx, ordinal int64) (int64, error) {
	size, ok, err := t.integer(t.stmt("entered_until").Int(1, q.id).Int(2, ordinal))
	if !ok {
		size = q.log.n.goneBytes
	}
	return size, err
}

// deleteUntil deletes the beginning of a log. Groups that needed some of the deleted messages count
// them as missed.
func (q topicQueue) deleteUntil(t *tx, last int64, counter *int64) error {
	n := &q.log.n
	from, err := q.messageAt(t, n.first)
	if err != nil {
		return err
	}
	to, err := q.messageAt(t, last+1)
	if err != nil {
		return err
	}
	size, err := q.enteredUntil(t, last)
	if err != nil {
		return err
	}
	// The positions are read before the deletion, because the deleted rows contain them.
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
		// Only a group that misses something gets a draft.
		g = t.queue(ref)
		held, err := q.heldBetween(t, g, from, to)
		if err != nil {
			return err
		}
		if err := g.asGroup().miss(t, held, first, last); err != nil {
			return err
		}
	}
	return nil
}

// floor returns the first message of a topic that some group needs. If no group needs a message, it
// returns the ordinal after the last one.
func (q topicQueue) floor(t *tx) (int64, error) {
	for {
		floor, lowest := q.log.n.last+1, (*queue)(nil)
		for _, ref := range q.log.groups {
			g := t.peek(ref)
			if g == nil || g.asGroup().isParked(t.now) {
				continue
			}
			if needs := g.group.floor(); needs < floor {
				floor, lowest = needs, g
			}
		}

		// A stale value may be too low. It is read again only for the lowest group.
		if lowest == nil || !lowest.group.stale {
			q.log.noteHolder(lowest, t.now)
			return floor, nil
		}
		if err := q.readHeld(t, t.queue(lowest.ref)); err != nil {
			return 0, err
		}
	}
}

// readHeld reads the first message of the log that a group holds, from the known lower
// bound on.
func (q topicQueue) readHeld(t *tx, g *queue) error {
	if err := t.messages.flush(t); err != nil {
		return err
	}
	from, err := q.messageAt(t, max(q.log.n.first, min(g.group.held, q.log.n.last+1)))
	if err != nil {
		return err
	}
	first, err := q.firstHeld(t, g, from)
	g.group.held, g.group.stale = first, false
	return err
}

// firstHeld finds the first message of the log that a group holds, at or after a place. It skips
// requeued copies, which need no message of the log. Dead copies come last.
func (q topicQueue) firstHeld(t *tx, g *queue, from logPlace) (int64, error) {
	number := q.log.position(from.ordinal, from.ms)
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
		if !rules.IsMessageCopy(s.ColRaw(1)) {
			return int64(contract.PositionPartsOf(held).Ordinal), nil
		}
	}
}

// heldBetween lists the messages that a group holds between two places of the log,
// without copies.
func (q topicQueue) heldBetween(t *tx, g *queue, from, to logPlace) (held []duly.Number, err error) {
	first, last := q.log.position(from.ordinal, from.ms), q.log.position(to.ordinal, to.ms)
	err = eachRow(t.stmt("held_between").Int(1, g.id).Blob(2, first[:]).Blob(3, last[:]), func(s *sqliteconn.Stmt) {
		if !rules.IsMessageCopy(s.ColRaw(1)) {
			held = append(held, numberAt(s, 0))
		}
	})
	return held, err
}
