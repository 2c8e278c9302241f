package lmstfyimport

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// settling is an engine whose Settle is replaced by a function of the test.
type settling struct {
	contract.Engine
	settle func(ctx context.Context, namespace string, outcomes []duly.SettleRequest) ([]error, error)
}

func (s *settling) Settle(ctx context.Context, namespace string, outcomes []duly.SettleRequest) ([]error, error) {
	return s.settle(ctx, namespace, outcomes)
}

// C15.29: a later run buries a dead job that an interrupted run has leased, but not before the lease
// has ended.
func TestLeasedDeadJobIsBuriedByLaterRun(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id := r.buried("shop", "q")
	path := filepath.Join(t.TempDir(), "journal")
	failing := &settling{r.engine,
		func(context.Context, string, []duly.SettleRequest) ([]error, error) { return nil, errDied }}
	if got, err := r.runInto(path, failing); !errors.Is(err, errDied) || got.Dead != 0 {
		t.Fatalf("%+v, %v", got, err)
	}
	if got, err := r.runInto(path, r.engine); err != nil || got.Left[whyLeased] != 1 || got.Known+got.Dead != 0 {
		t.Errorf("while it is leased: %+v, %v", got, err)
	}

	r.clock.Advance(2 * buryLease)
	if got, err := r.runInto(path, r.engine); err != nil || got.Known != 1 || len(got.Left) != 0 {
		t.Errorf("after the lease: %+v, %v", got, err)
	}
	if j := r.get("shop", "q", id); j.State != duly.StateDead {
		t.Errorf("%+v", j)
	}
	if got, err := r.runInto(path, r.engine); err != nil || got.Known != 1 || got.Dead != 0 {
		t.Errorf("once more: %+v, %v", got, err)
	}
}

// C15.29: the report contains a refused burial, does not count it, and the next run buries the job.
func TestRefusedBurialIsRepeatedByNextRun(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for range 3 {
		r.buried("shop", "q")
	}

	path := filepath.Join(t.TempDir(), "journal")
	refusing := &settling{r.engine,
		func(ctx context.Context, namespace string, outcomes []duly.SettleRequest) ([]error, error) {
			errs, err := r.engine.Settle(ctx, namespace, outcomes[1:])
			return append([]error{duly.ErrLeaseLost}, errs...), err
		}}
	if got, err := r.runInto(path, refusing); err != nil || got.Dead != 2 ||
		got.Left[whyRefused+reason(duly.ErrLeaseLost)] != 1 || len(got.Left) != 1 {
		t.Errorf("%+v, %v", got, err)
	}

	r.clock.Advance(2 * buryLease)
	if got, err := r.runInto(path, r.engine); err != nil || got.Known != 3 || len(got.Left) != 0 {
		t.Errorf("the next run: %+v, %v", got, err)
	}
	stats, err := r.engine.Stats(t.Context(), duly.QueueRef{Namespace: "shop", Name: "q"})
	if s := stats.Sizes; err != nil || s.Dead != 3 || s.Ready+s.Leased != 0 {
		t.Errorf("%+v, %v", stats, err)
	}
}

// A dead job that a consumer reserves before the importer does is skipped, and not counted as dead.
func TestDeadJobReservedByConsumerIsNotCountedAsDead(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.buried("shop", "q")
	im := r.importer()
	im.Target = func(context.Context, string) (contract.Engine, error) { return quicker{r.engine}, nil }
	if got := r.run(im); got.Dead != 0 || got.Left[whyTried] != 1 {
		t.Errorf("%+v", got)
	}
}

// quicker is an engine with a consumer that reserves each job before the caller does.
type quicker struct{ contract.Engine }

func (e quicker) Reserve(ctx context.Context, p duly.ReserveParams) ([]duly.Delivery, error) {
	_, err := e.Engine.Reserve(ctx, p)
	return nil, err
}

// C15.29: jobs that were dead in lmstfy stay ready in a paused queue. The report lists them, and a
// later run buries them.
func TestDeadJobsOfPausedQueueAreBuriedLater(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.buried("shop", "q")
	q := duly.QueueRef{Namespace: "shop", Name: "q"}

	path := filepath.Join(t.TempDir(), "journal")
	if _, err := r.engine.Push(t.Context(), []duly.Job{{Namespace: "shop", Queue: "q", Delay: time.Hour}}); err != nil {
		t.Fatal(err)
	}
	if err := r.engine.Pause(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	if got, err := r.runInto(path, r.engine); err != nil || got.Left[whyReady] != 1 || got.Dead != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	if err := r.engine.Resume(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	if got, err := r.runInto(path, r.engine); err != nil || got.Dead != 1 || len(got.Left) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

// Dead jobs are buried even if other jobs are ready before them. The other jobs stay ready.
func TestDeadJobsAreBuriedBeforeReadyJobs(t *testing.T) {
	t.Parallel()
	r := newRig(t)

	for i := range 300 {
		if _, err := r.engine.Push(t.Context(),
			[]duly.Job{{Namespace: "shop", Queue: "q", ID: fmt.Sprint("ready", i)}}); err != nil {
			t.Fatal(err)
		}
	}

	for range 5 {
		r.buried("shop", "q")
	}
	if got := r.run(r.importer()); got.Dead != 5 || len(got.Left) > 0 {
		t.Errorf("%+v", got)
	}
	stats, err := r.engine.Stats(t.Context(), duly.QueueRef{Namespace: "shop", Name: "q"})
	if s := stats.Sizes; err != nil || s.Ready != 300 || s.Dead != 5 || s.Leased != 0 {
		t.Errorf("%+v, %v", stats, err)
	}
}
