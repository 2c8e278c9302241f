package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/cmd/duly/internal/top"
	"github.com/dulymq/duly/httpengine"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/open"
)

// leastInterval keeps a live view from being a load.
const leastInterval = 100 * time.Millisecond

func topCommand(a *app) *cobra.Command {
	interval, once := 2*time.Second, false
	cmd := a.command("top [QUEUE…]", "Watch queues live: rates, sizes, lateness",
		`Shows the queues of the namespace, or those that are named, again and again: the jobs of each state, how many are pushed,
delivered, acked, fail and stall per second, and under LATE for how long the oldest ready job has been due. It works
over every URL: the rates are the differences of what the engine has counted.

Over the URL of a server, it also shows the hosts to which that server sends the jobs of push queues: whether the gate of each
is open, closed or probing, how many requests it admits at once, how many are in flight, and how many jobs wait for it.

[paused] behind a name marks a paused queue; [limited] one with ready jobs that its limit of leased jobs or its rate holds back.

Keys: q ends it; the space bar freezes the view; / filters by a part of the name, Esc takes the filter away; s and S, or the arrows, sort by
another column, r the other way round; n, y, d, l, x, u, a, f, o sort by name, ready, delayed, leased, dead, pushed, acked,
failed, late; j and k scroll; Enter looks now.

With --once, with --json, and where there is no terminal, it prints one table: it looks twice, so that there are rates. It
leaves out a queue that it can't read, prints the others, and then fails with the error of that queue.`,
		`  duly top
  duly top emails invoices --interval 500ms
  duly top --once
  duly top --json | jq 'select(.sizes.dead > 0) | .name'`,
		func(ctx context.Context, p *printer, args []string) error {
			if interval < leastInterval {
				return misusef("--interval is %s, must be at least %s", duly.FormatDuration(interval), duly.FormatDuration(leastInterval))
			}
			return a.with(ctx, func(s *session) error { return a.top(ctx, p, s, args, interval, once) })
		})
	cmd.Args = wants("[QUEUE…]")
	cmd.ValidArgsFunction = a.completeQueues(-1)
	cmd.Flags().Var(durationFlag{to: &interval, least: leastInterval}, "interval", "how long from one look to the next")
	cmd.Flags().BoolVar(&once, "once", false, "print one table and end")
	return cmd
}

func (a *app) top(ctx context.Context, p *printer, s *session, names []string, interval time.Duration, once bool) error {
	sampler := &top.Sampler{Engine: s.Contract, Namespace: s.namespace, Clock: a.env.Clock}
	sampler.Hosts = a.hostsOf(s)
	if len(names) > 0 {
		sampler.Hosts = nil
		wanted := map[string]bool{}
		for _, name := range names {
			if wanted[name] = true; s.queue(name).IsGroup() && !slices.Contains(sampler.Groups, name) {
				sampler.Groups = append(sampler.Groups, name)
			}
		}
		sampler.Filter = func(name string) bool { return wanted[name] }
	}
	first, err := sampler.Take(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !first.Has(name) && first.Untold == nil {
			if err := a.mustExist(ctx, s, name); err != nil {
				return err
			}
		}
	}
	words := &top.Words{Count: countText, Span: roughly, Safe: oneLine, Colour: p.colour}
	model := top.NewModel(fmt.Sprintf("%s  namespace %s", open.Redact(s.url), s.namespace), interval)
	if once || p.json || a.env.Screen == nil || !a.env.Terminal(a.env.Stdout) || !a.env.Terminal(a.env.Stdin) {
		return a.topOnce(ctx, p, model, sampler, first, words)
	}
	live := &top.Live{Model: model, Sampler: sampler, Terminal: a.env.Screen(), Words: words, Clock: a.env.Clock}
	leave, err := a.enter(live)
	if err != nil {
		return err
	}
	forget := a.finally(leave)
	defer func() { forget(); leave() }()
	return live.Run(ctx, first)
}

// hostsOf returns what lists the hosts of a server, or nil for an engine.
func (a *app) hostsOf(s *session) func(ctx context.Context) ([]wire.PushHost, error) {
	switch e := s.Contract.(type) {
	case interface {
		Hosts(ctx context.Context) ([]wire.PushHost, error)
	}:
		return e.Hosts
	case interface{ HTTPPush() *httpengine.Push }:
		return e.HTTPPush().Hosts
	}
	return nil
}

// enter takes the screen. What engines log would be written over it, so the view
// shows it in a line of its own, and all of it is written once the screen is left.
func (a *app) enter(live *top.Live) (leave func(), err error) {
	release := func() {}
	if a.env.Terminal(a.env.Stderr) {
		live.Log, release = a.log.hold()
	}
	leaveScreen, err := live.Enter()
	if err != nil {
		release()
		return nil, err
	}
	return func() { leaveScreen(); release() }, nil
}

// topOnce prints what has happened in one interval; what is wrong with queues that
// can't be told of comes last.
func (a *app) topOnce(ctx context.Context, p *printer, model *top.Model, sampler *top.Sampler, first *top.Sample, words *top.Words) error {
	model.See(first, nil)
	if err := clock.Sleep(ctx, a.env.Clock, model.Interval); err != nil {
		return nil // somebody has ended it
	}
	second, err := sampler.Take(ctx)
	if err != nil {
		return err
	}
	model.See(second, nil)
	if p.json {
		for _, line := range model.Lines() {
			if err := p.value(line); err != nil {
				return err
			}
		}
		for _, line := range model.HostLines() {
			if err := p.value(line); err != nil {
				return err
			}
		}
	} else {
		for _, line := range model.Table(words) {
			p.printf("%s\n", line)
		}
	}
	if len(second.Queues) == 0 {
		a.remark("there are no queues in namespace " + sampler.Namespace)
	}
	return errors.Join(p.flush(), second.Untold)
}
