package catalog

import (
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/adaptive"
	"github.com/dulymq/duly/redisengine/internal/codec"
)

// noteLimits logs the closings and the changes of probing that limiter.report in include/limiter.lua
// has put around an answer. It returns the answer alone, and whether an outcome has made the limiter
// close the shard.
func (e *Catalog) noteLimits(q *Queue, items []rueidis.RedisMessage) (answer []rueidis.RedisMessage, closed bool) {
	if len(items) != 3 || codec.Text(&items[0]) != "limits" {
		return items, false
	}

	for _, m := range codec.Elements(&items[1]) {
		r := codec.Elements(&m)
		probing := codec.Integer(&r[4])
		c := adaptive.Change{
			Queue:  q.Ref,
			Closed: time.Duration(codec.Integer(&r[1])) * time.Millisecond, Reason: codec.Text(&r[2]),
			Began: probing > 0, Ended: probing < 0,
		}
		// The name of a group comes with a call on its topic.
		if group := codec.Text(&r[0]); group != "" {
			c.Queue.Name = duly.GroupName(q.Ref.Name, group)
		}
		c.Factor, _ = strconv.ParseFloat(codec.Text(&r[5]), 64)
		closed = closed || codec.Integer(&r[3]) == 1
		e.LimitLog.Write(e.Settings.Logger, c, e.Local().Mono())
	}

	return codec.Elements(&items[2]), closed
}
