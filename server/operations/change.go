package operations

import (
	"context"
	"encoding/json"
	"errors"
	"syscall"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/audit"
	"github.com/dulymq/duly/server/operations/record"
	"github.com/dulymq/duly/server/operations/spec"
	"github.com/dulymq/duly/server/route"
)

// auditRoute is the route of a start in the audit log.
const auditRoute = "POST /v1/{namespace}/operations"

// Start stores a new operation and queues it. After an error nothing has changed. A repeat starts another operation.
func (m *Manager) Start(namespace string, n contract.NewOperation, by Actor) (contract.Operation, error) {
	namespace = contract.NamespaceOr(namespace)
	if err := spec.Validate(namespace, &n); err != nil {
		return contract.Operation{}, err
	}
	// The start counts at once, so that concurrent ones keep the bound.
	m.mu.Lock()
	open := m.starting
	for _, e := range m.all {
		if !e.rec.Operation.State.Ended() {
			open++
		}
	}
	if open >= MaxOpen {
		m.mu.Unlock()
		return contract.Operation{}, contract.Errorf(duly.CodeFull,
			"%d operations of this server have not ended; stop some, or wait until they have ended", open)
	}
	m.starting++
	m.mu.Unlock()

	e := &entry{rec: m.newRecord(namespace, &n, by)}
	err := m.record(e, by)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.starting--; err != nil {
		return contract.Operation{}, err
	}
	m.all[e.rec.Operation.ID] = e
	m.prune()
	m.schedule()
	m.signal()
	return m.view(e), nil
}

// newRecord returns the record of a valid operation. It has no state yet.
func (m *Manager) newRecord(namespace string, n *contract.NewOperation, by Actor) *record.Record {
	// Engines have times in milliseconds.
	now := m.cfg.Clock.Now().Truncate(time.Millisecond)
	rec := &record.Record{Version: record.Version, Chosen: n.IDs, Phase: record.Rest, Operation: contract.Operation{
		ID: duly.NewNumber().String(), Namespace: namespace, Kind: n.Kind, Queue: n.Queue, By: route.Line(by.Caller),
		Filter: spec.Words(n, now), Group: n.Group, IDs: len(n.IDs), JobState: n.State, Tries: n.Tries, TTL: n.TTL,
		State: contract.OperationQueued, Canary: n.Canary, Rate: n.Rate, Started: now,
	}}
	if n.Canary != nil {
		rec.Phase = record.Canary
	}
	if rec.Operation.IDs > 0 {
		rec.Operation.Found, rec.Operation.Counted = int64(len(n.IDs)), true
	}
	return rec
}

// record writes the file of a new operation and the intent of its action. After an error neither counts.
func (m *Manager) record(e *entry, by Actor) error {
	o := &e.rec.Operation
	text, err := json.Marshal(e.rec)
	if err == nil {
		err = m.store.Save(o.ID, text)
	}
	if err != nil {
		return notStored("the operation", err)
	}

	_, err = m.cfg.Audit.Begin(audit.Action{
		Lasting: o.ID, Caller: by.Caller, Session: by.Session, Remote: by.Remote, Via: by.Via, Route: auditRoute,
		Namespace: o.Namespace, Queue: o.Queue, Jobs: []string{string(o.Kind) + ": " + o.Filter}, Request: by.Request,
	})
	if err != nil {
		m.store.Remove(o.ID)
		return notStored("the line of the audit log", err)
	}
	return nil
}

// notStored returns the error of a start whose record cannot be written.
func notStored(what string, err error) error {
	code := duly.CodeUnavailable
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		code = duly.CodeFull
	}
	return &duly.Error{Code: code, Cause: err,
		Message: what + " can't be stored, so nothing was started; free space on the server's disk, or look at its log"}
}

// Pause pauses an operation. It returns when no further job is taken. A paused operation stays paused.
func (m *Manager) Pause(ctx context.Context, namespace, id, by string) (contract.Operation, error) {
	return m.halt(ctx, namespace, id, contract.OperationPaused, "paused by "+route.Line(by))
}

// Stop ends an operation. It returns when no further job is taken. A stopped operation stays stopped.
func (m *Manager) Stop(ctx context.Context, namespace, id, by string) (contract.Operation, error) {
	return m.halt(ctx, namespace, id, contract.OperationStopped, "stopped by "+route.Line(by))
}

func (m *Manager) halt(
	ctx context.Context, namespace, id string, want contract.OperationState, reason string,
) (contract.Operation, error) {
	m.mu.Lock()
	e, err := m.find(namespace, id)
	if err != nil {
		m.mu.Unlock()
		return contract.Operation{}, err
	}
	o := &e.rec.Operation
	if o.State == want || o.State.Ended() {
		defer m.mu.Unlock()
		return m.view(e), endedError(o, want)
	}

	left := e.left
	if left != nil {
		// A stop wins over a pause.
		if e.want != contract.OperationStopped {
			e.want, e.reason = want, reason
		}
		e.cancel()
		m.mu.Unlock()
		select {
		case <-left:
		case <-ctx.Done():
			return contract.Operation{}, ctx.Err()
		}
	} else {
		m.enter(e, want, reason)
		o := e.rec.Operation
		m.mu.Unlock()
		m.settle(e, &o)
	}

	m.mu.Lock()
	defer m.mu.Unlock()
	return m.view(e), nil
}

// endedError returns the error of a change of an ended operation, nil if it has the state that the caller wants.
func endedError(o *contract.Operation, want contract.OperationState) error {
	if o.State == want {
		return nil
	}
	return contract.Errorf(duly.CodeConflict, "the operation is %s and can't be changed; start another one", o.State)
}

// Continue continues an operation that is paused or interrupted, or that waits after its canary. An operation that runs
// or is queued stays so.
func (m *Manager) Continue(namespace, id, by string) (contract.Operation, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, err := m.find(namespace, id)
	if err != nil {
		return contract.Operation{}, err
	}

	reason := "continued by " + route.Line(by)
	switch o := &e.rec.Operation; o.State {
	case contract.OperationQueued, contract.OperationRunning:
	case contract.OperationWaiting:
		if e.rec.Phase = record.Rest; e.left == nil {
			m.enter(e, contract.OperationQueued, reason)
			break
		}
		if e.want == "" {
			e.want, e.reason = contract.OperationQueued, reason
		}
		e.cancel()
	case contract.OperationPaused, contract.OperationInterrupted:
		if e.rec.Phase == record.Judging {
			m.enter(e, contract.OperationWaiting, m.waitText(e))
			m.watch(e)
			break
		}
		m.enter(e, contract.OperationQueued, reason)
		m.schedule()
	default:
		return contract.Operation{}, endedError(o, "")
	}
	return m.view(e), nil
}

// waitText says what an operation waits for after its canary.
func (m *Manager) waitText(e *entry) string {
	if e.rec.Operation.Canary.Then == contract.CanaryContinue {
		return "waits until 90 % of the canary have succeeded"
	}
	return "waits after the canary: continue it, or stop it"
}

// enter sets the state of an operation without a goroutine. The caller holds the mutex.
func (m *Manager) enter(e *entry, state contract.OperationState, reason string) {
	o := &e.rec.Operation
	o.State, o.Reason, o.CurrentRate, o.Error = state, reason, 0, ""
	if state.Ended() {
		o.Ended = m.cfg.Clock.Now()
		m.abandon(e)
		e.rec.Chosen, e.rec.Next, e.rec.Stay, e.rec.Sample = nil, 0, nil, record.Sample{}
	}
	m.signal()
}

// abandon counts the jobs of a step without an answer as failed.
func (m *Manager) abandon(e *entry) {
	for _, id := range e.rec.Pending {
		m.count(e, id, failed, "no answer before the end of the operation; the job may be changed")
	}
	e.rec.Pending = nil
}

// settle stores an operation that has entered the state of o. It ends its action if the operation has ended.
func (m *Manager) settle(e *entry, o *contract.Operation) {
	if !o.State.Ended() {
		m.keep(e)
		return
	}

	// The outcome comes first: after a crash between both, the operation is interrupted, and gets another outcome.
	result := audit.Outcome{Done: int(o.Done), Failed: int(o.Failed)}
	if o.State != contract.OperationDone {
		result.Result = string(o.State)
	}
	m.cfg.Audit.End(o.ID, result, true)
	m.keep(e)
	m.cfg.Log.Info("an operation has ended", "operation", o.ID, "kind", string(o.Kind), "namespace", o.Namespace,
		"queue", o.Queue, "state", string(o.State), "reason", o.Reason, "done", o.Done, "skipped", o.Skipped,
		"failed", o.Failed)
	if m.store.Dir != "" {
		m.mu.Lock()
		e.rec.Operation.Answers = nil // Get reads them from the file
		m.mu.Unlock()
	}
}
