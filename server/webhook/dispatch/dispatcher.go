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

// DefaultMemory is what the bodies in flight may take together, in bytes.
const DefaultMemory = 64 << 20

// Config is what a dispatcher works with. Engine, Queues and Resolver must be set.
type Config struct {
	Engine contract.Engine
	// Queues lists the push queues.
	Queues Queues
	// Resolver finds the destinations of jobs.
	Resolver Resolver
	// Slots is how many tries there are in flight at most. Default [gate.DefaultSlots].
	Slots int
	// Memory bounds the bodies in flight, in bytes. Default [DefaultMemory].
	Memory int64
	// Drain is how long requests may go on after Run's context has ended. Default
	// [worker.DefaultDrain].
	Drain time.Duration
	// Version is for the header user-agent.
	Version string
	// Trace begins the span of a try. It returns the headers traceparent and tracestate,
	// and what ends the span. Default: none, and requests carry the job's headers.
	Trace func(ctx context.Context, d *duly.Delivery, host string) (headers map[string]string, ended func(status int, as duly.Settlement))
	// Observer is called for what happens. Default: nothing.
	Observer Observer
	// Log takes the events. Default [slog.Default].
	Log *slog.Logger
	// Clock is for tests. Default the system's.
	Clock duly.Clock
}

// Resolver finds out where jobs go, with the settings as they are now.
type Resolver interface {
	// Resolve returns the route of a job. An error of type [*Held] means that the job
	// cannot be sent now, [duly.ErrInvalid] and [*guard.Refused] that it never can.
	Resolve(ctx context.Context, d *duly.Delivery) (*Route, error)
	// Disable disables a target.
	Disable(ctx context.Context, namespace, target string) error
}

// Route is where a job goes, and where its notices go.
type Route struct {
	To *webhook.Destination
	// OnDone and OnDead name a URL or a target; empty: no notice.
	OnDone, OnDead string
}

// Held is the error of a job that has a destination, but cannot be sent now.
type Held struct {
	Reason Reason
	// Target is empty for the secret of a namespace.
	Target string
	Err    error
}

// Reason is why a job is held.
type Reason string

// The reasons.
const (
	// Disabled: the target is disabled.
	Disabled Reason = "disabled"
	// Unreadable: the secret or the headers of the target cannot be opened.
	Unreadable Reason = "unreadable"
	// Unknown: the target does not exist, or nobody answers.
	Unknown Reason = "unknown"
)

// Error implements error.
func (h *Held) Error() string {
	if h.Err == nil {
		return "target " + h.Target + " is " + string(h.Reason)
	}
	return h.Err.Error()
}

// Unwrap returns the cause.
func (h *Held) Unwrap() error { return h.Err }

// Observer is called for what a dispatcher does, for metrics and tests. Every field may
// be nil. The functions are called on the hot path: they must neither block nor panic.
type Observer struct {
	// Tried: a request has ended.
	Tried func(Try)
	// HeldBack: a job waits for its gate.
	HeldBack func(namespace, target, host string)
	// Waits: a job cannot be sent now.
	Waits func(namespace, target string, reason Reason)
	// Gate: a gate has opened or closed.
	Gate func(gate.Change)
	// TargetDisabled: a target has answered 410.
	TargetDisabled func(namespace, target string)
	// NoticeFailed: a notice could not be stored.
	NoticeFailed func(namespace, queue string)
	// ClockDiffers: the clock of this process is that far ahead of the engine's. It is
	// called for every job.
	ClockDiffers func(by time.Duration)
}

// Try is one request that has ended.
type Try struct {
	Namespace, Queue string
	// Target is empty for a plain URL.
	Target string
	// Host is scheme, name and port.
	Host string
	// Status is that of the answer; 0 without one.
	Status int
	As     duly.Settlement
	Took   time.Duration
	// Bytes is the size of the body.
	Bytes int
	// First is true for the first try of a job, and Late is how late that was.
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

	targets    held
	users      users
	notices    pending
	faults     faults
	watch      difference
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
	d.memory.freed = d.feed.signal
	d.faults.clock = cfg.Clock

	d.worker = worker.New(d.feed, worker.Config{
		Namespace: duly.DefaultNamespace, Concurrency: cfg.Slots, Drain: cfg.Drain, Clock: cfg.Clock,
		Logger:   cfg.Log.With("for", "HTTP push"), // the server has no worker that its user knows of
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

// Gates returns the state of the gate of each host, the one that was used last first.
func (d *Dispatcher) Gates() []gate.State { return d.gates.States() }

// Hosts returns the gates of the hosts that jobs of a namespace were sent to, the one that
// was used last first.
func (d *Dispatcher) Hosts(namespace string) []gate.State {
	var states []gate.State
	for _, s := range d.gates.States() {
		if d.users.has(namespace, s.Host) {
			states = append(states, s)
		}
	}
	return states
}

// Memory returns the bytes of the bodies that are sent now.
func (d *Dispatcher) Memory() int64 { return d.memory.inUse() }

// Run sends jobs until ctx ends, and then lets requests end for as long as Config.Drain
// says. It returns an error that will not pass, as [worker.Worker.Run] does.
func (d *Dispatcher) Run(ctx context.Context) error {
	stop, end := context.WithCancel(ctx)
	defer end()
	var looking sync.WaitGroup
	looking.Go(func() { d.discover(stop) })

	err := d.worker.Run(ctx)
	end()
	looking.Wait()
	d.feed.close()
	d.background.Wait()
	return err
}

// Kill ends Run within a second, as [worker.Worker.Kill] does.
func (d *Dispatcher) Kill() { d.worker.Kill() }

// discover keeps the list of push queues until ctx ends.
func (d *Dispatcher) discover(ctx context.Context) {
	look := make(chan struct{}, 1)
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() {
		for ctx.Err() == nil {
			err := d.cfg.Queues.WatchPushQueues(ctx, func() {
				select {
				case look <- struct{}{}:
				default:
				}
			})
			if ctx.Err() == nil && err != nil {
				d.faults.report("watch", func() {
					d.cfg.Log.Warn("changes of push queues are not reported; trying again", "code", string(duly.CodeOf(err)))
				})
			}
			_ = clock.Sleep(ctx, d.cfg.Clock, longestPause) // the loop looks at ctx
		}
	})

	for failures := 0; ; {
		select {
		case <-look:
		case <-ctx.Done():
			return
		}
		queues, err := d.cfg.Queues.PushQueues(ctx)
		if queues != nil {
			d.feed.set(ctx, queues)
		}
		if err == nil {
			failures = 0
			continue
		}
		if failures++; failures == 2 {
			d.cfg.Log.Warn("the push queues can't be listed; trying again", "code", string(duly.CodeOf(err)))
		}
		_ = clock.Sleep(ctx, d.cfg.Clock, min(firstPause<<min(failures-1, 5), longestPause)) // the loop looks at ctx
		select {
		case look <- struct{}{}:
		default:
		}
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
