package topics

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/messages"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// maxPasses bounds how often a repair checks a shard of a group again, because a repair may
// reveal another fault.
const maxPasses = 4

// topicParts and groupParts are the parts that the scripts topic_check and group_check check. The
// log comes first, because a repair may have to take the numbers from it. The numbers come last.
var (
	topicParts = []string{"log", "messages", "groups", "records", "entries", "delayed", "numbers"}
	groupParts = []string{"run", "held", "sets", "ranges", "leases", "blocks", "busy", "dead", "copies", "limiter", "numbers"}
)

// checking is a Check of the topics of a namespace.
type checking struct {
	e      *Topics
	repair bool
	found  func(contract.Fault)
	looked int64
	mended int
	silent []silent
}

// silent is a shard of a group with deliverable messages and no marker. standing is the state of
// the shard as the script group_check returned it.
type silent struct {
	group    *catalog.Queue
	shard    *catalog.Shard
	standing string
}

// CheckTopics implements maintain.TopicMaintainer. One script call checks a part of a shard, and
// repairs it. Other calls may run in between.
func (e *Topics) CheckTopics(ctx context.Context, namespace string, repair bool,
	found func(contract.Fault)) (looked int64, err error) {
	c := &checking{e: e, repair: repair, found: found}
	err = e.EachTopic(ctx, namespace, func(name string, q *catalog.Queue, err error) error {
		if err != nil || q.Topic == nil || q.Tomb {
			// The check of the list reports unreadable entries.
			return nil
		}
		return c.topic(ctx, duly.QueueRef{Namespace: namespace, Name: name})
	})
	if err == nil {
		err = c.markersAgain(ctx)
	}
	return c.looked, err
}

// markersAgain checks missing markers again, because the process that took one may have been about
// to reserve. With the clock of a test no time would pass between the checks, so markersAgain does
// nothing.
func (c *checking) markersAgain(ctx context.Context) error {
	if len(c.silent) == 0 || c.e.Settings.Clock != nil {
		return nil
	}
	if err := clock.Sleep(ctx, clock.System(), store.Recheck); err != nil {
		return err
	}
	for _, s := range c.silent {
		if _, err := c.call(ctx, s.group, s.shard, "marker", s.standing); err != nil {
			return err
		}
	}
	return nil
}

func (c *checking) fault(ref duly.QueueRef, kind, id, detail string) {
	c.report(contract.Fault{Kind: kind, Queue: ref, ID: id, Detail: detail, Repaired: c.repair})
}

func (c *checking) report(f contract.Fault) {
	c.found(f)
	if f.Repaired {
		c.mended++
	}
}

func (c *checking) topic(ctx context.Context, ref duly.QueueRef) error {
	var w catalog.Walk
	return c.e.WithTopic(ctx, ref, func(q *catalog.Queue) error {
		return w.Each(q, 0, func(s *catalog.Shard) error {
			err := c.all(topicParts, func(part string, counts bool) error { return c.part(ctx, q, s, part, counts) })
			// A missing group is repaired before its own check, which needs it.
			if err == nil {
				err = c.groups(ctx, q, s)
			}
			if err := c.unreadable(q, s, err); err != nil {
				return err
			}
			for _, name := range q.Topic.Names() {
				view := q.Group(name)
				err := c.group(ctx, view, view.Shards[s.Index])
				if err := c.unreadable(view, s, err); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// unreadable reports a fault for the error of a script that could not read a shard, so that the
// check continues with the others. It returns any other error.
func (c *checking) unreadable(q *catalog.Queue, s *catalog.Shard, err error) error {
	e, ok := errors.AsType[*duly.Error](err)
	if !ok || e.Code != duly.CodeCorrupt && e.Code != duly.CodeInternal {
		return err
	}
	why := e.Message
	if e.Code == duly.CodeInternal {
		why = "one of its keys has a value that duly has not written; remove that, then run duly check --repair"
	}
	c.found(contract.Fault{Kind: "shard_unreadable", Queue: q.Ref,
		Detail: fmt.Sprintf("shard %d can't be checked: %s", s.Index, why)})
	return nil
}

// groups compares the groups of a shard with those of the configuration.
func (c *checking) groups(ctx context.Context, q *catalog.Queue, s *catalog.Shard) error {
	r, err := c.e.CallTopic(ctx, q, s, store.ScriptTopicStats)
	if err != nil {
		return err
	}
	heads := codec.Elements(&r.Rest[4])
	var has []string
	for i := 0; i+1 < len(heads); i += 2 {
		has = append(has, codec.Text(&heads[i]))
	}

	for _, name := range q.Topic.Names() {
		if slices.Contains(has, name) {
			continue
		}
		c.fault(q.Ref, "group_missing", "", fmt.Sprintf("shard %d lacks the group %s", s.Index, name))
		if c.repair {
			if err := c.e.Propagate(ctx, q, s); err != nil {
				return err
			}
		}
	}
	for _, name := range has {
		if slices.ContainsFunc(q.Topic.Groups, func(g *catalog.Group) bool { return g.Name == name }) {
			continue
		}
		c.fault(q.Ref, "group_not_listed", "", fmt.Sprintf("shard %d has a group %s that the topic does not have", s.Index,
			contract.Quoted(name)))
		if !c.repair {
			continue
		}
		// No configuration has this group, so no script would remove its keys.
		b := c.e.Link.B()
		for _, cmd := range c.e.Link.DoAll(ctx,
			b.Unlink().Key(store.LogKeys(store.GroupKeys, "", store.GroupTag(s.Tag, name))...).Build(),
			b.Hdel().Key(s.Tag+"heads").Field(name).Build()) {
			if cmd.Err != nil {
				return cmd.Err
			}
		}
	}
	return nil
}

// group checks a shard of a group.
func (c *checking) group(ctx context.Context, q *catalog.Queue, s *catalog.Shard) error {
	err := c.all(groupParts, func(part string, counts bool) error { return c.part(ctx, q, s, part, counts) })
	if err != nil {
		return err
	}
	standing, err := c.call(ctx, q, s, "marker", "")
	// A process may have just taken the marker, so the marker is checked again at the end.
	if standing != "" {
		c.silent = append(c.silent, silent{q, s, standing})
	}
	return cmp.Or(err, ctx.Err())
}

// all checks parts, and repeats that while it repairs faults.
func (c *checking) all(parts []string, check func(part string, first bool) error) error {
	for pass := range maxPasses {
		mended := c.mended
		for _, part := range parts {
			if err := check(part, pass == 0); err != nil {
				return err
			}
		}
		if c.mended == mended {
			break
		}
	}
	return nil
}

// part checks one part of a shard, page by page.
func (c *checking) part(ctx context.Context, q *catalog.Queue, s *catalog.Shard, part string, counts bool) error {
	looked := c.looked
	for from := "0"; from != ""; {
		var err error
		if from, err = c.call(ctx, q, s, part, from); err != nil {
			return err
		}
	}
	// Later passes count the same messages again.
	if !counts {
		c.looked = looked
	}
	return nil
}

// call checks a page of a part of a shard. It returns the start of the next page, or "".
func (c *checking) call(ctx context.Context, q *catalog.Queue, s *catalog.Shard, part, from string) (next string,
	err error) {
	repair := "0"
	if c.repair {
		repair = "1"
	}
	topic, _, isGroup := q.Ref.Group()
	var r catalog.Reply
	if isGroup {
		r, err = c.e.CallGroup(ctx, q, s, store.ScriptGroupCheck, repair, part, from)
	} else {
		r, err = c.e.CallTopic(ctx, q, s, store.ScriptTopicCheck, repair, part, from)
	}
	if err != nil {
		return "", err
	}
	for _, m := range codec.Elements(&r.Rest[1]) {
		f, id := codec.Elements(&m), ""
		if p, ok := messages.ReadPlace(codec.Text(&f[1])); ok {
			id = messages.ShardOf(topic, s.Index).Position(p).String()
		}
		// The operator has to end a fault that a repair leaves.
		stays := len(f) > 3 && codec.Integer(&f[3]) == 1
		c.report(contract.Fault{Kind: codec.Text(&f[0]), Queue: q.Ref, ID: id, Detail: codec.Text(&f[2]),
			Repaired: c.repair && !stays})
	}
	c.looked += codec.Integer(&r.Rest[2])
	return codec.Text(&r.Rest[0]), nil
}
