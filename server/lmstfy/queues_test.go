package lmstfy

import (
	"context"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/model"
)

// during is an engine in which something happens while a queue is looked at.
type during struct {
	duly.Contract
	then func()
}

func (d *during) Config(ctx context.Context, q duly.QueueRef) (duly.QueueConfig, error) {
	config, err := d.Contract.Config(ctx, q)
	if then := d.then; then != nil {
		d.then = nil
		then()
	}
	return config, err
}

// A queue that is destroyed while a publish looks at it is made anew by that
// publish, and has its dead letters unbounded from the next one on.
func TestAQueueThatGoesWhileItIsLookedAt(t *testing.T) {
	t.Parallel()
	for what, looks := range map[string]int{"for the first time": 0, "once more": 1} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			c := clock.NewFake()
			e := &during{Contract: model.New(model.Config{Clock: c, Manual: true})}
			defer e.Close()
			k := newKnown(e, c)
			ref := duly.QueueRef{Namespace: "ns", Name: "q"}
			publish := func() {
				t.Helper()
				if err := k.see(t.Context(), ref); err != nil {
					t.Fatal(err)
				}
				if _, err := e.Push(t.Context(), []duly.Job{{Namespace: "ns", Queue: "q"}}); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := e.Push(t.Context(), []duly.Job{{Namespace: "ns", Queue: "q"}}); err != nil {
				t.Fatal(err)
			}
			for range looks {
				publish()
				c.Advance(knownFor)
			}
			e.then = func() {
				if err := (watched{e, k}).Destroy(t.Context(), ref); err != nil {
					t.Error(err)
				}
			}
			publish()
			publish()
			if config, err := e.Config(t.Context(), ref); err != nil || config.DeadAge != duly.None || config.DeadCount != duly.None {
				t.Errorf("%+v, %v", config, err)
			}
		})
	}
}
