package worker_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/model"
	"github.com/dulymq/duly/worker"
)

// C4.98: the handler of a removed job ends within 100 ms with the cause
// ErrCanceled. The handler of another job keeps running.
func TestARemovedJobEndsItsHandler(t *testing.T) {
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
	pass(time.Second)

	if err := remove(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	pass(100 * time.Millisecond)
	if len(ended) != 1 || ended["a"] != duly.ErrCanceled {
		t.Errorf("ended are %v, want a by ErrCanceled", ended)
	}

	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
