package httpengine

import (
	"context"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/wire"
)

// earlyPause is the pause after a server has answered a poll early, because it is about to stop.
const earlyPause = 500 * time.Millisecond

// Wait implements duly.Engine. The server answers when there may be a job.
func (e *Engine) Wait(ctx context.Context, p duly.WaitParams) (bool, error) {
	if err := e.begin(p.Namespace); err != nil {
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
	err := e.untilClosed(ctx, func(open context.Context) error {
		return e.pollFor(open, p.Timeout, func(timeout time.Duration) (_ bool, err error) {
			ready, err = e.waitOnce(open, duly.WaitParams{Queues: p.Queues, Timeout: timeout})
			return ready, err
		})
	})
	return ready && err == nil, err
}

func (e *Engine) waitOnce(ctx context.Context, p duly.WaitParams) (bool, error) {
	r := request{method: "POST", path: e.base + "/wait", body: wire.WaitForm.Append(nil, p), wait: p.Timeout}
	return fetch(ctx, e.link, r, wire.ReadyForm.ReadAnswer)
}

// untilClosed makes a call that changes nothing. It cuts the call off when the caller leaves or the
// engine is closed.
func (e *Engine) untilClosed(ctx context.Context, call func(open context.Context) error) error {
	open, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.closing, cancel)()

	err := call(open)
	switch {
	case err == nil:
		return nil
	// The context open also ends when the engine is closed, so ctx is checked to see which of the
	// two has ended.
	case ctx.Err() != nil:
		return ctx.Err()
	case e.closing.Err() != nil:
		return duly.ErrClosed
	}
	return err
}

// pollFor polls until a poll is done or the time has passed. Each poll takes at most Config.Poll.
func (e *Engine) pollFor(
	ctx context.Context, wait time.Duration, poll func(timeout time.Duration) (done bool, err error),
) error {
	begin := e.cfg.Clock.Mono()
	for left := wait; ; {
		polled := e.cfg.Clock.Mono()
		timeout := min(left, e.cfg.Poll)
		done, err := poll(timeout)
		if err != nil || done {
			return err
		}

		now := e.cfg.Clock.Mono()
		if left = wait - (now - begin); left <= 0 {
			return nil
		}
		// A stopping server answers early. Without the pause, polls would be sent in a tight loop.
		if now-polled < timeout/2 {
			if err := clock.Sleep(ctx, e.cfg.Clock, min(left, earlyPause)); err != nil {
				return err
			}
			// The pause may have used up the remaining time. In that case the last poll does not
			// wait.
			left = max(0, wait-(e.cfg.Clock.Mono()-begin))
		}
	}
}
