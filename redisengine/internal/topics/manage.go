package topics

import (
	"context"
	"errors"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// Topics implements contract.TopicOperator.
func (e *Topics) Topics(ctx context.Context, namespace string, p duly.PageParams) (duly.NamePage, error) {
	if err := contract.ValidateNamespace(namespace); err != nil {
		return duly.NamePage{}, err
	}
	return e.Names(ctx, e.TopicsKey(contract.NamespaceOr(namespace)), store.InvalidTopic, p)
}

// find reads a topic from the list. It returns nil if there is none. If the destruction of the
// topic was interrupted, find finishes it.
func (e *Topics) find(ctx context.Context, ref duly.QueueRef) (*catalog.Queue, error) {
	for {
		q, err := e.Catalog.Read(ctx, ref)
		switch {
		case err != nil || q == nil:
			return nil, err
		case q.Topic == nil:
			return nil, contract.IsQueue(ref)
		case !q.Tomb:
			return q, nil
		}
		if err := e.FinishDestroy(ctx, q); err != nil {
			return nil, err
		}
	}
}

// make returns a topic, and creates it if there is none.
func (e *Topics) make(ctx context.Context, ref duly.QueueRef, cfg duly.TopicConfig) (*catalog.Queue, error) {
	q, err := e.CreateTopic(ctx, ref, cfg)
	if err == nil && q.Topic == nil {
		return nil, contract.IsQueue(ref)
	}
	return q, err
}

// change changes the configuration of a topic: in the list first, then in every shard. f returns
// the new configuration and its groups. If the groups are nil, nothing changes. An error of f
// ends the call.
func (e *Topics) change(
	ctx context.Context, q *catalog.Queue, sc *store.Script,
	f func(q *catalog.Queue, version string) (duly.TopicConfig, []*catalog.Group, error),
) (*catalog.Queue, error) {
	c := e.Retry(ctx)
	for c.Next() {
		version := e.NextVersion(q.Version)
		cfg, groups, err := f(q, version)
		if err != nil {
			return nil, err
		}
		next, err := e.ReplaceTopic(ctx, sc, q, version, cfg, groups)
		if err != nil {
			return nil, err
		}
		if next != nil {
			return next, e.Propagate(ctx, next, next.Shards...)
		}
		// Another process was faster, so f must get its configuration.
		ref := q.Ref
		if q, err = e.find(ctx, ref); err != nil {
			return nil, err
		}
		if q == nil {
			return nil, contract.NoTopic(ref)
		}
	}
	return nil, c.Failed("the configuration of topic %s keeps changing", q.Ref)
}

// ConfigureTopic implements contract.TopicOperator.
func (e *Topics) ConfigureTopic(ctx context.Context, ref duly.QueueRef, patch duly.TopicConfig) error {
	if err := contract.ValidateTopic(ref); err != nil {
		return err
	}
	if err := contract.ValidateTopicConfig(patch); err != nil {
		return err
	}
	if err := e.Alive(ctx); err != nil {
		return err
	}

	return e.made(ctx, ref, func() error { return e.configureTopic(ctx, ref.Normal(), patch) })
}

// made retries a call that creates its topic, if the topic is destroyed during the call.
func (e *Topics) made(ctx context.Context, topic duly.QueueRef, call func() error) error {
	c := e.Retry(ctx)
	for c.Next() {
		if err := call(); !errors.Is(err, duly.ErrNotFound) {
			return err
		}
	}
	return c.Failed("topic %s is being destroyed", topic)
}

func (e *Topics) configureTopic(ctx context.Context, ref duly.QueueRef, patch duly.TopicConfig) error {
	cfg := contract.PatchTopicConfig(e.TopicConfig(), patch)
	q, err := e.find(ctx, ref)
	if err == nil && q == nil {
		if err := contract.CheckTopicConfig(cfg); err != nil {
			return err
		}
		q, err = e.make(ctx, ref, cfg)
	}
	// A new topic already has this configuration.
	if err != nil || q.Topic.Config == cfg && patch.Shards != 0 {
		return err
	}
	_, err = e.change(ctx, q, store.ScriptQueuePut, func(q *catalog.Queue, _ string) (duly.TopicConfig, []*catalog.Group,
		error) {
		if patch.Shards != 0 && patch.Shards != len(q.Shards) {
			return cfg, nil, contract.Invalid("shards", "is %d since the topic was created; to change it, destroy the topic and create it again",
				len(q.Shards))
		}
		cfg := contract.PatchTopicConfig(q.Topic.Config, patch)
		return cfg, q.Topic.Groups, contract.CheckTopicConfig(cfg)
	})
	return err
}

// DestroyTopic implements contract.TopicOperator.
func (e *Topics) DestroyTopic(ctx context.Context, ref duly.QueueRef) error {
	if err := e.admit(ctx, ref); err != nil {
		return err
	}
	ref = ref.Normal()
	c := e.Retry(ctx)
	for c.Next() {
		q, err := e.Catalog.Read(ctx, ref)
		if err != nil || q == nil || q.Topic == nil {
			return err
		}
		if q.Tomb {
			return e.FinishDestroy(ctx, q)
		}
		// The mark in the list comes first, so an interrupted destruction is finished.
		tomb, err := e.Put(
			ctx, store.ScriptQueueSet, ref, q.Value,
			catalog.PackTopic(e.NextVersion(q.Version), q.Topic.Born, q.Topic.Config, q.Topic.Groups, true),
		)
		if err != nil {
			return err
		}
		if tomb != nil {
			// This process must not use the topic while its shards are being emptied.
			e.Cache.Forget(q)
			// The announcement ends Reads that wait for the topic.
			defer e.announce(q)
			return e.FinishDestroy(ctx, tomb)
		}
	}
	return c.Failed("topic %s keeps changing", ref)
}
