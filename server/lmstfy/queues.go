package lmstfy

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/observe"
)

// queueCache makes sure that a queue which a publish creates keeps its dead letters.
//
// It configures a new queue before the first push, so that a crash in between leaves an empty queue
// with the right configuration. A check of a queue costs two calls, so the result is cached for
// some time. If the queue was destroyed and created again in between, the next check notices that
// the queue counts fewer pushes than before. A Destroy in this process makes the next publish
// check, see [API.Observer].
type queueCache struct {
	engine contract.Engine
	clock  duly.Clock

	mu        sync.Mutex
	checked   map[duly.QueueRef]queueCheck
	destroyed int // number of destroyed queues
}

// queueCheck is the result of a check.
type queueCheck struct {
	until     time.Duration // monotonic time at which the result expires
	pushed    int64         // number of pushes since the queue was created
	destroyed int           // value of queueCache.destroyed at the queue's last Destroy
}

const (
	queueCheckTTL = time.Minute
	maxQueues     = 10_000 // a full cache is cleared
)

func newQueueCache(engine contract.Engine, c duly.Clock) *queueCache {
	return &queueCache{engine: engine, clock: c, checked: map[duly.QueueRef]queueCheck{}}
}

// check checks a queue before a push, unless it was checked a short time ago.
func (q *queueCache) check(ctx context.Context, ref duly.QueueRef) error {
	last := q.last(ref)
	if q.clock.Mono() < last.until {
		return nil
	}
	pushed, err := q.create(ctx, ref, last.pushed)
	if err != nil {
		return err
	}

	q.mu.Lock()
	defer q.mu.Unlock()
	// The entry differs if the queue was destroyed since, or if another publish checked it.
	if now, ok := q.checked[ref]; ok && now == last {
		q.checked[ref] = queueCheck{q.clock.Mono() + queueCheckTTL, pushed, last.destroyed}
	}
	return nil
}

// last returns the last check of a queue. It adds an entry, so that the cache notes a Destroy
// from now on.
func (q *queueCache) last(ref duly.QueueRef) queueCheck {
	q.mu.Lock()
	defer q.mu.Unlock()

	last, ok := q.checked[ref]
	if !ok {
		// A cleared entry only costs its queue one more check.
		if len(q.checked) >= maxQueues {
			clear(q.checked)
		}
		q.checked[ref] = last
	}
	return last
}

// create configures the queue if it is new. A queue that does not exist has no pushes and the
// default configuration. Two servers may configure it concurrently.
func (q *queueCache) create(ctx context.Context, ref duly.QueueRef, before int64) (pushed int64, err error) {
	stats, err := q.engine.Stats(ctx, ref)
	if err != nil {
		return 0, err
	}
	config, err := q.engine.Config(ctx, ref)
	if err != nil {
		return 0, err
	}

	pushed = stats.Counters.Pushed
	// A queue that was configured, or that has jobs of the native API, is not changed.
	if config == contract.DefaultQueueConfig() && (pushed == 0 || pushed < before) {
		err = q.engine.Configure(ctx, ref, duly.QueueConfig{DeadAge: duly.None, DeadCount: duly.None})
	}
	return pushed, err
}

// forget makes the next check treat the queue as new, even if a publish in flight creates the queue
// first.
func (q *queueCache) forget(ref duly.QueueRef) {
	q.mu.Lock()
	defer q.mu.Unlock()

	if _, ok := q.checked[ref.Normal()]; ok {
		q.destroyed++
		// Every queue has fewer pushes than this, so the next check configures the queue.
		q.checked[ref.Normal()] = queueCheck{pushed: math.MaxInt64, destroyed: q.destroyed}
	}
}

// Observer returns an observer for the engine that this process destroys queues with. So the API notices
// that a queue must be configured again.
func (a *API) Observer() observe.Observer {
	return observe.Observer{Destroyed: func(q duly.QueueRef, _ error) { a.queues.forget(q) }}
}
