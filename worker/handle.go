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

// handle runs the handler of one flight, on a goroutine of its own.
func (s *session) handle(f *flight) {
	stopTimer := s.enter(f)
	started := s.started(f)
	var out duly.SettleRequest
	result := Finished{Err: errGoexit}
	returned := false
	defer func() {
		if !returned {
			if value := recover(); value != nil {
				result.Err = s.panicked(f, value)
			}
			out = duly.SettleRequest{As: duly.Nack, Error: contract.CutError(result.Err.Error())}
		}

		stopTimer()
		f.cancel(nil)
		result.As = out.As
		s.finished(f, started, result)
		s.table.finish(f, out)
	}()

	err := f.handler.call(&f.ctx, &f.delivery)
	// Inside the recover, because the methods of the error are the user's code too.
	out = decide(err, f.ended())
	result.Err, result.Overload = err, isOverload(err)
	if out.As == duly.Ack {
		out.Result = f.delivery.result
	}
	returned = true
}

// enter begins the handler's time. Its timer runs only if there is a Timeout.
func (s *session) enter(f *flight) (stopTimer func()) {
	if f.handler.timeout == 0 {
		return func() {}
	}
	f.ctx.deadline = s.clock.Now().Add(f.handler.timeout)
	t := s.clock.AfterFunc(f.handler.timeout, func() {
		f.cancel(ErrTimeout)
		s.table.letGo(f)
	})
	return func() { t.Stop() }
}

// ended is what the handler's context was ended with; nil if it was not.
func (f *flight) ended() error { return context.Cause(f.ctx.Context) }

// canceled reports whether the job was removed while its handler ran.
func (f *flight) canceled() bool { return f.ended() == duly.ErrCanceled }

// started notifies the observer, and returns when that was.
func (s *session) started(f *flight) (at time.Duration) {
	o := &s.cfg.Observer
	if o.Started == nil && o.Finished == nil && s.limit == nil {
		return 0
	}
	at = s.clock.Mono()
	if o.Started != nil {
		o.Started(&f.delivery, f.late(at))
	}
	return at
}

// late is how long after its due moment the handler began at that time.
func (f *flight) late(at time.Duration) time.Duration {
	return f.delivery.Now.Sub(f.delivery.Due) + at - f.sent.mono
}

// finished logs a failure, and reports the result to the observer and to the limiter. The
// result has its outcome and its error.
func (s *session) finished(f *flight, started time.Duration, result Finished) {
	if result.As == duly.Nack || result.As == duly.Bury {
		d := &f.delivery
		s.log.LogAttrs(context.Background(), slog.LevelWarn, "job failed",
			slog.String("queue", d.Queue), slog.String("job", d.ID), slog.Int("attempt", d.Attempt),
			slog.Any("as", result.As), slog.Any("error", result.Err))
	}
	if s.cfg.Observer.Finished == nil && s.limit == nil {
		return
	}

	result.Delivery, result.Late = &f.delivery, f.late(started)
	result.At, result.Took = s.clock.Now(), s.clock.Mono()-started
	result.Running, _ = s.table.inUse()
	if s.cfg.Observer.Finished != nil {
		s.cfg.Observer.Finished(result)
	}
	s.limit.done(result)
}

// panicked makes an error of a panic: its value, then the stack from where it
// began, which is what fits into the error text that is kept with the job.
func (s *session) panicked(f *flight, value any) error {
	stack := trimStack(debug.Stack())
	if s.cfg.Observer.Panicked != nil {
		s.cfg.Observer.Panicked(&f.delivery, value, stack)
	}
	return fmt.Errorf("panic: %v\n\n%s", value, stack)
}

// trimStack cuts off what stands above the call of panic: the machinery that
// took the stack.
func trimStack(stack []byte) []byte {
	if i := bytes.Index(stack, []byte("\npanic(")); i >= 0 {
		rest := stack[i+1:]
		for range 2 { // "panic(...)" and the line with its place
			if j := bytes.IndexByte(rest, '\n'); j >= 0 {
				rest = rest[j+1:]
			}
		}
		return rest
	}
	return stack
}
