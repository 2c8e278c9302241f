// Package attention finds what needs an operator: conditions of queues and of the server, worst first.
//
// The table of conditions has every threshold. An alert in docs/metrics.md for the same condition has the same value.
package attention

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/dashboard/history"
	"github.com/dulymq/duly/server/dashboard/view"
)

// Queue is what is known of a queue at a look.
type Queue struct {
	Name     string
	Stats    *duly.Stats
	Throttle contract.Throttle
	Recent   history.Recent
	// Stalls are the leases that ran out in the last [StallWindow].
	Stalls float64
}

// Server is what is known of the server at a look.
type Server struct {
	// Slow is the 99th percentile of the calls to the engine in the last [CallWindow], 0 without a call.
	Slow time.Duration
	// Refused is when the engine last refused a job as full or not_durable, Reset when it was last reset. They are zero
	// for never.
	Refused, Reset time.Time
	// Incomplete is set if the look has not read every queue.
	Incomplete bool
}

// The windows of conditions that count.
const (
	StallWindow = 10 * time.Minute
	CallWindow  = 5 * time.Minute
)

// Finding is one condition that holds.
type Finding struct {
	Code string
	// Queue is "" for a condition of the server.
	Queue string
	// Fact says what has been found, Next what to do.
	Fact, Next string
	Since      time.Time
}

// condition is one row of the table. Its rule returns "" if it does not hold. One of the server gets no queue.
type condition struct {
	code, next string
	// limit is the threshold of a time, most that of a number.
	limit  time.Duration
	most   float64
	server bool
	rule   func(c *condition, q *Queue, s *Server, now time.Time) string
}

// conditions is the table, worst first.
var conditions = []condition{
	{
		code: "store_reset", limit: 24 * time.Hour, next: "Find out why the store lost its data, and restore a backup.",
		server: true, rule: func(c *condition, _ *Queue, s *Server, now time.Time) string {
			return recently(s.Reset, now, c.limit, "The engine found its store reset")
		},
	},
	{
		code: "not_stored", limit: 5 * time.Minute, next: "Make room for jobs: look at the disk, the memory and max_jobs.",
		server: true, rule: func(c *condition, _ *Queue, s *Server, now time.Time) string {
			return recently(s.Refused, now, c.limit, "The engine refused a job as full or not durable")
		},
	},
	{
		code: "engine_slow", limit: 250 * time.Millisecond, next: "Look at the engine's processor, disk and network.",
		server: true, rule: func(c *condition, _ *Queue, s *Server, _ time.Time) string {
			return when(s.Slow > c.limit, "One in a hundred calls of the engine takes %s.", view.Duration(s.Slow))
		},
	},
	{
		code: "queues_not_seen", next: "Look at the log. The numbers of this page leave queues out.",
		server: true, rule: func(_ *condition, _ *Queue, s *Server, _ time.Time) string {
			return when(s.Incomplete, "The last look has not read every queue.")
		},
	},
	{
		code: "no_consumer", limit: time.Minute, next: "Start a worker of this queue.",
		rule: func(c *condition, q *Queue, _ *Server, now time.Time) string {
			t, waits := &q.Throttle, now.Sub(q.Recent.Waiting)
			limited := t.Paused || t.MaxLeased > 0 || t.Rate.Limited() || !q.Stats.Closing.Until.IsZero()
			return when(!limited && !q.Recent.Waiting.IsZero() && waits >= c.limit, "Ready jobs: %d. None was delivered for %s.",
				q.Stats.Sizes.Ready, view.Duration(waits))
		},
	},
	{
		code: "late", limit: time.Minute,
		next: "Add workers, raise the limits of the queue, or find out why the workers are slow.",
		rule: func(c *condition, q *Queue, _ *Server, _ time.Time) string {
			return when(!q.Throttle.Paused && q.Stats.OldestReady > c.limit, "The oldest ready job has waited for %s.",
				view.Duration(q.Stats.OldestReady))
		},
	},
	{
		code: "dead_dropped", limit: time.Hour, next: "Requeue dead jobs, or raise dead_count and dead_age.",
		rule: func(c *condition, q *Queue, _ *Server, now time.Time) string {
			return recently(q.Recent.Dropped, now, c.limit, "A bound dropped dead jobs")
		},
	},
	{
		code: "dead_growing", limit: 15 * time.Minute, next: "Read the errors of its dead jobs.",
		rule: func(c *condition, q *Queue, _ *Server, now time.Time) string {
			return recently(q.Recent.Died, now, c.limit, "A job became dead")
		},
	},
	{
		code: "stalls", most: 0.1, next: "Find out why workers die or hang, or raise the lease.",
		rule: func(c *condition, q *Queue, _ *Server, _ time.Time) string {
			each := q.Stalls / StallWindow.Seconds()
			return when(each > c.most, "%.2g leases per second ran out in the last %s.", each, view.Duration(StallWindow))
		},
	},
	{
		code: "limit_saturated", limit: 5 * time.Minute, next: "Raise max_leased, or accept the wait.",
		rule: func(c *condition, q *Queue, _ *Server, now time.Time) string {
			full := now.Sub(q.Recent.Full)
			return when(!q.Recent.Full.IsZero() && full > c.limit, "All %d leases of max_leased have been in use for %s.",
				q.Throttle.MaxLeased, view.Duration(full))
		},
	},
	{
		code: "paused_long", limit: 24 * time.Hour, next: "Resume the queue, or destroy it.",
		rule: func(c *condition, q *Queue, _ *Server, now time.Time) string {
			paused := now.Sub(q.Recent.Paused)
			return when(!q.Recent.Paused.IsZero() && paused > c.limit, "The queue has been paused for %s.", view.Duration(paused))
		},
	},
}

// when returns a sentence if a condition holds.
func when(holds bool, format string, args ...any) string {
	if !holds {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

// recently returns a sentence about an event that is not too old.
func recently(at, now time.Time, limit time.Duration, what string) string {
	return when(!at.IsZero() && now.Sub(at) < limit, "%s at %s.", what, at.UTC().Format("15:04:05 UTC"))
}

// Tracker records when conditions began, by namespace. It is safe for concurrent use.
type Tracker struct {
	mu   sync.Mutex
	list map[string][]Finding
}

// Observe evaluates a look at a namespace.
func (t *Tracker) Observe(namespace string, queues []Queue, s *Server, now time.Time) {
	found := evaluate(queues, s, now)
	t.mu.Lock()
	defer t.mu.Unlock()
	since := map[[2]string]time.Time{} // by code and queue
	for _, f := range t.list[namespace] {
		since[[2]string{f.Code, f.Queue}] = f.Since
	}
	for i := range found {
		f := &found[i]
		f.Since = now
		if begin, ok := since[[2]string{f.Code, f.Queue}]; ok && begin.Before(now) {
			f.Since = begin
		}
	}
	if t.list == nil {
		t.list = map[string][]Finding{}
	}
	// Only namespaces with findings take memory.
	if len(found) == 0 {
		delete(t.list, namespace)
		return
	}
	t.list[namespace] = found
}

// List returns the findings of the last look at a namespace, worst first.
func (t *Tracker) List(namespace string) []Finding {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.list[namespace])
}

// evaluate returns the conditions that hold.
func evaluate(queues []Queue, s *Server, now time.Time) (found []Finding) {
	for i := range conditions {
		c, first, list := &conditions[i], len(found), queues
		if c.server {
			list = []Queue{{}}
		}
		for i := range list {
			if fact := c.rule(c, &list[i], s, now); fact != "" {
				found = append(found, Finding{Code: c.code, Queue: list[i].Name, Fact: fact, Next: c.next})
			}
		}
		slices.SortFunc(found[first:], func(a, b Finding) int { return cmp.Compare(a.Queue, b.Queue) })
	}
	return found
}
