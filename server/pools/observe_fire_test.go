package pools_test

import (
	"context"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/model"
	"github.com/dulymq/duly/server/pools"
)

// observedFirer is an engine that fires ticks by itself.
type observedFirer struct {
	*model.Engine
	observer chan contract.Firing
}

func (e observedFirer) ObserveFire(f contract.Firing) { e.observer <- f }

// The observer of ticks sees those of every pool, also of one that is opened later.
func TestObserverSeesTicksOfEveryPool(t *testing.T) {
	t.Parallel()
	c := clock.NewFake()
	firer := func() observedFirer {
		return observedFirer{model.New(model.Config{Clock: c}), make(chan contract.Firing, 1)}
	}
	first, late := firer(), firer()
	p := serve(t, c, map[string]pools.Engine{
		contract.DefaultPool: {Open: first},
		"late":               {Opener: func(context.Context) (contract.Engine, error) { return late, nil }},
	})
	p.ObserveFire(func(ctx context.Context, _ duly.QueueRef, _ int64, items []contract.FireItem) (
		context.Context, []contract.FireItem, func([]contract.FireResult, error),
	) {
		return ctx, append(items, contract.FireItem{Name: "seen"}), nil
	})

	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); p.Run(ctx) }()
	for _, e := range []observedFirer{first, late} {
		firing := <-e.observer
		if _, items, _ := firing(ctx, shop, 0, nil); len(items) != 1 {
			t.Errorf("the observer returned the items %+v", items)
		}
	}
	stop()
	<-ended
}
