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
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/queueplan"
	"github.com/dulymq/duly/internal/wire"
)

func queueCommand(a *app) *cobra.Command {
	return a.group("queue", "Configure, empty or remove a queue",
		queueSetCommand(a), queuePurgeCommand(a), queueDestroyCommand(a))
}

func queueSetCommand(a *app) *cobra.Command {
	var c duly.QueueConfig
	dryRun := false
	cmd := a.command("set QUEUE", "Change a queue's defaults and bounds, or create the queue",
		`Changes only the given settings, at once and for all workers. Existing jobs keep the defaults of the time when they
were pushed. Prints the whole configuration.

With --delivery push, the servers send the jobs to --push-url, or to the callback of a job. It can change only while
the queue is empty, and it has other defaults: 10 tries within a day, and a lease of 15s.

With --adapt, the queue lowers --rate and --max-leased while deliveries fail, down to this share, and raises them again.
After 20 failures in a row it delivers one job at a time, until one succeeds.

--dry-run changes nothing. It prints the settings that would change, and what that would do to the jobs of the queue.

A consumer group TOPIC@GROUP must exist. It also has --order, --max-held, --filter, --idle and --target, but not
--shards, --ttl, --retain and --max-jobs.`,
		`  duly queue set emails --tries 5 --backoff 15s,3m,10m,1h
  duly queue set emails --rate 50 --burst 100 --max-leased 20
  duly queue set emails --max-leased 10 --dry-run
  duly queue set emails --max-jobs 100000 --dead-age 30d --ttl none
  duly queue set orders --delivery push --push-url https://crm.example/hook --on-dead target:alerts
  duly queue set emails --rate 50 --adapt 0.05   # down to 5 % while the service fails
  duly queue set emails --reopen
  duly queue set events@mailer --order key --max-held 1000
  duly queue set events@billing --filter type=paid --target invoices`,
		func(ctx context.Context, p *printer, args []string) error {
			if dryRun {
				return a.withEngine(ctx, func(s *session) error { return a.planQueue(ctx, p, s, args[0], c) })
			}
			return a.withNewEngine(ctx, func(s *session) error {
				// A burst needs the rate that the queue has now, so the check is a call before the change.
				if err := checkBurst(ctx, s, args[0], c); err != nil {
					return err
				}
				return a.configure(ctx, p, s, args[0], c)
			})
		})

	cmd.Args = takesArgs("QUEUE")
	cmd.ValidArgsFunction = a.completeQueues(1)
	a.queueFlags(cmd, &c)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print the changes and their effects, and change nothing")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if !anyFlagSet(cmd) || dryRun && c == (duly.QueueConfig{}) {
			return usageErrorf("nothing to change; %s stats QUEUE shows the settings", a.program())
		}
		return nil
	}
	return cmd
}

// queueFlags adds the flags for the settings of a queue.
func (a *app) queueFlags(cmd *cobra.Command, c *duly.QueueConfig) {
	f := cmd.Flags()
	countVar(f, &c.Shards, "shards", "number of shards, a power of two up to 256; it never changes")
	d := &c.Defaults
	ruleVars(f, "default: ", jobRules{
		tries: &d.Tries, maxStalls: &d.MaxStalls, backoff: &d.Backoff, lease: &d.Lease, ttl: &d.TTL, retain: &d.Retain,
	})

	optionalDurationVar(f, &c.DeadAge, "dead-age", "drop dead jobs that are older")
	optionalCountVar(f, &c.DeadCount, "dead-count", "drop the oldest dead jobs if there are more")
	optionalCountVar(f, &c.MaxJobs, "max-jobs", "refuse a push if the queue has this many jobs")
	optionalCountVar(f, &c.MaxLeased, "max-leased", "maximum number of leased jobs, over all workers")
	f.Var(rateFlag{&c.Rate.PerSecond}, "rate", "deliveries per second, over all workers, or none")
	countVar(f, &c.Rate.Burst, "burst", "deliveries at once after a pause")
	f.Var(shareFlag{&c.Adapt.Floor}, "adapt", "lowest share of the limits while deliveries fail, 0.001 to 1, or none")
	f.BoolVar(&c.Reopen, "reopen", false, "open a queue that a worker or release --slow has closed")

	f.StringVar((*string)(&c.Delivery), "delivery", "",
		"`how` jobs are delivered: pull (workers reserve them) or push (servers send them)")
	f.StringVar(&c.Push.URL, "push-url", "",
		"where a push queue sends jobs without a callback: a `URL`, target:NAME or none")
	f.StringVar(&c.Push.OnDone, "on-done", "",
		"default: `URL` or target:NAME that gets a notice when a job is done, or none")
	f.StringVar(&c.Push.OnDead, "on-dead", "",
		"default: `URL` or target:NAME that gets a notice when a job is dead, or none")
	completeValues(cmd, "delivery", string(duly.DeliverPull), string(duly.DeliverPush))
	groupFlags(cmd, f, &c.Group)
}

// configure changes a queue and prints its configuration, with a note if the
// queue is new.
func (a *app) configure(ctx context.Context, p *printer, s *session, queue string, patch duly.QueueConfig) error {
	// Configure creates a missing queue, so the check must come before it.
	missing := a.mustExist(ctx, s, queue)
	if patch == (duly.QueueConfig{Reopen: true}) && errors.Is(missing, duly.ErrNotFound) {
		return missing
	}
	if err := s.Configure(ctx, s.queue(queue), patch); err != nil {
		if errors.Is(err, duly.ErrNotFound) || errors.Is(missing, duly.ErrConflict) {
			return missing
		}
		return a.withConfigureHint(ctx, s, err, queue, patch)
	}

	// The configuration is read back, so that the output has the values that the engine filled in.
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

// plannedView is the JSON of a change that was not made.
type plannedView struct {
	Queue   string       `json:"queue"`
	Creates bool         `json:"creates,omitempty"`
	Changes []changeView `json:"changes"`
	Effects []string     `json:"effects"`
}

type changeView struct {
	Setting string `json:"setting"`
	From    string `json:"from"`
	To      string `json:"to"`
}

// planQueue prints what a change of a queue would do.
func (a *app) planQueue(ctx context.Context, p *printer, s *session, queue string, patch duly.QueueConfig) error {
	if err := checkBurst(ctx, s, queue, patch); err != nil {
		return err
	}
	plan, err := queueplan.Of(ctx, s, s.queue(queue), patch, a.env.Clock.Now())
	if errors.Is(err, duly.ErrNotFound) {
		return a.mustExist(ctx, s, queue)
	}
	if err != nil {
		return a.withConfigureHint(ctx, s, err, queue, patch)
	}

	if p.json {
		v := plannedView{Queue: queue, Creates: plan.Creates, Changes: []changeView{}, Effects: plan.Effects}
		for _, c := range plan.Changes {
			v.Changes = append(v.Changes, changeView{c.Field, c.From, c.To})
		}
		if v.Effects == nil {
			v.Effects = []string{}
		}
		return p.value(v)
	}

	if len(plan.Changes) > 0 {
		t := p.newTable("SETTING", "NOW", "THEN")
		for _, c := range plan.Changes {
			t.add(txt(c.Field), txt(c.From), txt(c.To))
		}
		t.flush()
	} else if len(plan.Effects) == 0 {
		p.printf("The queue has these settings.\n")
	}
	if plan.Creates {
		p.printf("The queue does not exist, so this creates it.\n")
	}
	for _, effect := range plan.Effects {
		p.printf("%s\n", effect)
	}
	return p.flush()
}

// withConfigureHint adds a hint to the error of a Configure.
func (a *app) withConfigureHint(
	ctx context.Context, s *session, err error, queue string, patch duly.QueueConfig,
) error {
	// A group changes to key order only while it holds no message, so the hint lists them.
	if s.queue(queue).IsGroup() && patch.Group.Order == duly.OrderKeys {
		err = withHintFor(duly.CodeConflict, err, "see them: %s job list %s", a.program(), shellQuote(queue))
	}
	if patch.Shards != 0 {
		err = withHintFor(duly.CodeUnsupported, err, "") // the text already says to leave out shards
	}
	return a.withFullHint(ctx, s, err, queue)
}

// checkBurst refuses a burst for a queue without a rate, because it would limit nothing.
func checkBurst(ctx context.Context, s *session, queue string, patch duly.QueueConfig) error {
	if patch.Rate.Burst == 0 || patch.Rate.Limited() {
		return nil
	}

	// A queue that does not exist yet will get the defaults.
	config := contract.DefaultQueueConfig()
	if current, err := s.Config(ctx, s.queue(queue)); err == nil {
		config = current
	} else if !errors.Is(err, duly.ErrNotFound) {
		return err
	}
	if contract.PatchConfig(config, patch).Rate.Limited() {
		return nil
	}
	return withHint(contract.Invalid("burst", "needs a rate, and the queue has none"), "give --rate too")
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
	// The negated comparison also refuses NaN, which compares false with everything.
	if err != nil || !(n > 0) {
		return usageErrorf("write a number above 0, such as 100 or 100/s (0.1 is one in ten seconds), or none")
	}
	*f.to = n
	return nil
}

// shareFlag is a number up to 1, or none.
type shareFlag struct{ to *float64 }

// String implements pflag.Value.
func (f shareFlag) String() string { return "" }

// Type implements pflag.Value.
func (f shareFlag) Type() string { return "share" }

// Set implements pflag.Value.
func (f shareFlag) Set(text string) error {
	if text == "none" {
		*f.to = duly.None
		return nil
	}
	n, err := strconv.ParseFloat(text, 64)
	// The negated comparison also refuses NaN, which compares false with everything.
	if err != nil || !(n > 0 && n <= 1) {
		return usageErrorf("write a number from 0.001 to 1, such as 0.05 for 5 %%, or none")
	}
	*f.to = n
	return nil
}

func rateText(r duly.Rate) string {
	perSecond := strconv.FormatFloat(r.PerSecond, 'f', -1, 64)
	return fmt.Sprintf("%s a second, %s at once", perSecond, countText(int64(r.Burst)))
}

// purgeFlags are the flags of a purge.
type purgeFlags struct {
	limit int // 0 means all
	yes   bool
}

// add adds the flags. oldName is an old name of --limit.
func (f *purgeFlags) add(flags *pflag.FlagSet, oldName string) {
	countVar(flags, &f.limit, "limit", "maximum number, in the list's order (default: all)")
	acceptOldName(flags, oldName, "limit")
	flags.BoolVar(&f.yes, "yes", false, "don't ask")
}

func queuePurgeCommand(a *app) *cobra.Command {
	var f purgeFlags
	state := ""
	cmd := a.command("purge QUEUE --state STATE", "Remove the jobs of one state",
		`Removes all jobs of the state, or the first ones. Leased jobs lose their receipts. Asks first, unless --yes is
given.`,
		`  duly queue purge emails --state ready --yes
  duly queue purge emails --state done --limit 1000 --yes`,
		func(ctx context.Context, p *printer, args []string) error {
			if state == "" {
				return usageErrorf("the state is missing; give --state %s", strings.Join(stateNames(), ", "))
			}
			s, err := contract.ParseState(state)
			if err != nil {
				return err
			}
			return a.purge(ctx, p, args[0], s, f)
		})

	cmd.Args = takesArgs("QUEUE")
	cmd.ValidArgsFunction = a.completeQueues(1)
	cmd.Flags().StringVar(&state, "state", "", "`state` of the jobs: delayed, ready, blocked, leased, dead or done")
	completeValues(cmd, "state", stateNames()...)
	f.add(cmd.Flags(), "first")
	return cmd
}

// purge removes jobs of one state.
func (a *app) purge(ctx context.Context, p *printer, queue string, state duly.State, f purgeFlags) error {
	return a.withEngine(ctx, func(s *session) error {
		q := s.queue(queue)
		// The check comes before the question, so that nobody confirms the removal from a misspelled queue.
		if err := a.mustExist(ctx, s, queue); err != nil {
			return err
		}
		if !f.yes {
			stats, err := s.Stats(ctx, q)
			if err != nil {
				return err
			}
			n := *stats.Sizes.Of(state)
			if f.limit > 0 {
				// The limit may be larger than the number of jobs. The question has the number that is really removed.
				n = min(n, int64(f.limit))
			}
			jobs := plural(n, state.String()+" job")
			if err := a.confirm(fmt.Sprintf("this removes %s of %s permanently", jobs, queue)); err != nil {
				return err
			}
		}

		n, err := s.Purge(ctx, q, state, f.limit)
		if err != nil {
			return withHintFor(duly.CodeUnavailable, err, "some jobs may be removed; check before you repeat: %s stats %s",
				a.program(), shellQuote(queue))
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
		`This cannot be undone. Asks first, unless --yes is given.`,
		`  duly queue destroy emails --yes`,
		func(ctx context.Context, p *printer, args []string) error {
			return a.withEngine(ctx, func(s *session) error {
				if err := a.mustExist(ctx, s, args[0]); err != nil {
					return err
				}
				if !yes {
					what := "this removes " + args[0] + " with all its jobs and settings permanently"
					if err := a.confirm(what); err != nil {
						return err
					}
				}
				return a.forEach(ctx, p, args, "destroyed", func(name string) error {
					return s.Destroy(ctx, s.queue(name))
				})
			})
		})

	cmd.Args = takesArgs("QUEUE")
	cmd.ValidArgsFunction = a.completeQueues(1)
	cmd.Flags().BoolVar(&yes, "yes", false, "don't ask")
	return cmd
}

// confirm asks before a removal. If there is no terminal to ask on, it returns an error
// that names --yes.
func (a *app) confirm(what string) error {
	// The question needs a person who can read it and answer it, so both streams must be terminals.
	if a.json || !a.env.Terminal(a.env.Stdin) || !a.env.Terminal(a.env.Stderr) {
		return usageErrorf("%s; add --yes to confirm", what)
	}
	fmt.Fprintf(a.env.Stderr, "%s. Continue? [y/N] ", what)

	// An error leaves the answer empty, which means no.
	answer, _ := bufio.NewReader(a.env.Stdin).ReadString('\n')
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer == "y" || answer == "yes" {
		return nil
	}
	return withHint(errors.New("nothing was removed"), "answer y to continue")
}
