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
	"github.com/dulymq/duly/internal/health"
	"github.com/dulymq/duly/server/route"
)

// A server advances moves every moveInterval, for at most a tenth of its time, so that moves
// of many queues cause little load. After a long turn the server waits at most maxMovePause.
const (
	moveInterval = time.Second
	maxMovePause = time.Minute
)

// allMoves is the subject of failures to read the moves. No namespace has this name.
const allMoves = ""

// pauseAfter returns how long to wait after a turn of a given duration.
func pauseAfter(turn time.Duration) time.Duration {
	return min(max(moveInterval, 9*turn), maxMovePause)
}

// runMoves advances moves, and searches for orphans after the end of a move, until ctx ends.
func (r *Pools) runMoves(ctx context.Context) {
	tracker, pause := health.New(r.cfg.Clock, 0), moveInterval
	for clock.Sleep(ctx, r.cfg.Clock, pause) == nil {
		begin := r.cfg.Clock.Mono()
		moves, ended, err := r.moves(ctx)
		if ctx.Err() == nil && tracker.Record(allMoves, err).NewReason {
			r.cfg.Logger.Error("reading the moves failed; it will be retried",
				"code", string(duly.CodeOf(err)), "error", route.Fault(err))
		}
		if err != nil {
			continue
		}

		// An ended outage of a namespace that no longer moves is of no interest.
		tracker.Forget(func(namespace string) bool {
			return namespace != allMoves && !containsNamespace(moves, namespace) && !containsNamespace(ended, namespace)
		})
		for i := range moves {
			p := &moves[i]
			if err := r.advance(ctx, p); ctx.Err() == nil && tracker.Record(p.Namespace, err).NewReason {
				r.cfg.Logger.Error("a move of a namespace makes no progress; it will be retried", "namespace", p.Namespace,
					"from", p.From, "to", p.Pool, "code", string(duly.CodeOf(err)), "error", route.Fault(err))
			}
		}
		for i := range ended {
			p := &ended[i]
			if err := r.checkOrphans(ctx, p); ctx.Err() == nil && tracker.Record(p.Namespace, err).NewReason {
				r.cfg.Logger.Error("searching a former pool for late jobs failed; it will be retried", "namespace", p.Namespace,
					"code", string(duly.CodeOf(err)), "error", route.Fault(err))
			}
		}
		pause = pauseAfter(r.cfg.Clock.Mono() - begin)
	}
}

func containsNamespace(placements []contract.Placement, namespace string) bool {
	return slices.ContainsFunc(placements, func(p contract.Placement) bool { return p.Namespace == namespace })
}

// moves returns the namespaces that move, and those whose move ended recently. It drops the state
// of all other namespaces.
func (r *Pools) moves(ctx context.Context) (moves, ended []contract.Placement, err error) {
	if moves, ended, err = r.listMoves(ctx); err != nil {
		return nil, nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.phases, func(namespace string, _ *phaseState) bool { return !containsNamespace(moves, namespace) })
	maps.DeleteFunc(r.ended, func(namespace string, _ *endedMove) bool { return !containsNamespace(ended, namespace) })
	return moves, ended, nil
}

func (r *Pools) listMoves(ctx context.Context) (moves, ended []contract.Placement, err error) {
	add := func(p *contract.Placement) {
		switch {
		case p.From != "":
			moves = append(moves, *p)
		case r.recentlyMoved(p):
			ended = append(ended, *p)
		}
	}

	r.mu.RLock()
	// The cache counts only while reports of changes arrive.
	cached := r.watching && r.loadedVersion == r.version
	if cached {
		for _, p := range r.placements {
			add(&p)
		}
	}
	r.mu.RUnlock()
	if !cached {
		err = r.EachPlacement(ctx, add)
	}
	return moves, ended, err
}

// advance runs the next step of a move. Every server calls it: because steps may be repeated and
// may run concurrently, and only one server succeeds in changing the phase.
func (r *Pools) advance(ctx context.Context, p *contract.Placement) error {
	m, err := r.migrating(p)
	if err != nil || !m.state.propagated() {
		return err
	}
	// A server that had not seen the move when it began may have created a topic or a schedule.
	if err := refuseUnmovable(ctx, m.old, m.new, p.Namespace); err != nil {
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
		// The version belongs to the placement that this server has read, so only one server
		// changes the phase.
		next := m.where
		if next.Phase = phase; phase == contract.Placed {
			next.From = ""
		}
		_, err = r.storePhase(ctx, next)
	}

	switch {
	case errors.Is(err, duly.ErrConflict):
		// Another server has made this step, or holds the removal lock.
		return nil
	case err != nil:
		return err
	case phase == contract.Placed:
		r.cfg.Logger.Info("a move has ended", "namespace", p.Namespace, "from", p.From, "to", p.Pool)
	default:
		r.cfg.Logger.Info("a move has reached its next phase",
			"namespace", p.Namespace, "from", p.From, "to", p.Pool, "phase", string(phase))
	}
	return nil
}

// drain moves the schedules of the old pool, and removes its empty queues. It reports whether other
// queues are left.
func (m *migratingEngine) drain(ctx context.Context) (left bool, err error) {
	if err := m.completeReversal(ctx, m.where.Namespace); err != nil {
		return true, err
	}
	if err := m.moveSchedules(ctx); err != nil {
		return true, err
	}
	err = eachName(ctx, m.old, m.where.Namespace, func(q duly.QueueRef) error {
		removed, err := m.removeQueue(ctx, q)
		left = left || !removed
		return err
	})
	if err != nil || left {
		return true, err
	}

	// A queue may have been created during the loop.
	queues, err := m.old.Queues(ctx, m.where.Namespace, duly.PageParams{Limit: 1})
	return len(queues.Names) > 0, err
}

// eachName calls do for each queue of a namespace. do may remove the queue.
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
