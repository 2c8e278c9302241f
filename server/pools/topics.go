package pools

import (
	"context"
	"errors"
	"strings"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

var _ contract.Topics = (*Pools)(nil)

// topics returns the topics of a namespace's pool. A move drains queues and cannot drain a log.
func (r *Pools) topics(ctx context.Context, namespace string) (contract.Topics, error) {
	topics, engine, err := optional[contract.Topics](ctx, r, namespace, "topics")
	return observedTopics{topics, engine}, err
}

// optional returns an optional interface of the engine of a namespace's pool, and that engine. It
// returns conflict for a namespace that moves, because a move does not copy the data of that
// interface. plural names the data in errors.
func optional[T any](ctx context.Context, r *Pools, namespace, plural string) (part T, e *observedEngine, err error) {
	engine, err := r.engineOf(ctx, namespace)
	if err != nil {
		return part, nil, err
	}

	switch e := engine.(type) {
	case *migratingEngine:
		return part, nil, contract.Errorf(duly.CodeConflict,
			"namespace %s is moving to another pool and cannot have %s until the move ends; see duly pool status",
			contract.NamespaceOr(namespace), plural)
	case *observedEngine:
		if part, ok := e.Engine.(T); ok {
			return part, e, nil
		}
	}
	return part, nil, unsupported(namespace, plural)
}

func unsupported(namespace, plural string) error {
	return contract.Errorf(duly.CodeUnsupported,
		"the engine of namespace %s does not support %s; use a pool whose engine does",
		contract.NamespaceOr(namespace), plural)
}

// maxNamed is the maximum number of topics that an error names.
const maxNamed = 10

// refuseTopics returns ErrConflict if an engine has topics of a namespace.
func refuseTopics(ctx context.Context, e contract.Engine, namespace string) error {
	names, err := topicsIn(ctx, e, namespace)
	if err != nil || len(names) == 0 {
		return err
	}
	return contract.Errorf(duly.CodeConflict,
		"namespace %s has topics, which cannot move: %s; destroy them first, or leave the namespace in its pool",
		contract.NamespaceOr(namespace), strings.Join(names, ", "))
}

// topicsIn lists the first topics of a namespace in an engine.
func topicsIn(ctx context.Context, e contract.Engine, namespace string) ([]string, error) {
	topics, ok := inner(e).(contract.Topics)
	if !ok {
		return nil, nil
	}
	page, err := topics.Topics(ctx, namespace, duly.PageParams{Limit: maxNamed})
	// A remote engine may have no topics.
	if errors.Is(err, duly.ErrUnsupported) {
		return nil, nil
	}
	return page.Names, err
}

// topicMethods is embedded: contract.Topics would hide its own method Topics.
type topicMethods = contract.Topics

// observedTopics are a pool's topics that report the results of callers' calls.
type observedTopics struct {
	topicMethods
	engine *observedEngine
}

// Publish implements contract.Topics.
func (h observedTopics) Publish(ctx context.Context, messages []duly.Message) ([]duly.PublishResult, error) {
	results, err := h.topicMethods.Publish(ctx, messages)
	h.engine.pools.report(ctx, h.engine.name, err)
	return results, err
}

// with calls f with an optional interface of a namespace's pool, which find returns.
func with[P, T any](
	ctx context.Context, namespace string, find func(context.Context, string) (P, error), f func(P) (T, error),
) (none T, err error) {
	part, err := find(ctx, namespace)
	if err != nil {
		return none, err
	}
	return f(part)
}

// do is like with for a call that returns only an error.
func do[P any](
	ctx context.Context, namespace string, find func(context.Context, string) (P, error), f func(P) error,
) error {
	part, err := find(ctx, namespace)
	if err != nil {
		return err
	}
	return f(part)
}

// Publish implements contract.Topics. The messages of each namespace go to its pool.
func (r *Pools) Publish(ctx context.Context, messages []duly.Message) ([]duly.PublishResult, error) {
	if err := contract.CheckBatch(len(messages), contract.MessageBytes(messages)); err != nil {
		return nil, err
	}

	var namespaces []string
	indexes := map[string][]int{}
	for i := range messages {
		namespace := contract.NamespaceOr(messages[i].Namespace)
		if indexes[namespace] == nil {
			namespaces = append(namespaces, namespace)
		}
		indexes[namespace] = append(indexes[namespace], i)
	}
	// The common case needs no copy of the messages.
	if len(namespaces) < 2 {
		namespace := ""
		if len(messages) > 0 {
			namespace = messages[0].Namespace
		}
		return r.publish(ctx, namespace, messages)
	}

	results := make([]duly.PublishResult, len(messages))
	for _, namespace := range namespaces {
		some := make([]duly.Message, len(indexes[namespace]))
		for k, i := range indexes[namespace] {
			some[k] = messages[i]
		}

		// An error of one namespace must not fail the messages of other namespaces.
		answers, err := r.publish(ctx, namespace, some)
		for k, i := range indexes[namespace] {
			if err != nil {
				results[i] = duly.PublishResult{ID: messages[i].ID, Err: err}
			} else {
				results[i] = answers[k]
			}
		}
	}
	return results, nil
}

// publish publishes messages of one namespace.
func (r *Pools) publish(ctx context.Context, namespace string, some []duly.Message) ([]duly.PublishResult, error) {
	return with(ctx, namespace, r.topics, func(t contract.Topics) ([]duly.PublishResult, error) {
		return t.Publish(ctx, some)
	})
}

// Read implements contract.Topics.
func (r *Pools) Read(ctx context.Context, topic duly.QueueRef, p contract.ReadParams) (contract.ReadPage, error) {
	return with(ctx, topic.Namespace, r.topics, func(t contract.Topics) (contract.ReadPage, error) {
		return t.Read(ctx, topic, p)
	})
}

// Delayed implements contract.Topics.
func (r *Pools) Delayed(
	ctx context.Context, topic duly.QueueRef, p contract.DelayedParams,
) (contract.DelayedPage, error) {
	return with(ctx, topic.Namespace, r.topics, func(t contract.Topics) (contract.DelayedPage, error) {
		return t.Delayed(ctx, topic, p)
	})
}

// DelayedMessage implements contract.Topics.
func (r *Pools) DelayedMessage(ctx context.Context, topic duly.QueueRef, key, id string) (duly.Message, error) {
	return with(ctx, topic.Namespace, r.topics, func(t contract.Topics) (duly.Message, error) {
		return t.DelayedMessage(ctx, topic, key, id)
	})
}

// CancelDelayed implements contract.Topics.
func (r *Pools) CancelDelayed(ctx context.Context, topic duly.QueueRef, key, id string) error {
	return do(ctx, topic.Namespace, r.topics, func(t contract.Topics) error {
		return t.CancelDelayed(ctx, topic, key, id)
	})
}

// Topics implements contract.TopicOperator.
func (r *Pools) Topics(ctx context.Context, namespace string, p duly.PageParams) (duly.NamePage, error) {
	return with(ctx, namespace, r.topics, func(t contract.Topics) (duly.NamePage, error) {
		return t.Topics(ctx, namespace, p)
	})
}

// Topic implements contract.TopicOperator.
func (r *Pools) Topic(ctx context.Context, topic duly.QueueRef) (duly.TopicInfo, error) {
	return with(ctx, topic.Namespace, r.topics, func(t contract.Topics) (duly.TopicInfo, error) {
		return t.Topic(ctx, topic)
	})
}

// ConfigureTopic implements contract.TopicOperator.
func (r *Pools) ConfigureTopic(ctx context.Context, topic duly.QueueRef, patch duly.TopicConfig) error {
	return do(ctx, topic.Namespace, r.topics, func(t contract.Topics) error {
		return t.ConfigureTopic(ctx, topic, patch)
	})
}

// DestroyTopic implements contract.TopicOperator.
func (r *Pools) DestroyTopic(ctx context.Context, topic duly.QueueRef) error {
	return do(ctx, topic.Namespace, r.topics, func(t contract.Topics) error { return t.DestroyTopic(ctx, topic) })
}

// Groups implements contract.TopicOperator.
func (r *Pools) Groups(ctx context.Context, topic duly.QueueRef, p duly.PageParams) (duly.NamePage, error) {
	return with(ctx, topic.Namespace, r.topics, func(t contract.Topics) (duly.NamePage, error) {
		return t.Groups(ctx, topic, p)
	})
}

// CreateGroup implements contract.TopicOperator.
func (r *Pools) CreateGroup(ctx context.Context, group duly.QueueRef, from duly.From) (bool, error) {
	return with(ctx, group.Namespace, r.topics, func(t contract.Topics) (bool, error) {
		return t.CreateGroup(ctx, group, from)
	})
}

// Seek implements contract.TopicOperator.
func (r *Pools) Seek(ctx context.Context, group duly.QueueRef, to duly.From) (contract.SeekResult, error) {
	return with(ctx, group.Namespace, r.topics, func(t contract.Topics) (contract.SeekResult, error) {
		return t.Seek(ctx, group, to)
	})
}
