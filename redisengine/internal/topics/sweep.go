package topics

import (
	"context"

	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/link"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// stepAll is the number of sweeps between two steps of idle groups, whose dead copies may
// be too old.
const stepAll = 20

// SweepTopics moves the topics of a namespace forward, and finishes what an interrupted
// destruction has left. One call per shard says which groups have something to do.
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
		return ctx.Err()
	})
	if note(err); err == nil {
		e.misses.forget(namespace, met)
	}
	return failed
}

// sweep moves one topic forward.
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

// sweepGroups steps the groups of one shard that have something to do, or all.
func (e *Topics) sweepGroups(ctx context.Context, q *catalog.Queue, s *catalog.Shard, all bool) error {
	names := q.Topic.Names()
	if len(names) == 0 {
		return nil
	}
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
