package worker_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/model"
	"github.com/dulymq/duly/worker"
)

// C4.98: the handler of a removed job ends within 100 ms with the cause
// ErrCanceled. The handler of another job keeps running.
func TestRemovedJobEndsItsHandler(t *testing.T) {
	t.Parallel()
	q := duly.Q("q")
	for name, remove := range map[string]func(context.Context, *model.Engine) error{
		"Delete": func(ctx context.Context, e *model.Engine) error { return e.Delete(ctx, q, "a") },
		"Purge": func(ctx context.Context, e *model.Engine) error {
			_, err := e.Purge(ctx, q, duly.StateLeased, 0)
			return err
		},
		"Destroy": func(ctx context.Context, e *model.Engine) error { return e.Destroy(ctx, q) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { removeWhileItRuns(t, remove) })
		})
	}
}

func removeWhileItRuns(t *testing.T, remove func(context.Context, *model.Engine) error) {
	e := model.New(model.Config{})
	defer e.Close()
	for _, j := range []duly.Job{{Queue: "q", ID: "a"}, {Queue: "other", ID: "b"}} {
		if _, err := e.Push(t.Context(), []duly.Job{j}); err != nil {
			t.Fatal(err)
		}
	}
	ended := map[string]error{}
	h := func(ctx context.Context, d *worker.Delivery) error {
		<-ctx.Done()
		ended[d.ID] = context.Cause(ctx)
		return ctx.Err()
	}
	w := worker.New(e, worker.Config{Logger: slog.New(slog.DiscardHandler), Drain: duly.None})
	w.Handle("q", h)
	w.Handle("other", h)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	advance(time.Second)

	if err := remove(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	advance(100 * time.Millisecond)
	if len(ended) != 1 || ended["a"] != duly.ErrCanceled {
		t.Errorf("ended are %v, want a by ErrCanceled", ended)
	}

	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// reconnectingWatch is an engine that reports no removed job, and calls Ready whenever gap
// receives.
type reconnectingWatch struct {
	*model.Engine
	gap chan struct{}
}

func (e *reconnectingWatch) WatchCancels(ctx context.Context, _ string, w contract.CancelWatch) error {
	for {
		select {
		case <-e.gap:
			w.Ready()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// failingWatch is an engine whose watch always fails.
type failingWatch struct {
	*memoryEngine
	watches atomic.Int64
}

func (d *failingWatch) WatchCancels(context.Context, string, contract.CancelWatch) error {
	if d.watches.Add(1) > 10_000 {
		panic("the worker watches again without a pause")
	}
	return duly.ErrUnavailable
}

func TestFailedWatchIsRepeatedWithPauses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := &failingWatch{memoryEngine: newMemoryEngine()}
		w := worker.New(e, worker.Config{Logger: slog.New(slog.DiscardHandler)})
		w.Handle("q", sleeper(0))
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }()
		time.Sleep(time.Minute)
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if n := e.watches.Load(); n < 30 || n > 200 {
			t.Errorf("%d watches in a minute", n)
		}
	})
}

// C4.98: reports may be lost while a watch is not connected, so after a gap the worker verifies all
// leases.
func TestReconnectedWatchEndsHandlersOfRemovedJobs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := &reconnectingWatch{model.New(model.Config{}), make(chan struct{})}
		defer e.Close()
		if _, err := e.Push(t.Context(), []duly.Job{{Queue: "q", ID: "a"}, {Queue: "q", ID: "b"}}); err != nil {
			t.Fatal(err)
		}
		ended := map[string]error{}
		w := worker.New(e, worker.Config{Logger: slog.New(slog.DiscardHandler), Drain: duly.None, Concurrency: 2})
		w.Handle("q", func(ctx context.Context, d *worker.Delivery) error {
			<-ctx.Done()
			ended[d.ID] = context.Cause(ctx)
			return ctx.Err()
		})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }()
		advance(time.Second)

		if err := e.Delete(t.Context(), duly.Q("q"), "a"); err != nil {
			t.Fatal(err)
		}
		e.gap <- struct{}{}
		advance(100 * time.Millisecond)
		if len(ended) != 1 || ended["a"] != duly.ErrCanceled {
			t.Errorf("ended are %v, want a by ErrCanceled", ended)
		}

		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
