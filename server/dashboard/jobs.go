package dashboard

import (
	"crypto/rand"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/dashboard/view"
	"github.com/dulymq/duly/server/failures"
	"github.com/dulymq/duly/server/route"
)

// jobsPerPage is the number of jobs of a list.
const jobsPerPage = 100

// jobs lists a queue's jobs of one state.
func (d *Dashboard) jobs(c *route.Call) error {
	q, cursor, fp := queueOf(c), c.Query("cursor"), c.Query("fp")
	var state duly.State
	if err := state.UnmarshalText([]byte(c.PathValue("state"))); err != nil {
		return contract.Errorf(duly.CodeNotFound,
			"there is no such state; a job is delayed, ready, blocked, leased, dead or done")
	}

	group := failures.Selection{Fingerprint: fp, Cursor: cursor}
	page, err := group.Page(c.Context(), d.cfg.Engine, q, state, jobsPerPage)
	if err != nil {
		return err
	}
	stats, err := d.cfg.Engine.Stats(c.Context(), q)
	if err != nil {
		return err
	}

	here, now := queuePath(q.Namespace, q.Name, state.String()), d.cfg.Clock.Now()
	v := view.Jobs{
		Queue: view.Link{Text: q.Name, To: queuePath(q.Namespace, q.Name)}, State: state.String(),
		States: states(q, d.numbers(q, &stats, contract.Throttle{}), state), Find: actionPath(q, "find"),
		Rows: make([]view.JobRow, len(page.Jobs)), Examined: page.Examined,
	}

	// The groups need a walk over all dead jobs, so only the first page and the pages of a group show them.
	if state == duly.StateDead && (cursor == "" || fp != "") {
		if v.Groups, err = d.groups(c, here, q.Name, d.failures.Sizes(q.Name, &stats)); err != nil {
			return err
		}
	}

	v.When, _ = when(state, &duly.JobInfo{})
	v.Frame = also(d.frame(c, q.Name+": "+state.String()), fmt.Sprintf("jobs %s --state %s", q.Name, state),
		fmt.Sprintf("/v1/%s/queues/%s/jobs?state=%s", q.Namespace, q.Name, state))
	v.Frame = d.stream(v.Frame, q.Name)

	for i := range page.Jobs {
		j := &page.Jobs[i]
		v.Rows[i] = jobRow(q, j, now)
		v.Keys = v.Keys || j.OrderKey != "" || j.Merge.Key != ""
		v.Errors = v.Errors || j.LastError != ""
	}

	v.Buttons = d.jobButtons(c, state, [3]string{"Run selected now", "Requeue selected …", "Delete selected …"}, "", "")
	v.Once, v.Checked = rand.Text(), c.Query("select") == "all"
	if len(v.Rows) > 0 && fp == "" {
		v.Purge = d.button(c, "purge", "Purge …", state.String())
	}

	v.Here, v.All = here, withQuery(here, "fp", fp, "cursor", cursor, "select", "all")
	if cursor != "" {
		v.First = withQuery(here, "fp", fp)
	}
	if page.Next != "" {
		v.Next = withQuery(here, "fp", fp, "cursor", page.Next)
	}
	return d.reply(c, http.StatusOK, "jobs.html", v)
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

func jobRow(q duly.QueueRef, j *duly.JobInfo, now time.Time) view.JobRow {
	_, at := when(j.State, j)
	return view.JobRow{
		Job:  view.Link{Text: j.ID, To: queuePath(q.Namespace, q.Name, "j", j.ID)},
		When: view.Field{Name: moment(at), Value: distance(at, now)},
		Age:  distance(j.PushedAt, now), Priority: strconv.Itoa(j.Priority), Attempt: attempt(j),
		Order: j.OrderKey, Merge: j.Merge.Key, Size: strconv.Itoa(j.Size), Error: failures.FirstLine(j.LastError),
	}
}

func attempt(j *duly.JobInfo) string { return fmt.Sprintf("%d of %d", j.Attempt, j.Tries) }

// job shows one job.
func (d *Dashboard) job(c *route.Call) error {
	q, id := queueOf(c), c.PathValue("id")
	j, err := d.cfg.Engine.Get(c.Context(), q, id)
	if err != nil {
		return err
	}

	state := j.State.String()
	v := view.Job{
		Queue: view.Link{Text: q.Name, To: queuePath(q.Namespace, q.Name)}, ID: j.ID,
		State:  view.Link{Text: state, To: queuePath(q.Namespace, q.Name, state)},
		Fields: jobFields(&j, d.cfg.Clock.Now()), Error: j.LastError, Hidden: d.cfg.HideBodies,
		Buttons: d.jobButtons(c, j.State, [3]string{"Run now", "Requeue", "Delete …"}, "job", state, j.ID),
	}
	if !d.cfg.HideBodies {
		v.Headers, v.Body = headerFields(j.Headers), text(j.Body)
		if len(j.Result) > 0 {
			v.Result = text(j.Result)
		}
	}
	if d.can(c, auth.Produce) && !d.cfg.HideBodies {
		v.Copy = withQuery(actionPath(q, "push"), "copy", j.ID)
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
		list = d.button(c, "promote", texts[0], back, ids...)
	case duly.StateDead:
		list = d.button(c, "requeue", texts[1], back, ids...)
	}
	return append(list, d.button(c, "delete", texts[2], gone, ids...)...)
}

// jobFields returns the fields of a job that are set.
func jobFields(j *duly.JobInfo, now time.Time) (list []view.Field) {
	for _, f := range []view.Field{
		{Name: "state", Value: j.State.String()}, {Name: "pushed", Value: since(j.PushedAt, now)},
		{Name: "due", Value: since(j.Due, now)}, {Name: "expires", Value: since(j.ExpiresAt, now)},
		{Name: "lease ends", Value: since(j.LeaseEnd, now)}, {Name: "finished", Value: since(j.FinishedAt, now)},
		{Name: "attempt", Value: attempt(j)}, {Name: "failures", Value: strconv.Itoa(j.Failures)},
		{Name: "stalls", Value: strconv.Itoa(j.Stalls)}, {Name: "priority", Value: strconv.Itoa(j.Priority)},
		{Name: "backoff", Value: fmt.Sprint(j.Backoff)}, {Name: "lease", Value: duration(j.Lease)},
		{Name: "retain", Value: duration(j.Retain)}, {Name: "order key", Value: j.OrderKey},
		{Name: "merge key", Value: j.Merge.Key}, {Name: "callback", Value: j.Callback},
	} {
		if f.Value != "" {
			list = append(list, f)
		}
	}
	return list
}

// headerFields returns the headers by name.
func headerFields(headers map[string]string) (list []view.Field) {
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		list = append(list, view.Field{Name: name, Value: headers[name]})
	}
	return list
}
