package redisengine

import (
	"context"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// This file has the operations on queues that differ for consumer groups.

// Get implements contract.Inspector.
func (e *Engine) Get(ctx context.Context, ref duly.QueueRef, id string) (duly.JobInfo, error) {
	if ref.IsGroup() {
		return e.topicCalls.GetMessage(ctx, ref, id)
	}
	return e.inspector.Get(ctx, ref, id)
}

// GetJobs implements contract.Inspector.
func (e *Engine) GetJobs(
	ctx context.Context, ref duly.QueueRef, ids []string, bodies bool,
) ([]contract.JobResult, error) {
	if ref.IsGroup() {
		return e.topicCalls.GetMessages(ctx, ref, ids, bodies)
	}
	return e.inspector.GetJobs(ctx, ref, ids, bodies)
}

// GetByReceipt implements contract.Inspector.
func (e *Engine) GetByReceipt(ctx context.Context, namespace string, r duly.Receipt) (duly.JobInfo, error) {
	// The receipt names its queue, so it shows whether the job belongs to a group.
	if p, ok := contract.ParseReceipt(r); ok && (duly.QueueRef{Name: p.Queue}).IsGroup() {
		return e.topicCalls.MessageByReceipt(ctx, namespace, r)
	}
	return e.inspector.GetByReceipt(ctx, namespace, r)
}

// Peek implements contract.Inspector.
func (e *Engine) Peek(ctx context.Context, ref duly.QueueRef) (duly.JobInfo, error) {
	if err := notForGroup(ref, "peek"); err != nil {
		return duly.JobInfo{}, err
	}
	return e.inspector.Peek(ctx, ref)
}

// Explain implements contract.Explainer.
func (e *Engine) Explain(ctx context.Context, ref duly.QueueRef, id string) (contract.Explanation, error) {
	if err := contract.ValidateExplain(ref, id); err != nil {
		return contract.Explanation{}, err
	}
	return e.inspector.Explain(ctx, ref, id)
}

// List implements contract.Inspector.
func (e *Engine) List(ctx context.Context, ref duly.QueueRef, p duly.ListParams) (duly.ListPage, error) {
	if ref.IsGroup() {
		return e.topicCalls.ListMessages(ctx, ref, p)
	}
	return e.inspector.List(ctx, ref, p)
}

// Stats implements contract.Inspector.
func (e *Engine) Stats(ctx context.Context, ref duly.QueueRef) (duly.Stats, error) {
	if ref.IsGroup() {
		return e.topicCalls.GroupStats(ctx, ref)
	}
	return e.inspector.Stats(ctx, ref)
}

// Config implements contract.Inspector.
func (e *Engine) Config(ctx context.Context, ref duly.QueueRef) (duly.QueueConfig, error) {
	if ref.IsGroup() {
		return e.topicCalls.GroupConfig(ctx, ref)
	}
	return e.inspector.Config(ctx, ref)
}

// Configure implements contract.Operator.
func (e *Engine) Configure(ctx context.Context, ref duly.QueueRef, patch duly.QueueConfig) error {
	if ref.IsGroup() {
		return e.topicCalls.ConfigureGroup(ctx, ref, patch)
	}
	return e.operator.Configure(ctx, ref, patch)
}

// Pause implements contract.Operator.
func (e *Engine) Pause(ctx context.Context, ref duly.QueueRef) error {
	if ref.IsGroup() {
		return e.topicCalls.PauseGroup(ctx, ref, true)
	}
	return e.operator.Pause(ctx, ref)
}

// Resume implements contract.Operator.
func (e *Engine) Resume(ctx context.Context, ref duly.QueueRef) error {
	if ref.IsGroup() {
		return e.topicCalls.PauseGroup(ctx, ref, false)
	}
	return e.operator.Resume(ctx, ref)
}

// Destroy implements contract.Operator.
func (e *Engine) Destroy(ctx context.Context, ref duly.QueueRef) error {
	if ref.IsGroup() {
		return e.topicCalls.DestroyGroup(ctx, ref)
	}
	return e.operator.Destroy(ctx, ref)
}

// Requeue implements contract.Operator.
func (e *Engine) Requeue(ctx context.Context, ref duly.QueueRef, p duly.RequeueParams) ([]duly.RequeueResult, error) {
	if ref.IsGroup() {
		return e.topicCalls.RequeueMessages(ctx, ref, p)
	}
	return e.operator.Requeue(ctx, ref, p)
}

// Purge implements contract.Operator.
func (e *Engine) Purge(ctx context.Context, ref duly.QueueRef, state duly.State, n int) (int, error) {
	if ref.IsGroup() {
		return e.topicCalls.PurgeMessages(ctx, ref, state, n)
	}
	return e.operator.Purge(ctx, ref, state, n)
}

// Delete implements contract.Operator.
func (e *Engine) Delete(ctx context.Context, ref duly.QueueRef, id string) error {
	if ref.IsGroup() {
		return e.topicCalls.DeleteMessage(ctx, ref, id)
	}
	return e.calls.Delete(ctx, ref, id)
}

// DeleteJobs implements contract.Operator.
func (e *Engine) DeleteJobs(
	ctx context.Context, ref duly.QueueRef, ids []string, state duly.State,
) ([]error, error) {
	if ref.IsGroup() {
		return e.topicCalls.DeleteMessages(ctx, ref, ids, state)
	}
	return e.calls.DeleteJobs(ctx, ref, ids, state)
}

// Promote implements contract.Operator.
func (e *Engine) Promote(ctx context.Context, ref duly.QueueRef, id string) error {
	if err := notForGroup(ref, "promote"); err != nil {
		return err
	}
	return e.operator.Promote(ctx, ref, id)
}

// PromoteJobs implements contract.Operator.
func (e *Engine) PromoteJobs(ctx context.Context, ref duly.QueueRef, ids []string) ([]error, error) {
	if err := notForGroup(ref, "promote"); err != nil {
		return nil, err
	}
	return e.operator.PromoteJobs(ctx, ref, ids)
}

// Update implements contract.Operator.
func (e *Engine) Update(ctx context.Context, ref duly.QueueRef, id string, u duly.Update) error {
	if err := notForGroup(ref, "update"); err != nil {
		return err
	}
	return e.operator.Update(ctx, ref, id, u)
}

// Step implements contract.Maintainer.
func (e *Engine) Step(ctx context.Context, ref duly.QueueRef) (bool, error) {
	// Step is also called without the methods that validate the name, so it validates the name
	// itself.
	if err := e.store.Admit(ctx, ref); err != nil {
		return false, err
	}
	q, err := e.catalog.Find(ctx, ref.Normal())
	if err != nil {
		return false, err
	}
	// A topic has no lease timers: one step of the topic covers all its groups.
	if ref.IsGroup() || q != nil && q.Topic != nil {
		return e.topicCalls.Step(ctx, ref)
	}
	return e.maintainer.Step(ctx, ref)
}

// notForGroup returns an error for an operation that groups lack.
func notForGroup(ref duly.QueueRef, operation string) error {
	if err := contract.ValidateQueue(ref); err != nil || !ref.IsGroup() {
		return err
	}
	return contract.NotForGroup(ref, operation)
}
