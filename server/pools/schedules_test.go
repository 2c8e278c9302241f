package pools_test

import (
	"errors"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/model"
)

var (
	shopQueue = duly.QueueRef{Namespace: "shop", Name: "q"}
	nightly   = duly.Schedule{Name: "nightly", Spec: "0 3 * * *"}
)

// Schedules are in the pool of their namespace.
func TestSchedulesAreInThePoolOfTheirNamespace(t *testing.T) {
	t.Parallel()
	r := newRig(t, "b")
	ctx := t.Context()
	r.must(r.Assign(ctx, "shop", "b"))
	if put, err := r.PutSchedule(ctx, shopQueue, nightly); err != nil || put.Status != duly.ScheduleCreated {
		t.Fatalf("PutSchedule returned %+v, %v", put, err)
	}

	if _, err := r.engines["b"].GetSchedule(ctx, shopQueue, "nightly"); err != nil {
		t.Errorf("the schedule is not in the pool b: %v", err)
	}
	if page, err := r.Schedules(ctx, shopQueue, duly.PageParams{}); err != nil || len(page.Schedules) != 1 {
		t.Errorf("the list is %+v, %v", page, err)
	}
	r.must(r.PauseSchedule(ctx, shopQueue, "nightly"))
	if info, err := r.GetSchedule(ctx, shopQueue, "nightly"); err != nil || !info.Paused {
		t.Errorf("after a pause the schedule is %+v, %v", info, err)
	}
	r.must(r.ResumeSchedule(ctx, shopQueue, "nightly"))
	r.must(r.DeleteSchedule(ctx, shopQueue, "nightly", 0))
	if _, err := r.GetSchedule(ctx, shopQueue, "nightly"); !errors.Is(err, duly.ErrNotFound) {
		t.Errorf("after a delete: %v, want not_found", err)
	}
}

// An engine without schedules returns unsupported, and its namespaces move.
func TestPoolWithoutSchedulesReturnsUnsupported(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.newServer(func(_ string, e *model.Engine) contract.Engine {
		return struct {
			contract.Engine
			contract.Registry
			contract.Placer
		}{e, e, e}
	})
	if _, err := p.PutSchedule(t.Context(), shopQueue, nightly); !errors.Is(err, duly.ErrUnsupported) {
		t.Errorf("PutSchedule returned %v, want unsupported", err)
	}
}

// A namespace with schedules does not move to an engine that cannot take them. Two pools would fire the
// same ticks.
func TestScheduleDoesNotMoveToEngineWithoutHolds(t *testing.T) {
	t.Parallel()
	r := newRig(t, "b")
	p := r.newServer(func(name string, e *model.Engine) contract.Engine {
		if name == contract.DefaultPool {
			return e
		}
		return struct{ contract.Engine }{e}
	})
	_, err := p.PutSchedule(t.Context(), shopQueue, nightly)
	r.must(err)

	_, err = p.Move(t.Context(), "shop", "b")
	if !errors.Is(err, duly.ErrConflict) || !contains(err, "in queues q") {
		t.Errorf("a move: %v, want a conflict that names the queue", err)
	}
	r.must(p.DeleteSchedule(t.Context(), shopQueue, "nightly", 0))
	if _, err := p.Move(t.Context(), "shop", "b"); err != nil {
		t.Errorf("a move without schedules: %v", err)
	}
	if _, err := p.PutSchedule(t.Context(), shopQueue, nightly); !errors.Is(err, duly.ErrConflict) {
		t.Errorf("a schedule during the move: %v, want conflict", err)
	}
}
