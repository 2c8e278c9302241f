package pools

import (
	"context"
	"sync"
	"time"

	"github.com/dulymq/duly/contract"
)

// One server at a time removes queues of the old pool. If two servers did, a late push could create
// a queue again after the Destroy of one server, and the Destroy of the other would delete its job.
//
// A server acquires the lock by storing the placement unchanged, which increments its version. Of
// two concurrent attempts, one fails with a conflict. The lock is valid for stepTimeout. Another
// server may acquire it when it has seen the same version for propagationTime. So the lock needs no
// release, and survives the crash of its owner. Clocks are not compared.

// removalLock is this server's view of the lock in one phase.
type removalLock struct {
	mu      sync.Mutex
	version int64         // latest version that this server has seen
	seenAt  time.Duration // monotonic time at which it saw that version
	held    int64         // version that this server has stored to acquire the lock
	until   time.Duration // monotonic time until which it holds the lock
}

// observe notes a version of the placement.
func (l *removalLock) observe(version int64, now time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if version > l.version {
		l.version, l.seenAt = version, now
	}
}

// acquired notes that this server has stored a version to acquire the lock.
func (l *removalLock) acquired(version int64, until time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held, l.until = version, until
}

// state reports whether this server may acquire the lock, and whether it already holds the lock for
// at least another step.
func (l *removalLock) state(version int64, now time.Duration) (free, held bool, until time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == version {
		return true, now < l.until-stepTimeout/2, l.until
	}
	return version == l.version && now-l.seenAt >= propagationTime, false, 0
}

// lockRemoval returns the old pool's engine for the removal of queues. It returns
// [duly.ErrConflict] while another server holds the lock.
func (m *migratingEngine) lockRemoval(ctx context.Context) (*stepEngine, error) {
	step := m.pools.newStep(m.old)
	free, held, until := m.state.removal.state(m.where.Version, m.state.clock.Mono())
	if !free {
		return nil, contract.PlacementConflict(m.where.Namespace)
	}
	if held {
		step.deadline = until
		return step, nil
	}

	// The store accepts only the next version, so if two servers try, one fails here.
	if err := m.pools.storePlacement(ctx, m.where); err != nil {
		return nil, err
	}
	m.where.Version++
	m.state.removal.acquired(m.where.Version, step.deadline)
	return step, nil
}
