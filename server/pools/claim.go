package pools

import (
	"context"
	"sync"
	"time"

	"github.com/dulymq/duly/contract"
)

// Queues of the old pool are removed by one server at a time: where two did, what
// comes late could get in behind the Destroy of one and be taken by that of the
// other. Who removes claims it by storing the placement as it is, which raises its
// version: of two who do so at once one comes too late. The claim is good for
// stepFor, and for as long as a server has known a version less than settle it
// leaves the claim to whoever made that. Nobody has to give it back, and if who
// has it dies another one goes on. No clocks are compared.

// claim is what a server knows of who may remove queues in a phase.
type claim struct {
	mu      sync.Mutex
	version int64         // the newest that was heard of
	heard   time.Duration // monotonic: when
	mine    int64         // the version that this server has claimed
	until   time.Duration // monotonic: for how long
}

// hear notes a version.
func (c *claim) hear(version int64, now time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if version > c.version {
		c.version, c.heard = version, now
	}
}

// take notes that this server has made a version by claiming.
func (c *claim) take(version int64, until time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mine, c.until = version, until
}

// free tells whether this server may claim a version, and whether it need not:
// it has, and there is time left for a step.
func (c *claim) free(version int64, now time.Duration) (free, held bool, until time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mine == version {
		return true, now < c.until-stepFor/2, c.until
	}
	return version == c.version && now-c.heard >= settle, false, 0
}

// claimed is the old pool for who removes its queues; [duly.ErrConflict] while
// that is somebody else.
func (m *pair) claimed(ctx context.Context) (*timely, error) {
	in := m.pools.within(m.old)
	free, held, until := m.state.claim.free(m.where.Version, m.state.clock.Mono())
	if !free {
		return nil, contract.PlacementConflict(m.where.Namespace)
	}
	if held {
		in.until = until
		return in, nil
	}
	if err := m.pools.store(ctx, m.where); err != nil {
		return nil, err
	}
	m.where.Version++
	m.state.claim.take(m.where.Version, in.until)
	return in, nil
}
