package topics

import (
	"context"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/redisengine/internal/cancel"
	"github.com/dulymq/duly/redisengine/internal/catalog"
)

// Topics is the part of the engine for topics.
type Topics struct {
	*catalog.Catalog
	cancels *cancel.Reporter
	readers readers
	misses  misses
	rounds  rounds
}

// anyShard returns a random shard of a topic.
func anyShard(shards int) int {
	if shards == 1 {
		return 0
	}
	// The last byte of a number is random.
	n := duly.NewNumber()
	return int(n[len(n)-1]) % shards
}

// admit validates the topic of an operation and checks that the engine is open.
func (e *Topics) admit(ctx context.Context, topic duly.QueueRef) error {
	if err := contract.ValidateTopic(topic); err != nil {
		return err
	}
	return e.Alive(ctx)
}

// admitGroup validates the group of an operation and checks that the engine is open.
func (e *Topics) admitGroup(ctx context.Context, group duly.QueueRef) error {
	if err := contract.ValidateGroup(group); err != nil {
		return err
	}
	return e.Alive(ctx)
}
