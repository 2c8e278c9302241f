package server

import (
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/describe"
	"github.com/dulymq/duly/server/route"
)

var update = flag.Bool("update", false, "write the files that the tests compare with")

// compare compares a string with a file.
func compare(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("%s is not what the server says; look at the difference after go test ./server -update", path)
	}
}

func described(f *fixture) []describe.Part {
	var api, admin, health []route.Route
	for _, r := range append(f.apiRoutes, f.adminRoutes...) {
		switch {
		case strings.HasPrefix(r.Path, "/v1/"):
			api = append(api, r)
		case onAdmin(r.Path):
			admin = append(admin, r)
		case r.Path == "/healthz" || r.Path == "/readyz":
			if !slices.ContainsFunc(health, func(h route.Route) bool { return h.Path == r.Path }) {
				health = append(health, r)
			}
		}
	}
	return parts(api, admin, health)
}

func TestHTTPAPIPageIsUpToDate(t *testing.T) {
	t.Parallel()
	compare(t, "../docs/http-api.md", describe.Markdown(described(serve(t, nil))))
}

// C14.3: the OpenAPI document has every route with its right, its errors and
// an example that fits its schema.
func TestTheOpenAPIDocumentIsComplete(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	a := f.send("GET", "/openapi.json", "", "none")

	var doc struct {
		OpenAPI string
		Paths   map[string]map[string]struct {
			Right       string `json:"x-right"`
			OperationID string
			Security    *[]any
			Summary     string
			RequestBody any
			Responses   map[string]any
		}
	}

	if err := json.Unmarshal([]byte(a.body), &doc); err != nil || doc.OpenAPI != "3.1.0" {
		t.Fatalf("%v, version %q", err, doc.OpenAPI)
	}
	n, ids := 0, map[string]bool{}

	for _, p := range described(f) {
		for _, r := range p.Routes {
			op, ok := doc.Paths[r.Path][strings.ToLower(r.Method)]
			n++
			switch {
			case !ok || op.Summary == "" || op.Right != r.Access.String():
				t.Errorf("%s %s is not described: %+v", r.Method, r.Path, op)
			case ids[op.OperationID] || !regexp.MustCompile(`^[a-z]+[A-Z][A-Za-z]+$`).MatchString(op.OperationID):
				t.Errorf("%s %s: operationId %q, want a verb and what it acts on, once", r.Method, r.Path,
					op.OperationID)
			case op.Security == nil || (r.Access == auth.Open) != (len(*op.Security) == 0):
				t.Errorf("%s %s: security %v", r.Method, r.Path, op.Security)
			case (r.Doc.Request == nil) != (op.RequestBody == nil):
				t.Errorf("%s %s: request %v", r.Method, r.Path, op.RequestBody)
			case r.Access != auth.Open &&
				(op.Responses["400"] == nil || op.Responses["401"] == nil || op.Responses["403"] == nil):
				t.Errorf("%s %s: responses %v", r.Method, r.Path, op.Responses)
			}
			ids[op.OperationID] = true
			fits(t, &r, r.Doc.Request, r.Doc.Example)
			fits(t, &r, r.Doc.Answer, r.Doc.ExampleAnswer)
		}
	}

	if n != 83 {
		t.Errorf("%d routes are described; has one been added or lost?", n)
	}
	compare(t, "testdata/openapi.json", indent(t, a.body))
}

// C14.3: every parameter has a description. Objects of answers allow additional properties, so a
// new field does not break generated clients.
func TestOpenAPIAllowsNewFieldsInAnswers(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)

	var doc struct {
		Paths map[string]map[string]struct {
			Parameters             []struct{ Name, In, Description string }
			RequestBody, Responses any
		}
		Components struct{ Schemas map[string]map[string]any }
	}

	if err := json.Unmarshal([]byte(f.send("GET", "/openapi.json", "", "none").body), &doc); err != nil {
		t.Fatal(err)
	}
	var reach func(v any, seen map[string]bool)

	reach = func(v any, seen map[string]bool) {
		text, _ := json.Marshal(v)
		for _, m := range regexp.MustCompile(`"#/components/schemas/(\w+)"`).FindAllStringSubmatch(string(text), -1) {
			if name := m[1]; !seen[name] {
				seen[name] = true
				reach(doc.Components.Schemas[name], seen)
			}
		}
	}

	asked, answered := map[string]bool{}, map[string]bool{}
	for path, methods := range doc.Paths {
		for method, op := range methods {
			reach(op.RequestBody, asked)
			reach(op.Responses, answered)
			for _, p := range op.Parameters {
				if p.In == "query" && p.Description == "" {
					t.Errorf("%s %s: nothing says what %s is", method, path, p.Name)
				}
			}
		}
	}

	for name := range answered {
		if open, _ := doc.Components.Schemas[name]["additionalProperties"].(bool); !open && !asked[name] {
			t.Errorf("the answer %s is closed", name)
		}
	}
}

// C14.3: every field has a description, no array can be null, and both pages have a row for each
// field.
func TestEveryFieldIsDescribed(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	var doc struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]struct {
					Type        any
					Description string
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(f.send("GET", "/openapi.json", "", "none").body), &doc); err != nil {
		t.Fatal(err)
	}

	for name, schema := range doc.Components.Schemas {
		for field, property := range schema.Properties {
			if property.Description == "" {
				t.Errorf("%s.%s has no description", name, field)
			}
			if _, several := property.Type.([]any); several {
				t.Errorf("%s.%s has the types %v, want one", name, field, property.Type)
			}
		}
	}

	page := f.send("GET", "/docs", "", "none").body
	parts := described(f)
	markdown := string(describe.Markdown(parts))
	for _, p := range parts {
		for i := range p.Routes {
			r := &p.Routes[i]
			for _, field := range append(describe.RequestFields(r), describe.AnswerFields(r)...) {
				if field.Type == "" || field.Meaning == "" {
					t.Errorf("%s %s: the row of %s is %+v", r.Method, r.Path, field.Name, field)
				}
				if !strings.Contains(page, "<code>"+field.Name+"</code>") ||
					!strings.Contains(markdown, "| `"+field.Name+"` |") {
					t.Errorf("%s %s: a page has no row for %s", r.Method, r.Path, field.Name)
				}
			}
		}
	}
}

// The rows of a push have type, default and bound, from the keywords of the schema and the last
// sentences of its descriptions.
func TestFieldsOfAPushHaveTypeDefaultAndBound(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	rows := map[string]describe.Field{}
	for i := range f.apiRoutes {
		if f.apiRoutes[i].Doc.ID == "pushJobs" {
			for _, row := range describe.RequestFields(&f.apiRoutes[i]) {
				rows[row.Name] = row
			}
		}
	}

	for _, want := range []describe.Field{
		{Name: "jobs", Type: "array of objects", Required: true, Bound: "1000 items", Meaning: "The jobs to store."},
		{Name: "jobs[].priority", Type: "integer", Default: "0", Bound: "-1000 to 1000",
			Meaning: "A higher priority goes first."},
		{Name: "jobs[].lease", Type: "duration", Default: "the queue's, 30s", Bound: "100ms to 366d",
			Meaning: "How long a delivery holds the job."},
		{
			Name: "jobs[].merge.until", Type: "string", Default: "leased", Bound: "leased, done",
			Meaning: "How long the job holds the key: until it is leased, or until it is finished (only with keep).",
		},
	} {
		if got := rows[want.Name]; got != want {
			t.Errorf("row %+v\nwant %+v", got, want)
		}
	}
}

// C14.10, C14.46: the root of the API has links to the documents: as a page for a browser, else
// as JSON.
func TestRootLinksToDocuments(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	req, err := http.NewRequest("GET", f.api.URL+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	if a := f.do(req); a.status != 200 || a.header.Get("Content-Type") != "application/json" ||
		!strings.Contains(a.body, `"docs":"/docs"`) {
		t.Errorf("%d %s %s", a.status, a.header.Get("Content-Type"), a.body)
	}

	req.Header.Set("Accept", "text/html,*/*;q=0.8")
	if a := f.do(req); a.status != 200 || !strings.Contains(a.body, `href="/docs"`) ||
		a.header.Get("Content-Security-Policy") == "" {
		t.Errorf("%d %v %s", a.status, a.header, a.body)
	}
	if a := f.send("GET", "/favicon.ico", "", "none"); a.status != 200 || !strings.HasPrefix(a.body, "\x89PNG") {
		t.Errorf("favicon: %d, %d bytes", a.status, len(a.body))
	}
}

// C14.45: the error of a push of one job is the error of the request.
func TestPushOfOneJobReturnsItsError(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	const path = "/v1/default/queues/mail/jobs"
	for _, step := range []struct {
		body, want string
		status     int
	}{
		{`{"id":"a","body":"x","merge":{"key":"k"}}`, `{"id":"a","outcome":"created"}`, 200},
		{`{"id":"a","body":"y"}`, `{"id":"a","outcome":"exists","state":"ready"}`, 200},
		{`{"id":"b","merge":{"key":"k"}}`, `{"id":"a","outcome":"merged"}`, 200},
		{`{"id":"c","tries":0,"priority":1001}`, `"code":"invalid"`, 400},
		{`{"id":"c","queue":"other"}`, `"field":"queue"`, 400},
		{`{"id":"c","nonsense":1}`, `"code":"invalid"`, 400},
		{`{"id":"c"`, `"code":"invalid"`, 400},
		{` null`, `"code":"invalid"`, 400},
		{`{"body":"` + strings.Repeat("x", 1<<20+1) + `"}`, `"code":"too_large"`, 413},
	} {
		if a := f.send("POST", path, step.body); a.status != step.status || !strings.Contains(a.body, step.want) {
			t.Errorf("%.80s: %d %s, want %d with %s", step.body, a.status, a.body, step.status, step.want)
		}
	}

	a := f.send("POST", path, `{"tries":0,"priority":1001}`)
	if !strings.Contains(a.body, `"field":"tries"`) || !strings.Contains(a.body, `"field":"priority"`) {
		t.Errorf("the error does not name every bad field: %s", a.body)
	}
	if a := f.send("POST", "/v1/default/queues/a%20b/jobs", `{}`); a.status != 400 {
		t.Errorf("a bad queue name: %d %s", a.status, a.body)
	}
	if a := f.send("GET", "/v1/default/queues/mail/jobs?state=ready", ""); strings.Count(a.body, `"id":`) != 1 {
		t.Errorf("jobs: %s", a.body)
	}
}

func indent(t *testing.T, text string) []byte {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	b, _ := json.MarshalIndent(v, "", "  ")
	return append(b, '\n')
}

// fits fails the test if the example does not have the form.
func fits(t *testing.T, r *route.Route, form route.Form, example string) {
	t.Helper()
	if (form == nil) != (example == "") {
		t.Errorf("%s %s: has a form or an example, but not both", r.Method, r.Path)
		return
	}
	if form == nil {
		return
	}
	if err := form.Check(example); err != nil {
		t.Errorf("%s %s: %v in %s", r.Method, r.Path, err, example)
	}
}

// C14.4: the page has every route, contains no script and loads nothing.
func TestDocsPageIsCompleteAndLoadsNothing(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	a := f.send("GET", "/docs", "", "none")
	if a.status != 200 || !strings.HasPrefix(a.header.Get("Content-Type"), "text/html") ||
		a.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Fatalf("%d %v", a.status, a.header)
	}
	if csp := a.header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") ||
		strings.Contains(csp, "unsafe") || strings.Contains(csp, "http") {
		t.Errorf("policy %q", csp)
	}

	for _, p := range described(f) {
		for _, r := range p.Routes {
			if !strings.Contains(a.body, "<b>"+r.Method+"</b> <code>"+r.Path+"</code>") {
				t.Errorf("%s %s is missing", r.Method, r.Path)
			}
		}
	}

	external := regexp.MustCompile(`(?i)<script|<link|<img|<iframe|\bsrc=|@import|url\(|\bon\w+=|href="[^#/]`)
	if m := external.FindString(a.body); m != "" {
		t.Errorf("the page has %q", m)
	}
}

// volatile matches texts that differ in each run.
var volatile = regexp.MustCompile(`:0:[0-9A-Z]{26}:|"next":"[^"]+"`)

// C14.1, C14.6, C14.7, C14.11, C14.13, C14.16, C14.17, C14.18, C14.19, C14.20,
// C14.22, C14.23, C14.60, C14.62, C14.63, C14.64, C14.70, C14.80: requests and answers of a queue's life, in the
// forms that clients get.
func TestEveryRouteHasItsDocumentedForm(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	var b strings.Builder
	receipt := ""

	for _, step := range []string{
		`POST /push {"jobs":[{"queue":"mail","id":"a","body":"héllo\n\"x\"","headers":{"Trace":"1"},"retain":"1h",` +
			`"backoff":"fixed:5s"},{"queue":"mail","id":"b","body_base64":"AP8=","delay":"1h","ttl":"2h",` +
			`"priority":-3,"merge":{"key":"k","mode":"replace","max_wait":"3h"}}]}`,
		`POST /push {"jobs":[{"queue":"mail","id":"a"},{"queue":"mail","merge":{"key":"k"}},` +
			`{"queue":"mail","id":"c","due":"2030-01-01T02:00:00+01:00","order_key":"o","max_stalls":"none"},` +
			`{"queue":"a/b","tries":0}]}`,
		`POST /queues/mail/jobs {"id":"d","body":"x","delay":"3h"}`,
		`POST /queues/mail/jobs {"queue":"mail","tries":0}`, `DELETE /queues/mail/jobs/d`,
		`GET /queues?limit=10`, `GET /queues?stats=true&limit=10`, `GET /queues?stats=maybe`, `GET /queues/mail`,
		`GET /queues/nowhere`, `GET /queues/mail/peek`, `GET /queues/mail/jobs?state=delayed`,
		`GET /queues/mail/jobs?state=delayed&bodies=true&limit=1`,
		`GET /queues/mail/jobs?state=delayed&order=newest&from=2030-01-01T02:30:00%2B01:00`,
		`GET /queues/mail/jobs?state=delayed&limit=0&order=latest&from=now`,
		`GET /queues/mail/jobs?state=ready&from=2030-01-01T00:00:00Z`,
		`GET /queues/mail/jobs/b`, `GET /queues/mail/jobs/x`, `PATCH /queues/mail/jobs/b {"priority":7,"body":""}`,
		`PATCH /queues/mail/jobs/x {"priority":7}`, `POST /queues/mail/jobs/c/promote`,
		`POST /wait {"queues":["mail"]}`, `POST /reserve {"queues":["mail"],"lease":"1m"}`,
		`POST /extend {"receipts":["RECEIPT","gone"],"lease":"2m"}`,
		`PATCH /queues/mail/jobs/a {"priority":7}`,
		`POST /settle {"outcomes":[{"receipt":"RECEIPT","as":"ack","result":"done"},` +
			`{"receipt":"RECEIPT","as":"nack","delay":"0s"},{"receipt":"x","as":"sleep"},` +
			`{"receipt":"x","as":"ack","delay":"1s"}]}`,
		`GET /queues/mail/jobs/a`, `POST /reserve {"queues":["mail"]}`,
		`POST /settle {"outcomes":[{"receipt":"RECEIPT","as":"bury","error":"no"}]}`,
		`GET /queues/mail/jobs?state=dead`,
		`POST /queues/mail/requeue {"ids":["c","x"],"tries":3}`, `POST /queues/mail/requeue {"n":0}`,
		`POST /queues/mail/pause`, `POST /reserve {"queues":["mail"]}`, `POST /queues/mail/resume`,
		`POST /queues/nowhere/pause`,
		`PATCH /queues/mail {"max_leased":5,"rate":0.5,"dead_age":"none","defaults":{"tries":3}}`,
		`PATCH /queues/mail {"paused":true}`, `PATCH /queues/mail {"shards":3,"burst":0}`, `GET /queues/mail`,
		`POST /queues/mail/purge {"state":"done"}`, `POST /queues/mail/purge {"state":"gone"}`,
		`GET /jobs/b`, `GET /jobs/x`, `GET /jobs/a%20b`,
		`GET /queues/mail/jobs/b/why`, `GET /queues/mail/jobs/x/why`, `GET /queues/mail/jobs/a%20b/why`,
		`GET /queues/t@g/jobs/b/why`,
		`POST /push {"jobs":[{"queue":"keys","id":"k1","order_key":"k"},{"queue":"keys","id":"k2","order_key":"k"},` +
			`{"queue":"keys","id":"k3","order_key":"held"}]}`,
		`GET /queues/keys/keys`, `GET /queues/keys/keys?prefix=x`, `GET /queues/keys/keys?key=held`,
		`GET /queues/keys/keys?key=none`, `GET /queues/keys/keys?key=k&prefix=k&limit=1001`,
		`GET /queues/keys/keys?prefix=%0A`, `GET /queues/keys/jobs?state=blocked&key=k`,
		`GET /queues/keys/jobs?state=ready&key=k`, `DELETE /queues/keys`,
		`POST /queues/mail/jobs/get {"ids":["c","x","a b"],"bodies":true}`, `POST /queues/mail/jobs/get {"ids":["c"]}`,
		`POST /queues/mail/jobs/get {"ids":[]}`,
		`POST /queues/mail/jobs/promote {"ids":["c","x","a b"]}`, `POST /queues/mail/jobs/promote {}`,
		`POST /queues/mail/jobs/delete {"ids":["c","b","x","a b"],"state":"ready"}`,
		`POST /queues/mail/jobs/delete {"ids":[]}`, `POST /queues/mail/jobs/delete {"ids":["b"],"state":"gone"}`,
		`DELETE /queues/mail/jobs/b`, `DELETE /queues/mail/jobs/b`, `DELETE /queues/mail`, `DELETE /queues/mail`,
		`GET /queues`,
	} {
		method, rest, _ := strings.Cut(step, " ")
		path, body, _ := strings.Cut(rest, " ")
		a := f.send(method, "/v1/default"+path, strings.ReplaceAll(body, "RECEIPT", receipt))
		if m := regexp.MustCompile(`"receipt":"([^"]+)"`).FindStringSubmatch(a.body); m != nil {
			receipt = m[1]
		}
		answer := volatile.ReplaceAllStringFunc(a.body, func(text string) string {
			if strings.HasPrefix(text, ":") {
				return ":0:NUMBER:"
			}
			return `"next":"CURSOR"`
		})
		b.WriteString(step + "\n" + a.header.Get("Content-Type") + " ")
		b.WriteString(strings.TrimSpace(httpLine(a.status)+"\n"+answer) + "\n\n")
		f.clock.Advance(time.Second)
	}

	compare(t, "testdata/native.golden", []byte(b.String()))
}

func httpLine(status int) string {
	b, _ := json.Marshal(status)
	return string(b)
}
