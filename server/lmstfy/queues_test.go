package lmstfy

import (
	"context"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/model"
	"github.com/dulymq/duly/server/observe"
)

// hookEngine is an engine that calls a hook during a check.
type hookEngine struct {
	contract.Engine
	hook func()
}

func (e *hookEngine) Config(ctx context.Context, q duly.QueueRef) (duly.QueueConfig, error) {
	config, err := e.Engine.Config(ctx, q)
	if hook := e.hook; hook != nil {
		e.hook = nil
		hook()
	}
	return config, err
}

// A publish creates a queue that was destroyed during the publish's check. After the next publish,
// the queue's dead letters have no bound.
func TestQueueDestroyedDuringCheckKeepsDeadLetters(t *testing.T) {
	t.Parallel()
	for name, checks := range map[string]int{"first check": 0, "second check": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := clock.NewFake()
			e := &hookEngine{Engine: model.New(model.Config{Clock: c, Manual: true})}
			defer e.Close()
			cache := newQueueCache(e, c)
			ref := duly.QueueRef{Namespace: "ns", Name: "q"}
			push := func() {
				t.Helper()
				if _, err := e.Push(t.Context(), []duly.Job{{Namespace: "ns", Queue: "q"}}); err != nil {
					t.Fatal(err)
				}
			}
			publish := func() {
				t.Helper()
				if err := cache.check(t.Context(), ref); err != nil {
					t.Fatal(err)
				}
				push()
			}

			push()
			for range checks {
				publish()
				c.Advance(queueCheckTTL)
			}
			e.hook = func() {
				if err := observe.New(e, (&API{queues: cache}).Observer()).Destroy(t.Context(), ref); err != nil {
					t.Error(err)
				}
			}
			publish()
			publish()

			config, err := e.Config(t.Context(), ref)
			if err != nil || config.DeadAge != duly.None || config.DeadCount != duly.None {
				t.Errorf("%+v, %v", config, err)
			}
		})
	}
}
