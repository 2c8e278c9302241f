package httpengine

import (
	"context"
	"errors"
	"unicode/utf8"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/wire"
)

// Push implements duly.Engine.
func (e *Engine) Push(ctx context.Context, jobs []duly.Job) ([]duly.PushResult, error) {
	if err := e.begin(""); err != nil {
		return nil, err
	}
	defer e.calls.Done()
	if err := contract.CheckBatch(len(jobs), contract.BodyBytes(jobs)); err != nil {
		return nil, err
	}
	return sendValid(jobs, e.validateJob, func(jobs []duly.Job) ([]duly.PushResult, error) {
		return e.push(ctx, jobs)
	}, refusedJob)
}

func refusedJob(j *duly.Job, err error) duly.PushResult { return duly.PushResult{ID: j.ID, Err: err} }

// validateJob returns an error for a job that must not be sent: a job of another namespace, or with
// a string or a time that JSON cannot carry. The server validates the rest, because only the server
// knows its limits.
func (e *Engine) validateJob(j *duly.Job) error {
	if j.Namespace != "" && j.Namespace != e.link.namespace {
		return e.foreignNamespace(j.Namespace)
	}
	m := &j.Merge
	if !j.Due.After(duly.MaxTime) && isUTF8(j.Headers, j.ID, j.Queue, string(j.Backoff), j.OrderKey,
		m.Key, string(m.Mode), string(m.Until), j.Callback, j.OnDone, j.OnDead) {
		return nil
	}
	// The check reports the fault as the server would.
	return contract.ValidateJob(j, duly.MaxMaxBody)
}

// isUTF8 reports whether all headers and texts are UTF-8, so that JSON can carry them.
func isUTF8(headers map[string]string, texts ...string) bool {
	for _, text := range texts {
		if !utf8.ValidString(text) {
			return false
		}
	}
	for name, value := range headers {
		if !utf8.ValidString(name) || !utf8.ValidString(value) {
			return false
		}
	}
	return true
}

func (e *Engine) push(ctx context.Context, jobs []duly.Job) ([]duly.PushResult, error) {
	results, err := e.pushes.do(ctx, wire.AppendPush(nil, jobs), len(jobs), contract.BodyBytes(jobs))
	// The server may allow smaller requests than the contract does.
	if errors.Is(err, duly.ErrTooLarge) {
		return sendHalves(jobs, err, func(jobs []duly.Job) ([]duly.PushResult, error) {
			return e.push(ctx, jobs)
		}, refusedJob)
	}
	return results, err
}

// Settle implements duly.Engine.
func (e *Engine) Settle(ctx context.Context, namespace string, outcomes []duly.SettleRequest) ([]error, error) {
	if err := e.begin(namespace); err != nil {
		return nil, err
	}
	defer e.calls.Done()
	if err := contract.CheckBatch(len(outcomes), 0); err != nil {
		return nil, err
	}
	return sendValid(outcomes, contract.ValidateSettle, func(outcomes []duly.SettleRequest) ([]error, error) {
		return e.settle(ctx, outcomes)
	}, refusedOutcome)
}

func refusedOutcome(_ *duly.SettleRequest, err error) error { return err }

func (e *Engine) settle(ctx context.Context, outcomes []duly.SettleRequest) ([]error, error) {
	bytes := 0
	for i := range outcomes {
		bytes += len(outcomes[i].Result)
	}
	errs, err := e.settles.do(ctx, wire.AppendSettle(nil, outcomes), len(outcomes), bytes)
	if errors.Is(err, duly.ErrTooLarge) {
		return sendHalves(outcomes, err, func(outcomes []duly.SettleRequest) ([]error, error) {
			return e.settle(ctx, outcomes)
		}, refusedOutcome)
	}
	return errs, err
}

// sendValid sends the valid items. It returns one result per item: the result of the server, or the
// error of the item.
func sendValid[T, R any](
	items []T, validate func(*T) error, send func([]T) ([]R, error), failed func(*T, error) R,
) ([]R, error) {
	results := make([]R, len(items))
	valid := make([]int, 0, len(items))
	for i := range items {
		if err := validate(&items[i]); err != nil {
			results[i] = failed(&items[i], err)
		} else {
			valid = append(valid, i)
		}
	}
	// Usually all items are valid and need no copy.
	switch len(valid) {
	case 0:
		return results, nil
	case len(items):
		return send(items)
	}

	rest := make([]T, len(valid))
	for k, i := range valid {
		rest[k] = items[i]
	}
	answers, err := send(rest)
	if err != nil {
		return nil, err
	}
	for k, i := range valid {
		results[i] = answers[k]
	}
	return results, nil
}

// sendHalves sends items that were refused as too large for one request in two requests, in
// order. A single item that is too large gets the refusal as its error. If the second request
// fails, its items get the error, because the first request has succeeded.
func sendHalves[T, R any](
	items []T, refusal error, send func([]T) ([]R, error), failed func(*T, error) R,
) ([]R, error) {
	if len(items) == 1 {
		return []R{failed(&items[0], refusal)}, nil
	}
	first, err := send(items[:len(items)/2])
	// If the first half fails, nothing has happened, so the whole call fails.
	if err != nil {
		return nil, err
	}

	rest := items[len(items)/2:]
	second, err := send(rest)
	if err == nil {
		return append(first, second...), nil
	}
	err = partly(err)
	for i := range rest {
		first = append(first, failed(&rest[i], err))
	}
	return first, nil
}

// partly returns the error of a call that has succeeded in part. It is not the error of a context,
// because that would mean that nothing was sent.
func partly(err error) error {
	if err == context.Canceled || err == context.DeadlineExceeded {
		return contract.Unanswered(err)
	}
	return err
}
