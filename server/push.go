package server

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/seal"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/server/metrics"
	"github.com/dulymq/duly/server/native"
	"github.com/dulymq/duly/server/webhook"
	"github.com/dulymq/duly/server/webhook/dispatch"
	gates "github.com/dulymq/duly/server/webhook/gate"
	"github.com/dulymq/duly/server/webhook/guard"
	"github.com/dulymq/duly/server/webhook/target"
)

// PushConfig is how a server sends the jobs of push queues.
type PushConfig struct {
	// Off leaves the sending to other servers. This one still checks URLs and keeps
	// targets.
	Off bool
	// Keys seal the secrets. They must be set.
	Keys *seal.Ring
	// Slots is how many requests are in flight at most. Default 256.
	Slots int
	// Memory bounds the bodies in flight, in bytes. Default [dispatch.DefaultMemory].
	Memory int64
	// Trace puts tries into traces, see [dispatch.Config].
	Trace func(ctx context.Context, d *duly.Delivery, host string) (headers map[string]string, ended func(status int, as duly.Settlement))
}

// LivePush is the part of it that may change while a server serves.
type LivePush struct {
	// Guard says what may be called. The server adds its own listeners.
	Guard guard.Config
	// TargetsOnly refuses jobs and queues that name a URL instead of a target.
	TargetsOnly bool
}

// push is what a server has for HTTP push.
type push struct {
	server     *Server
	guard      *guard.Guard
	store      *target.Store
	resolver   *target.Resolver
	dispatcher *dispatch.Dispatcher // nil: it is off
	states     func() []gates.State // of its gates
	meter      *metrics.Push
	sender     *webhook.Sender // of tests
}

// newPush returns nil for a server without HTTP push, and for an engine that stores no
// targets.
func newPush(s *Server, cfg *Config) (*push, error) {
	if cfg.Push == nil || cfg.Targeter == nil {
		return nil, nil
	}
	g, err := guard.New(cfg.Live.Push.Guard)
	if err != nil {
		return nil, err
	}
	p := &push{server: s, guard: g, store: target.NewStore(cfg.Targeter, cfg.Push.Keys, g, cfg.Clock)}
	p.sender = &webhook.Sender{Version: cfg.Version, Clock: cfg.Clock}
	p.resolver = target.NewResolver(p.store, cfg.Engine)
	if cfg.Push.Off {
		return p, nil
	}
	p.dispatcher = dispatch.New(dispatch.Config{
		Engine: cfg.Engine, Queues: p.queues(cfg), Resolver: p.resolver, Slots: cfg.Push.Slots, Memory: cfg.Push.Memory, Drain: cfg.Live.Drain,
		Version: cfg.Version, Trace: cfg.Push.Trace, Observer: p.observer(), Log: cfg.Logger, Clock: cfg.Clock,
	})
	p.states = p.dispatcher.Gates
	p.meter = metrics.NewPush(cfg.Clock, p.gates, p.dispatcher.Memory)
	return p, nil
}

// observer counts what the dispatcher does.
func (p *push) observer() dispatch.Observer {
	return dispatch.Observer{
		Tried: func(t dispatch.Try) {
			p.meter.Requested(metrics.PushRequest{Namespace: t.Namespace, Destination: destination(t.Target, t.Host), Status: t.Status, Took: t.Took,
				Bytes: t.Bytes, First: t.First, Late: t.Late})
		},
		HeldBack: func(namespace, target, host string) { p.meter.HeldBack(namespace, destination(target, host)) },
		Waits:    func(_, _ string, reason dispatch.Reason) { p.meter.Waits(string(reason)) },
		Gate: func(c gates.Change) {
			if !c.Open {
				p.meter.Closed()
			}
		},
		TargetDisabled: func(string, string) { p.meter.Disabled() },
		NoticeFailed:   func(string, string) { p.meter.NoticeFailed() },
		ClockDiffers:   p.clockDiffers,
	}
}

func (p *push) clockDiffers(by time.Duration) { p.meter.ClockDiffers(by) }

// destination is the label of a destination in metrics.
func destination(target, host string) string {
	if target != "" {
		return duly.TargetPrefix + target
	}
	return host
}

func (p *push) gates() []metrics.PushGate {
	states := p.states()
	list := make([]metrics.PushGate, len(states))
	for i, s := range states {
		list[i] = metrics.PushGate{Host: s.Host, Open: s.Open, Limit: s.Limit, InFlight: s.InFlight, HeldBack: s.HeldBack}
	}
	return list
}

// queues lists the push queues of the engine, or of each pool. A change of them, or of a
// target, lets the resolver read all anew.
func (p *push) queues(cfg *Config) dispatch.Queues {
	if cfg.Pools == nil {
		return dispatch.QueuesOf(cfg.Targeter, cfg.Watcher, cfg.Clock, p.resolver.Forget)
	}
	return &dispatch.Lists{Lists: cfg.Pools.EachPushIndex(), Watch: func(ctx context.Context, changed func()) {
		cfg.Pools.WatchPushQueues(ctx, func() { p.resolver.Forget(); changed() })
	}}
}

// collectors are those of the dispatcher. It may be called without push.
func (p *push) collectors() []prometheus.Collector {
	if p == nil || p.meter == nil {
		return nil
	}
	return []prometheus.Collector{p.meter}
}

// run sends jobs until ctx ends. It may be called without push.
func (p *push) run(ctx context.Context) {
	if p == nil || p.dispatcher == nil {
		return
	}
	if err := p.dispatcher.Run(ctx); err != nil && ctx.Err() == nil {
		p.server.cfg.Logger.Error("the dispatcher of HTTP push has ended", "code", string(duly.CodeOf(err)), "error", err)
	}
	p.resolver.Close()
}

// listens tells the guard what this server listens on, which no job is sent to. It may be
// called without push.
func (p *push) listens(live LivePush) error {
	if p == nil {
		return nil
	}
	cfg := live.Guard
	for _, l := range p.server.listeners {
		if l == nil {
			continue
		}
		if addr, ok := l.Addr().(*net.TCPAddr); ok {
			cfg.Listeners = append(cfg.Listeners[:len(cfg.Listeners):len(cfg.Listeners)], addr.AddrPort())
		}
	}
	return p.guard.Update(cfg)
}

// checkDestination reports a destination that this server refuses: [duly.ErrInvalid] for
// a URL that may not be called, and [duly.ErrForbidden] for every URL if only targets are
// permitted. It may be called without push.
func (p *push) checkDestination(field, text string) error {
	if p == nil {
		return nil
	}
	_, url := duly.ParseDestination(text)
	if url == "" {
		return nil
	}
	if p.server.live.Load().Push.TargetsOnly {
		return duly.Errorf(duly.CodeForbidden, "%s is a URL, but push.urls of this server is targets; name a registered target, as target:NAME", field)
	}
	_, err := p.guard.CheckURL(field, url)
	return err
}

// routes is what the API needs for the routes of HTTP push. It may be called without push.
func (p *push) routes() native.Push {
	if p == nil {
		return native.Push{}
	}
	r := native.Push{Targets: p.store, Test: p.test, Changed: p.resolver.Forget}
	if p.dispatcher != nil {
		r.Hosts = p.hosts
	}
	return r
}

// test sends a test request to a target, also to a disabled one.
func (p *push) test(ctx context.Context, namespace, name string) (webhook.Tested, error) {
	p.resolver.Forget()
	to, err := p.resolver.Target(ctx, namespace, name)
	if held := (*dispatch.Held)(nil); errors.As(err, &held) {
		if held.Reason == dispatch.Unreadable {
			return webhook.Tested{}, duly.Errorf(duly.CodeConflict, "target %s can't be tested: %v", name, held)
		}
		return webhook.Tested{}, held.Err
	}
	if err != nil {
		return webhook.Tested{}, err
	}
	return p.sender.Test(ctx, namespace, to)
}

// hosts returns the gates of the hosts that jobs of a namespace go to.
func (p *push) hosts(namespace string) []wire.PushHost {
	states := p.dispatcher.Hosts(namespace)
	hosts := make([]wire.PushHost, len(states))
	for i, s := range states {
		hosts[i] = wire.PushHost{Host: s.Host, Open: s.Open, Closed: s.Closed, Limit: s.Limit, InFlight: s.InFlight, HeldBack: s.HeldBack, Usual: s.Usual}
	}
	return hosts
}
