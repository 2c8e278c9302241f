package route

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/dulymq/duly"
)

// C14.10: ambiguous spellings of a path are refused, and clean paths are not.
func TestAmbiguousPathsAreRefused(t *testing.T) {
	t.Parallel()
	for path, clean := range map[string]bool{
		"/": true, "/a": true, "/a.b/c..d/..e/.f": true, "/a/...": true, "/%41": true, "/a%3Ab": true, "/a%20b": true,
		"/.": false, "/..": false, "/a/.": false, "/a/..": false, "/./a": false, "/../a": false, "/a/../b": false,
		"/a/./b": false,
		"/a/":    false, "//": false, "//a": false, "/a//b": false, "/a%2Fb": false, "/a%2fb": false, "/a%00": false,
		"/%2e": false, "/%2e%2E/a": false, "/.%2e": false, "/a/.%2f": false,
	} {
		r := httptest.NewRequest("GET", "http://x"+path, nil)
		if err := checkPath(r); (err == nil) != clean {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err := checkPath(httptest.NewRequest("GET", "/"+strings.Repeat("x", MaxURL), nil)); err == nil {
		t.Error("a long URL is clean")
	}
}

// The mux never redirects a path that checkPath accepts.
func FuzzPaths(f *testing.F) {
	for _, s := range []string{"/v1/a/queues/b", "/..", "/a/%2e%2e", "//a", "/a/", "/a%2fb", "/a/./b", "/%00"} {
		f.Add(s)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	mux.HandleFunc("GET /v1/{namespace}/queues/{queue}",
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })

	f.Fuzz(func(t *testing.T, path string) {
		r, err := http.NewRequest("GET", "http://x"+path, nil)
		if err != nil || r.URL.Host != "x" {
			return
		}
		r.RequestURI = path
		if checkPath(r) != nil {
			return
		}
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		if w.Code != http.StatusTeapot {
			t.Errorf("%q: %d %v", path, w.Code, w.Header())
		}
	})
}

// The error of an unknown parameter names the parameters of the route. It does not repeat the
// client's text, which may be a secret.
func TestUnknownQueryParameterErrorHasNames(t *testing.T) {
	for want, names := range map[string][]string{
		"takes state, cursor": {"state", "cursor"},
		"takes none":          nil,
	} {
		c := &Call{R: httptest.NewRequest("GET", "http://x/jobs?duly_secret=1", nil), route: &Route{Query: names}}
		err := c.checkQuery()
		if err == nil || !strings.HasSuffix(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("route with %v: %v", names, err)
		}
	}
}

// Fault X14: any text becomes one line of ASCII in the log.
func FuzzLine(f *testing.F) {
	f.Add("a\nb\x1b[31m\u2028\xff")
	f.Fuzz(func(t *testing.T, text string) {
		line := Line(text)
		for i := range len(line) {
			if line[i] < 0x20 || line[i] >= 0x7f {
				t.Errorf("%q becomes %q", text, line)
			}
		}
		if len(line) > 500 {
			t.Errorf("%d bytes", len(line))
		}
	})
}

// Mistakes of callers are not logged as faults of the server, so that they trigger no alert.
func TestCallerErrorsAreNotLoggedAsFaults(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]string{400: "INFO", 501: "INFO", 500: "ERROR", 503: "ERROR", 507: "ERROR"} {
		var out strings.Builder
		c := &Call{R: httptest.NewRequest("GET", "/", nil), status: status, err: duly.ErrInvalid, route: &Route{},
			router: &Router{Log: slog.New(slog.NewTextHandler(&out, nil))}}
		c.log()
		if !strings.Contains(out.String(), "level="+want) {
			t.Errorf("%d: %s", status, out.String())
		}
	}
}

// The log has an error as one line, without the secrets of URLs.
func TestFaultIsOneLineWithoutSecrets(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"dial redis://me:CANARY@host:1?db=2&password=CANARY&x=1": "dial redis://***@host:1?db=2&password=***&x=1",
		"two\nlines\x1b[31m, ä":                                  "two?lines?[31m, ??",
		"TOKEN=CANARY said \"no\"":                               `TOKEN=*** said "no"`,
	} {
		if got := Fault(errors.New(text)); got != want {
			t.Errorf("%q is logged as %q, want %q", text, got, want)
		}
	}
}
