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
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/httpengine"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/open"
)

// minInterval limits the load of a live view.
const minInterval = 100 * time.Millisecond

func topCommand(a *app) *cobra.Command {
	interval, once := 2*time.Second, false
	cmd := a.command("top [QUEUE…]", "Watch the rates, sizes and lateness of queues live",
		`Shows the queues of the namespace, or the named ones, and refreshes them: the jobs in each state, how many jobs are
pushed, delivered, acked, fail and stall per second, and under LATE how long the oldest ready job has been due. It
works with every URL, because the rates are differences of the engine's counters.

For a server, it also shows the hosts to which the server sends the jobs of push queues: whether the gate of each host
is open, closed or probing, how many requests it admits concurrently, how many are in flight, and how many jobs wait
for it.

[paused] after a name marks a paused queue. [limited] marks a queue with ready jobs that cannot be delivered because
of its limit of leased jobs or its rate. [limited, next in 7s] has the time until the rate allows the next delivery.
With --json, tokens is how many deliveries the rate allows now, and next_token_in the time until the next one.

Keys: q quits; the space bar freezes the view; / filters by a part of the name, and Esc removes the filter; s and S,
or the arrows, select the column to sort by, and r reverses the order; n, y, d, l, x, u, a, f, o sort by name, ready,
delayed, leased, dead, pushed, acked, failed, late; j and k scroll; Enter refreshes.

With --once, with --json, or without a terminal, it prints one table. It takes two samples, to have rates. It leaves
out a queue that cannot be read, and fails with the error of that queue at the end.`,
		`  duly top
  duly top emails invoices --interval 500ms
  duly top --once
  duly top --json | jq 'select(.sizes.dead > 0) | .name'`,
		func(ctx context.Context, p *printer, args []string) error {
			if interval < minInterval {
				return usageErrorf("--interval is %s, must be at least %s",
					duly.FormatDuration(interval), duly.FormatDuration(minInterval))
			}
			return a.withEngine(ctx, func(s *session) error { return a.top(ctx, p, s, args, interval, once) })
		})

	cmd.Args = takesArgs("[QUEUE…]")
	cmd.ValidArgsFunction = a.completeQueues(-1)
	cmd.Flags().Var(durationFlag{to: &interval, min: minInterval}, "interval", "time between two samples")
	cmd.Flags().BoolVar(&once, "once", false, "print one table and exit")
	return cmd
}

func (a *app) top(
	ctx context.Context, p *printer, s *session, names []string, interval time.Duration, once bool,
) error {
	sampler := a.newSampler(s, names)
	first, err := sampler.Take(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		// A queue that could not be read is missing too, but it exists.
		if !first.Has(name) && first.Failed == nil {
			if err := a.mustExist(ctx, s, name); err != nil {
				return err
			}
		}
	}

	format := &top.Format{Count: countText, Duration: shortDuration, Safe: oneLine, Colour: p.colour}
	model := top.NewModel(fmt.Sprintf("%s  namespace %s", open.Redact(s.url), s.namespace), interval)
	isTerminal := a.env.Terminal(a.env.Stdout) && a.env.Terminal(a.env.Stdin)

	// Without a terminal, keys cannot be read and the screen cannot be redrawn.
	if once || p.json || a.env.Screen == nil || !isTerminal {
		return a.topOnce(ctx, p, model, sampler, first, format)
	}

	live := &top.LiveView{Model: model, Sampler: sampler, Terminal: a.env.Screen(), Format: format, Clock: a.env.Clock}
	leave, err := a.enterScreen(live)
	if err != nil {
		return err
	}

	// A second signal must restore the screen too, or the shell would be unusable.
	remove := a.onAbort(leave)
	defer func() { remove(); leave() }()
	return live.Run(ctx, first)
}

// newSampler returns a sampler for the named queues, or for all queues and the hosts of
// push queues.
func (a *app) newSampler(s *session, names []string) *top.Sampler {
	sampler := &top.Sampler{Engine: s.Engine, Namespace: s.namespace, Clock: a.env.Clock}
	if len(names) == 0 {
		sampler.Hosts = hostsOf(s)
		return sampler
	}

	named := map[string]bool{}
	for _, name := range names {
		// Groups are not in the list of queues, so the sampler reads each by its name.
		if named[name] = true; s.queue(name).IsGroup() && !slices.Contains(sampler.Groups, name) {
			sampler.Groups = append(sampler.Groups, name)
		}
	}
	sampler.Filter = func(name string) bool { return named[name] }
	return sampler
}

// hostsOf returns a function that lists the hosts of a server, nil for an engine without
// a server.
func hostsOf(s *session) func(ctx context.Context) ([]contract.PushHost, error) {
	switch e := s.Engine.(type) {
	case interface {
		Hosts(ctx context.Context) ([]contract.PushHost, error)
	}:
		return e.Hosts
	case interface{ HTTPPush() *httpengine.Push }:
		return e.HTTPPush().Hosts
	}
	return nil
}

// enterScreen switches to the screen of the view. The log of engines would overwrite it, so the
// view shows the newest line, and leave writes all lines after the screen was restored.
func (a *app) enterScreen(live *top.LiveView) (leave func(), err error) {
	release := func() {}

	// If standard error is a file, the log does not disturb the screen.
	if a.env.Terminal(a.env.Stderr) {
		live.Log, release = a.log.hold()
	}
	leaveScreen, err := live.Enter()
	if err != nil {
		// The log must not stay held after a failed start.
		release()
		return nil, err
	}
	return func() { leaveScreen(); release() }, nil
}

// topOnce prints a table of one interval. It returns the errors of queues that cannot be
// read.
func (a *app) topOnce(
	ctx context.Context, p *printer, model *top.Model, sampler *top.Sampler, first *top.Sample, format *top.Format,
) error {
	model.Add(first, nil)
	// Rates are differences, so one sample has none.
	if err := clock.Sleep(ctx, a.env.Clock, model.Interval); err != nil {
		return nil // the command was interrupted
	}
	second, err := sampler.Take(ctx)
	if err != nil {
		return err
	}
	model.Add(second, nil)

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
		for _, line := range model.Table(format) {
			p.printf("%s\n", line)
		}
	}
	if len(second.Queues) == 0 {
		a.noteOnTerminal("there are no queues in namespace %s", sampler.Namespace)
	}
	return errors.Join(p.flush(), second.Failed)
}
