package pools

import (
	"context"
	"errors"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// Assign places a namespace without a placement in a pool. It returns nil if the
// namespace is in that pool already, [duly.ErrInvalid] for an unknown pool, and
// [duly.ErrConflict] if the namespace is in another pool.
func (r *Pools) Assign(ctx context.Context, namespace, name string) error {
	if !r.Has(name) {
		return r.ErrNoPool(name)
	}
	if namespace == contract.AllNamespaces {
		return contract.Invalid("pool", "goes with a namespace, not with %s", contract.AllNamespaces)
	}
	// A nil Pools has only the default pool, so it has nothing to store.
	if err := contract.ValidateNamespace(namespace); err != nil || r == nil {
		return err
	}

	namespace = contract.NamespaceOr(namespace)
	// After a conflict, the loop checks the placement that another server has stored.
	for range 2 {
		stored, err := r.placer.FindPlacement(ctx, namespace)
		if err == nil {
			return checkPlaced(&stored, name)
		}
		if !errors.Is(err, duly.ErrNotFound) {
			return err
		}

		if err := r.checkUnused(ctx, namespace, name); err != nil {
			return err
		}
		_, err = r.storePhase(ctx, contract.Placement{Namespace: namespace, Pool: name})
		if !errors.Is(err, duly.ErrConflict) {
			return err
		}
	}
	return contract.PlacementConflict(namespace)
}

// checkPlaced returns an error unless a namespace is in a pool.
func checkPlaced(p *contract.Placement, name string) error {
	if p.Pool == name {
		return nil
	}
	return placedElsewhere(p.Namespace, p.Pool, name)
}

func placedElsewhere(namespace, is, name string) error {
	return contract.Errorf(duly.CodeConflict,
		"namespace %s is in pool %s; to move it: duly pool move %s --to %s", namespace, is, namespace, name)
}

// checkUnused returns an error if the default pool, where namespaces without a placement
// are, has a queue or a topic of a namespace that gets another pool.
func (r *Pools) checkUnused(ctx context.Context, namespace, name string) error {
	if name == contract.DefaultPool {
		return nil
	}

	queues, err := r.all[0].engine.Queues(ctx, namespace, duly.PageParams{Limit: 1})
	if err != nil {
		return err
	}
	topics, err := topicsIn(ctx, r.all[0].engine, namespace)
	if err != nil {
		return err
	}
	if len(queues.Names)+len(topics) > 0 {
		return placedElsewhere(namespace, contract.DefaultPool, name)
	}
	return nil
}
