package jobs

import (
	"github.com/dulymq/duly/redisengine/internal/cancel"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/maintain"
	"github.com/dulymq/duly/redisengine/internal/store"
	"github.com/dulymq/duly/redisengine/internal/wait"
)

// New returns the calls on jobs. It uses the queues of a catalog.
func New(c *catalog.Catalog, h *wait.Hub, cancels *cancel.Reporter, repairer *maintain.Repairer) *Jobs {
	e := &Jobs{Catalog: c, hub: h, cancels: cancels, repairer: repairer}
	c.NewCalls = func(q *catalog.Queue, s *catalog.Shard) any { return newBatchers(e, q, s) }
	return e
}

func newBatchers(e *Jobs, q *catalog.Queue, s *catalog.Shard) *Batchers {
	b := &Batchers{}
	if q.View != nil {
		store.InitBatcher(e.Store, &b.Settle, e.sendGroupSettle(q, s))
		store.InitBatcher(e.Store, &b.Reserve, e.sendGroupReserve(q, s))
		b.Reserve.Together = sameLease
		return b
	}
	store.InitBatcher(e.Store, &b.Push, e.sendPush(q, s))
	store.InitBatcher(e.Store, &b.Settle, e.sendSettle(q, s))
	store.InitBatcher(e.Store, &b.Remove, e.sendDelete(q, s))
	b.Remove.Together = sameState
	store.InitBatcher(e.Store, &b.Reserve, e.sendReserve(q, s))
	b.Reserve.Together = sameLease
	return b
}
