package pools

import (
	"context"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// Reserve implements duly.Engine: of each queue first from the old pool. It
// answers what the first one brings.
func (m *pair) Reserve(ctx context.Context, p duly.ReserveParams) (got []duly.Delivery, err error) {
	if err := contract.ValidateReserve(&p); err != nil {
		return nil, err
	}
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
			got, err = m.handOut(ctx, p.Namespace, got)
		}
		if len(got) > 0 {
			return got, nil
		}
		if err != nil && failed == nil {
			failed = err
		}
	}
	return nil, failed
}

// Pass implements contract.Passer, for both pools: either may have woken the caller.
func (m *pair) Pass(ctx context.Context, namespace string, queues []string) {
	contract.PasserOf(m.old).Pass(ctx, namespace, queues)
	contract.PasserOf(m.new).Pass(ctx, namespace, queues)
}

// step is a part of a Reserve.
type step struct {
	engine contract.Engine
	queues []string
}

// steps are those of a Reserve in their strict order. Queues that stand beside
// each other and are asked in the new pool alone are asked together.
func (m *pair) steps(ctx context.Context, namespace string, queues []string) (steps []step) {
	if !m.state.draining { // the new pool has at most what other servers have just begun to push there
		return []step{{m.old, queues}, {m.new, queues}}
	}
	for _, name := range queues {
		d := m.state.look(ctx, m.old, duly.QueueRef{Namespace: namespace, Name: name})
		if !d.empty || d.held {
			steps = append(steps, step{m.old, []string{name}})
		}
		if d.held {
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

// heldFor is for how long a job is put off whose order key has jobs in the old
// pool.
const heldFor = time.Second

// handOut gives those back that may not run yet.
func (m *pair) handOut(ctx context.Context, namespace string, got []duly.Delivery) (good []duly.Delivery, err error) {
	var back []duly.SettleRequest
	for i := range got {
		d := &got[i]
		if d.OrderKey == "" || m.state.mayRun(ctx, m.old, d) {
			good = append(good, *d)
			continue
		}
		delay := heldFor
		back = append(back, duly.SettleRequest{Receipt: d.Receipt, As: duly.Release, Delay: &delay})
	}
	if len(back) > 0 {
		_, err = m.new.Settle(context.WithoutCancel(ctx), namespace, back) // else their leases run out
	}
	return good, err
}

// waitSlice bounds how long both pools are waited for before it is looked anew
// what is to be waited for.
const waitSlice = 2 * time.Second

// Wait implements duly.Engine, for both pools at once.
func (m *pair) Wait(ctx context.Context, p duly.WaitParams) (ready bool, err error) {
	if err := contract.ValidateWait(&p); err != nil {
		return false, err
	}
	end := m.state.clock.Mono() + p.Timeout
	for {
		left := end - m.state.clock.Mono()
		some := p
		some.Timeout = max(0, min(left, waitSlice))
		ready, err = m.waitOnce(ctx, some)
		if ready || err != nil || left <= waitSlice {
			return ready, err
		}
	}
}

// waited is how one pool's Wait has ended.
type waited struct {
	ready bool
	err   error
}

func (m *pair) waitOnce(ctx context.Context, p duly.WaitParams) (bool, error) {
	var fromOld, fromNew []string
	for _, s := range m.steps(ctx, p.Namespace, p.Queues) {
		if s.engine == m.old {
			fromOld = append(fromOld, s.queues...)
		} else {
			fromNew = append(fromNew, s.queues...)
		}
	}
	both, cancel := context.WithCancel(ctx)
	defer cancel()
	asked := 0
	answers := make(chan waited, 2)
	ask := func(engine contract.Engine, queues []string) {
		if len(queues) == 0 {
			return
		}
		asked++
		of := p
		of.Queues = queues
		go func() {
			ready, err := engine.Wait(both, of)
			if ready && both.Err() != nil { // the other one was sooner: the next waiter's turn
				contract.PasserOf(engine).Pass(both, of.Namespace, of.Queues)
			}
			answers <- waited{ready, err}
		}()
	}
	ask(m.old, fromOld)
	ask(m.new, fromNew)
	var ready bool
	var failed []error
	for range asked {
		a := <-answers
		if a.ready && !ready {
			ready = true
			cancel()
		}
		if a.err != nil {
			failed = append(failed, a.err)
		}
	}
	switch {
	case ready:
		return true, nil
	case ctx.Err() != nil:
		return false, ctx.Err()
	case len(failed) == asked: // for one of two pools the other one makes up
		return false, failed[0]
	}
	return false, nil
}
