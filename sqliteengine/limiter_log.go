package sqliteengine

import (
	"github.com/dulymq/duly/internal/adaptive"
	"github.com/dulymq/duly/internal/clock"
)

// noteLimitChange compares a draft with its queue. The change is logged after the commit.
func (t *tx) noteLimitChange(q *queue) {
	was, is := q.base.limiter != nil && q.base.limiter.Probing, q.limiter != nil && q.limiter.Probing
	c := adaptive.Change{Queue: q.ref, Began: is && !was, Ended: was && !is, Factor: 1}
	if q.closing.Until > q.base.closing.Until {
		c.Closed, c.Reason = clock.FromMilli(q.closing.Until).Sub(t.time), q.closing.Reason
	}
	if q.limiter != nil {
		c.Factor = q.limiter.Factor
	}
	if !q.destroyed && (c.Began || c.Ended || c.Closed != 0) {
		t.limits = append(t.limits, c)
	}
}

// logLimits logs the closings and the changes of probing of a transaction.
func (w *writer) logLimits(t *tx) {
	for _, c := range t.limits {
		w.limitLog.Write(w.log, c, w.clock.Mono())
	}
}
