package server

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/metrics"
	"github.com/dulymq/duly/server/native"
	"github.com/dulymq/duly/server/webhook"
	"github.com/dulymq/duly/server/webhook/dispatch"
	gates "github.com/dulymq/duly/server/webhook/gate"
	"github.com/dulymq/duly/server/webhook/guard"
	"github.com/dulymq/duly/server/webhook/seal"
	"github.com/dulymq/duly/server/webhook/target"
)

// PushConfig configures HTTP push.
type PushConfig struct {
	// Off means that this server sends no jobs, because other servers do. It still checks URLs and
	// stores targets.
	Off bool
	// Keys encrypt the secrets of targets. They must be set.
	Keys *seal.Ring
	// Slots is the maximum number of requests in flight. Default 256.
	Slots int
	// Memory is the largest size of all bodies in flight together, in bytes. Default
	// [dispatch.DefaultMemory].
	Memory int64
	// Trace traces tries, see [dispatch.Config].
	Trace func(ctx context.Context, d *duly.Delivery, host string) (
		headers map[string]string, ended func(status int, as duly.Settlement))
}

// push is the HTTP push of a server. A server without HTTP push has a nil push.
type push struct {
	server     *Server
	guard      *guard.Guard
	store      *target.Store
	resolver   *target.Resolver
	dispatcher *dispatch.Dispatcher // nil if PushConfig.Off is set
	states     func() []gates.State // returns the states of the dispatcher's gates
	meter      *metrics.Push
	sender     *webhook.Sender // of tests
}

// newPush returns nil for a server without HTTP push, and for an engine that stores no
// targets.
func newPush(s *Server, cfg *Config) (*push, error) {
	if cfg.Push == nil || cfg.Store.Targeter == nil {
		return nil, nil
	}
	g, err := guard.New(cfg.Settings.Push.Guard)
	if err != nil {
		return nil, err
	}

	p := &push{server: s, guard: g, store: target.NewStore(cfg.Store.Targeter, cfg.Push.Keys, g, cfg.Clock)}
	// A test has no gate: an operator who tests a host that fails wants its answer.
	p.sender = &webhook.Sender{Version: cfg.Version, Clock: cfg.Clock}
	p.resolver = target.NewResolver(p.store, cfg.Engine)
	// The API checks URLs and stores targets even if other servers send the jobs.
	if cfg.Push.Off {
		return p, nil
	}

	// The engine is the observed one, so the server's metrics also count the jobs of HTTP push.
	p.dispatcher = dispatch.New(dispatch.Config{
		Engine: cfg.Engine, Queues: p.queues(cfg), Resolver: p.resolver,
		Slots: cfg.Push.Slots, Memory: cfg.Push.Memory, Drain: cfg.Settings.Drain,
		Version: cfg.Version, Trace: cfg.Push.Trace, Observer: p.observer(), Log: cfg.Logger, Clock: cfg.Clock,
	})
	p.states = p.dispatcher.Gates
	p.meter = metrics.NewPush(cfg.Clock, p.gates, p.dispatcher.Memory)
	return p, nil
}

// observer returns an observer that counts the events of the dispatcher.
func (p *push) observer() dispatch.Observer {
	return dispatch.Observer{
		Tried: func(t dispatch.Try) {
			p.meter.Requested(metrics.PushRequest{
				Namespace: t.Namespace, Destination: destination(t.Target, t.Host), Status: t.Status,
				Took: t.Took, Bytes: t.Bytes, First: t.First, Late: t.Late,
			})
		},

		HeldBack:  func(namespace, target, host string) { p.meter.HeldBack(namespace, destination(target, host)) },
		Postponed: func(_, _ string, reason dispatch.Reason) { p.meter.Waits(string(reason)) },
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

// destination returns the label of a destination in metrics.
func destination(target, host string) string {
	if target != "" {
		return contract.TargetPrefix + target
	}
	return host
}

func (p *push) gates() []metrics.PushGate {
	states := p.states()
	list := make([]metrics.PushGate, len(states))
	for i, s := range states {
		list[i] = metrics.PushGate{
			Host: s.Host, Open: s.Open, Limit: s.Limit, InFlight: s.InFlight, HeldBack: s.HeldBack,
		}
	}
	return list
}

// queues lists the push queues of the engine, or of each pool. The resolver drops its cache when
// these queues or a target change.
func (p *push) queues(cfg *Config) dispatch.Queues {
	if cfg.Pools == nil {
		return dispatch.QueuesOf(cfg.Store.Targeter, cfg.Store.Watcher, cfg.Clock, p.resolver.Refresh)
	}
	return &dispatch.Lists{Lists: cfg.Pools.EachPushIndex(), Watch: func(ctx context.Context, changed func()) {
		cfg.Pools.WatchPushQueues(ctx, func() { p.resolver.Refresh(); changed() })
	}}
}

// collectors returns the metrics of the dispatcher.
func (p *push) collectors() []prometheus.Collector {
	if p == nil || p.meter == nil {
		return nil
	}
	return []prometheus.Collector{p.meter}
}

// run sends jobs until ctx ends.
func (p *push) run(ctx context.Context) {
	if p == nil || p.dispatcher == nil {
		return
	}
	if err := p.dispatcher.Run(ctx); err != nil && ctx.Err() == nil {
		p.server.cfg.Logger.Error("the dispatcher of HTTP push has ended with an error",
			"code", string(duly.CodeOf(err)), "error", err)
	}
	p.resolver.Close()
}

// guardListeners updates the guard. It adds the listeners of this server, which no job may
// be sent to.
func (p *push) guardListeners(settings PushSettings) error {
	if p == nil {
		return nil
	}

	cfg := settings.Guard
	for _, l := range p.server.listeners {
		if l == nil {
			continue
		}
		if addr, ok := l.Addr().(*net.TCPAddr); ok {
			// The full slice expression copies, because the caller keeps the settings.
			cfg.Listeners = append(cfg.Listeners[:len(cfg.Listeners):len(cfg.Listeners)], addr.AddrPort())
		}
	}
	return p.guard.Update(cfg)
}

// checkDestination returns [duly.ErrInvalid] for a URL that may not be called. If only targets are
// permitted, it returns [duly.ErrForbidden] for every URL.
func (p *push) checkDestination(field, text string) error {
	if p == nil {
		return nil
	}
	// The URL of a target was checked when the target was stored.
	_, url := contract.ParseDestination(text)
	if url == "" {
		return nil
	}
	if p.server.settings.Load().Push.TargetsOnly {
		return contract.Errorf(duly.CodeForbidden,
			"%s is a URL, but push.urls of this server is targets; name a registered target, like target:NAME", field)
	}
	_, err := p.guard.CheckURL(field, url)
	return err
}

// routes returns what the API needs for the routes of HTTP push.
func (p *push) routes() native.Push {
	if p == nil {
		return native.Push{}
	}
	r := native.Push{Targets: p.store, Test: p.test, Changed: p.resolver.Refresh}
	if p.dispatcher != nil {
		r.Hosts = p.hosts
	}
	return r
}

// test sends a test request to a target, even if it is disabled.
func (p *push) test(ctx context.Context, namespace, name string) (webhook.Tested, error) {
	// The caller may have stored the target just before, and wants to test the stored settings.
	p.resolver.Refresh()
	to, err := p.resolver.Target(ctx, namespace, name)
	if held := (*dispatch.Postponed)(nil); errors.As(err, &held) {
		// A request without its secret and headers would test something else.
		if held.Reason == dispatch.Unreadable {
			return webhook.Tested{}, contract.Errorf(duly.CodeConflict, "target %s can't be tested: %v", name, held)
		}
		return webhook.Tested{}, held.Err
	}
	if err != nil {
		return webhook.Tested{}, err
	}
	return p.sender.Test(ctx, namespace, to)
}

// hosts returns the gates of the hosts that jobs of a namespace go to.
func (p *push) hosts(namespace string) []contract.PushHost {
	states := p.dispatcher.Hosts(namespace)
	hosts := make([]contract.PushHost, len(states))
	for i, s := range states {
		hosts[i] = contract.PushHost{
			Host: s.Host, Open: s.Open, Closed: s.Closed, Limit: s.Limit,
			InFlight: s.InFlight, HeldBack: s.HeldBack, Usual: s.Usual,
		}
	}
	return hosts
}
