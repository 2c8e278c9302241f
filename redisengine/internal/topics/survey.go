package topics

import (
	"context"
	"slices"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// EachTopic calls f for every topic of a namespace, with an error if it can't be read.
func (e *Topics) EachTopic(ctx context.Context, namespace string,
	f func(name string, q *catalog.Queue, err error) error) error {
	return e.EachPage(ctx, e.TopicsKey(namespace), func(names []string) error {
		names = slices.DeleteFunc(names, store.InvalidTopic)
		if len(names) == 0 {
			return nil
		}

		values, err := e.Link.Do(ctx, e.Link.B().Hmget().Key(e.ConfigsKey(namespace)).Field(names...).Build())
		if err != nil {
			return err
		}

		for i, m := range codec.Elements(&values) {
			if m.IsNil() {
				// The topic was destroyed after its name was read.
				continue
			}
			ref, value := duly.QueueRef{Namespace: namespace, Name: names[i]}, codec.Text(&m)
			// The cached queue saves parsing a configuration that has not changed.
			q, unreadable := e.Cache.Get(ref), error(nil)
			if q == nil || q.Value != value {
				q, unreadable = e.ReadQueue(ref, value)
			}
			if err := f(names[i], q, unreadable); err != nil {
				return err
			}
		}
		return nil
	})
}

// Behind implements inspect.Groups.
func (e *Topics) Behind(ctx context.Context, namespace, after string) (names []string, err error) {
	err = e.EachTopic(ctx, namespace, func(topic string, q *catalog.Queue, err error) error {
		// The check reports unreadable topics.
		if err != nil || q.Tomb || q.Topic == nil {
			return nil
		}
		for _, group := range q.Topic.Names() {
			if name := duly.GroupName(topic, group); name > after {
				names = append(names, name)
			}
		}
		return nil
	})
	return names, err
}

// Surveyed implements inspect.Groups.
func (e *Topics) Surveyed(ctx context.Context, ref duly.QueueRef) (duly.Stats, contract.Throttle, error) {
	st, err := e.GroupStats(ctx, ref)
	if err != nil {
		return duly.Stats{}, contract.Throttle{}, err
	}
	q, err := e.Find(ctx, ref)
	if err != nil || q == nil {
		return st, contract.Throttle{}, err
	}
	return st, contract.ThrottleOf(q.Config), nil
}
