package pools_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/adaptive"
	"github.com/dulymq/duly/internal/model"
)

// adaptive configures the queue with an adaptive limit, and pushes a job that survives any number of
// failures.
func (r *rig) adaptive() {
	r.t.Helper()
	r.must(r.Configure(r.t.Context(), shop, duly.QueueConfig{MaxLeased: 8, Adapt: duly.Adapt{Floor: 0.25}}))
	r.must(r.pushJob(duly.Job{ID: "old", Tries: duly.MaxTries, Backoff: "fixed:0s", Lease: time.Hour}).Err)
}

// fails lets the first job fail n times.
func (r *rig) fails(n int) {
	r.t.Helper()
	for range n {
		_, receipts := r.reserve(1, "q")
		errs, err := r.Settle(r.t.Context(), "shop", []duly.SettleRequest{{Receipt: receipts[0], As: duly.Nack}})
		r.must(errors.Join(append(errs, err)...))
	}
}

// limiter compares the state of the limiter in the statistics of an engine.
func (r *rig) limiter(why string, e contract.Inspector, factor float64, probing int, closed bool) {
	r.t.Helper()
	s, err := e.Stats(r.t.Context(), shop)
	if err != nil || s.Factor != factor || s.Probing != probing || s.Closing.Until.IsZero() == closed {
		r.t.Errorf("%s: factor %v, %d in probing, closing %+v, %v; want %v, %d, closed %t", why, s.Factor, s.Probing,
			s.Closing, err, factor, probing, closed)
	}
}

// C18.28, C18.54: a move copies the setting adapt. The state of the limiter stays with the jobs of
// its pool, so the new pool begins with its whole limits. Until the end of the move, the statistics
// have the lowest factor of the two.
func TestMoveBeginsWithANewLimiter(t *testing.T) {
	t.Parallel()
	r := newRig(t, "orders")
	r.adaptive()
	r.fails(20)
	r.limiter("20 failures", r, 0.25, 1, true)

	r.move("shop", "orders")
	r.limiter("the new pool", r.engines["orders"], 1, 0, false)
	r.limiter("both pools", r, 0.25, 1, false) // the closing of 1 s is over
	if c, err := r.engines["orders"].Config(t.Context(), shop); err != nil || c.Adapt.Floor != 0.25 {
		t.Errorf("the configuration in the new pool is %+v, %v", c, err)
	}

	// The old pool delivers its probe, and the new pool delivers as its own limits allow.
	for _, id := range []string{"a", "b", "c"} {
		r.push("shop", "q", id)
	}
	probe, receipts := r.reserve(10, "q")
	if len(probe) != 1 || probe[0] != "old" {
		t.Fatalf("the old pool delivers %q, want its probe", probe)
	}
	ids, more := r.reserve(10, "q")
	if len(ids) != 3 {
		t.Fatalf("the new pool delivers %q, want three new jobs", ids)
	}
	receipts = append(receipts, more...)

	// Failures in one pool change nothing in the other one.
	slow := time.Duration(0)
	errs, err := r.Settle(t.Context(), "shop", []duly.SettleRequest{
		{Receipt: receipts[0], As: duly.Release}, {Receipt: receipts[1], As: duly.Release, Slow: &slow},
	})
	r.must(errors.Join(append(errs, err)...))
	r.limiter("the new pool after an overload", r.engines["orders"], 0.5, 0, false)
	r.limiter("the old pool after the release of its probe", r.engines[contract.DefaultPool], 0.25, 1, true)
	if c, err := r.Config(t.Context(), shop); err != nil || c.Closing.Reason != adaptive.Reason {
		t.Errorf("the closing of both pools is %+v, %v", c.Closing, err)
	}

	// A change applies in both pools.
	r.must(r.Configure(t.Context(), shop, duly.QueueConfig{Reopen: true}))
	r.limiter("reopened", r, 0.25, 0, false)
	r.must(r.Configure(t.Context(), shop, duly.QueueConfig{Adapt: duly.Adapt{Floor: 0.75}}))
	r.limiter("a higher floor", r, 0.75, 0, false)

	for ids, receipts := r.reserve(10, "q"); len(ids) > 0; ids, receipts = r.reserve(10, "q") {
		r.ack(receipts...)
	}
	r.ack(receipts[2:]...)
	r.endMove("shop")
	r.limiter("after the move", r, 0.75, 0, false)
}

// C4.117, C4.118: each pool enforces the rate with a bucket of its own, so their tokens add up until the
// end of the move.
func TestMoveAddsUpTheTokensOfBothPools(t *testing.T) {
	t.Parallel()
	r := newRig(t, "orders")
	stats := func(e contract.Inspector) duly.Stats {
		t.Helper()
		s, err := e.Stats(t.Context(), shop)
		r.must(err)
		return s
	}
	tokens := func(when string, want int64) {
		t.Helper()
		if s := stats(r); s.Tokens != want || s.NextToken.IsZero() != (want != 0) {
			t.Errorf("%s: %d tokens, the next at %s, want %d", when, s.Tokens, s.NextToken, want)
		}
	}
	tokens("an unknown queue", duly.None)
	r.must(r.Configure(t.Context(), shop, duly.QueueConfig{Rate: duly.Rate{PerSecond: 0.001, Burst: 2}}))
	for _, id := range []string{"a", "b"} {
		r.must(r.pushJob(duly.Job{ID: id, Lease: time.Hour}).Err)
	}
	r.reserve(1, "q")
	tokens("before the move", 1)

	r.move("shop", "orders")
	tokens("in the move", 3)
	r.reserve(10, "q")
	r.push("shop", "q", "c")
	r.push("shop", "q", "d")
	r.reserve(10, "q")
	tokens("both buckets are empty", 0)
	was, is, both := stats(r.engines[contract.DefaultPool]), stats(r.engines["orders"]), stats(r)
	if !was.NextToken.Before(is.NextToken) || !both.NextToken.Equal(was.NextToken) {
		t.Errorf("the next token is at %s, want the earlier of %s and %s", both.NextToken, was.NextToken, is.NextToken)
	}
}

// fixedLimits is an engine without adaptive limits.
type fixedLimits struct{ *model.Engine }

func (f fixedLimits) Configure(ctx context.Context, q duly.QueueRef, patch duly.QueueConfig) error {
	if err := contract.RefuseAdapt(patch); err != nil {
		return err
	}
	return f.Engine.Configure(ctx, q, patch)
}

// C18.62: a namespace with an adaptive limit does not move to an engine without them. Nothing changes, and
// the namespace moves once the setting is gone.
func TestMoveToAnEngineWithoutAdaptiveLimitsIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, "orders")
	r.Pools = r.newServer(func(name string, e *model.Engine) contract.Engine {
		if name == "orders" {
			return fixedLimits{e}
		}
		return e
	})
	r.adaptive()
	if _, err := r.Move(t.Context(), "shop", "orders"); !errors.Is(err, duly.ErrUnsupported) || !contains(err, "shop") {
		t.Fatalf("the move is answered %v", err)
	}
	if where, err := r.Where(t.Context(), "shop"); err != nil || where.Pool != contract.DefaultPool || where.From != "" {
		t.Errorf("the placement is %+v, %v", where, err)
	}
	if left := r.queuesIn("orders"); len(left) != 0 {
		t.Errorf("the refused move left %v", left)
	}

	r.must(r.Configure(t.Context(), shop, duly.QueueConfig{Adapt: duly.Adapt{Floor: duly.None}}))
	r.move("shop", "orders")
}
