package pools

import "context"

// Settle is how long a phase lasts at least, and LookBackFor for how long after
// a move strays are looked for.
const (
	Settle      = settle
	LookBackFor = lookBackFor
)

// CarryOn does for every move what is next, as Run does every so often.
func (r *Pools) CarryOn(ctx context.Context) error {
	moves, over, err := r.moves(ctx)
	for i := range moves {
		if err == nil {
			err = r.carryOn(ctx, &moves[i])
		}
	}
	for i := range over {
		if err == nil {
			err = r.lookBack(ctx, &over[i])
		}
	}
	return err
}

// Remembered is of how many namespaces a move is known.
func (r *Pools) Remembered() int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.states)
}

// Past is of how many namespaces a move is known that has ended.
func (r *Pools) Past() int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.pasts)
}
