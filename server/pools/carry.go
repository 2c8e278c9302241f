package pools

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/server/route"
)

// A server carries moves on every moveEvery, and takes at most a tenth of the time for
// it: many queues are no load. After a turn that took long it waits for longestPause.
const (
	moveEvery    = time.Second
	longestPause = time.Minute
)

// pauseAfter returns how long to wait after a turn that took so long.
func pauseAfter(turn time.Duration) time.Duration {
	return min(max(moveEvery, 9*turn), longestPause)
}

func (r *Pools) keepMoving(ctx context.Context) {
	told, pause := said{}, moveEvery
	for clock.Sleep(ctx, r.cfg.Clock, pause) == nil {
		begin := r.cfg.Clock.Mono()
		moves, over, err := r.moves(ctx)
		if ctx.Err() == nil && told.anew("", err) {
			r.cfg.Logger.Error("the moves can't be read; none goes on until they can be", "code", string(duly.CodeOf(err)), "error", route.Fault(err))
		}
		if err != nil {
			continue
		}
		maps.DeleteFunc(told, func(namespace, _ string) bool { return !isOf(moves, namespace) && !isOf(over, namespace) })
		for i := range moves {
			p := &moves[i]
			if err := r.carryOn(ctx, p); ctx.Err() == nil && told.anew(p.Namespace, err) {
				r.cfg.Logger.Error("a move does not go on; it is tried again", "namespace", p.Namespace, "from", p.From, "to", p.Pool, "code", string(duly.CodeOf(err)), "error", route.Fault(err))
			}
		}
		for i := range over {
			p := &over[i]
			if err := r.lookBack(ctx, p); ctx.Err() == nil && told.anew(p.Namespace, err) {
				r.cfg.Logger.Error("it can't be seen whether a pool has something left of a namespace; it is tried again", "namespace", p.Namespace, "code", string(duly.CodeOf(err)), "error", route.Fault(err))
			}
		}
		pause = pauseAfter(r.cfg.Clock.Mono() - begin)
	}
}

func isOf(placements []contract.Placement, namespace string) bool {
	return slices.ContainsFunc(placements, func(p contract.Placement) bool { return p.Namespace == namespace })
}

// moves lists the namespaces that move and those that have moved lately, and
// forgets what was known of others.
func (r *Pools) moves(ctx context.Context) (moves, over []contract.Placement, err error) {
	if moves, over, err = r.listMoves(ctx); err != nil {
		return nil, nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.states, func(namespace string, _ *moving) bool { return !isOf(moves, namespace) })
	maps.DeleteFunc(r.pasts, func(namespace string, _ *past) bool { return !isOf(over, namespace) })
	return moves, over, nil
}

func (r *Pools) listMoves(ctx context.Context) (moves, over []contract.Placement, err error) {
	take := func(p *contract.Placement) {
		switch {
		case p.From != "":
			moves = append(moves, *p)
		case r.recent(p):
			over = append(over, *p)
		}
	}
	r.mu.RLock()
	known := r.hearing && r.loaded == r.change
	if known {
		for _, p := range r.placements {
			take(&p)
		}
	}
	r.mu.RUnlock()
	if !known {
		err = r.EachPlacement(ctx, take)
	}
	return moves, over, err
}

// carryOn does what is next for a namespace that moves. Every server does so:
// each step may be repeated, or done by two at once, and the phase is changed by
// one of them.
func (r *Pools) carryOn(ctx context.Context, p *contract.Placement) error {
	m, err := r.moved(p)
	if err != nil || !m.state.settled() {
		return err
	}
	// A server that has not heard of the move may have made a topic since.
	if err := refuseTopics(ctx, m.old, p.Namespace); err != nil {
		return err
	}
	phase := contract.Draining
	if p.Phase == contract.Preparing {
		err = m.copyAll(ctx, p.Namespace)
	} else {
		var left bool
		if left, err = m.drain(ctx); left && err == nil {
			return nil
		}
		phase = contract.Placed
	}
	if err == nil {
		next := m.where
		if next.Phase = phase; phase == contract.Placed {
			next.From = ""
		}
		_, err = r.put(ctx, next)
	}
	if errors.Is(err, duly.ErrConflict) {
		return nil // another server was quicker, or is at it
	}
	if err == nil && phase == contract.Placed {
		r.cfg.Logger.Info("a namespace has moved", "namespace", p.Namespace, "from", p.From, "to", p.Pool)
	} else if err == nil {
		r.cfg.Logger.Info("a namespace moves on", "namespace", p.Namespace, "from", p.From, "to", p.Pool, "phase", string(phase))
	}
	return err
}

// drain removes the queues that are empty in the old pool, and tells whether
// others are left.
func (m *pair) drain(ctx context.Context) (left bool, err error) {
	if err := m.open(ctx, m.where.Namespace); err != nil {
		return true, err
	}
	err = eachName(ctx, m.old, m.where.Namespace, func(q duly.QueueRef) error {
		gone, err := m.remove(ctx, q)
		left = left || !gone
		return err
	})
	if err != nil || left {
		return true, err
	}
	queues, err := m.old.Queues(ctx, m.where.Namespace, duly.PageParams{Limit: 1})
	return len(queues.Names) > 0, err
}

// eachName walks over the queues of a namespace. do may remove them.
func eachName(ctx context.Context, e contract.Engine, namespace string, do func(q duly.QueueRef) error) error {
	p := duly.PageParams{Limit: duly.MaxBatch}
	for {
		page, err := e.Queues(ctx, namespace, p)
		if err != nil {
			return err
		}
		for _, name := range page.Names {
			if err := do(duly.QueueRef{Namespace: namespace, Name: name}); err != nil {
				return err
			}
		}
		if p.Cursor = page.Next; p.Cursor == "" {
			return nil
		}
	}
}
