package sqliteengine

import (
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
)

// limitPause is the shortest time between two lines about the closing, or the probing, of a queue.
const limitPause = time.Second

// limitChange is a change of the closing or of the probing of a queue.
type limitChange struct {
	ref            duly.QueueRef
	closing        contract.Closing // zero unless the queue was closed
	began, stopped bool             // whether probing has begun or ended
	factor         float64
}

// limitTimes are the times of the last lines about a queue, in ms.
type limitTimes struct{ closing, probing int64 }

// noteLimitChange compares a draft with its queue. The change is logged after the commit.
func (t *tx) noteLimitChange(q *queue) {
	was, is := q.base.limiter != nil && q.base.limiter.Probing, q.limiter != nil && q.limiter.Probing
	c := limitChange{ref: q.ref, began: is && !was, stopped: was && !is}
	if q.closing.Until > q.base.closing.Until {
		c.closing = q.closing
	}
	if q.limiter != nil {
		c.factor = q.limiter.Factor
	}
	if !q.destroyed && (c.began || c.stopped || c.closing.Until != 0) {
		t.limits = append(t.limits, c)
	}
}

// logLimits logs the closings and the changes of probing of a transaction.
func (w *writer) logLimits(t *tx) {
	for _, c := range t.limits {
		if w.limitsLogged == nil {
			w.limitsLogged = map[duly.QueueRef]limitTimes{}
		}
		last := w.limitsLogged[c.ref]

		// Many workers close a queue concurrently, and each of them extends the closing a little. A clock
		// that was set back must not suppress a line.
		due := func(at *int64) bool {
			if *at != 0 && t.now >= *at && t.now-*at < clock.Millis(limitPause) {
				return false
			}
			*at = t.now
			return true
		}
		switch {
		case c.began && due(&last.probing):
			w.log.Warn("a queue is probing: many deliveries in a row failed, so it delivers one job at a time",
				"queue", c.ref.String(), "factor", c.factor)
		case c.stopped && due(&last.probing):
			w.log.Info("a queue is no longer probing", "queue", c.ref.String(), "factor", c.factor)
		case c.closing.Until != 0 && due(&last.closing):
			w.log.Warn("a queue is closed", "queue", c.ref.String(),
				"for", clock.FromMilli(c.closing.Until).Sub(t.time), "reason", c.closing.Reason)
		}
		w.limitsLogged[c.ref] = last
	}
}
