package sqliteengine

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/sqliteengine/internal/sq"
)

// groupState is the part of a queue that only a group has.
type groupState struct {
	topic      duly.QueueRef // zero if the topic is missing in a damaged file
	topicID    int64
	conditions []duly.Condition
	// held is a lower bound on the ordinal of the first message that the group holds,
	// never without one. It is read again when it is stale.
	held   int64
	stale  bool
	called int64 // time of the last Reserve
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

// scanGroup reads a row of topic_groups and topic_cursors. The second may be missing
// in a damaged file: the group then begins at the start.
func (q *queue) scanGroup(s *sq.Stmt) {
	g, c := &groupState{stale: true}, &q.cfg.Group
	c.Order = duly.OrderNone
	if s.ColInt(1) != 0 {
		c.Order = duly.OrderKeys
	}
	c.MaxHeld, c.Filter = int(s.ColInt(2)), duly.Filter(s.ColText(3))
	c.Idle, c.Target = time.Duration(s.ColInt(4)), s.ColText(5)
	g.conditions, _ = contract.FilterConditions(c.Filter) // Configure has validated it
	if !s.ColNull(6) {
		for i, n := range g.n.columns() {
			*n = s.ColInt(6 + i)
		}
	}
	g.called = g.n.reserved
	q.group = g
}

// saveGroup writes the changed rows of a group.
func (q *queue) saveGroup(c *conn) error {
	g := q.group
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

// checkKnown returns an error for the name of a topic or of an unknown group. An unknown
// queue is no error.
func (t *tx) checkKnown(ref duly.QueueRef) error {
	q := t.peek(ref)
	switch topic, _, isGroup := ref.Group(); {
	case q != nil && q.kind == kindTopic:
		return contract.IsTopic(ref)
	case !isGroup:
		return nil
	case t.peek(topic) == nil || t.peek(topic).kind != kindTopic:
		return contract.NoTopic(topic)
	case q == nil:
		return contract.NoGroup(ref)
	}
	return nil
}

// stepAll moves a topic and all its groups forward.
func (t *tx) stepAll(topic *queue) (more bool, err error) {
	if more, err = t.stepTopic(topic); err != nil {
		return false, err
	}
	for _, ref := range topic.log.groups {
		if g := t.queue(ref); g != nil {
			again, err := t.step(g)
			if err != nil {
				return false, err
			}
			more = more || again
		}
	}
	return more, nil
}

// CreateGroup implements contract.TopicOperator.
func (e *Engine) CreateGroup(ctx context.Context, ref duly.QueueRef, from duly.From) (existed bool, err error) {
	if err := contract.ValidateGroup(ref); err != nil {
		return false, err
	}

	ref = ref.Normal()
	topic, _, _ := ref.Group()
	parts, err := contract.ParseFromIn(from, topic, false)
	if err != nil {
		return false, err
	}

	err = e.changeWithSpace(ctx, spaceLarge, func(t *tx) error {
		existed = t.peek(ref) != nil
		if existed {
			return nil
		}
		at, err := t.mayCreate(topic, from, parts)
		if err != nil {
			return err
		}
		q, err := t.makeTopic(topic)
		if err != nil {
			return err
		}
		return t.addGroup(q, ref, at)
	})
	return existed, err
}

// mayCreate returns the first message of a new group, or the error if its topic cannot
// have another group. It changes nothing.
func (t *tx) mayCreate(topic duly.QueueRef, from duly.From, parts contract.FromParts) (first int64, err error) {
	q := t.peek(topic)
	if q == nil || q.kind != kindTopic {
		q = &queue{ref: topic, kind: kindTopic, log: newTopicLog(topic)}
	}
	at, err := t.findPlace(q, from, parts)
	if err == nil && len(q.log.groups) >= duly.MaxGroups {
		err = contract.GroupsFull(topic)
	}
	return at.first, err
}

// addGroup stores a new group.
func (t *tx) addGroup(topic *queue, ref duly.QueueRef, first int64) error {
	q := &queue{ref: ref, kind: kindGroup, cfg: contract.DefaultGroupConfig()}
	q.group = &groupState{
		topic: topic.ref, topicID: topic.id, held: never, called: t.now,
		n: groupNumbers{start: first, cursor: first - 1, reserved: t.now},
	}
	if err := t.addQueue(q); err != nil {
		return err
	}
	groups := append(slices.Clone(topic.log.groups), ref)
	slices.SortFunc(groups, compareNames)
	topic.log.groups = groups
	_, err := t.floor(topic)
	return err
}

// seekPoint is the place of a From in a log.
type seekPoint struct {
	first   int64 // ordinal of the first stored message from there on
	wanted  int64 // ordinal of the From, whose message may be deleted
	clipped bool  // messages from wanted on are deleted
}

// findPlace finds a From in a log. It returns ErrInvalid for a From ahead of the log.
func (t *tx) findPlace(q *queue, from duly.From, parts contract.FromParts) (seekPoint, error) {
	if parts.Kind == contract.KindTime && parts.Time.After(t.time) {
		return seekPoint{}, contract.AheadOfLog(from)
	}
	at, ahead, err := t.point(q, parts)
	if err == nil && ahead {
		err = contract.AheadOfLog(from)
	}
	return at, err
}

// point finds a From in a log. ahead reports a position beyond the end.
func (t *tx) point(q *queue, p contract.FromParts) (at seekPoint, ahead bool, err error) {
	n := &q.log.n
	switch p.Kind {
	case contract.KindEnd:
		at.wanted = n.last + 1
	case contract.KindTime:
		at, err = t.pointAtTime(q, clock.CeilMilli(p.Time))
	case contract.KindPosition:
		parts := contract.PositionPartsOf(p.Position)
		at.wanted = int64(parts.Ordinal)
		at.clipped = at.wanted < n.first
		ahead = parts.Shard != 0 || at.wanted > n.last
	default:
		at.wanted = n.first
	}
	at.first = max(at.wanted, n.first)
	return at, ahead, err
}

// pointAtTime finds the first message that entered at ms or later.
func (t *tx) pointAtTime(q *queue, ms int64) (at seekPoint, err error) {
	n := &q.log.n
	oldest := logPlace{ms: n.lastMs + 1} // in an empty log, the target may be its last message
	if n.messages() > 0 {
		if oldest, err = t.messageAt(q, n.first); err != nil {
			return at, err
		}
	}
	p, err := t.firstSince(q, ms)
	return seekPoint{wanted: p.ordinal, clipped: n.first > 1 && ms < oldest.ms}, err
}

// Groups implements contract.TopicOperator.
func (e *Engine) Groups(ctx context.Context, ref duly.QueueRef, p duly.PageParams) (page duly.NamePage, err error) {
	if err := contract.ValidateTopic(ref); err != nil {
		return page, err
	}
	if err := contract.ValidateNamePage(&p); err != nil {
		return page, err
	}

	err = e.onTopicSnapshot(ctx, ref, func(t *tx, q *queue) error {
		page = duly.NamePage{}
		s := t.stmt("group_names").Text(1, duly.GroupName(q.ref.Name, p.Cursor)).Int(2, int64(p.Limit)+1)
		s.Text(3, q.ref.Namespace).Text(4, q.ref.Name+"A")
		return eachRow(s, func(s *sq.Stmt) {
			_, name, _ := strings.Cut(s.ColText(0), "@")
			page.Names = append(page.Names, name)
		})
	})

	if len(page.Names) > p.Limit {
		page.Names = page.Names[:p.Limit]
		page.Next = page.Names[p.Limit-1]
	}
	return page, err
}

// onGroup runs an operation on one group.
func (e *Engine) onGroup(ctx context.Context, ref duly.QueueRef, n spaceClass, run func(t *tx, q, topic *queue) error) error {
	if err := contract.ValidateGroup(ref); err != nil {
		return err
	}
	return e.changeWithSpace(ctx, n, func(t *tx) error {
		if err := t.checkKnown(ref.Normal()); err != nil {
			return err
		}
		q := t.queue(ref.Normal())
		return run(t, q, t.topicOf(q))
	})
}

// Seek implements contract.TopicOperator.
func (e *Engine) Seek(ctx context.Context, ref duly.QueueRef, to duly.From) (r contract.SeekResult, err error) {
	topic, _, _ := ref.Normal().Group()
	err = contract.ValidateGroup(ref)
	var parts contract.FromParts
	if err == nil {
		parts, err = contract.ParseFromIn(to, topic, false)
	}
	if err != nil {
		return r, err
	}

	err = e.onGroup(ctx, ref, spaceNone, func(t *tx, q, topic *queue) error {
		at, err := t.findPlace(topic, to, parts)
		if err != nil {
			return err
		}
		r = q.seek(at)
		if err := t.dropHeld(q); err != nil {
			return err
		}
		_, err = t.floor(topic)
		return err
	})

	if err == nil {
		e.cancels.Publish(ref.Normal().Namespace, contract.Canceled{Queue: ref.Name})
	}
	return r, err
}

// seek moves the cursor, and counts the messages that the group gives up.
func (q *queue) seek(at seekPoint) contract.SeekResult {
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
func (t *tx) dropHeld(q *queue) error {
	for _, name := range []string{"group_jobs_drop", "group_bodies_drop", "group_heads_drop"} {
		if _, err := t.stmt(name).Int(1, q.id).Run(); err != nil {
			return err
		}
	}
	z := &q.sizes
	z.Delayed, z.Ready, z.Blocked, z.Leased = 0, 0, 0, 0
	q.earliest.due, q.earliest.leaseEnd = never, never
	q.group.held, q.group.stale = never, false
	return nil
}

// unlinkGroup removes a destroyed group from its topic.
func (t *tx) unlinkGroup(q *queue) {
	if topic := t.topicOf(q); topic != nil {
		topic.log.groups = slices.DeleteFunc(slices.Clone(topic.log.groups),
			func(ref duly.QueueRef) bool { return ref == q.ref })
	}
}

// configureGroup changes the configuration of a group.
func (t *tx) configureGroup(q *queue, patch duly.QueueConfig) error {
	order := q.cfg.Group.Order
	if patch.Group.Order == duly.OrderKeys && order != duly.OrderKeys && q.held() > 0 {
		return contract.OrderNeedsEmpty(q.ref, q.held())
	}
	to := duly.QueueRef{Namespace: q.ref.Namespace, Name: patch.Group.Target}
	if topic := t.peek(to); topic != nil && topic.kind == kindTopic {
		return contract.TargetIsTopic(to.Name)
	}
	q.cfg, q.cfgDirty = contract.PatchConfig(q.cfg, patch), true
	q.group.conditions, _ = contract.FilterConditions(q.cfg.Group.Filter) // patch.Validate has parsed it
	if order == q.cfg.Group.Order || order != duly.OrderKeys {
		return nil
	}

	for _, name := range []string{"group_unblock", "group_heads_drop"} {
		if _, err := t.stmt(name).Int(1, q.id).Run(); err != nil {
			return err
		}
	}
	q.sizes.Ready, q.sizes.Blocked = q.sizes.Ready+q.sizes.Blocked, 0
	return nil
}
