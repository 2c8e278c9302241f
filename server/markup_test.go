package server

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/describe"
)

// markup returns texts that would run or load something in HTML, in several contexts and
// spellings.
func markup() (corpus []string) {
	const call = "alert(1)"
	tags := []string{
		"<script>%s</script>", "<ScRiPt>%s</sCrIpT>", "<script/x>%s</script>", "<script src=//evil.example></script>",
		"<img src=x onerror=%s>", "<svg onload=%s>",
		"<svg/onload=%s>", "<body onload=%s>", "<iframe src=javascript:%s>", "<iframe srcdoc='<script>%s</script>'>",
		"<a href=javascript:%s>x</a>", "<details open ontoggle=%s>",
		"<input autofocus onfocus=%s>", "<video><source onerror=%s>", "<object data=javascript:%s>",
		"<embed src=javascript:%s>", "<math><mtext><script>%s</script>",
		"<link rel=stylesheet href=//evil.example>", "<meta http-equiv=refresh content='0;url=javascript:%s'>",
		"<base href=//evil.example>", "<style>@import '//evil.example'</style>",
		"<form action=javascript:%s><button>x", "<marquee onstart=%s>", "<template><script>%s</script></template>",
		"<xmp><script>%s</script>", "<noscript><p title='</noscript><img src=x onerror=%s>'>",
	}
	// Texts that end the surrounding element or attribute.
	ends := []string{`">`, "'>", "</pre></style></title>"}
	for i, tag := range tags {
		if strings.Contains(tag, "%s") {
			tag = fmt.Sprintf(tag, call)
		}
		corpus = append(corpus, tag, ends[i%len(ends)]+tag)
	}
	return append(corpus, "<img src=`x`onerror=alert(1)>", "\"onmouseover=alert(1) x=\"", "'onmouseover=alert(1) x='",
		"{{.}}", "${alert(1)}", "\u2028<script>alert(1)</script>", "<!--<img src=--><img src=x onerror=alert(1)//>",
		"<scr\x00ipt>alert(1)</script>")
}

// harmless returns an error unless the answer to a request with markup is safe in a browser: JSON
// or plain text without sniffing, or a page whose policy forbids scripts, loads and frames.
func harmless(a answer, text string) error {
	if a.header.Get("X-Content-Type-Options") != "nosniff" {
		return fmt.Errorf("may be sniffed: %v", a.header)
	}
	kind, _, _ := strings.Cut(a.header.Get("Content-Type"), ";")

	switch kind {
	case "application/json", "application/problem+json", "application/octet-stream", "text/plain":
		return nil
	case "":
		if a.body == "" {
			return nil
		}
	case "text/html":
		if strings.Contains(a.body, text) {
			return fmt.Errorf("the page repeats %q", text)
		}
		return guarded(a)
	}

	return fmt.Errorf("is of type %q", kind)
}

// guarded returns an error if a header of a page is missing.
func guarded(a answer) error {
	policy := a.header.Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'",
		"form-action 'none'"} {
		if !strings.Contains(policy, want) {
			return fmt.Errorf("the policy %q lacks %s", policy, want)
		}
	}
	if strings.Contains(policy, "unsafe") || strings.Contains(policy, "script-src") {
		return fmt.Errorf("the policy %q lets scripts run", policy)
	}
	if got := a.header.Get("X-Frame-Options"); got != "DENY" {
		return fmt.Errorf("it may be framed: X-Frame-Options is %q", got)
	}
	return nil
}

// Fault X15: markup in any part of a request, for instance bodies, names, error texts and headers, is
// never markup in an answer.
func TestMarkupInARequestIsNeverMarkupInAnAnswer(t *testing.T) {
	t.Parallel()
	ada, err := auth.NewAccount("ada", "correct horse")
	if err != nil {
		t.Fatal(err)
	}
	f := serve(t, func(c *Config) { c.Settings.Accounts = []auth.Account{ada} })
	corpus := markup()
	if len(corpus) < 60 {
		t.Fatalf("%d texts", len(corpus))
	}

	for _, text := range corpus {
		quoted, _ := json.Marshal(text)
		segment, query := url.PathEscape(text), url.QueryEscape(text)
		id := f.push("q", text)
		for _, r := range []struct{ base, method, path, body string }{
			{f.api.URL, "GET", "/docs?x=" + query, ""},
			{f.api.URL, "GET", "/openapi.json?x=" + query, ""},
			{f.api.URL, "GET", "/" + segment, ""},
			{f.api.URL, "GET", "/v1/" + segment + "/queues", ""},
			{f.api.URL, "GET", "/v1/default/queues/" + segment, ""},
			{f.api.URL, "GET", "/v1/default/queues/q/jobs/" + segment, ""},
			{f.api.URL, "GET", "/v1/default/queues/q/jobs/" + id, ""},
			{f.api.URL, "GET", "/v1/default/queues/q/jobs?state=" + query, ""},
			{f.api.URL, "POST", "/v1/default/push",
				`{"jobs":[{"queue":` + string(quoted) + `,"body":` + string(quoted) + `,"id":` + string(quoted) +
					`,"headers":{"x":` + string(quoted) + `}}]}`},
			{f.api.URL, "POST", "/v1/default/push",
				`{"jobs":[{"queue":"h","body":` + string(quoted) + `,"headers":{"worker":` + string(quoted) + `}}]}`},
			{f.api.URL, "POST", "/v1/default/push", text},
			{f.api.URL, "POST", "/v1/default/reserve", `{"queues":["h"]}`},
			{f.api.URL, "POST", "/v1/default/settle",
				`{"outcomes":[{"receipt":` + string(quoted) + `,"as":` + string(quoted) + `,"error":` +
					string(quoted) + `}]}`},
			{f.api.URL, "PUT", "/api/default/q?delay=" + query, text},
			{f.api.URL, "GET", "/api/default/q/peek", ""},
			{f.api.URL, "GET", "/api/" + segment + "/" + segment + "/size", ""},
			{f.admin.URL, "GET", "/admin/tokens?namespace=" + query, ""},
			{f.admin.URL, "POST", "/admin/tokens",
				`{"namespace":"ns","rights":["produce"],"description":` + string(quoted) + `}`},
			{f.admin.URL, "GET", "/admin/tokens?limit=3", ""},
			{f.admin.URL, "GET", "/token/" + segment, ""},
			{f.admin.URL, "GET", "/debug/pprof/" + segment, ""},
			{f.admin.URL, "GET", "/metrics?substr=" + query, ""},
		} {
			req, err := http.NewRequest(r.method, r.base+r.path, strings.NewReader(r.body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+f.tokens["operator"])
			req.Header.Set("X-Token", f.tokens["operator"])
			for _, h := range []string{"User-Agent", "Referer", "Accept", "X-Request-Id"} {
				req.Header.Set(h, base64.StdEncoding.EncodeToString([]byte(text))+strings.Map(printable, text))
			}
			if err := harmless(f.do(req), text); err != nil {
				t.Errorf("%s %s with %q: %v", r.method, r.path, text, err)
			}
		}
	}
}

// printable maps characters that can't be in a header to -1.
func printable(r rune) rune {
	if r < ' ' || r > '~' {
		return -1
	}
	return r
}

// Faults X15, X19: the page loads nothing, has no script, and no site can frame it.
func TestDocumentsPageRunsNothingAndCannotBeFramed(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)

	for _, path := range []string{"/docs", "/"} {
		req, err := http.NewRequest("GET", f.api.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", "text/html,*/*;q=0.8")
		a := f.do(req)
		if a.status != 200 || !strings.HasPrefix(a.header.Get("Content-Type"), "text/html") {
			t.Fatalf("%s: %d %v", path, a.status, a.header)
		}
		if err := guarded(a); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		page := strings.ToLower(a.body)
		for _, never := range []string{"<script", "javascript:", " onclick", " onload", " onerror", "<iframe",
			"<object", "<embed", "<base", "<form"} {
			if strings.Contains(page, never) {
				t.Errorf("%s has %s", path, never)
			}
		}
	}

	if !strings.Contains(describe.Policy(), "frame-ancestors 'none'") {
		t.Error("the policy of pages lets others frame them")
	}
}

// TestMetricsRepeatNoMarkup checks that the metrics do not repeat a filter of the query, as those of
// sidekiq did (CVE-2024-32887). A queue or a namespace can't have a name with markup.
func TestMetricsRepeatNoMarkup(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	for _, text := range markup() {
		for _, name := range []string{"substr", text} {
			a := f.send("GET", "/metrics?"+url.QueryEscape(name)+"="+url.QueryEscape(text), "")
			if err := harmless(a, text); err != nil || strings.Contains(a.body, text) {
				t.Errorf("%q in %s: %v, repeated %v", text, name, err, strings.Contains(a.body, text))
			}
		}
		results, err := f.engine.Push(t.Context(), []duly.Job{{Queue: text}, {Namespace: text, Queue: "q"}})
		if err == nil && (results[0].Err == nil || results[1].Err == nil) {
			t.Errorf("%q is the name of a queue or a namespace", text)
		}
	}
}
