package topics

import (
	"context"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/link"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// stepAll is the number of sweeps between two steps of idle groups. Idle groups need steps, because
// their dead copies grow too old.
const stepAll = 20

// SweepTopics runs the due steps of a namespace's topics, and finishes interrupted destructions.
// One call per shard returns which groups have work.
func (e *Topics) SweepTopics(ctx context.Context, namespace string, n uint64) (failed error) {
	note := func(err error) {
		if err != nil && failed == nil {
			failed = err
		}
	}
	met := map[string]bool{}
	err := e.EachTopic(ctx, namespace, func(name string, q *catalog.Queue, err error) error {
		met[name] = true
		switch {
		case err != nil:
			note(err)
		case q.Topic == nil:
		case q.Tomb:
			note(e.FinishDestroy(ctx, q))
		default:
			note(e.sweep(ctx, q, n%stepAll == 1))
		}
		// An error of one topic must not stop the sweep of the others.
		return ctx.Err()
	})
	// After an error some topics were not visited.
	if note(err); err == nil {
		e.misses.forget(namespace, met)
	}
	return failed
}

// sweep runs the due steps of one topic.
func (e *Topics) sweep(ctx context.Context, q *catalog.Queue, all bool) error {
	q, err := e.forgetGone(ctx, q)
	if err != nil {
		return err
	}
	return e.WithTopic(ctx, q.Ref, func(q *catalog.Queue) error {
		for _, s := range q.Shards {
			for more := true; more; {
				if more, err = e.StepTopic(ctx, q, s); err != nil {
					return err
				}
			}
			if err := e.sweepMisses(ctx, q, s); err != nil {
				return err
			}
			if err := e.sweepGroups(ctx, q, s, all); err != nil {
				return err
			}
		}
		return nil
	})
}

// sweepGroups steps the groups of one shard that have work, or all groups.
func (e *Topics) sweepGroups(ctx context.Context, q *catalog.Queue, s *catalog.Shard, all bool) error {
	names := q.Topic.Names()
	if len(names) == 0 {
		return nil
	}
	// One call covers all groups of the shard.
	c := link.Call{Script: store.ScriptGroupLook.Script, Args: []string{e.Clock()}}
	for _, name := range names {
		view := q.Group(name)
		at := view.Shards[s.Index]
		c.Keys = append(c.Keys, store.LogKeys(store.LookKeys, at.Base, at.Tag)...)
		c.Args = append(c.Args, view.Version, at.Limits, name)
	}
	msg, err := e.Link.Run(ctx, c)
	if err != nil {
		return err
	}
	for i, m := range codec.Elements(&msg)[1:] {
		if found := codec.Elements(&m); !all && codec.Integer(&found[0]) == 0 {
			continue
		}
		view := q.Group(names[i])
		for more := true; more; {
			if more, _, _, err = e.StepGroup(ctx, view, view.Shards[s.Index], true); err != nil {
				return err
			}
		}
	}
	return nil
}

// sweepMisses counts and logs the messages that groups of a shard have missed.
func (e *Topics) sweepMisses(ctx context.Context, q *catalog.Queue, s *catalog.Shard) error {
	// Most topics have no limit that deletes messages, so nothing more must be read.
	if !mayMiss(q) {
		return nil
	}
	before, first, err := e.missedIn(ctx, q, s)
	if err != nil {
		return err
	}
	// A group counts its missed messages only in its own step, so each group is stepped here.
	after := before
	for name, m := range before {
		if m.low >= first || q.Topic.Find(name) == nil {
			continue
		}
		view := q.Group(name)
		if _, _, _, err := e.StepGroup(ctx, view, view.Shards[s.Index], true); err != nil {
			return err
		}
		if after, first, err = e.missedIn(ctx, q, s); err != nil {
			return err
		}
	}

	for name, m := range after {
		group := duly.QueueRef{Namespace: q.Ref.Namespace, Name: duly.GroupName(q.Ref.Name, name)}
		note, due := e.misses.note(shardOfGroup{group, s.Index}, before[name], m, first, e.Local().Mono())
		if due {
			e.Settings.Logger.Warn("a group has missed messages, which a limit of its topic or idle has deleted",
				"group", group.String(), "shard", s.Index, "first", note.first, "last", note.last, "messages", note.n)
		}
	}
	return nil
}

// missedIn reads what each group of a shard has missed, and the ordinal of the first stored
// message.
func (e *Topics) missedIn(ctx context.Context, q *catalog.Queue, s *catalog.Shard) (all map[string]missed,
	first int64, err error) {
	r, err := e.CallTopic(ctx, q, s, store.ScriptTopicStats)
	if err != nil {
		return nil, 0, err
	}
	n, _ := readNumbers(codec.Text(&r.Rest[1]), topicNumbers)
	all = map[string]missed{}
	heads := codec.Elements(&r.Rest[4])
	for i := 0; i+1 < len(heads); i += 2 {
		g, _ := readNumbers(codec.Text(&heads[i+1]), groupNumbers)
		all[codec.Text(&heads[i])] = missed{g["missed"], g["low"]}
	}
	return all, n["first"], nil
}

// mayMiss reports whether a topic's settings can delete messages that its groups need.
func mayMiss(q *catalog.Queue) bool {
	c := &q.Topic.Config
	if c.MaxAge != duly.None || c.MaxCount != duly.None || c.MaxBytes != duly.None {
		return true
	}
	for _, g := range q.Topic.Groups {
		if g.Config.Group.Idle != duly.None {
			return true
		}
	}
	return false
}
