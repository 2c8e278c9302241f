package poll

import (
	"context"
	"net/http"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/route"
)

// Config configures a Poll.
type Config struct {
	// Engine must be set.
	Engine duly.Engine
	// Passer belongs to the engine without its decorators. Default
	// contract.PasserOf(Engine).
	Passer contract.Passer
	// MaxBody is the largest body of a job that the engine accepts, in bytes. Default
	// duly.DefaultMaxBody.
	MaxBody int
	// Clock must be set.
	Clock duly.Clock
	// Leased, if set, is called with the shortest lease of each answer. The server uses it to sweep
	// when that lease may have run out.
	Leased func(time.Duration)
}

// Poll reserves jobs of an engine. It is safe for concurrent use.
type Poll struct{ cfg Config }

// New returns a Poll.
func New(cfg Config) *Poll {
	if cfg.Passer == nil {
		cfg.Passer = contract.PasserOf(cfg.Engine)
	}
	if cfg.MaxBody == 0 {
		cfg.MaxBody = duly.DefaultMaxBody
	}
	if cfg.Leased == nil {
		cfg.Leased = func(time.Duration) {}
	}
	return &Poll{cfg}
}

// MaxBody returns the largest body of a job that the engine accepts, in bytes.
func (p *Poll) MaxBody() int { return p.cfg.MaxBody }

// Leased notes that leases of length d were granted or extended.
func (p *Poll) Leased(d time.Duration) { p.cfg.Leased(d) }

// Bodies returns the maximum size of the bodies of n jobs in one result of the engine, in bytes.
func (p *Poll) Bodies(n int) int64 {
	n = min(max(n, 1), duly.MaxBatch)
	return min(int64(n)*int64(p.cfg.MaxBody), max(int64(p.cfg.MaxBody), duly.MaxBatchBytes))
}

// Params are the parameters of a poll.
type Params struct {
	duly.ReserveParams
	// Wait is how long to wait while no job is ready.
	Wait time.Duration
	// WaitMax replaces Max after a wait. 0: Max stays.
	WaitMax int
}

// Reserve reserves jobs, and waits while no job is ready. The caller must pass the deliveries to
// Deliver. Without a ready job, Reserve returns no deliveries when the wait time has passed, or
// when the server drains.
func (p *Poll) Reserve(c *route.Call, params Params) ([]duly.Delivery, error) {
	var begin time.Duration
	if params.Wait > 0 {
		begin = p.cfg.Clock.Mono()
	}

	wait := duly.WaitParams{Namespace: params.Namespace, Queues: params.Queues}
	for left, woken := params.Wait, false; ; {
		deliveries, err := p.reserve(c, params.ReserveParams, woken)
		if err != nil || len(deliveries) > 0 || left <= 0 {
			return deliveries, err
		}
		// A waiting caller holds no memory.
		c.ReleaseMemory()
		if params.WaitMax > 0 {
			params.Max = params.WaitMax
		}

		var over bool
		wait.Timeout = min(left, duly.MaxWait)
		woken, over, err = p.wait(c, wait)
		left = params.Wait - (p.cfg.Clock.Mono() - begin)
		if err != nil || over || !woken && left <= 0 {
			return nil, err
		}
	}
}

// reserve calls the engine once. woken says that a Wait has just returned ready. In that case,
// reserve passes the wake-up on if it fails early.
func (p *Poll) reserve(c *route.Call, r duly.ReserveParams, woken bool) ([]duly.Delivery, error) {
	if err := c.ReserveMemory(p.Bodies(r.Max)); err != nil {
		if woken {
			p.Pass(c, duly.WaitParams{Namespace: r.Namespace, Queues: r.Queues})
		}
		return nil, err
	}
	return p.cfg.Engine.Reserve(c.Context(), r)
}

// Wait calls the engine's Wait. It also ends when the server drains and when the
// caller's token changes or is revoked.
func (p *Poll) Wait(c *route.Call, w duly.WaitParams) (ready bool, err error) {
	ready, _, err = p.wait(c, w)
	return ready, err
}

// wait is like Wait, and also reports whether the caller must stop waiting although time
// is left.
func (p *Poll) wait(c *route.Call, w duly.WaitParams) (ready, over bool, err error) {
	if w.Timeout <= 0 {
		ready, err = p.cfg.Engine.Wait(c.Context(), w)
		return ready, false, err
	}
	over, err = Until(c, func(ctx context.Context) (err error) {
		ready, err = p.cfg.Engine.Wait(ctx, w)
		return err
	})
	if over && ready {
		p.Pass(c, w)
		ready = false
	}
	return ready, over, err
}

// Until calls wait with a context that ends when the caller hangs up, when its token changes or is
// revoked, and when the server drains. If the context has ended, over is true and err is the answer
// to the caller. err is nil if the server drains or the token has changed.
func Until(c *route.Call, wait func(ctx context.Context) error) (over bool, err error) {
	ctx, release, err := c.LongContext(c.Draining())
	if err != nil {
		return true, refusal(err)
	}
	defer release()

	err = wait(ctx)
	switch {
	case ctx.Err() == nil:
		return false, err
	case c.Gone():
		return true, c.Context().Err()
	case context.Cause(ctx) == context.Cause(c.Draining()):
		return true, nil
	}
	return true, refusal(context.Cause(ctx))
}

// Pass wakes another caller in place of one whose Wait reported jobs, and who does not reserve them.
func (p *Poll) Pass(c *route.Call, w duly.WaitParams) {
	p.cfg.Passer.Pass(c.Context(), w.Namespace, w.Queues)
}

// refusal returns the answer to a caller whose token ended during the wait. It is nil for a changed
// token, because the caller may poll again with the new rights.
func refusal(cause error) error {
	if auth.Changed(cause) {
		return nil
	}
	return cause
}

// Deliver writes deliveries to the caller, or releases them. write appends the answer, which has
// about size bytes.
func (p *Poll) Deliver(c *route.Call, deliveries []duly.Delivery, size int, write func(out []byte) []byte) error {
	shortest := deliveries[0].LeaseEnd.Sub(deliveries[0].Now)
	receipts := make([]duly.Receipt, len(deliveries))
	bodies := 0
	for i := range deliveries {
		shortest = min(shortest, deliveries[i].LeaseEnd.Sub(deliveries[i].Now))
		receipts[i] = deliveries[i].Receipt
		bodies += len(deliveries[i].Body)
	}
	// The server sweeps when the shortest of these leases may have ended.
	p.cfg.Leased(shortest)

	delivered := false
	// A panic of write must release the deliveries, too.
	defer func() {
		if !delivered {
			p.release(c, receipts)
		}
	}()
	if err := c.ReserveMemory(int64(bodies + size)); err != nil {
		return err
	}
	// From here on the deliveries exist only in the text of the answer.
	if err := c.ReplyNow(http.StatusOK, write(c.Room(size))); err != nil {
		return err
	}
	delivered = true
	return nil
}

// releaseTime is the longest time for the release of deliveries that no caller got. If it fails,
// the jobs come back when their leases end.
const releaseTime = 10 * time.Second

func (p *Poll) release(c *route.Call, receipts []duly.Receipt) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Context()), releaseTime)
	defer cancel()

	releases := make([]duly.SettleRequest, len(receipts))
	for i, receipt := range receipts {
		releases[i] = duly.SettleRequest{Receipt: receipt, As: duly.Release}
	}
	if _, err := p.cfg.Engine.Settle(ctx, c.Namespace, releases); err != nil {
		c.Log().Warn("the deliveries of a disconnected caller could not be released; they come back when their leases end",
			"count", len(releases), "code", string(duly.CodeOf(err)))
	}
}
