// Package bridges runs the bridges of a server: one for each group with a target. A bridge pushes
// the group's messages into the target queue.
//
// The engine does not report a changed target. So the package lists all groups from time to time,
// and at once after this server has changed one. A bridge that runs too long does no harm: the
// engine refuses a Reserve that names another target than the group has. Every server runs a bridge
// for every group with a target. The bridges of one group share its messages.
package bridges

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/worker"
)

// Config configures Bridges. Everything except Every must be set.
type Config struct {
	Engine contract.Engine
	Topics contract.Topics
	// Namespaces list the namespaces. Each function lists a part of them.
	Namespaces []func(context.Context, duly.PageParams) (duly.NamePage, error)
	// Every is how often to list all groups. Default 30 s.
	Every time.Duration
	Clock duly.Clock
	Log   *slog.Logger
}

// Bridges runs the bridges of one server.
type Bridges struct {
	cfg     Config
	changed chan struct{}

	running sync.WaitGroup
	bridges map[route]*bridge
}

// route is the group and the queue of a bridge.
type route struct {
	group  duly.QueueRef
	target string
}

type bridge struct {
	stop context.CancelFunc
	// done is closed when the bridge has ended, even by itself.
	done chan struct{}
}

// New returns Bridges that do nothing until Run.
func New(cfg Config) *Bridges {
	if cfg.Every <= 0 {
		cfg.Every = 30 * time.Second
	}
	return &Bridges{cfg: cfg, changed: make(chan struct{}, 1), bridges: map[route]*bridge{}}
}

// Refresh makes Run list the groups soon, because a target may have changed. A server without
// bridges calls it on nil.
func (b *Bridges) Refresh() {
	if b == nil {
		return
	}
	select {
	// One signal is enough, however many targets have changed.
	case b.changed <- struct{}{}:
	default:
	}
}

// Run runs bridges until ctx ends.
func (b *Bridges) Run(ctx context.Context) {
	defer b.running.Wait()
	for ctx.Err() == nil {
		b.update(ctx)

		timer := b.cfg.Clock.NewTimer(b.cfg.Every)
		select {
		case <-timer.C:
		case <-b.changed:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// update starts missing bridges, and ends the bridges of groups that are gone or have another
// target. Bridges of namespaces that can't be read continue.
func (b *Bridges) update(ctx context.Context) {
	wanted, unread := map[route]bool{}, map[string]bool{}
	whole := b.eachNamespace(ctx, func(namespace string) {
		if err := b.targets(ctx, namespace, wanted); err != nil {
			unread[namespace] = true
		}
	})

	// A bridge may also have ended by itself.
	for r, running := range b.bridges {
		select {
		case <-running.done:
			delete(b.bridges, r)
			continue
		default:
		}
		// If the list could not be read, the group may still exist, so the bridge continues.
		if !wanted[r] && whole && !unread[r.group.Namespace] {
			running.stop()
			delete(b.bridges, r)
		}
	}

	for r := range wanted {
		// The bridge of the old target ends first, so the group never has two bridges in this
		// process.
		if b.bridges[r] == nil && ctx.Err() == nil {
			b.start(ctx, r)
		}
	}
}

// eachNamespace calls do for every namespace. whole reports whether no list of namespaces failed.
func (b *Bridges) eachNamespace(ctx context.Context, do func(namespace string)) (whole bool) {
	whole = true
	for _, list := range b.cfg.Namespaces {
		err := eachName(func(p duly.PageParams) (duly.NamePage, error) { return list(ctx, p) },
			func(name string) error {
				do(name)
				return ctx.Err()
			})
		whole = whole && err == nil
	}
	return whole
}

// targets adds the groups of a namespace that have a target.
func (b *Bridges) targets(ctx context.Context, namespace string, to map[route]bool) error {
	topics := func(p duly.PageParams) (duly.NamePage, error) { return b.cfg.Topics.Topics(ctx, namespace, p) }
	err := eachName(topics, func(topic string) error {
		// The other topics still count if this topic was destroyed since.
		return ignoreMissing(b.targetsOf(ctx, namespace, topic, to))
	})
	return ignoreMissing(err)
}

// targetsOf adds the groups of a topic that have a target.
func (b *Bridges) targetsOf(ctx context.Context, namespace, topic string, to map[route]bool) error {
	in := func(name string) duly.QueueRef { return duly.QueueRef{Namespace: namespace, Name: name} }
	groups := func(p duly.PageParams) (duly.NamePage, error) { return b.cfg.Topics.Groups(ctx, in(topic), p) }

	return eachName(groups, func(name string) error {
		group := in(duly.GroupName(topic, name))
		config, err := b.cfg.Engine.Config(ctx, group)
		// A group with NoTarget had a target that was removed.
		if err == nil && config.Group.Target != "" && config.Group.Target != duly.NoTarget {
			to[route{group, config.Group.Target}] = true
		}
		return ignoreMissing(err)
	})
}

// ignoreMissing returns nil if a topic was destroyed since or the engine has no topics, and err
// otherwise.
func ignoreMissing(err error) error {
	if errors.Is(err, duly.ErrNotFound) || errors.Is(err, duly.ErrUnsupported) {
		return nil
	}
	return err
}

// eachName calls do for every name in the pages of a list.
func eachName(list func(duly.PageParams) (duly.NamePage, error), do func(name string) error) error {
	for page := (duly.PageParams{Limit: duly.MaxBatch}); ; {
		names, err := list(page)
		if err != nil {
			return err
		}
		for _, name := range names.Names {
			if err := do(name); err != nil {
				return err
			}
		}
		if page.Cursor = names.Next; page.Cursor == "" {
			return nil
		}
	}
}

func (b *Bridges) start(ctx context.Context, r route) {
	ctx, stop := context.WithCancel(ctx)
	running := &bridge{stop: stop, done: make(chan struct{})}
	b.bridges[r] = running
	b.cfg.Log.Info("a bridge of a group to its target starts", "group", r.group.String(), "queue", r.target)
	b.running.Go(func() {
		defer close(running.done)
		defer stop()

		one := worker.NewBridge(b.cfg.Engine, worker.BridgeConfig{Namespace: r.group.Namespace, Group: r.group.Name,
			Queue: r.target, Logger: b.cfg.Log, Clock: b.cfg.Clock})
		// The next update starts it again.
		if err := one.Run(ctx); err != nil {
			b.cfg.Log.Error("a bridge of a group to its target has ended with an error", "group", r.group.String(), "queue", r.target, "code",
				string(duly.CodeOf(err)))
		}
	})
}
