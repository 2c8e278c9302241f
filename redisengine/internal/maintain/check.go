package maintain

import (
	"context"

	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// Check implements contract.Maintainer. It reads every shard, page by page. One script checks a
// page at one point in time. A second script call checks each suspect entry again and repairs it.
// Other callers can therefore work concurrently.
func (e *Maintainer) Check(ctx context.Context, p contract.CheckParams) (contract.CheckReport, error) {
	if err := e.Alive(ctx); err != nil {
		return contract.CheckReport{}, err
	}

	c := &check{e: e.Catalog, p: p, topics: e.Logs}
	err := e.EachPage(ctx, e.NamespacesKey(), func(namespaces []string) error {
		for _, namespace := range namespaces {
			// A damaged entry of the list can't be visited.
			look := c.namespace
			if store.InvalidNamespace(namespace) {
				look = c.dropNamespace
			}
			if err := look(ctx, namespace); err != nil {
				return err
			}
		}
		return nil
	})

	if err == nil {
		err = c.markersAgain(ctx)
	}
	// Old libraries are unused data, so a repair removes them as well.
	if err == nil && p.Repair {
		e.Libraries.clean(ctx)
	}

	return c.report, err
}

// markersAgain checks missing markers again. The process that took a marker may be about to
// reserve, so the check waits until every waiting process has polled once. With a clock from
// Config it returns at once, because a test's clock does not advance on its own.
func (c *check) markersAgain(ctx context.Context) error {
	if len(c.silent) == 0 || c.e.Settings.Clock != nil {
		return nil
	}
	if err := clock.Sleep(ctx, clock.System(), store.Recheck); err != nil {
		return err
	}
	for _, s := range c.silent {
		if _, err := c.totals(ctx, s.ShardRef, c.repair(), s.standing); err != nil {
			return err
		}
	}
	return nil
}
