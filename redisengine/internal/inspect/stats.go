package inspect

import (
	"context"
	"math"
	"time"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// Stats implements duly.Inspector.
func (e *Inspector) Stats(ctx context.Context, ref duly.QueueRef) (st duly.Stats, err error) {
	if err := e.Admit(ctx, ref); err != nil {
		return st, err
	}
	st, _, err = e.stats(ctx, ref)
	return st, err
}

// stats returns the stats of a queue, and what throttled it when they were read.
func (e *Inspector) stats(ctx context.Context, ref duly.QueueRef) (st duly.Stats, throttle duly.Throttle, err error) {
	var w catalog.Walk
	err = e.With(ctx, ref.Normal(), func(q *catalog.Queue) error {
		if q == nil || w.Begin(q) {
			st, throttle = duly.Stats{}, e.QueueConfig().Throttle()
		}
		if q == nil {
			return nil
		}

		throttle = q.Config.Throttle()
		return w.Each(q, 0, func(s *catalog.Shard) error {
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

// shardStats adds the stats of one shard. If very many priorities are in use,
// several calls look for the oldest ready job, each from a higher rank on than the
// one before.
func (e *Inspector) shardStats(ctx context.Context, q *catalog.Queue, s *catalog.Shard, st *duly.Stats) error {
	r, err := e.CallWhenStepped(ctx, q, s, store.ScriptStats, "")
	if err != nil {
		return err
	}
	addStats(st, r.Rest)
	for before := int64(math.MinInt64); codec.Text(&r.Rest[5]) != ""; {
		from := codec.Integer(&r.Rest[5])
		if from <= before {
			return e.UnexpectedReply("stats")
		}
		before = from
		if r, err = e.CallWhenStepped(ctx, q, s, store.ScriptStats, codec.Text(&r.Rest[5])); err != nil {
			return err
		}
		addOldest(st, r.Rest)
	}
	return nil
}

func addOldest(st *duly.Stats, r []rueidis.RedisMessage) {
	if waits := time.Duration(codec.Integer(&r[0])-codec.Integer(&r[2])) * time.Millisecond; waits > st.OldestReady {
		st.OldestReady = waits
	}
}

func addStats(st *duly.Stats, r []rueidis.RedisMessage) {
	sizes := codec.Elements(&r[1])
	for i, state := range duly.States {
		*st.Sizes.Of(state) += codec.Integer(&sizes[i])
	}
	addOldest(st, r)
	if next := clock.FromMilli(codec.Integer(&r[3])); !next.IsZero() && (st.NextDue.IsZero() || next.Before(st.NextDue)) {
		st.NextDue = next
	}
	fields := codec.Elements(&r[4])
	for i := 0; i+1 < len(fields); i += 2 {
		if c := counter(&st.Counters, codec.Text(&fields[i])); c != nil {
			*c += codec.Integer(&fields[i+1])
		}
	}
}

// addCounters adds the counters of one shard. There may be no values.
func addCounters(to *duly.Counters, names, values []rueidis.RedisMessage) {
	for i := range values {
		if c := counter(to, codec.Text(&names[i])); c != nil && !values[i].IsNil() {
			*c += codec.Integer(&values[i])
		}
	}
}

// counter returns the field for a counter of the scripts, or nil for an unknown
// name.
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
