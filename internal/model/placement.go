package model

import (
	"context"
	"slices"
	"strings"

	"github.com/dulymq/duly"
)

// PutPlacement implements duly.Placer.
func (e *Engine) PutPlacement(ctx context.Context, p duly.Placement) error {
	if err := p.Validate(); err != nil {
		return err
	}
	if err := e.begin(ctx); err != nil {
		return err
	}
	defer e.mu.Unlock()
	p.Namespace = duly.NamespaceOr(p.Namespace)
	if e.placements[p.Namespace].Version != p.Version {
		return duly.PlacementConflict(p.Namespace)
	}
	p.Version++
	p.Former = slices.Clone(p.Former)
	e.placements[p.Namespace] = p
	e.tokensChanged()
	return nil
}

// FindPlacement implements duly.Placer.
func (e *Engine) FindPlacement(ctx context.Context, namespace string) (duly.Placement, error) {
	if err := duly.ValidateNamespace(namespace); err != nil {
		return duly.Placement{}, err
	}
	if err := e.begin(ctx); err != nil {
		return duly.Placement{}, err
	}
	defer e.mu.Unlock()
	namespace = duly.NamespaceOr(namespace)
	p, ok := e.placements[namespace]
	if !ok {
		return p, duly.Errorf(duly.CodeNotFound, "namespace %s was never placed", namespace)
	}
	return p, nil
}

// Placements implements duly.Placer.
func (e *Engine) Placements(ctx context.Context, p duly.PageParams) (page duly.PlacementPage, err error) {
	if err := p.ValidateNames(); err != nil {
		return page, err
	}
	if err := e.begin(ctx); err != nil {
		return page, err
	}
	defer e.mu.Unlock()
	for namespace, one := range e.placements {
		if namespace > p.Cursor {
			page.Placements = append(page.Placements, one)
		}
	}
	slices.SortFunc(page.Placements, func(a, b duly.Placement) int { return strings.Compare(a.Namespace, b.Namespace) })
	if len(page.Placements) > p.Limit {
		page.Placements = page.Placements[:p.Limit]
		page.Next = page.Placements[p.Limit-1].Namespace
	}
	return page, nil
}
