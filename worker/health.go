package worker

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"log/slog"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/health"
)

// operation names a kind of call to the engine.
type operation string

const (
	opWait    operation = "wait"
	opReserve operation = "reserve"
	opSettle  operation = "settle"
	opExtend  operation = "extend"
	opCreate  operation = "create"
)

// The pauses between tries while the store is lost. The longest is short, so that the worker
// continues soon after the store is back.
const (
	firstPause = 50 * time.Millisecond
	maxPause   = time.Second
)

// errCallTimeout is the cause of a call's context after its timeout.
var errCallTimeout = errors.New("worker: the call to the engine took longer than CallTimeout")

// engineHealth makes the calls to the engine. It limits the time of each call, and distinguishes a
// lost store from an error that a retry can't fix. It reports once that the store is lost and once
// that it is back, whichever calls fail in between.
type engineHealth struct {
	clock    duly.Clock
	log      *slog.Logger
	observer *Observer
	// random returns a random number from 0 to below 1.
	random func() float64
	// tracker records the results of the operations. An operation that fails only once is a
	// broken connection, which is not reported.
	tracker *health.Tracker
}

// newEngineHealth returns an engineHealth whose operations have not failed.
func newEngineHealth(c clock.Clock, log *slog.Logger, o *Observer, random func() float64) *engineHealth {
	return &engineHealth{clock: c, log: log, observer: o, random: random, tracker: health.New(c, 1)}
}

// call makes one call. The call ends after the timeout, or with the parent.
func (h *engineHealth) call(
	parent context.Context, op operation, timeout time.Duration, f func(context.Context) error,
) error {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	timer := h.clock.AfterFunc(timeout, func() { cancel(errCallTimeout) })
	defer timer.Stop()

	err := f(ctx)
	// The engine may return any error for an ended context, so the cause decides.
	if err != nil && context.Cause(ctx) == errCallTimeout {
		err = errCallTimeout
	}
	switch {
	// Neither an interrupted call nor an error that a retry can't fix says anything about the
	// store.
	case parent.Err() != nil || fatal(err):
	case errors.Is(err, duly.ErrNotFound) || errors.Is(err, duly.ErrConflict):
		// The store has answered: a group does not exist, or belongs to a bridge.
		h.record(op, nil)
	default:
		h.record(op, err)
	}
	return err
}

// checkAnswers returns an error if the engine has not answered every item.
func checkAnswers(answers []error, items int, err error) error {
	if err == nil && len(answers) != items {
		return contract.Errorf(duly.CodeInternal, "the engine has answered %d of %d items; every item needs an answer", len(answers), items)
	}
	return err
}

// record records the result of a call, and reports when the store becomes lost and when it is back.
func (h *engineHealth) record(op operation, err error) {
	switch e := h.tracker.Record(string(op), err); {
	case e.FirstDown:
		h.log.Error("store lost, retrying until it is back", "error", err)
		if h.observer.StoreLost != nil {
			h.observer.StoreLost(err)
		}
	case e.AllUp:
		h.log.Info("store is back", "after", e.AllAfter)
		if h.observer.StoreBack != nil {
			h.observer.StoreBack(e.AllAfter)
		}
	}
}

// abandon records that the worker makes no more calls of an operation for now. The store is
// then back when the other operations succeed.
func (h *engineHealth) abandon(op operation) { h.tracker.Abandon(string(op)) }

// fatal reports whether a retry cannot fix the error of a whole call: the worker is set up
// wrongly, or the engine is closed.
func fatal(err error) bool {
	switch duly.CodeOf(err) {
	case duly.CodeInvalid, duly.CodeUnauthorized, duly.CodeForbidden, duly.CodeUnsupported, duly.CodeClosed:
		return true
	}
	return false
}

// backoff returns the pause after the n-th failure in a row, n from 1. It doubles each time, and
// half of it is random, so that the workers of a store do not retry at the same moment.
func (h *engineHealth) backoff(n int, err error) time.Duration {
	d := maxPause
	// From the sixth failure on, the shift exceeds maxPause, and much later it overflows.
	if n < 6 {
		d = min(firstPause<<(n-1), maxPause)
	}
	d = d/2 + time.Duration(h.random()*float64(d/2))

	var e *duly.Error
	if !errors.As(err, &e) {
		return d
	}
	// A caller over its rate limit waits as long as the answer asks. Other answers with a time may
	// come from a proxy, so they are limited to the longest pause.
	asked := e.RetryAfter
	if e.Code != duly.CodeLimited {
		asked = min(asked, maxPause)
	}
	return max(d, asked)
}

// pause waits after the n-th failure in a row, or until ctx ends.
func (h *engineHealth) pause(ctx context.Context, n int, err error) {
	_ = clock.Sleep(ctx, h.clock, h.backoff(n, err)) // the caller checks ctx after the pause
}

// random returns a random number from 0 to below 1. It is slow, and used only while the
// store is lost.
func random() float64 {
	var b [8]byte
	rand.Read(b[:]) // never fails; see crypto/rand
	return float64(binary.BigEndian.Uint64(b[:])>>11) / (1 << 53)
}
