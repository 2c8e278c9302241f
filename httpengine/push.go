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
	if err := e.enter(""); err != nil {
		return nil, err
	}
	defer e.calls.Done()
	if err := contract.CheckBatch(len(jobs), contract.BodyBytes(jobs)); err != nil {
		return nil, err
	}
	return each(jobs, e.judgeJob, func(jobs []duly.Job) ([]duly.PushResult, error) { return e.push(ctx, jobs) },
		refusedJob)
}

func refusedJob(j *duly.Job, err error) duly.PushResult { return duly.PushResult{ID: j.ID, Err: err} }

// judgeJob finds what is never sent: jobs of other namespaces, and jobs with a
// text or a time that the wire can't carry, none of which is good. Everything
// else is for the server to judge, which knows its own bounds.
func (e *Engine) judgeJob(j *duly.Job) error {
	if j.Namespace != "" && j.Namespace != e.link.namespace {
		return e.foreign(j.Namespace)
	}
	if !j.Due.After(duly.MaxTime) && carried(j.Headers, j.ID, j.Queue, string(j.Backoff), j.OrderKey, j.Merge.Key, string(j.Merge.Mode), string(j.Merge.Until), j.Callback, j.OnDone, j.OnDead) {
		return nil
	}
	return contract.ValidateJob(j, duly.MaxMaxBody)
}

// carried tells whether JSON carries headers and texts as they are.
func carried(headers map[string]string, texts ...string) bool {
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
	if errors.Is(err, duly.ErrTooLarge) {
		return halves(jobs, err, func(jobs []duly.Job) ([]duly.PushResult, error) { return e.push(ctx, jobs) },
			refusedJob)
	}
	return results, err
}

// Settle implements duly.Engine.
func (e *Engine) Settle(ctx context.Context, namespace string, outcomes []duly.SettleRequest) ([]error, error) {
	if err := e.enter(namespace); err != nil {
		return nil, err
	}
	defer e.calls.Done()
	if err := contract.CheckBatch(len(outcomes), 0); err != nil {
		return nil, err
	}
	return each(outcomes, contract.ValidateSettle, func(outcomes []duly.SettleRequest) ([]error, error) { return e.settle(ctx, outcomes) },
		refusedOutcome)
}

func refusedOutcome(_ *duly.SettleRequest, err error) error { return err }

func (e *Engine) settle(ctx context.Context, outcomes []duly.SettleRequest) ([]error, error) {
	bytes := 0
	for i := range outcomes {
		bytes += len(outcomes[i].Result)
	}
	errs, err := e.settles.do(ctx, wire.AppendSettle(nil, outcomes), len(outcomes), bytes)
	if errors.Is(err, duly.ErrTooLarge) {
		return halves(outcomes, err, func(outcomes []duly.SettleRequest) ([]error, error) { return e.settle(ctx, outcomes) },
			refusedOutcome)
	}
	return errs, err
}

// each sends the items that pass the judge, and puts the results to their
// places among the errors of the others.
func each[T, R any](items []T, judge func(*T) error, send func([]T) ([]R, error), failed func(*T, error) R) ([]R, error) {
	results := make([]R, len(items))
	var good []int // nil: all so far
	for i := range items {
		err := judge(&items[i])
		if err != nil {
			if good == nil {
				good = upTo(i)
			}
			results[i] = failed(&items[i], err)
		} else if good != nil {
			good = append(good, i)
		}
	}
	switch {
	case len(items) == 0, good != nil && len(good) == 0:
		return results, nil
	case good == nil:
		return send(items)
	}
	some := make([]T, len(good))
	for k, i := range good {
		some[k] = items[i]
	}
	answers, err := send(some)
	if err != nil {
		return nil, err
	}
	for k, i := range good {
		results[i] = answers[k]
	}
	return results, nil
}

// upTo is 0…n−1, and never nil.
func upTo(n int) []int {
	list := make([]int, n, n+8)
	for i := range list {
		list[i] = i
	}
	return list
}

// halves sends in two requests what was refused as too large for one, in
// order. One item alone that is too large has that as its own error, and so has
// each of a second half that fails: the first one is done.
func halves[T, R any](items []T, refusal error, send func([]T) ([]R, error), failed func(*T, error) R) ([]R, error) {
	if len(items) == 1 {
		return []R{failed(&items[0], refusal)}, nil
	}
	first, err := send(items[:len(items)/2])
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

// partly is the error of a call of which a part was done: a context's own would
// say that nothing was.
func partly(err error) error {
	if err == context.Canceled || err == context.DeadlineExceeded {
		return contract.Unanswered(err)
	}
	return err
}
