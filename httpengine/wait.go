package httpengine

import (
	"context"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/wire"
)

// earlyPause is how long to wait before asking again a server that answered a
// poll before its time, as one does that wants to stop.
const earlyPause = 500 * time.Millisecond

// Wait implements duly.Engine. The server keeps the time: it holds the request
// until there may be a job.
func (e *Engine) Wait(ctx context.Context, p duly.WaitParams) (bool, error) {
	if err := e.enter(p.Namespace); err != nil {
		return false, err
	}
	defer e.calls.Done()
	if err := contract.ValidateWait(&p); err != nil {
		return false, err
	}
	if p.Dispatcher {
		return false, noDispatcher()
	}
	var ready bool
	err := e.whileOpen(ctx, func(open context.Context) error {
		return e.inSlices(open, p.Timeout, func(slice time.Duration) (_ bool, err error) {
			ready, err = e.poll(open, duly.WaitParams{Queues: p.Queues, Timeout: slice})
			return ready, err
		})
	})
	return ready && err == nil, err
}

func (e *Engine) poll(ctx context.Context, p duly.WaitParams) (bool, error) {
	text, err := e.link.call(ctx, request{method: "POST", path: e.base + "/wait", body: wire.WaitForm.Append(nil, p), hold: p.Timeout})
	if err != nil {
		return false, err
	}
	return answer(e.link, text, wire.ReadyForm.ReadAnswer)
}

// whileOpen makes a call that changes nothing, and cuts it off when its caller goes
// and when the engine closes.
func (e *Engine) whileOpen(ctx context.Context, call func(open context.Context) error) error {
	open, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.closing, cancel)()
	err := call(open)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case e.closing.Err() != nil:
		return duly.ErrClosed
	}
	return err
}

// inSlices asks in slices until an answer is the last one or the time has passed.
func (e *Engine) inSlices(ctx context.Context, wait time.Duration, ask func(slice time.Duration) (last bool, err error)) error {
	begin := e.cfg.Clock.Mono()
	for left := wait; ; {
		asked := e.cfg.Clock.Mono()
		slice := min(left, e.cfg.Poll)
		last, err := ask(slice)
		if err != nil || last {
			return err
		}
		now := e.cfg.Clock.Mono()
		if left = wait - (now - begin); left <= 0 {
			return nil
		}
		if now-asked < slice/2 {
			if err := clock.Sleep(ctx, e.cfg.Clock, min(left, earlyPause)); err != nil {
				return err
			}
			left = max(0, wait-(e.cfg.Clock.Mono()-begin))
		}
	}
}
