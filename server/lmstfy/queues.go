package lmstfy

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

// known sees to it that a queue which a publish makes keeps its dead letters.
//
// A queue that nobody has configured or pushed to is configured before its
// first job comes, so whoever dies in between leaves an empty queue that is
// right. That costs two looks, so the queues that were seen are remembered, for
// a while. What was destroyed meanwhile and made anew by a publish is seen by
// the next look: it counts fewer pushes than before. This server's own Destroy
// lets the next publish look, see [API.Watch].
type known struct {
	engine duly.Contract
	clock  clock.Clock

	mu    sync.Mutex
	seen  map[duly.QueueRef]sight
	times int // that a queue has gone
}

// sight is what a look has seen.
type sight struct {
	until  time.Duration // it holds, on the monotonic clock
	pushed int64         // into the queue since it was made
	gone   int           // the last time that it has gone
}

const (
	knownFor = time.Minute
	maxKnown = 10_000 // beyond it all are forgotten and looked at anew
)

func newKnown(engine duly.Contract, c clock.Clock) *known {
	return &known{engine: engine, clock: c, seen: map[duly.QueueRef]sight{}}
}

// see is called before a push.
func (k *known) see(ctx context.Context, ref duly.QueueRef) error {
	last := k.last(ref)
	if k.clock.Mono() < last.until {
		return nil
	}
	pushed, err := k.look(ctx, ref, last.pushed)
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if now, ok := k.seen[ref]; ok && now == last { // else it has gone since, or another publish has looked
		k.seen[ref] = sight{k.clock.Mono() + knownFor, pushed, last.gone}
	}
	return nil
}

// last is what the last look has seen. From now on it is heard if the queue goes.
func (k *known) last(ref duly.QueueRef) sight {
	k.mu.Lock()
	defer k.mu.Unlock()
	last, ok := k.seen[ref]
	if !ok {
		if len(k.seen) >= maxKnown {
			clear(k.seen)
		}
		k.seen[ref] = last
	}
	return last
}

// look makes the queue unless it is there: one that is not reads as never
// pushed to, and with the contract's own configuration. Two servers may do so
// at once.
func (k *known) look(ctx context.Context, ref duly.QueueRef, before int64) (pushed int64, err error) {
	stats, err := k.engine.Stats(ctx, ref)
	if err != nil {
		return 0, err
	}
	config, err := k.engine.Config(ctx, ref)
	if err != nil {
		return 0, err
	}
	pushed = stats.Counters.Pushed
	if config == duly.DefaultQueueConfig() && (pushed == 0 || pushed < before) {
		err = k.engine.Configure(ctx, ref, duly.QueueConfig{DeadAge: duly.None, DeadCount: duly.None})
	}
	return pushed, err
}

// gone lets the next look take the queue for a new one, also if a publish that
// is under way makes it before.
func (k *known) gone(ref duly.QueueRef) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, ok := k.seen[ref.Normal()]; ok {
		k.times++
		k.seen[ref.Normal()] = sight{pushed: math.MaxInt64, gone: k.times}
	}
}

// Watch is the API's engine for whoever else destroys queues in this process:
// the API then knows that a queue is to be made anew.
func (a *API) Watch() duly.Contract { return watched{a.engine, a.known} }

type watched struct {
	duly.Contract
	known *known
}

func (w watched) Destroy(ctx context.Context, ref duly.QueueRef) error {
	defer w.known.gone(ref) // also after an error: it may have happened
	return w.Contract.Destroy(ctx, ref)
}
