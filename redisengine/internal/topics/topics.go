package topics

import (
	"context"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/batch"
	"github.com/dulymq/duly/redisengine/internal/cancel"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// Topics is the part of the engine for topics.
type Topics struct {
	*catalog.Catalog
	cancels *cancel.Reporter
	readers readers
	misses  misses
}

// New returns the topics of a catalog.
func New(c *catalog.Catalog, cancels *cancel.Reporter) *Topics {
	t := &Topics{Catalog: c, cancels: cancels}
	calls := c.NewCalls
	c.NewCalls = func(q *catalog.Queue, s *catalog.Shard) any {
		if q.Topic != nil {
			return t.newPublisher(q, s)
		}
		return calls(q, s)
	}
	return t
}

// inFlight is how many batches of a shard are in flight at once.
const inFlight = 2

// newPublisher joins the publishes of a shard.
func (e *Topics) newPublisher(q *catalog.Queue, s *catalog.Shard) *publisher {
	p := &publisher{}
	p.Go, p.InFlight, p.Limits = e.Tasks.Go, inFlight, batch.Limits{Items: duly.MaxBatch, Bytes: duly.MaxBatchBytes}
	p.Panicked = func(value any, stack []byte) {
		e.Settings.Logger.Error("a batch of publishes panicked", "panic", value, "stack", string(stack))
	}
	p.Send = func(_ context.Context, calls []*publishCall) error {
		ctx := context.WithoutCancel(e.Ctx)
		if last, ok := batch.Deadline(calls); ok {
			var end context.CancelFunc
			ctx, end = context.WithDeadline(e.Ctx, last)
			defer end()
		}
		return e.send(ctx, q, s, calls)
	}
	return p
}

// anyShard returns a random shard of a topic.
func anyShard(shards int) int {
	if shards == 1 {
		return 0
	}
	n := duly.NewNumber() // its last byte is random
	return int(n[len(n)-1]) % shards
}

// admit begins an operation on a topic.
func (e *Topics) admit(ctx context.Context, topic duly.QueueRef) error {
	if err := topic.ValidateTopic(); err != nil {
		return err
	}
	return e.Alive(ctx)
}

// admitGroup begins an operation on a group.
func (e *Topics) admitGroup(ctx context.Context, group duly.QueueRef) error {
	if err := group.ValidateGroup(); err != nil {
		return err
	}
	return e.Alive(ctx)
}

// Topics implements duly.TopicOperator.
func (e *Topics) Topics(ctx context.Context, namespace string, p duly.PageParams) (duly.NamePage, error) {
	if err := duly.ValidateNamespace(namespace); err != nil {
		return duly.NamePage{}, err
	}
	return e.Names(ctx, e.TopicsKey(duly.NamespaceOr(namespace)), store.InvalidTopic, p)
}
