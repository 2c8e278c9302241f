package cli

import (
	"cmp"
	"context"
	"errors"
	"log/slog"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/open"
	"github.com/dulymq/duly/server/metrics"
	"github.com/dulymq/duly/server/pools"
)

// openPools opens the engines of all pools. A pool that is unavailable is opened later. Any
// other error ends the start. The pools own all engines, also after an error.
func (a *app) openPools(
	ctx context.Context, engine contract.Engine, urls map[string]string, maxBody int,
	log *slog.Logger, counts *metrics.Metrics,
) (_ contract.Engine, err error) {
	engines := map[string]pools.Engine{contract.DefaultPool: {Open: engine}}

	// After a success the pools own the engines.
	defer func() {
		if err == nil {
			return
		}
		for _, e := range engines {
			if e.Open != nil {
				e.Open.Close()
			}
		}
	}()

	for name, url := range urls {
		// The setting max_body is the default for URLs without the option.
		if open.MaxBody(url) == 0 {
			url = open.WithMaxBody(url, maxBody)
		}
		opener := func(ctx context.Context) (contract.Engine, error) {
			return a.env.Open(ctx, url, open.Log(log.With("pool", name)), open.Gather(), open.Observe(counts.Called))
		}
		e, err := opener(ctx)
		switch {
		// A pool that is down must not keep the other pools from serving.
		case errors.Is(err, duly.ErrUnavailable):
			log.Error("cannot reach the pool; its namespaces are unavailable", "pool", name, "engine", open.Redact(url))
			engines[name] = pools.Engine{Opener: opener}
			continue
		case err != nil:
			return nil, contract.Errorf(duly.CodeOf(err), "pool %s: %w", name, err)
		}

		// A pool must be a storage. A remote engine would only forward to another server.
		if _, ok := e.(contract.Maintainer); !ok {
			e.Close()
			return nil, contract.Errorf(duly.CodeUnsupported, "pool %s: this engine has no storage; use a file or Redis", name)
		}
		engines[name] = pools.Engine{Open: e}
	}

	in, err := pools.New(pools.Config{Engines: engines, Clock: a.env.Clock, Logger: log})
	if err != nil {
		return nil, err
	}
	return in, nil
}

// maxBodyOf returns the largest limit of a body of all pools.
func maxBodyOf(url string, poolURLs map[string]string) int {
	// A URL without the option has the default, not zero.
	limit := func(url string) int { return cmp.Or(open.MaxBody(url), duly.DefaultMaxBody) }
	result := limit(url)
	for _, url := range poolURLs {
		result = max(result, limit(url))
	}
	return result
}
