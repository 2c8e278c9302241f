package catalog

import (
	"context"
	"encoding/hex"
	"slices"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/link"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// CreateTopic returns a topic, and creates it if there is none. It returns a queue if the name
// belongs to one.
func (e *Catalog) CreateTopic(ctx context.Context, ref duly.QueueRef, cfg duly.TopicConfig) (*Queue, error) {
	born := hex.EncodeToString([]byte(newMark()))
	return e.create(ctx, ref, func(version string) string { return PackTopic(version, born, cfg, nil, false) })
}

// TopicConfig returns the configuration of a topic that was never configured.
func (e *Catalog) TopicConfig() duly.TopicConfig {
	c := contract.DefaultTopicConfig()
	c.Shards = e.Settings.Shards
	return c
}

// NewGroup returns a group that is created by the configuration with this version.
func NewGroup(name, version string, cfg duly.QueueConfig, now time.Time) *Group {
	birth := hex.EncodeToString([]byte(newMark()))
	return &Group{Name: name, Birth: birth, Made: numberOf(version), Since: clock.Milli(now), Config: cfg}
}

// ReplaceTopic stores another configuration of a topic in place of the one that was read. It
// returns nil if the list has changed since. The script is ScriptQueuePut or ScriptQueueSet.
func (e *Catalog) ReplaceTopic(
	ctx context.Context, sc *store.Script, q *Queue, version string, cfg duly.TopicConfig, groups []*Group,
) (*Queue, error) {
	return e.Put(ctx, sc, q.Ref, q.Value, PackTopic(version, q.Topic.Born, cfg, groups, false))
}

// CallTopic runs a script on a shard of a topic. Clock and version are its first arguments.
func (e *Catalog) CallTopic(ctx context.Context, q *Queue, s *Shard, sc *store.LogScript, args ...string) (Reply,
	error) {
	return e.run(ctx, q, s, link.Call{Script: sc.Script, Keys: sc.Names(s.Tag, ""), Args: args})
}

// StepTopic makes one step in a shard of a topic, without its groups.
func (e *Catalog) StepTopic(ctx context.Context, q *Queue, s *Shard) (more bool, err error) {
	c := q.TopicCall(s)
	r, err := e.run(ctx, q, s, link.Call{Script: store.ScriptTopicStep.Script, Keys: c.Keys,
		Args: []string{c.Limits, c.Groups}})
	return err == nil && codec.Integer(&r.Rest[0]) == 1, err
}

// CallGroup runs a script on a shard of a group. Clock, version, limits and the group's name are
// its first arguments. It repeats a script that answers "behind". Before it repeats a script that
// only reads, it makes a step.
func (e *Catalog) CallGroup(ctx context.Context, q *Queue, s *Shard, sc *store.LogScript, args ...string) (Reply,
	error) {
	for {
		r, err := e.CallGroupOnce(ctx, q, s, sc, false, args...)
		if err != nil || r.Word != "behind" {
			return r, err
		}
		// A script that only reads can't make the step itself.
		if sc.ReadOnly {
			if _, err := e.CallGroupOnce(ctx, q, s, store.ScriptGroupStep, false, "0"); err != nil {
				return r, err
			}
		}
	}
}

// CallGroupOnce is like CallGroup but without repeats. once has the same meaning as in [link.Call].
func (e *Catalog) CallGroupOnce(ctx context.Context, q *Queue, s *Shard, sc *store.LogScript, once bool,
	args ...string) (Reply, error) {
	return e.run(
		ctx, q, s,
		link.Call{Script: sc.Script, Keys: sc.Names(s.Base, s.Tag),
			Args: append([]string{s.Limits, q.View.Group.Name}, args...), Once: once},
	)
}

// WriteGroup is like Write for a group.
func (e *Catalog) WriteGroup(ctx context.Context, q *Queue, s *Shard, sc *store.LogScript, args ...string) (r Reply,
	durable, err error) {
	all := append([]string{e.Clock(), q.Version, s.Limits, q.View.Group.Name}, args...)
	for {
		// The link appends to the arguments, so each attempt needs a copy.
		r, durable, err = e.write(ctx, q, s, link.Call{Script: sc.Script, Keys: sc.Names(s.Base, s.Tag),
			Args: slices.Clone(all)})
		if err != nil || r.Word != "behind" {
			return r, durable, err
		}
	}
}

// WriteTopic is like Write for a topic, with a script that wakes its groups.
func (e *Catalog) WriteTopic(
	ctx context.Context, q *Queue, s *Shard, sc *store.LogScript, waited bool, args ...string,
) (r Reply, durable, err error) {
	c := q.TopicCall(s)
	all := append([]string{e.Clock(), q.Version, c.Limits, c.Groups}, args...)
	return e.write(ctx, q, s, link.Call{Script: sc.Script, Keys: c.Keys, Args: all, Waited: waited})
}

// StepShard makes one step in a shard of a queue or a group. It returns the server's time and the
// end of the first lease, 0 for none, both in ms.
func (e *Catalog) StepShard(ctx context.Context, q *Queue, s *Shard) (more bool, now, first int64, err error) {
	if q.View != nil {
		return e.StepGroup(ctx, q, s, true)
	}
	r, err := e.Call(ctx, q, s, store.ScriptStep, s.Limits)
	return readStep(r, err)
}

// StepGroup is like StepShard for a group. Unless trim is set, it does not trim the log.
func (e *Catalog) StepGroup(ctx context.Context, q *Queue, s *Shard, trim bool) (more bool, now, first int64,
	err error) {
	kind := "2"
	if trim {
		kind = "1"
	}
	for {
		r, err := e.CallGroupOnce(ctx, q, s, store.ScriptGroupStep, false, kind)
		if err != nil || r.Word != "behind" {
			return readStep(r, err)
		}
	}
}

func readStep(r Reply, err error) (more bool, now, first int64, _ error) {
	if err != nil {
		return false, 0, 0, err
	}
	return codec.Integer(&r.Rest[0]) == 1, codec.Integer(&r.Rest[1]), codec.Integer(&r.Rest[2]), nil
}

// WithGroup calls f with a group, as With does. It fails if there is no such group.
func (e *Catalog) WithGroup(ctx context.Context, ref duly.QueueRef, f func(q *Queue) error) error {
	return e.With(ctx, ref, func(q *Queue) error {
		if q == nil {
			return e.Unknown(ctx, ref)
		}
		return f(q)
	})
}

// WithTopic calls f with a topic, as With does. It fails if there is no such topic.
func (e *Catalog) WithTopic(ctx context.Context, ref duly.QueueRef, f func(q *Queue) error) error {
	return e.with(ctx, ref, func(q *Queue) error {
		if q == nil || q.Topic == nil {
			return contract.NoTopic(ref)
		}
		return f(q)
	})
}

// Unknown returns the error for a group that does not exist.
func (e *Catalog) Unknown(ctx context.Context, ref duly.QueueRef) error {
	topic, _, _ := ref.Group()
	q, err := e.Find(ctx, topic)
	switch {
	case err != nil:
		return err
	case q == nil || q.Topic == nil:
		return contract.NoTopic(topic)
	}
	return contract.NoGroup(ref)
}
