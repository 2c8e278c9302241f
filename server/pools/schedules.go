package pools

import (
	"context"
	"errors"
	"strings"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

var _ duly.Scheduler = (*Pools)(nil)

// scheduler returns the schedules of a namespace's pool. During a move, two pools would fire the
// same ticks.
func (r *Pools) scheduler(ctx context.Context, namespace string) (duly.Scheduler, error) {
	schedules, _, err := optional[duly.Scheduler](ctx, r, namespace, "schedules")
	return schedules, err
}

// errEnough ends a list early, because the error message shows no more names.
var errEnough = errors.New("the error names no more queues")

// refuseSchedules returns ErrConflict if an engine has schedules of a namespace.
func refuseSchedules(ctx context.Context, e contract.Engine, namespace string) error {
	if h, ok := e.(*observedEngine); ok {
		e = h.Engine
	}
	if _, ok := e.(duly.Scheduler); !ok {
		return nil
	}

	var queues []string
	err := contract.QueuesWithSchedules(ctx, e, namespace, func(queue string) error {
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
		"namespace %s has schedules, which cannot move, in queues %s; delete them first, or leave the namespace in its pool",
		contract.NamespaceOr(namespace), strings.Join(queues, ", "))
}

// PutSchedule implements duly.Scheduler.
func (r *Pools) PutSchedule(ctx context.Context, q duly.QueueRef, s duly.Schedule) (duly.SchedulePut, error) {
	return with(ctx, q.Namespace, r.scheduler, func(e duly.Scheduler) (duly.SchedulePut, error) {
		return e.PutSchedule(ctx, q, s)
	})
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
		return e.Schedules(ctx, q, p)
	})
}

// DeleteSchedule implements duly.Scheduler.
func (r *Pools) DeleteSchedule(ctx context.Context, q duly.QueueRef, name string, version int64) error {
	return do(ctx, q.Namespace, r.scheduler, func(e duly.Scheduler) error {
		return e.DeleteSchedule(ctx, q, name, version)
	})
}

// PauseSchedule implements duly.Scheduler.
func (r *Pools) PauseSchedule(ctx context.Context, q duly.QueueRef, name string) error {
	return do(ctx, q.Namespace, r.scheduler, func(e duly.Scheduler) error { return e.PauseSchedule(ctx, q, name) })
}

// ResumeSchedule implements duly.Scheduler.
func (r *Pools) ResumeSchedule(ctx context.Context, q duly.QueueRef, name string) error {
	return do(ctx, q.Namespace, r.scheduler, func(e duly.Scheduler) error { return e.ResumeSchedule(ctx, q, name) })
}
