package pools

import (
	"context"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// Reserve implements duly.Engine. It reserves from each queue first in the old pool, and
// returns the result of the first call with deliveries.
func (m *migratingEngine) Reserve(ctx context.Context, p duly.ReserveParams) (got []duly.Delivery, err error) {
	if err := contract.ValidateReserve(&p); err != nil {
		return nil, err
	}
	// The caller may have been woken. Since it does not reserve, the next waiter must be woken.
	if err := ctx.Err(); err != nil {
		m.Pass(ctx, p.Namespace, p.Queues)
		return nil, err
	}

	var failed error
	for _, step := range m.steps(ctx, p.Namespace, p.Queues) {
		some := p
		some.Queues = step.queues
		got, err := step.engine.Reserve(ctx, some)
		if err == nil && step.engine == m.new {
			got, err = m.releaseBlocked(ctx, p.Namespace, got)
		}
		if len(got) > 0 {
			return got, nil
		}
		// Later steps may still return jobs, so the error is kept for the end.
		if err != nil && failed == nil {
			failed = err
		}
	}
	return nil, failed
}

// Pass implements contract.Passer. It calls both pools, because either may have woken the caller.
func (m *migratingEngine) Pass(ctx context.Context, namespace string, queues []string) {
	contract.PasserOf(m.old).Pass(ctx, namespace, queues)
	contract.PasserOf(m.new).Pass(ctx, namespace, queues)
}

// step is one call to one pool in a Reserve.
type step struct {
	engine contract.Engine
	queues []string
}

// steps returns the steps of a Reserve in their strict order. Adjacent queues that are only
// in the new pool share a step.
func (m *migratingEngine) steps(ctx context.Context, namespace string, queues []string) (steps []step) {
	// The new pool has only jobs from servers in the next phase.
	if !m.state.draining {
		return []step{{m.old, queues}, {m.new, queues}}
	}

	for _, name := range queues {
		d := m.state.readOld(ctx, m.old, duly.QueueRef{Namespace: namespace, Name: name})
		// If the old pool has no jobs, only the new pool is called.
		if !d.empty || d.keysBlocked {
			steps = append(steps, step{m.old, []string{name}})
		}
		// Any job of the new pool could overtake a job of the old pool with the same key.
		if d.keysBlocked {
			continue
		}
		if last := len(steps) - 1; last >= 0 && steps[last].engine == m.new {
			steps[last].queues = append(steps[last].queues, name)
		} else {
			steps = append(steps, step{m.new, []string{name}})
		}
	}
	return steps
}

// keyRetryDelay is the delay of a released job whose order key has jobs in the old pool.
const keyRetryDelay = time.Second

// releaseBlocked releases the deliveries whose order keys have jobs in the old pool, and returns
// the remaining deliveries.
func (m *migratingEngine) releaseBlocked(
	ctx context.Context, namespace string, got []duly.Delivery,
) (free []duly.Delivery, err error) {
	var releases []duly.SettleRequest
	for i := range got {
		d := &got[i]
		if d.OrderKey == "" || m.state.mayRun(ctx, m.old, d) {
			free = append(free, *d)
			continue
		}
		delay := keyRetryDelay
		releases = append(releases, duly.SettleRequest{Receipt: d.Receipt, As: duly.Release, Delay: &delay})
	}

	if len(releases) > 0 {
		// The deliveries are released even if the caller has left. Otherwise the jobs would wait
		// until their leases end.
		_, err = m.new.Settle(context.WithoutCancel(ctx), namespace, releases)
	}
	return free, err
}

// waitInterval bounds the wait in both pools until the state of the queues is read again.
const waitInterval = 2 * time.Second

// Wait implements duly.Engine. It waits for both pools.
func (m *migratingEngine) Wait(ctx context.Context, p duly.WaitParams) (ready bool, err error) {
	if err := contract.ValidateWait(&p); err != nil {
		return false, err
	}

	end := m.state.clock.Mono() + p.Timeout
	for {
		left := end - m.state.clock.Mono()
		some := p
		// After each interval, the old pool may be empty, and other order keys may be free.
		some.Timeout = max(0, min(left, waitInterval))
		ready, err = m.waitOnce(ctx, some)
		if ready || err != nil || left <= waitInterval {
			return ready, err
		}
	}
}

// waitResult is the result of one pool's Wait.
type waitResult struct {
	ready bool
	err   error
}

// waitOnce waits until one of the pools is ready, or both have returned.
func (m *migratingEngine) waitOnce(ctx context.Context, p duly.WaitParams) (bool, error) {
	var fromOld, fromNew []string
	for _, s := range m.steps(ctx, p.Namespace, p.Queues) {
		if s.engine == m.old {
			fromOld = append(fromOld, s.queues...)
		} else {
			fromNew = append(fromNew, s.queues...)
		}
	}

	waitCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan waitResult, 2)
	calls := 0
	start := func(engine contract.Engine, queues []string) {
		if len(queues) == 0 {
			return
		}
		calls++
		of := p
		of.Queues = queues
		go func() {
			ready, err := engine.Wait(waitCtx, of)
			// The other pool was ready first, so this wake-up must be passed on.
			if ready && waitCtx.Err() != nil {
				contract.PasserOf(engine).Pass(waitCtx, of.Namespace, of.Queues)
			}
			results <- waitResult{ready, err}
		}()
	}
	start(m.old, fromOld)
	start(m.new, fromNew)

	var ready bool
	var failed []error
	for range calls {
		r := <-results
		if r.ready && !ready {
			ready = true
			cancel()
		}
		if r.err != nil {
			failed = append(failed, r.err)
		}
	}
	switch {
	case ready:
		return true, nil
	case ctx.Err() != nil:
		return false, ctx.Err()
	case len(failed) == calls: // if one pool fails, the wait for the other pool continues
		return false, failed[0]
	}
	return false, nil
}
