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
	// The pause after a failed poll doubles from minBackoff to maxBackoff.
	minBackoff = 250 * time.Millisecond
	maxBackoff = 5 * time.Second
	// anyPause is the pause after two answers in a row that any job may be gone. A worker
	// asks about all its leases each time.
	anyPause = time.Second
)

// WatchCancels implements contract.CancelWatcher. All watchers share one long poll.
func (e *Engine) WatchCancels(ctx context.Context, namespace string, w contract.CancelWatch) error {
	if err := e.begin(namespace); err != nil {
		return err
	}
	defer e.calls.Done()
	return e.cancels.Watch(ctx, e.link.namespace, w)
}

// followCancels feeds e.cancels. It polls until ctx ends or the server answers with an
// error that a repeat does not fix, as a server without this route does. A cursor that the server
// still knows leaves no gap, even after a lost connection.
func (e *Engine) followCancels(ctx context.Context, _ string, w contract.CancelWatch) error {
	var last wire.Canceled
	for failures := 0; ; {
		began := e.cfg.Clock.Mono()
		answer, err := e.pollCanceled(ctx, last.Cursor)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case isPermanent(err):
			return err
		case err != nil:
			// The cursor is kept, so the next answer also has the reports that were missed in
			// between.
			failures++
			if err := clock.Sleep(ctx, e.cfg.Clock, backoff(failures, err)); err != nil {
				return err
			}
			continue
		}

		failures = 0
		report(&answer, w)
		pause := e.pauseAfter(&answer, &last, e.cfg.Clock.Mono()-began)
		last = answer
		if pause > 0 {
			if err := clock.Sleep(ctx, e.cfg.Clock, pause); err != nil {
				return err
			}
		}
	}
}

// pollCanceled makes one request of the long poll.
func (e *Engine) pollCanceled(ctx context.Context, after string) (wire.Canceled, error) {
	body := wire.CanceledAskForm.Append(nil, wire.CanceledAsk{After: after, Wait: e.cfg.Poll})
	r := request{method: "POST", path: e.base + "/canceled", body: body, wait: e.cfg.Poll}
	return fetch(ctx, e.link, r, wire.CanceledForm.ReadAnswer)
}

func report(answer *wire.Canceled, w contract.CancelWatch) {
	// After a gap, the watcher must ask about all its jobs.
	if answer.Any && w.Ready != nil {
		w.Ready()
	}
	for _, c := range answer.Canceled {
		w.Canceled(c)
	}
}

// pauseAfter returns the pause before the next poll. After reports there is no pause, because the
// server limits the rate of its answers.
func (e *Engine) pauseAfter(answer, last *wire.Canceled, took time.Duration) time.Duration {
	switch {
	case answer.Any && last.Any:
		return anyPause
	case answer.Any || len(answer.Canceled) > 0 || took >= e.cfg.Poll/2:
		return 0
	}
	return earlyPause // an early answer means that the server is about to stop
}

// isPermanent reports whether a repeat of the poll would fail in the same way.
func isPermanent(err error) bool {
	switch duly.CodeOf(err) {
	case duly.CodeInvalid, duly.CodeUnauthorized, duly.CodeForbidden, duly.CodeNotFound, duly.CodeUnsupported:
		return true
	}
	return false
}

// backoff returns the pause after the n-th failure in a row, n from 1. Half of it is random, so
// that the clients of a server do not all retry at the same time.
func backoff(n int, err error) time.Duration {
	d := maxBackoff
	// The bound keeps the shift from overflowing after many failures.
	if n < 6 {
		d = min(minBackoff<<(n-1), maxBackoff)
	}
	var random [1]byte
	rand.Read(random[:]) // never fails; see crypto/rand
	d = d/2 + d/2*time.Duration(random[0])/256

	var e *duly.Error
	if errors.As(err, &e) {
		// A long Retry-After must not delay reports for as long.
		d = max(d, min(e.RetryAfter, 2*maxBackoff))
	}
	return d
}
