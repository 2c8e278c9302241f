package pools

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// Move lets a namespace move to another pool, or turns its move around. It
// answers when that is stored; what is done then is told by [Pools.Moves]. Said
// again it changes nothing. Said of a namespace that is in that pool, it drains
// a pool where something of it is left. It answers [duly.ErrInvalid] for a pool
// that there is not, [duly.ErrNotFound] for a namespace of which nothing is
// known, whose name may be mistyped, [duly.ErrConflict] for a namespace that has topics
// or moves to a third one, and what a queue's configuration is refused with in the new pool.
func (r *Pools) Move(ctx context.Context, namespace, to string) (contract.Placement, error) {
	if r == nil || !r.Has(to) {
		return contract.Placement{}, r.ErrNoPool(to)
	}
	if err := contract.ValidateNamespace(namespace); err != nil {
		return contract.Placement{}, err
	}
	var where, next contract.Placement
	var err error
	for range mostBegins {
		if where, err = r.stored(ctx, namespace); err != nil {
			return where, err
		}
		if next, err = r.begin(ctx, where, to); err == nil {
			return next, nil
		}
		if !errors.Is(err, duly.ErrConflict) { // else somebody was quicker, perhaps with the same
			break
		}
	}
	return where, err
}

// mostBegins bounds how often a move is begun because others change it meanwhile.
const mostBegins = 3

// begin does what is to be done for a namespace that is to be in a pool.
func (r *Pools) begin(ctx context.Context, where contract.Placement, to string) (contract.Placement, error) {
	if where.From == "" && where.Pool != to {
		old, err := r.at(where.Namespace, where.Pool)
		if err == nil {
			err = refuseTopics(ctx, old, where.Namespace)
		}
		if err != nil {
			return where, err
		}
	}
	known, err := r.known(ctx, &where)
	switch {
	case err != nil:
		return where, err
	case !known:
		return where, contract.Errorf(duly.CodeNotFound, "nothing is known of namespace %s, neither a queue nor a token; mind its name, or place it by its first token: duly token create --namespace NAME --pool %s",
			contract.Quoted(where.Namespace), to)
	case where.From != "" && where.Pool == to:
		return where, nil
	case where.From == to: // back again
		return r.turn(ctx, where)
	case where.From != "":
		return where, contract.Errorf(duly.CodeConflict, "namespace %s is moving from pool %s to %s; let that end, or turn it around: duly pool move %s --to %s",
			where.Namespace, where.From, where.Pool, where.Namespace, where.From)
	case where.Pool == to:
		stray, err := r.strays(ctx, &where)
		if err != nil || stray == "" {
			return where, err
		}
		return r.workOff(ctx, where, stray)
	}
	where.Pool, where.From, where.Phase = to, where.Pool, contract.Preparing
	return r.prepare(ctx, where)
}

// known tells whether there is anything of a namespace: its place, a token for it
// alone, or a queue where it is without a place. The default namespace is never a
// mistyped one.
func (r *Pools) known(ctx context.Context, where *contract.Placement) (bool, error) {
	if where.Version > 0 || where.Namespace == duly.DefaultNamespace {
		return true, nil
	}
	tokens, err := r.Tokens(ctx, where.Namespace, duly.PageParams{Limit: 1})
	if err != nil || len(tokens.Tokens) > 0 {
		return true, err
	}
	return r.byName[contract.DefaultPool].holds(ctx, where.Namespace)
}

// turn lets a namespace that moves go back. The settings are brought along as
// far as the pools answer; [Pools.carryOn] brings the rest.
func (r *Pools) turn(ctx context.Context, where contract.Placement) (contract.Placement, error) {
	where.Pool, where.From, where.Phase = where.From, where.Pool, contract.Draining
	next, err := r.put(ctx, where)
	if err != nil {
		return next, err
	}
	if m, err := r.moved(&next); err == nil {
		_ = m.bringAll(ctx, next.Namespace)
	}
	return next, nil
}

// stored is where a namespace is, read anew.
func (r *Pools) stored(ctx context.Context, namespace string) (contract.Placement, error) {
	namespace = contract.NamespaceOr(namespace)
	p, err := r.placer.FindPlacement(ctx, namespace)
	if errors.Is(err, duly.ErrNotFound) {
		return contract.Placement{Namespace: namespace, Pool: contract.DefaultPool}, nil
	}
	return p, err
}

// put stores the next phase and tells it as it is stored then.
func (r *Pools) put(ctx context.Context, p contract.Placement) (contract.Placement, error) {
	p.Since = r.cfg.Clock.Now().Truncate(time.Millisecond) // as it is stored
	p.Former = slices.DeleteFunc(slices.Clone(p.Former), func(name string) bool { return name == p.Pool || name == p.From })
	if p.From != "" {
		p.Former = append(p.Former, p.From)
	}
	p.Former = p.Former[max(0, len(p.Former)-contract.MaxFormer):]
	err := r.store(ctx, p)
	p.Version++
	return p, err
}

// store stores a placement. What is asked of this server from then on goes by it:
// the engine's notice may come after the answer.
func (r *Pools) store(ctx context.Context, p contract.Placement) error {
	defer r.doubt()
	return r.placer.PutPlacement(ctx, p)
}

// Moves tells how far every move is or, of one namespace, where it is.
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
			err = r.leftOf(ctx, &moves[i])
		}
	}
	return moves, err
}

// leftOf counts what a move has left.
func (r *Pools) leftOf(ctx context.Context, of *contract.MoveState) error {
	old, err := r.at(of.Namespace, of.From)
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

// States tells of every pool whether it answers.
func (r *Pools) States(ctx context.Context) []contract.PoolState {
	down := r.Down(ctx)
	states := make([]contract.PoolState, 0, len(r.Names()))
	for _, name := range r.Names() {
		states = append(states, contract.PoolState{Name: name, Ready: !slices.Contains(down, name)})
	}
	return states
}
