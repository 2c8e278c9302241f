package jobs

import (
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/codec"
)

// limitPause is the shortest time between two lines about the closing, or the probing, of a queue.
const limitPause = time.Second

// limitChange is what a settle has changed of the closing and the limiter of a shard.
type limitChange struct {
	closed         time.Duration // for how long the settle has closed the shard
	reason         string
	byLimiter      bool // whether the limiter has closed the shard
	began, stopped bool // whether probing has begun or ended
	factor         float64
}

// readLimitChange reads the part of an answer that include/outcome.lua describes.
func readLimitChange(m *rueidis.RedisMessage) (c limitChange, changed bool) {
	r := codec.Elements(m)
	if len(r) < 5 {
		return c, false
	}
	c.closed = time.Duration(codec.Integer(&r[0])) * time.Millisecond
	c.reason, c.byLimiter = codec.Text(&r[1]), codec.Integer(&r[2]) == 1
	probing := codec.Integer(&r[3])
	c.began, c.stopped = probing > 0, probing < 0
	c.factor, _ = strconv.ParseFloat(codec.Text(&r[4]), 64)
	return c, true
}

// limitLog logs closings and the changes of probing that this process has made.
type limitLog struct {
	mu   sync.Mutex
	last map[limitLine]time.Duration // when the last line of each kind was logged, by the local clock
}

// limitLine is a kind of line about a queue.
type limitLine struct {
	ref     duly.QueueRef
	probing bool
}

// due reports whether a line of a kind may be logged now.
func (l *limitLog) due(line limitLine, now time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	// Most queues close seldom, so only few lines are remembered.
	maps.DeleteFunc(l.last, func(_ limitLine, at time.Duration) bool { return now-at >= limitPause })
	if _, recent := l.last[line]; recent {
		return false
	}
	if l.last == nil {
		l.last = map[limitLine]time.Duration{}
	}
	l.last[line] = now
	return true
}

// noteLimits logs what a settle has changed. It reports whether the limiter has closed the shard.
func (e *Jobs) noteLimits(q *catalog.Queue, m *rueidis.RedisMessage) (closedByLimiter bool) {
	c, changed := readLimitChange(m)
	if !changed {
		return false
	}

	log, now := e.Settings.Logger, e.Local().Mono()
	due := func(probing bool) bool { return e.limits.due(limitLine{q.Ref, probing}, now) }
	switch {
	case c.began && due(true):
		log.Warn("a queue is probing: many deliveries in a row failed, so it delivers one job at a time",
			"queue", q.Ref.String(), "factor", c.factor)
	case c.stopped && due(true):
		log.Info("a queue is no longer probing", "queue", q.Ref.String(), "factor", c.factor)
	// Many workers close a queue at once, and each of them extends the closing a little.
	case c.closed > 0 && due(false):
		log.Warn("a queue is closed", "queue", q.Ref.String(), "for", c.closed, "reason", c.reason)
	}
	return c.byLimiter
}
