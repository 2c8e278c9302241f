package cli

import (
	"cmp"
	"context"
	"errors"
	"log/slog"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/open"
	"github.com/dulymq/duly/server/metrics"
	"github.com/dulymq/duly/server/pools"
)

// openPools puts the engines together. One that can't be reached is opened as
// soon as it can be; any other error ends the start. The pools own all of them,
// after an error too.
func (a *app) openPools(ctx context.Context, engine duly.Contract, urls map[string]string, maxBody int, log *slog.Logger, counts *metrics.Metrics) (_ duly.Contract, err error) {
	engines := map[string]pools.Engine{duly.DefaultPool: {Open: engine}}
	defer func() {
		if err != nil {
			for _, e := range engines {
				if e.Open != nil {
					e.Open.Close()
				}
			}
		}
	}()
	for name, url := range urls {
		if open.MaxBody(url) == 0 {
			url = open.WithMaxBody(url, maxBody)
		}
		opener := func(ctx context.Context) (duly.Contract, error) {
			return a.env.Open(ctx, url, open.Log(log.With("pool", name)), open.Gather(), open.Observe(counts.Called))
		}
		e, err := opener(ctx)
		switch {
		case errors.Is(err, duly.ErrUnavailable):
			log.Error("the pool can't be reached; its namespaces are unavailable until it can be", "pool", name, "engine", open.Redact(url))
		case err != nil:
			return nil, duly.Errorf(duly.CodeOf(err), "pool %s: %w", name, err)
		}
		if err == nil {
			if _, ok := e.(duly.Maintainer); !ok {
				e.Close()
				return nil, duly.Errorf(duly.CodeUnsupported, "pool %s: this engine does not own its storage; give a file or Redis", name)
			}
			engines[name] = pools.Engine{Open: e}
		} else {
			engines[name] = pools.Engine{Opener: opener}
		}
	}
	in, err := pools.New(pools.Config{Engines: engines, Clock: a.env.Clock, Logger: log})
	if err != nil {
		return nil, err
	}
	return in, nil
}

// mostBody is the largest bound on a body of all pools.
func mostBody(at string, urls map[string]string) int {
	bound := func(url string) int { return cmp.Or(open.MaxBody(url), duly.DefaultMaxBody) }
	most := bound(at)
	for _, url := range urls {
		most = max(most, bound(url))
	}
	return most
}
