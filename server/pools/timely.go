package pools

import (
	"context"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// stepFor bounds a step that has to be over before anybody relies on the next
// phase, which is once that has settled.
const stepFor = settle / 2

// timely is a pool's engine for a step of a move that must not come late. A
// server may stand still in mid-step for as long as it likes, and meanwhile the
// pool be the one to push to again. So the step begins with a look at the stored
// phase; what would change something more than stepFor later begins with another
// look, and is refused as a conflict if the phase is over. No clocks are compared.
type timely struct {
	contract.Engine
	pools *Pools
	where *contract.Placement // the phase; nil: there is no other look
	until time.Duration       // monotonic
}

// within is an engine for a step that begins now and ends in time.
func (r *Pools) within(e contract.Engine) *timely {
	return &timely{Engine: e, pools: r, until: r.cfg.Clock.Mono() + stepFor}
}

// timely is an engine for a step in a phase; [duly.ErrConflict]: that is over.
func (r *Pools) timely(ctx context.Context, e contract.Engine, where *contract.Placement) (*timely, error) {
	t := &timely{Engine: e, pools: r, where: where}
	return t, t.look(ctx)
}

func (t *timely) look(ctx context.Context) error {
	until := t.pools.cfg.Clock.Mono() + stepFor
	now, err := t.pools.stored(ctx, t.where.Namespace)
	if err == nil && now.Version != t.where.Version && !samePhase(&now, t.where) {
		err = contract.PlacementConflict(t.where.Namespace)
	}
	if err == nil {
		t.until = until
	}
	return err
}

func (t *timely) inTime(ctx context.Context, do func(ctx context.Context) error) error {
	left := t.until - t.pools.cfg.Clock.Mono()
	if left <= 0 && t.where != nil {
		if err := t.look(ctx); err != nil {
			return err
		}
		left = t.until - t.pools.cfg.Clock.Mono()
	}
	if left <= 0 {
		return contract.Errorf(duly.CodeConflict, "a step of a move took longer than %s and was left; it is tried again", stepFor)
	}
	ctx, end := context.WithTimeout(ctx, left)
	defer end()
	return do(ctx)
}

// Push implements duly.Engine.
func (t *timely) Push(ctx context.Context, jobs []duly.Job) (results []duly.PushResult, err error) {
	err = t.inTime(ctx, func(ctx context.Context) error {
		results, err = t.Engine.Push(ctx, jobs)
		return err
	})
	return results, err
}

// Delete implements contract.Operator.
func (t *timely) Delete(ctx context.Context, q duly.QueueRef, id string) error {
	return t.inTime(ctx, func(ctx context.Context) error { return t.Engine.Delete(ctx, q, id) })
}

// Configure implements contract.Operator.
func (t *timely) Configure(ctx context.Context, q duly.QueueRef, patch duly.QueueConfig) error {
	return t.inTime(ctx, func(ctx context.Context) error { return t.Engine.Configure(ctx, q, patch) })
}

// Pause implements contract.Operator.
func (t *timely) Pause(ctx context.Context, q duly.QueueRef) error {
	return t.inTime(ctx, func(ctx context.Context) error { return t.Engine.Pause(ctx, q) })
}

// Resume implements contract.Operator.
func (t *timely) Resume(ctx context.Context, q duly.QueueRef) error {
	return t.inTime(ctx, func(ctx context.Context) error { return t.Engine.Resume(ctx, q) })
}

// Destroy implements contract.Operator.
func (t *timely) Destroy(ctx context.Context, q duly.QueueRef) error {
	return t.inTime(ctx, func(ctx context.Context) error { return t.Engine.Destroy(ctx, q) })
}
