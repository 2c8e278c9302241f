package pools

import (
	"context"
	"errors"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// Explain implements contract.Explainer. A waiting job of the new pool also waits for the jobs of its
// queue in the old pool, because a Reserve asks that pool first.
func (m *migratingEngine) Explain(ctx context.Context, q duly.QueueRef, id string) (contract.Explanation, error) {
	x, err := contract.ExplainerOf(m.old).Explain(ctx, q, id)
	if !errors.Is(err, duly.ErrNotFound) {
		return x, err
	}
	if x, err = contract.ExplainerOf(m.new).Explain(ctx, q, id); err != nil || !x.State.Waiting() {
		return x, err
	}

	st, err := m.old.Stats(ctx, q)
	if err != nil {
		return contract.Explanation{}, err
	}
	if n := st.Sizes.Delayed + st.Sizes.Ready + st.Sizes.Blocked + st.Sizes.Leased; n > 0 {
		x.Facts = append(x.Facts, contract.Fact{Code: contract.FactMoving, Count: int(n)})
	}
	return x, nil
}
