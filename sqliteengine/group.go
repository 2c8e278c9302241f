package sqliteengine

import (
	"slices"
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/sqliteengine/internal/sqliteconn"
)

// groupState is the part of a queue that only a group has.
type groupState struct {
	topic      duly.QueueRef // zero if a damaged file lacks the topic
	topicID    int64
	conditions []duly.Condition
	// held is a lower bound on the ordinal of the first message that the group holds, or never if
	// it holds none. It is read again when it is stale.
	held   int64
	stale  bool
	called int64 // time of the last Reserve, in ms
	n      groupNumbers
}

// groupNumbers is the row of topic_cursors.
type groupNumbers struct {
	start                               int64 // ordinal of the first message of the group
	cursor                              int64 // ordinal of the last message that was delivered or skipped
	reserved                            int64 // time of the last Reserve, to within a minute
	filtered, skipped, replayed, missed int64
}

// columns returns the numbers in the order of their columns.
func (n *groupNumbers) columns() [7]*int64 {
	return [...]*int64{&n.start, &n.cursor, &n.reserved, &n.filtered, &n.skipped, &n.replayed, &n.missed}
}

func compareNames(a, b duly.QueueRef) int { return strings.Compare(a.Name, b.Name) }

// scanGroup reads a row of topic_groups and topic_cursors. If the row of topic_cursors is missing
// in a damaged file, the group begins at the start.
func (q groupQueue) scanGroup(s *sqliteconn.Stmt) {
	g, c := &groupState{stale: true}, &q.cfg.Group
	c.Order = duly.OrderNone
	if s.ColInt(1) != 0 {
		c.Order = duly.OrderKeys
	}
	c.MaxHeld, c.Filter = int(s.ColInt(2)), duly.Filter(s.ColText(3))
	c.Idle, c.Target = time.Duration(s.ColInt(4)), s.ColText(5)
	// Configure has validated the filter, so the error is impossible
	g.conditions, _ = contract.FilterConditions(c.Filter)
	if !s.ColNull(6) {
		for i, n := range g.n.columns() {
			*n = s.ColInt(6 + i)
		}
	}
	g.called = g.n.reserved
	q.group = g
}

// saveGroup writes the changed rows of a group.
func (q groupQueue) saveGroup(c *conn) error {
	g := q.group
	// A repair clears the base to write both rows.
	if q.cfgDirty || q.base.group == nil {
		cfg := &q.cfg.Group
		s := c.stmt("group_save").Int(1, q.id).Int(2, boolean(cfg.Order == duly.OrderKeys)).Int(3, int64(cfg.MaxHeld))
		if _, err := s.Text(4, string(cfg.Filter)).Int(5, int64(cfg.Idle)).Text(6, cfg.Target).Run(); err != nil {
			return err
		}
	}

	if q.base.group != nil && q.base.group.n == g.n {
		return nil
	}

	s := c.stmt("cursor_save").Int(1, q.id)
	for i, n := range g.n.columns() {
		s.Int(2+i, *n)
	}

	_, err := s.Run()
	return err
}

// seek moves the cursor, and counts the messages that the group gives up.
func (q groupQueue) seek(at seekPoint) contract.SeekResult {
	n := &q.group.n
	r := contract.SeekResult{Clipped: at.clipped, Skipped: q.held()}
	if moved := at.first - 1 - n.cursor; moved > 0 {
		r.Skipped += moved
	} else {
		r.Replayed = -moved
	}
	n.cursor = at.first - 1
	n.skipped += r.Skipped
	n.replayed += r.Replayed
	return r
}

// dropHeld deletes all messages that a group holds, except the dead copies.
func (q groupQueue) dropHeld(t *tx) error {
	for _, name := range []string{"group_jobs_drop", "group_bodies_drop", "group_heads_drop"} {
		if _, err := t.stmt(name).Int(1, q.id).Run(); err != nil {
			return err
		}
	}
	if q.limiter != nil && q.limiter.ProbeIsOut() {
		q.noteProbeLeft(q.limiter.Probe, t.now)
	}
	z := &q.sizes
	z.Delayed, z.Ready, z.Blocked, z.Leased = 0, 0, 0, 0
	q.earliest.due, q.earliest.leaseEnd = never, never
	q.group.held, q.group.stale = never, false
	return nil
}

// unlinkGroup removes a destroyed group from its topic.
func (q groupQueue) unlinkGroup(t *tx) {
	if topic := q.topic(t); !topic.missing() {
		topic.log.groups = slices.DeleteFunc(slices.Clone(topic.log.groups),
			func(ref duly.QueueRef) bool { return ref == q.ref })
	}
}

// configureGroup changes the configuration of a group.
func (q groupQueue) configureGroup(t *tx, patch duly.QueueConfig) error {
	order := q.cfg.Group.Order
	// Messages that are held without an order may share a key, which is not allowed with an order.
	if patch.Group.Order == duly.OrderKeys && order != duly.OrderKeys && q.held() > 0 {
		return contract.OrderNeedsEmpty(q.ref, q.held())
	}
	to := duly.QueueRef{Namespace: q.ref.Namespace, Name: patch.Group.Target}
	if topic := t.peek(to); topic != nil && topic.kind == kindTopic {
		return contract.TargetIsTopic(to.Name)
	}
	cfg := contract.PatchConfig(q.cfg, patch)
	if err := contract.CheckConfig(cfg); err != nil {
		return err
	}
	q.cfg, q.cfgDirty = cfg, true
	q.configureLimiter()
	// Patch.Validate has parsed the filter, so the error is impossible.
	q.group.conditions, _ = contract.FilterConditions(q.cfg.Group.Filter)
	if order == q.cfg.Group.Order || order != duly.OrderKeys {
		return nil
	}

	// Without an order, no message is blocked any more.
	for _, name := range []string{"group_unblock", "group_heads_drop"} {
		if _, err := t.stmt(name).Int(1, q.id).Run(); err != nil {
			return err
		}
	}
	q.sizes.Ready, q.sizes.Blocked = q.sizes.Ready+q.sizes.Blocked, 0
	return nil
}

// topic returns the topic of a group. It is missing only in a damaged file.
func (q groupQueue) topic(t *tx) topicQueue {
	if t.readOnly {
		topic, err := readTx{t}.readQueue(q.group.topic)
		if err != nil || topic == nil || topic.kind != kindTopic {
			return topicQueue{}
		}
		return topic.asTopic()
	}
	found := t.queue(q.group.topic)
	if found == nil || found.kind != kindTopic {
		return topicQueue{}
	}
	return found.asTopic()
}

// messageByID finds a message that a group holds, or else its dead copy.
func (q groupQueue) messageByID(t *tx, id string) (*job, error) {
	n, err := positionIn(q.queue, id)
	if err != nil {
		return nil, err
	}
	j, err := q.byNumber(t, n)
	if err != nil || j != nil {
		return j, err
	}
	return q.byNumber(t, copyNumber(n))
}

// beyondCursor returns ErrConflict for a position beyond a group's cursor.
func (q groupQueue) beyondCursor(t *tx, id string) error {
	if q.group == nil {
		return nil
	}

	n, err := positionIn(q.queue, id)
	topic := q.topic(t)
	if err != nil || topic.missing() {
		return err
	}

	ordinal := int64(contract.PositionPartsOf(n).Ordinal)
	// The cursor of the group has passed the message, or the log no longer has it.
	if ordinal <= q.group.n.cursor || ordinal < topic.log.n.first {
		return nil
	}

	at, err := topic.messageAt(t, ordinal)
	if err != nil || ordinal > topic.log.n.last || topic.log.position(at.ordinal, at.ms) != n {
		return err
	}
	return contract.NotBeyondCursor(q.ref, id)
}

// isParked reports whether a group was idle for too long. It then needs no message.
func (q groupQueue) isParked(now int64) bool {
	idle := q.cfg.Group.Idle
	return idle != duly.None && past(q.group.called+clock.Millis(idle), now)
}

// miss counts the deleted messages between two ordinals as missed by a group.
func (q groupQueue) miss(t *tx, held []duly.Number, first, last int64) error {
	n := &q.group.n
	missed := max(0, last-n.cursor)
	n.cursor = max(n.cursor, last)
	for _, number := range held {
		// Freeing the key of an earlier message may have changed this message.
		j, err := q.byNumber(t, number)
		if err != nil {
			return err
		}
		if j == nil {
			continue
		}
		if q.limiter != nil {
			q.limiter.Lose(number)
		}
		if err := j.remove(t); err != nil {
			return err
		}
		missed++
	}

	if n.missed += missed; missed > 0 {
		t.misses = append(t.misses, missedRange{group: q.ref, first: first, last: last, n: missed})
	}
	return nil
}

// noteCall records a Reserve from a group.
func (q groupQueue) noteCall(t *tx, consumer string) {
	g := q.group
	if g.called = t.now; t.now-g.n.reserved >= reservedEvery || t.now < g.n.reserved {
		g.n.reserved = t.now
	}
	if consumer != "" {
		t.w.e.consumers.note(q.id, consumer, t.now)
	}
}

// reservedEvery is the precision of the stored time of a group's last Reserve, in ms.
const reservedEvery = 60_000

// lag returns the number of messages beyond the cursor.
func (q groupQueue) lag(topic topicQueue) int64 { return topic.log.n.last - q.group.n.cursor }

// heldRoom returns how many more messages the group may hold.
func (q groupQueue) heldRoom() int64 { return max(0, int64(q.cfg.Group.MaxHeld)-q.held()) }

// plainGroup reports whether a Reserve finds every new message, because the group has
// neither filter nor order.
func (q groupQueue) plainGroup() bool {
	return len(q.group.conditions) == 0 && q.cfg.Group.Order != duly.OrderKeys
}

// noteHeld records that the group holds a message of the log.
func (g *groupState) noteHeld(n duly.Number) {
	g.held = min(g.held, int64(contract.PositionPartsOf(n).Ordinal))
}

// floor returns the first message that the group needs. It may be stale.
func (g *groupState) floor() int64 { return min(g.held, g.n.cursor+1) }

// positionIn parses the ID of a message of a group. It returns ErrInvalid for an ID that
// is not a position of its topic.
func positionIn(q *queue, id string) (duly.Number, error) {
	n, ok := duly.ParseNumber(id)
	if topic, _, _ := q.ref.Group(); !ok || contract.PositionPartsOf(n).Topic != contract.TopicChecksum(topic) {
		return n, contract.ForeignPosition(q.ref, id)
	}
	return n, nil
}
