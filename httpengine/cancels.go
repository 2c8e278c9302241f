package httpengine

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/wire"
)

var _ contract.CancelWatcher = (*Engine)(nil)

const (
	// firstBackoff and mostBackoff bound the pause after a failed poll, which
	// doubles from one to the other.
	firstBackoff = 250 * time.Millisecond
	mostBackoff  = 5 * time.Second
	// anyPause is the pause after two answers in a row that any job may be gone:
	// the worker asks about all its leases each time.
	anyPause = time.Second
)

// WatchCancels implements contract.CancelWatcher. All watchers share one long poll.
func (e *Engine) WatchCancels(ctx context.Context, namespace string, w contract.CancelWatch) error {
	if err := e.enter(namespace); err != nil {
		return err
	}
	defer e.calls.Done()
	return e.cancels.Watch(ctx, e.link.namespace, w)
}

// followCancels is the source of e.cancels. It polls until ctx ends or the server
// answers an error that a repeat does not mend, as one without this route does. A
// cursor that the server still knows leaves no gap, also after a lost connection.
func (e *Engine) followCancels(ctx context.Context, _ string, w contract.CancelWatch) error {
	var last wire.Canceled
	for failures := 0; ; {
		began := e.cfg.Clock.Mono()
		answer, err := e.pollCanceled(ctx, last.Cursor)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case lasting(err):
			return err
		case err != nil:
			failures++
			if err := clock.Sleep(ctx, e.cfg.Clock, backoff(failures, err)); err != nil {
				return err
			}
			continue
		}

		failures = 0
		report(&answer, w)
		pause := e.restAfter(&answer, &last, e.cfg.Clock.Mono()-began)
		last = answer
		if pause > 0 {
			if err := clock.Sleep(ctx, e.cfg.Clock, pause); err != nil {
				return err
			}
		}
	}
}

// pollCanceled makes one request.
func (e *Engine) pollCanceled(ctx context.Context, after string) (wire.Canceled, error) {
	body := wire.CanceledAskForm.Append(nil, wire.CanceledAsk{After: after, Wait: e.cfg.Poll})
	text, err := e.link.call(ctx, request{method: "POST", path: e.base + "/canceled", body: body, hold: e.cfg.Poll})
	if err != nil {
		return wire.Canceled{}, err
	}
	return answer(e.link, text, wire.CanceledForm.ReadAnswer)
}

func report(answer *wire.Canceled, w contract.CancelWatch) {
	if answer.Any && w.Ready != nil {
		w.Ready()
	}
	for _, c := range answer.Canceled {
		w.Canceled(c)
	}
}

// restAfter returns the pause before the next poll. Reports need none, because the
// server spaces its answers.
func (e *Engine) restAfter(answer, last *wire.Canceled, took time.Duration) time.Duration {
	switch {
	case answer.Any && last.Any:
		return anyPause
	case answer.Any || len(answer.Canceled) > 0 || took >= e.cfg.Poll/2:
		return 0
	}
	return earlyPause // the server is about to stop
}

// lasting reports whether a repeat of the poll would fail in the same way.
func lasting(err error) bool {
	switch duly.CodeOf(err) {
	case duly.CodeInvalid, duly.CodeUnauthorized, duly.CodeForbidden, duly.CodeNotFound, duly.CodeUnsupported:
		return true
	}
	return false
}

// backoff is the pause after the n-th failure in a row, n from 1. Half of it is
// random, so that the clients of a server do not all come back at once.
func backoff(n int, err error) time.Duration {
	d := mostBackoff
	if n < 6 {
		d = min(firstBackoff<<(n-1), mostBackoff)
	}
	var random [1]byte
	rand.Read(random[:]) // never fails, see crypto/rand
	d = d/2 + d/2*time.Duration(random[0])/256

	var e *duly.Error
	if errors.As(err, &e) {
		d = max(d, min(e.RetryAfter, 2*mostBackoff))
	}
	return d
}
