package cli

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/worker"
)

// workFlags are those of `duly work`.
type workFlags struct {
	exec        string
	argv        []string // in place of exec
	concurrency int
	snooze      time.Duration
	lease       time.Duration
	timeout     time.Duration
	drain       time.Duration
	result      bool
	once        bool
	untilEmpty  bool
	strict      bool
	passURL     bool
	most        int      // jobs; 0: no bound
	from        fromFlag // empty: groups are not made
}

func newWorkFlags() *workFlags {
	return &workFlags{concurrency: 1, snooze: 30 * time.Second, drain: worker.DefaultDrain}
}

const workLong = `The command gets the job's body on standard input and its fields as variables:

  DULY_JOB_ID          DULY_JOB_QUEUE       DULY_JOB_NAMESPACE   DULY_JOB_RECEIPT
  DULY_JOB_ATTEMPT     DULY_JOB_TRIES       DULY_JOB_FAILURES    DULY_JOB_STALLS
  DULY_JOB_DUE         DULY_JOB_PUSHED_AT   DULY_JOB_EXPIRES_AT  DULY_JOB_LEASE_END
  DULY_JOB_PRIORITY    DULY_JOB_ORDER_KEY   DULY_JOB_HEADER_X    (for each header x)

--exec passes CMD to the shell. The words after -- are a program and its arguments, without a shell. The output of the
command goes where duly prints. The command does not get DULY_URL, DULY_ADMIN_URL and DULY_TOKEN, unless --pass-url is
set: then it can call this engine.

Exit status 0 acks the job. 75 gives it back for the time of --snooze and uses no try. Anything else is a failed try,
and the end of what the command printed to standard error is kept with the job. A script can look like this:

  #!/bin/sh
  set -e
  body=$(cat)
  echo "$DULY_JOB_ID: try $DULY_JOB_ATTEMPT of $DULY_JOB_TRIES"
  curl -fsS --data-binary "$body" https://example.com/hook || exit 75

It works until INT or TERM, with --once for one job, with --max for so many, with --until-empty until no job is due. Its own exit status does not
depend on the jobs.

The lease is extended while the command runs. If it is lost, the command and every process that it started get TERM, and
5 s later KILL. On INT or TERM duly takes no more jobs, waits --drain for running commands, and gives back the rest.

For a consumer group of a topic, give TOPIC@GROUP as the queue. --from makes the group if it does not exist.

Several queues share the commands equally. With --strict-order a job of the first goes before all of the second.`

func workCommand(a *app) *cobra.Command {
	f := newWorkFlags()
	var cmd *cobra.Command
	cmd = a.command("work QUEUE… (--exec CMD | -- CMD [ARG…])", "Run a command for every job that is due", workLong,
		`  duly work emails --exec ./send-mail
  duly work emails --until-empty -- ./send-mail --from shop@example.com
  duly work emails --once --exec 'cat; echo " is try $DULY_JOB_ATTEMPT of $DULY_JOB_TRIES"'
  duly work urgent emails --exec 'curl -fsS --data-binary @- https://example.com/hook' --concurrency 8
  duly work reports --exec ./report --timeout 10m --result --json
  duly work events@mailer --from start --exec ./send-mail`,
		func(ctx context.Context, p *printer, args []string) error {
			queues, argv := beforeDash(cmd, args)
			return a.startWork(ctx, p, queues, argv, f)
		})
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		queues, _ := beforeDash(cmd, args)
		return wants("QUEUE…")(cmd, queues)
	}
	cmd.ValidArgsFunction = a.completeQueues(0)
	f.add(cmd.Flags())
	return cmd
}

// startWork checks the flags and works queues and groups.
func (a *app) startWork(ctx context.Context, p *printer, queues, argv []string, f *workFlags) error {
	switch {
	case f.exec != "" && len(argv) > 0:
		return misusef("--exec and a command after -- are both given, give one of them")
	case f.exec == "" && len(argv) == 0:
		return misusef("the command is missing; give --exec CMD, or -- CMD ARG…")
	case f.once && f.most > 0:
		return misusef("--once and --max are both given, give one of them")
	}
	if f.once {
		f.most = 1
	}
	f.argv = argv
	a.hears = hearAll
	return a.with(ctx, func(s *session) error { return a.work(ctx, p, s, queues, f) })
}

// add adds the flags.
func (f *workFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.exec, "exec", "", "the `command` to run, for the shell")
	countVar(flags, &f.concurrency, "concurrency", "commands that run at once")
	flags.BoolVar(&f.once, "once", false, "work one job and end; wait for it unless --until-empty is set too")
	countVar(flags, &f.most, "max", "end after this many jobs (default: none)")
	flags.Var(&f.from, "from", "make a group TOPIC@GROUP that does not exist; it begins at a `place`: start, end, a time or a position")
	flags.BoolVar(&f.untilEmpty, "until-empty", false, "end when no job is due")
	flags.BoolVar(&f.passURL, "pass-url", false, "pass DULY_URL and DULY_TOKEN to the command")
	durationVar(flags, &f.snooze, "snooze", "how long to give a job back for that exits with 75")
	leaseVar(flags, &f.lease, "how long to hold a job at a time (default: as the job says)")
	durationVar(flags, &f.timeout, "timeout", "end a command that runs longer; it counts as a failed try")
	flags.Var(durationFlag{to: &f.drain, zero: true, none: true}, "drain", "how long running commands may go on after INT or TERM")
	flags.BoolVar(&f.result, "result", false, "keep what the command prints as the job's result (with push --retain)")
	flags.BoolVar(&f.strict, "strict-order", false, "take a job of a queue only when the queues before it have none")
}

// beforeDash cuts the arguments at "--".
func beforeDash(cmd *cobra.Command, args []string) (before, behind []string) {
	if at := cmd.ArgsLenAtDash(); at >= 0 {
		return args[:at], args[at:]
	}
	return args, nil
}

// work runs a worker of package worker until the first signal.
func (a *app) work(ctx context.Context, p *printer, s *session, queues []string, f *workFlags) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	log := newJobLog(p, stop, s.Contract)
	defer log.close()
	x := &executor{flags: f, log: log, env: a.env, json: a.json, inherited: a.inherited(s, f.passURL)}
	drain := f.drain
	if drain == 0 {
		drain = duly.None
	}
	// What becomes of each job stands in the log of jobs; the worker itself
	// tells only of what no job is to blame for.
	engine, observer := s.Contract, worker.Observer{Settled: log.settled}
	if f.most > 0 || f.untilEmpty {
		until := newUntilEngine(engine, f, stop)
		engine, observer = until.withTopics(), until.observe(observer)
	}
	w := worker.New(engine, worker.Config{
		Namespace: s.namespace, Concurrency: f.concurrency, Lease: f.lease, Drain: drain, StrictOrder: f.strict,
		Logger: a.logger(slog.LevelError), Observer: observer, Clock: a.env.Clock,
	})
	var opts []worker.HandlerOption
	if f.timeout > 0 {
		opts = append(opts, worker.Timeout(f.timeout))
	}
	for _, q := range queues {
		if f.from.from != "" && s.queue(q).IsGroup() {
			w.Handle(q, x.run, append(opts, worker.From(f.from.from))...)
			continue
		}
		w.Handle(q, x.run, opts...)
	}
	if f.from.from == "" {
		a.hintMissing(ctx, s, queues)
	}
	// At once means the commands too: nobody would settle what they do.
	defer a.finally(x.killAll)()
	a.remark("working on " + strings.Join(queues, ", ") + "; Ctrl-C lets what runs end")
	if err := w.Run(ctx); err != nil {
		return err
	}
	return log.close()
}

// logger writes what goes wrong inside to standard error.
func (a *app) logger(level slog.Leveler) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if a.json {
		return slog.New(slog.NewJSONHandler(a.logTo(&a.log), options))
	}
	return slog.New(slog.NewTextHandler(&a.log, options))
}
