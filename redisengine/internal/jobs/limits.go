package jobs

import (
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly/internal/adaptive"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/codec"
)

// readLimitChange reads the part of an answer that include/outcome.lua describes.
// byLimiter reports whether the limiter has closed the shard.
func readLimitChange(m *rueidis.RedisMessage) (c adaptive.Change, byLimiter, changed bool) {
	r := codec.Elements(m)
	if len(r) < 5 {
		return c, false, false
	}
	c.Closed, c.Reason = time.Duration(codec.Integer(&r[0]))*time.Millisecond, codec.Text(&r[1])
	probing := codec.Integer(&r[3])
	c.Began, c.Ended = probing > 0, probing < 0
	c.Factor, _ = strconv.ParseFloat(codec.Text(&r[4]), 64)
	return c, codec.Integer(&r[2]) == 1, true
}

// noteLimits logs what a settle has changed. It reports whether the limiter has closed the shard.
func (e *Jobs) noteLimits(q *catalog.Queue, m *rueidis.RedisMessage) (closedByLimiter bool) {
	c, byLimiter, changed := readLimitChange(m)
	if changed {
		c.Queue = q.Ref
		e.LimitLog.Write(e.Settings.Logger, c, e.Local().Mono())
	}
	return byLimiter
}
