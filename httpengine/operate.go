package httpengine

import (
	"context"
	"fmt"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/wire"
)

// purgeStep is the number of jobs that one request deletes, so that no request takes long.
const purgeStep = 10_000

// Delete implements contract.Operator.
func (e *Engine) Delete(ctx context.Context, q duly.QueueRef, id string) error {
	return e.onJob(ctx, q, id, request{method: "DELETE"})
}

// DeleteJobs implements contract.Operator.
func (e *Engine) DeleteJobs(
	ctx context.Context, q duly.QueueRef, ids []string, state duly.State,
) ([]error, error) {
	if err := e.beginQueue(q); err != nil {
		return nil, err
	}
	defer e.calls.Done()
	if err := contract.ValidateDeleteJobs(ids, state); err != nil {
		return nil, err
	}

	return e.changeJobs(ctx, q, "/jobs/delete", ids, func(ids []string) []byte {
		return wire.DeleteJobsForm.Append(nil, wire.DeleteJobs{IDs: ids, State: state})
	})
}

// changeJobs changes jobs by ID with one request.
func (e *Engine) changeJobs(
	ctx context.Context, q duly.QueueRef, path string, ids []string, body func(ids []string) []byte,
) ([]error, error) {
	send := func(ids []string) ([]error, error) {
		r := request{method: "POST", path: e.queuePath(q) + path, body: body(ids)}
		errs, err := change(ctx, e, r, wire.ResultsForm.ReadAnswer)
		if err == nil {
			err = e.link.perID(len(errs), ids)
		}
		return errs, err
	}
	return sendValid(ids, func(id *string) error { return contract.ValidateID(*id) }, send,
		func(_ *string, err error) error { return err })
}

// perID returns an error for an answer with another number of results than IDs. The results belong to
// the IDs by their order.
func (l *link) perID(results int, ids []string) error {
	if results == len(ids) {
		return nil
	}
	return l.malformed(fmt.Sprintf("has %d results for %d IDs", results, len(ids)))
}

// Update implements contract.Operator.
func (e *Engine) Update(ctx context.Context, q duly.QueueRef, id string, u duly.Update) error {
	// JSON cannot carry these values, so the server would not see that they are wrong.
	if u.Due.After(duly.MaxTime) || !isUTF8(u.Headers, string(u.Backoff)) {
		return contract.ValidateUpdate(&u, duly.MaxMaxBody)
	}
	return e.onJob(ctx, q, id, request{method: "PATCH", body: wire.UpdateForm.Append(nil, u)})
}

// Promote implements contract.Operator.
func (e *Engine) Promote(ctx context.Context, q duly.QueueRef, id string) error {
	return e.onJob(ctx, q, id, request{method: "POST", path: "/promote"})
}

// PromoteJobs implements contract.Operator.
func (e *Engine) PromoteJobs(ctx context.Context, q duly.QueueRef, ids []string) ([]error, error) {
	if err := e.beginQueue(q); err != nil {
		return nil, err
	}
	defer e.calls.Done()
	if err := contract.ValidateIDs(ids); err != nil {
		return nil, err
	}
	return e.changeJobs(ctx, q, "/jobs/promote", ids, func(ids []string) []byte {
		return wire.PromoteJobsForm.Append(nil, ids)
	})
}

// onJob makes a request about a job that has no result. The path in r is appended to the path of
// the job.
func (e *Engine) onJob(ctx context.Context, q duly.QueueRef, id string, r request) error {
	if err := e.beginJob(q, id); err != nil {
		return err
	}
	defer e.calls.Done()
	r.path = e.jobPath(q, id) + r.path
	return e.changeOnly(ctx, r)
}

// onQueue is like onJob for a queue.
func (e *Engine) onQueue(ctx context.Context, q duly.QueueRef, r request) error {
	if err := e.beginQueue(q); err != nil {
		return err
	}
	defer e.calls.Done()
	r.path = e.queuePath(q) + r.path
	return e.changeOnly(ctx, r)
}

// Requeue implements contract.Operator.
func (e *Engine) Requeue(ctx context.Context, q duly.QueueRef, p duly.RequeueParams) ([]duly.RequeueResult, error) {
	if err := e.beginQueue(q); err != nil {
		return nil, err
	}
	defer e.calls.Done()
	if err := contract.ValidateRequeue(&p); err != nil {
		return nil, err
	}

	r := request{method: "POST", path: e.queuePath(q) + "/requeue", body: wire.RequeueForm.Append(nil, p)}
	return change(ctx, e, r, wire.RequeuedForm.ReadAnswer)
}

// Purge implements contract.Operator. It makes several requests of bounded length. If a request
// fails, it returns the error and the number of jobs that were deleted before.
func (e *Engine) Purge(ctx context.Context, q duly.QueueRef, state duly.State, n int) (int, error) {
	if err := e.beginQueue(q); err != nil {
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
		body := wire.PurgeForm.Append(nil, wire.Purge{State: state, N: step})
		r := request{method: "POST", path: e.queuePath(q) + "/purge", body: body}
		deleted, err := change(ctx, e, r, wire.PurgedForm.ReadAnswer)
		if err != nil {
			return purged, err
		}

		purged += deleted
		// A step that deleted less than it could has found the end.
		if deleted < step || purged == n {
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
