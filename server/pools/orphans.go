package pools

import (
	"context"
	"errors"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// An orphan is a queue in a pool that its namespace has left. A push creates one if its server was
// suspended during the end of a move: the job was accepted, and no worker would get it. So does a
// push on a server that has not seen the first placement of a namespace yet. For the time
// orphanWindow after either event, servers search for orphans in growing intervals. They drain
// orphans like the old pool of a move. Later, and if a pool was not given to all servers,
// [Pools.Move] with the namespace's own pool does the same.

// orphanWindow is how long servers search for orphans.
const orphanWindow = time.Hour

// findOrphan returns the first pool, other than that of the namespace, with queues of the
// namespace, or "" if there is none.
func (r *Pools) findOrphan(ctx context.Context, where *contract.Placement) (name string, err error) {
	for _, p := range r.all {
		if p.name == where.Pool {
			continue
		}
		if found, err := p.hasQueues(ctx, where.Namespace); err != nil || found {
			return p.name, err
		}
	}
	return "", nil
}

// hasQueues reports whether a pool has queues or topics of a namespace.
func (p *pool) hasQueues(ctx context.Context, namespace string) (bool, error) {
	engine, err := p.get()
	if err != nil {
		return false, err
	}
	queues, err := engine.Queues(ctx, namespace, duly.PageParams{Limit: 1})
	if err != nil {
		return false, poolError(p, err)
	}
	topics, err := topicsIn(ctx, engine, namespace)
	if err != nil {
		return false, poolError(p, err)
	}
	return len(queues.Names)+len(topics) > 0, nil
}

// drainOrphan starts to drain the orphans of a pool.
func (r *Pools) drainOrphan(ctx context.Context, where contract.Placement, name string) (contract.Placement, error) {
	if err := r.alignSettings(ctx, &where, name); err != nil {
		return where, err
	}
	where.From, where.Phase = name, contract.Draining
	return r.storePhase(ctx, where)
}

// recentlyMoved reports whether a namespace was moved or placed within orphanWindow.
func (r *Pools) recentlyMoved(p *contract.Placement) bool {
	return p.From == "" && len(formerPools(p)) > 0 && r.cfg.Clock.Now().Sub(p.Since) < orphanWindow
}

// formerPools returns the pools to which a server with an outdated placement may push. For a
// first placement it is the default pool.
func formerPools(p *contract.Placement) []string {
	if p.Version == 1 && p.Pool != contract.DefaultPool {
		return []string{contract.DefaultPool}
	}
	return p.Former
}

// endedMove is what this server knows about a move that has ended.
type endedMove struct {
	version     int64
	since, next time.Duration // monotonic times: when this server saw the end, and when it searches next
}

// orphanCheckDue reports whether it is time to search for orphans of a namespace, and sets
// the time of the next search. The interval doubles each time.
func (r *Pools) orphanCheckDue(p *contract.Placement) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.cfg.Clock.Mono()
	m := r.ended[p.Namespace]
	if m == nil || m.version != p.Version {
		m = &endedMove{version: p.Version, since: now, next: now + propagationTime}
		r.ended[p.Namespace] = m
	}
	if now < m.next {
		return false
	}
	m.next = now + (now - m.since)
	return true
}

// checkOrphans searches the former pools of a namespace for orphans, and starts to drain the first
// one that it finds.
func (r *Pools) checkOrphans(ctx context.Context, where *contract.Placement) error {
	if !r.orphanCheckDue(where) {
		return nil
	}

	for _, name := range formerPools(where) {
		p := r.byName[name]
		// This server does not have the pool. A server that has it finds the orphans.
		if p == nil {
			continue
		}
		found, err := p.hasQueues(ctx, where.Namespace)
		if err != nil {
			return err
		}
		if !found {
			continue
		}

		// A move has only one old pool, so other former pools follow at the next search.
		switch _, err = r.drainOrphan(ctx, *where, name); {
		case errors.Is(err, duly.ErrConflict): // another server has started to drain the pool
			return nil
		case err == nil:
			r.cfg.Logger.Info("a former pool of a namespace has late jobs; draining it",
				"namespace", where.Namespace, "from", name, "to", where.Pool)
		}
		return err
	}
	return nil
}

// alignSettings gives orphans the settings of their namespace's own pool. Otherwise the orphans'
// old settings would be restored in that pool, as after a reversed move.
func (r *Pools) alignSettings(ctx context.Context, where *contract.Placement, name string) error {
	home, err := r.poolEngine(where.Namespace, where.Pool)
	if err != nil {
		return err
	}
	orphans, err := r.poolEngine(where.Namespace, name)
	if err != nil {
		return err
	}

	return eachName(ctx, orphans, where.Namespace, func(q duly.QueueRef) error {
		if known, err := exists(ctx, home, q); err != nil || !known {
			return err
		}
		step, err := r.beginStep(ctx, orphans, where)
		if err != nil {
			return err
		}
		return untilStable(ctx, home, q, func(config duly.QueueConfig) error {
			// The shards of a queue cannot change.
			config.Shards = 0
			err := setConfig(ctx, step, q, config)
			// With another number of shards, a limit per shard may be too small.
			if errors.Is(err, duly.ErrInvalid) {
				return nil
			}
			return err
		})
	})
}
