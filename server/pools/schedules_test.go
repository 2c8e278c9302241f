package pools_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/model"
	"github.com/dulymq/duly/server/pools"
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

// Two pools would fire the same ticks.
func TestNamespaceWithSchedulesDoesNotMove(t *testing.T) {
	t.Parallel()
	r := newRig(t, "b")
	ctx := t.Context()
	_, err := r.PutSchedule(ctx, shopQueue, nightly)
	r.must(err)

	_, err = r.Move(ctx, "shop", "b")
	if !errors.Is(err, duly.ErrConflict) || !strings.Contains(err.Error(), "in queues q") {
		t.Errorf("a move: %v, want a conflict that names the queue", err)
	}
	if where, err := r.Where(ctx, "shop"); err != nil || where.Pool != contract.DefaultPool || where.From != "" {
		t.Errorf("the namespace is at %+v, %v", where, err)
	}

	r.must(r.DeleteSchedule(ctx, shopQueue, "nightly", 0))
	r.move("shop", "b")
	if _, err := r.PutSchedule(ctx, shopQueue, nightly); !errors.Is(err, duly.ErrConflict) {
		t.Errorf("a schedule during the move: %v, want conflict", err)
	}
}

// A schedule that a server puts before it sees the move stops the move.
func TestScheduleStopsMove(t *testing.T) {
	t.Parallel()
	r := newRig(t, "b")
	ctx := t.Context()
	r.push("shop", "q", "a")
	_, err := r.Move(ctx, "shop", "b")
	r.must(err)
	_, err = r.engines[contract.DefaultPool].PutSchedule(ctx, shopQueue, nightly)
	r.must(err)
	r.must(r.Advance(ctx)) // the time of the phase starts with this turn
	r.clock.Advance(pools.Propagation)

	if err := r.Advance(ctx); !errors.Is(err, duly.ErrConflict) {
		t.Errorf("Advance returned %v, want conflict", err)
	}
	if phase := r.phase("shop"); phase != contract.Preparing {
		t.Errorf("the phase is %s, want %s", phase, contract.Preparing)
	}
}

// An engine without schedules returns unsupported, and its namespaces move.
func TestPoolWithoutSchedules(t *testing.T) {
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
