package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/wire"
)

func queueCommand(a *app) *cobra.Command {
	return a.group("queue", "Set up, empty or remove a queue",
		queueSetCommand(a), queuePurgeCommand(a), queueDestroyCommand(a))
}

func queueSetCommand(a *app) *cobra.Command {
	var c duly.QueueConfig
	cmd := a.command("set QUEUE", "Change a queue's defaults and bounds, or make the queue",
		`Changes only what is given, at once and for all workers; jobs that are there keep what they took when they were
pushed. Prints the whole configuration.

With --delivery push, the servers send the jobs to --push-url, or to the callback of a job. That changes only while the
queue is empty, and brings other defaults: 10 tries within a day, and a lease of 15s.

A consumer group TOPIC@GROUP must exist. It also has --order, --max-held, --filter, --idle and --target, but not --shards,
--ttl, --retain and --max-jobs.`,
		`  duly queue set emails --tries 5 --backoff 15s,3m,10m,1h
  duly queue set emails --rate 50 --burst 100 --max-leased 20
  duly queue set emails --max-jobs 100000 --dead-age 30d --ttl none
  duly queue set orders --delivery push --push-url https://crm.example/hook --on-dead target:alerts
  duly queue set events@mailer --order key --max-held 1000
  duly queue set events@billing --filter type=paid --target invoices`,
		func(ctx context.Context, p *printer, args []string) error {
			return a.withNew(ctx, func(s *session) error {
				if err := checkBurst(ctx, s, args[0], c); err != nil {
					return err
				}
				return a.configure(ctx, p, s, args[0], c)
			})
		})
	cmd.Args = wants("QUEUE")
	cmd.ValidArgsFunction = a.completeQueues(1)
	f := cmd.Flags()
	countVar(f, &c.Shards, "shards", "parts, a power of two up to 256; fixed once the queue is made")
	countVar(f, &c.Defaults.Tries, "tries", "default: deliveries that may fail before a job is dead")
	boundVar(f, &c.Defaults.MaxStalls, "max-stalls", "default: run-out leases that a job survives")
	f.StringVar((*string)(&c.Defaults.Backoff), "backoff", "", "default: wait after a failure, fixed:5s, exp:1s:1h, or `steps` like 15s,3m,1h")
	leaseVar(f, &c.Defaults.Lease, "default: how long a delivery holds a job")
	spanVar(f, &c.Defaults.TTL, "ttl", "default: drop a job when it has waited so long")
	spanVar(f, &c.Defaults.Retain, "retain", "default: keep a finished job and its result so long")
	spanVar(f, &c.DeadAge, "dead-age", "drop dead jobs that are older")
	boundVar(f, &c.DeadCount, "dead-count", "drop the oldest dead jobs beyond that number")
	boundVar(f, &c.MaxJobs, "max-jobs", "refuse a push beyond that many jobs")
	boundVar(f, &c.MaxLeased, "max-leased", "jobs worked on at once, over all workers")
	f.Var(rateFlag{&c.Rate.PerSecond}, "rate", "deliveries per second, over all workers, or none")
	countVar(f, &c.Rate.Burst, "burst", "deliveries that may come at once after a pause")
	f.StringVar((*string)(&c.Delivery), "delivery", "", "`how` jobs go out: pull (workers reserve them) or push (servers send them)")
	f.StringVar(&c.Push.URL, "push-url", "", "where a push queue sends jobs without a callback: a `URL`, target:NAME or none")
	f.StringVar(&c.Push.OnDone, "on-done", "", "default: `URL` or target:NAME that gets a notice when a job is done, or none")
	f.StringVar(&c.Push.OnDead, "on-dead", "", "default: `URL` or target:NAME that gets a notice when a job is dead, or none")
	fixed(cmd, "delivery", string(duly.DeliverPull), string(duly.DeliverPush))
	groupFlags(cmd, f, &c.Group)
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if !anyGiven(cmd) {
			return misusef("nothing to change was given; %s stats QUEUE shows what is set", a.program())
		}
		return nil
	}
	return cmd
}

// configure changes a queue and prints its configuration, with a note if the
// queue is new.
func (a *app) configure(ctx context.Context, p *printer, s *session, queue string, patch duly.QueueConfig) error {
	missing := a.mustExist(ctx, s, queue)
	if err := s.Configure(ctx, s.queue(queue), patch); err != nil {
		if errors.Is(err, duly.ErrNotFound) || isTopic(err) {
			return missing
		}
		return err
	}
	q, err := describeQueue(ctx, s, queue)
	if err != nil {
		return err
	}

	if p.json {
		p.queue(&q)
		return nil
	}
	p.config(&q.Config)
	if errors.Is(missing, duly.ErrNotFound) {
		a.noteCreated(ctx, s, queue)
	}
	return nil
}

// checkBurst refuses a burst on a queue without a rate: it would bound nothing,
// and who gave it means a limit.
func checkBurst(ctx context.Context, s *session, queue string, patch duly.QueueConfig) error {
	if patch.Rate.Burst == 0 || patch.Rate.Limited() {
		return nil
	}
	now := duly.DefaultQueueConfig()
	if held, err := s.Config(ctx, s.queue(queue)); err == nil {
		now = held
	} else if !errors.Is(err, duly.ErrNotFound) {
		return err
	}
	if now.With(patch).Rate.Limited() {
		return nil
	}
	return advise(duly.Invalid("burst", "goes with a rate, and the queue has none"), "give --rate too")
}

// rateFlag is a number per second, with or without /s, or none.
type rateFlag struct{ to *float64 }

// String implements pflag.Value.
func (f rateFlag) String() string { return "" }

// Type implements pflag.Value.
func (f rateFlag) Type() string { return "n" }

// Set implements pflag.Value.
func (f rateFlag) Set(text string) error {
	if text == "none" {
		*f.to = duly.None
		return nil
	}
	n, err := strconv.ParseFloat(strings.TrimSuffix(text, "/s"), 64)
	if err != nil || !(n > 0) {
		return misusef("write a number above 0, such as 100 or 100/s (0.1 is one in ten seconds), or none")
	}
	*f.to = n
	return nil
}

func rateText(r duly.Rate) string {
	return fmt.Sprintf("%s a second, %s at once", strconv.FormatFloat(r.PerSecond, 'f', -1, 64), countText(int64(r.Burst)))
}

// purgeFlags say how much a purge removes.
type purgeFlags struct {
	n   int
	yes bool
}

func (f *purgeFlags) add(flags *pflag.FlagSet, old string) {
	countVar(flags, &f.n, "limit", "only that many, in the list's order (default: all)")
	renamed(flags, old, "limit")
	flags.BoolVar(&f.yes, "yes", false, "don't ask")
}

func queuePurgeCommand(a *app) *cobra.Command {
	var f purgeFlags
	state := ""
	cmd := a.command("purge QUEUE --state STATE", "Remove the jobs of one state",
		`Removes all of them, or the first. Leased jobs lose their receipts. Asks first, unless --yes is given.`,
		`  duly queue purge emails --state ready --yes
  duly queue purge emails --state done --limit 1000 --yes`,
		func(ctx context.Context, p *printer, args []string) error {
			if state == "" {
				return misusef("say which jobs: --state %s", strings.Join(stateNames(), ", "))
			}
			s, err := duly.ParseState(state)
			if err != nil {
				return err
			}
			return a.purge(ctx, p, args[0], s, f)
		})
	cmd.Args = wants("QUEUE")
	cmd.ValidArgsFunction = a.completeQueues(1)
	cmd.Flags().StringVar(&state, "state", "", "`state` of the jobs: delayed, ready, blocked, leased, dead or done")
	fixed(cmd, "state", stateNames()...)
	f.add(cmd.Flags(), "first")
	return cmd
}

func (a *app) purge(ctx context.Context, p *printer, queue string, state duly.State, f purgeFlags) error {
	return a.with(ctx, func(s *session) error {
		q := s.queue(queue)
		if err := a.mustExist(ctx, s, queue); err != nil {
			return err
		}
		if !f.yes {
			stats, err := s.Stats(ctx, q)
			if err != nil {
				return err
			}
			n := *stats.Sizes.Of(state)
			if f.n > 0 {
				n = min(n, int64(f.n))
			}
			if err := a.confirm(fmt.Sprintf("this removes %s of %s for good", plural(n, state.String()+" job"), queue)); err != nil {
				return err
			}
		}
		n, err := s.Purge(ctx, q, state, f.n)
		if err != nil {
			return adviseOn(duly.CodeUnavailable, err, "some may have been removed; look before you repeat: %s stats %s", a.program(), shellQuote(queue))
		}
		if p.json {
			p.line(wire.PurgedForm.Append(nil, n))
			return nil
		}
		p.printf("removed %s of %s\n", plural(int64(n), state.String()+" job"), queue)
		return nil
	})
}

func queueDestroyCommand(a *app) *cobra.Command {
	yes := false
	cmd := a.command("destroy QUEUE", "Remove a queue with every job, counter and setting",
		`Nothing of the queue is left, and nothing can bring it back. Asks first, unless --yes is given.`,
		`  duly queue destroy emails --yes`,
		func(ctx context.Context, p *printer, args []string) error {
			return a.with(ctx, func(s *session) error {
				if err := a.mustExist(ctx, s, args[0]); err != nil {
					return err
				}
				if !yes {
					if err := a.confirm("this removes " + args[0] + " with all its jobs and settings for good"); err != nil {
						return err
					}
				}
				return a.each(ctx, p, args, "destroyed", func(name string) error { return s.Destroy(ctx, s.queue(name)) })
			})
		})
	cmd.Args = wants("QUEUE")
	cmd.ValidArgsFunction = a.completeQueues(1)
	cmd.Flags().BoolVar(&yes, "yes", false, "don't ask")
	return cmd
}

// confirm asks a person before something is removed for good. Where nobody can
// answer, --yes must have been given.
func (a *app) confirm(what string) error {
	if a.json || !a.env.Terminal(a.env.Stdin) || !a.env.Terminal(a.env.Stderr) {
		return misusef("%s; add --yes if that is meant", what)
	}
	fmt.Fprintf(a.env.Stderr, "%s. Go on? [y/N] ", what)
	answer, _ := bufio.NewReader(a.env.Stdin).ReadString('\n')
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer == "y" || answer == "yes" {
		return nil
	}
	return advise(errors.New("nothing was removed"), "answer y to go on")
}
