package cli

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/wire"
)

// listFlags choose what a list shows.
type listFlags struct {
	limit  int // duly.None: all
	bodies bool
}

func (f *listFlags) add(flags *pflag.FlagSet) {
	boundVar(flags, &f.limit, "limit", "the most jobs to list")
	flags.BoolVar(&f.bodies, "bodies", false, "show the bodies as well")
}

func jobListCommand(a *app) *cobra.Command {
	f := listFlags{limit: duly.DefaultPage}
	state := ""
	cmd := a.command("list QUEUE", "List jobs, of one state or of all",
		`Each state has its order: delayed by due time, ready as they will be delivered, blocked by order key, leased by the
end of the lease, dead and done oldest first. A job may change its state while the list is walked. What has fallen due in
a queue that nobody takes from is listed as delayed until a server looks there, every half a minute (--sweep-every).

WHEN is the moment that matters: when it is due, when the lease ends, or since when it is dead or done. FAILED is how many of
the job's tries have failed, as 3/16.`,
		`  duly job list emails
  duly job list emails --state delayed --limit 20
  duly job list emails --state dead --limit none --bodies --json > dead.ndjson`,
		func(ctx context.Context, p *printer, args []string) error {
			states := duly.States[:]
			if state != "" {
				one, err := duly.ParseState(state)
				if err != nil {
					return err
				}
				states = []duly.State{one}
			}
			return a.with(ctx, func(s *session) error { return a.listJobs(ctx, p, s, args[0], states, f) })
		})
	cmd.Args = wants("QUEUE")
	cmd.ValidArgsFunction = a.completeQueues(1)
	cmd.Flags().StringVar(&state, "state", "", "only this `state`: delayed, ready, blocked, leased, dead or done")
	fixed(cmd, "state", stateNames()...)
	f.add(cmd.Flags())
	return cmd
}

// listJobs walks the states one after the other, page by page.
func (a *app) listJobs(ctx context.Context, p *printer, s *session, queue string, states []duly.State, f listFlags) error {
	t := p.jobTable()
	defer t.flush()
	left, found := f.limit, 0
	for _, state := range states {
		page := duly.ListParams{State: state, Bodies: f.bodies}
		for {
			if left == 0 {
				a.remark("there may be more: --limit none lists all")
				return nil
			}
			page.Limit = duly.DefaultPage
			if left > 0 {
				page.Limit = min(left, duly.DefaultPage)
			}
			jobs, err := s.List(ctx, s.queue(queue), page)
			if err != nil {
				return err
			}
			found += len(jobs.Jobs)
			if left > 0 {
				left -= len(jobs.Jobs)
			}
			if err := p.jobs(t, jobs, f.bodies); err != nil {
				return err
			}
			if page.Cursor = jobs.Next; page.Cursor == "" {
				break
			}
		}
	}
	if found == 0 {
		a.remark("there are no " + ofStates(states) + "jobs in " + queue)
	}
	return nil
}

// ofStates names the one state that a list is of.
func ofStates(states []duly.State) string {
	if len(states) > 1 {
		return ""
	}
	return states[0].String() + " "
}

// jobs prints a page.
func (p *printer) jobs(t *table, page duly.ListPage, bodies bool) error {
	if p.json {
		p.lines(wire.AppendJobs(nil, page, bodies))
		return p.flush()
	}
	for i := range page.Jobs {
		t.addJob(&page.Jobs[i])
	}
	if len(t.rows) < duly.DefaultPage { // the states of a short list share their columns
		return nil
	}
	t.flush()
	return p.flush()
}
