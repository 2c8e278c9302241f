package pools

import (
	"context"
	"strings"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// Hear lets heed know how every call to a pool has ended by which its state can
// be told: by the pool that was asked, for while a namespace moves its name does
// not say which that is. It is for one listener, and said once, before calls.
func (r *Pools) Hear(heed func(ctx context.Context, pool string, err error)) { r.heed.Store(&heed) }

func (r *Pools) heard(ctx context.Context, pool string, err error) {
	if heed := r.heed.Load(); heed != nil {
		(*heed)(ctx, pool, err)
	}
}

// heeded is a pool's engine for the calls of clients.
type heeded struct {
	contract.Engine
	pools *Pools
	name  string
}

// Push implements duly.Engine.
func (h *heeded) Push(ctx context.Context, jobs []duly.Job) ([]duly.PushResult, error) {
	results, err := h.Engine.Push(ctx, jobs)
	if len(jobs) > 0 {
		h.pools.heard(ctx, h.name, err)
	}
	return results, err
}

// Reserve implements duly.Engine.
func (h *heeded) Reserve(ctx context.Context, p duly.ReserveParams) ([]duly.Delivery, error) {
	deliveries, err := h.Engine.Reserve(ctx, p)
	if ctx.Err() == nil { // else it may not have asked
		h.pools.heard(ctx, h.name, err)
	}
	return deliveries, err
}

// Settle implements duly.Engine.
func (h *heeded) Settle(ctx context.Context, namespace string, outcomes []duly.SettleRequest) ([]error, error) {
	errs, err := h.Engine.Settle(ctx, namespace, outcomes)
	h.pools.heard(ctx, h.name, err)
	return errs, err
}

// Survey implements contract.Surveyor.
func (h *heeded) Survey(ctx context.Context, namespace string, p duly.PageParams) (contract.SurveyPage, error) {
	return contract.SurveyorOf(h.Engine).Survey(ctx, namespace, p)
}

// Pass implements contract.Passer.
func (h *heeded) Pass(ctx context.Context, namespace string, queues []string) {
	contract.PasserOf(h.Engine).Pass(ctx, namespace, queues)
}

// said is what the log was told last of each thing that fails again and again.
type said map[string]string

// anew tells whether an error is another one than the last. Numbers in it, as of
// ports and durations, make none.
func (s said) anew(of string, err error) bool {
	if err == nil {
		delete(s, of)
		return false
	}
	text := string(duly.CodeOf(err)) + " " + strings.Map(func(c rune) rune {
		if c >= '0' && c <= '9' {
			return -1
		}
		return c
	}, err.Error())
	if s[of] == text {
		return false
	}
	s[of] = text
	return true
}
