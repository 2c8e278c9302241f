package inspect

import (
	"context"
	"math"
	"time"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// Stats implements contract.Inspector.
func (e *Inspector) Stats(ctx context.Context, ref duly.QueueRef) (st duly.Stats, err error) {
	if err := e.Admit(ctx, ref); err != nil {
		return st, err
	}
	st, _, err = e.stats(ctx, ref)
	return st, err
}

// stats returns the stats of a queue, and its limits at that time.
func (e *Inspector) stats(ctx context.Context, ref duly.QueueRef) (st duly.Stats, throttle contract.Throttle,
	err error) {
	var w catalog.Walk
	err = e.With(ctx, ref.Normal(), func(q *catalog.Queue) error {
		// For another queue the sum starts over. A retry for the same queue keeps the shards that
		// answered.
		if q == nil || w.Begin(q) {
			st, throttle = duly.Stats{Tokens: duly.None}, contract.ThrottleOf(e.QueueConfig())
		}
		if q == nil {
			return nil
		}

		throttle, st.Delivery = contract.ThrottleOf(q.Config), q.Config.Delivery
		return w.Each(q, 0, func(s *catalog.Shard) error {
			// A shard that fails half-way must not count twice in the retry.
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

// shardStats adds the stats of one shard. If very many priorities are in use, several calls look
// for the oldest ready job. Each continues at a higher rank.
func (e *Inspector) shardStats(ctx context.Context, q *catalog.Queue, s *catalog.Shard, st *duly.Stats) error {
	r, err := e.CallWhenStepped(ctx, q, s, store.ScriptStats, s.Limits, "")
	if err != nil {
		return err
	}
	addStats(st, r.Rest)
	for before := int64(math.MinInt64); codec.Text(&r.Rest[5]) != ""; {
		from := codec.Integer(&r.Rest[5])
		// Without progress the loop would never end.
		if from <= before {
			return e.UnexpectedReply("stats")
		}
		before = from
		if r, err = e.CallWhenStepped(ctx, q, s, store.ScriptStats, s.Limits, codec.Text(&r.Rest[5])); err != nil {
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
	if tick := clock.FromMilli(codec.Integer(&r[7])); !tick.IsZero() && (st.NextTick.IsZero() || tick.Before(st.NextTick)) {
		st.NextTick = tick
	}
	st.Schedules += codec.Integer(&r[6])
	closing := contract.Closing{Until: codec.Integer(&r[8]), Reason: codec.Text(&r[9])}
	st.Closing = contract.LaterClosing(st.Closing, closing.Info())
	codec.AddLimiter(st, &r[10], &r[11])
	codec.AddTokens(st, &r[12], &r[13])
	fields := codec.Elements(&r[4])
	for i := 0; i+1 < len(fields); i += 2 {
		if field, ok := counters[codec.Text(&fields[i])]; ok {
			*field(&st.Counters) += codec.Integer(&fields[i+1])
		}
	}
}

// addCounters adds the counters of one shard. values may be empty.
func addCounters(to *duly.Counters, names, values []rueidis.RedisMessage) {
	for i := range values {
		if field, ok := counters[codec.Text(&names[i])]; ok && !values[i].IsNil() {
			*field(to) += codec.Integer(&values[i])
		}
	}
}

// counters maps the counters' names in the scripts to their fields.
var counters = map[string]func(*duly.Counters) *int64{
	"pushed":    func(c *duly.Counters) *int64 { return &c.Pushed },
	"merged":    func(c *duly.Counters) *int64 { return &c.Merged },
	"delivered": func(c *duly.Counters) *int64 { return &c.Delivered },
	"acked":     func(c *duly.Counters) *int64 { return &c.Acked },
	"failed":    func(c *duly.Counters) *int64 { return &c.Failed },
	"stalled":   func(c *duly.Counters) *int64 { return &c.Stalled },
	"released":  func(c *duly.Counters) *int64 { return &c.Released },
	"slowed":    func(c *duly.Counters) *int64 { return &c.Slowed },
	"died":      func(c *duly.Counters) *int64 { return &c.Dead },
	"requeued":  func(c *duly.Counters) *int64 { return &c.Requeued },
	"expired":   func(c *duly.Counters) *int64 { return &c.Expired },
	"deleted":   func(c *duly.Counters) *int64 { return &c.Deleted },
	"dropped":   func(c *duly.Counters) *int64 { return &c.Dropped },
}
