package dashboard

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/server/audit"
)

// auditLine has the fields of a line of the audit log that the tests check.
type auditLine struct {
	Phase, Action, Caller, Session, Via, Route, Namespace, Queue, Result string

	Jobs         []string
	Done, Failed int
}

// audited returns the lines of the audit log since the last call.
func (r *rig) audited() (list []auditLine) {
	r.t.Helper()
	text, err := os.ReadFile(filepath.Join(r.dir, "audit-00000001.jsonl"))
	if err != nil {
		r.t.Fatal(err)
	}
	for row := range strings.Lines(string(text)) {
		var n auditLine
		if err := json.Unmarshal([]byte(row), &n); err != nil {
			r.t.Fatal(err)
		}
		list = append(list, n)
	}
	seen := r.seen
	r.seen = len(list)
	return list[seen:]
}

// state returns the state of a job, StateNone if it is gone.
func (r *rig) state(queue, id string) duly.State {
	r.t.Helper()
	j, err := r.engine.Get(r.t.Context(), duly.QueueRef{Namespace: "shop", Name: queue}, id)
	if errors.Is(err, duly.ErrNotFound) {
		return duly.StateNone
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return j.State
}

// P6, C14.57: an action changes the job, says what it has done on the page after it, and has two lines in the audit log.
func TestJobActions(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b := r.login("admin")
	for _, tt := range []struct {
		action        string
		before, after duly.State
		back, page    string
		result, api   string
	}{
		{"promote", duly.StateDelayed, duly.StateReady, "job", "/j/ID", "1 job is due now.",
			"POST /v1/{namespace}/queues/{queue}/jobs/promote"},
		{"requeue", duly.StateDead, duly.StateReady, "dead", "/dead", "1 job is requeued.",
			"POST /v1/{namespace}/queues/{queue}/requeue"},
		{"delete", duly.StateReady, duly.StateNone, "ready", "/ready", "1 job is deleted.",
			"POST /v1/{namespace}/queues/{queue}/jobs/delete"},
	} {
		queue, id := r.newJob(tt.before)
		r.audited()
		at := "/ui/n/shop/q/" + queue
		form := url.Values{"id": {id}, "once": {"x"}, "confirmed": {"yes"}, "back": {tt.back}}
		a := b.post(at+"/"+tt.action, form)
		to, _, _ := strings.Cut(a.header.Get("Location"), "?")
		if a.status != http.StatusSeeOther || to != at+strings.ReplaceAll(tt.page, "ID", id) {
			t.Fatalf("%s has the status %d and goes to %q", tt.action, a.status, to)
		}
		if got := r.state(queue, id); got != tt.after {
			t.Errorf("after %s the job is %s", tt.action, got)
		}
		if page := b.get(a.header.Get("Location")); page.status != 200 ||
			!strings.Contains(page.body, `<p role="status" class="result">`+tt.result+`</p>`) {
			t.Errorf("the page after %s has the status %d and no result", tt.action, page.status)
		}

		lines := r.audited()
		if len(lines) != 2 || lines[0].Phase != "intent" || lines[0].Route != tt.api || lines[0].Queue != queue ||
			lines[0].Namespace != "shop" || len(lines[0].Jobs) != 1 || lines[0].Jobs[0] != id || lines[0].Via != "dashboard" ||
			lines[0].Caller == "" || lines[0].Session == "" || lines[1].Phase != "outcome" || lines[1].Result != "ok" ||
			lines[1].Done != 1 || lines[1].Action != lines[0].Action {
			t.Errorf("%s has the lines %+v", tt.action, lines)
		}
	}
}

// P4: a queue is paused, opened and destroyed. To destroy it takes its name, and the question states every size.
func TestQueueActions(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b := r.login("admin")
	queue, _ := r.newJob(duly.StateDelayed)
	at := "/ui/n/shop/q/" + queue
	paused := func() bool {
		c, err := r.engine.Config(t.Context(), duly.QueueRef{Namespace: "shop", Name: queue})
		if err != nil {
			t.Fatal(err)
		}
		return c.Paused
	}
	b.post(at+"/pause", url.Values{"once": {"1"}})
	if !paused() {
		t.Error("the queue is not paused")
	}
	b.post(at+"/resume", url.Values{"once": {"2"}})
	if paused() {
		t.Error("the queue is still paused")
	}

	ask := b.post(at+"/destroy", url.Values{})
	if ask.status != 200 || !strings.Contains(ask.body, "<dt>delayed</dt><dd><bdi>1</bdi>") ||
		!strings.Contains(ask.body, `name="name"`) {
		t.Errorf("the question has the status %d: %s", ask.status, ask.body)
	}
	form := url.Values{"once": {"3"}, "confirmed": {"yes"}, "name": {"mail"}, "back": {"queues"}}
	if a := b.post(at+"/destroy", form); a.status != http.StatusBadRequest || !strings.Contains(a.body, "different") {
		t.Errorf("another name has the status %d", a.status)
	}
	form.Set("name", queue)
	if a := b.post(at+"/destroy", form); !strings.HasPrefix(a.header.Get("Location"), "/ui/n/shop/queues?") {
		t.Errorf("the right name has the status %d", a.status)
	}
	if strings.Contains(b.get("/ui/n/shop/queues").body, at) {
		t.Error("the queue still exists")
	}
}

// P5: an action on selected jobs asks first, changes what it can, and counts the rest.
func TestSelectedJobs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b := r.login("admin")
	queue, first := r.newJob(duly.StateDead)
	ids := []string{first, r.push(duly.Job{Queue: queue})}
	r.bury(queue)
	at, form := "/ui/n/shop/q/"+queue, url.Values{"id": ids, "back": {"dead"}}

	list := b.get(at + "/dead").body
	if n := strings.Count(list, `type="checkbox" name="id"`); n != 2 || strings.Contains(list, " checked") {
		t.Errorf("the list has %d boxes", n)
	}
	if n := strings.Count(b.get(at+"/dead?select=all").body, " checked"); n != 2 {
		t.Errorf("%d boxes are checked", n)
	}
	for _, tt := range []struct{ action, question string }{
		{"requeue", "Requeue 2 dead jobs of " + queue + "?"}, {"delete", "Delete 2 jobs of " + queue + "?"},
	} {
		a := b.post(at+"/"+tt.action, form)
		if a.status != 200 || !strings.Contains(a.body, tt.question) || strings.Count(a.body, `name="id"`) != 2 {
			t.Errorf("%s asks with the status %d: %s", tt.action, a.status, a.body)
		}
	}
	if r.state(queue, ids[0]) != duly.StateDead || r.state(queue, ids[1]) != duly.StateDead {
		t.Fatal("a question changes the jobs")
	}

	form.Set("confirmed", "yes")
	form.Set("once", "1")
	form["id"] = append(ids, "gone")
	a := b.post(at+"/requeue", form)
	if page := b.get(a.header.Get("Location")).body; !strings.Contains(page,
		"2 jobs are requeued. 1 could not be changed, the first one because: not_found") {
		t.Errorf("the result is %s", page)
	}
	for _, bad := range []url.Values{{"once": {"2"}}, {"id": make([]string, maxSelected+1)}, {"id": ids, "confirmed": {"yes"}}} {
		if a := b.post(at+"/delete", bad); a.status != http.StatusBadRequest {
			t.Errorf("a form with %d jobs and once %q has the status %d", len(bad["id"]), bad.Get("once"), a.status)
		}
	}
	if a := b.post(at+"/requeue", url.Values{"id": ids, "confirmed": {"yes"}, "once": {"3"}}); a.status != http.StatusConflict {
		t.Errorf("an action that changes nothing has the status %d", a.status)
	}
}

// A double click is one action, and both answers are the same. After some seconds the same form counts again.
func TestDoubleClick(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b := r.login("admin")
	queue, id := r.newJob(duly.StateDead)
	r.audited()
	at, form := "/ui/n/shop/q/"+queue+"/requeue", url.Values{"id": {id}, "once": {"x"}, "back": {"job"}}
	answers := make([]answer, 4)
	var clicks sync.WaitGroup
	for i := range answers {
		clicks.Go(func() { answers[i] = b.post(at, form) })
	}
	clicks.Wait()
	for _, a := range answers {
		if a.status != http.StatusSeeOther || a.header.Get("Location") != answers[0].header.Get("Location") {
			t.Errorf("a click has the status %d and goes to %q", a.status, a.header.Get("Location"))
		}
	}
	if n := len(r.audited()); n != 2 {
		t.Errorf("four clicks have %d lines in the audit log", n)
	}
	// Another session with the same form is another click.
	if a := r.login("owner").post(at, form); a.status != http.StatusConflict {
		t.Errorf("another session has the status %d", a.status)
	}
	r.clock.Advance(doubleClick)
	if a := b.post(at, form); a.status != http.StatusConflict {
		t.Errorf("the form has the status %d later", a.status)
	}
}

// fullAudit is the audit log on a full disk.
type fullAudit struct{}

func (fullAudit) Begin(audit.Action) (func(audit.Outcome), error) {
	return func(audit.Outcome) {}, errors.New("no space left on device")
}

// S7, C14.57: if the audit log cannot be written, actions and logins are refused and nothing changes.
func TestFullDiskRefusesActions(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b := r.login("admin")
	queue, id := r.newJob(duly.StateDead)
	r.dashboard.cfg.Audit = fullAudit{}
	for _, name := range []string{"requeue", "delete"} {
		form := url.Values{"id": {id}, "once": {name}, "confirmed": {"yes"}}
		if a := b.post("/ui/n/shop/q/"+queue+"/"+name, form); a.status != http.StatusServiceUnavailable ||
			!strings.Contains(a.body, "audit log") {
			t.Errorf("%s has the status %d: %s", name, a.status, a.body)
		}
	}
	if got := r.state(queue, id); got != duly.StateDead {
		t.Errorf("the job is %s", got)
	}
	if a := r.browser().post("/ui/login", url.Values{"token": {r.tokens["admin"]}}); a.status != http.StatusServiceUnavailable {
		t.Errorf("a login has the status %d", a.status)
	}
	if a := b.get("/ui/n/shop/q/" + queue + "/dead"); a.status != 200 {
		t.Errorf("the page has the status %d", a.status)
	}
}

// C14.57: logins and failed logins are in the audit log, without their secrets.
func TestLoginsAreAudited(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.login("admin")
	r.browser().post("/ui/login", url.Values{"token": {r.tokens["admin"] + "x"}})
	lines := r.audited()
	if len(lines) != 4 || lines[0].Route != "POST /ui/login" || lines[0].Caller == "" || lines[1].Result != "ok" ||
		lines[2].Caller != "" || lines[3].Result != "unauthorized" {
		t.Errorf("the lines are %+v", lines)
	}
	if strings.Contains(r.log.String(), r.tokens["admin"]) {
		t.Error("the log has a token")
	}
}

// ui.bodies and ui.label: the pages show no bodies, headers and results, and the name of the environment.
func TestSettings(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.HideBodies, c.Label, c.Color = true, "prod <1>", "red" })
	id := r.push(duly.Job{Body: []byte("SECRET"), Headers: map[string]string{"SECRET": "SECRET"}})
	a := r.login("admin").get("/ui/n/shop/q/mail/j/" + id)
	if a.status != 200 || strings.Contains(a.body, "SECRET") || !strings.Contains(a.body, "shows no bodies") {
		t.Errorf("the page has the status %d, or the body: %s", a.status, a.body)
	}
	r.put(duly.Schedule{Name: "nightly", Spec: "@daily", Template: duly.Job{
		Body: []byte("SECRET"), Headers: map[string]string{"x": "SECRET"},
	}})
	if page := r.login("admin").get(nightly); page.status != 200 || strings.Contains(page.body, "SECRET") {
		t.Errorf("the page of a schedule has the status %d, or the body: %s", page.status, page.body)
	}
	for _, at := range []string{"/ui/n/shop/set/schedule?queue=reports&name=nightly", "/ui/n/shop/q/mail/push?copy=" + id} {
		if page := r.login("admin").get(at); page.status != http.StatusForbidden || strings.Contains(page.body, "SECRET") {
			t.Errorf("%s has the status %d", at, page.status)
		}
	}
	if !strings.Contains(a.body, `<span class="label red"><bdi>prod &lt;1&gt;</bdi></span>`) ||
		!strings.Contains(a.body, "<title>[prod &lt;1&gt;] ") {
		t.Errorf("the page has no label: %s", a.body)
	}
}

// P4.3: a purge and a promotion of all jobs of a state are operations. Their form takes the name of the queue, and states
// the number of jobs. They take the jobs of that state alone.
func TestOperationsOnStates(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b := r.login("admin")
	for _, tt := range []struct {
		link, question string
		ready          int64
	}{
		{"kind=purge&amp;state=delayed", "Purge 3 delayed jobs of ", 1}, {"kind=promote", "Promote 3 delayed jobs of ", 4},
	} {
		queue, _ := r.newJob(duly.StateReady)
		for range 3 {
			r.push(duly.Job{Queue: queue, Delay: time.Hour})
		}
		list, at := b.get("/ui/n/shop/q/"+queue+"/delayed").body, "/ui/n/shop/q/"+queue+"/start?"
		if !strings.Contains(list, at+tt.link) {
			t.Fatalf("the list has no link %s: %s", tt.link, list)
		}
		ask := b.get(at + strings.ReplaceAll(tt.link, "&amp;", "&")).body
		form := fieldsOfForm(ask)
		if !strings.Contains(ask, tt.question+queue+"?") || form.Has("queue") || form.Has("rate") {
			t.Fatalf("the form is %s", ask)
		}
		form.Set("queue", queue)
		r.clock.Advance(time.Second)
		to, _, _ := strings.Cut(b.post(at, form).header.Get("Location"), "?")
		if o := r.await(to); o.Done != 3 || r.sizes(queue) != [2]int64{0, tt.ready} {
			t.Errorf("the sizes are %v, the operation is %+v", r.sizes(queue), o)
		}
	}
}
