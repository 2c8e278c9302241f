package pools

import (
	"context"
	"errors"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// Keys implements contract.KeyLister.
func (r *Pools) Keys(ctx context.Context, q duly.QueueRef, p contract.KeysParams) (contract.KeyPage, error) {
	return withEngine(ctx, r, q, func(e contract.Engine) (contract.KeyPage, error) {
		// The cursor may be from a page during the move.
		if _, moves := e.(*migratingEngine); !moves {
			p.Cursor = afterMove(p.Cursor)
		}
		return contract.KeyListerOf(e).Keys(ctx, q, p)
	})
}

// Holder implements contract.KeyLister.
func (r *Pools) Holder(ctx context.Context, q duly.QueueRef, key string) (contract.KeyInfo, error) {
	return withEngine(ctx, r, q, func(e contract.Engine) (contract.KeyInfo, error) {
		return contract.KeyListerOf(e).Holder(ctx, q, key)
	})
}

// Keys implements contract.KeyLister. It lists the keys of the old pool, then those for which jobs wait only
// in the new pool. Each key has its jobs in both pools.
func (m *migratingEngine) Keys(
	ctx context.Context, q duly.QueueRef, p contract.KeysParams,
) (contract.KeyPage, error) {
	prefix, cursor := poolOf(p.Cursor, poolList{inOld, m.old})
	if p.Cursor = cursor; prefix == inOld {
		page, err := m.keysOf(ctx, m.old, q, p)
		switch {
		case err != nil:
			return page, err
		case page.Next != "":
			page.Next = inOld + page.Next
			return page, nil
		case len(page.Keys) > 0:
			page.Next = inNew
			return page, nil
		}
		p.Cursor = ""
	}

	page, err := m.keysOf(ctx, m.new, q, p)
	if page.Next != "" {
		page.Next = inNew + page.Next
	}
	return page, err
}

// keysOf returns a page of one pool's keys. Each key is as Holder returns it. A page of the new pool leaves out
// the keys that the pages of the old pool have.
func (m *migratingEngine) keysOf(
	ctx context.Context, e contract.Engine, q duly.QueueRef, p contract.KeysParams,
) (contract.KeyPage, error) {
	page, err := contract.KeyListerOf(e).Keys(ctx, q, p)
	if err != nil {
		return page, err
	}
	other := m.new
	if e == m.new {
		other = m.old
	}

	others, errs := make([]contract.KeyInfo, len(page.Keys)), make([]error, len(page.Keys))
	inParallel(len(page.Keys), func(i int) {
		others[i], errs[i] = contract.KeyListerOf(other).Holder(ctx, q, page.Keys[i].Key)
	})

	keys := page.Keys[:0]
	for i, key := range page.Keys {
		switch err := errs[i]; {
		case errors.Is(err, duly.ErrNotFound):
			keys = append(keys, key)
		case err != nil:
			return contract.KeyPage{}, err
		case e == m.old:
			keys = append(keys, addKeys(key, others[i]))
		case others[i].Waiting == 0:
			keys = append(keys, addKeys(others[i], key))
		}
	}
	page.Keys = keys
	return page, nil
}

// Holder implements contract.KeyLister. It returns the jobs of both pools.
func (m *migratingEngine) Holder(ctx context.Context, q duly.QueueRef, key string) (contract.KeyInfo, error) {
	old, errOld := contract.KeyListerOf(m.old).Holder(ctx, q, key)
	if errOld != nil && !errors.Is(errOld, duly.ErrNotFound) {
		return contract.KeyInfo{}, errOld
	}
	info, err := contract.KeyListerOf(m.new).Holder(ctx, q, key)
	switch {
	case errOld != nil:
		return info, err
	case errors.Is(err, duly.ErrNotFound):
		return old, nil
	case err != nil:
		return contract.KeyInfo{}, err
	}
	return addKeys(old, info), nil
}

// addKeys returns a key that has jobs in both pools. The jobs of the old pool go first.
func addKeys(old, other contract.KeyInfo) contract.KeyInfo {
	if old.Head.ID == "" {
		old.Head = other.Head
	}
	if old.FirstDue.IsZero() {
		old.FirstDue = other.FirstDue
	}
	more := old.More || other.More
	old.SetWaiting(old.Waiting + other.Waiting)
	old.More = old.More || more
	return old
}
