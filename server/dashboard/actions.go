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
	"strings"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/audit"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/dashboard/render"
	"github.com/dulymq/duly/server/dashboard/session"
	"github.com/dulymq/duly/server/dashboard/view"
	"github.com/dulymq/duly/server/route"
)

// Auditor writes the audit log. [audit.Log] implements it.
type Auditor interface {
	// Begin writes the intent of an action. After an error the action must not run.
	Begin(audit.Action) (end func(audit.Outcome), err error)
}

const (
	atNamespace = Prefix + "/n/{namespace}"
	atQueue     = atNamespace + "/q/{queue}"
)

// kind is what actions are about: its page, its route of the API, the command before the name of an action, and the
// names after it. back is the page after its end.
type kind struct {
	at, api, command, names, back string
	access                        auth.Access
}

var (
	ofQueue    = &kind{atQueue, "/v1/{namespace}/queues/{queue}", "duly queue", "{queue}", "queues", auth.Admin}
	ofJobs     = &kind{atQueue, ofQueue.api, "duly job", "{queue} {jobs}", "", auth.Produce}
	ofSchedule = &kind{
		atNamespace + "/schedules/{queue}/{name}", ofQueue.api + "/schedules/{name}", "duly schedule", "{queue} {name}",
		"schedules", auth.Produce,
	}
	ofTarget = &kind{
		atNamespace + "/targets/{name}", "/v1/{namespace}/push/targets/{name}", "duly target", "{name}", "targets", auth.Admin,
	}
)

// action is a change that pages offer. It is the same as a route of the API, and needs the right of that route.
type action struct {
	of   *kind
	name string
	// api and command are set if they have other names than the kind and the action.
	api, command string
	access       auth.Access    // of the kind unless set
	limited      contract.Right // the right whose rate limits the route, 0 for none
	// question returns the question before the action, "" if it runs at once. effect says what happens.
	question func(t *target) string
	effect   string
	// typed is set if the confirmation needs the name of the queue.
	typed bool
	run   func(ctx context.Context, cfg *Config, t *target) error
	// done says what has happened. For several jobs it is many.
	done, many string
}

// maxSelected is the number of jobs of one action: those of one page.
const maxSelected = jobsPerPage

// actions lists all changes that pages offer.
var actions = complete(slices.Concat(queueActions, scheduleActions, targetActions, operationActions))

var queueActions = []action{
	{
		of: ofQueue, name: "pause", done: "The queue is paused.",
		run: func(ctx context.Context, cfg *Config, t *target) error { return cfg.Engine.Pause(ctx, t.queue) },
	},
	{
		of: ofQueue, name: "resume", done: "The queue is open again.",
		run: func(ctx context.Context, cfg *Config, t *target) error { return cfg.Engine.Resume(ctx, t.queue) },
	},
	{
		of: ofQueue, name: "destroy", api: "DELETE " + ofQueue.api, done: "The queue is destroyed.", typed: true,
		question: ask("Destroy the queue {queue}?"), effect: "The queue, its settings and all of its jobs are removed:",
		run: func(ctx context.Context, cfg *Config, t *target) error { return cfg.Engine.Destroy(ctx, t.queue) },
	},
	{
		of: ofJobs, name: "requeue", api: "POST " + ofQueue.api + "/requeue", command: "duly dead requeue {queue} {jobs}",
		access: auth.Admin, done: "1 job is requeued.", many: "%d jobs are requeued.",
		question: func(t *target) string { return t.question("", "Requeue %d dead jobs") },
		run: func(ctx context.Context, cfg *Config, t *target) error {
			results, err := cfg.Engine.Requeue(ctx, t.queue, duly.RequeueParams{IDs: t.ids})
			errs := make([]error, len(results))
			for i := range results {
				errs[i] = results[i].Err
			}
			return cmp.Or(err, t.end(errs...))
		},
	},
	{
		of: ofJobs, name: "promote", api: "POST " + ofQueue.api + "/jobs/promote",
		done: "1 job is due now.", many: "%d jobs are due now.",
		run: func(ctx context.Context, cfg *Config, t *target) error {
			errs, err := cfg.Engine.PromoteJobs(ctx, t.queue, t.ids)
			return cmp.Or(err, t.end(errs...))
		},
	},
	{
		of: ofJobs, name: "delete", api: "POST " + ofQueue.api + "/jobs/delete",
		done: "1 job is deleted.", many: "%d jobs are deleted.",
		question: func(t *target) string { return t.question("Delete the job %s?", "Delete %d jobs") },
		run: func(ctx context.Context, cfg *Config, t *target) error {
			errs, err := cfg.Engine.DeleteJobs(ctx, t.queue, t.ids, duly.StateNone)
			return cmp.Or(err, t.end(errs...))
		},
	},
}

// complete fills in what follows from the kinds.
func complete(list []action) []action {
	for i := range list {
		a := &list[i]
		a.access = cmp.Or(a.access, a.of.access)
		a.api = cmp.Or(a.api, "POST "+a.of.api+"/"+a.name)
		a.command = cmp.Or(a.command, a.of.command+" "+a.name+" "+a.of.names)
	}
	return list
}

// ask returns a question with the names of a target.
func ask(text string) func(t *target) string { return func(t *target) string { return t.fill(text) } }

// target is what an action is about, and how it ends.
type target struct {
	queue duly.QueueRef
	// name is that of something else than a queue.
	name string
	ids  []string
	// back is the page after the action: a state, job, or "" for the queue.
	back string
	of   *kind
	call *route.Call
	form url.Values
	// text says what has happened, instead of the action.
	text string

	done, failed int
	err          error // of the first job that failed
}

// targetOf returns the target of a request, whose path or form has its names.
func targetOf(c *route.Call, form url.Values) *target {
	t := &target{queue: queueOf(c), back: form.Get("back"), of: ofQueue, call: c, form: form}
	t.name = cmp.Or(c.PathValue("name"), form.Get("name"))
	t.queue.Name = cmp.Or(t.queue.Name, form.Get("queue"))
	return t
}

// fill returns a text with the names of the target.
func (t *target) fill(text string) string {
	jobs := strings.Join(t.ids[:min(3, len(t.ids))], " ")
	if len(t.ids) > 3 {
		jobs += " …"
	}
	return t.names(strings.NewReplacer("{back}", t.back, "{jobs}", jobs).Replace(text), func(name string) string { return name })
}

// path returns the URL of a pattern with the names of the target.
func (t *target) path(pattern string) render.Path {
	return render.Path(t.names(pattern, url.PathEscape))
}

func (t *target) names(text string, form func(name string) string) string {
	return strings.NewReplacer("{namespace}", form(t.queue.Namespace), "{queue}", form(t.queue.Name), "{name}", form(t.name)).
		Replace(text)
}

// end counts the results of jobs. It returns the error of an action that has changed nothing.
func (t *target) end(errs ...error) error {
	for _, err := range errs {
		if err == nil {
			t.done++
			continue
		}
		t.failed++
		t.err = cmp.Or(t.err, err)
	}
	if t.done > 0 {
		return nil
	}
	return t.err
}

// question returns the question before an action: several with the number of jobs, or one with the ID of the only job.
// It returns "" for an action on one job that needs no question.
func (t *target) question(one, several string) string {
	switch {
	case len(t.ids) == 1 && one != "":
		return fmt.Sprintf(one, t.ids[0])
	case len(t.ids) == 1:
		return ""
	}
	return fmt.Sprintf(several+" of %s?", len(t.ids), t.queue.Name)
}

// text says what an action has done.
func (a *action) text(t *target) string {
	text := cmp.Or(t.text, a.done)
	if a.many != "" && t.done != 1 {
		text = fmt.Sprintf(a.many, t.done)
	}
	if t.failed > 0 {
		text += fmt.Sprintf(" %d could not be changed, the first one because: %v.", t.failed, t.err)
	}
	return text
}

// actionRoutes returns the routes of all actions.
func (d *Dashboard) actionRoutes() (list []route.Route) {
	for i := range actions {
		a := &actions[i]
		if !d.has(a.of) {
			continue
		}
		r := d.route("POST", a.of.at+"/"+a.name, a.access, func(c *route.Call) error { return d.act(c, a) })
		r.LimitedBy, r.MaxBody = a.limited, maxSelection
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
	t := targetOf(c, nil)
	t.of, t.back = a.of, form.Get("back")
	if a.of == ofJobs {
		if t.ids = form["id"]; len(t.ids) == 0 {
			return contract.Invalid("id", "is missing; select at least one job")
		} else if len(t.ids) > maxSelected {
			return contract.Invalid("id", "is given %d times, may be given %d times", len(t.ids), maxSelected)
		}
	}

	if a.question != nil && form.Get("confirmed") == "" {
		if question := a.question(t); question != "" {
			return d.ask(c, a, t, question, "")
		}
	}
	if a.typed && form.Get("name") != t.queue.Name {
		return d.ask(c, a, t, a.question(t), "The name is different.")
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
	err := d.audited(intent, t, func() error { return a.run(c.Context(), &d.cfg, t) })
	if err != nil {
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
	_, path, _ := strings.Cut(a.Route, " ")
	if strings.HasPrefix(path, operationsAPI) {
		return func(audit.Outcome) {}, nil // an operation writes its own lines, and a stop needs none
	}
	end, err = d.cfg.Audit.Begin(a)
	if err != nil {
		err = &duly.Error{Code: duly.CodeUnavailable, Cause: err,
			Message: "the audit log can't be written, so nothing was changed; free space on the server's disk"}
	}
	return end, err
}

// audited runs something between the two lines of the audit log.
func (d *Dashboard) audited(intent audit.Action, t *target, run func() error) error {
	end, err := d.begin(intent)
	if err != nil {
		return err
	}
	err = run()
	end(audit.Outcome{Err: err, Done: t.done, Failed: t.failed})
	return err
}

// ask shows the confirmation of an action.
func (d *Dashboard) ask(c *route.Call, a *action, t *target, question, problem string) error {
	method, pattern, _ := strings.Cut(a.api, " ")
	v := view.Confirm{Problem: problem, Cancel: t.page(), Effect: t.fill(a.effect), Button: view.Button{
		Text: strings.ToUpper(a.name[:1]) + a.name[1:], To: t.path(a.of.at + "/" + a.name), Back: t.back, Once: rand.Text(),
		IDs: t.ids,
	}}
	v.Frame = d.frame(c, question)
	v.Frame.Command, v.Frame.Request = t.fill(a.command), method+" "+string(t.path(pattern))

	if a.typed {
		v.Typed = t.queue.Name
		stats, err := d.cfg.Engine.Stats(c.Context(), t.queue)
		if err != nil {
			return err
		}
		for _, state := range states(t.queue, d.numbers(t.queue, &stats, contract.Throttle{}), duly.StateNone) {
			v.Sizes = append(v.Sizes, view.Field{Name: state.Jobs.Text, Value: state.Size.Text})
		}
	}

	status := http.StatusOK
	if problem != "" {
		status = http.StatusBadRequest
	}
	return d.reply(c, status, "confirm.html", v)
}

// maxSelection bounds the form of an action, in bytes: each ID has a name, and may be escaped.
const maxSelection = maxForm + maxSelected*(3*duly.MaxID+4)

// page returns the page after an action.
func (t *target) page() render.Path {
	var state duly.State
	switch {
	case t.of == ofSchedule && len(t.ids) == 1:
		return withQuery(t.path(t.of.at), "job", t.ids[0])
	case t.back == "job" && len(t.ids) == 1:
		return queuePath(t.queue.Namespace, t.queue.Name, "j", t.ids[0])
	case t.back != "" && t.back == t.of.back:
		return t.path(atNamespace + "/" + t.back)
	case state.UnmarshalText([]byte(t.back)) == nil:
		return t.path(atQueue + "/" + t.back)
	}
	return t.path(t.of.at)
}

// can reports whether the caller may change something that needs a right.
func (d *Dashboard) can(c *route.Call, access auth.Access) bool {
	return !d.cfg.ReadOnly && c.Require(access) == nil
}

// button returns the form of an action on the target of the page, nil if the caller may not do it.
func (d *Dashboard) button(c *route.Call, of *kind, name, text, back string, ids ...string) []view.Button {
	i := slices.IndexFunc(actions, func(a action) bool { return a.of == of && a.name == name })
	if !d.can(c, actions[i].access) {
		return nil
	}
	to := targetOf(c, nil).path(of.at + "/" + name)
	return []view.Button{{Text: text, To: to, Name: name, Back: back, Once: rand.Text(), IDs: ids}}
}
