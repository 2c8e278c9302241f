package adaptive

import (
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/dulymq/duly"
)

// logPause is the shortest time between two lines about the closing, or the probing, of a queue.
const logPause = time.Second

// Change is what a call has changed of the closing and of the limiter of a queue.
type Change struct {
	Queue duly.QueueRef
	// Closed is for how long the queue is closed, and Reason says why. 0 means that the call has not
	// closed the queue.
	Closed time.Duration
	Reason string
	// Began and Ended report whether probing has begun or ended.
	Began, Ended bool
	Factor       float64
}

// Log writes a line for each change, at most one per second for the closing of a queue and one for
// its probing. The zero Log is ready for use. Several goroutines may use it.
type Log struct {
	mu   sync.Mutex
	last map[line]time.Duration // when the last line of each kind was written
}

// line is a kind of line about a queue.
type line struct {
	queue   duly.QueueRef
	probing bool
}

// Write writes the line of a change, unless a line of its kind was written within the last second.
// now is a reading of duly.Clock.Mono.
func (l *Log) Write(to *slog.Logger, c Change, now time.Duration) {
	switch {
	case c.Began && l.due(line{c.Queue, true}, now):
		to.Warn("a queue is probing: many deliveries in a row failed, so it delivers one job at a time",
			"queue", c.Queue.String(), "factor", c.Factor)
	case c.Ended && l.due(line{c.Queue, true}, now):
		to.Info("a queue is no longer probing", "queue", c.Queue.String(), "factor", c.Factor)
	// Many workers close a queue concurrently, and each of them extends the closing a little.
	case c.Closed > 0 && l.due(line{c.Queue, false}, now):
		to.Warn("a queue is closed", "queue", c.Queue.String(), "for", c.Closed, "reason", c.Reason)
	}
}

// due reports whether a line of a kind may be written now, and notes it.
func (l *Log) due(kind line, now time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()

	// Most queues close seldom, so only few lines are remembered.
	maps.DeleteFunc(l.last, func(_ line, at time.Duration) bool { return now-at >= logPause })
	if _, recent := l.last[kind]; recent {
		return false
	}
	if l.last == nil {
		l.last = map[line]time.Duration{}
	}
	l.last[kind] = now
	return true
}
