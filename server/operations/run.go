package operations

import (
	"context"
	"time"

	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
)

// schedule starts queued operations, the oldest first, while fewer than MaxRunning run. The caller holds the mutex.
func (m *Manager) schedule() {
	for m.ctx != nil && m.running < MaxRunning {
		var first *entry
		for _, e := range m.all {
			if e.rec.Operation.State == contract.OperationQueued && e.left == nil &&
				(first == nil || e.rec.Operation.ID < first.rec.Operation.ID) {
				first = e
			}
		}
		if first == nil {
			return
		}
		m.running++
		m.enter(first, contract.OperationRunning, "")
		m.launch(first, func(ctx context.Context) (contract.OperationState, string) {
			state, reason := m.newWorker(first).run(ctx)
			m.mu.Lock()
			m.running--
			m.mu.Unlock()
			return state, reason
		})
	}
}

// watch starts the goroutine of an operation that waits after its canary. The caller holds the mutex.
func (m *Manager) watch(e *entry) {
	if m.ctx != nil {
		m.launch(e, func(ctx context.Context) (contract.OperationState, string) { return m.newWorker(e).watch(ctx) })
	}
}

// launch starts a goroutine for an operation. do returns the state after it. The caller holds the mutex.
func (m *Manager) launch(e *entry, do func(context.Context) (contract.OperationState, string)) {
	ctx, cancel := context.WithCancel(m.ctx)
	left := make(chan struct{})
	e.cancel, e.left, e.want = cancel, left, ""

	m.workers.Go(func() {
		defer close(left)
		defer cancel()
		state, reason := do(ctx)

		m.mu.Lock()
		switch {
		case state.Ended(): // it is too late for a pause
		case e.want != "":
			state, reason = e.want, e.reason
		case ctx.Err() != nil:
			state, reason = contract.OperationInterrupted, interruptedText
		}
		e.left = nil
		m.enter(e, state, reason)
		o := e.rec.Operation
		if state == contract.OperationWaiting {
			m.watch(e)
		}
		m.schedule()
		m.mu.Unlock()
		m.settle(e, &o)
	})
}

const interruptedText = "the server was stopped; continue the operation, or stop it"

// grace is how long a call may continue after its operation is paused or stopped.
const grace = 900 * time.Millisecond

// graced returns a context for a call whose answer must be counted. It ends a little later than ctx.
func (m *Manager) graced(ctx context.Context) (call context.Context, end func()) {
	call, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		_ = clock.Sleep(call, m.cfg.Clock, grace)
		cancel()
	})
	return call, func() { stop(); cancel() }
}

// The outcomes of jobs.
const (
	done    = "done"
	skipped = "skipped"
	failed  = "failed"
)

// count counts the result of a job. The caller holds the mutex.
func (m *Manager) count(e *entry, id, outcome, problem string) {
	o := &e.rec.Operation
	switch outcome {
	case done:
		o.Done++
	case skipped:
		o.Skipped++
	default:
		o.Failed++
	}
	o.Taken++
	o.Found = max(o.Found, o.Taken)
	m.totals[Total{string(o.Kind), outcome}]++

	o.Answers = append(o.Answers, contract.OperationAnswer{
		At: m.cfg.Clock.Now(), ID: id, Outcome: outcome, Error: problem,
	})
	if len(o.Answers) >= 2*maxAnswers {
		o.Answers = latest(o.Answers)
	}
}

// latest returns a copy of the last answers.
func latest(answers []contract.OperationAnswer) []contract.OperationAnswer {
	return append([]contract.OperationAnswer(nil), answers[max(0, len(answers)-maxAnswers):]...)
}
