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

// workFlags are the flags of `duly work`.
type workFlags struct {
	exec        string
	argv        []string // instead of exec
	concurrency int
	snooze      time.Duration
	overload    time.Duration
	lease       time.Duration
	timeout     time.Duration
	drain       time.Duration
	result      bool
	once        bool
	untilEmpty  bool
	strict      bool
	passURL     bool
	max         int      // jobs, 0 for no limit
	from        fromFlag // empty if groups are not created
}

func newWorkFlags() *workFlags {
	return &workFlags{
		concurrency: 1, snooze: 30 * time.Second, overload: 10 * time.Second, drain: worker.DefaultDrain,
	}
}

const workLong = `The command gets the job's body on standard input and its fields as variables:

  DULY_JOB_ID          DULY_JOB_QUEUE       DULY_JOB_NAMESPACE   DULY_JOB_RECEIPT
  DULY_JOB_ATTEMPT     DULY_JOB_TRIES       DULY_JOB_FAILURES    DULY_JOB_STALLS
  DULY_JOB_DUE         DULY_JOB_PUSHED_AT   DULY_JOB_EXPIRES_AT  DULY_JOB_LEASE_END
  DULY_JOB_PRIORITY    DULY_JOB_ORDER_KEY   DULY_JOB_HEADER_X    (for each header x)

--exec passes CMD to the shell. The words after -- are a program and its arguments, without a shell. The command has
the standard output and standard error of duly. It does not get DULY_URL, DULY_ADMIN_URL and DULY_TOKEN, unless
--pass-url is set: then it can call this engine.

Exit status 0 acks the job. 75 releases it for the time of --snooze without using a try. 69 releases it too, and closes
the queue for the time of --overload: no worker gets a job of the queue before. Any other status is a failed try, and
the end of the command's standard error is stored with the job. A script can look like this:

  #!/bin/sh
  set -e
  body=$(cat)
  echo "$DULY_JOB_ID: try $DULY_JOB_ATTEMPT of $DULY_JOB_TRIES"
  curl -fsS --data-binary "$body" https://example.com/hook || exit 75

It works until INT or TERM, with --once for one job, with --max for that many jobs, and with --until-empty until no
job is due. Its own exit status does not depend on the jobs.

duly extends the lease while the command runs. If the lease is lost, the command and every process that it started get
TERM, and 5 s later KILL. On INT or TERM duly reserves no more jobs, waits --drain for running commands, and releases
the other jobs.

For a consumer group of a topic, use TOPIC@GROUP as the queue. --from creates the group if it does not exist.

Several queues share the commands equally. With --strict-order, jobs of a queue run only if the queues before it have
none.`

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
			queues, argv := splitAtDash(cmd, args)
			return a.startWork(ctx, p, queues, argv, f)
		})

	cmd.Args = func(cmd *cobra.Command, args []string) error {
		// The words after the dash are a command, not names of queues.
		queues, _ := splitAtDash(cmd, args)
		return takesArgs("QUEUE…")(cmd, queues)
	}
	cmd.ValidArgsFunction = a.completeQueues(0)
	f.add(cmd.Flags())
	return cmd
}

// startWork checks the flags and works queues and groups.
func (a *app) startWork(ctx context.Context, p *printer, queues, argv []string, f *workFlags) error {
	switch {
	case f.exec != "" && len(argv) > 0:
		return usageErrorf("--exec and a command after -- are both given, give one of them")
	case f.exec == "" && len(argv) == 0:
		return usageErrorf("the command is missing; give --exec CMD, or -- CMD ARG…")
	case f.once && f.max > 0:
		return usageErrorf("--once and --max are both given, give one of them")
	}
	if f.once {
		f.max = 1
	}
	f.argv = argv

	// A worker runs long, so its operator should see every warning.
	a.warnings = warnAlways
	return a.withEngine(ctx, func(s *session) error { return a.work(ctx, p, s, queues, f) })
}

// add adds the flags.
func (f *workFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.exec, "exec", "", "the `command` for the shell")
	countVar(flags, &f.concurrency, "concurrency", "maximum number of running commands")
	flags.BoolVar(&f.once, "once", false, "run one job and exit; waits for a job unless --until-empty is set")
	countVar(flags, &f.max, "max", "exit after this many jobs (default: no limit)")
	flags.Var(&f.from, "from",
		"create the group TOPIC@GROUP if it does not exist; it begins at this `position`: start, end, a time "+
			"or a position of the topic")
	flags.BoolVar(&f.untilEmpty, "until-empty", false, "exit when no job is due")
	flags.BoolVar(&f.passURL, "pass-url", false, "pass DULY_URL and DULY_TOKEN to the command")
	durationVar(flags, &f.snooze, "snooze", "delay of a job whose command exits with 75")
	flags.Var(durationFlag{to: &f.overload, max: duly.MaxSlow}, "overload", "how long a command that exits with 69 closes the queue, up to 1h")
	leaseVar(flags, &f.lease, "duration of a lease (default: the job's)")
	durationVar(flags, &f.timeout, "timeout", "kill a command that runs longer, as a failed try")
	flags.Var(durationFlag{to: &f.drain, zero: true, none: true}, "drain", "how long commands may run after INT or TERM")
	flags.BoolVar(&f.result, "result", false, "store the command's output as the job's result (with push --retain)")
	flags.BoolVar(&f.strict, "strict-order", false, "reserve a job only if the queues before its queue have none")
}

// splitAtDash splits the arguments at "--".
func splitAtDash(cmd *cobra.Command, args []string) (before, after []string) {
	if at := cmd.ArgsLenAtDash(); at >= 0 {
		return args[:at], args[at:]
	}
	return args, nil
}

// work runs a worker until the first signal.
func (a *app) work(ctx context.Context, p *printer, s *session, queues []string, f *workFlags) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	log := newJobLog(p, stop, s.Engine)
	defer log.close()
	x := &executor{flags: f, log: log, env: a.env, json: a.json, inherited: a.inherited(s, f.passURL)}

	// The log of jobs has the results of jobs, so the worker logs only errors.
	engine, observer := s.Engine, worker.Observer{Settled: log.settled}
	if f.max > 0 || f.untilEmpty {
		limited := newLimitedEngine(engine, f, stop)
		engine, observer = limited.withTopics(), limited.wrapObserver(observer)
	}
	drain := f.drain

	// Zero would mean the worker's default.
	if drain == 0 {
		drain = duly.None
	}
	w := worker.New(engine, worker.Config{
		Namespace: s.namespace, Concurrency: f.concurrency, Lease: f.lease, Drain: drain, StrictOrder: f.strict,
		Logger: a.logger(slog.LevelError), Observer: observer, Clock: a.env.Clock,
	})

	for _, q := range queues {
		var opts []worker.HandlerOption
		if f.timeout > 0 {
			opts = append(opts, worker.Timeout(f.timeout))
		}
		if f.from.from != "" && s.queue(q).IsGroup() {
			opts = append(opts, worker.From(f.from.from))
		}
		w.Handle(q, x.run, opts...)
	}

	// With --from, the worker creates missing groups, so they need no note.
	if f.from.from == "" {
		a.noteMissing(ctx, s, queues)
	}

	// After the second signal nothing would settle the jobs of running commands.
	defer a.onAbort(x.killAll)()
	a.noteOnTerminal("working on %s; Ctrl-C drains", strings.Join(queues, ", "))
	if err := w.Run(ctx); err != nil {
		return a.withReserveHint(ctx, s, err, queues)
	}
	return log.close()
}

// logger returns a logger on standard error.
func (a *app) logger(level slog.Leveler) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if a.json {
		return slog.New(slog.NewJSONHandler(a.logTo(&a.log), options))
	}
	return slog.New(slog.NewTextHandler(&a.log, options))
}
