package model

import (
	"context"
	"iter"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
)

// A group is a queue whose jobs are the messages that it holds, and its dead copies. This file
// creates groups, delivers their messages and finds the messages by ID. Seek is in group_seek.go,
// Stats and Check in group_stats.go.

// group has the fields of a queue that only a group needs, over all shards.
type group struct {
	topic     *topic
	called    int64            // time at which the group was created or last reserved from
	consumers map[string]int64 // time of each consumer's last call
}

// reader has the fields of a shard that only a group needs.
type reader struct {
	log    *log
	filter []duly.Condition
	cursor uint64 // ordinal of the last message that was delivered or skipped
	stats  duly.GroupStats
	held   *set            // the log's messages that the group holds, by position
	copies map[string]*job // dead messages, by position
}

// notForGroup refuses an operation that a group does not have.
func notForGroup(ref duly.QueueRef, operation string) error {
	if err := contract.ValidateQueue(ref); err != nil {
		return err
	}
	return contract.NotForGroup(ref, operation)
}

// CreateGroup implements contract.TopicOperator.
func (e *Engine) CreateGroup(ctx context.Context, ref duly.QueueRef, from duly.From) (existed bool, err error) {
	if err := contract.ValidateGroup(ref); err != nil {
		return false, err
	}
	topicRef, name, _ := ref.Normal().Group()
	parts, err := contract.ParseFromIn(from, topicRef, false)
	if err != nil {
		return false, err
	}
	if err := e.begin(ctx); err != nil {
		return false, err
	}
	defer e.end()

	// Create makes a missing topic, but t is stored only after every check has passed.
	t := e.topics[topicRef]
	if t == nil {
		t = newTopic(topicRef, e.usualTopic())
	}
	if t.groups[name] != nil {
		return true, nil
	}

	now, ms := e.now()

	// All shards are placed before anything changes: an invalid From creates no group.
	places, err := t.places(from, parts, now)
	if err != nil {
		return false, err
	}
	if len(t.groups) >= duly.MaxGroups {
		return false, contract.GroupsFull(topicRef)
	}
	if e.topics[topicRef] == nil {
		if err := e.mayMakeTopic(topicRef); err != nil {
			return false, err
		}
	}

	e.topics[topicRef] = t
	t.groups[name] = e.newGroup(t, ref.Normal(), places, ms)
	return false, nil
}

// places finds the position of a From in every shard. It returns [duly.ErrInvalid] for a From ahead
// of the log.
func (t *topic) places(from duly.From, parts contract.FromParts, now time.Time) ([]place, error) {
	if aheadOf(parts, now) {
		return nil, contract.AheadOfLog(from)
	}
	places := make([]place, len(t.logs))
	for i, l := range t.logs {
		if places[i] = l.place(parts); places[i].ahead {
			return nil, contract.AheadOfLog(from)
		}
	}
	return places, nil
}

func (e *Engine) newGroup(t *topic, ref duly.QueueRef, places []place, now int64) *queue {
	cfg := contract.DefaultGroupConfig()
	cfg.Shards = t.cfg.Shards
	g := &queue{ref: ref, group: &group{topic: t, called: now, consumers: map[string]int64{}}}
	for i, l := range t.logs {
		s := newShard(ref, i, e.moves)
		s.reader = &reader{
			log: l, held: &set{compare: byNumber}, copies: map[string]*job{},
			// The start may be trimmed away, so the cursor is never before the oldest stored message.
			cursor: max(places[i].wanted, l.first()) - 1,
		}

		// Messages that are already beyond the cursor of a new group count as entered, because its
		// lag contains them, and entered must equal the sum of the other numbers (C12.154).
		s.reader.stats.Entered = s.lag()
		g.shards = append(g.shards, s)
	}
	g.configure(cfg)
	e.queues[ref] = g
	return g
}

// applyConfig copies the configuration's values to all held messages, and makes the blocked
// messages ready if the group has no order.
func (s *shard) applyConfig() {
	// Configure has validated the filter, so the error is impossible
	s.reader.filter, _ = contract.FilterConditions(s.cfg.Group.Filter)

	// A held message has no settings of its own (C12.85). It follows the group's.
	for _, set := range s.sets {
		for j := range set.all() {
			s.setValues(j)
		}
	}
	if s.cfg.Group.Order == duly.OrderKeys {
		return
	}

	// Without an order no message holds a key, so no message stays blocked.
	clear(s.heads)

	// firstOf copies the jobs first, because move changes the set.
	for _, j := range firstOf(s.sets[duly.StateBlocked].all(), s.size(duly.StateBlocked)) {
		s.move(j, contract.EventKeyFreed, duly.StateReady, nil)
	}
}

func (s *shard) setValues(j *job) {
	d := s.cfg.Defaults
	j.Tries, j.MaxStalls, j.Backoff, j.Lease = d.Tries, d.MaxStalls, d.Backoff, d.Lease
}

// mayOrder refuses a change to order by key while the group holds messages.
func (q *queue) mayOrder(order duly.GroupOrder) error {
	if q.group == nil || order != duly.OrderKeys || q.cfg.Group.Order == duly.OrderKeys {
		return nil
	}

	// Without an order the messages of a key may be leased in any order. So the group can change to
	// order by key only when it holds no message (C12.103).
	held := 0
	for _, s := range q.shards {
		held += s.held()
	}
	if held > 0 {
		return contract.OrderNeedsEmpty(q.ref, int64(held))
	}
	return nil
}

// reserved records a Reserve.
func (g *group) reserved(consumer string, now int64) {
	g.called = now
	if consumer == "" {
		return
	}

	// The names are bounded: a consumer never signs off (C12.108).
	g.consumers[consumer] = now
	for name, at := range g.consumers {
		if forgotten(at, now) || len(g.consumers) > duly.MaxConsumers && name != consumer {
			delete(g.consumers, name)
		}
	}
}

func forgotten(at, now int64) bool { return past(at+clock.Millis(duly.ConsumerMemory), now) }

// parked reports whether the group was idle for too long. A parked group needs no message.
func (q *queue) parked(now int64) bool {
	idle := q.cfg.Group.Idle
	return idle != duly.None && past(q.group.called+clock.Millis(idle), now)
}

// beyondCursor returns the stored messages that the cursor has not passed.
func (s *shard) beyondCursor() []*message { return s.reader.log.from(s.reader.cursor + 1) }

func (s *shard) lag() int64 { return int64(len(s.beyondCursor())) }

// room returns how many more messages the group may hold.
func (s *shard) room() int { return max(0, s.cfg.Group.MaxHeld-s.held()) }

// fromGroup takes up to n messages of a group. Ready messages come first. While there are new
// messages, ready messages fill at most half of the call. New messages come next, and further ready
// messages fill the rest. more reports whether skipping messages stopped at its limit.
func (t *taking) fromGroup(s *shard, n int) (more bool) {
	more = s.reader.log.enterDue(t.now)

	// end is the value of t.left when n messages are taken, so that both kinds of messages share
	// one limit.
	end := t.left - n

	// New messages would starve behind retries without a part of the call (C12.88).
	if s.lag() > 0 && s.room() > 0 {
		t.leaseReady(s, (n+1)/2)
		more = t.leaseNew(s, t.left-end) || more
	}

	// Ready messages fill the places that new messages left free.
	t.leaseReady(s, t.left-end)
	return more
}

// leaseNew moves the cursor until n messages are leased.
func (t *taking) leaseNew(s *shard, n int) (more bool) {
	r := s.reader
	for passed := 0; n > 0 && s.room() > 0 && s.lag() > 0 && !t.full; {
		m := s.beyondCursor()[0]

		// The check comes before the cursor moves, because a message that does not fit must stay
		// beyond the cursor.
		if t.full = len(t.got) > 0 && t.bytes+len(m.Body) > duly.MaxBatchBytes; t.full {
			return false
		}

		// One step skips a limited number of messages (C12.118).
		if passed == duly.MaxPassed {
			return true
		}

		r.cursor++
		if !contract.Matches(r.filter, m.Key, m.Headers) {
			r.stats.Filtered++
			passed++
			continue
		}

		// A message whose key is busy is held as blocked, so that the cursor can pass it (C12.101).
		j := s.hold(m, t.now)
		if j.state == duly.StateBlocked {
			passed++
			continue
		}
		t.deliver(s, j)
		n--
	}
	return false
}

// hold adds a message of the log to the messages that the group holds.
func (s *shard) hold(m *message, now int64) *job {
	j := &job{number: m.position, isMessage: true}
	j.ID, j.Namespace, j.Queue, j.OrderKey = m.position.String(), s.ref.Namespace, s.ref.Name, m.Key
	j.Body, j.Headers, j.TTL, j.Retain = m.Body, m.Headers, duly.None, duly.None
	j.PushedAt, j.DueAt = m.entered, m.entered
	s.setValues(j)
	s.place(j, s.readyOrBlocked(j, now), nil)
	return j
}

// unread counts the new messages that a Reserve may find, up to most. Messages that the filter
// skips count as one message. The log keeps them until a Reserve has skipped them, and until then a
// full topic could not store the message that the group waits for.
func (s *shard) unread(now int64, most int) (n int) {
	room, filtered := s.room(), false

	// Of the new messages with one key only the first is deliverable, so busy counts each key once.
	busy := map[string]bool{}
	for m := range s.waiting(now) {
		if n >= most || room == 0 {
			break
		}

		// The filter is checked before the room, because a skipped message takes no place in the
		// group.
		if !contract.Matches(s.reader.filter, m.Key, m.Headers) {
			filtered = true
			continue
		}
		room--
		if s.cfg.Group.Order == duly.OrderKeys && m.Key != "" {
			if busy[m.Key] || s.heads[m.Key] != nil {
				continue
			}
			busy[m.Key] = true
		}
		n++
	}

	if n == 0 && filtered {
		return 1
	}
	return n
}

// waiting iterates over the messages that a Reserve may reach: the messages beyond the
// cursor, then the delayed messages that are due.
func (s *shard) waiting(now int64) iter.Seq[*message] {
	return func(yield func(*message) bool) {
		for _, m := range s.beyondCursor() {
			if !yield(m) {
				return
			}
		}
		for _, m := range s.reader.log.delayed {
			if m.due > now || !yield(m) {
				return
			}
		}
	}
}

// holds returns the job for this message of the log. It returns nil if the group does not hold the
// message, or holds a requeued copy of it.
func (s *shard) holds(m *message) *job {
	if j := s.byNumber[m.position]; j != nil && !j.requeued {
		return j
	}
	return nil
}

// miss updates the group after the loss of a message.
func (s *shard) miss(m *message, now int64) {
	// The group had not reached the message. The cursor skips it, and only this group misses it.
	if m.ordinal > s.reader.cursor {
		s.reader.cursor = m.ordinal
		s.reader.stats.Missed++
		return
	}

	// A dead copy does not depend on the log, so it stays.
	if j := s.holds(m); j != nil {
		s.limiter.Lose(j.number)
		s.giveUp(j)
		s.freeKey(j, now)
		s.reader.stats.Missed++
	}
}

// giveUp removes a held message in any state.
func (s *shard) giveUp(j *job) { s.place(j, duly.StateNone, nil) }

// dropCopy drops the dead copy of a message that dies again.
func (s *shard) dropCopy(id string) {
	if s.reader == nil || s.reader.copies[id] == nil {
		return
	}
	s.place(s.reader.copies[id], duly.StateNone, nil)
	s.counters.Dropped++
}

// floor returns the ordinal of the first message that the group needs.
func (s *shard) floor() uint64 {
	// The oldest held message may lie before the cursor, and its body is still needed.
	if first := s.reader.held.first(); first != nil {
		return contract.PositionPartsOf(first.number).Ordinal
	}
	return s.reader.cursor + 1
}

// checkID returns an error for an ID that is not a position of the group's topic.
func (q *queue) checkID(id string) error {
	if q == nil || q.group == nil {
		return nil
	}
	n, ok := duly.ParseNumber(id)
	if !ok || contract.PositionPartsOf(n).Topic != contract.TopicChecksum(q.group.topic.ref) {
		return contract.ForeignPosition(q.ref, id)
	}
	return nil
}

// lookUp finds a job by its ID. If a group both holds a message and has a dead copy of it, lookUp
// returns the held message.
func (q *queue) lookUp(id string) (*shard, *job) {
	if q == nil {
		return nil, nil
	}
	s := q.of(id)

	// The held message comes before a dead copy, because only it can be leased.
	j := s.byID[id]
	if j == nil && s.reader != nil {
		j = s.reader.copies[id]
	}
	return s, j
}

// beyond reports whether a position lies beyond the cursor of a group.
func (q *queue) beyond(id string) bool {
	if q == nil || q.group == nil {
		return false
	}
	s := q.of(id)
	n, _ := duly.ParseNumber(id)
	m := s.reader.log.at(n)
	return m != nil && m.ordinal > s.reader.cursor
}

// missing returns the error for a job that does not exist.
func (q *queue) missing(ref duly.QueueRef, id string) error {
	if q != nil && q.group != nil {
		return contract.NoMessage(ref, id)
	}
	return contract.NotFound(ref, id)
}
