package worker

import (
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/aimd"
)

// DefaultLimit is the number of slots in use at which a Limiter begins.
const DefaultLimit = 4

// Limiter adapts the number of slots in use to the handlers, between 1 and
// Config.Concurrency. It protects the services that the handlers call, such as a
// database: while a service is slow or fails, fewer handlers run, and jobs wait in their
// queues.
//
// As many acks as the limit raise it by 1. A nack halves it. So does a period in which
// the handlers take more than three times as long as usual. It halves at most once a
// second. Released and buried jobs, and jobs with a lost lease, do not change it.
type Limiter struct {
	// Start is the limit at the start. Default [DefaultLimit], or Config.Concurrency if
	// that is less.
	Start int
}

// limit is the limiter of a worker. table.mu guards it.
type limit struct {
	aimd aimd.Limiter
	// changed is called with a new limit, unless it is nil.
	changed func(int)
}

// newLimit returns nil for a worker without a Limiter.
func newLimit(cfg *Config) *limit {
	if cfg.Limiter == nil {
		return nil
	}
	start := cfg.Limiter.Start
	if start == 0 {
		start = min(DefaultLimit, cfg.Concurrency)
	}
	return &limit{aimd: aimd.New(start, cfg.Concurrency), changed: cfg.Observer.Limit}
}

// learn records the outcome and the duration of a handler. full reports whether as many
// handlers ran as the limit allows. It returns the new limit, 0 if it is unchanged.
func (l *limit) learn(as duly.Settlement, now, took time.Duration, full bool) int {
	before := l.aimd.Limit()
	switch as {
	case duly.Ack:
		l.aimd.Good(now, took, full)
	case duly.Nack:
		l.aimd.Bad(now)
	}
	if after := l.aimd.Limit(); after != before {
		return after
	}
	return 0
}
