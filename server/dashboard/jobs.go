package dashboard

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/server/dashboard/render"
	"github.com/dulymq/duly/server/dashboard/view"
	"github.com/dulymq/duly/server/jobfilter"
	"github.com/dulymq/duly/server/route"
)

// jobsPerPage is the number of jobs of a list.
const jobsPerPage = 100

// listOf returns the parameters of a list of jobs.
func (d *Dashboard) listOf(c *route.Call) (list duly.ListParams, err error) {
	if err := list.State.UnmarshalText([]byte(c.PathValue("state"))); err != nil {
		return list, contract.Errorf(duly.CodeNotFound,
			"there is no such state; a job is delayed, ready, blocked, leased, dead or done")
	}
	list.Newest, list.Cursor, list.Limit = c.Query("order") == "newest", c.Query("cursor"), jobsPerPage
	list.From, err = parseFrom(c.Query("from"), list.State, d.cfg.Clock.Now())
	return list, err
}

// jobs lists a queue's jobs of one state.
func (d *Dashboard) jobs(c *route.Call) error {
	q := queueOf(c)
	list, err := d.listOf(c)
	if err != nil {
		return err
	}
	page, err := d.list(c, q, list)
	if err != nil {
		return err
	}
	stats, err := d.cfg.Engine.Stats(c.Context(), q)
	if err != nil {
		return err
	}

	v := d.jobTable(c, q, &list, &page, *stats.Sizes.Of(list.State))
	v.States = states(q, d.numbers(q, &stats, contract.Throttle{}), list.State)
	// The groups need a walk over all dead jobs, so only the first page and the pages of a group show them.
	if list.State == duly.StateDead && (list.Cursor == "" || v.Filter != "") {
		if v.Groups, err = d.groups(c, v.Here, q.Name, d.failures.Sizes(q.Name, &stats)); err != nil {
			return err
		}
	}
	return d.reply(c, http.StatusOK, "jobs.html", v)
}

// jobTable returns a page of a list with its rows, links and actions.
func (d *Dashboard) jobTable(
	c *route.Call, q duly.QueueRef, list *duly.ListParams, page *jobfilter.Found, total int64,
) view.Jobs {
	fp, where, order, state := c.Query("fp"), c.Query("where"), c.Query("order"), list.State.String()
	here, now, flags, from := queuePath(q.Namespace, q.Name, state), d.cfg.Clock.Now(), "", ""
	if list.Newest {
		flags += " --newest"
	}
	if where != "" {
		flags += " --where " + shellWord(where)
	}
	if !list.From.IsZero() {
		from = list.From.UTC().Truncate(time.Millisecond).Format(time.RFC3339Nano)
		flags += " --from " + from
	}

	v := view.Jobs{
		Queue: view.Link{Text: q.Name, To: queuePath(q.Namespace, q.Name)}, State: state,
		Rows: page.Jobs, Examined: page.Examined, Here: here, Filter: fp, Where: where, Newest: list.Newest,
		Timed: contract.SortedByTime(list.State), From: from,
		Whole:      withQuery(here, "fp", fp, "order", order, "where", where),
		Conditions: strings.Join(jobfilter.Fields(), ", "),
		Once:       rand.Text(), Checked: c.Query("select") == "all",
	}
	v.Now = now
	v.When, _ = when(list.State, &duly.JobInfo{})
	request := withQuery(render.Path(fmt.Sprintf("/v1/%s/queues/%s/jobs?state=%s", q.Namespace, q.Name, state)),
		"order", order, "from", from)
	v.Frame = also(d.frame(c, q.Name+": "+state), "jobs "+q.Name+" --state "+state+flags, string(request))
	v.Frame = d.stream(v.Frame, q.Name)

	for i := range page.Jobs {
		j := &page.Jobs[i]
		v.Keys = v.Keys || j.OrderKey != "" || j.Merge.Key != ""
		v.Errors = v.Errors || j.LastError != ""
	}
	v.Buttons = d.jobButtons(c, list.State, [3]string{"Run selected now", "Requeue selected …", "Delete selected …"}, "", "")
	if len(v.Rows) > 0 && fp == "" && from == "" && where == "" {
		v.Links = d.startLinks(c, list.State)
	}

	// The links have the time of a duration from now, so all pages begin at the same time.
	first := withQuery(v.Whole, "from", from)
	v.Export = exportLinks(q, state, "fp", fp, "order", order, "where", where, "from", from)
	v.All = withQuery(first, "cursor", list.Cursor, "select", "all")
	if list.Cursor != "" {
		v.First = first
	}
	if page.Next != "" {
		v.Next = withQuery(first, "cursor", page.Next)
	}
	if page.Examined > 0 {
		counts := progress(c, page, total, &v)
		if page.Next != "" {
			v.Next = withQuery(v.Next, counts...)
		}
	}
	return v
}

// parseFrom returns the time of a form at which a list begins: a time in UTC, or a duration from now. Finished jobs lie
// in the past, so a duration counts back.
func parseFrom(text string, s duly.State, now time.Time) (time.Time, error) {
	if d, err := duly.ParseDuration(text); err == nil && d >= 0 {
		if s == duly.StateDead || s == duly.StateDone {
			d = -d
		}
		return now.Add(d), nil
	}
	for _, layout := range []string{momentLayout, time.RFC3339Nano, time.DateTime, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil && !t.IsZero() {
			return t, nil
		}
	}
	if text == "" {
		return time.Time{}, nil
	}
	return time.Time{}, contract.Invalid("from",
		"is %q; write a time in UTC like 2030-12-31 18:00:00, or a duration like 10m", text)
}

// when returns the time that orders the jobs of a state, and its name.
func when(s duly.State, j *duly.JobInfo) (string, time.Time) {
	switch s {
	case duly.StateLeased:
		return "Lease ends", j.LeaseEnd
	case duly.StateDead, duly.StateDone:
		return "Finished", j.FinishedAt
	default:
		return "Due", j.Due
	}
}

// job shows one job.
func (d *Dashboard) job(c *route.Call) error {
	q, id := queueOf(c), c.PathValue("id")
	j, err := d.cfg.Engine.Get(c.Context(), q, id)
	if err != nil {
		return err
	}

	state, answer := j.State.String(), wire.JobForm.Append(nil, j)
	v := view.Job{
		Queue: view.Link{Text: q.Name, To: queuePath(q.Namespace, q.Name)}, Error: j.LastError, Hidden: d.cfg.HideBodies,
		State: view.Link{Text: state, To: queuePath(q.Namespace, q.Name, state)},
	}
	if v.Why, err = d.why(c, q, &j); err != nil {
		return err
	}
	v.Fields = shown(answer, d.cfg.Clock.Now(), "id", "queue", "body", "body_base64", "headers", "last_error", "result",
		"result_base64")
	v.Buttons = d.jobButtons(c, j.State, [3]string{"Run now", "Requeue", "Delete …"}, "job", state, j.ID)
	if !d.cfg.HideBodies {
		v.Headers, v.Body, v.Links = below("headers.", answer), text(j.Body), d.formLink(c, &pushForm, "Push a copy", "copy", j.ID)
		if len(j.Result) > 0 {
			v.Result = text(j.Result)
		}
	}
	v.Frame = also(d.frame(c, j.ID), fmt.Sprintf("job get %s %s", q.Name, j.ID),
		fmt.Sprintf("/v1/%s/queues/%s/jobs/%s", q.Namespace, q.Name, j.ID))
	return d.reply(c, http.StatusOK, "job.html", v)
}

// jobButtons returns the actions on jobs of a state, with their texts: to run now, to requeue and to delete. back and
// gone are the pages after an action that keeps the jobs, and after one that does not.
func (d *Dashboard) jobButtons(
	c *route.Call, s duly.State, texts [3]string, back, gone string, ids ...string,
) (list []view.Button) {
	switch s {
	case duly.StateDelayed:
		list = d.button(c, ofJobs, "promote", texts[0], back, ids...)
	case duly.StateDead:
		list = d.button(c, ofJobs, "requeue", texts[1], back, ids...)
	}
	return append(list, d.button(c, ofJobs, "delete", texts[2], gone, ids...)...)
}
