package httpengine

import (
	"context"
	"time"

	"github.com/dulymq/duly"
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
	if err := p.Validate(); err != nil {
		return false, err
	}
	open, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.closing, cancel)()
	ready, err := e.polls(open, p)
	switch {
	case err == nil:
		return ready, nil
	case ctx.Err() != nil:
		return false, ctx.Err()
	case e.closing.Err() != nil:
		return false, duly.ErrClosed
	}
	return false, err
}

// polls asks until there may be a job or the time has passed.
func (e *Engine) polls(ctx context.Context, p duly.WaitParams) (bool, error) {
	begin := e.cfg.Clock.Mono()
	for left := p.Timeout; ; {
		asked := e.cfg.Clock.Mono()
		slice := min(left, e.cfg.Poll)
		ready, err := e.poll(ctx, duly.WaitParams{Queues: p.Queues, Timeout: slice})
		if err != nil || ready {
			return ready, err
		}
		now := e.cfg.Clock.Mono()
		if left = p.Timeout - (now - begin); left <= 0 {
			return false, nil
		}
		if now-asked < slice/2 {
			if err := clock.Sleep(ctx, e.cfg.Clock, min(left, earlyPause)); err != nil {
				return false, err
			}
			left = max(0, p.Timeout-(e.cfg.Clock.Mono()-begin))
		}
	}
}

func (e *Engine) poll(ctx context.Context, p duly.WaitParams) (bool, error) {
	text, err := e.link.call(ctx, request{method: "POST", path: e.base + "/wait", body: wire.AppendWait(nil, p), hold: p.Timeout})
	if err != nil {
		return false, err
	}
	return answer(e.link, text, wire.ReadReady)
}
