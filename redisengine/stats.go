package redisengine

import (
	"context"
	"math"
	"time"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

// Stats implements duly.Inspector.
func (e *Engine) Stats(ctx context.Context, ref duly.QueueRef) (st duly.Stats, err error) {
	if err := e.admit(ctx, ref); err != nil {
		return st, err
	}
	st, _, err = e.stats(ctx, ref)
	return st, err
}

// stats returns the stats of a queue, and what throttled it when they were read.
func (e *Engine) stats(ctx context.Context, ref duly.QueueRef) (st duly.Stats, throttle duly.Throttle, err error) {
	var w walk
	err = e.with(ctx, ref.Normal(), func(q *queue) error {
		if q == nil || w.begins(q) {
			st, throttle = duly.Stats{}, e.queueConfig().Throttle()
		}
		if q == nil {
			return nil
		}

		throttle = q.cfg.Throttle()
		return w.each(q, 0, func(s *shard) error {
			with := st
			err := e.shardStats(ctx, q, s, &with)
			if err == nil {
				st = with
			}
			return err
		})
	})
	return st, throttle, err
}

// shardStats adds one shard's to a queue's. Where very many priorities are in
// use, several calls look for the oldest ready job, each from a higher rank on
// than the one before.
func (e *Engine) shardStats(ctx context.Context, q *queue, s *shard, st *duly.Stats) error {
	r, err := e.caughtUp(ctx, q, s, scriptStats, "")
	if err != nil {
		return err
	}
	addStats(st, r.rest)
	for before := int64(math.MinInt64); text(&r.rest[5]) != ""; {
		from := integer(&r.rest[5])
		if from <= before {
			return e.strange("stats")
		}
		before = from
		if r, err = e.caughtUp(ctx, q, s, scriptStats, text(&r.rest[5])); err != nil {
			return err
		}
		addOldest(st, r.rest)
	}
	return nil
}

func addOldest(st *duly.Stats, r []rueidis.RedisMessage) {
	if waits := time.Duration(integer(&r[0])-integer(&r[2])) * time.Millisecond; waits > st.OldestReady {
		st.OldestReady = waits
	}
}

func addStats(st *duly.Stats, r []rueidis.RedisMessage) {
	sizes := elements(&r[1])
	for i, state := range duly.States {
		*st.Sizes.Of(state) += integer(&sizes[i])
	}
	addOldest(st, r)
	if next := clock.FromMilli(integer(&r[3])); !next.IsZero() && (st.NextDue.IsZero() || next.Before(st.NextDue)) {
		st.NextDue = next
	}
	fields := elements(&r[4])
	for i := 0; i+1 < len(fields); i += 2 {
		if c := counter(&st.Counters, text(&fields[i])); c != nil {
			*c += integer(&fields[i+1])
		}
	}
}

// addCounters adds what one shard has counted; there may be no values.
func addCounters(to *duly.Counters, names, values []rueidis.RedisMessage) {
	for i := range values {
		if c := counter(to, text(&names[i])); c != nil && !values[i].IsNil() {
			*c += integer(&values[i])
		}
	}
}

// counter is the field of the counters that the scripts call so; nil for what
// is no counter.
func counter(c *duly.Counters, name string) *int64 {
	switch name {
	case "pushed":
		return &c.Pushed
	case "merged":
		return &c.Merged
	case "delivered":
		return &c.Delivered
	case "acked":
		return &c.Acked
	case "failed":
		return &c.Failed
	case "stalled":
		return &c.Stalled
	case "released":
		return &c.Released
	case "died":
		return &c.Dead
	case "requeued":
		return &c.Requeued
	case "expired":
		return &c.Expired
	case "deleted":
		return &c.Deleted
	case "dropped":
		return &c.Dropped
	}
	return nil
}
