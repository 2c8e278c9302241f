package httpengine

import (
	"context"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/wire"
)

// purgeStep is how many jobs one request removes, so that no request takes
// long.
const purgeStep = 10_000

// Delete implements contract.Operator.
func (e *Engine) Delete(ctx context.Context, q duly.QueueRef, id string) error {
	return e.onJob(ctx, q, id, request{method: "DELETE"})
}

// Update implements contract.Operator.
func (e *Engine) Update(ctx context.Context, q duly.QueueRef, id string, u duly.Update) error {
	if u.Due.After(duly.MaxTime) || !carried(u.Headers, string(u.Backoff)) {
		return contract.ValidateUpdate(&u, duly.MaxMaxBody)
	}
	return e.onJob(ctx, q, id, request{method: "PATCH", body: wire.UpdateForm.Append(nil, u)})
}

// Promote implements contract.Operator.
func (e *Engine) Promote(ctx context.Context, q duly.QueueRef, id string) error {
	return e.onJob(ctx, q, id, request{method: "POST", path: "/promote"})
}

// onJob makes a request about a job that answers nothing; its path goes on
// behind the job's.
func (e *Engine) onJob(ctx context.Context, q duly.QueueRef, id string, r request) error {
	if err := e.enterJob(q, id); err != nil {
		return err
	}
	defer e.calls.Done()
	r.path = e.jobPath(q, id) + r.path
	_, err := e.change(ctx, r)
	return err
}

// onQueue is onJob for a queue.
func (e *Engine) onQueue(ctx context.Context, q duly.QueueRef, r request) error {
	if err := e.enterQueue(q); err != nil {
		return err
	}
	defer e.calls.Done()
	r.path = e.queuePath(q) + r.path
	_, err := e.change(ctx, r)
	return err
}

// change makes a request that runs on without its caller.
func (e *Engine) change(ctx context.Context, r request) (string, error) {
	return outlive(ctx, e, func(ctx context.Context) (string, error) { return e.link.call(ctx, r) }, nil)
}

// Requeue implements contract.Operator.
func (e *Engine) Requeue(ctx context.Context, q duly.QueueRef, p duly.RequeueParams) ([]duly.RequeueResult, error) {
	if err := e.enterQueue(q); err != nil {
		return nil, err
	}
	defer e.calls.Done()
	if err := contract.ValidateRequeue(&p); err != nil {
		return nil, err
	}
	text, err := e.change(ctx, request{method: "POST", path: e.queuePath(q) + "/requeue", body: wire.RequeueForm.Append(nil, p)})
	if err != nil {
		return nil, err
	}
	return answer(e.link, text, wire.RequeuedForm.ReadAnswer)
}

// Purge implements contract.Operator. It goes in steps of bounded length; after an
// error it tells how many jobs were removed before.
func (e *Engine) Purge(ctx context.Context, q duly.QueueRef, state duly.State, n int) (int, error) {
	if err := e.enterQueue(q); err != nil {
		return 0, err
	}
	defer e.calls.Done()
	if err := contract.ValidatePurge(state, n); err != nil {
		return 0, err
	}
	purged := 0
	for {
		step := purgeStep
		if n > 0 {
			step = min(step, n-purged)
		}
		text, err := e.change(ctx, request{method: "POST", path: e.queuePath(q) + "/purge", body: wire.PurgeForm.Append(nil, wire.Purge{State: state, N: step})})
		if err != nil {
			return purged, err
		}
		gone, err := answer(e.link, text, wire.PurgedForm.ReadAnswer)
		if err != nil {
			return purged, err
		}
		purged += gone
		if gone < step || purged == n {
			return purged, nil
		}
	}
}

// Configure implements contract.Operator.
func (e *Engine) Configure(ctx context.Context, q duly.QueueRef, patch duly.QueueConfig) error {
	if err := contract.ValidateConfig(patch); err != nil {
		return err
	}
	return e.onQueue(ctx, q, request{method: "PATCH", body: wire.ConfigForm.Append(nil, patch)})
}

// Pause implements contract.Operator.
func (e *Engine) Pause(ctx context.Context, q duly.QueueRef) error {
	return e.onQueue(ctx, q, request{method: "POST", path: "/pause"})
}

// Resume implements contract.Operator.
func (e *Engine) Resume(ctx context.Context, q duly.QueueRef) error {
	return e.onQueue(ctx, q, request{method: "POST", path: "/resume"})
}

// Destroy implements contract.Operator.
func (e *Engine) Destroy(ctx context.Context, q duly.QueueRef) error {
	return e.onQueue(ctx, q, request{method: "DELETE"})
}
