package cli

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/schedule"
	"github.com/dulymq/duly/internal/wire"
)

func scheduleCommand(a *app) *cobra.Command {
	return a.group("schedule", "Push jobs at the ticks of cron expressions",
		schedulePutCommand(a), scheduleListCommand(a), scheduleGetCommand(a), scheduleNextCommand(a),
		schedulePauseCommand(a, true), schedulePauseCommand(a, false), scheduleTriggerCommand(a),
		scheduleDeleteCommand(a), schedulePruneCommand(a))
}

// withSchedules is like withEngine for a command about schedules. create allows it to create the
// file of the engine.
func (a *app) withSchedules(
	ctx context.Context, create bool, do func(s *session, schedules duly.Scheduler) error,
) error {
	return a.withSession(ctx, create, func(s *session) error {
		// Schedules are an optional part of an engine.
		schedules, ok := s.Engine.(duly.Scheduler)
		if !ok {
			return withHint(unsupported("schedules"), "use an engine with schedules")
		}
		return do(s, schedules)
	})
}

func schedulePutCommand(a *app) *cobra.Command {
	var s duly.Schedule
	var kind string
	cmd := a.command("put QUEUE NAME SPEC [BODY|-]", "Create or change a schedule",
		`The queue gets a job with the BODY at each tick of SPEC: five fields (minute, hour, day of month, month, day of
week), six with the second first, a macro like @daily, or @every 90s. Without a BODY, put reads it from standard input
if that is a pipe or a file. Workers need no leader and no process of their own: every process that waits on the queue
fires its ticks.

The command can be repeated. An unchanged schedule keeps its next tick, so a deployment can put all of its schedules.
Another SPEC, zone, start or end moves the next tick. A paused schedule stays paused.`,
		`  duly schedule put reports nightly '0 3 * * *' --zone Europe/Berlin
  duly schedule put mail digest '0 8 * * MON-FRI' '{"kind": "digest"}' --tries 3
  duly schedule put poll feeds '@every 90s' --overlap skip --jitter 10s
  duly schedule put billing monthly @monthly --catchup all --window 40d --owner billing-app`,
		func(ctx context.Context, p *printer, args []string) (err error) {
			s.Name, s.Spec = args[1], args[2]
			if err := setKind(&s.Template, kind); err != nil {
				return err
			}
			if s.Template.Body, err = a.body(args[3:]); err != nil {
				return err
			}
			return a.putSchedule(ctx, p, args[0], s)
		})

	cmd.Args = takesArgs("QUEUE", "NAME", "SPEC", "[BODY]")
	cmd.ValidArgsFunction = a.completeQueues(1)

	f := cmd.Flags()
	scheduleFlags(cmd, &s)
	f.Var(kindFlag{&kind}, "kind", "the job's `kind`, by which a worker chooses its handler")
	templateFlags(f, &s.Template)
	completeValues(cmd, "merge-mode", string(duly.MergeKeep), string(duly.MergeReplace))
	completeValues(cmd, "merge-until", string(duly.UntilLeased), string(duly.UntilDone))
	return cmd
}

// scheduleFlags adds the flags for the settings of a schedule, without its job.
func scheduleFlags(cmd *cobra.Command, s *duly.Schedule) {
	f := cmd.Flags()
	f.StringVar(&s.Zone, "zone", "", "time `zone` of the expression, like Europe/Berlin (default UTC)")
	f.Var(timeFlag{&s.Start, time.Local}, "start", "no tick before this time")
	f.Var(timeFlag{&s.End, time.Local}, "end", "no tick after this time")
	f.Var(durationFlag{to: &s.Jitter, zero: true, max: duly.MaxJitter}, "jitter",
		"delay each run by up to this, up to 24h (default 0s)")
	f.StringVar((*string)(&s.Catchup), "catchup", "",
		"after an absence: fire the latest missed tick, all, or none; `one|all|none` (default one)")
	f.Var(durationFlag{to: &s.Window, min: duly.MinWindow, max: duly.MaxWindow}, "window",
		"fire no tick that is older than this (default 24h)")
	f.StringVar((*string)(&s.Overlap), "overlap", "",
		"while an earlier run waits or runs: `skip|allow|one|all` (default skip)")
	f.StringVar(&s.Owner, "owner", "", "`name` of the deployment that may change the schedule (default none)")
	completeValues(cmd, "catchup", string(duly.CatchupOne), string(duly.CatchupAll), string(duly.CatchupNone))
	completeValues(cmd, "overlap", string(duly.OverlapSkip), string(duly.OverlapAllow), string(duly.OverlapOne),
		string(duly.OverlapAll))
}

// putSchedule puts a schedule and prints what changed.
func (a *app) putSchedule(ctx context.Context, p *printer, queue string, sched duly.Schedule) error {
	return a.withSchedules(ctx, true, func(s *session, schedules duly.Scheduler) error {
		put, err := schedules.PutSchedule(ctx, s.queue(queue), sched)
		if err != nil {
			return err
		}
		if p.json {
			p.line(wire.SchedulePutForm.Append(nil, put))
			return nil
		}

		next := "no next tick"
		if !put.Next.IsZero() {
			next = "next tick " + momentText(put.Next, p.now())
		}
		p.printf("%s %s of %s, %s\n", put.Status, sched.Name, queue, next)
		return nil
	})
}

func scheduleListCommand(a *app) *cobra.Command {
	cmd := a.command("list [QUEUE]", "List schedules",
		`Lists the schedules of a queue, or of every queue of the namespace.`,
		`  duly schedule list
  duly schedule list reports
  duly schedule list --json | jq -r 'select(.paused) | .name'`,
		func(ctx context.Context, p *printer, args []string) error {
			return a.withSchedules(ctx, false, func(s *session, schedules duly.Scheduler) error {
				t := p.newTable("QUEUE", "SCHEDULE", "SPEC", "ZONE", "NEXT", "LAST", ">FIRED", ">SKIPPED", ">MISSED", "")
				found := 0
				err := s.forEachQueueWithSchedules(ctx, args, func(queue string) error {
					n, err := p.listSchedules(ctx, s, schedules, t, queue)
					found += n
					return err
				})
				t.flush()

				// An unknown queue looks like one without schedules.
				if err == nil && found == 0 && len(args) > 0 {
					return a.mustExist(ctx, s, args[0])
				}
				return err
			})
		})

	cmd.Args = takesArgs("[QUEUE]")
	cmd.ValidArgsFunction = a.completeQueues(1)
	return cmd
}

// forEachQueueWithSchedules calls do for the queue that args names, or for every queue of the
// namespace that has schedules.
func (s *session) forEachQueueWithSchedules(ctx context.Context, args []string, do func(queue string) error) error {
	if len(args) > 0 {
		return do(args[0])
	}
	return contract.QueuesWithSchedules(ctx, s.Engine, s.namespace, do)
}

// listSchedules prints the schedules of a queue, and returns their number.
func (p *printer) listSchedules(
	ctx context.Context, s *session, schedules duly.Scheduler, t *table, queue string,
) (n int, err error) {
	for page := (duly.PageParams{}); ; {
		found, err := schedules.Schedules(ctx, s.queue(queue), page)
		if err != nil {
			return n, err
		}
		n += len(found.Schedules)
		for i := range found.Schedules {
			if p.json {
				p.scheduleOf(queue, &found.Schedules[i])
			} else {
				t.addSchedule(queue, &found.Schedules[i])
			}
		}
		if err := p.flush(); err != nil {
			return n, err
		}
		if page.Cursor = found.Next; page.Cursor == "" {
			return n, nil
		}
	}
}

// scheduleOf prints a schedule as JSON, with its queue.
func (p *printer) scheduleOf(queue string, info *duly.ScheduleInfo) {
	line := append([]byte(`{"queue":"`), queue...) // the name of a queue needs no escapes
	line = append(line, `",`...)

	// The brace of the schedule's object is cut off, because the queue's field goes in front.
	p.line(append(line, wire.ScheduleInfoForm.Append(nil, *info)[1:]...))
}

func (t *table) addSchedule(queue string, info *duly.ScheduleInfo) {
	now := t.p.now()
	note := ""
	if info.Paused {
		note = "paused"
	}
	t.add(txt(queue), txt(info.Name), txt(info.Spec), txt(info.Zone), txt(relative(info.Next, now)),
		txt(relative(info.Last, now)), txt(countText(info.Fired)), txt(countText(info.Skipped)),
		txt(countText(info.Missed)), cell{note, yellow})
}

func scheduleGetCommand(a *app) *cobra.Command {
	cmd := a.command("get QUEUE NAME", "Show a schedule",
		`Shows the schedule with its defaults, its next tick, its counters and its job.`,
		`  duly schedule get reports nightly`,
		func(ctx context.Context, p *printer, args []string) error {
			return a.withSchedules(ctx, false, func(s *session, schedules duly.Scheduler) error {
				info, err := schedules.GetSchedule(ctx, s.queue(args[0]), args[1])
				if err != nil {
					return a.missingSchedule(err, args[0])
				}
				if p.json {
					p.scheduleOf(args[0], &info)
					return nil
				}
				p.schedule(&info)
				return nil
			})
		})

	cmd.Args = takesArgs("QUEUE", "NAME")
	cmd.ValidArgsFunction = a.completeQueues(1)
	return cmd
}

// missingSchedule adds the command that lists the schedules to the error of an unknown one.
func (a *app) missingSchedule(err error, queue string) error {
	return withHintFor(duly.CodeNotFound, err, "see the schedules: %s schedule list %s", a.program(), shellQuote(queue))
}

// schedule prints everything about a schedule.
func (p *printer) schedule(info *duly.ScheduleInfo) {
	now, job := p.now(), &info.Template
	state := "active"
	switch {
	// Paused comes first, because a paused schedule may have no next tick either.
	case info.Paused:
		state = "paused"
	case info.Next.IsZero():
		state = "finished"
	}

	tries := ""
	if job.Tries != 0 {
		tries = countText(int64(job.Tries))
	}
	p.pairs(
		txt("spec"), txt(info.Spec),
		txt("rule"), txt(schedule.Words(info.Spec)),
		txt("zone"), txt(info.Zone),
		txt("state"), txt(state),
		txt("next"), txt(momentText(info.Next, now)),
		txt("last"), txt(momentText(info.Last, now)),
		txt("start"), txt(momentText(info.Start, now)),
		txt("end"), txt(momentText(info.End, now)),
		txt("jitter"), txt(duly.FormatDuration(info.Jitter)),
		txt("catchup"), txt(string(info.Catchup)+", window "+duly.FormatDuration(info.Window)),
		txt("overlap"), txt(string(info.Overlap)),
		txt("owner"), txt(info.Owner),
		txt("ticks"), txt(countText(info.Fired)+" fired, "+countText(info.Skipped)+" skipped, "+countText(info.Missed)+" missed"),
		txt("tries"), txt(tries),
		txt("order key"), txt(job.OrderKey),
		txt("headers"), txt(headersText(job.Headers)),
		txt("body"), txt(preview(job.Body, 60)),
	)
}

func schedulePauseCommand(a *app, pause bool) *cobra.Command {
	use, short, done := "resume", "Resume schedules", "resumed"
	long := `The ticks of the pause count as missed and make no jobs. The command can be repeated.`
	if pause {
		use, short, done = "pause", "Pause schedules", "paused"
		long = `Their ticks make no jobs. Existing jobs continue. A put does not resume a schedule. The command can be repeated.`
	}
	cmd := a.command(use+" QUEUE NAME…", short, long, "  duly schedule "+use+" reports nightly",
		func(ctx context.Context, p *printer, args []string) error {
			return a.withSchedules(ctx, false, func(s *session, schedules duly.Scheduler) error {
				change := schedules.ResumeSchedule
				if pause {
					change = schedules.PauseSchedule
				}
				return a.forEach(ctx, p, args[1:], done, func(name string) error {
					return a.missingSchedule(change(ctx, s.queue(args[0]), name), args[0])
				})
			})
		})

	cmd.Args = takesArgs("QUEUE", "NAME…")
	cmd.ValidArgsFunction = a.completeQueues(1)
	return cmd
}

func scheduleTriggerCommand(a *app) *cobra.Command {
	cmd := a.command("trigger QUEUE NAME", "Push a run of a schedule now",
		`Pushes the job of the schedule, apart from its ticks. The overlap policy applies: with skip, the run is merged into
one that waits or runs. Each call is another run.`,
		`  duly schedule trigger reports nightly`,
		func(ctx context.Context, p *printer, args []string) error {
			return a.withSchedules(ctx, false, func(s *session, _ duly.Scheduler) error {
				result, err := a.client(s).Trigger(ctx, args[0], args[1])
				if err != nil {
					return a.missingSchedule(err, args[0])
				}
				p.pushed(result, &duly.Job{Queue: args[0]})
				return nil
			})
		})

	cmd.Args = takesArgs("QUEUE", "NAME")
	cmd.ValidArgsFunction = a.completeQueues(1)
	return cmd
}

func scheduleDeleteCommand(a *app) *cobra.Command {
	cmd := a.command("delete QUEUE NAME…", "Delete schedules",
		`Jobs that exist stay.`,
		`  duly schedule delete reports nightly`,
		func(ctx context.Context, p *printer, args []string) error {
			return a.withSchedules(ctx, false, func(s *session, schedules duly.Scheduler) error {
				return a.forEach(ctx, p, args[1:], "deleted schedule", func(name string) error {
					return a.missingSchedule(schedules.DeleteSchedule(ctx, s.queue(args[0]), name, 0), args[0])
				})
			})
		})

	cmd.Args = takesArgs("QUEUE", "NAME…")
	cmd.ValidArgsFunction = a.completeQueues(1)
	return cmd
}

// pruneFlags are the flags of schedule prune.
type pruneFlags struct {
	owner string
	keep  []string
	yes   bool
}

func (p *pruneFlags) add(f *pflag.FlagSet) {
	f.StringVar(&p.owner, "owner", "", "`name` of the owner whose schedules may be deleted")
	f.StringSliceVar(&p.keep, "keep", nil, "`names` of schedules that stay; with commas")
	f.BoolVar(&p.yes, "yes", false, "don't ask")
}

func schedulePruneCommand(a *app) *cobra.Command {
	var flags pruneFlags
	cmd := a.command("prune [QUEUE]", "Delete the schedules of an owner that a deployment has no more",
		`Deletes the schedules of the owner that --keep does not name, in the queue or in every queue of the namespace. It
prints what it deletes and asks first, unless --yes is given. A schedule that changes meanwhile stays.`,
		`  duly schedule prune --owner billing-app --keep monthly,yearly
  duly schedule prune reports --owner reports-app --keep nightly --yes`,
		func(ctx context.Context, p *printer, args []string) error {
			if flags.owner == "" {
				return usageErrorf("--owner is missing; name the owner whose schedules may be deleted")
			}
			return a.withSchedules(ctx, false, func(s *session, schedules duly.Scheduler) error {
				return a.pruneSchedules(ctx, p, s, schedules, args, &flags)
			})
		})

	cmd.Args = takesArgs("[QUEUE]")
	cmd.ValidArgsFunction = a.completeQueues(1)
	flags.add(cmd.Flags())
	return cmd
}

// pruned are the schedules of a queue that prune deletes unless they change.
type pruned struct {
	queue string
	old   []duly.ScheduleInfo
}

// pruneSchedules lists the schedules to delete, asks, and deletes them.
func (a *app) pruneSchedules(
	ctx context.Context, p *printer, s *session, schedules duly.Scheduler, args []string, flags *pruneFlags,
) error {
	var all []pruned
	var names []string
	err := s.forEachQueueWithSchedules(ctx, args, func(queue string) error {
		old, err := contract.SchedulesToPrune(ctx, schedules, s.queue(queue), flags.owner, flags.keep)
		for i := range old {
			names = append(names, queue+"/"+old[i].Name)
		}
		all = append(all, pruned{queue, old})
		return err
	})
	if err != nil {
		return err
	}
	if len(names) == 0 {
		a.noteOnTerminal("owner %s has no other schedules", flags.owner)
		return nil
	}

	// The names are part of the question, because the owner's name alone does not show what is lost.
	if !flags.yes {
		what := "this deletes " + plural(int64(len(names)), "schedule") + ": " + oneLine(strings.Join(names, ", "))
		if err := a.confirm(what); err != nil {
			return err
		}
	}
	for _, of := range all {
		if err := a.deleteUnchanged(ctx, p, s, schedules, of); err != nil {
			return err
		}
	}
	return nil
}

// deleteUnchanged deletes those of the listed schedules that have not changed since they were
// read. It prints a line for each deleted schedule, and a note for each changed one.
func (a *app) deleteUnchanged(
	ctx context.Context, p *printer, s *session, schedules duly.Scheduler, of pruned,
) error {
	result, failure := contract.DeleteUnchanged(ctx, schedules, s.queue(of.queue), of.old)
	// A deployment may put a schedule again meanwhile, so a changed schedule is not an error.
	for _, name := range result.Changed {
		a.note("%s/%s has changed meanwhile and stays", of.queue, name)
	}

	deleted := make([]string, len(result.Deleted))
	for i, name := range result.Deleted {
		deleted[i] = of.queue + "/" + name
	}
	err := a.forEach(ctx, p, deleted, "deleted schedule", func(string) error { return nil })
	return errors.Join(failure, err)
}
