package dashboard

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/server/audit"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/dashboard/render"
	"github.com/dulymq/duly/server/dashboard/session"
	"github.com/dulymq/duly/server/dashboard/view"
	"github.com/dulymq/duly/server/route"
)

// apiPush is the route of the API that does the same as the form.
const apiPush = "POST " + apiQueue + "/jobs"

// pushFields are the fields of the form, with the names of the API. A field with a dot belongs to an object.
var pushFields = []struct{ name, label, hint string }{
	{"id", "ID", "a new ULID"}, {"delay", "Delay", "0s"}, {"due", "Due", "2030-01-01T09:00:00Z"},
	{"priority", "Priority", "0"}, {"order_key", "Order key", "none"}, {"merge.key", "Merge key", "none"},
	{"merge.mode", "Merge mode", "keep, replace, debounce or once"}, {"tries", "Tries", ""}, {"backoff", "Backoff", ""},
	{"lease", "Lease", ""}, {"ttl", "TTL", ""}, {"retain", "Retain", ""}, {"max_stalls", "Max stalls", ""},
}

// pushRoutes returns the routes of the form.
func (d *Dashboard) pushRoutes(queue string) []route.Route {
	post := d.route(http.MethodPost, queue+"/push", auth.Produce, d.push)
	// A byte of the body may need three in a form.
	post.LimitedBy, post.MaxBody = contract.RightProduce, maxForm+3*duly.DefaultMaxBody
	return []route.Route{d.route(http.MethodGet, queue+"/push", auth.Produce, d.pushPage), post}
}

// pushPage shows the form, empty or with a copy of a job.
func (d *Dashboard) pushPage(c *route.Call) error {
	form := url.Values{}
	if id := c.Query("copy"); id != "" {
		if err := c.Require(auth.Consume); err != nil {
			return err
		}
		if d.cfg.HideBodies {
			return contract.Errorf(duly.CodeForbidden, "this dashboard shows no bodies, so it copies none")
		}
		j, err := d.cfg.Engine.Get(c.Context(), queueOf(c), id)
		if err != nil {
			return err
		}
		if !utf8.Valid(j.Body) {
			return contract.Invalid("body", "is no UTF-8, so no form can copy it")
		}
		form = copyOf(&j)
	}
	return d.replyPush(c, http.StatusOK, form, nil)
}

// copyOf returns the form of a job like another one, due at once and with an ID of its own.
func copyOf(j *duly.JobInfo) url.Values {
	form := url.Values{"body": {string(j.Body)}}
	set := func(name, value string, skip bool) {
		if !skip {
			form.Set(name, value)
		}
	}
	set("priority", strconv.Itoa(j.Priority), j.Priority == 0)
	set("order_key", j.OrderKey, j.OrderKey == "")
	set("tries", strconv.Itoa(j.Tries), false)
	set("backoff", string(j.Backoff), j.Backoff == "")
	set("lease", duration(j.Lease), j.Lease <= 0)
	set("retain", duration(j.Retain), j.Retain <= 0)
	var headers strings.Builder
	for _, h := range headerFields(j.Headers) {
		fmt.Fprintf(&headers, "%s: %s\n", h.Name, h.Value)
	}
	set("headers", headers.String(), len(j.Headers) == 0)
	return form
}

// replyPush shows the form with the problems of its last try.
func (d *Dashboard) replyPush(c *route.Call, status int, form url.Values, failed error) error {
	q := queueOf(c)
	config, err := d.cfg.Engine.Config(c.Context(), q)
	if err != nil {
		return err
	}
	problems, rest := problemsOf(failed)
	v := view.Push{
		Queue: view.Link{Text: q.Name, To: queuePath(q.Namespace, q.Name)}, To: actionPath(q, "push"), Once: rand.Text(),
		Problem: rest, Body: form.Get("body"), BodyProblem: problems["body"],
		Headers: form.Get("headers"), HeadersProblem: problems["headers"], Off: d.cfg.ReadOnly,
	}
	// The settings have the defaults by the same names.
	defaults := map[string]string{}
	for _, f := range settings(&config) {
		defaults[f.Name] = f.Value
	}
	for _, f := range pushFields {
		hint := f.hint
		if hint == "" {
			hint = defaults[f.name] + ", as the queue says"
		}
		v.Fields = append(v.Fields, view.Input{
			Name: f.name, Label: f.label, Value: form.Get(f.name), Hint: hint, Problem: problems[f.name],
		})
	}
	v.Frame = d.frame(c, "Push into "+q.Name)
	v.Frame.Command = "duly push " + q.Name + " BODY"
	v.Frame.Request = fmt.Sprintf("POST /v1/%s/queues/%s/jobs", q.Namespace, q.Name)
	return d.reply(c, status, "push.html", v)
}

// problemsOf returns what an error says of each field, and what it says of no field of the form.
func problemsOf(err error) (fields map[string]string, rest string) {
	fields = map[string]string{}
	if err == nil {
		return fields, ""
	}
	var e *duly.Error
	if !errors.As(err, &e) || len(e.Fields) == 0 {
		return fields, err.Error()
	}
	known := map[string]bool{"body": true, "headers": true}
	for _, f := range pushFields {
		known[f.name] = true
	}
	for _, f := range e.Fields {
		if known[f.Field] {
			fields[f.Field] = f.Field + " " + f.Problem
		} else {
			rest += f.Field + " " + f.Problem + ". "
		}
	}
	return fields, rest
}

// push pushes the job of a form. A refusal shows the form again.
func (d *Dashboard) push(c *route.Call) error {
	form, s, err := d.submitted(c)
	if err != nil {
		return err
	}
	text, err := pushJSON(form)
	var job duly.Job
	if err == nil {
		job, err = wire.ReadPushOne(text, queueOf(c))
	}
	if err != nil {
		return d.replyPush(c, http.StatusBadRequest, form, err)
	}

	once, sum := form.Get("once"), sha256.Sum256([]byte(text))
	page, err := d.results.once(once, fmt.Sprintf("%s %s %x", s.ID, once, sum[:8]), func() (string, render.Path, error) {
		id, err := d.pushOnce(c, job, &s)
		return "", queuePath(job.Namespace, job.Queue, "j", id), err
	})
	switch code := duly.CodeOf(err); {
	case err == nil:
		return seeOther(c, page)
	case code == duly.CodeInvalid || code == duly.CodeConflict || code == duly.CodeFull:
		_, status := wire.AppendProblem(nil, err, 0)
		return d.replyPush(c, status, form, err)
	}
	return err
}

// pushOnce pushes a job between the two lines of the audit log. It returns the ID of the job, or of the one that holds
// its merge key.
func (d *Dashboard) pushOnce(c *route.Call, job duly.Job, s *session.Session) (id string, err error) {
	t := &target{queue: duly.QueueRef{Namespace: job.Namespace, Name: job.Queue}}
	if job.ID != "" {
		t.ids = []string{job.ID}
	}
	end, err := d.begin(d.actionOf(c, apiPush, t, s))
	if err != nil {
		return "", err
	}
	results, err := d.cfg.Engine.Push(c.Context(), []duly.Job{job})
	if err == nil {
		err = results[0].Err
	}
	end(audit.Outcome{Err: err})
	if err != nil {
		return "", err
	}
	return results[0].ID, nil
}

// pushJSON returns the request to the API with the fields of a form. A field that is empty is left out.
func pushJSON(form url.Values) (string, error) {
	var bad contract.BadFields
	job := map[string]any{"body": strings.ReplaceAll(form.Get("body"), "\r\n", "\n")}
	merge := map[string]any{}
	for _, f := range pushFields {
		value := strings.TrimSpace(form.Get(f.name))
		name, inMerge := strings.CutPrefix(f.name, "merge.")
		number, err := strconv.Atoi(value)
		counts := name == "priority" || name == "tries" || name == "max_stalls"
		switch {
		case value == "":
		case inMerge:
			merge[name] = value
		case counts && err == nil:
			job[name] = number
		case counts && value != "none":
			bad.Add(name, "must be a number")
		default:
			job[name] = value
		}
	}
	if len(merge) > 0 {
		job["merge"] = merge
	}

	headers := map[string]string{}
	for line := range strings.Lines(form.Get("headers")) {
		name, value, _ := strings.Cut(line, ":")
		if name = strings.TrimSpace(name); name != "" {
			headers[name] = strings.TrimSpace(value)
		}
	}
	if len(headers) > 0 {
		job["headers"] = headers
	}
	// Texts and numbers always have a JSON form.
	text, _ := json.Marshal(job)
	return string(text), bad.Err()
}
