package pools

import (
	"context"
	"errors"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// A stray is a queue in a pool where its namespace is no more. A call makes one
// that stood still while a move ended, with its whole server perhaps: what it
// pushes then was accepted, and nobody would take it. So does one on a server that
// has not heard yet of where a namespace was placed at first. For an hour after
// either the servers look for such queues, ever less often, and let them drain as
// in a move. Later, and where a pool was not given to all servers, [Pools.Move] to
// where the namespace is does the same.

// strays is the first other pool that holds queues of a namespace; "" for none.
func (r *Pools) strays(ctx context.Context, where *contract.Placement) (name string, err error) {
	for _, p := range r.all {
		if p.name == where.Pool {
			continue
		}
		if there, err := p.holds(ctx, where.Namespace); err != nil || there {
			return p.name, err
		}
	}
	return "", nil
}

// holds tells whether a pool has queues of a namespace.
func (p *pool) holds(ctx context.Context, namespace string) (bool, error) {
	engine, err := p.get()
	if err != nil {
		return false, err
	}
	queues, err := engine.Queues(ctx, namespace, duly.PageParams{Limit: 1})
	if err != nil {
		return false, inPool(p, err)
	}
	topics, err := topicsIn(ctx, engine, namespace)
	if err != nil {
		return false, inPool(p, err)
	}
	return len(queues.Names)+len(topics) > 0, nil
}

// workOff lets the strays of a pool drain.
func (r *Pools) workOff(ctx context.Context, where contract.Placement, stray string) (contract.Placement, error) {
	if err := r.agree(ctx, &where, stray); err != nil {
		return where, err
	}
	where.From, where.Phase = stray, contract.Draining
	return r.put(ctx, where)
}

// lookBackFor is for how long after the end of a move strays are looked for.
const lookBackFor = time.Hour

// recent tells whether a namespace has moved, or was placed, within that time.
func (r *Pools) recent(p *contract.Placement) bool {
	return p.From == "" && len(left(p)) > 0 && r.cfg.Clock.Now().Sub(p.Since) < lookBackFor
}

// left are the pools where calls may have taken a namespace to be: of one that
// was never placed before, the default one.
func left(p *contract.Placement) []string {
	if p.Version == 1 && p.Pool != contract.DefaultPool {
		return []string{contract.DefaultPool}
	}
	return p.Former
}

// past is a move that has ended, as this server has heard of that.
type past struct {
	version     int64
	since, next time.Duration // monotonic: when it heard, and when it looks next
}

// lookDue tells whether it is time to look for strays of a namespace, and sets
// the next time: each is as far away as the end of the move is.
func (r *Pools) lookDue(p *contract.Placement) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.cfg.Clock.Mono()
	k := r.pasts[p.Namespace]
	if k == nil || k.version != p.Version {
		k = &past{version: p.Version, since: now, next: now + settle}
		r.pasts[p.Namespace] = k
	}
	if now < k.next {
		return false
	}
	k.next = now + (now - k.since)
	return true
}

// lookBack lets the strays of a namespace drain that are in a pool which it has
// left.
func (r *Pools) lookBack(ctx context.Context, where *contract.Placement) error {
	if !r.lookDue(where) {
		return nil
	}
	for _, name := range left(where) {
		p := r.byName[name]
		if p == nil {
			continue
		}
		there, err := p.holds(ctx, where.Namespace)
		if err != nil {
			return err
		}
		if !there {
			continue
		}
		switch _, err = r.workOff(ctx, *where, name); {
		case errors.Is(err, duly.ErrConflict): // another server was quicker
			return nil
		case err == nil:
			r.cfg.Logger.Info("something came late to a pool that a namespace has left; it is worked off", "namespace", where.Namespace, "from", name, "to", where.Pool)
		}
		return err
	}
	return nil
}

// agree gives the stray queues the settings that they have where their namespace
// is, so that those of a pool where they do not belong are not brought along.
func (r *Pools) agree(ctx context.Context, where *contract.Placement, stray string) error {
	home, err := r.at(where.Namespace, where.Pool)
	if err != nil {
		return err
	}
	there, err := r.at(where.Namespace, stray)
	if err != nil {
		return err
	}
	return eachName(ctx, there, where.Namespace, func(q duly.QueueRef) error {
		if known, err := exists(ctx, home, q); err != nil || !known {
			return err
		}
		in, err := r.timely(ctx, there, where)
		if err != nil {
			return err
		}
		return follow(ctx, home, q, func(as duly.QueueConfig) error {
			as.Shards = 0
			err := setAs(ctx, in, q, as)
			if errors.Is(err, duly.ErrInvalid) { // of other shards, their parts may be too small
				return nil
			}
			return err
		})
	})
}
