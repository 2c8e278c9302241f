package server

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/describe"
	"github.com/dulymq/duly/server/route"
)

// pathOf returns a path that matches the pattern.
func pathOf(r route.Route, namespace string) string {
	return strings.NewReplacer("{receipt}", "q:0:01J0000000000000000000000A:1", "{namespace}", namespace, "{queue}",
		"q", "{topic}", "events", "{group}", "mailer", "/tokens/{id}", "/tokens/"+strings.Repeat("0", 64), "{id}",
		"some-job", "{profile}", "goroutine").Replace(r.Path)
}

// allowed returns the tokens of the fixture that may use a route in the namespace default. It
// states the declared rights in a second, independent form.
func allowed(need auth.Access) map[string]bool {
	switch need {
	case auth.Open:
		return map[string]bool{"none": true, "malformed": true, "unknown": true, "revoked": true, "produce": true,
			"consume": true, "admin": true, "operator": true, "reader": true, "foreign": true}
	case auth.Produce:
		return map[string]bool{"produce": true, "admin": true, "operator": true}
	case auth.Consume:
		return map[string]bool{"consume": true, "admin": true, "operator": true, "reader": true}
	case auth.Either:
		return map[string]bool{"produce": true, "consume": true, "admin": true, "operator": true, "reader": true}
	case auth.Admin:
		return map[string]bool{"admin": true, "operator": true}
	case auth.Operator:
		return map[string]bool{"operator": true}
	}
	return nil
}

// Fault X1, C1.2, C13.3, C14.2, C14.21, C14.24, C14.26, C14.27, C14.30, C18.60: each kind of token
// opens exactly the routes that the test declares. A new route of the router fails without a
// declaration.
func TestEveryRouteIsOpenOnlyToTheDeclaredRights(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)

	for _, r := range append(f.apiRoutes, f.adminRoutes...) {
		if len(allowed(r.Access)) == 0 {
			t.Errorf("%s %s declares no right", r.Method, r.Path)
		}
		// Wait 0, because the clock does not advance.
		body := strings.ReplaceAll(r.Doc.Example, `"wait":"30s"`, `"wait":"0s"`)
		// The delay after refused requests ends.
		f.clock.Advance(time.Minute)
		for caller := range f.tokens {
			got := f.send(r.Method, pathOf(r, "default")+r.Doc.ExampleQuery, body, caller).status
			refused := got == http.StatusUnauthorized || got == http.StatusForbidden
			if refused == allowed(r.Access)[caller] {
				t.Errorf("%s %s with the token %s: %d, needs %s", r.Method, r.Path, caller, got, r.Access)
			}
			stranger := caller == "none" || caller == "malformed" || caller == "unknown" || caller == "revoked"
			if refused && stranger != (got == http.StatusUnauthorized) {
				t.Errorf("%s %s with the token %s: %d; 401 is for an unknown caller, 403 for a missing right", r.Method,
					r.Path, caller, got)
			}
		}
	}
}

// Fault X1: the declared rights equal the contract's table.
func TestRightsMatchContract(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)

	for _, r := range f.apiRoutes {
		path, native := strings.CutPrefix(r.Path, "/v1/{namespace}")
		want := auth.Open
		switch {
		case !native:
		case path == "/push":
			want = auth.Produce
		case strings.HasPrefix(path, "/push/"):
			want = rightOfPush(r.Method, path)
		case strings.HasPrefix(path, "/operations"):
			if want = auth.Produce; r.Method == "GET" {
				want = auth.Either
			}
		case strings.HasPrefix(path, "/topics"):
			want = rightOfTopics(r.Method, path)
		case strings.HasPrefix(path, "/queues/{queue}/jobs") || path == "/queues/{queue}/peek" ||
			path == "/queues/{queue}/keys":
			if want = auth.Produce; r.Method == "GET" || strings.HasSuffix(path, "/jobs/get") {
				want = auth.Consume
			}
		case strings.HasPrefix(path, "/queues/{queue}/schedules"):
			if want = auth.Produce; r.Method == "GET" {
				want = auth.Either
			}
		case strings.HasPrefix(path, "/queues"):
			if want = auth.Admin; r.Method == "GET" {
				want = auth.Either
			}
		default:
			want = auth.Consume
		}
		if r.Access != want {
			t.Errorf("%s %s needs %s, want %s", r.Method, r.Path, r.Access, want)
		}
	}

	for _, r := range f.adminRoutes {
		if onAdmin(r.Path) != (r.Access == auth.Operator) {
			t.Errorf("%s %s needs %s", r.Method, r.Path, r.Access)
		}
	}
}

// rightOfPush returns the right of C16.137 to C16.143.
func rightOfPush(method, path string) auth.Access {
	if method == "GET" && !strings.HasSuffix(path, "/secret") {
		return auth.Produce
	}
	return auth.Admin
}

// rightOfTopics returns the right of C14.25 and C14.49 to C14.52.
func rightOfTopics(method, path string) auth.Access {
	bodies := path == "/topics/{topic}/messages" || strings.HasSuffix(path, "/delayed/{id}")
	switch {
	case method == "GET" && bodies:
		return auth.Consume
	case method == "GET":
		return auth.Either
	case bodies:
		return auth.Produce
	case method == "PUT":
		return auth.Consume
	}
	return auth.Admin
}

// Fault X1: a route without a right cannot be mounted.
func TestRouteWithoutRightPanics(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("it was mounted")
		}
	}()
	(&route.Router{}).Mount([]route.Route{{Method: "GET", Path: "/x"}})
}

// Fault X2: a token of one namespace gives no access to another namespace, however the name in the
// request is spelled.
func TestNoSpellingReachesAnotherNamespace(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	for _, ns := range []string{"other", "Default", "DEFAULT", "default.", "*", "%2a", "default%00",
		"default%2f..%2fother", "default/../other", "..", "%2e%2e/other", "d\u0435fault", "{namespace}", "defaul",
		"default-"} {
		a := f.send("POST", "/v1/"+strings.ReplaceAll(ns, "{", "%7b")+"/push", `{"jobs":[{"queue":"q"}]}`, "produce")
		if a.status < 400 || a.status >= 500 {
			t.Errorf("namespace %q: %d %s", ns, a.status, a.body)
		}
	}
}

// Fault X1: docs/security.md lists the right of each route.
func TestSecurityPageHasTheRightsOfEachRoute(t *testing.T) {
	t.Parallel()
	const path, begin, end = "../docs/security.md", "<!-- rights -->\n", "<!-- /rights -->"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok1 := strings.Cut(string(page), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no place for the table of rights", path)
	}
	compare(t, path, []byte(head+begin+rightsTable(described(serve(t, nil)))+end+tail))
}

// rightsColumns has the columns of the table of rights: each column is a token with one right, in
// the namespace of the route or in all namespaces.
var rightsColumns = []struct {
	name  string
	token contract.Token
}{
	{"`produce`", contract.Token{Namespace: duly.DefaultNamespace, Rights: contract.RightProduce}},
	{"`consume`", contract.Token{Namespace: duly.DefaultNamespace, Rights: contract.RightConsume}},
	{"`admin`", contract.Token{Namespace: duly.DefaultNamespace, Rights: contract.RightAdmin}},
	{"`admin` for `*`", contract.Token{Namespace: contract.AllNamespaces, Rights: contract.RightAdmin}},
}

// rightsTable returns the table of docs/security.md with the rights of all routes.
func rightsTable(parts []describe.Part) string {
	var b strings.Builder
	b.WriteString("| route | nobody |")
	for _, c := range rightsColumns {
		b.WriteString(" " + c.name + " |")
	}
	b.WriteString(" counts under |\n| --- |" + strings.Repeat(" :---: |", len(rightsColumns)+1) + " --- |\n")

	for _, p := range parts {
		for i := range p.Routes {
			r := &p.Routes[i]
			fmt.Fprintf(&b, "| `%s %s` | %s |", r.Method, r.Path, mark(r.Access == auth.Open))
			for _, c := range rightsColumns {
				fmt.Fprintf(&b, " %s |", mark(r.Access == auth.Open || r.Access.Allows(&c.token, duly.DefaultNamespace)))
			}
			fmt.Fprintf(&b, " %s |\n", strings.Join(r.LimitedBy.Names(), ", "))
		}
	}
	return b.String()
}

// mark returns the cell of a column.
func mark(may bool) string {
	if may {
		return "✓"
	}
	return ""
}
