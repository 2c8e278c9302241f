package dashboard

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/dashboard/view"
	"github.com/dulymq/duly/server/route"
)

// jobsPerPage is the number of jobs of a list.
const jobsPerPage = 100

// jobs lists a queue's jobs of one state.
func (d *Dashboard) jobs(c *route.Call) error {
	q, cursor := queueOf(c), c.Query("cursor")
	var state duly.State
	if err := state.UnmarshalText([]byte(c.PathValue("state"))); err != nil {
		return contract.Errorf(duly.CodeNotFound,
			"there is no such state; a job is delayed, ready, blocked, leased, dead or done")
	}
	page, err := d.cfg.Engine.List(c.Context(), q, duly.ListParams{
		State: state, PageParams: duly.PageParams{Cursor: cursor, Limit: jobsPerPage},
	})
	if err != nil {
		return err
	}

	stats, err := d.cfg.Engine.Stats(c.Context(), q)
	if err != nil {
		return err
	}

	here, now := statePath(q.Namespace, q.Name, state.String()), d.cfg.Clock.Now()
	v := view.Jobs{
		Queue: view.Link{Text: q.Name, To: queuePath(q.Namespace, q.Name)}, State: state.String(),
		States: states(q, d.numbers(q, &stats, contract.Throttle{}), state), When: whenName(state), Find: findPath(q),
		Rows: make([]view.JobRow, len(page.Jobs)),
	}
	v.Frame = also(d.frame(c, q.Name+": "+state.String()), fmt.Sprintf("jobs %s --state %s", q.Name, state),
		fmt.Sprintf("/v1/%s/queues/%s/jobs?state=%s", q.Namespace, q.Name, state))
	v.Frame = d.stream(v.Frame, q.Name)
	for i := range page.Jobs {
		j := &page.Jobs[i]
		v.Rows[i] = jobRow(q, j, now)
		v.Keys = v.Keys || j.OrderKey != "" || j.Merge.Key != ""
		v.Errors = v.Errors || j.LastError != ""
	}
	v.Buttons, v.Once, v.Checked = d.selectionButtons(c, state), rand.Text(), c.Query("select") == "all"
	if len(v.Rows) > 0 {
		v.Purge = d.button(c, "purge", "Purge …", state.String())
	}
	v.Here, v.All = here, withQuery(here, "cursor", cursor, "select", "all")
	if cursor != "" {
		v.First = here
	}
	if page.Next != "" {
		v.Next = withQuery(here, "cursor", page.Next)
	}
	return d.reply(c, http.StatusOK, "jobs.html", v)
}

// whenName returns the name of the time by which the jobs of a state are ordered.
func whenName(s duly.State) string {
	switch s {
	case duly.StateLeased:
		return "Lease ends"
	case duly.StateDead, duly.StateDone:
		return "Finished"
	default:
		return "Due"
	}
}

func when(j *duly.JobInfo) time.Time {
	switch j.State {
	case duly.StateLeased:
		return j.LeaseEnd
	case duly.StateDead, duly.StateDone:
		return j.FinishedAt
	default:
		return j.Due
	}
}

func jobRow(q duly.QueueRef, j *duly.JobInfo, now time.Time) view.JobRow {
	return view.JobRow{
		Job:  view.Link{Text: j.ID, To: jobPath(q.Namespace, q.Name, j.ID)},
		When: view.Field{Name: moment(when(j)), Value: distance(when(j), now)},
		Age:  distance(j.PushedAt, now), Priority: strconv.Itoa(j.Priority), Attempt: attempt(j),
		Order: j.OrderKey, Merge: j.Merge.Key, Size: strconv.Itoa(j.Size), Error: firstLine(j.LastError),
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
		State:  view.Link{Text: state, To: statePath(q.Namespace, q.Name, state)},
		Fields: jobFields(&j, d.cfg.Clock.Now()), Error: j.LastError, Hidden: d.cfg.HideBodies,
		Buttons: d.jobButtons(c, &j),
	}
	if !d.cfg.HideBodies {
		v.Headers, v.Body = headerFields(j.Headers), text(j.Body)
		if len(j.Result) > 0 {
			v.Result = text(j.Result)
		}
	}
	if d.canPush(c) && !d.cfg.HideBodies {
		v.Copy = withQuery(actionPath(q, "push"), "copy", j.ID)
	}
	v.Frame = also(d.frame(c, j.ID), fmt.Sprintf("job get %s %s", q.Name, j.ID),
		fmt.Sprintf("/v1/%s/queues/%s/jobs/%s", q.Namespace, q.Name, j.ID))
	return d.reply(c, http.StatusOK, "job.html", v)
}

// jobButtons returns the actions on one job that its state permits.
func (d *Dashboard) jobButtons(c *route.Call, j *duly.JobInfo) (list []view.Button) {
	state := j.State.String()
	switch j.State {
	case duly.StateDelayed:
		list = d.button(c, "promote", "Run now", "job", j.ID)
	case duly.StateDead:
		list = d.button(c, "requeue", "Requeue", "job", j.ID)
	}
	return append(list, d.button(c, "delete", "Delete …", state, j.ID)...)
}

// selectionButtons returns the actions on selected jobs of a state.
func (d *Dashboard) selectionButtons(c *route.Call, s duly.State) (list []view.Button) {
	switch s {
	case duly.StateDelayed:
		list = d.button(c, "promote", "Run selected now", "")
	case duly.StateDead:
		list = d.button(c, "requeue", "Requeue selected …", "")
	}
	return append(list, d.button(c, "delete", "Delete selected …", "")...)
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
	for name, value := range headers {
		list = append(list, view.Field{Name: name, Value: value})
	}
	slices.SortFunc(list, func(a, b view.Field) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return list
}
