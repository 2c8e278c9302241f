package topics

import (
	"github.com/dulymq/duly/redisengine/internal/cancel"
	"github.com/dulymq/duly/redisengine/internal/catalog"
)

// New returns the topics of a catalog.
func New(c *catalog.Catalog, cancels *cancel.Reporter) *Topics {
	t := &Topics{Catalog: c, cancels: cancels}
	calls := c.NewCalls
	c.NewCalls = func(q *catalog.Queue, s *catalog.Shard) any {
		// The catalog asks for the call state of both queues and topics.
		if q.Topic != nil {
			return t.newPublisher(q, s)
		}
		return calls(q, s)
	}
	return t
}
