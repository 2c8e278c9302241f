package pools

import "context"

// Propagation is the minimum duration of a phase. OrphanWindow is how long servers search for
// orphans after a move.
const (
	Propagation  = propagationTime
	OrphanWindow = orphanWindow
)

// Advance makes one turn of the loop runMoves.
func (r *Pools) Advance(ctx context.Context) error {
	moves, ended, err := r.moves(ctx)
	for i := range moves {
		if err == nil {
			err = r.advance(ctx, &moves[i])
		}
	}
	for i := range ended {
		if err == nil {
			err = r.checkOrphans(ctx, &ended[i])
		}
	}
	return err
}

// Moving returns the number of moving namespaces whose state this server has.
func (r *Pools) Moving() int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.phases)
}

// Ended returns the number of ended moves in memory.
func (r *Pools) Ended() int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.ended)
}
