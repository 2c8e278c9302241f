package catalog

import (
	"context"
	"errors"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/redisengine/internal/cancel"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// Catalog is what a process knows of queues and their configurations, and how it
// agrees on them with the others.
type Catalog struct {
	*Resets
	Cache     Cache
	Summaries Summaries
	cancels   *cancel.Reporter

	// OnChange, if set, is called with a queue whose configuration was read.
	OnChange func(q *Queue)
	// NewCalls makes what calls work with that use a shard.
	NewCalls func(q *Queue, s *Shard) any
}

// New returns an empty catalog. Removed jobs are reported to cancels.
func New(s *store.Store, cancels *cancel.Reporter) *Catalog {
	return &Catalog{
		Resets: &Resets{Store: s}, cancels: cancels,
		Cache: Cache{known: map[duly.QueueRef]*Queue{}, used: map[duly.QueueRef]*Queue{}},
	}
}

// ErrRetry lets with begin again: the queue was made.
var ErrRetry = errors.New("redisengine: again")

// With does something with a queue as this process knows it, and again as
// often as a shard says that the queue is another one by now. f is given nil
// for an unknown queue.
func (e *Catalog) With(ctx context.Context, ref duly.QueueRef, f func(q *Queue) error) error {
	c := e.Retry(ctx)
	for c.Next() {
		q, err := e.Find(ctx, ref)
		if err != nil {
			return err
		}
		switch err = f(q); err {
		case nil:
			return nil
		case ErrRetry:
			continue
		}
		var other *Stale
		if !errors.As(err, &other) {
			return err
		}
		if err := e.Sync(ctx, q, other); err != nil {
			return err
		}
	}
	return c.Failed("the configuration of queue %s keeps changing", ref)
}

// askQueue asks for a queue's entry in its namespace's list; "" for none.
func (e *Catalog) askQueue(ctx context.Context, ref duly.QueueRef) (string, error) {
	results, err := e.AskMark(ctx, ref.Namespace, nil, []rueidis.Completed{e.Link.B().Hget().Key(e.ConfigsKey(ref.Namespace)).Field(ref.Name).Build()})
	if err != nil {
		return "", err
	}
	return codec.Text(&results[0].Msg), nil
}

// Find is the queue, or nil if there is none.
func (e *Catalog) Find(ctx context.Context, ref duly.QueueRef) (*Queue, error) {
	if q := e.Cache.Get(ref); q != nil {
		return q, nil
	}
	q, err := e.Read(ctx, ref)
	if q == nil || q.Tomb {
		return nil, err
	}
	return q, nil
}

// Read asks the namespace's list for the queue; nil if it is not there.
func (e *Catalog) Read(ctx context.Context, ref duly.QueueRef) (*Queue, error) {
	was := e.Cache.Get(ref)
	value, err := e.askQueue(ctx, ref)
	if err != nil {
		return nil, err
	}
	if value == "" {
		e.Cache.Forget(was)
		return nil, nil
	}
	if was != nil && was.Value == value {
		return e.remember(was), nil
	}
	q, err := e.ReadQueue(ref, value)
	if err != nil {
		return nil, err
	}
	if q.Tomb {
		e.Cache.Forget(was)
		return q, nil
	}
	return e.remember(q), nil
}

// remember takes over a configuration that the list has, for calls and for
// whoever waits, perhaps since before the queue was known.
func (e *Catalog) remember(q *Queue) *Queue {
	q = e.Cache.put(q)
	if e.OnChange != nil {
		e.OnChange(q)
	}
	return q
}

// ShardRef is one shard, by its place in a queue that may be made anew meanwhile.
type ShardRef struct {
	Ref   duly.QueueRef
	Index int
}

// WithShard does something with a shard, unless it is no longer there.
func (e *Catalog) WithShard(ctx context.Context, at ShardRef, f func(q *Queue, s *Shard) error) (there bool, err error) {
	err = e.With(ctx, at.Ref, func(q *Queue) error {
		s := q.Shard(at.Index)
		if there = s != nil; !there {
			return nil
		}
		return f(q, s)
	})
	return there, err
}
