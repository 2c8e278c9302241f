package dashboard

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/audit"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/dashboard/render"
	"github.com/dulymq/duly/server/dashboard/session"
	"github.com/dulymq/duly/server/dashboard/view"
	"github.com/dulymq/duly/server/failures"
	"github.com/dulymq/duly/server/route"
)

// Auditor writes the audit log. [audit.Log] implements it.
type Auditor interface {
	// Begin writes the intent of an action. After an error the action must not run.
	Begin(audit.Action) (end func(audit.Outcome), err error)
}

// action is a change that pages offer. It is the same as a route of the API, and needs the right of that route.
type action struct {
	name   string
	api    string
	access auth.Access
	// jobs is set if the action is about jobs of the queue, and not about the queue.
	jobs bool
	// state is set if the action is about every job of the state in [target.back].
	state bool
	// confirm returns the question before the action, "" if it runs at once.
	confirm func(t *target) string
	// typed is set if the confirmation needs the name of the queue.
	typed bool
	run   func(ctx context.Context, e contract.Engine, t *target) error
	// done says what has happened to the queue, or to one job and to several.
	done [2]string
}

// maxPurged is the number of jobs that one purge deletes, in calls of purgeStep. So a form has an answer in time.
const maxPurged, purgeStep = 10_000, 1000

// maxSelected is the number of jobs of one action: those of one page.
const maxSelected = jobsPerPage

const apiQueue = "/v1/{namespace}/queues/{queue}"

// actions lists all changes that pages offer.
var actions = []action{
	{
		name: "pause", api: "POST " + apiQueue + "/pause", access: auth.Admin, done: [2]string{"The queue is paused."},
		run: func(ctx context.Context, e contract.Engine, t *target) error { return e.Pause(ctx, t.queue) },
	},
	{
		name: "resume", api: "POST " + apiQueue + "/resume", access: auth.Admin, done: [2]string{"The queue is open again."},
		run: func(ctx context.Context, e contract.Engine, t *target) error { return e.Resume(ctx, t.queue) },
	},
	{
		name: "destroy", api: "DELETE " + apiQueue, access: auth.Admin, done: [2]string{"The queue is destroyed."},
		typed: true, confirm: func(t *target) string { return "Destroy the queue " + t.queue.Name + "?" },
		run: func(ctx context.Context, e contract.Engine, t *target) error { return e.Destroy(ctx, t.queue) },
	},
	{
		name: "purge", api: "POST " + apiQueue + "/purge", access: auth.Admin, state: true, typed: true,
		done:    [2]string{"1 job is deleted.", "%d jobs are deleted."},
		confirm: func(t *target) string { return "Delete every " + t.back + " job of " + t.queue.Name + "?" },
		run:     purge,
	},
	{
		name: "requeue", api: "POST " + apiQueue + "/requeue", access: auth.Admin, jobs: true,
		done: [2]string{"1 job is requeued.", "%d jobs are requeued."}, run: requeue,
		confirm: func(t *target) string { return t.question("", "Requeue %d dead jobs") },
	},
	{
		name: "promote", api: "POST " + apiQueue + "/jobs/promote", access: auth.Produce, jobs: true,
		done: [2]string{"1 job is due now.", "%d jobs are due now."},
		run: func(ctx context.Context, e contract.Engine, t *target) error {
			errs, err := e.PromoteJobs(ctx, t.queue, t.ids)
			return cmp.Or(err, t.end(errs...))
		},
	},
	{
		name: "delete", api: "POST " + apiQueue + "/jobs/delete", access: auth.Produce, jobs: true,
		done: [2]string{"1 job is deleted.", "%d jobs are deleted."}, run: deleteJobs,
		confirm: func(t *target) string { return t.question("Delete the job %s?", "Delete %d jobs") },
	},
}

// actionNamed returns an action of the list.
func actionNamed(name string) *action {
	return &actions[slices.IndexFunc(actions, func(a action) bool { return a.name == name })]
}

// target is what an action is about, and how it ends.
type target struct {
	queue duly.QueueRef
	ids   []string
	group *failures.Selection // selects the jobs instead of ids
	// back is the page after the action: a state, job, or "" for the queue. state is set for an action on jobs of one state.
	back  string
	state duly.State

	done, failed int
	err          error // of the first job that failed
}

// end counts the results of jobs. It returns the error of an action that has changed nothing. A step of a group returns
// no error, because another action may have changed its jobs.
func (t *target) end(errs ...error) error {
	for _, err := range errs {
		if err == nil {
			t.done++
			continue
		}
		t.failed++
		t.err = cmp.Or(t.err, err)
	}
	if t.done > 0 || t.group != nil {
		return nil
	}
	return t.err
}

func purge(ctx context.Context, e contract.Engine, t *target) error {
	for t.done < maxPurged {
		n, err := e.Purge(ctx, t.queue, t.state, purgeStep)
		t.done += n
		if err != nil {
			return t.end(err)
		}
		if n < purgeStep {
			return nil
		}
	}
	return nil
}

func requeue(ctx context.Context, e contract.Engine, t *target) error {
	results, err := e.Requeue(ctx, t.queue, duly.RequeueParams{IDs: t.ids})
	errs := make([]error, len(results))
	for i := range results {
		errs[i] = results[i].Err
	}
	return cmp.Or(err, t.end(errs...))
}

// deleteJobs deletes jobs. Those of a group stay if another action has requeued them.
func deleteJobs(ctx context.Context, e contract.Engine, t *target) error {
	errs, err := e.DeleteJobs(ctx, t.queue, t.ids, t.state)
	return cmp.Or(err, t.end(errs...))
}

// question returns the question before an action: several with the number of jobs, or one with the ID of the only job.
// It returns "" for an action on one job that needs no question.
func (t *target) question(one, several string) string {
	switch {
	case t.group != nil:
		return t.group.Question(several, t.queue.Name)
	case len(t.ids) == 1 && one != "":
		return fmt.Sprintf(one, t.ids[0])
	case len(t.ids) == 1:
		return ""
	}
	return fmt.Sprintf(several+" of %s?", len(t.ids), t.queue.Name)
}

// text says what an action has done.
func (a *action) text(t *target) string {
	text := a.done[0]
	if (a.jobs || a.state) && t.done != 1 {
		text = fmt.Sprintf(a.done[1], t.done)
	}
	if a.state && t.done >= maxPurged {
		text += " That is the most of one action: purge again."
	}
	text += t.group.Rest()
	if t.failed > 0 {
		text += fmt.Sprintf(" %d could not be changed, the first one because: %v.", t.failed, t.err)
	}
	return text
}

// actionRoutes returns the routes of all actions.
func (d *Dashboard) actionRoutes(queue string) (list []route.Route) {
	for i := range actions {
		a := &actions[i]
		r := d.route("POST", queue+"/"+a.name, a.access, func(c *route.Call) error { return d.act(c, a) })
		r.MaxBody = maxSelection
		list = append(list, r)
	}
	return list
}

// act runs an action, after its confirmation where it needs one.
func (d *Dashboard) act(c *route.Call, a *action) error {
	form, s, err := d.submitted(c)
	if err != nil {
		return err
	}
	t := &target{queue: queueOf(c), back: form.Get("back")}
	if a.jobs {
		if err = t.choose(form, d.cfg.Clock.Now()); err != nil {
			return err
		}
	}
	if a.state && t.state.UnmarshalText([]byte(t.back)) != nil {
		return contract.Invalid("back", "is %q, must be a state such as dead", t.back)
	}

	// A group is counted again with each form, because jobs may have died since the last one.
	named := form.Get("name") == t.queue.Name
	if t.group != nil && !named {
		if err := d.measure(c, t, form.Get("confirmed") == ""); err != nil {
			return err
		}
	}
	if a.confirm != nil && form.Get("confirmed") == "" {
		if question := a.confirm(t); question != "" {
			return d.ask(c, a, t, question, "")
		}
	}
	if (a.typed || t.group.IsLarge(maxSelected)) && !named {
		return d.ask(c, a, t, a.confirm(t), "The name is different.")
	}

	mark := a.mark(form.Get("once"), t)
	page, err := d.results.once(form.Get("once"), s.ID+" "+mark, func() (string, render.Path, error) {
		text, err := d.perform(c, a, t, &s)
		return text, t.page(), err
	})
	if err != nil {
		return err
	}
	return seeOther(c, withQuery(page, "result", mark))
}

// submitted returns the form of a change and the session that sends it.
func (d *Dashboard) submitted(c *route.Call) (form url.Values, s session.Session, err error) {
	if d.cfg.ReadOnly {
		return nil, s, contract.Errorf(duly.CodeForbidden, "this dashboard is read-only; the setting ui.read_only is on")
	}
	if form, err = readForm(c); err == nil {
		s, err = d.session(c)
	}
	return form, s, err
}

// mark names one click: an action on these jobs by this form.
func (a *action) mark(once string, t *target) string {
	sum := sha256.Sum256([]byte(once + "\n" + a.name + "\n" + strings.Join(t.subject(), "\n")))
	return hex.EncodeToString(sum[:12])
}

// perform runs an action between the two lines of the audit log.
func (d *Dashboard) perform(c *route.Call, a *action, t *target, s *session.Session) (string, error) {
	intent := d.actionOf(c, a.api, t, s)
	if a.state {
		intent.Jobs = []string{"state " + t.back}
	}
	end, err := d.begin(intent)
	if err != nil {
		return "", err
	}
	err = d.run(c.Context(), a, t)
	end(audit.Outcome{Err: err, Done: t.done, Failed: t.failed})
	if err != nil && (t.group == nil || t.done == 0) {
		return "", err
	}
	return a.text(t), nil
}

// actionOf describes an action for the audit log.
func (d *Dashboard) actionOf(c *route.Call, api string, t *target, s *session.Session) audit.Action {
	return audit.Action{
		Caller: c.Caller(), Session: s.Mark(), Remote: c.R.RemoteAddr, Via: "dashboard", Route: api,
		Namespace: t.queue.Namespace, Queue: t.queue.Name, Jobs: t.subject(), Request: c.ID(),
	}
}

// begin writes the intent of an action. Without it nothing may change.
func (d *Dashboard) begin(a audit.Action) (end func(audit.Outcome), err error) {
	end, err = d.cfg.Audit.Begin(a)
	if err != nil {
		err = &duly.Error{Code: duly.CodeUnavailable, Cause: err,
			Message: "the audit log can't be written, so nothing was changed; free space on the server's disk"}
	}
	return end, err
}

// ask shows the confirmation of an action.
func (d *Dashboard) ask(c *route.Call, a *action, t *target, question, problem string) error {
	method, pattern, _ := strings.Cut(a.api, " ")
	request := strings.NewReplacer("{namespace}", t.queue.Namespace, "{queue}", t.queue.Name).Replace(pattern)
	v := view.Confirm{
		Problem: problem, IDs: t.ids, Back: t.back, Cancel: t.page(), Word: strings.ToUpper(a.name[:1]) + a.name[1:],
		To: actionPath(t.queue, a.name), Once: rand.Text(), Group: t.group,
	}
	v.Frame = d.frame(c, question)
	v.Frame.Command, v.Frame.Request = a.command(t), method+" "+request

	if t.group != nil {
		v.Effect = t.group.Effect()
	}
	if t.group.IsLarge(maxSelected) {
		v.Typed = t.queue.Name
	}
	if a.typed {
		v.Typed, v.Effect = t.queue.Name, "The queue, its settings and all of its jobs are removed:"
		if a.state {
			v.Effect = fmt.Sprintf("Every job of this state is removed, at most %d at once:", maxPurged)
		}
		stats, err := d.cfg.Engine.Stats(c.Context(), t.queue)
		if err != nil {
			return err
		}
		for _, state := range states(t.queue, d.numbers(t.queue, &stats, contract.Throttle{}), duly.StateNone) {
			if !a.state || state.Jobs.Text == t.back {
				v.Sizes = append(v.Sizes, view.Field{Name: state.Jobs.Text, Value: state.Size.Text})
			}
		}
	}

	status := http.StatusOK
	if problem != "" {
		status = http.StatusBadRequest
	}
	return d.reply(c, status, "confirm.html", v)
}

// command returns the command line for an action.
func (a *action) command(t *target) string {
	jobs := strings.Join(t.ids[:min(3, len(t.ids))], " ")
	if len(t.ids) > 3 {
		jobs += " …"
	}
	switch a.name {
	case "destroy":
		return "duly queue destroy " + t.queue.Name
	case "purge":
		return "duly queue purge " + t.queue.Name + " --state " + t.back
	case "requeue":
		if t.group != nil {
			jobs = "--group " + t.group.Fingerprint
		}
		return "duly dead requeue " + t.queue.Name + " " + jobs
	default:
		if t.group != nil {
			jobs = "--state dead ID…"
		}
		return "duly job " + a.name + " " + t.queue.Name + " " + jobs
	}
}

// maxSelection bounds the form of an action, in bytes: each ID has a name, and may be escaped.
const maxSelection = maxForm + maxSelected*(3*duly.MaxID+4)

// selected returns the IDs of a form.
func selected(form url.Values) ([]string, error) {
	ids := form["id"]
	switch {
	case len(ids) == 0:
		return nil, contract.Invalid("id", "is missing; select at least one job")
	case len(ids) > maxSelected:
		return nil, contract.Invalid("id", "is given %d times, may be given %d times", len(ids), maxSelected)
	}
	return ids, nil
}

// page returns the page after an action.
func (t *target) page() render.Path {
	var state duly.State
	switch {
	case t.group != nil && t.group.More:
		return withQuery(actionPath(t.queue, "dead"), "fp", t.group.Fingerprint, "before",
			strconv.FormatInt(t.group.Before, 10), "after", t.group.Cursor)
	case t.back == "job" && len(t.ids) == 1:
		return queuePath(t.queue.Namespace, t.queue.Name, "j", t.ids[0])
	case t.back == "queues":
		return queuesPath(t.queue.Namespace)
	case state.UnmarshalText([]byte(t.back)) == nil:
		return queuePath(t.queue.Namespace, t.queue.Name, t.back)
	}
	return queuePath(t.queue.Namespace, t.queue.Name)
}

// can reports whether the caller may change something that needs a right.
func (d *Dashboard) can(c *route.Call, access auth.Access) bool {
	return !d.cfg.ReadOnly && c.Require(access) == nil
}

// button returns the form of an action, nil if the caller may not do it.
func (d *Dashboard) button(c *route.Call, name, text, back string, ids ...string) []view.Button {
	if !d.can(c, actionNamed(name).access) {
		return nil
	}
	return []view.Button{{Text: text, To: actionPath(queueOf(c), name), Name: name, Back: back, Once: rand.Text(), IDs: ids}}
}
