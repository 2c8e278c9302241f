package dashboard

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/failures"
	"github.com/dulymq/duly/server/native"
	"github.com/dulymq/duly/server/operations"
	"github.com/dulymq/duly/server/poll"
	"github.com/dulymq/duly/server/route"
)

// pair is a route of the dashboard and the request to the API that does the same. ID in it is a new job's.
type pair struct {
	ui  string // pattern of the dashboard's route
	api string // method, path and body
	// state is the state of the job that the requests need.
	state duly.State
}

var pairs = []pair{
	{"GET /ui/n/{namespace}", "GET /v1/shop/queues?stats=true", duly.StateReady},
	{"GET /ui/n/{namespace}/queues", "GET /v1/shop/queues?stats=true", duly.StateReady},
	{"GET /ui/n/{namespace}/dead", "GET /v1/shop/queues/QUEUE/jobs?state=dead", duly.StateDead},
	{"GET /ui/n/{namespace}/live", "GET /v1/shop/queues?stats=true", duly.StateReady},
	{"GET /ui/n/{namespace}/q/{queue}", "GET /v1/shop/queues/QUEUE", duly.StateReady},
	{"GET /ui/n/{namespace}/q/{queue}/{state}", "GET /v1/shop/queues/QUEUE/jobs?state=ready", duly.StateReady},
	{"GET /ui/n/{namespace}/q/{queue}/j/{id}", "GET /v1/shop/queues/QUEUE/jobs/ID", duly.StateReady},
	{"GET /ui/n/{namespace}/q/{queue}/export/{state}", "GET /v1/shop/queues/QUEUE/jobs?state=ready", duly.StateReady},
	{"GET /ui/n/{namespace}/q/{queue}/keys", "GET /v1/shop/queues/QUEUE/keys", duly.StateReady},
	{"GET /ui/n/{namespace}/find", "GET /v1/shop/jobs/ID", duly.StateReady},
	{"GET /ui/n/{namespace}/q/{queue}/find", "GET /v1/shop/queues/QUEUE/jobs/ID", duly.StateReady},
	{"GET /ui/n/{namespace}/q/{queue}/push", `POST /v1/shop/queues/QUEUE/jobs {"body":"x"}`, duly.StateReady},
	{"POST /ui/n/{namespace}/q/{queue}/push", `POST /v1/shop/queues/QUEUE/jobs {"body":"x"}`, duly.StateReady},
	{"GET /ui/n/{namespace}/q/{queue}/settings", `PATCH /v1/shop/queues/QUEUE {"max_jobs":10}`, duly.StateReady},
	{"POST /ui/n/{namespace}/q/{queue}/settings", `PATCH /v1/shop/queues/QUEUE {"max_jobs":10}`, duly.StateReady},
	{"POST /ui/n/{namespace}/q/{queue}/pause", "POST /v1/shop/queues/QUEUE/pause", duly.StateReady},
	{"POST /ui/n/{namespace}/q/{queue}/resume", "POST /v1/shop/queues/QUEUE/resume", duly.StateReady},
	{"POST /ui/n/{namespace}/q/{queue}/destroy", "DELETE /v1/shop/queues/QUEUE", duly.StateReady},
	{"GET /ui/n/{namespace}/q/{queue}/start", `POST /v1/shop/operations {"kind":"requeue","queue":"QUEUE"}`, duly.StateDead},
	{"GET /ui/n/{namespace}/q/{queue}/start", `POST /v1/shop/operations {"kind":"promote","queue":"QUEUE"}`, duly.StateDelayed},
	{"POST /ui/n/{namespace}/q/{queue}/start", `POST /v1/shop/operations {"kind":"requeue","queue":"QUEUE"}`, duly.StateDead},
	{"POST /ui/n/{namespace}/q/{queue}/start", `POST /v1/shop/operations {"kind":"promote","queue":"QUEUE"}`, duly.StateDelayed},
	{"POST /ui/n/{namespace}/q/{queue}/start", `POST /v1/shop/operations {"kind":"purge","queue":"QUEUE","state":"ready"}`, duly.StateReady},
	{
		"POST /ui/n/{namespace}/q/{queue}/start",
		`POST /v1/shop/operations {"kind":"delete","queue":"QUEUE","group":"` + boom + `"}`, duly.StateDead,
	},
	{"POST /ui/n/{namespace}/q/{queue}/start", `POST /v1/shop/operations {"kind":"delete","queue":"QUEUE","ids":["ID"]}`, duly.StateReady},
	{"POST /ui/n/{namespace}/q/{queue}/requeue", `POST /v1/shop/queues/QUEUE/requeue {"ids":["ID"]}`, duly.StateDead},
	{"POST /ui/n/{namespace}/q/{queue}/promote", "POST /v1/shop/queues/QUEUE/jobs/ID/promote", duly.StateDelayed},
	{"GET /ui/n/{namespace}/schedules", "GET /v1/shop/queues/QUEUE/schedules", duly.StateReady},
	{"GET /ui/n/{namespace}/schedules/{queue}/{name}", "GET /v1/shop/queues/QUEUE/schedules/nightly", duly.StateReady},
	{"GET /ui/n/{namespace}/set/schedule", `PUT /v1/shop/queues/QUEUE/schedules/nightly {"spec":"@daily"}`, duly.StateReady},
	{"POST /ui/n/{namespace}/set/schedule", `PUT /v1/shop/queues/QUEUE/schedules/nightly {"spec":"@daily"}`, duly.StateReady},
	{"POST /ui/n/{namespace}/schedules/{queue}/{name}/pause", "POST /v1/shop/queues/QUEUE/schedules/nightly/pause", duly.StateReady},
	{"POST /ui/n/{namespace}/schedules/{queue}/{name}/resume", "POST /v1/shop/queues/QUEUE/schedules/nightly/resume", duly.StateReady},
	{"POST /ui/n/{namespace}/schedules/{queue}/{name}/trigger", "POST /v1/shop/queues/QUEUE/schedules/nightly/trigger", duly.StateReady},
	{"POST /ui/n/{namespace}/schedules/{queue}/{name}/delete", "DELETE /v1/shop/queues/QUEUE/schedules/nightly", duly.StateReady},
	{"GET /ui/n/{namespace}/targets", "GET /v1/shop/push/targets", duly.StateReady},
	{"GET /ui/n/{namespace}/targets/{name}", "GET /v1/shop/push/targets/crm", duly.StateReady},
	{"GET /ui/n/{namespace}/set/target", `PUT /v1/shop/push/targets/crm {"url":"http://127.0.0.1:9999/"}`, duly.StateReady},
	{"POST /ui/n/{namespace}/set/target", `PUT /v1/shop/push/targets/crm {"url":"http://127.0.0.1:9999/"}`, duly.StateReady},
	{"POST /ui/n/{namespace}/targets/{name}/enable", "POST /v1/shop/push/targets/crm/enable", duly.StateReady},
	{"POST /ui/n/{namespace}/targets/{name}/disable", "POST /v1/shop/push/targets/crm/disable", duly.StateReady},
	{"POST /ui/n/{namespace}/targets/{name}/test", "POST /v1/shop/push/targets/crm/test", duly.StateReady},
	{"POST /ui/n/{namespace}/targets/{name}/rotate", "POST /v1/shop/push/targets/crm/rotate {}", duly.StateReady},
	{"POST /ui/n/{namespace}/targets/{name}/delete", "DELETE /v1/shop/push/targets/crm", duly.StateReady},
	{"GET /ui/n/{namespace}/ops", "GET /v1/shop/operations", duly.StateReady},
	{"GET /ui/n/{namespace}/ops/{name}", "GET /v1/shop/operations/OPERATION", duly.StateDead},
	{"POST /ui/n/{namespace}/ops/{name}/pause", "POST /v1/shop/operations/OPERATION/pause", duly.StateDead},
	{"POST /ui/n/{namespace}/ops/{name}/pause", "POST /v1/shop/operations/OPERATION/pause", duly.StateDelayed},
	{"POST /ui/n/{namespace}/ops/{name}/pause", "POST /v1/shop/operations/OPERATION/pause", duly.StateReady},
	{"POST /ui/n/{namespace}/ops/{name}/continue", "POST /v1/shop/operations/OPERATION/continue", duly.StateDead},
	{"POST /ui/n/{namespace}/ops/{name}/continue", "POST /v1/shop/operations/OPERATION/continue", duly.StateDelayed},
	{"POST /ui/n/{namespace}/ops/{name}/stop", "POST /v1/shop/operations/OPERATION/stop", duly.StateDead},
	{"POST /ui/n/{namespace}/ops/{name}/stop", "POST /v1/shop/operations/OPERATION/stop", duly.StateDelayed},
	{"POST /ui/n/{namespace}/q/{queue}/delete", `POST /v1/shop/queues/QUEUE/jobs/delete {"ids":["ID"]}`, duly.StateDead},
}

// boom is the group of the jobs that [rig.bury] buries.
var boom = failures.Fingerprint("boom")

// callers are the kinds of callers. An account has no token, and may do what the owner may.
var callers = []string{"none", "produce", "consume", "both", "admin", "owner", "account", "revoked", "other"}

// newJob pushes a job of a new queue and brings it to a state.
func (r *rig) newJob(state duly.State) (queue, id string) {
	r.t.Helper()
	r.queues++
	queue = fmt.Sprint("q", r.queues)
	job := duly.Job{Queue: queue}
	if state == duly.StateDelayed {
		job.Delay = time.Hour
	}
	id = r.push(job)
	if state == duly.StateDead {
		r.bury(queue)
	}
	return queue, id
}

// bury reserves the next job of a queue and buries it.
func (r *rig) bury(queue string) {
	r.t.Helper()
	d, err := r.engine.Reserve(r.t.Context(), duly.ReserveParams{Namespace: "shop", Queues: []string{queue}, Max: 1})
	if err != nil || len(d) != 1 {
		r.t.Fatal(d, err)
	}
	results, err := r.engine.Settle(r.t.Context(), "shop", []duly.SettleRequest{
		{Receipt: d[0].Receipt, As: duly.Bury, Error: "boom"},
	})
	if err != nil || results[0] != nil {
		r.t.Fatal(err, results)
	}
}

// sessions logs every kind of caller in.
func (r *rig) sessions() map[string]*browser {
	list := map[string]*browser{"none": r.browser(), "account": r.browser()}
	list["account"].post("/ui/login", url.Values{"name": {"ada"}, "password": {"lovelace-1815"}})
	for name := range r.tokens {
		list[name] = r.login(name)
	}
	if err := r.guard.Revoke(r.t.Context(), r.hashes["revoked"]); err != nil {
		r.t.Fatal(err)
	}
	return list
}

// things makes what a route is about, other than queues and jobs. It returns the name, "" for nothing.
func (r *rig) things(pattern, queue string) (name string) {
	r.t.Helper()
	switch {
	case strings.Contains(pattern, "/target"):
		r.setTarget(contract.PushTargetSettings{})
		return "crm"
	case !strings.Contains(pattern, "/schedule"):
		return ""
	}
	_, err := r.dashboard.cfg.Scheduler.PutSchedule(r.t.Context(), duly.QueueRef{Namespace: "shop", Name: queue},
		duly.Schedule{Name: "nightly", Spec: "@daily", Overlap: duly.OverlapAllow})
	if err != nil {
		r.t.Fatal(err)
	}
	return "nightly"
}

// operation starts an operation for a route about one, and stops all others. Its right depends on the state of the job
// of a pair. It returns the ID, "" for another route.
func (r *rig) operation(pattern, queue, id string, state duly.State) string {
	r.t.Helper()
	m := r.dashboard.cfg.Operations
	list, _, err := m.List("shop", duly.PageParams{})
	for _, o := range list {
		if err == nil && !o.State.Ended() {
			_, err = m.Stop(r.t.Context(), "shop", o.ID, "test")
		}
	}
	if err != nil {
		r.t.Fatal(err)
	}
	if !strings.Contains(pattern, "/ops/{name}") {
		return ""
	}

	n := contract.NewOperation{Kind: contract.OperationRequeue, Queue: queue}
	switch state {
	case duly.StateDelayed:
		n.Kind = contract.OperationPromote
	case duly.StateReady:
		n.Kind, n.IDs = contract.OperationDelete, []string{id}
	}
	o, err := m.Start("shop", n, operations.Actor{Caller: "test"})
	if err != nil {
		r.t.Fatal(err)
	}
	return o.ID
}

// visit sends the request of a pair to the dashboard. It returns the status that the API would have.
func (b *browser) visit(p pair) int {
	b.t.Helper()
	queue, id := b.newJob(p.state)
	method, pattern, _ := strings.Cut(p.ui, " ")
	name := b.things(pattern, queue) + b.operation(pattern, queue, id, p.state)
	b.clock.Advance(time.Second) // the places of searches are free again
	at := strings.NewReplacer("{namespace}", "shop", "{queue}", queue, "{state}", "ready", "{id}", id, "{name}", name).Replace(pattern)
	var a answer
	switch {
	case strings.HasSuffix(at, "/live"):
		stream := b.stream("shop", "")
		defer stream.stop()
		a = answer{status: stream.status, header: stream.header}
	case method == "GET" && strings.HasSuffix(at, "/start"):
		a = b.get(at + "?" + startOf(p, queue, id).Encode())
	case method == "GET":
		a = b.get(at)
	default:
		form := url.Values{
			"id": {id}, "tries": {"16"}, "max_jobs": {"10"}, "once": {id}, "confirmed": {"yes"}, "name": {queue}, "back": {"queues"},
		}
		if name != "" {
			form = url.Values{"once": {id}, "confirmed": {"yes"}, "queue": {queue}, "name": {name}, "spec": {"@daily"},
				"url": {"http://127.0.0.1:9999/"}}
		}
		if strings.HasSuffix(at, "/start") {
			form = startOf(p, queue, id)
		}
		a = b.post(at, form)
	}
	switch {
	case a.status == http.StatusSeeOther && a.header.Get("Location") == "/ui/login":
		return http.StatusUnauthorized
	case a.status == http.StatusSeeOther:
		return http.StatusOK
	}
	return a.status
}

// startOf returns the form that starts the operation of a pair.
func startOf(p pair, queue, id string) url.Values {
	var request map[string]any
	_, body, _ := strings.Cut(strings.TrimPrefix(p.api, "POST "), " ")
	_ = json.Unmarshal([]byte(strings.NewReplacer("QUEUE", queue, "ID", id).Replace(body)), &request)
	form := url.Values{"once": {id}}
	for name, value := range request {
		form.Set(name, strings.Trim(fmt.Sprint(value), "[]"))
	}
	return form
}

// call sends the request of a pair to the API. It returns 200 for every success.
func (r *rig) call(api http.Handler, p pair, caller string) int {
	r.t.Helper()
	queue, id := r.newJob(p.state)
	r.things(p.ui, queue)
	operation := r.operation(p.ui, queue, id, p.state)
	parts := strings.SplitN(strings.NewReplacer("QUEUE", queue, "ID", id, "OPERATION", operation).Replace(p.api), " ", 3)
	req := httptest.NewRequest(parts[0], parts[1], strings.NewReader(strings.Join(parts[2:], "")))
	if caller == "account" {
		caller = "owner"
	}
	if token := r.tokens[caller]; token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	api.ServeHTTP(w, req)
	if w.Code < 300 {
		return http.StatusOK
	}
	return w.Code
}

// api returns the API on the engine of the rig.
func (r *rig) api() http.Handler {
	polls := poll.New(poll.Config{Engine: r.engine, Clock: r.clock})
	api := native.New(native.Config{
		Engine: r.engine, Poll: polls, Clock: r.clock, Surveyor: contract.SurveyorOf(r.engine),
		Finder: contract.FinderOf(r.engine), Explainer: contract.ExplainerOf(r.engine), Targeted: func() {},
		Scheduler: r.dashboard.cfg.Scheduler, Keys: contract.KeyListerOf(r.engine), Push: r.targets,
		Operations: r.dashboard.cfg.Operations,
	})
	router := &route.Router{Guard: r.guard, Log: r.logger, Draining: r.t.Context()}
	return router.Mount(api.Routes())
}

// differences returns every pair of a route, or of all, and every caller that the dashboard and the API do not treat
// alike.
func (r *rig) differences(of string) (list []string) {
	api, sessions := r.api(), r.sessions()
	for _, p := range pairs {
		if of != "" && p.ui != of {
			continue
		}
		for _, caller := range callers {
			got, want := sessions[caller].visit(p), r.call(api, p, caller)
			if got != want {
				list = append(list, fmt.Sprintf("%s by %s has the status %d, the API has %d", p.ui, caller, got, want))
			}
		}
	}
	return list
}

// S1, C14.53: every page and every action is refused exactly when the route of the API with the same answer is. Every
// route with a right has such a pair.
func TestRights(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, d := range r.differences("") {
		t.Error(d)
	}

	known := map[string]bool{}
	for _, p := range pairs {
		known[p.ui] = true
	}
	for _, route := range r.routes {
		if name := route.Method + " " + route.Path; route.Access != auth.Open && !known[name] {
			t.Errorf("%s has no pair", name)
		}
	}
	for _, a := range actions {
		if !known["POST "+a.of.at+"/"+a.name] {
			t.Errorf("the action %s has no pair", a.name)
		}
	}
	// S5: a bearer token opens no page.
	for _, p := range pairs {
		if path, ok := strings.CutPrefix(p.ui, "GET "); ok {
			at := strings.NewReplacer("{namespace}", "shop", "{queue}", "q1", "{state}", "ready", "{id}", "x", "{name}", "x").Replace(path)
			a := r.browser().do("GET", at, "", "Authorization", "Bearer "+r.tokens["owner"])
			if a.status != http.StatusSeeOther {
				t.Errorf("%s with a bearer token has the status %d", at, a.status)
			}
		}
	}
}

// S1: the test above finds every right that is weaker by one step.
func TestRightsFindWeakerRoutes(t *testing.T) {
	t.Parallel()
	weaker := map[auth.Access][]auth.Access{
		auth.Produce: {auth.Either}, auth.Consume: {auth.Either}, auth.Either: {auth.Open},
		auth.Admin: {auth.Both, auth.Produce, auth.Consume},
	}
	r := newRig(t)
	routes := slices.Clone(r.routes)
	for i, strong := range routes {
		// The start and the actions check the right of an operation themselves, so a weaker route changes nothing.
		changes := strong.Method == "POST" && strings.Contains(strong.Path, ofOperation.at)
		if strong.Access == auth.Open || strong.Path == startForm.at || changes {
			continue
		}
		for _, access := range weaker[strong.Access] {
			t.Run(fmt.Sprintf("%s%s/%s", strong.Method, strings.ReplaceAll(strong.Path, "/", "."), access), func(t *testing.T) {
				t.Parallel()
				weak := newRig(t)
				changed := weak.routes[i]
				weak.routes[i] = weak.dashboard.route(changed.Method, changed.Path, access, changed.Handler)
				weak.routes[i].MaxBody = changed.MaxBody
				weak.serve()
				if len(weak.differences(changed.Method+" "+changed.Path)) == 0 {
					t.Errorf("a route with the right %s instead of %s is not found", access, strong.Access)
				}
			})
		}
	}
}

// S1: with ui.read_only nobody can do anything, and no page offers it. Reading continues.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.ReadOnly = true })
	b := r.login("owner")
	for _, p := range pairs {
		want := http.StatusOK
		if strings.HasPrefix(p.ui, "POST") {
			want = http.StatusForbidden
		}
		if got := b.visit(p); got != want {
			t.Errorf("%s has the status %d, want %d", p.ui, got, want)
		}
	}
	queue, id := r.newJob(duly.StateDead)
	for _, page := range []string{"", "/dead", "/j/" + id, "/dead?fp=" + failures.Fingerprint("boom")} {
		page = "/ui/n/shop/q/" + queue + page
		if a := b.get(page); a.status != 200 || !strings.Contains(a.body, "read-only") || offers(a.body) != "" {
			t.Errorf("%s has the status %d and offers %q", page, a.status, offers(a.body))
		}
	}
}

// offers returns the names of the actions that a page offers.
func offers(page string) string {
	found := map[string]bool{}
	for _, a := range actions {
		if strings.Contains(page, `/`+a.name+`"`) {
			found[a.name] = true
		}
	}
	for _, kind := range []string{"requeue", "delete", "promote", "purge"} {
		if strings.Contains(page, "/start?") && strings.Contains(page, "kind="+kind) {
			found["all:"+kind] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(found)), " ")
}

// S1: a page offers the actions that the session may do and the state permits, and no others.
func TestButtons(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	sessions := r.sessions()
	for _, tt := range []struct {
		caller string
		state  duly.State
		// queue, list and job are the offers of the three pages. "-" is a page without access.
		queue, list, job string
	}{
		{"produce", duly.StateDead, "", "-", "-"},
		{"consume", duly.StateDead, "", "", ""},
		{"both", duly.StateDead, "", "delete", "delete"},
		{"both", duly.StateDelayed, "", "all:promote delete promote", "delete promote"},
		{"admin", duly.StateDead, "destroy pause", "all:purge all:requeue delete requeue", "delete requeue"},
		{"admin", duly.StateReady, "destroy pause", "all:purge delete", "delete"},
		{"account", duly.StateDelayed, "destroy pause", "all:promote all:purge delete promote", "delete promote"},
	} {
		queue, id := r.newJob(tt.state)
		for i, page := range []string{"", "/" + tt.state.String(), "/j/" + id} {
			want := []string{tt.queue, tt.list, tt.job}[i]
			a := sessions[tt.caller].get("/ui/n/shop/q/" + queue + page)
			got := offers(a.body)
			if a.status == http.StatusForbidden {
				got = "-"
			}
			if got != want {
				t.Errorf("%s offers %q to %s, want %q", page, got, tt.caller, want)
			}
		}
	}
	queue, _ := r.newJob(duly.StateReady)
	if err := r.engine.Pause(t.Context(), duly.QueueRef{Namespace: "shop", Name: queue}); err != nil {
		t.Fatal(err)
	}
	if got := offers(sessions["admin"].get("/ui/n/shop/q/" + queue).body); got != "destroy resume" {
		t.Errorf("a paused queue offers %q", got)
	}
}
