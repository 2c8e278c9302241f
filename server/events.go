package server

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/health"
	"github.com/dulymq/duly/server/metrics"
	"github.com/dulymq/duly/server/observe"
	"github.com/dulymq/duly/server/route"
)

// healthLog logs when a store stops answering, and when it answers again. It logs each once,
// however many calls fail.
type healthLog struct {
	log    *slog.Logger
	health *health.Tracker // tracks the health of the pools
}

// newHealthLog returns a healthLog. Pools report each call themselves, because the loss of
// one pool says nothing about the others.
func newHealthLog(cfg *Config) *healthLog {
	h := &healthLog{log: cfg.Logger, health: health.New(cfg.Clock, 0)}
	if cfg.Pools != nil {
		cfg.Pools.OnResult(h.observePool)
	}
	return h
}

// If there are no jobs, the engine does not call its store.
func (h *healthLog) observer() observe.Observer {
	return observe.Observer{
		Pushed: func(ctx context.Context, jobs []duly.Job, _ []duly.PushResult, err error) {
			// Without a job the engine does not ask its store.
			if len(jobs) > 0 {
				h.observePool(ctx, contract.DefaultPool, err)
			}
		},
		Reserved: func(ctx context.Context, _ []duly.Delivery, err error) {
			// After the end of the context the engine may not have asked the store.
			if ctx.Err() == nil {
				h.observePool(ctx, contract.DefaultPool, err)
			}
		},
		Settled: func(ctx context.Context, _ string, _ []duly.SettleRequest, _ []error, err error) {
			h.observePool(ctx, contract.DefaultPool, err)
		},
	}
}

// observePool evaluates the result of a call to a pool. Every error except unavailable comes
// from a store that answers.
func (h *healthLog) observePool(ctx context.Context, pool string, err error) {
	result := err
	switch {
	case errors.Is(err, duly.ErrUnavailable):
		if ctx.Err() != nil {
			return
		}
	case saysNothing(err):
		return
	default:
		result = nil
	}

	switch e := h.health.Record(pool, result); {
	case e.Down:
		h.log.Error("the store is lost: calls to it fail",
			"pool", pool, "code", string(duly.CodeOf(err)), "error", route.Fault(err))
	case e.Up:
		h.log.Warn("the store is back", "pool", pool, "after", e.After)
	}
}

// saysNothing reports whether an error says nothing about the store, because the caller hung up or
// the engine is closed.
func saysNothing(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, duly.ErrClosed)
}

// deathLog logs how many jobs have died, or were dropped by a bound, in the queues that this server
// has delivered jobs of.
//
// No call reports all dead jobs, because a job may also die when its lease runs out. So deathLog
// reads the counters of these queues after each sweep: of queues with deliveries since the last
// check, and of queues with leases. A sweep comes when the first lease may have run out. Without
// traffic deathLog reads nothing.
type deathLog struct {
	engine contract.Inspector
	counts *metrics.Metrics
	log    *slog.Logger

	mu    sync.Mutex
	begun bool
	seen  map[duly.QueueRef]queueDeaths
	whole bool // whether seen has all queues, so that a queue that is not in it was created since
}

// queueDeaths are the counters of a queue at the last check.
type queueDeaths struct {
	delivered, dead, dropped int64
	leases                   bool
}

// begin stores the counters of a survey. Dead jobs from before are not logged.
func (d *deathLog) begin(survey *metrics.Snapshot) {
	d.mu.Lock()
	defer d.mu.Unlock()

	d.begun, d.seen = true, map[duly.QueueRef]queueDeaths{}
	d.whole = survey.Complete && survey.OtherQueues == 0
	for i := range survey.Queues {
		c := &survey.Queues[i].Stats.Counters
		d.seen[survey.Queues[i].Queue] = queueDeaths{dead: c.Dead, dropped: c.Dropped}
	}
}

// check logs the jobs that have died or were dropped since the last check.
func (d *deathLog) check(ctx context.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.begun {
		return
	}

	all := d.counts.Delivered()
	maps.DeleteFunc(d.seen, func(q duly.QueueRef, c queueDeaths) bool {
		_, exists := all[q]
		return c.delivered > 0 && !exists // the queue was destroyed
	})

	lost := map[string]bool{} // namespaces whose pool does not answer
	for q, delivered := range all {
		before := d.seen[q]
		if before.delivered == delivered && !before.leases || lost[q.Namespace] {
			continue
		}
		stats, err := d.engine.Stats(ctx, q)
		if ctx.Err() != nil {
			return
		}
		if err != nil { // the next check reads these counters again
			lost[q.Namespace] = errors.Is(err, duly.ErrUnavailable)
			continue
		}
		d.report(q, delivered, &stats)
	}
}

// report logs the deaths in a queue and stores its counters.
func (d *deathLog) report(q duly.QueueRef, delivered int64, stats *duly.Stats) {
	c := stats.Counters
	before, known := d.seen[q]
	if !known && !d.whole {
		before.dead, before.dropped = c.Dead, c.Dropped
	}

	if n := c.Dead - before.dead; n > 0 {
		d.log.Warn("jobs have become dead", "queue", q.String(), "jobs", n, "dead", stats.Sizes.Dead)
	}
	if n := c.Dropped - before.dropped; n > 0 {
		d.log.Warn("dead jobs were dropped by the bounds of their queue", "queue", q.String(), "jobs", n)
	}
	d.seen[q] = queueDeaths{delivered, c.Dead, c.Dropped, stats.Sizes.Leased > 0}
}
