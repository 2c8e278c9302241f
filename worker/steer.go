package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// Why a handler's context has ended: what context.Cause returns.
var (
	// ErrLeaseLost: the lease is gone, or may be by now. Another worker may
	// handle the job already; what is not idempotent must stop here. It is a
	// [duly.ErrLeaseLost] too. A job that is known to be canceled ends with
	// [duly.ErrCanceled] instead.
	ErrLeaseLost error = &cause{"worker: the lease is lost, the job was removed or may be delivered again", duly.ErrLeaseLost}
	// ErrMaxHold: the delivery was held for Config.MaxHold; its lease is not
	// extended any more.
	ErrMaxHold error = &cause{"worker: held for as long as MaxHold allows, the lease is let go", context.DeadlineExceeded}
	// ErrTimeout: the handler's Timeout has passed.
	ErrTimeout error = &cause{"worker: the handler's timeout has passed", context.DeadlineExceeded}
	// ErrStopping: the worker ends, and its drain limit has passed.
	ErrStopping error = &cause{"worker: stopping", context.Canceled}
)

// cause is an error that also is another one.
type cause struct {
	text string
	is   error
}

func (c *cause) Error() string { return c.text }
func (c *cause) Unwrap() error { return c.is }

// steering is an error that says how to settle.
type steering struct {
	as    duly.Settlement
	delay *time.Duration
	err   error // the failure or reason; may be nil
	// overload reports that the called service has no capacity.
	overload bool
}

// Error implements error: the failure itself, which is what is stored with
// the job.
func (s *steering) Error() string {
	if s.err != nil {
		return s.err.Error()
	}
	if s.delay != nil {
		return fmt.Sprintf("%s for %s", s.as, duly.FormatDuration(*s.delay))
	}
	return s.as.String()
}

// LogValue implements [slog.LogValuer]: the log shows the failure by its own LogValue,
// if it has one.
func (s *steering) LogValue() slog.Value {
	if v, ok := s.err.(slog.LogValuer); ok {
		return v.LogValue()
	}
	return slog.StringValue(s.Error())
}

// Unwrap returns the failure.
func (s *steering) Unwrap() error { return s.err }

// RetryAfter is a failed try (nack) that is tried again after d instead of the
// job's backoff; 0 or less is at once. err is the failure's text and may be
// nil.
func RetryAfter(d time.Duration, err error) error {
	d = max(d, 0)
	return &steering{as: duly.Nack, delay: &d, err: err}
}

// Bury makes the job dead now, whatever tries are left. err is the reason and
// may be nil.
func Bury(err error) error { return &steering{as: duly.Bury, err: err} }

// Snooze gives the job back until d has passed; no try is used. 0 or less is
// at once.
func Snooze(d time.Duration) error {
	d = max(d, 0)
	return &steering{as: duly.Release, delay: &d}
}

// Release gives the job back to its old place; no try is used. It is
// delivered again as soon as it is its turn, which may be at once: use it when
// another worker can do what this one can't, else Snooze.
func Release() error { return &steering{as: duly.Release} }

// maxOverload is the longest time for which Overloaded gives a job back.
const maxOverload = time.Hour

// Overloaded reports that the service which the handler calls has no capacity, as HTTP 429
// and 503 do. It gives the job back until after has passed, from 0 to 1 h, and uses no try.
// Config.Limiter counts it as an overload. err is the reason and may be nil.
func Overloaded(after time.Duration, err error) error {
	after = min(max(after, 0), maxOverload)
	return &steering{as: duly.Release, delay: &after, err: err, overload: true}
}

// isOverload reports whether a handler returned Overloaded.
func isOverload(err error) bool {
	var s *steering
	return errors.As(err, &s) && s.overload
}

// Settling returns how a delivery is settled whose handler has returned err, with
// the context that the handler was called with, or one derived from it. It is
// for middleware that has to know, as for metrics and traces.
func Settling(ctx context.Context, err error) duly.Settlement {
	return decide(err, context.Cause(ctx)).As
}

// decide turns what a handler returned into how its delivery is settled.
// ended is what its context was ended with, nil if it was not.
//
// An error after a lost lease or a stop is the worker's doing and not the
// job's, so no try is used for it. An error after a timeout or MaxHold is the
// handler's slowness: a failed try. A handler that returns nil has done its
// work, whatever became of its context; the engine knows whether that counts.
func decide(err, ended error) duly.SettleRequest {
	if err == nil {
		return duly.SettleRequest{As: duly.Ack}
	}
	var s *steering
	if errors.As(err, &s) {
		out := duly.SettleRequest{As: s.as, Delay: s.delay}
		if s.as != duly.Release {
			out.Error = contract.CutError(err.Error())
		}
		return out
	}
	switch ended {
	case ErrLeaseLost, ErrStopping, duly.ErrCanceled:
		return duly.SettleRequest{As: duly.Release}
	case ErrTimeout, ErrMaxHold:
		return duly.SettleRequest{As: duly.Nack, Error: contract.CutError(ended.Error() + ": " + err.Error())}
	}
	return duly.SettleRequest{As: duly.Nack, Error: contract.CutError(err.Error())}
}
