package pools

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// Move moves a namespace to another pool, or reverses its move. It returns when the move
// is stored. [Pools.Moves] then returns its state. A repeated call changes nothing. With
// the pool where the namespace is, Move drains another pool that has queues of it.
//
// Move returns [duly.ErrInvalid] for an unknown pool, [duly.ErrNotFound] for an unknown
// namespace, whose name may be mistyped, and [duly.ErrConflict] for a namespace with topics,
// with schedules that an engine cannot move, or one that moves to a third pool. It also returns the error of the new pool for the
// configuration of a queue.
func (r *Pools) Move(ctx context.Context, namespace, to string) (contract.Placement, error) {
	if r == nil || !r.Has(to) {
		return contract.Placement{}, r.ErrNoPool(to)
	}
	if err := contract.ValidateNamespace(namespace); err != nil {
		return contract.Placement{}, err
	}

	var where, next contract.Placement
	var err error
	for range maxMoveAttempts {
		if where, err = r.readPlacement(ctx, namespace); err != nil {
			return where, err
		}
		if next, err = r.startMove(ctx, where, to); err == nil {
			return next, nil
		}
		// A conflict may mean that another server has started the same move.
		if !errors.Is(err, duly.ErrConflict) {
			break
		}
	}
	return where, err
}

// maxMoveAttempts is the number of attempts to start a move while other servers change the
// placement.
const maxMoveAttempts = 3

// startMove starts the move of a namespace to a pool, unless the namespace is there already.
func (r *Pools) startMove(ctx context.Context, where contract.Placement, to string) (contract.Placement, error) {
	// What cannot move stops a move before it changes anything.
	if where.From == "" && where.Pool != to {
		old, err := r.poolEngine(where.Namespace, where.Pool)
		if err != nil {
			return where, err
		}
		fresh, err := r.poolEngine(where.Namespace, to)
		if err == nil {
			err = refuseUnmovable(ctx, old, fresh, where.Namespace)
		}
		if err != nil {
			return where, err
		}
	}

	// Without this check, the move of a mistyped name would succeed at once and do nothing.
	exists, err := r.exists(ctx, &where)
	switch {
	case err != nil:
		return where, err
	case !exists:
		return where, contract.Errorf(duly.CodeNotFound,
			"namespace %s has no queue and no token; check its name, or place it with its first token: "+
				"duly token create --namespace NAME --pool %s", contract.Quoted(where.Namespace), to)
	case where.From != "" && where.Pool == to:
		return where, nil
	case where.From == to:
		return r.reverse(ctx, where)
	case where.From != "":
		return where, contract.Errorf(duly.CodeConflict,
			"namespace %s is moving from pool %s to %s; wait for the end, or reverse the move: duly pool move %s --to %s",
			where.Namespace, where.From, where.Pool, where.Namespace, where.From)
	case where.Pool == to:
		orphan, err := r.findOrphan(ctx, &where)
		if err == nil && orphan == "" {
			err = r.releaseHolds(ctx, &where)
		}
		if err != nil || orphan == "" {
			return where, err
		}
		return r.drainOrphan(ctx, where, orphan)
	}
	where.Pool, where.From, where.Phase = to, where.Pool, contract.Preparing
	return r.prepare(ctx, where)
}

// refuseUnmovable returns ErrConflict if the old pool has topics of a namespace, or schedules that cannot
// move.
func refuseUnmovable(ctx context.Context, old, fresh contract.Engine, namespace string) error {
	if err := refuseTopics(ctx, old, namespace); err != nil {
		return err
	}
	return refuseSchedules(ctx, old, fresh, namespace)
}

// exists reports whether a namespace has a placement, a token of its own, or a queue in the
// default pool. The default namespace always exists.
func (r *Pools) exists(ctx context.Context, where *contract.Placement) (bool, error) {
	if where.Version > 0 || where.Namespace == duly.DefaultNamespace {
		return true, nil
	}
	tokens, err := r.Tokens(ctx, where.Namespace, duly.PageParams{Limit: 1})
	if err != nil || len(tokens.Tokens) > 0 {
		return true, err
	}
	return r.byName[contract.DefaultPool].hasQueues(ctx, where.Namespace)
}

// reverse reverses the move of a namespace. It restores the settings as far as the pools are
// reachable, and [Pools.advance] restores the rest.
func (r *Pools) reverse(ctx context.Context, where contract.Placement) (contract.Placement, error) {
	where.Pool, where.From, where.Phase = where.From, where.Pool, contract.Draining
	next, err := r.storePhase(ctx, where)
	if err != nil {
		return next, err
	}
	// An error here must not undo the reversal, because a failed pool may be the reason for the
	// reversal.
	if m, err := r.migrating(&next); err == nil {
		_ = m.restoreAllSettings(ctx, next.Namespace)
	}
	return next, nil
}

// readPlacement reads the placement of a namespace from the engine, not from the cache.
func (r *Pools) readPlacement(ctx context.Context, namespace string) (contract.Placement, error) {
	namespace = contract.NamespaceOr(namespace)
	p, err := r.placer.FindPlacement(ctx, namespace)
	if errors.Is(err, duly.ErrNotFound) {
		return contract.Placement{Namespace: namespace, Pool: contract.DefaultPool}, nil
	}
	return p, err
}

// storePhase stores the next phase of a placement, and returns the placement as stored.
func (r *Pools) storePhase(ctx context.Context, p contract.Placement) (contract.Placement, error) {
	// Engines store times in milliseconds.
	p.Since = r.cfg.Clock.Now().Truncate(time.Millisecond)
	// Former pools are searched for orphans. The two pools of this phase must not be searched.
	p.Former = slices.DeleteFunc(slices.Clone(p.Former), func(name string) bool {
		return name == p.Pool || name == p.From
	})
	if p.From != "" {
		p.Former = append(p.Former, p.From)
	}
	p.Former = p.Former[max(0, len(p.Former)-contract.MaxFormer):]

	err := r.storePlacement(ctx, p)
	// PutPlacement raises the stored version in the same way.
	p.Version++
	return p, err
}

// storePlacement stores a placement. This server does not wait for the engine's notice:
// later calls see the placement at once.
func (r *Pools) storePlacement(ctx context.Context, p contract.Placement) error {
	defer r.invalidate()
	return r.placer.PutPlacement(ctx, p)
}

// Moves returns the state of every move. With a namespace, it returns only the state of that
// namespace, even if it does not move.
func (r *Pools) Moves(ctx context.Context, namespace string) (moves []contract.MoveState, err error) {
	if namespace != "" {
		where, err := r.Where(ctx, namespace)
		if err != nil {
			return nil, err
		}
		moves = []contract.MoveState{{Placement: where}}
	} else {
		err = r.EachPlacement(ctx, func(p *contract.Placement) {
			if p.From != "" {
				moves = append(moves, contract.MoveState{Placement: *p})
			}
		})
	}

	for i := range moves {
		if err == nil && moves[i].From != "" {
			err = r.countLeft(ctx, &moves[i])
		}
	}
	return moves, err
}

// countLeft counts the queues and jobs in the old pool of a move.
func (r *Pools) countLeft(ctx context.Context, of *contract.MoveState) error {
	old, err := r.poolEngine(of.Namespace, of.From)
	if err != nil {
		return err
	}
	return eachName(ctx, old, of.Namespace, func(q duly.QueueRef) error {
		stats, err := old.Stats(ctx, q)
		of.Queues++
		for _, s := range duly.States {
			*of.Left.Of(s) += *stats.Sizes.Of(s)
		}
		return err
	})
}

// States returns for every pool whether it responds.
func (r *Pools) States(ctx context.Context) []contract.PoolState {
	down := r.Down(ctx)
	states := make([]contract.PoolState, 0, len(r.Names()))
	for _, name := range r.Names() {
		states = append(states, contract.PoolState{Name: name, Ready: !slices.Contains(down, name)})
	}
	return states
}
