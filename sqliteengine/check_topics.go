package sqliteengine

import (
	"context"
	"fmt"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/sqliteengine/internal/sqliteconn"
)

// The kinds of fault that only topics and groups have. Two kinds of the contract cannot
// occur here. A message is never in two sets, because a row has one state. A delayed
// message never lacks its record, because the record is the entry.
const (
	faultMessageGone  = "message_gone"       // a held message that is not in the log
	faultBeyondCursor = "held_beyond_cursor" // a held message although the cursor has not reached it
	faultCopyMissing  = "copy_missing"       // a dead message without a copy of its data
	// A live message with the number of a copy, or a dead message with another number.
	faultCopyNumber  = "copy_number_wrong"
	faultCursorAhead = "cursor_beyond_log" // the cursor is after the log, so messages would be skipped
	// The cursor is before the log, so deleted messages count as lag.
	faultCursorBehind = "cursor_below_log"
	faultGroupRows    = "group_rows_missing"  // a group without its settings or its cursor
	faultGroupTopic   = "group_without_topic" // a group whose topic does not exist
	faultTopicRows    = "topic_rows_missing"  // a topic without its settings or its numbers
	faultStrayRows    = "topic_rows_strayed"  // settings or numbers whose topic or group does not exist
	faultSeenStray    = "id_without_message"  // an ID of a delayed message that does not exist
	faultLogNumbers   = "log_numbers_wrong"   // numbers of a log that differ from its messages
)

// rowsOf reports whether a topic or a group has its rows in the tables besides queues.
func (t checkTx) rowsOf(q *queue) (complete bool, err error) {
	name := "group_find"
	if q.kind == kindTopic {
		name = "topic_find"
	}
	err = eachRow(t.stmt(name).Int(1, q.id), func(s *sqliteconn.Stmt) {
		complete = !s.ColNull(7) && !s.ColNull(6)
	})
	return complete, err
}

// topicRows finds topics and groups that lack rows, and rows whose topic or group does not exist.
func (c *check) topicRows() error {
	return eachRow(c.t.stmt("stray_topic_rows"), func(s *sqliteconn.Stmt) {
		id := s.ColInt(0)
		c.report(faultStrayRows, nil, "", fmt.Sprintf("queue %d", id), func(t checkTx) (bool, error) {
			for _, name := range []string{"topic_drop", "log_drop", "group_drop", "cursor_drop"} {
				if _, err := t.stmt(name).Int(1, id).Run(); err != nil {
					return false, err
				}
			}
			return true, nil
		})
	})
}

// topic compares the numbers of a topic with its rows.
func (c *check) topic(q *queue) error {
	complete, err := c.t.rowsOf(q)
	if err != nil {
		return err
	}
	if !complete {
		c.report(faultTopicRows, q, "", "", repairRows(q.ref))
	}

	truth, err := c.t.recountLog(q)
	if err != nil {
		return err
	}
	c.result.Messages += truth.delayed
	// Missing rows are repaired with the recount, which also repairs wrong numbers.
	if truth != q.log.n && complete {
		c.report(faultLogNumbers, q, "", fmt.Sprintf("they are %+v, must be %+v", q.log.n, truth), repairLog(q.ref))
	}
	return nil
}

// recountLog computes the numbers of a topic from its rows.
func (t checkTx) recountLog(q *queue) (n logNumbers, err error) {
	// The counters of past events can't be recounted, so they keep their values.
	n = q.log.n
	err = eachRow(t.stmt("recount_log").Int(1, q.id), func(s *sqliteconn.Stmt) {
		// An empty log begins after its last message.
		if s.ColNull(0) {
			// The numbers of an empty log can't be recounted, so its last ordinal is kept: ordinals
			// are never used again.
			n.first, n.goneBytes = n.last+1, n.enteredBytes
			return
		}
		n.first = s.ColInt(0)
		if last := s.ColInt(1); last > n.last || n.last-n.first+1 != s.ColInt(2) {
			n.last = last
		}
		// Entry times never fall, even after a repair.
		n.lastMs, n.enteredBytes = max(n.lastMs, s.ColInt(3)), s.ColInt(4)
	})

	if err != nil || n.messages() == 0 {
		return n, t.recountDelayed(q, &n, err)
	}

	first, err := q.asTopic().messageAt(t.tx, n.first)
	if err != nil {
		return n, err
	}
	err = eachRow(t.stmt("messages_from").Int(1, q.id).Int(2, n.first).Int(3, 1), func(s *sqliteconn.Stmt) {
		m := message{id: s.ColText(2), key: s.ColText(3), headers: s.ColRaw(4), body: s.ColRaw(5)}
		// The running total of a message includes the message itself.
		n.goneBytes = first.entered - m.size()
	})
	return n, t.recountDelayed(q, &n, err)
}

// recountDelayed counts the delayed messages and the IDs.
func (t checkTx) recountDelayed(q *queue, n *logNumbers, err error) error {
	if err != nil {
		return err
	}
	n.delayed, n.delayedBytes = 0, 0
	err = eachRow(t.stmt("recount_delayed").Int(1, q.id), func(s *sqliteconn.Stmt) {
		m := message{id: s.ColText(0), key: s.ColText(1), headers: s.ColRaw(2)}
		n.delayed++
		n.delayedBytes += m.size() + s.ColInt(3)
		// A seq is never used again, even if its message has left.
		n.delayedSeq = max(n.delayedSeq, s.ColInt(4))
	})
	if err == nil {
		n.ids, err = t.count(t.stmt("recount_ids").Int(1, q.id))
	}
	return err
}

func repairLog(ref duly.QueueRef) repair {
	return func(t checkTx) (bool, error) {
		q := t.queue(ref)
		if q == nil || q.log == nil {
			return false, nil
		}
		truth, err := t.recountLog(q)
		if err != nil || truth == q.log.n {
			return false, err
		}
		q.log.n = truth
		return true, t.fitGroups(q)
	}
}

// fitGroups moves the cursors of groups into the range of a topic whose numbers were repaired. It
// also sets the topic's timer.
func (t checkTx) fitGroups(q *queue) error {
	for _, ref := range q.log.groups {
		if g := t.queue(ref); g != nil {
			g.asGroup().fitCursor(q.asTopic())
		}
	}
	return q.asTopic().readDelayed(t.conn)
}

// repairRows writes the rows of a topic or a group from memory, or with defaults.
func repairRows(ref duly.QueueRef) repair {
	return func(t checkTx) (bool, error) {
		q := t.queue(ref)
		if q == nil || q.kind == kindQueue {
			return false, nil
		}

		complete, err := t.rowsOf(q)
		if err != nil || complete {
			return false, err
		}

		if q.kind == kindTopic {
			if q.log.n, err = t.recountLog(q); err != nil {
				return false, err
			}
			// If the queue has no base log, save writes both rows.
			q.base.log = nil
			return true, t.fitGroups(q)
		}

		q.base.group = nil
		if topic := q.asGroup().topic(t.tx); !topic.missing() {
			q.asGroup().fitCursor(topic)
		}
		return true, nil
	}
}

// groupAndLog compares a group with the log that it reads.
func (c *check) groupAndLog(_ context.Context, q *queue) error {
	if q.kind != kindGroup {
		return nil
	}

	complete, err := c.t.rowsOf(q)
	if err != nil {
		return err
	}

	topic := q.asGroup().topic(c.t.tx)
	switch {
	case topic.missing():
		c.report(faultGroupTopic, q, "", "", func(t checkTx) (bool, error) {
			q := t.queue(q.ref)
			if q == nil || !q.asGroup().topic(t.tx).missing() {
				return false, nil
			}
			// A group without a topic can deliver nothing, so it is destroyed.
			return true, t.destroy(q)
		})
	case !complete:
		c.report(faultGroupRows, q, "", "", repairRows(q.ref))
	default:
		if fault := q.asGroup().cursorFault(topic); fault != "" {
			c.report(fault, q, "", fmt.Sprintf("at %d, of a log from %d to %d", q.group.n.cursor, topic.log.n.first,
				topic.log.n.last), repairCursor(q.ref))
		}
	}
	return nil
}

// cursorFault returns the kind of fault of a cursor, or "" if it is correct.
func (q groupQueue) cursorFault(topic topicQueue) string {
	switch n := &topic.log.n; {
	case q.group.n.cursor > n.last:
		return faultCursorAhead
	case q.group.n.cursor < n.first-1:
		return faultCursorBehind
	}
	return ""
}

// fitCursor moves a cursor outside the log to the nearer end, and reports whether it
// did. It counts deleted messages as missed.
func (q groupQueue) fitCursor(topic topicQueue) bool {
	n := &q.group.n
	switch q.cursorFault(topic) {
	case faultCursorAhead:
		n.cursor = topic.log.n.last
	case faultCursorBehind:
		n.missed += topic.log.n.first - 1 - n.cursor
		n.cursor = topic.log.n.first - 1
	default:
		return false
	}
	q.group.stale = true
	return true
}

func repairCursor(ref duly.QueueRef) repair {
	return func(t checkTx) (bool, error) {
		q := t.queue(ref)
		if q == nil || q.group == nil {
			return false, nil
		}
		topic := q.asGroup().topic(t.tx)
		if topic.missing() {
			return false, nil
		}
		return q.asGroup().fitCursor(topic), nil
	}
}

// messageFaults finds the faults that only a message of a group can have.
func (t checkTx) messageFaults(k *checked, found func(kind, format string, args ...any)) error {
	if k.q.group == nil {
		return nil
	}

	dead := k.state == duly.StateDead
	if dead != isCopy(k.number) {
		found(faultCopyNumber, "%s", k.state)
	}

	// A copy needs no message of the log.
	switch {
	case !k.pointer:
	case dead:
		found(faultCopyMissing, "")
	case k.ordinal() > k.q.group.n.cursor:
		found(faultBeyondCursor, "%s", k.state)
	default:
		// readMessageHead sets fields of the job, so it gets a copy.
		j := k.job
		if _, err := j.readMessageHead(t.conn); err == errGone {
			found(faultMessageGone, "%s", k.state)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// repairMessage repairs a fault that messageFaults has found.
func (t checkTx) repairMessage(j *job, kind string) error {
	switch kind {
	case faultMessageGone:
		return j.missOne(t.tx)
	case faultBeyondCursor: // removing the job is enough, because the cursor will reach the message
		return j.remove(t.tx)
	case faultCopyMissing:
		// The dead letter stays visible to operators, with an empty body.
		j.pointer, j.lastError = false, "the copy of the message is lost"
		if _, err := t.stmt("body_inline").Int(1, j.q.id).Blob(2, j.number[:]).Blob(3, []byte{}).Run(); err != nil {
			return err
		}
		return j.put(t.tx)
	}
	return t.repairNumber(j)
}

// repairNumber gives a message the number for its state. If another row has that number,
// this row is a duplicate, and repairNumber deletes it.
func (t checkTx) repairNumber(j *job) error {
	if err := j.readBody(t.conn); err != nil && err != errGone {
		return err
	}
	if j.state == duly.StateDead {
		j.pointer = false
	}
	other, err := j.q.byNumber(t.tx, copyNumber(j.number))
	if err != nil {
		return err
	}
	state := j.state
	if err := j.remove(t.tx); err != nil || other != nil {
		return err
	}
	j.number, j.state, j.stored = copyNumber(j.number), state, entries{}
	return j.put(t.tx)
}

// imbalance returns by how much entered + replayed exceeds the sum of a group's other counters, its
// lag and its messages. It is 0 in a store without faults.
func (q groupQueue) imbalance(topic topicQueue) int64 {
	n, c := &q.group.n, &q.counters
	entered := topic.log.n.last - n.start + 1
	sum := q.lag(topic) + q.held() + q.sizes.Dead + c.Acked + n.filtered + n.skipped + n.missed + c.Deleted + c.Dropped
	return entered + n.replayed - sum
}

// groupCounters compares the sizes and the counters of a group with a recount of its rows and with
// each other.
func (c *check) groupCounters(q *queue, counted duly.Sizes) {
	topic := q.asGroup().topic(c.t.tx)
	// With these faults, imbalance means nothing. balanceGroups corrects the counters after these
	// faults are repaired.
	if topic.missing() || q.asGroup().cursorFault(topic) != "" {
		return
	}
	switch wrong := q.asGroup().imbalance(topic); {
	case counted != q.sizes:
		c.report(faultCounters, q, "", fmt.Sprintf("sizes are %+v, must be %+v", q.sizes, counted),
			repairGroupCounters(q.ref))
	case wrong != 0:
		c.report(faultCounters, q, "", fmt.Sprintf("%d messages entered that are not accounted for", wrong),
			repairGroupCounters(q.ref))
	}
}

// repairGroupCounters recounts the sizes, and moves the group's start so that its counters
// add up.
func repairGroupCounters(ref duly.QueueRef) repair {
	return func(t checkTx) (bool, error) {
		q := t.queue(ref)
		if q == nil || q.group == nil {
			return false, nil
		}

		topic := q.asGroup().topic(t.tx)
		if topic.missing() {
			return false, nil
		}

		counted, err := t.recount(q)
		wrong := q.asGroup().imbalance(topic)
		if err != nil || counted == q.sizes && wrong == 0 {
			return false, err
		}

		q.sizes = counted
		// The start is used only by imbalance, so changing it has no other effect.
		q.group.n.start += q.asGroup().imbalance(topic)
		return true, nil
	}
}

// affectedGroups adds the groups whose counters a fault of q may affect.
func (c *check) affectedGroups(q *queue) map[duly.QueueRef]bool {
	if q == nil || q.kind == kindQueue {
		return c.groups
	}
	if c.groups == nil {
		c.groups = map[duly.QueueRef]bool{}
	}
	// A topic gets false, so balanceGroups skips it. All its groups are affected, because its log
	// is part of their equations.
	if c.groups[q.ref] = q.kind == kindGroup; q.log != nil {
		for _, ref := range q.log.groups {
			c.groups[ref] = true
		}
	}
	return c.groups
}

// balanceGroups corrects the counters of groups whose faults were repaired.
func (c *check) balanceGroups(ctx context.Context) error {
	for ref, isGroup := range c.groups {
		if !isGroup {
			continue
		}
		// Each group is corrected in a separate transaction, so that other calls run in between.
		err := c.e.change(ctx, func(t *tx) error {
			_, err := repairGroupCounters(ref)(checkTx{t})
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
