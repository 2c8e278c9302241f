package worker

import (
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/aimd"
)

// DefaultLimit is the number of slots in use at which a Limiter begins.
const DefaultLimit = 4

// Limiter bounds the slots in use by how the handlers do, between 1 and
// Config.Concurrency. It protects what the handlers call, such as a database or an
// HTTP service: while that is slow or fails, fewer handlers run, and jobs wait in
// their queues.
//
// As many acks as the limit says raise it by 1. A nack halves it. So does a time in
// which the handlers take more than three times as long as usual. It halves at most once
// a second. Released and buried jobs say nothing about what the handlers call, nor do
// those whose lease was lost.
type Limiter struct {
	// Start is the limit at the start. Default [DefaultLimit], or Config.Concurrency if
	// that is less.
	Start int
}

// limit is the limiter of a worker. table.mu guards it.
type limit struct {
	aimd aimd.Limiter
	// changed is called with a new limit; nil: nobody wants to know.
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

// learn notes how a handler has ended that took so long. full reports whether as many
// ran as the limit says. It returns the new limit, or 0 if that is the old one.
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
