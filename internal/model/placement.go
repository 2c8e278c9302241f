package model

import (
	"context"
	"slices"
	"strings"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// PutPlacement implements contract.Placer.
func (e *Engine) PutPlacement(ctx context.Context, p contract.Placement) error {
	if err := p.Validate(); err != nil {
		return err
	}
	if err := e.begin(ctx); err != nil {
		return err
	}
	defer e.mu.Unlock()
	p.Namespace = contract.NamespaceOr(p.Namespace)

	// The version must be the one that the caller has read, because two servers must not overwrite
	// each other's change.
	if e.placements[p.Namespace].Version != p.Version {
		return contract.PlacementConflict(p.Namespace)
	}
	p.Version++
	p.Former = slices.Clone(p.Former)
	e.placements[p.Namespace] = p

	// Servers follow placements by the same watch as tokens.
	e.tokensChanged()
	return nil
}

// FindPlacement implements contract.Placer.
func (e *Engine) FindPlacement(ctx context.Context, namespace string) (contract.Placement, error) {
	if err := contract.ValidateNamespace(namespace); err != nil {
		return contract.Placement{}, err
	}
	if err := e.begin(ctx); err != nil {
		return contract.Placement{}, err
	}
	defer e.mu.Unlock()
	namespace = contract.NamespaceOr(namespace)
	p, ok := e.placements[namespace]
	if !ok {
		return p, contract.Errorf(duly.CodeNotFound, "namespace %s has no placement", namespace)
	}
	return p, nil
}

// Placements implements contract.Placer.
func (e *Engine) Placements(ctx context.Context, p duly.PageParams) (page contract.PlacementPage, err error) {
	if err := contract.ValidateNamePage(&p); err != nil {
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
	slices.SortFunc(page.Placements, func(a, b contract.Placement) int { return strings.Compare(a.Namespace, b.Namespace) })
	if len(page.Placements) > p.Limit {
		page.Placements = page.Placements[:p.Limit]
		page.Next = page.Placements[p.Limit-1].Namespace
	}
	return page, nil
}
