package dispatch

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/server/webhook"
	"github.com/dulymq/duly/server/webhook/gate"
	"github.com/dulymq/duly/worker"
)

// DefaultMemory is the default of Config.Memory, in bytes.
const DefaultMemory = 64 << 20

// Config has the parts and settings of a dispatcher. Engine, Queues and Resolver must be set.
type Config struct {
	Engine contract.Engine
	// Queues lists the push queues.
	Queues Queues
	// Resolver finds the destinations of jobs.
	Resolver Resolver
	// Slots is the maximum number of tries in flight. Default [gate.DefaultSlots].
	Slots int
	// Memory is the largest size of all bodies in flight together, in bytes. Default
	// [DefaultMemory].
	Memory int64
	// Drain is the time for requests to finish after Run's context has ended. Default
	// [worker.DefaultDrain].
	Drain time.Duration
	// Version is in the header user-agent.
	Version string
	// Trace starts the span of a try. By default there are no spans, and a request has the
	// traceparent and tracestate of its job.
	Trace TraceFunc
	// Observer receives events. By default, no function is called.
	Observer Observer
	// Log receives the events. Default [slog.Default].
	Log *slog.Logger
	// Clock is for tests. Default the system's.
	Clock duly.Clock
}

// TraceFunc starts the span of a try. It returns the headers traceparent and tracestate,
// and a function that ends the span.
type TraceFunc func(ctx context.Context, d *duly.Delivery, host string) (
	headers map[string]string, ended func(status int, as duly.Settlement))

// Resolver finds the destinations of jobs, with their current settings.
type Resolver interface {
	// Resolve returns the route of a job. [*Postponed] means that the job cannot be sent now.
	// [duly.ErrInvalid] and [*guard.Refused] mean that it never can.
	Resolve(ctx context.Context, d *duly.Delivery) (*Route, error)
	// Disable disables a target.
	Disable(ctx context.Context, namespace, target string) error
}

// Route has the destinations of a job and of its notices.
type Route struct {
	To *webhook.Destination
	// OnDone and OnDead are each a URL or target:NAME; empty: no notice.
	OnDone, OnDead string
}

// Postponed is the error of a job that has a destination, but cannot be sent now.
type Postponed struct {
	Reason Reason
	// Target is empty for the secret of a namespace.
	Target string
	Err    error
}

// Reason is the reason to postpone a job.
type Reason string

// The reasons why a job cannot be sent now.
const (
	// Disabled: the target is disabled.
	Disabled Reason = "disabled"
	// Unreadable: the secret or the headers of the target cannot be opened.
	Unreadable Reason = "unreadable"
	// Unknown: the target does not exist, or the engine does not answer.
	Unknown Reason = "unknown"
)

// Error implements error.
func (p *Postponed) Error() string {
	if p.Err == nil {
		return "target " + p.Target + " is " + string(p.Reason)
	}
	return p.Err.Error()
}

// Unwrap returns the cause.
func (p *Postponed) Unwrap() error { return p.Err }

// Observer has functions for the events of a dispatcher, for metrics and tests. Every field
// may be nil. The functions run on the hot path, so they must neither block nor panic.
type Observer struct {
	// Tried: a request has ended.
	Tried func(Try)
	// HeldBack: a job waits for its gate.
	HeldBack func(namespace, target, host string)
	// Postponed is called when a job cannot be sent now, for another reason than its gate.
	Postponed func(namespace, target string, reason Reason)
	// Gate: a gate has opened or closed.
	Gate func(gate.Change)
	// TargetDisabled: a target has answered 410.
	TargetDisabled func(namespace, target string)
	// NoticeFailed: a notice could not be stored.
	NoticeFailed func(namespace, queue string)
	// ClockDiffers is called for every job, with the time by which this process's clock is ahead of
	// the engine's clock. The time is negative if the clock is behind.
	ClockDiffers func(by time.Duration)
}

// Try is one request that has ended.
type Try struct {
	Namespace, Queue string
	// Target is empty for a plain URL.
	Target string
	// Host is scheme, name and port.
	Host string
	// Status is the status of the answer, or 0 without an answer.
	Status int
	As     duly.Settlement
	Took   time.Duration
	// Bytes is the size of the body.
	Bytes int
	// First is true for the first try of a job. Late is its delay after the due time.
	First bool
	Late  time.Duration
}

// Dispatcher sends the jobs of push queues.
type Dispatcher struct {
	cfg    Config
	gates  *gate.Gates
	sender *webhook.Sender
	feed   *feed
	memory *memory
	worker *worker.Worker

	disabled   disabledTargets
	hosts      hostsByNamespace
	notices    pendingNotices
	logLimit   logLimiter
	drift      driftMonitor
	background sync.WaitGroup
}

// New returns a dispatcher that does nothing until Run.
func New(cfg Config) *Dispatcher {
	cfg = cfg.withDefaults()
	d := &Dispatcher{cfg: cfg}
	d.gates = gate.New(gate.Config{Slots: cfg.Slots, Clock: cfg.Clock, Changed: d.gateChanged})
	d.sender = &webhook.Sender{Version: cfg.Version, Clock: cfg.Clock, Gates: d.gates}
	d.memory = &memory{size: cfg.Memory}
	d.feed = newFeed(cfg.Engine, d.memory.hasRoom, cfg.Clock, cfg.Log)
	// Reserve returns no jobs while a body waits for memory, so freeing memory wakes it.
	d.memory.onFree = d.feed.signal
	d.logLimit.clock = cfg.Clock

	d.worker = worker.New(d.feed, worker.Config{
		Namespace: duly.DefaultNamespace, Concurrency: cfg.Slots, Drain: cfg.Drain, Clock: cfg.Clock,
		// Log lines of the worker name HTTP push, because a user of the server has no worker.
		Logger:   cfg.Log.With("for", "HTTP push"),
		Observer: worker.Observer{Settled: d.settled},
	})
	d.worker.HandleEvery(d.handle)
	return d
}

func (c Config) withDefaults() Config {
	if c.Slots == 0 {
		c.Slots = gate.DefaultSlots
	}
	if c.Memory == 0 {
		c.Memory = DefaultMemory
	}
	if c.Drain == 0 {
		c.Drain = worker.DefaultDrain
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Clock == nil {
		c.Clock = clock.System()
	}
	return c
}

// Gates returns the state of each host's gate, the most recently used first.
func (d *Dispatcher) Gates() []gate.State { return d.gates.States() }

// Hosts returns the gates of the hosts to which jobs of a namespace were sent, the most
// recently used first.
func (d *Dispatcher) Hosts(namespace string) []gate.State {
	var states []gate.State
	for _, s := range d.gates.States() {
		if d.hosts.has(namespace, s.Host) {
			states = append(states, s)
		}
	}
	return states
}

// Memory returns the bytes of the bodies that are sent now.
func (d *Dispatcher) Memory() int64 { return d.memory.inUse() }

// Run sends jobs until ctx ends. After that, requests in flight have the time Config.Drain to
// finish. It returns a permanent error, like [worker.Worker.Run].
func (d *Dispatcher) Run(ctx context.Context) error {
	listing, stop := context.WithCancel(ctx)
	defer stop()
	var running sync.WaitGroup
	running.Go(func() { d.followQueues(listing) })

	// The worker drains while the feed still passes its settles on.
	err := d.worker.Run(ctx)
	stop()
	running.Wait()
	d.feed.close()
	// The promotions of notices must reach the engine before the caller closes it.
	d.background.Wait()
	return err
}

// Kill ends Run within a second, like [worker.Worker.Kill].
func (d *Dispatcher) Kill() { d.worker.Kill() }

// followQueues reads the list of push queues at each change, until ctx ends.
func (d *Dispatcher) followQueues(ctx context.Context) {
	changed := make(chan struct{}, 1)
	signal := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { d.watchQueues(ctx, signal) })

	for failures := 0; ; {
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}

		queues, err := d.cfg.Queues.PushQueues(ctx)
		// A list that failed in part still has the queues of the engines that answered.
		if queues != nil {
			d.feed.set(ctx, queues)
		}
		if err == nil {
			failures = 0
			continue
		}

		if failures++; failures == 2 { // a single failure is not logged
			d.cfg.Log.Warn("the list of push queues could not be read; retrying", "code", string(duly.CodeOf(err)))
		}
		_ = pause(ctx, d.cfg.Clock, failures) // the loop checks ctx after the pause
		signal()
	}
}

// watchQueues calls changed at once and when push queues change, until ctx ends.
func (d *Dispatcher) watchQueues(ctx context.Context, changed func()) {
	for ctx.Err() == nil {
		err := d.cfg.Queues.WatchPushQueues(ctx, changed)
		if ctx.Err() == nil && err != nil {
			d.logLimit.do("watch", func() {
				d.cfg.Log.Warn("the watch of the push queues has failed; retrying", "code", string(duly.CodeOf(err)))
			})
		}
		_ = clock.Sleep(ctx, d.cfg.Clock, maxPause) // the loop checks ctx after the pause
	}
}

// gateChanged reports a gate that opened or closed.
func (d *Dispatcher) gateChanged(c gate.Change) {
	if c.Open {
		d.cfg.Log.Info("a host answers again; its gate is open", "host", c.Host)
	} else {
		d.cfg.Log.Warn("a host fails or throttles; its gate is closed", "host", c.Host, "for", c.For)
	}
	if d.cfg.Observer.Gate != nil {
		d.cfg.Observer.Gate(c)
	}
}
