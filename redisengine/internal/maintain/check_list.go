package maintain

import (
	"context"
	"slices"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/link"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// namespace checks a namespace: its list of queues, and each queue.
func (c *check) namespace(ctx context.Context, namespace string) error {
	if err := c.configured(ctx, namespace); err != nil {
		return err
	}
	looked, err := c.topics.CheckTopics(ctx, namespace, c.p.Repair, func(f contract.Fault) {
		c.found(f.Queue, f.ID, scriptFault{f.Kind, f.Detail}, f.Repaired)
	})
	if err != nil {
		return err
	}
	// Topics count messages, which the progress adds to the jobs.
	if looked > 0 {
		c.report.Messages += looked
		c.before += looked
		c.progress(0, 0)
	}

	return c.e.EachPage(ctx, c.e.NamesKey(namespace), func(names []string) error {
		names, err := c.misnamed(ctx, namespace, names)
		if err != nil {
			return err
		}

		unreadable, err := c.named(ctx, namespace, c.e.NamesKey(namespace), names)
		if err != nil {
			return err
		}

		for _, name := range names {
			// The shards of such a queue can't be found without its configuration.
			if slices.Contains(unreadable, name) {
				continue
			}
			if err := c.queue(ctx, duly.QueueRef{Namespace: namespace, Name: name}); err != nil {
				return err
			}
		}

		return nil
	})
}

// configured looks for configurations of queues that the list lacks. No call would find these
// queues.
func (c *check) configured(ctx context.Context, namespace string) error {
	for cursor := uint64(0); ; {
		key := c.e.ConfigsKey(namespace)
		msg, err := c.e.Link.Do(ctx, c.e.Link.B().Hscan().Key(key).Cursor(cursor).Count(checkPage).Build())
		if err != nil {
			return err
		}

		page, err := msg.AsScanEntry()
		if err != nil {
			return c.e.UnexpectedReply("hscan " + key)
		}

		names, lists := map[string][]string{}, []string{c.e.NamesKey(namespace), c.e.TopicsKey(namespace)}
		for i := 0; i < len(page.Elements); i += 2 {
			name, value := page.Elements[i], page.Elements[i+1]
			// Topics and queues are in different lists.
			if list := c.e.ListKey(namespace, value); !store.InvalidTopic(name) {
				names[list] = append(names[list], name)
			} else if err := c.drop(ctx, namespace, name, value); err != nil {
				return err
			}
		}

		for _, list := range lists {
			if len(names[list]) == 0 {
				continue
			}
			// nil scores show the names that are missing in the list.
			scores, err := c.e.Link.Do(ctx, c.e.Link.B().Zmscore().Key(list).Member(names[list]...).Build())
			if err != nil {
				return err
			}
			if err := c.listed(ctx, namespace, list, names[list], scores); err != nil {
				return err
			}
		}

		if cursor = page.Cursor; cursor == 0 {
			return nil
		}
	}
}

// misnamed drops members of the list that can't be names of queues, and returns the others. The
// function configured has already handled invalid names that have a configuration.
func (c *check) misnamed(ctx context.Context, namespace string, all []string) (names []string, err error) {
	for _, name := range all {
		if !store.InvalidQueue(name) {
			names = append(names, name)
			continue
		}
		configured, err := c.e.Link.Do(ctx, c.e.Link.B().Hexists().Key(c.e.ConfigsKey(namespace)).Field(name).Build())
		if err != nil {
			return nil, err
		}
		if codec.Integer(&configured) == 1 {
			continue
		}
		if err := c.drop(ctx, namespace, name, ""); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// drop reports and removes an invalid name in the list of queues. Another program has written it,
// and no call could use or remove such a queue. The report has no queue.
func (c *check) drop(ctx context.Context, namespace, name, value string) error {
	fault := scriptFault{faultUnreadableList, contract.Quoted(name) +
		" can't be the name of a queue: something else has written it into the list"}
	c.found(duly.QueueRef{Namespace: namespace}, "", fault, c.p.Repair)
	if !c.p.Repair {
		return nil
	}
	_, err := c.e.Put(ctx, store.ScriptQueueSet, duly.QueueRef{Namespace: namespace, Name: name}, value, "")
	return err
}

// dropNamespace reports and removes an invalid name in the list of namespaces. The report has no
// queue.
func (c *check) dropNamespace(ctx context.Context, name string) error {
	fault := scriptFault{
		faultNoNamespace,
		contract.Quoted(name) + " can't be the name of a namespace: something else has written it into the list " + c.e.NamespacesKey(),
	}
	c.found(duly.QueueRef{}, "", fault, c.p.Repair)
	if !c.p.Repair {
		return nil
	}
	_, err := c.e.Link.Do(ctx, c.e.Link.B().Zrem().Key(c.e.NamespacesKey()).Member(name).Build())
	return err
}

// named looks for names of queues without a configuration. No call would find their jobs. It
// returns the names whose configuration is still unreadable.
func (c *check) named(ctx context.Context, namespace, list string, names []string) (unreadable []string, err error) {
	if len(names) == 0 {
		return nil, nil
	}

	values, err := c.e.Link.Do(ctx, c.e.Link.B().Hmget().Key(c.e.ConfigsKey(namespace)).Field(names...).Build())
	if err != nil {
		return nil, err
	}

	for i, m := range codec.Elements(&values) {
		ref := duly.QueueRef{Namespace: namespace, Name: names[i]}
		if m.IsNil() {
			continue
		}
		_, fault := c.e.ReadQueue(ref, codec.Text(&m))
		// Another layout is unreadable too, but not damaged.
		if duly.CodeOf(fault) != duly.CodeCorrupt {
			continue
		}
		c.found(ref, "", scriptFault{faultUnreadableList, fault.(*duly.Error).Message}, c.p.Repair)
		if !c.p.Repair {
			unreadable = append(unreadable, ref.Name)
		} else if err := c.rewrite(ctx, ref, codec.Text(&m)); err != nil {
			return nil, err
		}
	}

	return unreadable, c.listed(ctx, namespace, list, names, values)
}

// rewrite replaces a configuration that can't be read with that of the queue's first shard. If the
// shard's copy is damaged too, rewrite uses the default configuration and counts the shards.
func (c *check) rewrite(ctx context.Context, ref duly.QueueRef, was string) error {
	left, held, err := c.e.ShardConfig(ctx, ref, 0)
	if err != nil {
		return err
	}
	cfg := c.e.QueueConfig()
	if held != nil {
		cfg = held.Config
	} else if cfg.Shards, err = c.countShards(ctx, ref); err != nil {
		return err
	}
	now, err := c.e.Put(ctx, store.ScriptQueueSet, ref, was, catalog.PackConfig(c.e.NextVersion("", left), cfg, false))
	// nil means that another process has changed the entry.
	if err != nil || now == nil {
		return err
	}
	c.e.Settings.Logger.Error("a queue's configuration could not be read and was replaced; check the settings of the "+
		"queue",
		"queue", ref.String(), "shards", cfg.Shards, "from its shard", held != nil)
	return c.e.Propagate(ctx, now, now.Shards...)
}

// countShards returns the number of shards that a queue must have, given its existing keys.
func (c *check) countShards(ctx context.Context, ref duly.QueueRef) (int, error) {
	cmds := make([]rueidis.Completed, duly.MaxShards)
	for i := range cmds {
		cmds[i] = c.e.Link.B().Exists().Key(store.AppendKeys(nil, store.ShardTag(c.e.Prefix, ref, i),
			store.ShardKeys[:])...).Build()
	}
	shards := 1
	for i, r := range c.e.Link.DoAll(ctx, cmds...) {
		if r.Err != nil {
			return 0, r.Err
		}
		// The number of shards is a power of two above the last used index.
		for codec.Integer(&r.Msg) > 0 && shards <= i {
			shards *= 2
		}
	}
	return shards, nil
}

// listed checks the queues whose value is nil in the reply.
func (c *check) listed(ctx context.Context, namespace, list string, names []string, read rueidis.RedisMessage) error {
	for i, m := range codec.Elements(&read) {
		if !m.IsNil() {
			continue
		}

		ref := duly.QueueRef{Namespace: namespace, Name: names[i]}
		_, held, err := c.e.ShardConfig(ctx, ref, 0)
		if err != nil {
			return err
		}

		left := ""
		if held != nil {
			left = held.Value
		}

		// The script compares again, because a queue may have been created or destroyed since.
		msg, err := c.e.Link.Run(ctx, link.Call{
			Script: store.ScriptCheckList.Script, Keys: []string{list, c.e.ConfigsKey(namespace)},
			Args: []string{ref.Name, left, c.repair()},
		})

		if err != nil {
			return err
		}

		for _, f := range readFaults(&codec.Elements(&msg)[1]) {
			c.found(ref, "", f, c.p.Repair)
		}
	}

	return nil
}
