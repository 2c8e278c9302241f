package pools

import (
	"context"
	"errors"
	"strings"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

var _ duly.Scheduler = (*Pools)(nil)

// scheduler returns the schedules of a namespace: those of its pool, or of both pools while it moves.
func (r *Pools) scheduler(ctx context.Context, namespace string) (duly.Scheduler, error) {
	engine, err := r.engineOf(ctx, namespace)
	if err != nil {
		return nil, err
	}
	if m, ok := engine.(*migratingEngine); ok {
		return m.schedules()
	}
	if s := schedulerOf(engine); s != nil {
		return s, nil
	}
	return nil, unsupported(namespace, "schedules")
}

// schedulerOf returns the schedules of a pool's engine, nil for an engine without schedules.
func schedulerOf(e contract.Engine) duly.Scheduler {
	s, _ := inner(e).(duly.Scheduler)
	return s
}

// inner returns the engine that a pool observes.
func inner(e contract.Engine) contract.Engine {
	if h, ok := e.(*observedEngine); ok {
		return h.Engine
	}
	return e
}

// errEnough ends a list early, because the error message shows no more names.
var errEnough = errors.New("the error names no more queues")

// refuseSchedules returns ErrConflict if the old pool has schedules, and one of the two engines cannot
// move them.
func refuseSchedules(ctx context.Context, old, fresh contract.Engine, namespace string) error {
	_, from := inner(old).(contract.ScheduleMover)
	_, to := inner(fresh).(contract.ScheduleMover)
	if from && to || schedulerOf(old) == nil {
		return nil
	}

	var queues []string
	err := contract.QueuesWithSchedules(ctx, old, namespace, func(queue string) error {
		queues = append(queues, queue)
		if len(queues) == maxNamed {
			return errEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return err
	}
	if len(queues) == 0 {
		return nil
	}
	return contract.Errorf(duly.CodeConflict,
		"namespace %s has schedules in queues %s, and the engine of a pool cannot move them; delete them first, "+
			"or leave the namespace in its pool", contract.NamespaceOr(namespace), strings.Join(queues, ", "))
}

// changeSchedule calls do with the schedules of a namespace. A server that is suspended during the call
// could change a pool that the namespace has left. So the call ends before other servers rely on the
// next phase.
func (r *Pools) changeSchedule(ctx context.Context, namespace string, do func(context.Context, duly.Scheduler) error) error {
	bounded, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	e, err := r.scheduler(bounded, namespace)
	if err == nil {
		err = do(bounded, e)
	}
	if err != nil && ctx.Err() == nil && bounded.Err() != nil {
		// The caller has not ended the call, so it gets an error that it may repeat.
		return partial(err)
	}
	return err
}

// PutSchedule implements duly.Scheduler.
func (r *Pools) PutSchedule(ctx context.Context, q duly.QueueRef, s duly.Schedule) (put duly.SchedulePut, err error) {
	err = r.changeSchedule(ctx, q.Namespace, func(ctx context.Context, e duly.Scheduler) error {
		put, err = e.PutSchedule(ctx, q, s)
		return err
	})
	return put, err
}

// GetSchedule implements duly.Scheduler.
func (r *Pools) GetSchedule(ctx context.Context, q duly.QueueRef, name string) (duly.ScheduleInfo, error) {
	return with(ctx, q.Namespace, r.scheduler, func(e duly.Scheduler) (duly.ScheduleInfo, error) {
		return e.GetSchedule(ctx, q, name)
	})
}

// Schedules implements duly.Scheduler.
func (r *Pools) Schedules(ctx context.Context, q duly.QueueRef, p duly.PageParams) (duly.SchedulePage, error) {
	return with(ctx, q.Namespace, r.scheduler, func(e duly.Scheduler) (duly.SchedulePage, error) {
		// The cursor may be from a page during the move.
		if _, moves := e.(*migratingSchedules); !moves {
			p.Cursor = afterMove(p.Cursor)
		}
		return e.Schedules(ctx, q, p)
	})
}

// DeleteSchedule implements duly.Scheduler.
func (r *Pools) DeleteSchedule(ctx context.Context, q duly.QueueRef, name string, version int64) error {
	return r.changeSchedule(ctx, q.Namespace, func(ctx context.Context, e duly.Scheduler) error {
		return e.DeleteSchedule(ctx, q, name, version)
	})
}

// PauseSchedule implements duly.Scheduler.
func (r *Pools) PauseSchedule(ctx context.Context, q duly.QueueRef, name string) error {
	return r.changeSchedule(ctx, q.Namespace, func(ctx context.Context, e duly.Scheduler) error {
		return e.PauseSchedule(ctx, q, name)
	})
}

// ResumeSchedule implements duly.Scheduler.
func (r *Pools) ResumeSchedule(ctx context.Context, q duly.QueueRef, name string) error {
	return r.changeSchedule(ctx, q.Namespace, func(ctx context.Context, e duly.Scheduler) error {
		return e.ResumeSchedule(ctx, q, name)
	})
}
