package poll

import (
	"context"
	"net/http"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/route"
)

// Config configures a Poll.
type Config struct {
	// Engine must be set.
	Engine duly.Engine
	// Passer is that of the engine before it was decorated. Default
	// duly.PasserOf(Engine).
	Passer duly.Passer
	// MaxBody is the engine's bound on one job's body, in bytes. Default
	// duly.DefaultMaxBody.
	MaxBody int
	// Clock must be set.
	Clock clock.Clock
	// Leased, if set, is called with the length of leases that are handed out, for
	// whoever has to look when the first of them ends.
	Leased func(time.Duration)
}

// Poll takes jobs from an engine. It is safe for concurrent use.
type Poll struct{ cfg Config }

// New returns a Poll.
func New(cfg Config) *Poll {
	if cfg.Passer == nil {
		cfg.Passer = duly.PasserOf(cfg.Engine)
	}
	if cfg.MaxBody == 0 {
		cfg.MaxBody = duly.DefaultMaxBody
	}
	if cfg.Leased == nil {
		cfg.Leased = func(time.Duration) {}
	}
	return &Poll{cfg}
}

// MaxBody returns the engine's bound on one job's body, in bytes.
func (p *Poll) MaxBody() int { return p.cfg.MaxBody }

// Leased reports leases of that length that were handed out or extended.
func (p *Poll) Leased(d time.Duration) { p.cfg.Leased(d) }

// Bodies is the most that n jobs' bodies have together in one answer of the
// engine, in bytes.
func (p *Poll) Bodies(n int) int64 {
	n = min(max(n, 1), duly.MaxBatch)
	return min(int64(n)*int64(p.cfg.MaxBody), max(int64(p.cfg.MaxBody), duly.MaxBatchBytes))
}

// Ask is what a caller wants.
type Ask struct {
	duly.ReserveParams
	// Wait is for how long to wait while there is nothing.
	Wait time.Duration
	// WaitMax is Max once it has waited; 0: the same.
	WaitMax int
}

// Take reserves, and waits while there is nothing. What it brings must go to
// Hand. It brings nothing when the time has passed, never before, or when the
// server wants to stop.
func (p *Poll) Take(c *route.Call, ask Ask) ([]duly.Delivery, error) {
	var begin time.Duration
	if ask.Wait > 0 {
		begin = p.cfg.Clock.Mono()
	}
	wait := duly.WaitParams{Namespace: ask.Namespace, Queues: ask.Queues}
	for left, woken := ask.Wait, false; ; {
		deliveries, err := p.reserve(c, ask.ReserveParams, woken)
		if err != nil || len(deliveries) > 0 || left <= 0 {
			return deliveries, err
		}
		c.Release()
		if ask.WaitMax > 0 {
			ask.Max = ask.WaitMax
		}

		var over bool
		wait.Timeout = min(left, duly.MaxWait)
		woken, over, err = p.wait(c, wait)
		left = ask.Wait - (p.cfg.Clock.Mono() - begin)
		if err != nil || over || !woken && left <= 0 {
			return nil, err
		}
	}
}

// reserve takes what there is now. woken: Wait has told of it.
func (p *Poll) reserve(c *route.Call, r duly.ReserveParams, woken bool) ([]duly.Delivery, error) {
	if err := c.Hold(p.Bodies(r.Max)); err != nil {
		if woken {
			p.Pass(c, duly.WaitParams{Namespace: r.Namespace, Queues: r.Queues})
		}
		return nil, err
	}
	return p.cfg.Engine.Reserve(c.Context(), r)
}

// Wait is the engine's Wait, ended by the server's drain and by the end of the
// caller's token as well.
func (p *Poll) Wait(c *route.Call, w duly.WaitParams) (ready bool, err error) {
	ready, _, err = p.wait(c, w)
	return ready, err
}

// wait tells besides whether waiting is over for the caller, whatever time is
// left.
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

// Until calls wait with a context that ends with the caller, with its token, and
// when the server drains. If it has ended, over is true and err is the answer: nil
// for a server that drains and for a token that has changed.
func Until(c *route.Call, wait func(ctx context.Context) error) (over bool, err error) {
	ctx, release, err := c.Stay(c.Draining())
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

// Pass reports to the engine that a caller that Wait woke does not reserve.
func (p *Poll) Pass(c *route.Call, w duly.WaitParams) {
	p.cfg.Passer.Pass(c.Context(), w.Namespace, w.Queues)
}

// refusal is the answer to a caller whose token ended in the wait: nothing
// for one that has changed, whose owner may come again and is judged anew.
func refusal(cause error) error {
	if auth.Changed(cause) {
		return nil
	}
	return cause
}

// Hand gives deliveries to the caller, or back to the engine. The answer is
// text that write appends, of about so many bytes.
func (p *Poll) Hand(c *route.Call, deliveries []duly.Delivery, size int, write func(out []byte) []byte) error {
	shortest := deliveries[0].LeaseEnd.Sub(deliveries[0].Now)
	receipts := make([]duly.Receipt, len(deliveries))
	bodies := 0
	for i := range deliveries {
		shortest = min(shortest, deliveries[i].LeaseEnd.Sub(deliveries[i].Now))
		receipts[i] = deliveries[i].Receipt
		bodies += len(deliveries[i].Body)
	}
	p.cfg.Leased(shortest)
	handed := false
	defer func() { // also when writing panics
		if !handed {
			p.giveBack(c, receipts)
		}
	}()
	if err := c.Hold(int64(bodies + size)); err != nil {
		return err
	}
	// From here on the deliveries are the answer's text alone.
	if err := c.ReplyNow(http.StatusOK, write(c.Room(size))); err != nil {
		return err
	}
	handed = true
	return nil
}

// releaseTime bounds the release of what could not be handed over; after it
// the leases run out by themselves.
const releaseTime = 10 * time.Second

func (p *Poll) giveBack(c *route.Call, receipts []duly.Receipt) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Context()), releaseTime)
	defer cancel()
	releases := make([]duly.Outcome, len(receipts))
	for i, receipt := range receipts {
		releases[i] = duly.Outcome{Receipt: receipt, As: duly.Release}
	}
	if _, err := p.cfg.Engine.Settle(ctx, c.Namespace, releases); err != nil {
		c.Log().Warn("deliveries of a caller that has hung up were not released, they come back when their leases end",
			"count", len(releases), "code", string(duly.CodeOf(err)))
	}
}
