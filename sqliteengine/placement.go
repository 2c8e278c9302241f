package sqliteengine

import (
	"context"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/sqliteengine/internal/sqliteconn"
)

// PutPlacement implements contract.Placer.
func (e registryAPI) PutPlacement(ctx context.Context, p contract.Placement) error {
	if err := p.Validate(); err != nil {
		return err
	}

	return e.changeToken(ctx, spaceSome, func(t *tx) error {
		name := "placement_change"
		if p.Version == 0 {
			name = "placement_make"
		}
		s := t.stmt(name).Text(1, contract.NamespaceOr(p.Namespace)).Text(2, p.Pool).Text(3, p.From).Text(4,
			string(p.Phase)).
			Int(5, clock.Milli(p.Since)).Text(6, p.FormerText())
		if p.Version > 0 {
			s.Int(7, p.Version)
		}
		changed, err := s.Run()
		if err == nil && changed == 0 {
			err = contract.PlacementConflict(p.Namespace)
		}
		return err
	})
}

// FindPlacement implements contract.Placer.
func (e registryAPI) FindPlacement(ctx context.Context, namespace string) (p contract.Placement, err error) {
	if err := contract.ValidateNamespace(namespace); err != nil {
		return p, err
	}

	namespace = contract.NamespaceOr(namespace)
	err = e.read(ctx, func(c *conn) error {
		s := c.stmt("placement_find").Text(1, namespace)
		row, err := s.Step()
		if err != nil {
			return err
		}
		if !row {
			return contract.Errorf(duly.CodeNotFound, "namespace %s has no placement", namespace)
		}
		p = scanPlacement(s)
		s.Reset()
		return nil
	})
	return p, err
}

// scanPlacement reads the columns namespace, version, pool, source, phase,
// since, former.
func scanPlacement(s *sqliteconn.Stmt) contract.Placement {
	return contract.Placement{
		Namespace: s.ColText(0), Version: s.ColInt(1), Pool: s.ColText(2), From: s.ColText(3),
		Phase: contract.MovePhase(s.ColText(4)),
		Since: clock.FromMilli(s.ColInt(5)), Former: contract.ParseFormer(s.ColText(6)),
	}
}

// Placements implements contract.Placer.
func (e registryAPI) Placements(ctx context.Context, p duly.PageParams) (page contract.PlacementPage, err error) {
	if err := contract.ValidateNamePage(&p); err != nil {
		return page, err
	}

	err = e.read(ctx, func(c *conn) error {
		s := c.stmt("placement_list").Text(1, p.Cursor).Int(2, int64(p.Limit)+1)
		for {
			row, err := s.Step()
			if err != nil || !row {
				return err
			}
			page.Placements = append(page.Placements, scanPlacement(s))
		}
	})
	if len(page.Placements) > p.Limit {
		page.Placements = page.Placements[:p.Limit]
		page.Next = page.Placements[p.Limit-1].Namespace
	}

	return page, err
}
