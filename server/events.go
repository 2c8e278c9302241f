package server

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/server/metrics"
	"github.com/dulymq/duly/server/route"
)

// attentive is an engine that tells the log when a store does not answer any
// more, and when it does again: once each, whatever calls fail meanwhile.
type attentive struct {
	duly.Contract
	clock clock.Clock
	log   *slog.Logger
	// pool is the one that a namespace is in, for one that is lost says nothing
	// about the others. Nil: the pools tell by themselves which one has answered.
	pool func(namespace string) string

	down atomic.Int32 // how many are lost
	mu   sync.Mutex
	lost map[string]time.Duration // since when, monotonic
}

func newAttentive(cfg *Config) *attentive {
	a := &attentive{Contract: cfg.Engine, clock: cfg.Clock, log: cfg.Logger, lost: map[string]time.Duration{}}
	if cfg.Pools != nil {
		cfg.Pools.Hear(a.judge)
	} else {
		a.pool = func(string) string { return duly.DefaultPool }
	}
	return a
}

// heed judges the end of a call for a namespace.
func (a *attentive) heed(ctx context.Context, namespace string, err error) {
	if a.pool != nil {
		a.judge(ctx, a.pool(duly.NamespaceOr(namespace)), err)
	}
}

// judge judges the end of a call to a pool.
func (a *attentive) judge(ctx context.Context, pool string, err error) {
	switch {
	case errors.Is(err, duly.ErrUnavailable):
		if ctx.Err() == nil {
			a.lose(pool, err)
		}
	case a.down.Load() > 0 && (err == nil || !passing(err)):
		a.find(pool)
	}
}

func (a *attentive) lose(pool string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, known := a.lost[pool]; known {
		return
	}
	a.lost[pool] = a.clock.Mono()
	a.down.Add(1)
	a.log.Error("the store is lost: calls to it fail", "pool", pool, "code", string(duly.CodeOf(err)), "error", route.Fault(err))
}

func (a *attentive) find(pool string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	since, known := a.lost[pool]
	if !known {
		return
	}
	delete(a.lost, pool)
	a.down.Add(-1)
	a.log.Warn("the store is back", "pool", pool, "after", a.clock.Mono()-since)
}

// passing are errors that say nothing about the store: the caller has gone, or
// the engine is closed.
func passing(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, duly.ErrClosed)
}

// Push implements duly.Engine.
func (a *attentive) Push(ctx context.Context, jobs []duly.Job) ([]duly.PushResult, error) {
	results, err := a.Contract.Push(ctx, jobs)
	if len(jobs) > 0 {
		a.heed(ctx, jobs[0].Namespace, err)
	}
	return results, err
}

// Reserve implements duly.Engine.
func (a *attentive) Reserve(ctx context.Context, p duly.ReserveParams) ([]duly.Delivery, error) {
	deliveries, err := a.Contract.Reserve(ctx, p)
	if ctx.Err() == nil { // else it may not have asked
		a.heed(ctx, p.Namespace, err)
	}
	return deliveries, err
}

// Settle implements duly.Engine.
func (a *attentive) Settle(ctx context.Context, namespace string, outcomes []duly.Outcome) ([]error, error) {
	errs, err := a.Contract.Settle(ctx, namespace, outcomes)
	a.heed(ctx, namespace, err)
	return errs, err
}

// deaths tells the log how many jobs have become dead, or were dropped by a
// bound, in the queues that this server has handed jobs out of.
//
// Nobody tells a server of them one by one: a job also dies when its lease runs
// out. So it looks at the counters of these queues after each sweep, which comes
// when the first of the leases may have ended: at those that have given something
// since, or have leases that may still end so. Where nothing goes on nothing is
// asked.
type deaths struct {
	engine duly.Inspector
	counts *metrics.Metrics
	log    *slog.Logger

	mu    sync.Mutex
	begun bool
	seen  map[duly.QueueRef]counted
	whole bool // what is not in seen was made since
}

// counted is what a look at a queue has seen.
type counted struct {
	delivered, dead, dropped int64
	open                     bool // there are leases
}

// begin learns what has happened before. Until then nothing is told.
func (d *deaths) begin(sight *metrics.Snapshot) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.begun, d.seen = true, map[duly.QueueRef]counted{}
	d.whole = sight.Complete && sight.OtherQueues == 0
	for i := range sight.Queues {
		c := &sight.Queues[i].Stats.Counters
		d.seen[sight.Queues[i].Queue] = counted{dead: c.Dead, dropped: c.Dropped}
	}
}

// look tells what has happened since.
func (d *deaths) look(ctx context.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.begun {
		return
	}
	all := d.counts.Delivered()
	maps.DeleteFunc(d.seen, func(q duly.QueueRef, c counted) bool {
		_, there := all[q]
		return c.delivered > 0 && !there // it was destroyed
	})
	lost := map[string]bool{} // namespaces whose pool does not answer
	for q, delivered := range all {
		before, known := d.seen[q]
		if before.delivered == delivered && !before.open || lost[q.Namespace] {
			continue
		}
		stats, err := d.engine.Stats(ctx, q)
		if ctx.Err() != nil {
			return
		}
		if err != nil { // the next look tells of it
			lost[q.Namespace] = errors.Is(err, duly.ErrUnavailable)
			continue
		}
		c := stats.Counters
		if !known && !d.whole {
			before.dead, before.dropped = c.Dead, c.Dropped
		}
		if n := c.Dead - before.dead; n > 0 {
			d.log.Warn("jobs have become dead", "queue", q.String(), "jobs", n, "dead", stats.Sizes.Dead)
		}
		if n := c.Dropped - before.dropped; n > 0 {
			d.log.Warn("dead jobs were dropped by the bounds of their queue", "queue", q.String(), "jobs", n)
		}
		d.seen[q] = counted{delivered, c.Dead, c.Dropped, stats.Sizes.Leased > 0}
	}
}
