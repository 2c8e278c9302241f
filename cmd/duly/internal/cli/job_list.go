package cli

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/server/jobfilter"
)

// listFlags are the flags of a list of jobs.
type listFlags struct {
	limit  int    // duly.None means all
	cursor string // STATE:CURSOR, as the previous list printed it
	bodies bool
	newest bool
	from   momentFlag
	where  string
}

func (f *listFlags) add(flags *pflag.FlagSet) {
	optionalCountVar(flags, &f.limit, "limit", "maximum number of jobs")
	flags.StringVar(&f.cursor, "cursor", "", "continue after the list that printed this `cursor`")
	flags.BoolVar(&f.bodies, "bodies", false, "show the bodies too")
}

// addChoice adds the flags that choose jobs: the direction of the list, the moment at which it begins, and conditions.
func (f *listFlags) addChoice(flags *pflag.FlagSet) {
	flags.BoolVar(&f.newest, "newest", false, "reverse the order of each shard, such as its newest dead job first")
	flags.Var(&f.from, "from", "begin at this `time`, day, or duration from now, such as 10m")
	flags.StringVar(&f.where, "where", "", "only jobs that meet these `conditions`, such as 'error~timeout priority>=5'")
}

// check returns a usage error if the jobs of the states have no moment for --from.
func (f *listFlags) check(states []duly.State) error {
	if f.from.set && (len(states) > 1 || !contract.SortedByTime(states[0])) {
		return usageErrorf("--from needs a --state whose jobs are sorted by time: delayed, leased, dead or done")
	}
	return nil
}

// momentFlag is a time, or a duration from now.
type momentFlag struct {
	set   bool
	at    time.Time // zero for a duration
	apart time.Duration
}

// String implements pflag.Value.
func (f *momentFlag) String() string { return "" }

// Type implements pflag.Value.
func (f *momentFlag) Type() string { return "time" }

// Set implements pflag.Value.
func (f *momentFlag) Set(text string) error {
	*f = momentFlag{set: true}
	if d, err := duly.ParseDuration(text); err == nil && d >= 0 {
		f.apart = d
		return nil
	}
	if (dayFlag{timeFlag{&f.at, time.Local}}).Set(text) != nil || f.at.IsZero() {
		return usageErrorf("write a time like 2030-12-24T18:00:00Z, a day, or a duration like 10m")
	}
	return nil
}

// in returns the moment for the jobs of a state. The moments of finished jobs are in the past, so a
// duration counts back.
func (f *momentFlag) in(state duly.State, now time.Time) time.Time {
	switch {
	case !f.set || !f.at.IsZero():
		return f.at
	case state == duly.StateDead || state == duly.StateDone:
		return now.Add(-f.apart)
	}
	return now.Add(f.apart)
}

// whereHelp is the part of a help text about --where.
const whereHelp = `--where prints only the jobs that meet all conditions. A condition is a field, an operator and a value, and a - before
it means that it does not hold. The value of error~"no route" is in quotes because it has a space. The fields are:

  id, key, merge, error, body, result, header.NAME        ~ contains a text, : is equal
  priority, attempt, tries, failures, stalls, size        >= <= > < : a number; size may have a unit such as 64KiB
  pushed, due, expires, finished, lease                   >= <= > < : a time or a day in UTC
  age                                                     >= <= > < : a duration since the push, such as 10m
  fp                                                      : a group of duly dead list --groups

No index serves these conditions, so the command examines every job of the list.`

func jobListCommand(a *app) *cobra.Command {
	return a.jobList("list QUEUE", `  duly job list emails
  duly job list emails --state delayed --limit 20
  duly job list emails --state dead --newest --from 10m
  duly job list emails --where 'header.tenant:acme -key:"account 9" age>10m'
  duly job list emails --state dead --limit none --bodies --json > dead.ndjson`)
}

// jobsCommand returns job list under a shorter name.
func jobsCommand(a *app) *cobra.Command {
	return a.jobList("jobs QUEUE", `  duly jobs emails
  duly jobs emails --state dead`)
}

func (a *app) jobList(use, examples string) *cobra.Command {
	f := listFlags{limit: duly.DefaultPage}
	state := ""
	cmd := a.command(use, "List the jobs of one state, or all jobs",
		`Each state has its order: delayed jobs by due time, ready jobs in the order of delivery, blocked jobs by order key,
leased jobs by the end of the lease, dead and done jobs oldest first. A job may change its state while the command
lists the jobs. In a queue without workers, a job that is due is listed as delayed until a server checks the queue,
every 30 seconds (--sweep-every).

WHEN is the time when the job is due, when its lease ends, or when it became dead or done. FAILED is the number of
failed tries, such as 3/16.

--newest reverses the order of each state. In a queue with several shards, each shard is listed in turn. --from begins
at the first job whose WHEN is this time or later, with --newest at the last one whose WHEN is this time or earlier. A
duration such as 10m is 10 minutes ago for dead and done jobs, and in 10 minutes for delayed and leased jobs. So
--newest --from 10m lists the jobs that died 10 minutes ago or earlier. For the last 10 minutes, leave out --newest.

`+whereHelp+`

If there are more jobs than --limit, a line on standard error has their number and the flags for the next list.`,
		examples,
		func(ctx context.Context, p *printer, args []string) error {
			states := duly.States[:]
			if state != "" {
				only, err := contract.ParseState(state)
				if err != nil {
					return err
				}
				states = []duly.State{only}
			}
			if err := f.check(states); err != nil {
				return err
			}
			return a.withEngine(ctx, func(s *session) error { return a.listJobs(ctx, p, s, args[0], states, f) })
		})

	cmd.Args = takesArgs("QUEUE")
	cmd.ValidArgsFunction = a.completeQueues(1)
	stateVar(cmd, &state, "list only this `state`: delayed, ready, blocked, leased, dead or done")
	f.add(cmd.Flags())
	f.addChoice(cmd.Flags())
	return cmd
}

// listJobs lists the jobs of the states, one state after the other, up to the limit.
func (a *app) listJobs(
	ctx context.Context, p *printer, s *session, queue string, states []duly.State, f listFlags,
) error {
	l := jobLister{session: s, queue: s.queue(queue), states: states, newest: f.newest, where: f.where}
	if f.from.set {
		// The hint for the next list has milliseconds, and both lists must begin at the same moment.
		l.from = f.from.in(states[0], p.now()).Truncate(time.Millisecond)
	}
	if err := l.resume(f.cursor); err != nil {
		return err
	}
	if err := a.filter(ctx, &l, f.where); err != nil {
		return err
	}
	defer l.examined.end()

	t := p.jobTable()
	found := 0

	// Without a limit, left is negative and never reaches zero.
	for left := f.limit; left != 0 && !l.ended(); {
		n := duly.DefaultPage
		if left > 0 {
			n = min(left, n)
		}
		page, err := l.next(ctx, n, f.bodies)
		if err != nil {
			// The jobs before the error are still worth printing.
			t.flush()
			return a.orMissing(ctx, s, err, queue)
		}

		found += len(page.Jobs)
		if left > 0 {
			left -= len(page.Jobs)
		}
		l.examined.end() // the rows are printed in its place
		if err := p.jobs(t, page, f.bodies); err != nil {
			return err
		}
	}

	t.flush()
	if err := p.flush(); err != nil {
		return err
	}

	if found == 0 && f.cursor == "" {
		if err := a.noteNoJobs(ctx, &l); err != nil {
			return err
		}
	}
	return a.noteMoreJobs(ctx, &l, found, f.cursor == "" && !f.from.set && l.filter.Empty())
}

// noteNoJobs notes that a list is empty. An unknown queue looks like an empty one, and is an error. A list that continues
// has found the queue before.
func (a *app) noteNoJobs(ctx context.Context, l *jobLister) error {
	if err := a.mustExist(ctx, l.session, l.queue.Name); err != nil {
		return err
	}
	where := ""
	if !l.from.IsZero() {
		where = " in this range"
	}
	if !l.filter.Empty() {
		where += " that meet the conditions"
	}
	a.noteOnTerminal("there are no %sjobs%s in %s", stateText(l.states), where, l.queue.Name)
	return nil
}

// filter makes a list examine its jobs by conditions. On a terminal it shows the progress.
func (a *app) filter(ctx context.Context, l *jobLister, where string) (err error) {
	if l.filter, err = jobfilter.Parse(where, a.env.Clock.Now()); err != nil || l.filter.Empty() {
		return err
	}

	// The total is only for the progress, so an error of Stats leaves it out.
	total := int64(0)
	if stats, err := l.session.Stats(ctx, l.queue); err == nil && l.from.IsZero() && l.index == 0 && l.after == "" {
		for _, state := range l.states {
			total += *stats.Sizes.Of(state)
		}
	}
	l.clock, l.examined = a.env.Clock, a.newProgress("examine", total)
	return nil
}

// noteMoreJobs prints on standard error how many jobs a list left out, and the cursor to
// continue. The number is the difference to Stats, so it is known only for a list that
// began at the start.
func (a *app) noteMoreJobs(ctx context.Context, l *jobLister, found int, fromStart bool) error {
	cursor := l.cursor()
	for more := !l.ended() && !l.filter.Empty(); !more; { // an empty page may have a next page
		if l.ended() {
			return nil
		}
		cursor = l.cursor()
		page, err := l.next(ctx, 1, false)
		if err != nil {
			return err
		}
		more = len(page.Jobs) > 0
	}

	view := moreView{Newest: l.newest, From: stamp(l.from), Cursor: cursor, Where: l.where}

	// The number is only a courtesy, so an error of Stats leaves it out.
	if stats, err := l.session.Stats(ctx, l.queue); err == nil && fromStart {
		for _, state := range l.states {
			view.Jobs += *stats.Sizes.Of(state)
		}

		// The queue may have changed since, but the page above had at least one more job.
		view.Jobs = max(view.Jobs-int64(found), 1)
	}

	if a.json {
		line, _ := json.Marshal(map[string]moreView{"more": view})
		a.errorLine(line)
		return nil
	}
	count, flags := "", ""
	if view.Jobs > 0 {
		count = countText(view.Jobs) + " "
	}
	if view.Newest {
		flags = "--newest "
	}
	if view.From != "" {
		flags += "--from " + view.From + " "
	}
	if view.Where != "" {
		flags += "--where " + shellQuote(view.Where) + " "
	}
	a.note("… %smore (--limit none, %s--cursor %s)", count, flags, cursor)
	return nil
}

// moreView is the JSON of the jobs that a list left out.
type moreView struct {
	Jobs   int64  `json:"jobs,omitempty"` // 0 if it is unknown
	Newest bool   `json:"newest,omitempty"`
	From   string `json:"from,omitempty"` // a time, also if the flag was a duration
	Where  string `json:"where,omitempty"`
	Cursor string `json:"cursor"`
}

// jobLister lists the jobs of several states, one state after the other.
type jobLister struct {
	session *session
	queue   duly.QueueRef
	states  []duly.State
	newest  bool
	from    time.Time // zero for no bound
	index   int       // index of the current state
	after   string    // the engine's cursor in the current state

	filter   *jobfilter.Filter // conditions on the jobs, never nil
	where    string            // the same as text
	clock    duly.Clock
	examined *progress // nil without conditions or a terminal
}

// resume continues at a cursor of an earlier list.
func (l *jobLister) resume(cursor string) error {
	if cursor == "" {
		return nil
	}
	name, after, _ := strings.Cut(cursor, ":")
	l.index = slices.IndexFunc(l.states, func(s duly.State) bool { return s.String() == name })

	if !slices.Contains(stateNames(), name) {
		return contract.Invalid("cursor", "is not a cursor; copy it from the list before")
	}
	// A cursor of another state would start at a wrong position.
	if l.index < 0 {
		return contract.Invalid("cursor", "belongs to another list; pass the --state of the list that printed it")
	}
	l.after = after
	return nil
}

// cursor returns the current position as STATE:CURSOR.
func (l *jobLister) cursor() string {
	if l.ended() {
		return ""
	}
	return l.states[l.index].String() + ":" + l.after
}

func (l *jobLister) ended() bool { return l.index == len(l.states) }

// next returns the next page, which may be empty.
func (l *jobLister) next(ctx context.Context, n int, bodies bool) (duly.ListPage, error) {
	params := duly.ListParams{
		State: l.states[l.index], PageParams: duly.PageParams{Cursor: l.after, Limit: n}, Bodies: bodies,
		Newest: l.newest, From: l.from,
	}
	page, err := l.page(ctx, params)
	if err != nil {
		return page, err
	}

	// An empty cursor ends the state, so the next call begins with the next one.
	if l.after = page.Next; l.after == "" {
		l.index++
	}
	return page, nil
}

// page returns a page of the jobs that meet the conditions.
func (l *jobLister) page(ctx context.Context, params duly.ListParams) (duly.ListPage, error) {
	if l.filter.Empty() {
		return l.session.List(ctx, l.queue, params)
	}
	params.Bodies = params.Bodies || l.filter.Bodies()
	found, err := jobfilter.Page(ctx, l.session, l.clock, l.queue, params, filterBudget, l.filter.Match)
	l.examined.add(int64(found.Examined), 0)
	return found.ListPage, err
}

// filterBudget is the time after which a list with conditions prints what it has found.
const filterBudget = 200 * time.Millisecond

// stateText returns the state of a list of one state, with a space.
func stateText(states []duly.State) string {
	if len(states) > 1 {
		return ""
	}
	return states[0].String() + " "
}

// jobs prints a page of jobs.
func (p *printer) jobs(t *table, page duly.ListPage, bodies bool) error {
	if p.json {
		p.lines(wire.AppendJobs(nil, page, bodies))
		return p.flush()
	}
	for i := range page.Jobs {
		t.addJob(&page.Jobs[i])
	}
	if len(t.rows) < duly.DefaultPage { // the states of a short list share a table
		return nil
	}
	t.flush()
	return p.flush()
}
