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

// The causes of a handler's context that has ended, as context.Cause returns them.
var (
	// ErrLeaseLost means that the lease is lost, or may be lost by now. Another worker may handle
	// the job already, so work that is not idempotent must stop. errors.Is reports that it is
	// [duly.ErrLeaseLost]. The cause is [duly.ErrCanceled] instead if the job is known to be
	// canceled.
	ErrLeaseLost error = &cause{
		"worker: the lease is lost, the job was removed or may be delivered again", duly.ErrLeaseLost,
	}
	// ErrMaxHold means that the delivery was held for Config.MaxHold. The worker no longer
	// extends its lease.
	ErrMaxHold error = &cause{
		"worker: the delivery was held for MaxHold, its lease is not extended any more", context.DeadlineExceeded,
	}
	// ErrTimeout means that the handler's Timeout has passed.
	ErrTimeout error = &cause{"worker: the handler's timeout has passed", context.DeadlineExceeded}
	// ErrStopping means that the worker stops, and its drain limit has passed.
	ErrStopping error = &cause{"worker: stopping", context.Canceled}
)

// cause is an error that wraps another error, whose text it leaves out.
type cause struct {
	text string
	is   error
}

func (c *cause) Error() string { return c.text }
func (c *cause) Unwrap() error { return c.is }

// settlementError is an error that chooses how the delivery is settled.
type settlementError struct {
	as    duly.Settlement
	delay *time.Duration
	err   error // the failure or the reason, or nil
	// slow is how long the queue is closed, because the called service has no capacity.
	slow *time.Duration
}

// Error implements error. It returns the text of the failure, which is stored with the job.
func (s *settlementError) Error() string {
	if s.err != nil {
		return s.err.Error()
	}
	switch {
	case s.delay != nil:
		return fmt.Sprintf("%s for %s", s.as, duly.FormatDuration(*s.delay))
	case s.slow != nil:
		return "the service is overloaded"
	}
	return s.as.String()
}

// LogValue implements [slog.LogValuer]. It returns the LogValue of the failure, if the
// failure has one.
func (s *settlementError) LogValue() slog.Value {
	if v, ok := s.err.(slog.LogValuer); ok {
		return v.LogValue()
	}
	return slog.StringValue(s.Error())
}

// Unwrap returns the failure.
func (s *settlementError) Unwrap() error { return s.err }

// RetryAfter returns an error for a failed try (nack). The job is repeated after d instead of the
// job's backoff, or at once if d is 0 or less. err is the failure and may be nil.
func RetryAfter(d time.Duration, err error) error {
	d = max(d, 0)
	return &settlementError{as: duly.Nack, delay: &d, err: err}
}

// Bury returns an error that makes the job dead at once, even if it has tries left. err is the
// reason and may be nil.
func Bury(err error) error { return &settlementError{as: duly.Bury, err: err} }

// Snooze releases the job until d has passed, or at once if d is 0 or less. It uses no try.
func Snooze(d time.Duration) error {
	d = max(d, 0)
	return &settlementError{as: duly.Release, delay: &d}
}

// Release returns an error that releases the job to its old place and uses no try. The job may be
// delivered again at once. Use it when another worker can do what this worker cannot. Otherwise use
// Snooze.
func Release() error { return &settlementError{as: duly.Release} }

// Overloaded returns an error that means that the service which the handler calls has no capacity,
// as HTTP 429 and 503 do. It releases the job without using a try. It also closes the queue until
// after has passed, from 0 to 1 h: no worker gets a job of the queue before. Config.Limiter counts
// it as an overload. err is the reason of the closing and may be nil. If err is a [Snooze], the job
// waits for its time: Overloaded(0, Snooze(d)) counts an overload and closes no queue.
func Overloaded(after time.Duration, err error) error {
	after = min(max(after, 0), duly.MaxSlow)
	s := &settlementError{as: duly.Release, slow: &after, err: err}
	if snooze, ok := err.(*settlementError); ok && snooze.as == duly.Release {
		s.delay, s.err = snooze.delay, snooze.err
	}
	return s
}

// isOverload reports whether a handler returned Overloaded.
func isOverload(err error) bool {
	var s *settlementError
	return errors.As(err, &s) && s.slow != nil
}

// Settling returns how the worker settles a delivery whose handler returned err. ctx is the
// handler's context, or one derived from it. Middleware uses it for metrics and traces.
func Settling(ctx context.Context, err error) duly.Settlement {
	return decide(err, context.Cause(ctx)).As
}

// decide returns the outcome of a handler. ended is the cause of its context, nil if the
// context has not ended.
func decide(err, ended error) duly.SettleRequest {
	// A handler that returns nil has done its work, also after the end of its context. The
	// engine knows whether the ack still counts.
	if err == nil {
		return duly.SettleRequest{As: duly.Ack}
	}

	var s *settlementError
	if errors.As(err, &s) {
		out := duly.SettleRequest{As: s.as, Delay: s.delay, Slow: s.slow}
		// A plain release stores no text.
		if s.as != duly.Release || s.slow != nil {
			out.Error = contract.CutError(err.Error())
		}
		return out
	}

	switch ended {
	case ErrLeaseLost, ErrStopping, duly.ErrCanceled:
		// The worker has interrupted the handler, so the job has not failed.
		return duly.SettleRequest{As: duly.Release}
	case ErrTimeout, ErrMaxHold:
		// The handler was too slow, which is a failed try.
		return duly.SettleRequest{As: duly.Nack, Error: contract.CutError(ended.Error() + ": " + err.Error())}
	}
	return duly.SettleRequest{As: duly.Nack, Error: contract.CutError(err.Error())}
}
