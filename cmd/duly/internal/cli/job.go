package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/wire"
)

func jobCommand(a *app) *cobra.Command {
	return a.group("job", "Inspect and change jobs by ID",
		jobGetCommand(a), jobFindCommand(a), jobWhyCommand(a), jobListCommand(a), jobUpdateCommand(a),
		jobRescheduleCommand(a), jobPromoteCommand(a), jobCancelCommand(a), jobDeleteCommand(a))
}

func jobGetCommand(a *app) *cobra.Command {
	var body bool
	cmd := a.command("get QUEUE ID…", "Show jobs with their bodies",
		`Shows jobs in any state. The states are computed at call time: a delayed job that is due is ready. With --json, each
job is one line.`,
		`  duly job get emails welcome-4711
  duly job get emails welcome-4711 welcome-4712
  duly job get emails welcome-4711 --json
  duly job get emails welcome-4711 --body > mail.json`,
		func(ctx context.Context, p *printer, args []string) error {
			if body && p.json {
				return usageErrorf("--body and --json are both set, give one of them")
			}
			if body && len(args) > 2 {
				return usageErrorf("--body is set, but there are %d IDs; give one ID", len(args)-1)
			}
			return a.withEngine(ctx, func(s *session) error {
				if len(args) > 2 {
					return a.getJobs(ctx, p, s, args[0], args[1:])
				}
				j, err := s.Get(ctx, s.queue(args[0]), args[1])
				if err != nil {
					return a.jobError(ctx, s, err, args[0], args[1])
				}
				if body {
					// No escapes and no line end, so that a file gets exactly the body.
					_, err := p.out.Write(j.Body)
					return err
				}
				return p.oneJob(&j)
			})
		})

	cmd.Args = takesArgs("QUEUE", "ID…")
	cmd.ValidArgsFunction = a.completeQueues(1)
	cmd.Flags().BoolVar(&body, "body", false, "print only the body, unchanged")
	return cmd
}

func jobFindCommand(a *app) *cobra.Command {
	cmd := a.command("find ID", "Find a job in all queues",
		`Shows the jobs with an ID in all queues of the namespace. Several queues may have a job with the same ID. At most
100 jobs are shown. Groups of topics are not searched.`,
		`  duly job find welcome-4711
  duly job find welcome-4711 --json`,
		func(ctx context.Context, p *printer, args []string) error {
			return a.withEngine(ctx, func(s *session) error {
				found, err := contract.FinderOf(s.Engine).Find(ctx, s.namespace, args[0])
				if errors.Is(err, duly.ErrNotFound) {
					return withHint(err, "it may be finished; see the queues: %s queues", a.program())
				}
				if err != nil {
					return err
				}
				return a.printFound(p, found)
			})
		})

	cmd.Args = takesArgs("ID")
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	return cmd
}

// printFound prints one line per queue. With --json, a line has the job with its body.
func (a *app) printFound(p *printer, found contract.Found) error {
	if p.json {
		p.lines(wire.AppendJobs(nil, duly.ListPage{Jobs: found.Jobs}, true))
	} else {
		t := p.jobTableBy("QUEUE")
		for i := range found.Jobs {
			t.addJobAs(found.Jobs[i].Queue, &found.Jobs[i])
		}
		t.flush()
	}

	if err := p.flush(); err != nil {
		return err
	}
	switch {
	case found.More && p.json:
		a.errorLine([]byte(`{"more":true}`))
	case found.More:
		a.note("… more queues have a job with this ID; see one: %s job get QUEUE ID", a.program())
	}
	return nil
}

// getJobs prints jobs by ID in order, with few calls.
func (a *app) getJobs(ctx context.Context, p *printer, s *session, queue string, ids []string) error {
	next := 0
	var results []contract.JobResult // of the IDs from next on
	get := func(id string) (duly.JobInfo, error) {
		if len(results) == 0 {
			part := ids[next:min(next+duly.MaxBatch, len(ids))]
			var err error
			if results, err = s.GetJobs(ctx, s.queue(queue), part, true); err != nil {
				results = slices.Repeat([]contract.JobResult{{Err: err}}, len(part))
			}
		}
		r := results[0]
		results = results[1:]
		next++

		// The job did not fit in the answer.
		if errors.Is(r.Err, duly.ErrTooLarge) {
			return s.Get(ctx, s.queue(queue), id)
		}
		return r.Info, r.Err
	}

	printed := false
	return a.forEach(ctx, p, ids, "", func(id string) error {
		j, err := get(id)
		if err != nil {
			return a.jobError(ctx, s, err, queue, id)
		}
		if printed && !p.json {
			p.printf("\n")
		}
		printed = true
		return p.oneJob(&j)
	})
}

func jobPromoteCommand(a *app) *cobra.Command {
	cmd := a.command("promote QUEUE ID…", "Make waiting jobs due now",
		`A job that is ready or blocked stays unchanged. A job that is leased, dead or done is a conflict.`,
		`  duly job promote emails welcome-4711
  duly job promote emails welcome-4711 welcome-4712`,
		func(ctx context.Context, p *printer, args []string) error {
			return a.withEngine(ctx, func(s *session) error { return a.promoteJobs(ctx, p, s, args[0], args[1:]) })
		})

	cmd.Args = takesArgs("QUEUE", "ID…")
	cmd.ValidArgsFunction = a.completeQueues(1)
	return cmd
}

func (a *app) promoteJobs(ctx context.Context, p *printer, s *session, queue string, ids []string) error {
	results := inBatches(ids, func(part []string) ([]error, error) {
		return s.PromoteJobs(ctx, s.queue(queue), part)
	})
	next := 0
	return a.forEach(ctx, p, ids, "promoted job", func(id string) error {
		err := results[next]
		next++
		return a.jobError(ctx, s, err, queue, id)
	})
}

// inBatches calls do with up to duly.MaxBatch IDs at a time, and returns the result of each ID. If a call
// fails, its IDs and the later ones have its error.
func inBatches(ids []string, do func(part []string) ([]error, error)) []error {
	var results []error
	for part := range slices.Chunk(ids, duly.MaxBatch) {
		errs, err := do(part)
		if err != nil {
			return append(results, slices.Repeat([]error{err}, len(ids)-len(results))...)
		}
		results = append(results, errs...)
	}
	return results
}

func jobRescheduleCommand(a *app) *cobra.Command {
	var u duly.Update
	cmd := a.forJobs("reschedule QUEUE ID…", "Change when waiting jobs are due", "rescheduled",
		`The jobs must be delayed, ready or blocked. To change other fields use job update.`,
		`  duly job reschedule emails welcome-4711 --delay 1h
  duly job reschedule emails welcome-4711 --due 2030-01-01T06:00`,
		func(ctx context.Context, s *session, q duly.QueueRef, id string) error {
			return s.Update(ctx, q, id, u)
		})
	dueVars(cmd.Flags(), &u)

	// Without a time the command would change nothing, which is certainly a mistake.
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if !anyFlagSet(cmd) {
			return usageErrorf("the time is missing; give --delay 1h, or --due 2030-01-01T06:00")
		}
		return nil
	}
	return cmd
}

func jobCancelCommand(a *app) *cobra.Command {
	return a.cancelJobs(`  duly job cancel orders close-4711`)
}

// cancelCommand returns job cancel under a shorter name.
func cancelCommand(a *app) *cobra.Command { return a.cancelJobs(`  duly cancel orders close-4711`) }

func (a *app) cancelJobs(examples string) *cobra.Command {
	return a.forJobs("cancel QUEUE ID…", "Cancel jobs: they will not run (again)", "canceled",
		`Deletes the jobs. A running job is canceled too: its receipt becomes invalid, and its worker cancels the handler at
once.`,
		examples, deleteJob)
}

func deleteJob(ctx context.Context, s *session, q duly.QueueRef, id string) error {
	return s.Delete(ctx, q, id)
}

func jobDeleteCommand(a *app) *cobra.Command {
	state := ""
	cmd := a.command("delete QUEUE ID…", "Delete jobs, in any state or in one",
		`Running jobs are deleted too: their receipts become invalid, and their workers cancel the handlers at once. With
--state, a job that is in another state stays.`,
		`  duly job delete emails welcome-4711
  duly job delete emails welcome-4711 welcome-4712 --state dead`,
		func(ctx context.Context, p *printer, args []string) (err error) {
			wanted := duly.StateNone
			if state != "" {
				if wanted, err = contract.ParseState(state); err != nil {
					return err
				}
			}
			return a.withEngine(ctx, func(s *session) error { return a.deleteJobs(ctx, p, s, args[0], args[1:], wanted) })
		})

	cmd.Args = takesArgs("QUEUE", "ID…")
	cmd.ValidArgsFunction = a.completeQueues(1)
	stateVar(cmd, &state, "delete only jobs in this `state`: delayed, ready, blocked, leased, dead or done")
	return cmd
}

// deleteJobs deletes jobs by ID.
func (a *app) deleteJobs(
	ctx context.Context, p *printer, s *session, queue string, ids []string, state duly.State,
) error {
	results := inBatches(ids, func(part []string) ([]error, error) {
		return s.DeleteJobs(ctx, s.queue(queue), part, state)
	})
	next := 0
	return a.forEach(ctx, p, ids, "deleted job", func(id string) error {
		err := a.jobError(ctx, s, results[next], queue, id)
		next++
		// The other hints of a conflict are about an operation in any state.
		if e := new(*duly.Error); errors.As(err, e) && (*e).State != duly.StateNone {
			err = withHint(err, "see the job: %s job get %s %s", a.program(), shellQuote(queue), shellQuote(id))
		}
		return err
	})
}

// forJobs returns a command that calls do for each of several jobs. done is the
// participle that it prints.
func (a *app) forJobs(
	use, short, done, long, examples string, do func(context.Context, *session, duly.QueueRef, string) error,
) *cobra.Command {
	cmd := a.command(use, short, long, examples, func(ctx context.Context, p *printer, args []string) error {
		return a.withEngine(ctx, func(s *session) error {
			return a.forEach(ctx, p, args[1:], done+" job", func(id string) error {
				return a.jobError(ctx, s, do(ctx, s, s.queue(args[0]), id), args[0], id)
			})
		})
	})
	cmd.Args = takesArgs("QUEUE", "ID…")
	cmd.ValidArgsFunction = a.completeQueues(1)
	return cmd
}

// idView is the JSON of the result for one ID.
type idView struct {
	ID    string     `json:"id"`
	OK    bool       `json:"ok"`
	Error *errorView `json:"error,omitempty"`
}

// forEach calls do for each name and prints the results. It continues after an error of
// one name, but not if the engine is unavailable or refuses the token. If done is empty, do prints the
// results.
func (a *app) forEach(ctx context.Context, p *printer, names []string, done string, do func(name string) error) error {
	failed := false
	for _, name := range names {
		err := do(name)
		code := duly.CodeOf(err)
		switch {
		case err == nil && done == "":
		case err == nil && p.json:
			err = p.value(idView{ID: name, OK: true})
		case err == nil:
			p.printf("%s %s\n", done, oneLine(name))
		// After the only name there is nothing left to do. The other errors would repeat for each
		// name.
		case len(names) == 1 || ctx.Err() != nil || endsCommand(code):
			return err
		default:
			failed = true
			hint := a.hint(nil, code, err)
			if p.json {
				err = p.value(idView{ID: name, Error: a.errorView(code, err, hint)})
				break
			}
			a.printError(code, fmt.Errorf("%s: %w", name, err), hint)
			err = nil
		}
		if err != nil {
			return err
		}
	}

	if failed {
		return errReported
	}
	return nil
}

// endsCommand reports whether all further calls would fail with this code too.
func endsCommand(code duly.Code) bool {
	return code == duly.CodeUnavailable || code == duly.CodeUnauthorized || code == duly.CodeForbidden
}
