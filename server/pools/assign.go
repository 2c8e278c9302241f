package pools

import (
	"context"
	"errors"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// Assign places a namespace that was never placed in a pool, and is content if
// it is there. It answers [duly.ErrInvalid] for a pool that there is not, and
// [duly.ErrConflict] for a namespace that is in another one.
func (r *Pools) Assign(ctx context.Context, namespace, name string) error {
	if !r.Has(name) {
		return r.ErrNoPool(name)
	}
	if namespace == contract.AllNamespaces {
		return contract.Invalid("pool", "goes with a namespace, not with %s", contract.AllNamespaces)
	}
	if err := contract.ValidateNamespace(namespace); err != nil || r == nil {
		return err
	}
	namespace = contract.NamespaceOr(namespace)
	for range 2 { // who comes too late looks at what the other has done
		stored, err := r.placer.FindPlacement(ctx, namespace)
		if err == nil {
			return settled(&stored, name)
		}
		if !errors.Is(err, duly.ErrNotFound) {
			return err
		}
		if err := r.mayPlace(ctx, namespace, name); err != nil {
			return err
		}
		_, err = r.put(ctx, contract.Placement{Namespace: namespace, Pool: name})
		if !errors.Is(err, duly.ErrConflict) {
			return err
		}
	}
	return contract.PlacementConflict(namespace)
}

func settled(p *contract.Placement, name string) error {
	if p.Pool == name {
		return nil
	}
	return elsewhere(p.Namespace, p.Pool, name)
}

func elsewhere(namespace, is, name string) error {
	return contract.Errorf(duly.CodeConflict, "namespace %s is in pool %s; to move it: duly pool move %s --to %s", namespace, is, namespace, name)
}

// mayPlace looks whether the namespace is in use in the default pool, where it
// is unless somebody places it.
func (r *Pools) mayPlace(ctx context.Context, namespace, name string) error {
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
		return elsewhere(namespace, contract.DefaultPool, name)
	}
	return nil
}
