package server

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/eventually"
	"github.com/dulymq/duly/server/webhook/guard"
	"github.com/dulymq/duly/server/webhook/target"
)

// receiver is an HTTP service that keeps what it gets.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	got    []received
	answer func(w http.ResponseWriter, r *http.Request)
}

type received struct {
	header http.Header
	path   string
	body   string
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	rc := &receiver{}
	rc.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		rc.mu.Lock()
		rc.got = append(rc.got, received{r.Header, r.URL.RequestURI(), string(body)})
		answer := rc.answer
		rc.mu.Unlock()
		if answer != nil {
			answer(w, r)
		}
	}))
	t.Cleanup(rc.Close)
	return rc
}

func (rc *receiver) requests() []received {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	return slices.Clone(rc.got)
}

// loopbackAllowed permits receivers on this machine.
var loopbackAllowed = guard.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}

// pushing starts a server that sends jobs, until the test ends.
func pushing(t *testing.T, change func(*Config)) *fixture {
	t.Helper()
	f := serve(t, func(c *Config) {
		c.Live.Push.Guard = loopbackAllowed
		c.Watcher = nil // the list of push queues is then read by the clock
		if change != nil {
			change(c)
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); f.Server.push.run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return f
}

// until lets time go by until a condition holds.
func (f *fixture) until(what string, holds func() bool) {
	f.t.Helper()
	eventually.True(f.t, what, func() bool {
		f.clock.Advance(200 * time.Millisecond)
		return holds()
	})
}

// C16.2, C16.13: a job with a callback makes a push queue, and the server sends it,
// signed with the secret of its namespace.
func TestAServerSendsJobs(t *testing.T) {
	t.Parallel()
	f, rc := pushing(t, nil), newReceiver(t)
	if a := f.send("POST", "/v1/default/queues/orders/jobs", `{"id":"o.1","body":"hello","callback":"`+rc.URL+`/hook?x=1"}`); a.status != 200 {
		t.Fatal(a)
	}
	f.until("the request", func() bool { return len(rc.requests()) == 1 })
	got := rc.requests()[0]
	if got.path != "/hook?x=1" || got.body != "hello" || got.header.Get("webhook-id") != "default/orders/o~1" || got.header.Get("duly-id") != "o.1" {
		t.Errorf("the receiver got %+v", got)
	}
	pair, err := f.Server.push.store.Secret(t.Context(), "default", "")
	if err != nil {
		t.Fatal(err)
	}
	library, err := standardwebhooks.NewWebhook(pair.V1.Reveal())
	if err == nil {
		err = library.VerifyIgnoringTimestamp([]byte(got.body), got.header)
	}
	if err != nil {
		t.Errorf("the signature: %v", err)
	}
	f.until("the ack", func() bool {
		_, err := f.engine.Get(t.Context(), duly.QueueRef{Namespace: "default", Name: "orders"}, "o.1")
		return err != nil
	})
}

// C16.24, C16.29, C16.30, C16.31: a push refuses a URL that may not be called, and names
// the rule. The other jobs of a batch are stored.
func TestAPushChecksURLs(t *testing.T) {
	t.Parallel()
	f := pushing(t, nil)
	for url, want := range map[string]string{
		"http://8.8.8.8/": "push.allow", "https://10.0.0.1/": "push.allow", "https://169.254.169.254/": "push.allow", "https://a.example:22/": "push.ports",
		"ftp://a.example/": "scheme", "https://u:p@a.example/": "user name",
	} {
		for _, field := range []string{"callback", "on_done", "on_dead"} {
			body := `{"callback":"https://a.example/","` + field + `":"` + url + `"}`
			if field == "callback" {
				body = `{"callback":"` + url + `"}`
			}
			a := f.send("POST", "/v1/default/queues/orders/jobs", body)
			if e := a.err(); a.status != 400 || e == nil || e.Code != duly.CodeInvalid || !strings.Contains(a.body, field) || !strings.Contains(a.body, want) {
				t.Errorf("%s as %s: %d %s", url, field, a.status, a.body)
			}
		}
		if a := f.send("PATCH", "/v1/default/queues/other", `{"delivery":"push","push_url":"`+url+`"}`); a.status != 400 || !strings.Contains(a.body, "push_url") {
			t.Errorf("%s as push_url: %d %s", url, a.status, a.body)
		}
	}

	a := f.send("POST", "/v1/default/push", `{"jobs":[{"queue":"later","id":"a","callback":"https://a.example/","delay":"1h"},{"queue":"later","id":"b","callback":"http://8.8.8.8/"},{"queue":"later","id":"c","callback":"target:crm","delay":"1h"}]}`)
	if a.status != 200 || strings.Count(a.body, `"created"`) != 2 || strings.Count(a.body, `"invalid"`) != 1 {
		t.Errorf("a batch: %d %s", a.status, a.body)
	}

	live := *f.live.Load()
	live.Push.TargetsOnly = true
	if err := f.Apply(t.Context(), live); err != nil {
		t.Fatal(err)
	}
	if a := f.send("POST", "/v1/default/queues/orders/jobs", `{"callback":"https://a.example/"}`); a.status != 403 || !strings.Contains(a.body, "push.urls") {
		t.Errorf("a URL where only targets are permitted: %d %s", a.status, a.body)
	}
	if a := f.send("POST", "/v1/default/queues/orders/jobs", `{"callback":"target:crm","delay":"1h"}`); a.status != 200 {
		t.Errorf("a target where only targets are permitted: %d %s", a.status, a.body)
	}
}

// C16.124: no job is sent to the server itself, although push.allow has its address.
func TestNoJobIsSentToTheServerItself(t *testing.T) {
	t.Parallel()
	f := pushing(t, nil)
	if err := f.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.unbind)
	for _, url := range []string{f.URL(), f.AdminURL()} {
		if a := f.send("POST", "/v1/default/queues/orders/jobs", `{"callback":"`+url+`/v1/default/push"}`); a.status != 400 || !strings.Contains(a.body, "this server itself") {
			t.Errorf("%s: %d %s", url, a.status, a.body)
		}
	}
}

// canary returns a text that nothing else contains.
func canary() string {
	var b [18]byte
	rand.Read(b[:])
	return "canary" + base64.RawURLEncoding.EncodeToString(b[:])
}

// C16.57, C16.78, C16.136: no secret, no header of a target, no path and no query of a URL
// is in the log, an error, a metric or an answer, however a try ends.
func TestCanaries(t *testing.T) {
	t.Parallel()
	f, rc := pushing(t, nil), newReceiver(t)
	header, path, query := canary(), canary(), canary()
	statuses := []int{200, 500, 404, 410, 429, 302}
	rc.answer = func(w http.ResponseWriter, r *http.Request) { // which echoes everything
		w.Header().Set("location", r.URL.String())
		w.WriteHeader(statuses[len(rc.requests())%len(statuses)])
		fmt.Fprintln(w, r.URL.String(), r.Header)
	}
	settings := target.Settings{URL: rc.URL + "/" + path + "?q=" + query, Headers: map[string]string{"authorization": "Bearer " + header}}
	for _, name := range []string{"a", "b", "c"} {
		if err := f.Server.push.store.Put(t.Context(), "default", name, settings, nil); err != nil {
			t.Fatal(err)
		}
	}
	own, err := f.Server.push.store.Rotate(t.Context(), "default", "a", nil, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	shared, err := f.Server.push.store.Secret(t.Context(), "default", "")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 18 {
		destination := fmt.Sprint("target:", string("abc"[i%3]))
		if i%2 == 0 {
			destination = settings.URL
		}
		if a := f.send("POST", "/v1/default/queues/orders/jobs", fmt.Sprintf(`{"id":"j%d","tries":1,"callback":"%s"}`, i, destination)); a.status != 200 {
			t.Fatal(a)
		}
	}
	f.until("every job is tried", func() bool { return len(rc.requests()) >= 18 })

	seen := map[string]string{"log": f.log.String()}
	_, values := f.scrape()
	for series := range values {
		seen["metrics"] += series + "\n"
	}
	for _, state := range []string{"dead", "delayed", "done"} {
		seen["errors of "+state+" jobs"] = lastErrors(f.send("GET", "/v1/default/queues/orders/jobs?state="+state, "").body)
	}
	for where, text := range seen {
		for what, secret := range map[string]string{"a header": header, "a path": path, "a query": query, "a secret": own.V1.Reveal(), "a private key": own.V1a.Reveal(), "the secret of the namespace": shared.V1.Reveal()} {
			if strings.Contains(text, secret) {
				t.Errorf("%s has %s", where, what)
			}
		}
	}
}

// lastErrors returns the error texts of an answer. Its callbacks may have paths.
func lastErrors(body string) (texts string) {
	for _, part := range strings.Split(body, `"last_error":"`)[1:] {
		text, _, _ := strings.Cut(part, `"`)
		texts += text + "\n"
	}
	return texts
}
