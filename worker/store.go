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

// The pauses between tries while the store is lost. The longest is short, for
// a worker must be at work again soon after its store is.
const (
	firstPause = 50 * time.Millisecond
	mostPause  = time.Second
)

// errCallTimeout ends the context of a call that took too long.
var errCallTimeout = errors.New("worker: the call took longer than CallTimeout")

// store watches the calls to the engine: it bounds them in time, distinguishes a lost
// store from a mistake, and reports once that the store is lost and once that it is
// back, whichever calls fail meanwhile.
type store struct {
	clock    duly.Clock
	log      *slog.Logger
	observer *Observer
	// draw is a random number from 0 to under 1.
	draw func() float64
	// health tracks the operations. One that fails once, and not when it is tried again, is
	// a hiccup of the connection and not worth a word.
	health *health.Tracker
}

// newStore returns a store whose operations have not failed.
func newStore(c clock.Clock, log *slog.Logger, o *Observer, draw func() float64) *store {
	return &store{clock: c, log: log, observer: o, draw: draw, health: health.New(c, 1)}
}

// call makes one call of that kind, which ends after the timeout or when the
// parent does, and takes note of whether the store was there.
func (s *store) call(parent context.Context, op operation, timeout time.Duration, f func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	t := s.clock.AfterFunc(timeout, func() { cancel(errCallTimeout) })
	defer t.Stop()
	err := f(ctx)
	if err != nil && context.Cause(ctx) == errCallTimeout {
		err = errCallTimeout
	}
	switch {
	case parent.Err() != nil || fatal(err):
	case errors.Is(err, duly.ErrNotFound) || errors.Is(err, duly.ErrConflict): // the store has answered: a group is gone, or a bridge's
		s.note(op, nil)
	default:
		s.note(op, err)
	}
	return err
}

// whole makes an error of an answer that does not answer every item.
func whole(answers []error, items int, err error) error {
	if err == nil && len(answers) != items {
		return contract.Errorf(duly.CodeInternal, "the engine has answered %d of %d items", len(answers), items)
	}
	return err
}

// note records the result of a call, and reports when the store is lost and when it is back.
func (s *store) note(op operation, err error) {
	switch e := s.health.Record(string(op), err); {
	case e.FirstDown:
		s.log.Error("store lost, trying until it is back", "error", err)
		if s.observer.StoreLost != nil {
			s.observer.StoreLost(err)
		}
	case e.AllUp:
		s.log.Info("store is back", "after", e.AllAfter)
		if s.observer.StoreBack != nil {
			s.observer.StoreBack(e.AllAfter)
		}
	}
}

// leave notes that calls of that kind are not tried any more for now. The next call
// of another kind then shows whether they would fail.
func (s *store) leave(op operation) { s.health.Abandon(string(op)) }

// fatal reports whether an error of a whole call will still be there however
// often the call is made: a mistake in how the worker was set up, or an engine
// that was closed. Everything else may pass.
func fatal(err error) bool {
	switch duly.CodeOf(err) {
	case duly.CodeInvalid, duly.CodeUnauthorized, duly.CodeForbidden, duly.CodeUnsupported, duly.CodeClosed:
		return true
	}
	return false
}

// pause is how long to wait after the n-th failure in a row, n from 1: twice
// as long each time, with half of it left to chance so that the workers of a
// store do not all come back in the same instant. A limited caller waits as
// long as the answer says. Any other answer with a time may come from a proxy, so it
// counts up to the longest pause.
func (s *store) pause(n int, err error) time.Duration {
	d := mostPause
	if n < 6 {
		d = min(firstPause<<(n-1), mostPause)
	}
	d = d/2 + time.Duration(s.draw()*float64(d/2))
	var e *duly.Error
	if !errors.As(err, &e) {
		return d
	}
	asked := e.RetryAfter
	if e.Code != duly.CodeLimited {
		asked = min(asked, mostPause)
	}
	return max(d, asked)
}

// rest is the pause after the n-th failure in a row, unless ctx ends before.
func (s *store) rest(ctx context.Context, n int, err error) {
	_ = clock.Sleep(ctx, s.clock, s.pause(n, err)) // who rests looks at ctx next
}

// draw is a random number from 0 to under 1. It is drawn only while the store
// is lost.
func draw() float64 {
	var b [8]byte
	rand.Read(b[:]) // never fails, see crypto/rand
	return float64(binary.BigEndian.Uint64(b[:])>>11) / (1 << 53)
}
