package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// errGoexit is the failure of a handler that ended its goroutine.
var errGoexit = errors.New("worker: the handler has called runtime.Goexit")

// handle runs the handler of one job, on a separate goroutine.
func (r *run) handle(j *activeJob) {
	stopTimer := r.startTimeout(j)
	started := r.started(j)
	var out duly.SettleRequest
	result := Finished{Err: errGoexit}
	returned := false
	defer func() {
		if !returned {
			// After runtime.Goexit, recover returns nil, and errGoexit stays the error.
			if value := recover(); value != nil {
				result.Err = r.panicked(j, value)
			}
			out = duly.SettleRequest{As: duly.Nack, Error: contract.CutError(result.Err.Error())}
		}

		// The slot becomes free last, so that the limiter sees how many slots were in use.
		stopTimer()
		j.cancel(nil)
		result.As = out.As
		r.finished(j, started, result)
		r.tracker.finish(j, out)
	}()

	err := j.handler.call(&j.ctx, &j.delivery)
	// Inside the recover, because the methods of the error are the user's code too.
	out = decide(err, j.cause())
	result.Err, result.Overload = err, isOverload(err)
	if out.As == duly.Ack {
		out.Result = j.delivery.result
	}
	returned = true
}

// startTimeout starts the timer of a handler with a Timeout.
func (r *run) startTimeout(j *activeJob) (stopTimer func()) {
	timeout := j.handler.timeout
	if timeout == 0 {
		return func() {}
	}
	j.ctx.deadline = r.clock.Now().Add(timeout)
	timer := r.clock.AfterFunc(timeout, func() {
		j.cancel(ErrTimeout)
		// A handler that ignores its context must not hold the job without end.
		r.tracker.releaseLease(j)
	})
	return func() { timer.Stop() }
}

// started notifies the observer, and returns the time. Without an observer and a limiter
// the time is not needed, and reading it is not free.
func (r *run) started(j *activeJob) (at time.Duration) {
	o := &r.cfg.Observer
	if o.Started == nil && o.Finished == nil && r.limit == nil {
		return 0
	}
	at = r.clock.Mono()
	if o.Started != nil {
		o.Started(&j.delivery, j.late(at))
	}
	return at
}

// late returns how long after its due time the handler began at that time.
func (j *activeJob) late(at time.Duration) time.Duration {
	return j.delivery.Now.Sub(j.delivery.Due) + at - j.sent.mono
}

// finished logs a failure, and reports the result to the observer and to the limiter. The
// result has its outcome and its error.
func (r *run) finished(j *activeJob, started time.Duration, result Finished) {
	if result.As == duly.Nack || result.As == duly.Bury {
		d := &j.delivery
		r.log.LogAttrs(context.Background(), slog.LevelWarn, "job failed",
			slog.String("queue", d.Queue), slog.String("job", d.ID), slog.Int("attempt", d.Attempt),
			slog.Any("as", result.As), slog.Any("error", result.Err))
	}
	if r.cfg.Observer.Finished == nil && r.limit == nil {
		return
	}

	result.Delivery, result.Late = &j.delivery, j.late(started)
	result.At, result.Took = r.clock.Now(), r.clock.Mono()-started
	result.Running, _ = r.tracker.inUse()
	if r.cfg.Observer.Finished != nil {
		r.cfg.Observer.Finished(result)
	}
	r.limit.done(result)
}

// panicked returns the error of a panic. It has the value, and the stack from the call of
// panic, so that the text which is stored with the job shows the handler's code.
func (r *run) panicked(j *activeJob, value any) error {
	stack := trimStack(debug.Stack())
	if r.cfg.Observer.Panicked != nil {
		r.cfg.Observer.Panicked(&j.delivery, value, stack)
	}
	return fmt.Errorf("panic: %v\n\n%s", value, stack)
}

// trimStack removes the functions above the call to panic, which only collect the stack.
func trimStack(stack []byte) []byte {
	i := bytes.Index(stack, []byte("\npanic("))
	if i < 0 {
		return stack
	}
	rest := stack[i+1:]
	for range 2 { // skips two lines: panic(...), and the line with its file
		if end := bytes.IndexByte(rest, '\n'); end >= 0 {
			rest = rest[end+1:]
		}
	}
	return rest
}
