package model

import (
	"context"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/cancels"
	"github.com/dulymq/duly/internal/clock"
)

// Config is how a model behaves. Its zero value works.
type Config struct {
	// Clock is the engine's clock. Default: the system's.
	Clock clock.Clock
	// MaxBody is the bound on a body in bytes. Default duly.DefaultMaxBody.
	MaxBody int
	// MaxQueues is the bound on a namespace's queues. Default
	// duly.DefaultMaxQueues.
	MaxQueues int
	// Shards is the number of shards of a queue whose creator names none. Default 1.
	Shards int
	// OneShard makes the engine refuse queues with more than one shard, as SQLite does.
	OneShard bool
	// First returns the shard that a Reserve begins at, for tests that compare the model with an
	// engine that has chosen a shard. If that engine delivered no job of the queue, known is false.
	// A suspect job may have ended its Reserve, so the model then begins at a shard with a suspect.
	// Default: a random shard.
	First func(duly.QueueRef) (shard int, known bool)
	// Publish returns the shard for the messages of a Publish to that topic which
	// may go to any, for the same tests. Default: a random shard.
	Publish func(duly.QueueRef) (shard int, known bool)
	// Manual leaves the progress of time to Reserve and Step: the engine itself takes back no
	// expired leases.
	Manual bool
}

// Engine is the model. It implements contract.Engine, contract.Maintainer,
// contract.Registry, contract.Placer, contract.Surveyor, contract.Finder, contract.Explainer,
// contract.KeyLister, contract.Watcher, contract.Limiter, contract.Topics and contract.Firer.
type Engine struct {
	cfg    Config
	mu     sync.Mutex
	closed bool
	queues map[duly.QueueRef]*queue // all queues, including the groups of topics
	topics map[duly.QueueRef]*topic
	tokens map[[32]byte]contract.Token
	// placements are by namespace.
	placements map[string]contract.Placement
	targets    map[targetKey]contract.Target
	// targetCounts has the number of named targets of each namespace.
	targetCounts map[string]int
	// windows has the calls that were counted under the tokens' limits. watchers has the channels
	// that get a signal when a token has changed.
	windows  map[spent]contract.LimitWindow
	watchers map[chan struct{}]struct{}
	// moves counts every transition by event, from and to.
	moves map[Move]int

	waiters []*waiter     // waiting calls, the oldest first
	changed chan struct{} // closed at the next change, if a caller waits for a change
	timer   clock.Timer
	cancels cancels.Hub
}

// Move is one kind of state transition.
type Move struct {
	Event    contract.Event
	From, To duly.State
}

var (
	_ contract.Engine     = (*Engine)(nil)
	_ contract.Maintainer = (*Engine)(nil)
	_ contract.Registry   = (*Engine)(nil)
	_ contract.Surveyor   = (*Engine)(nil)
	_ contract.Finder     = (*Engine)(nil)
	_ contract.Explainer  = (*Engine)(nil)
	_ contract.KeyLister  = (*Engine)(nil)
	_ contract.Watcher    = (*Engine)(nil)
	_ contract.Limiter    = (*Engine)(nil)
	_ contract.Topics     = (*Engine)(nil)
	_ contract.Placer     = (*Engine)(nil)
	_ contract.Targeter   = (*Engine)(nil)
	_ contract.Firer      = (*Engine)(nil)

	_ contract.CancelWatcher = (*Engine)(nil)
	_ contract.Passer        = (*Engine)(nil)
)

// New returns an empty engine.
func New(cfg Config) *Engine {
	if cfg.Clock == nil {
		cfg.Clock = clock.System()
	}
	if cfg.MaxBody == 0 {
		cfg.MaxBody = duly.DefaultMaxBody
	}
	if cfg.Shards == 0 {
		cfg.Shards = 1
	}
	if cfg.MaxQueues == 0 {
		cfg.MaxQueues = duly.DefaultMaxQueues
	}
	return &Engine{
		cfg: cfg, queues: map[duly.QueueRef]*queue{}, topics: map[duly.QueueRef]*topic{}, moves: map[Move]int{},
		tokens: map[[32]byte]contract.Token{}, placements: map[string]contract.Placement{},
		targets: map[targetKey]contract.Target{}, targetCounts: map[string]int{},
		windows: map[spent]contract.LimitWindow{}, watchers: map[chan struct{}]struct{}{},
	}
}

// WatchCancels implements contract.CancelWatcher.
func (e *Engine) WatchCancels(ctx context.Context, namespace string, w contract.CancelWatch) error {
	return e.cancels.Watch(ctx, contract.NamespaceOr(namespace), w)
}

// Moves returns the number of times that each transition has been made.
func (e *Engine) Moves() map[Move]int {
	e.mu.Lock()
	defer e.mu.Unlock()

	// A copy: the caller reads it without the lock.
	moves := make(map[Move]int, len(e.moves))
	for m, n := range e.moves {
		moves[m] = n
	}
	return moves
}

// Close implements duly.Engine.
func (e *Engine) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()

	// begin checks closed under the same lock, so no operation starts after this point.
	e.closed = true
	if e.timer != nil {
		e.timer.Stop()
	}

	// A waiter returns ErrClosed, because closed is set and it was not woken for a job.
	for _, w := range e.waiters {
		close(w.done)
	}
	e.waiters = nil

	// A closed bell ends WatchTokens. A send would only report a change.
	for bell := range e.watchers {
		close(bell)
	}
	clear(e.watchers)
	e.cancels.Close()
	e.notify()
	return nil
}

// begin takes the lock for one operation. The caller unlocks if there is no
// error.
func (e *Engine) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}

	// The lock stays held on success, so an operation and its end are one atomic step.
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return duly.ErrClosed
	}
	return nil
}

// end wakes whom the operation has made something deliverable for.
func (e *Engine) end() {
	// The lock is still held, because a woken waiter must find what the operation has changed.
	e.wake()
	e.notify()
	e.mu.Unlock()
}

func (e *Engine) now() (time.Time, int64) {
	t := e.cfg.Clock.Now()
	return t, clock.Milli(t)
}

// find returns the queue, or nil if it is unknown.
func (e *Engine) find(q duly.QueueRef) *queue { return e.queues[q.Normal()] }

// known returns an error for the name of a topic or of an unknown group. It returns nil for
// an unknown queue.
func (e *Engine) known(ref duly.QueueRef) error {
	ref = ref.Normal()
	name, _, isGroup := ref.Group()
	switch {
	case !isGroup && e.topics[ref] != nil:
		return contract.IsTopic(ref)
	case isGroup && e.topics[name] == nil:
		// A group's name contains its topic's, so a missing topic is the error to report first.
		return contract.NoTopic(name)
	case isGroup && e.queues[ref] == nil:
		return contract.NoGroup(ref)
	}
	return nil
}

// beginOn begins an operation on one queue or group. It returns an error for a bad name
// and for an unknown group, and nil for an unknown queue.
func (e *Engine) beginOn(ctx context.Context, ref duly.QueueRef) (*queue, error) {
	if err := contract.ValidateQueue(ref); err != nil {
		return nil, err
	}
	if err := e.begin(ctx); err != nil {
		return nil, err
	}
	if err := e.known(ref); err != nil {
		e.mu.Unlock()
		return nil, err
	}
	return e.find(ref), nil
}

// usual returns the configuration of a queue that was never configured.
func (e *Engine) usual() duly.QueueConfig {
	c := contract.DefaultQueueConfig()
	c.Shards = e.cfg.Shards
	return c
}

// make returns the queue, and creates it if necessary. It returns ErrFull if the namespace has no
// room for another queue.
func (e *Engine) make(ref duly.QueueRef, cfg duly.QueueConfig) (*queue, error) {
	ref = ref.Normal()
	if q := e.queues[ref]; q != nil {
		return q, nil
	}

	// A queue and a topic of one namespace never share a name (C12.181).
	if e.topics[ref] != nil {
		return nil, contract.IsTopic(ref)
	}
	if err := e.hasRoom(ref.Namespace); err != nil {
		return nil, err
	}
	q := newQueue(ref, cfg, e.moves)
	e.queues[ref] = q

	// A dispatcher watches the list of push queues, and this may be a new push queue.
	e.pushChanged(q)
	return q, nil
}

// hasRoom returns [duly.ErrFull] for a namespace with the maximum number of queues and
// topics.
func (e *Engine) hasRoom(namespace string) error {
	// A group does not count: its topic has a bound on groups of its own.
	n := 0
	for ref := range e.queues {
		if ref.Namespace == namespace && !ref.IsGroup() {
			n++
		}
	}
	for ref := range e.topics {
		if ref.Namespace == namespace {
			n++
		}
	}
	if n >= e.cfg.MaxQueues {
		return contract.NamespaceFull(namespace, e.cfg.MaxQueues)
	}
	return nil
}
