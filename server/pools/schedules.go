package pools

import (
	"context"
	"strings"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

var _ duly.Scheduler = (*Pools)(nil)

// scheduler returns the schedules of a namespace's pool. It returns conflict for a namespace
// that moves, because two pools would fire the same ticks.
func (r *Pools) scheduler(ctx context.Context, namespace string) (duly.Scheduler, error) {
	engine, err := r.engineOf(ctx, namespace)
	if err != nil {
		return nil, err
	}
	switch e := engine.(type) {
	case *migratingEngine:
		return nil, contract.Errorf(duly.CodeConflict,
			"namespace %s is moving to another pool and cannot have schedules until the move ends; see duly pool status",
			contract.NamespaceOr(namespace))
	case *observedEngine:
		if schedules, ok := e.Engine.(duly.Scheduler); ok {
			return schedules, nil
		}
	}
	return nil, contract.Errorf(duly.CodeUnsupported, "the engine of namespace %s does not support schedules; use a pool whose engine does",
		contract.NamespaceOr(namespace))
}

// refuseSchedules returns ErrConflict if an engine has schedules of a namespace.
func refuseSchedules(ctx context.Context, e contract.Engine, namespace string) error {
	if h, ok := e.(*observedEngine); ok {
		e = h.Engine
	}
	if _, ok := e.(duly.Scheduler); !ok {
		return nil
	}

	var queues []string
	surveyor := contract.SurveyorOf(e)
	for cursor := ""; len(queues) < maxNamed; {
		page, err := surveyor.Survey(ctx, namespace, duly.PageParams{Cursor: cursor, Limit: duly.MaxBatch})
		if err != nil {
			return err
		}
		for _, q := range page.Queues {
			// A queue that cannot be read may have schedules.
			if q.Err != nil {
				return q.Err
			}
			if q.Stats.Schedules > 0 && len(queues) < maxNamed {
				queues = append(queues, q.Name)
			}
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}

	if len(queues) == 0 {
		return nil
	}
	return contract.Errorf(duly.CodeConflict,
		"namespace %s has schedules, which cannot move, in queues %s; delete them first, or leave the namespace in its pool",
		contract.NamespaceOr(namespace), strings.Join(queues, ", "))
}

// withScheduler calls f with the schedules of a namespace.
func withScheduler[T any](
	ctx context.Context, r *Pools, namespace string, f func(s duly.Scheduler) (T, error),
) (none T, err error) {
	schedules, err := r.scheduler(ctx, namespace)
	if err != nil {
		return none, err
	}
	return f(schedules)
}

// doWithScheduler is withScheduler for a call that returns only an error.
func (r *Pools) doWithScheduler(ctx context.Context, namespace string, do func(s duly.Scheduler) error) error {
	schedules, err := r.scheduler(ctx, namespace)
	if err != nil {
		return err
	}
	return do(schedules)
}

// PutSchedule implements duly.Scheduler.
func (r *Pools) PutSchedule(ctx context.Context, q duly.QueueRef, s duly.Schedule) (duly.SchedulePut, error) {
	return withScheduler(ctx, r, q.Namespace, func(e duly.Scheduler) (duly.SchedulePut, error) {
		return e.PutSchedule(ctx, q, s)
	})
}

// GetSchedule implements duly.Scheduler.
func (r *Pools) GetSchedule(ctx context.Context, q duly.QueueRef, name string) (duly.ScheduleInfo, error) {
	return withScheduler(ctx, r, q.Namespace, func(e duly.Scheduler) (duly.ScheduleInfo, error) {
		return e.GetSchedule(ctx, q, name)
	})
}

// Schedules implements duly.Scheduler.
func (r *Pools) Schedules(ctx context.Context, q duly.QueueRef, p duly.PageParams) (duly.SchedulePage, error) {
	return withScheduler(ctx, r, q.Namespace, func(e duly.Scheduler) (duly.SchedulePage, error) {
		return e.Schedules(ctx, q, p)
	})
}

// DeleteSchedule implements duly.Scheduler.
func (r *Pools) DeleteSchedule(ctx context.Context, q duly.QueueRef, name string, version int64) error {
	return r.doWithScheduler(ctx, q.Namespace, func(e duly.Scheduler) error {
		return e.DeleteSchedule(ctx, q, name, version)
	})
}

// PauseSchedule implements duly.Scheduler.
func (r *Pools) PauseSchedule(ctx context.Context, q duly.QueueRef, name string) error {
	return r.doWithScheduler(ctx, q.Namespace, func(e duly.Scheduler) error { return e.PauseSchedule(ctx, q, name) })
}

// ResumeSchedule implements duly.Scheduler.
func (r *Pools) ResumeSchedule(ctx context.Context, q duly.QueueRef, name string) error {
	return r.doWithScheduler(ctx, q.Namespace, func(e duly.Scheduler) error { return e.ResumeSchedule(ctx, q, name) })
}
