package cli

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/worker"
)

// workFlags are those of `duly work`.
type workFlags struct {
	exec        string
	concurrency int
	snooze      time.Duration
	lease       time.Duration
	timeout     time.Duration
	drain       time.Duration
	result      bool
}

func workCommand(a *app) *cobra.Command {
	f := workFlags{concurrency: 1, snooze: 30 * time.Second, drain: worker.DefaultDrain}
	cmd := a.command("work QUEUE… --exec CMD", "Run a command for every job that is due, until told to stop",
		`The shell runs CMD with the job's body on standard input and its fields as variables: DULY_JOB_ID, _QUEUE,
_NAMESPACE, _RECEIPT, _ATTEMPT, _TRIES, _FAILURES, _STALLS, _PRIORITY, _DUE, _PUSHED_AT, _EXPIRES_AT, _LEASE_END,
_ORDER_KEY, and _HEADER_X for a header x. What it prints goes on to where duly prints.

Exit status 0 acks the job. 75 gives it back for the time of --snooze and uses no try. Anything else is a failed try,
and the end of what CMD printed to standard error is kept with the job.

The lease is extended while CMD runs. If it is lost all the same, CMD and every process that it started get TERM, and
5 s later KILL. On INT or TERM duly takes no more jobs, lets what runs end for the time of --drain, and gives back the rest.

Queues are worked in the order given: a job of the first goes before all of the second.`,
		`  duly work emails --exec ./send-mail
  duly work urgent emails --exec 'curl -fsS --data-binary @- https://example.com/hook' --concurrency 8
  duly work reports --exec ./report --timeout 10m --result --json`,
		func(ctx context.Context, p *printer, queues []string) error {
			if f.exec == "" {
				return misusef("say what to run: --exec CMD")
			}
			a.hears = hearAll
			return a.with(ctx, func(s *session) error { return a.work(ctx, p, s, queues, &f) })
		})
	cmd.Args = wants("QUEUE…")
	cmd.ValidArgsFunction = a.completeQueues(0)
	flags := cmd.Flags()
	flags.StringVar(&f.exec, "exec", "", "the `command` to run, for the shell")
	countVar(flags, &f.concurrency, "concurrency", "commands that run at once")
	durationVar(flags, &f.snooze, "snooze", "how long to give a job back for that exits with 75")
	leaseVar(flags, &f.lease, "how long to hold a job at a time (default: as the job says)")
	durationVar(flags, &f.timeout, "timeout", "end a command that runs longer; it counts as a failed try")
	flags.Var(durationFlag{to: &f.drain, zero: true, none: true}, "drain", "how long running commands may go on after INT or TERM")
	flags.BoolVar(&f.result, "result", false, "keep what CMD prints as the job's result (with push --retain)")
	return cmd
}

// work runs a worker of package worker until the first signal.
func (a *app) work(ctx context.Context, p *printer, s *session, queues []string, f *workFlags) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	log := newJobLog(p, stop)
	defer log.close()
	x := &executor{flags: f, log: log, env: a.env, json: a.json}
	drain := f.drain
	if drain == 0 {
		drain = duly.None
	}
	// What becomes of each job stands in the log of jobs; the worker itself
	// tells only of what no job is to blame for.
	w := worker.New(s.Contract, worker.Config{
		Namespace: s.namespace, Concurrency: f.concurrency, Lease: f.lease, Drain: drain,
		Logger: a.logger(slog.LevelError), Observer: worker.Observer{Settled: log.settled}, Clock: a.env.Clock,
	})
	var opts []worker.HandlerOption
	if f.timeout > 0 {
		opts = append(opts, worker.Timeout(f.timeout))
	}
	for _, q := range queues {
		w.Handle(q, x.run, opts...)
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
