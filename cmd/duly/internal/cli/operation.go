package cli

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/httpengine"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/server/failures"
)

func operationCommand(a *app) *cobra.Command {
	return a.group("operation", "Requeue, delete or promote many jobs in the background of a server",
		operationStartCommand(a), operationListCommand(a), operationGetCommand(a), operationChangeCommand(a, "pause"),
		operationChangeCommand(a, "continue"), operationChangeCommand(a, "stop"))
}

// operationStore is the part of a server with bulk operations. See [httpengine.Operations].
type operationStore interface {
	Start(ctx context.Context, n contract.NewOperation) (contract.Operation, error)
	List(ctx context.Context, p duly.PageParams) ([]contract.Operation, string, error)
	Get(ctx context.Context, id string) (contract.Operation, error)
	Pause(ctx context.Context, id string) error
	Continue(ctx context.Context, id string) error
	Stop(ctx context.Context, id string) error
}

// operationServer is an engine of tests with operations.
type operationServer interface{ operations() operationStore }

// withOperations opens the engine and calls do with the operations of its server.
func (a *app) withOperations(ctx context.Context, do func(s *session, operations operationStore) error) error {
	return a.withEngine(ctx, func(s *session) error {
		var operations operationStore
		switch e := s.Engine.(type) {
		case operationServer:
			operations = e.operations()
		case interface {
			Operations() *httpengine.Operations
		}:
			operations = e.Operations()
		}
		if operations == nil {
			return withHint(unsupported("operations"), "only a server works in the background: set its address with --url, "+
				"or see: %s dead requeue --help", a.program())
		}
		return withHintFor(duly.CodeNotFound, do(s, operations), "see the operations: %s operation list", a.program())
	})
}

// startFlags are the flags of operation start.
type startFlags struct {
	contract.NewOperation
	state, then string
	canary      int
	yes, follow bool
}

func operationStartCommand(a *app) *cobra.Command {
	var f startFlags
	cmd := a.command("start KIND QUEUE [ID…]", "Start an operation",
		`KIND is requeue, delete, promote or purge. A requeue takes all dead jobs, those of a --group, or those with the IDs. A
deletion takes the jobs of a --group or with the IDs, a promotion all delayed jobs or those with the IDs, and a purge
all jobs of a --state. No operation takes a job that died or was pushed after its start.

--rate protects the service behind the queue. --canary requeues a few jobs first, at most a tenth. Then the operation
waits for operation continue, or with --then continue for 90 % of these jobs to succeed. It stops by itself when more
than 20 % of the requeued jobs are dead again.

A deletion and a purge ask first, unless --yes is given. The server continues without this command.`,
		`  duly operation start requeue emails --group c4e7bfbe4fea --canary 10 --rate 100
  duly operation start requeue emails --canary 20 --then continue --tries 3 --follow
  duly operation start delete emails --group c4e7bfbe4fea --yes
  duly operation start promote emails --rate 50
  duly operation start purge emails --state dead --yes --follow`,
		func(ctx context.Context, p *printer, args []string) error {
			if err := f.read(args); err != nil {
				return err
			}
			return a.withOperations(ctx, func(s *session, operations operationStore) error {
				return a.startOperation(ctx, p, s, operations, &f)
			})
		})

	cmd.Args = takesArgs("KIND", "QUEUE", "[ID…]")
	cmd.ValidArgsFunction = completeKinds(a.completeQueues(2))

	flags := cmd.Flags()
	flags.StringVar(&f.Group, "group", "", "only the dead jobs of this `group`, see dead list --groups")
	flags.StringVar(&f.state, "state", "", "`state` of the jobs of a purge, or the only one of a deletion by IDs")
	flags.Var(rateFlag{&f.Rate}, "rate", "jobs per second (default none)")
	countVar(flags, &f.canary, "canary", "requeue so many jobs first")
	flags.StringVar(&f.then, "then", "", "after the canary: `wait|continue` (default wait)")
	countVar(flags, &f.Tries, "tries", "new number of tries of a requeue (default: unchanged)")
	optionalDurationVar(flags, &f.TTL, "ttl", "drop requeued jobs after waiting this long (default: never)")
	flags.BoolVar(&f.yes, "yes", false, "don't ask")
	flags.BoolVar(&f.follow, "follow", false, "show the progress until the end")
	completeValues(cmd, "state", stateNames()...)
	completeValues(cmd, "then", contract.CanaryWait, contract.CanaryContinue)
	return cmd
}

// completeKinds completes the kind of an operation, and then the queue.
func completeKinds(queues cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return []cobra.Completion{"requeue", "delete", "promote", "purge"}, cobra.ShellCompDirectiveNoFileComp
		}
		return queues(cmd, args, toComplete)
	}
}

// read reads the arguments and the flags that have no fields of their own.
func (f *startFlags) read(args []string) (err error) {
	f.Kind, f.Queue, f.IDs = contract.OperationKind(args[0]), args[1], args[2:]
	if f.Rate == duly.None {
		f.Rate = 0
	}
	switch {
	case f.Group != "" && !failures.IsFingerprint(f.Group):
		return usageErrorf("--group is %q, must have 12 hexadecimal digits; take it from dead list --groups", f.Group)
	case f.Group != "" && len(f.IDs) > 0:
		return usageErrorf("--group and IDs are both given, give one of them")
	case f.then != "" && f.canary == 0:
		return usageErrorf("--then needs --canary")
	case f.canary > 0:
		f.Canary = &contract.OperationCanary{Jobs: f.canary, Then: f.then}
	}
	if f.state != "" {
		f.State, err = contract.ParseState(f.state)
	}
	return err
}

// startOperation asks where jobs are deleted, starts an operation, and follows it if the flag says so.
func (a *app) startOperation(
	ctx context.Context, p *printer, s *session, operations operationStore, f *startFlags,
) error {
	// A misspelled queue looks like an empty one.
	if err := a.mustExist(ctx, s, f.Queue); err != nil {
		return err
	}
	deletes := f.Kind == contract.OperationDelete || f.Kind == contract.OperationPurge
	if deletes && !f.yes {
		which := "the " + f.state + " jobs"
		switch {
		case len(f.IDs) > 0:
			which = plural(int64(len(f.IDs)), "job")
		case f.Group != "":
			which = "the dead jobs of the group " + f.Group
		}
		if err := a.confirm(fmt.Sprintf("this removes %s of %s permanently", which, f.Queue)); err != nil {
			return err
		}
	}

	o, err := operations.Start(ctx, f.NewOperation)
	if err != nil {
		return withHintFor(duly.CodeUnavailable, err, "it may have been started; check before you repeat: %s operation list",
			a.program())
	}
	if f.follow {
		return a.followOperation(ctx, p, operations, o.ID)
	}
	if p.json {
		p.line(wire.OperationForm.Append(nil, o))
		return nil
	}
	p.printf("%s %s: %s of %s, %s\n", o.State, o.ID, o.Kind, o.Queue, o.Filter)
	a.noteOnTerminal("to see its progress: %s operation get %s --follow", a.program(), o.ID)
	return nil
}

func operationListCommand(a *app) *cobra.Command {
	limit, cursor := 20, ""
	cmd := a.command("list", "List operations, the newest first",
		`Lists the operations of the namespace on the server that answers. DONE is the number of jobs that were changed, and
FOUND that of all jobs at the start.`,
		`  duly operation list
  duly operation list --limit 100
  duly operation list --json | jq -r 'select(.state == "interrupted") | .id'`,
		func(ctx context.Context, p *printer, _ []string) error {
			return a.withOperations(ctx, func(_ *session, operations operationStore) error {
				list, next, err := operations.List(ctx, duly.PageParams{Limit: limit, Cursor: cursor})
				if err != nil {
					return err
				}
				p.operations(list)
				if next != "" && !p.json {
					a.note("… more: %s operation list --cursor %s", a.program(), next)
				}
				return nil
			})
		})

	cmd.Args = noArgs
	countVar(cmd.Flags(), &limit, "limit", "maximum number, up to 1000 (default 20)")
	cmd.Flags().StringVar(&cursor, "cursor", "", "continue after this `operation`")
	return cmd
}

// operations prints operations as a table, or as a line of JSON each.
func (p *printer) operations(list []contract.Operation) {
	t := p.newTable("OPERATION", "STATE", "KIND", "QUEUE", ">DONE", ">FOUND", ">SKIPPED", ">FAILED", "STARTED", "BY", "")
	for i := range list {
		o := &list[i]
		if p.json {
			p.line(wire.OperationForm.Append(nil, *o))
			continue
		}
		t.add(txt(o.ID), txt(string(o.State)), txt(string(o.Kind)), txt(o.Queue), txt(countText(o.Done)), txt(countText(o.Found)),
			txt(countText(o.Skipped)), txt(countText(o.Failed)), txt(relative(o.Started, p.now())), txt(o.By),
			cell{noticeOf(o), yellow})
	}
	t.flush()
}

// noticeOf returns the text that an operator must see first.
func noticeOf(o *contract.Operation) string {
	if o.Error != "" {
		return o.Error
	}
	return o.Reason
}

func operationGetCommand(a *app) *cobra.Command {
	follow, answers := false, false
	cmd := a.command("get ID", "Show an operation and its progress",
		`Shows the jobs, the counts, the rate and the expected end. --answers prints the results of the last 100 jobs.

--follow shows the progress until the operation has ended, or needs an operator. The exit status is 1 if it was stopped
or has failed. If the command is stopped, the operation continues.`,
		`  duly operation get 01J0000000000000000000000E
  duly operation get 01J0000000000000000000000E --follow
  duly operation get 01J0000000000000000000000E --answers --json | jq -r '.answers[] | .id'`,
		func(ctx context.Context, p *printer, args []string) error {
			return a.withOperations(ctx, func(_ *session, operations operationStore) error {
				if follow {
					return a.followOperation(ctx, p, operations, args[0])
				}
				o, err := operations.Get(ctx, args[0])
				if err != nil {
					return err
				}
				if !answers {
					o.Answers = nil
				}
				p.operation(&o)
				return nil
			})
		})

	cmd.Args = takesArgs("ID")
	cmd.ValidArgsFunction = noCompletion
	cmd.Flags().BoolVar(&follow, "follow", false, "show the progress until the end")
	cmd.Flags().BoolVar(&answers, "answers", false, "print the results of the last jobs")
	return cmd
}

// operation prints one operation.
func (p *printer) operation(o *contract.Operation) {
	if p.json {
		p.line(wire.OperationForm.Append(nil, *o))
		return
	}
	found, rate, canary, group := countText(o.Found), "no limit", "", o.Group
	if !o.Counted {
		found += ", counting"
	}
	if o.Rate > 0 {
		rate = perSecond(o.Rate)
	}
	if o.CurrentRate > 0 {
		rate += ", now " + perSecond(o.CurrentRate)
	}
	if c := o.Canary; c != nil {
		canary = fmt.Sprintf("%d jobs, then %s: %d succeeded, %d failed", c.Jobs, c.Then, c.Succeeded, c.Failed)
	}

	now := p.now()
	p.pairs(
		txt("state"), txt(string(o.State)),
		txt("reason"), cell{o.Reason, yellow},
		txt("error"), cell{o.Error, red},
		txt("kind"), txt(string(o.Kind)),
		txt("queue"), txt(o.Queue),
		txt("jobs"), txt(o.Filter),
		txt("group"), txt(group),
		txt("canary"), txt(canary),
		txt("found"), txt(found),
		txt("done"), txt(countText(o.Done)),
		txt("skipped"), txt(countText(o.Skipped)),
		txt("failed"), txt(countText(o.Failed)),
		txt("rate"), txt(rate),
		txt("started"), txt(momentText(o.Started, now)),
		txt("by"), txt(o.By),
		txt("expected end"), txt(momentText(o.ExpectedEnd, now)),
		txt("ended"), txt(momentText(o.Ended, now)),
	)
	for i := range o.Answers {
		r := &o.Answers[i]
		p.printf("%s  %s  %s  %s\n", r.At.UTC().Format(time.TimeOnly), r.Outcome, oneLine(r.ID), oneLine(r.Error))
	}
}

func perSecond(rate float64) string { return strconv.FormatFloat(rate, 'g', 4, 64) + " a second" }

// operationChangeCommand returns the command pause, continue or stop.
func operationChangeCommand(a *app, use string) *cobra.Command {
	short, done := "Pause operations", "paused"
	long := `No further job is taken. The command can be repeated.`
	change := operationStore.Pause
	switch use {
	case "continue":
		short, done, change = "Continue operations", "continued", operationStore.Continue
		long = `Continues operations after a pause, after a restart of their server, or after their canary.`
	case "stop":
		short, done, change = "Stop operations", "stopped", operationStore.Stop
		long = `No further job is taken, and a stopped operation cannot continue. Jobs that were changed stay so. The command can be
repeated.`
	}
	cmd := a.command(use+" ID…", short, long, "  duly operation "+use+" 01J0000000000000000000000E",
		func(ctx context.Context, p *printer, args []string) error {
			return a.withOperations(ctx, func(_ *session, operations operationStore) error {
				return a.forEach(ctx, p, args, done, func(id string) error { return change(operations, ctx, id) })
			})
		})

	cmd.Args = takesArgs("ID…")
	cmd.ValidArgsFunction = noCompletion
	return cmd
}
