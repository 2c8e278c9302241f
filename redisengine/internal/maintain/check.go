package maintain

import (
	"context"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// Check implements duly.Maintainer. It walks over every shard, page by page,
// each page judged by one script as it stands at that moment; what is suspect
// is judged again, and mended, in one script call of its own. So others may
// work beside it.
func (e *Maintainer) Check(ctx context.Context, p duly.CheckParams) (duly.CheckReport, error) {
	if err := e.Alive(ctx); err != nil {
		return duly.CheckReport{}, err
	}
	c := &check{e: e.Catalog, p: p}
	err := e.EachPage(ctx, e.NamespacesKey(), func(namespaces []string) error {
		for _, namespace := range namespaces {
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
	if err == nil && p.Repair {
		e.Libraries.clean(ctx)
	}
	return c.report, err
}

// markersAgain judges the missing markers. The process that took one may be about
// to reserve; it has had its time when every waiting process has looked around. A
// clock that a test moves stands still meanwhile: nobody's time is over.
func (c *check) markersAgain(ctx context.Context) error {
	if len(c.silent) == 0 || c.e.Settings.Clock != nil {
		return nil
	}
	if err := clock.Sleep(ctx, clock.System(), store.Recheck); err != nil {
		return err
	}
	for _, s := range c.silent {
		if _, err := c.totals(ctx, s.ShardRef, s.standing); err != nil {
			return err
		}
	}
	return nil
}
