package topics

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// Groups implements contract.TopicOperator.
func (e *Topics) Groups(ctx context.Context, ref duly.QueueRef, p duly.PageParams) (page duly.NamePage, err error) {
	if err := contract.ValidateTopic(ref); err != nil {
		return page, err
	}
	if err := contract.ValidateNamePage(&p); err != nil {
		return page, err
	}
	if err := e.Alive(ctx); err != nil {
		return page, err
	}
	// The list is read, because the cache may lack a new group.
	q, err := e.Catalog.Read(ctx, ref.Normal())
	if err != nil {
		return page, err
	}
	if q == nil || q.Topic == nil || q.Tomb {
		return page, contract.NoTopic(ref)
	}
	names := slices.DeleteFunc(q.Topic.Names(), func(name string) bool { return name <= p.Cursor })
	if len(names) > p.Limit {
		names = names[:p.Limit]
		page.Next = names[p.Limit-1]
	}
	page.Names = names
	return page, nil
}

// CreateGroup implements contract.TopicOperator.
func (e *Topics) CreateGroup(ctx context.Context, ref duly.QueueRef, from duly.From) (existed bool, err error) {
	if err := contract.ValidateGroup(ref); err != nil {
		return false, err
	}
	ref = ref.Normal()
	topic, name, _ := ref.Group()
	parts, err := contract.ParseFromIn(from, topic, false)
	if err != nil {
		return false, err
	}
	if err := e.Alive(ctx); err != nil {
		return false, err
	}

	err = e.made(ctx, topic, func() error {
		existed, err = e.createGroup(ctx, topic, name, from, parts)
		return err
	})
	return existed, err
}

func (e *Topics) createGroup(
	ctx context.Context, topic duly.QueueRef, name string, from duly.From, parts contract.FromParts,
) (existed bool, err error) {
	q, err := e.find(ctx, topic)
	if err != nil {
		return false, err
	}
	if q != nil && q.Topic.Find(name) != nil {
		// The process that created the group may have died before all shards had it.
		return true, e.Propagate(ctx, q, q.Shards...)
	}
	now, err := e.Now(ctx)
	if err != nil {
		return false, err
	}
	// A topic that does not exist has no messages, so any position in it is after the end.
	if parts.Kind == contract.KindTime && parts.Time.After(now) || parts.Kind == contract.KindPosition && q == nil {
		return false, contract.AheadOfLog(from)
	}
	if q == nil {
		if q, err = e.make(ctx, topic, e.TopicConfig()); err != nil {
			return false, err
		}
	}
	if parts.Kind == contract.KindPosition {
		if ahead, err := e.isAhead(ctx, topic, parts.Position); err != nil || ahead {
			if err == nil {
				err = contract.AheadOfLog(from)
			}
			return false, err
		}
	}

	// A destroyed group with this name must be gone from every shard first.
	if q, err = e.forgetGone(ctx, q); err != nil {
		return false, err
	}
	_, err = e.change(ctx, q, store.ScriptQueuePut, func(q *catalog.Queue, version string) (duly.TopicConfig,
		[]*catalog.Group, error) {
		switch {
		case q.Topic.Find(name) != nil:
			existed = true
			return q.Topic.Config, q.Topic.Groups, nil
		case len(q.Topic.Names()) >= duly.MaxGroups:
			return q.Topic.Config, nil, contract.GroupsFull(topic)
		}
		cfg := contract.DefaultGroupConfig()
		cfg.Shards = len(q.Shards)
		g := catalog.NewGroup(name, version, cfg, now)
		beginGroup(g, parts, len(q.Shards))
		// The old entry of the same name is a removed group.
		groups := slices.DeleteFunc(slices.Clone(q.Topic.Groups), func(old *catalog.Group) bool { return old.Name == name })
		return q.Topic.Config, append(groups, g), nil
	})
	return existed && err == nil, err
}

// beginGroup sets the position at which a group begins in each shard.
func beginGroup(g *catalog.Group, p contract.FromParts, shards int) {
	switch p.Kind {
	case contract.KindEnd:
		g.From = "end"
	case contract.KindTime:
		g.From = "time"
		g.At = slices.Repeat([]int64{clock.CeilMilli(p.Time)}, shards)
	case contract.KindPosition:
		parts := contract.PositionPartsOf(p.Position)
		g.From = fmt.Sprintf("place%d", parts.Shard)
		// Other shards begin at the time of the position.
		g.At = slices.Repeat([]int64{parts.Millis}, shards)
		g.At[parts.Shard] = int64(parts.Ordinal)
	default:
		g.From = "start"
	}
}

// isAhead reports whether a position is beyond the end of its shard.
func (e *Topics) isAhead(ctx context.Context, topic duly.QueueRef, p duly.Position) (ahead bool, err error) {
	parts := contract.PositionPartsOf(p)
	err = e.WithTopic(ctx, topic, func(q *catalog.Queue) error {
		// A shard that the topic does not have has no messages.
		if ahead = parts.Shard >= len(q.Shards); ahead {
			return nil
		}
		r, err := e.CallTopic(ctx, q, q.Shards[parts.Shard], store.ScriptTopicRead, "0", "0", "0", "0", "0", "0")
		if err == nil {
			ahead = int64(parts.Ordinal) > codec.Integer(&r.Rest[2])
		}
		return err
	})
	return ahead, err
}

// forgetGone removes groups from the list that every shard has removed.
func (e *Topics) forgetGone(ctx context.Context, q *catalog.Queue) (*catalog.Queue, error) {
	if !slices.ContainsFunc(q.Topic.Groups, func(g *catalog.Group) bool { return g.Gone }) {
		return q, nil
	}
	// The shards go first: if this process dies, the mark in the list stays.
	if err := e.Propagate(ctx, q, q.Shards...); err != nil {
		return nil, err
	}
	gone := map[string]string{}
	for _, g := range q.Topic.Groups {
		if g.Gone {
			gone[g.Name] = g.Birth
		}
	}
	return e.change(ctx, q, store.ScriptQueueSet, func(q *catalog.Queue, _ string) (duly.TopicConfig, []*catalog.Group,
		error) {
		// A group that was created again since has another epoch mark.
		ended := func(g *catalog.Group) bool { return g.Gone && gone[g.Name] == g.Birth }
		return q.Topic.Config, slices.DeleteFunc(slices.Clone(q.Topic.Groups), ended), nil
	})
}

// DestroyGroup destroys a group. A repeated call finishes an interrupted one.
func (e *Topics) DestroyGroup(ctx context.Context, ref duly.QueueRef) error {
	if err := e.admitGroup(ctx, ref); err != nil {
		return err
	}
	ref = ref.Normal()
	topic, name, _ := ref.Group()
	q, err := e.Catalog.Read(ctx, topic)
	if err != nil || q == nil || q.Topic == nil || q.Tomb {
		return err
	}
	// The mark in the list makes every process stop using the group.
	if q.Topic.Find(name) != nil {
		q, err = e.change(ctx, q, store.ScriptQueueSet, func(q *catalog.Queue, _ string) (duly.TopicConfig,
			[]*catalog.Group, error) {
			groups := slices.Clone(q.Topic.Groups)
			for i, g := range groups {
				if g.Name == name {
					// Other goroutines read the cached group, so the mark is set in a copy.
					gone := *g
					gone.Gone, groups[i] = true, &gone
				}
			}
			return q.Topic.Config, groups, nil
		})
		if err != nil {
			return err
		}
		// Workers may be running messages of the group.
		e.cancels.Report(ref)
	}
	_, err = e.forgetGone(ctx, q)
	return err
}

// changeGroup changes the configuration of a group.
func (e *Topics) changeGroup(ctx context.Context, ref duly.QueueRef, sc *store.Script,
	f func(c *duly.QueueConfig) error) error {
	topic, name, _ := ref.Group()
	q, err := e.find(ctx, topic)
	// If the name belongs to a queue, there is no such topic.
	if duly.CodeOf(err) == duly.CodeConflict || err == nil && q == nil {
		return contract.NoTopic(topic)
	}
	if err != nil {
		return err
	}
	_, err = e.change(ctx, q, sc, func(q *catalog.Queue, _ string) (duly.TopicConfig, []*catalog.Group, error) {
		if q.Topic.Find(name) == nil {
			return q.Topic.Config, nil, contract.NoGroup(ref)
		}
		groups := slices.Clone(q.Topic.Groups)
		for i, g := range groups {
			if g.Name == name {
				// A change that fails must leave the cached group as it is.
				changed := *g
				if err := f(&changed.Config); err != nil {
					return q.Topic.Config, nil, err
				}
				groups[i] = &changed
			}
		}
		return q.Topic.Config, groups, nil
	})
	return err
}

// ConfigureGroup sets the fields of the patch that are not zero.
func (e *Topics) ConfigureGroup(ctx context.Context, ref duly.QueueRef, patch duly.QueueConfig) error {
	if err := contract.ValidateConfigFor(patch, ref); err != nil {
		return err
	}
	if err := e.admitGroup(ctx, ref); err != nil {
		return err
	}
	ref = ref.Normal()
	if err := e.checkTarget(ctx, ref.Namespace, patch.Group.Target); err != nil {
		return err
	}
	err := e.changeGroup(ctx, ref, store.ScriptQueuePut, func(c *duly.QueueConfig) error {
		// Keys can be ordered only from the first message on.
		if patch.Group.Order == duly.OrderKeys && c.Group.Order != duly.OrderKeys {
			if held, err := e.held(ctx, ref); err != nil || held > 0 {
				if err == nil {
					err = contract.OrderNeedsEmpty(ref, held)
				}
				return err
			}
		}
		*c = contract.PatchConfig(*c, patch)
		return contract.CheckConfig(*c)
	})
	if err != nil || !patch.Reopen {
		return err
	}
	return e.WithGroup(ctx, ref, func(q *catalog.Queue) error { return e.Reopen(ctx, q) })
}

// checkTarget returns [duly.ErrInvalid] for a target that is a topic.
func (e *Topics) checkTarget(ctx context.Context, namespace, target string) error {
	if target == "" || target == duly.NoTarget {
		return nil
	}
	q, err := e.Catalog.Read(ctx, duly.QueueRef{Namespace: namespace, Name: target})
	if err == nil && q != nil && q.Topic != nil && !q.Tomb {
		return contract.TargetIsTopic(target)
	}
	return err
}

// held returns how many messages a group holds.
func (e *Topics) held(ctx context.Context, ref duly.QueueRef) (int64, error) {
	st, err := e.GroupStats(ctx, ref)
	return st.Sizes.Ready + st.Sizes.Delayed + st.Sizes.Blocked + st.Sizes.Leased, err
}

// PauseGroup pauses or resumes a group.
func (e *Topics) PauseGroup(ctx context.Context, ref duly.QueueRef, paused bool) error {
	if err := e.admitGroup(ctx, ref); err != nil {
		return err
	}
	return e.changeGroup(ctx, ref.Normal(), store.ScriptQueueSet, func(c *duly.QueueConfig) error {
		c.Paused = paused
		return nil
	})
}

// GroupConfig returns the configuration of a group.
func (e *Topics) GroupConfig(ctx context.Context, ref duly.QueueRef) (duly.QueueConfig, error) {
	if err := e.admitGroup(ctx, ref); err != nil {
		return duly.QueueConfig{}, err
	}
	q, err := e.Catalog.Read(ctx, ref.Normal())
	if err != nil {
		return duly.QueueConfig{}, err
	}
	if q == nil {
		return duly.QueueConfig{}, e.Unknown(ctx, ref.Normal())
	}

	cfg := q.Config
	err = e.WithGroup(ctx, ref.Normal(), func(q *catalog.Queue) (err error) {
		cfg.Closing, err = e.LastClosing(ctx, q)
		return err
	})
	return cfg, err
}

// Seek implements contract.TopicOperator.
func (e *Topics) Seek(ctx context.Context, ref duly.QueueRef, to duly.From) (result contract.SeekResult, err error) {
	if err := contract.ValidateGroup(ref); err != nil {
		return result, err
	}
	ref = ref.Normal()
	topic, _, _ := ref.Group()
	parts, err := contract.ParseFromIn(to, topic, false)
	if err != nil {
		return result, err
	}
	if err := e.Alive(ctx); err != nil {
		return result, err
	}
	if q, err := e.Find(ctx, ref); err != nil || q == nil {
		if err == nil {
			err = e.Unknown(ctx, ref)
		}
		return result, err
	}

	if err := e.checkSeek(ctx, topic, to, parts); err != nil {
		return result, err
	}

	// A retry keeps the counts of the shards whose cursors have moved.
	var w catalog.Walk
	err = e.WithGroup(ctx, ref, func(q *catalog.Queue) error {
		return w.Each(q, 0, func(s *catalog.Shard) error {
			kind, at := seekArgs(parts, s.Index)
			r, err := e.CallGroup(ctx, q, s, store.ScriptGroupSeek, kind, at)
			if err != nil {
				return err
			}
			if r.Word == "future" {
				return contract.AheadOfLog(to)
			}
			result.Clipped = result.Clipped || codec.Integer(&r.Rest[0]) == 1
			result.Skipped += codec.Integer(&r.Rest[1])
			result.Replayed += codec.Integer(&r.Rest[2])
			return nil
		})
	})
	// The new cursor has taken leased messages away from their workers.
	if err == nil {
		e.cancels.Report(ref)
	}
	return result, err
}

// checkSeek refuses a target of a Seek that is after the end of the log.
func (e *Topics) checkSeek(ctx context.Context, topic duly.QueueRef, to duly.From, parts contract.FromParts) error {
	ahead := false
	var err error
	switch parts.Kind {
	case contract.KindTime:
		var now time.Time
		now, err = e.Now(ctx)
		ahead = parts.Time.After(now)
	case contract.KindPosition:
		ahead, err = e.isAhead(ctx, topic, parts.Position)
	}
	if err == nil && ahead {
		err = contract.AheadOfLog(to)
	}
	return err
}

// seekArgs returns the target of a Seek in one shard.
func seekArgs(p contract.FromParts, shard int) (kind, at string) {
	switch p.Kind {
	case contract.KindEnd:
		return "end", ""
	case contract.KindTime:
		return "time", strconv.FormatInt(clock.CeilMilli(p.Time), 10)
	case contract.KindPosition:
		parts := contract.PositionPartsOf(p.Position)
		if parts.Shard == shard {
			return "place", strconv.FormatUint(parts.Ordinal, 10)
		}
		return "time", strconv.FormatInt(parts.Millis, 10)
	}
	return "start", ""
}
