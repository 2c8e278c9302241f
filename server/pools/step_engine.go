package pools

import (
	"context"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// stepTimeout is the longest duration of a step of a move. It is shorter than propagationTime, so a
// step ends before other servers rely on the next phase.
const stepTimeout = propagationTime / 2

// stepEngine makes the changes of one step of a move, and refuses late ones. A server may be
// suspended in the middle of a step for any time, and in that time the pool may become the one that
// jobs are pushed to again. So a step verifies the stored phase at its beginning. A change later
// than stepTimeout verifies it again, and fails with a conflict if the phase is over. Clocks are
// not compared.
type stepEngine struct {
	contract.Engine
	pools    *Pools
	where    *contract.Placement // the phase of the step; nil means that late changes always fail
	deadline time.Duration       // on the monotonic clock
}

// newStep returns an engine for a step that starts now and cannot be verified again.
func (r *Pools) newStep(e contract.Engine) *stepEngine {
	return &stepEngine{Engine: e, pools: r, deadline: r.cfg.Clock.Mono() + stepTimeout}
}

// beginStep returns an engine for a step in a phase. It returns [duly.ErrConflict] if the
// phase is over.
func (r *Pools) beginStep(ctx context.Context, e contract.Engine, where *contract.Placement) (*stepEngine, error) {
	s := &stepEngine{Engine: e, pools: r, where: where}
	return s, s.verify(ctx)
}

// verify checks that the phase is not over, and sets the deadline.
func (s *stepEngine) verify(ctx context.Context) error {
	// The deadline counts from before the read, which may be slow.
	deadline := s.pools.cfg.Clock.Mono() + stepTimeout
	now, err := s.pools.readPlacement(ctx, s.where.Namespace)
	if err == nil && now.Version != s.where.Version && !samePhase(&now, s.where) {
		err = contract.PlacementConflict(s.where.Namespace)
	}
	if err == nil {
		s.deadline = deadline
	}
	return err
}

// run calls do with a context that ends at the deadline.
func (s *stepEngine) run(ctx context.Context, do func(ctx context.Context) error) error {
	left := s.deadline - s.pools.cfg.Clock.Mono()
	if left <= 0 && s.where != nil {
		if err := s.verify(ctx); err != nil {
			return err
		}
		left = s.deadline - s.pools.cfg.Clock.Mono()
	}
	if left <= 0 {
		return contract.Errorf(duly.CodeConflict, "a step of a move took longer than %s, so it was stopped; it will be retried", stepTimeout)
	}

	ctx, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	return do(ctx)
}

// Push implements duly.Engine.
func (s *stepEngine) Push(ctx context.Context, jobs []duly.Job) (results []duly.PushResult, err error) {
	err = s.run(ctx, func(ctx context.Context) error {
		results, err = s.Engine.Push(ctx, jobs)
		return err
	})
	return results, err
}

// Delete implements contract.Operator.
func (s *stepEngine) Delete(ctx context.Context, q duly.QueueRef, id string) error {
	return s.run(ctx, func(ctx context.Context) error { return s.Engine.Delete(ctx, q, id) })
}

// Configure implements contract.Operator.
func (s *stepEngine) Configure(ctx context.Context, q duly.QueueRef, patch duly.QueueConfig) error {
	return s.run(ctx, func(ctx context.Context) error { return s.Engine.Configure(ctx, q, patch) })
}

// Pause implements contract.Operator.
func (s *stepEngine) Pause(ctx context.Context, q duly.QueueRef) error {
	return s.run(ctx, func(ctx context.Context) error { return s.Engine.Pause(ctx, q) })
}

// Resume implements contract.Operator.
func (s *stepEngine) Resume(ctx context.Context, q duly.QueueRef) error {
	return s.run(ctx, func(ctx context.Context) error { return s.Engine.Resume(ctx, q) })
}

// Destroy implements contract.Operator.
func (s *stepEngine) Destroy(ctx context.Context, q duly.QueueRef) error {
	return s.run(ctx, func(ctx context.Context) error { return s.Engine.Destroy(ctx, q) })
}
