package sqliteengine

import (
	"errors"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/sqliteengine/internal/rules"
)

// A message that a group holds is a job of the group, with these differences:
//
//   - Its number is the position, its ID the text of the position. Tries, stalls, backoff
//     and lease come from the group.
//   - The body, the headers and the key of a pointer are read from the log. A message
//     that was deleted there is missed.
//   - Column ended is the fence: a random token of the Reserve, minus one.
//   - Column due is the entry time unless the message is delayed. So ready messages are
//     sorted by position.
//   - A dead message is a copy with everything in its row. The first bit of its number
//     is set: after a Seek back the group may hold the message itself as well.

// copyBit is set in the first byte of the numbers of dead copies.
const copyBit = 0x80

func isCopy(n duly.Number) bool { return n[0]&copyBit != 0 }

// copyNumber converts the number of a message to the number of its dead copy, and back.
func copyNumber(n duly.Number) duly.Number {
	n[0] ^= copyBit
	return n
}

// errGone reports that a message was deleted from the log.
var errGone = errors.New("sqliteengine: the message was deleted from the log")

// asMessage fills in the fields that the row of a message does not store.
func (j *job) asMessage(packed []byte) {
	// A message has no rules of its own, so changes of the group apply to held messages too.
	d := &j.q.cfg.Defaults
	j.Tries, j.MaxStalls, j.Backoff, j.Lease = d.Tries, d.MaxStalls, d.Backoff, d.Lease
	j.pointer = !rules.IsMessageCopy(packed)
	position := j.number
	if isCopy(position) {
		position = copyNumber(position)
	}
	j.ID = position.String()
}

// ordinal returns the message's ordinal in its log.
func (j *job) ordinal() int64 { return int64(contract.PositionPartsOf(j.number).Ordinal) }

// readMessage reads key, headers and body of a pointer from the log.
func (j *job) readMessage(c *conn) error {
	s := c.stmt("message_read").Int(1, j.q.group.topicID).Int(2, j.ordinal())
	row, err := s.Step()
	if err != nil {
		return err
	}
	if !row {
		return errGone
	}
	j.OrderKey, j.Headers, j.Body, j.hasBody = s.ColText(0), rules.UnpackHeaders(s.ColRaw(1)), s.ColBytes(2), true
	s.Reset()
	return nil
}

// readMessageHead reads key and headers of a pointer, and the size of its body.
func (j *job) readMessageHead(c *conn) (size int, err error) {
	s := c.stmt("message_head").Int(1, j.q.group.topicID).Int(2, j.ordinal())
	row, err := s.Step()
	if err != nil {
		return 0, err
	}
	if !row {
		return 0, errGone
	}
	j.OrderKey, j.Headers, size = s.ColText(0), rules.UnpackHeaders(s.ColRaw(1)), int(s.ColInt(2))
	s.Reset()
	return size, nil
}

// buryMessage makes a dead copy of a message that a group holds. It drops an older copy
// of the same message, which died before a Seek back.
func (j *job) buryMessage(t *tx) error {
	// The copy needs the body, which so far is only in the log.
	if err := j.readBody(t.conn); err != nil {
		return err
	}
	if err := j.remove(t); err != nil {
		return err
	}

	j.number, j.pointer = copyNumber(j.number), false
	old, err := j.q.byNumber(t, j.number)
	if err != nil {
		return err
	}

	// A Seek back makes a message available again although it died before.
	if old != nil {
		j.q.counters.Dropped++
		if err := old.unhold(t); err != nil {
			return err
		}
	}

	j.state, j.stored = duly.StateDead, entries{}
	return j.put(t)
}

// unhold removes the row of a message. The caller frees its order key.
func (j *job) unhold(t *tx) error {
	j.state = duly.StateNone
	return j.put(t)
}

// hold turns a dead copy into a held message under the message's own number.
func (j *job) hold(t *tx) error {
	if err := j.readBody(t.conn); err != nil {
		return err
	}
	if err := j.unhold(t); err != nil {
		return err
	}
	j.number, j.stored = copyNumber(j.number), entries{}
	return nil
}

// missOne counts a held message that was deleted from the log as missed.
func (j *job) missOne(t *tx) error {
	g := j.q.group
	g.n.missed++
	t.misses = append(t.misses, missedRange{group: j.q.ref, first: j.ordinal(), last: j.ordinal(), n: 1})
	return j.remove(t)
}

// reviveMessage requeues a dead copy: the group then holds the message again, as ready or blocked.
func (j *job) reviveMessage(t *tx) (err error) {
	if err := j.hold(t); err != nil {
		return err
	}
	if j.state, err = j.readyOrBlocked(t); err != nil {
		return err
	}
	return j.put(t)
}

// failureOnly returns nil for an error of the contract, because that is the answer for one item and
// not a failure of the call. It returns any other error.
func failureOnly(err error) error {
	if isRefusal(err) {
		return nil
	}
	return err
}

// notForGroup refuses an operation that a group does not have.
func notForGroup(ref duly.QueueRef, operation string) error {
	if !ref.IsGroup() {
		return nil
	}
	if err := contract.ValidateQueue(ref); err != nil {
		return err
	}
	return contract.NotForGroup(ref, operation)
}
