package cli

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/wire"
)

// listFlags choose what a list shows.
type listFlags struct {
	limit  int    // duly.None: all
	cursor string // STATE:CURSOR, from the list before
	bodies bool
}

func (f *listFlags) add(flags *pflag.FlagSet) {
	boundVar(flags, &f.limit, "limit", "the most jobs to list")
	flags.StringVar(&f.cursor, "cursor", "", "continue after the list that printed this `text`")
	flags.BoolVar(&f.bodies, "bodies", false, "show the bodies as well")
}

func jobListCommand(a *app) *cobra.Command {
	return a.jobList("list QUEUE", `  duly job list emails
  duly job list emails --state delayed --limit 20
  duly job list emails --state dead --limit none --bodies --json > dead.ndjson`)
}

// jobsCommand is job list under a shorter name.
func jobsCommand(a *app) *cobra.Command {
	return a.jobList("jobs QUEUE", `  duly jobs emails
  duly jobs emails --state dead`)
}

func (a *app) jobList(use, examples string) *cobra.Command {
	f := listFlags{limit: duly.DefaultPage}
	state := ""
	cmd := a.command(use, "List jobs, of one state or of all",
		`Each state has its order: delayed by due time, ready as they will be delivered, blocked by order key, leased by the
end of the lease, dead and done oldest first. A job may change its state while the list is walked. What has fallen due in
a queue that nobody takes from is listed as delayed until a server looks there, every half a minute (--sweep-every).

WHEN is the moment that matters: when it is due, when the lease ends, or since when it is dead or done. FAILED is how many of
the job's tries have failed, as 3/16.

If there are more jobs than --limit, a line on standard error says how many, and with which --cursor the next list
continues.`,
		examples,
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

// listJobs walks the states one after the other, page by page, up to the limit.
func (a *app) listJobs(ctx context.Context, p *printer, s *session, queue string, states []duly.State, f listFlags) error {
	w := jobWalk{session: s, queue: s.queue(queue), states: states}
	if err := w.resume(f.cursor); err != nil {
		return err
	}
	t := p.jobTable()
	found := 0
	for left := f.limit; left != 0 && !w.ended(); {
		n := duly.DefaultPage
		if left > 0 {
			n = min(left, n)
		}
		page, err := w.next(ctx, n, f.bodies)
		if err != nil {
			t.flush()
			return a.orMissing(ctx, s, err, queue)
		}
		found += len(page.Jobs)
		if left > 0 {
			left -= len(page.Jobs)
		}
		if err := p.jobs(t, page, f.bodies); err != nil {
			return err
		}
	}

	t.flush()
	if err := p.flush(); err != nil {
		return err
	}
	if found == 0 && f.cursor == "" {
		if err := a.mustExist(ctx, s, queue); err != nil {
			return err
		}
		a.remark("there are no " + ofStates(states) + "jobs in " + queue)
	}
	return a.moreJobs(ctx, &w, found, f.cursor == "")
}

// moreJobs prints on standard error how many jobs a list left out, and the cursor
// to continue. The number is known only for a whole list, one without a cursor:
// it is the difference to Stats.
func (a *app) moreJobs(ctx context.Context, w *jobWalk, found int, whole bool) error {
	cursor := w.cursor()
	for there := false; !there; { // a page may be empty and still have a next one
		if w.ended() {
			return nil
		}
		cursor = w.cursor()
		page, err := w.next(ctx, 1, false)
		if err != nil {
			return err
		}
		there = len(page.Jobs) > 0
	}

	view := moreView{Cursor: cursor}
	if stats, err := w.session.Stats(ctx, w.queue); err == nil && whole {
		for _, state := range w.states {
			view.Jobs += *stats.Sizes.Of(state)
		}
		view.Jobs = max(view.Jobs-int64(found), 1)
	}

	if a.json {
		line, _ := json.Marshal(map[string]moreView{"more": view})
		a.errorLine(line)
		return nil
	}
	count := ""
	if view.Jobs > 0 {
		count = countText(view.Jobs) + " "
	}
	a.note("… %smore (--limit none, --cursor %s)", count, cursor)
	return nil
}

// moreView describes the jobs that a list left out.
type moreView struct {
	Jobs   int64  `json:"jobs,omitempty"` // 0 if unknown
	Cursor string `json:"cursor"`
}

// jobWalk lists the jobs of several states, one state after the other.
type jobWalk struct {
	session *session
	queue   duly.QueueRef
	states  []duly.State
	at      int    // into states
	after   string // the engine's cursor in that state
}

// resume sets the walk to a position that cursor returned.
func (w *jobWalk) resume(cursor string) error {
	if cursor == "" {
		return nil
	}
	name, after, _ := strings.Cut(cursor, ":")
	w.at = slices.IndexFunc(w.states, func(s duly.State) bool { return s.String() == name })
	if w.at < 0 {
		return duly.Invalid("cursor", "is not of this list; pass the --state of the list that printed it")
	}
	w.after = after
	return nil
}

// cursor returns the position of the walk as STATE:CURSOR.
func (w *jobWalk) cursor() string {
	if w.ended() {
		return ""
	}
	return w.states[w.at].String() + ":" + w.after
}

func (w *jobWalk) ended() bool { return w.at == len(w.states) }

// next lists the next page, which may be empty.
func (w *jobWalk) next(ctx context.Context, n int, bodies bool) (duly.ListPage, error) {
	params := duly.ListParams{
		State: w.states[w.at], PageParams: duly.PageParams{Cursor: w.after, Limit: n}, Bodies: bodies,
	}
	page, err := w.session.List(ctx, w.queue, params)
	if err != nil {
		return page, err
	}
	if w.after = page.Next; w.after == "" {
		w.at++
	}
	return page, nil
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
