package server

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/eventually"
	"github.com/dulymq/duly/internal/model"
	"github.com/dulymq/duly/internal/proctest"
	"github.com/dulymq/duly/server/pools"
	"github.com/dulymq/duly/server/webhook/guard"
	"github.com/dulymq/duly/server/webhook/target"
)

// receiver is an HTTP service that records its requests.
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

// count returns the number of requests for a job.
func (rc *receiver) count(id string) (n int) {
	for _, r := range rc.requests() {
		if r.header.Get("duly-id") == id {
			n++
		}
	}
	return n
}

// loopbackAllowed permits destinations on this machine.
var loopbackAllowed = guard.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}

// pushing starts a server that sends jobs, until the test ends.
func pushing(t *testing.T, change func(*Config)) *fixture {
	t.Helper()
	f := serve(t, func(c *Config) {
		c.Settings.Push.Guard = loopbackAllowed
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

// until advances the clock until a condition holds.
func (f *fixture) until(what string, holds func() bool) {
	f.t.Helper()
	eventually.True(f.t, what, func() bool {
		f.clock.Advance(200 * time.Millisecond)
		return holds()
	})
}

// C16.2, C16.13: a job with a callback creates a push queue, and the server sends it, signed with
// the secret of its namespace.
func TestServerSendsJobs(t *testing.T) {
	t.Parallel()
	f, rc := pushing(t, nil), newReceiver(t)
	if a := f.send("POST", "/v1/default/queues/orders/jobs",
		`{"id":"o.1","body":"hello","callback":"`+rc.URL+`/hook?x=1"}`); a.status != 200 {
		t.Fatal(a)
	}
	f.until("the request", func() bool { return len(rc.requests()) == 1 })

	got := rc.requests()[0]
	if got.path != "/hook?x=1" || got.body != "hello" || got.header.Get("webhook-id") != "default/orders/o~1" ||
		got.header.Get("duly-id") != "o.1" {
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

// C16.24, C16.29, C16.30, C16.31: a push to a forbidden URL is refused, and the error has the rule
// that forbids it. The other jobs of a batch are stored.
func TestPushChecksURLs(t *testing.T) {
	t.Parallel()
	f := pushing(t, nil)
	for url, want := range map[string]string{
		"http://8.8.8.8/": "push.allow", "https://10.0.0.1/": "push.allow", "https://169.254.169.254/": "push.allow",
		"https://a.example:22/": "push.ports",
		"ftp://a.example/":      "scheme", "https://u:p@a.example/": "user name",
	} {
		for _, field := range []string{"callback", "on_done", "on_dead"} {
			body := `{"callback":"https://a.example/","` + field + `":"` + url + `"}`
			if field == "callback" {
				body = `{"callback":"` + url + `"}`
			}
			a := f.send("POST", "/v1/default/queues/orders/jobs", body)
			if e := a.err(); a.status != 400 || e == nil || e.Code != duly.CodeInvalid ||
				!strings.Contains(a.body, field) || !strings.Contains(a.body, want) {
				t.Errorf("%s as %s: %d %s", url, field, a.status, a.body)
			}
		}
		if a := f.send("PATCH", "/v1/default/queues/other",
			`{"delivery":"push","push_url":"`+url+`"}`); a.status != 400 || !strings.Contains(a.body, "push_url") {
			t.Errorf("%s as push_url: %d %s", url, a.status, a.body)
		}
	}

	a := f.send("POST", "/v1/default/push",
		`{"jobs":[{"queue":"later","id":"a","callback":"https://a.example/","delay":"1h"},`+
			`{"queue":"later","id":"b","callback":"http://8.8.8.8/"},`+
			`{"queue":"later","id":"c","callback":"target:crm","delay":"1h"}]}`)
	if a.status != 200 || strings.Count(a.body, `"created"`) != 2 || strings.Count(a.body, `"invalid"`) != 1 {
		t.Errorf("a batch: %d %s", a.status, a.body)
	}

	live := *f.settings.Load()
	live.Push.TargetsOnly = true
	if err := f.Apply(t.Context(), live); err != nil {
		t.Fatal(err)
	}
	if a := f.send("POST", "/v1/default/queues/orders/jobs", `{"callback":"https://a.example/"}`); a.status != 403 ||
		!strings.Contains(a.body, "push.urls") {
		t.Errorf("a URL where only targets are permitted: %d %s", a.status, a.body)
	}
	if a := f.send("POST", "/v1/default/queues/orders/jobs",
		`{"callback":"target:crm","delay":"1h"}`); a.status != 200 {
		t.Errorf("a target where only targets are permitted: %d %s", a.status, a.body)
	}
}

// C16.124: no job is sent to the server's own address, even if push.allow contains it.
func TestNoJobIsSentToTheServerItself(t *testing.T) {
	t.Parallel()
	f := pushing(t, func(c *Config) { c.Listen.Addr, c.Listen.AdminAddr = "127.0.0.1:0", "127.0.0.1:0" })
	if err := f.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.unbind)
	for _, url := range []string{f.URL(), f.AdminURL()} {
		if a := f.send("POST", "/v1/default/queues/orders/jobs",
			`{"callback":"`+url+`/v1/default/push"}`); a.status != 400 ||
			!strings.Contains(a.body, "this server itself") {
			t.Errorf("%s: %d %s", url, a.status, a.body)
		}
	}
}

// canary returns a unique text.
func canary() string {
	var b [18]byte
	rand.Read(b[:])
	return "canary" + base64.RawURLEncoding.EncodeToString(b[:])
}

// C16.57, C16.78, C16.136: for any end of a try, the log, errors, metrics and answers have no
// secret, no header of a target, and no path or query of a URL.
func TestNoOutputHasSecretsOfATarget(t *testing.T) {
	t.Parallel()
	f, rc := pushing(t, nil), newReceiver(t)
	header, path, query := canary(), canary(), canary()
	// Each job gets a different answer. 410 answers a URL, because it would disable a target. 429
	// comes only once, because it closes the gate of all jobs to the host.
	statuses := []int{200, 500, 410, 404, 429, 302}
	rc.answer = func(w http.ResponseWriter, r *http.Request) { // the receiver sends the request back
		id := r.Header.Get("duly-id")
		n, _ := strconv.Atoi(strings.TrimPrefix(id, "j"))
		status := statuses[n%len(statuses)]
		if status == http.StatusTooManyRequests && rc.count(id) > 1 {
			status = http.StatusOK
		}
		w.Header().Set("location", r.URL.String())
		w.WriteHeader(status)
		fmt.Fprintln(w, r.URL.String(), r.Header)
	}
	settings := target.Settings{URL: rc.URL + "/" + path + "?q=" + query,
		Headers: map[string]string{"authorization": "Bearer " + header}}
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
		if a := f.send("POST", "/v1/default/queues/orders/jobs",
			fmt.Sprintf(`{"id":"j%d","tries":1,"callback":"%s"}`, i, destination)); a.status != 200 {
			t.Fatal(a)
		}
	}
	f.until("every job is tried", func() bool {
		for i := range 18 {
			if rc.count(fmt.Sprint("j", i)) == 0 {
				return false
			}
		}
		return true
	})

	seen := map[string]string{"log": f.log.String()}
	_, values := f.scrape()
	for series := range values {
		seen["metrics"] += series + "\n"
	}
	for _, state := range []string{"dead", "delayed", "done"} {
		seen["errors of "+state+" jobs"] = lastErrors(f.send("GET", "/v1/default/queues/orders/jobs?state="+state,
			"").body)
	}
	for where, text := range seen {
		for what, secret := range map[string]string{"a header": header, "a path": path, "a query": query,
			"a secret": own.V1.Reveal(), "a private key": own.V1a.Reveal(),
			"the secret of the namespace": shared.V1.Reveal()} {
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

// C16.21, C16.23, C16.58, C16.137 to C16.144 (C16.142): the life of a target by its routes.
func TestRoutesManageATarget(t *testing.T) {
	t.Parallel()
	f, rc := pushing(t, nil), newReceiver(t)
	const crm = "/v1/default/push/targets/crm"
	expect := func(status int, method, path, body string, has ...string) string {
		t.Helper()
		a := f.send(method, path, body)
		if a.status != status {
			t.Errorf("%s %s: %d %s, want %d", method, path, a.status, a.body, status)
		}
		for _, text := range has {
			if !strings.Contains(a.body, text) {
				t.Errorf("%s %s is answered without %s: %s", method, path, text, a.body)
			}
		}
		return a.body
	}

	expect(404, "GET", crm, "")
	expect(404, "POST", crm+"/test", "")
	expect(400, "PUT", crm, `{"url":"ftp://x","timeout":"1ms"}`, "url", "timeout")
	expect(204, "PUT", crm, `{"url":"`+rc.URL+
		`/hook","headers":{"authorization":"Bearer canary"},"concurrency":20,"permanent":[404]}`)
	shown := expect(200, "GET", crm, "", `"name":"crm"`, `"concurrency":20`, `"header_names":["authorization"]`,
		`"own_secret":false`, `"enabled":true`, `"timeout":"10s"`)
	if list := expect(200, "GET", "/v1/default/push/targets", "", `"crm"`); strings.Contains(shown+list, "canary") {
		t.Errorf("a target is shown with the value of a header: %s %s", shown, list)
	}

	expect(200, "POST", crm+"/test", "", `"status":200`, `"as":"ack"`)
	if got := rc.requests(); len(got) != 1 || got[0].header.Get("authorization") != "Bearer canary" ||
		!strings.Contains(got[0].body, "duly.test") {
		t.Errorf("the receiver got %+v", got)
	}
	expect(204, "POST", crm+"/disable", "")
	expect(200, "GET", crm, "", `"enabled":false`)
	expect(200, "POST", crm+"/test", "", `"as":"ack"`)
	expect(204, "POST", crm+"/enable", "")

	before := expect(200, "GET", crm+"/secret", "", "whsec_", "whsk_", "whpk_")
	if before != expect(200, "GET", "/v1/default/push/secret", "") {
		t.Error("a target without a secret does not show that of its namespace")
	}
	expect(204, "POST", crm+"/rotate",
		`{"overlap":"1h","secret":"whsec_`+base64.StdEncoding.EncodeToString(make([]byte, 32))+`"}`)
	expect(200, "GET", crm+"/secret", "", "whsec_AAAA")
	expect(200, "GET", crm, "", `"own_secret":true`)
	expect(400, "POST", crm+"/rotate", `{"overlap":"31d"}`, "overlap")
	expect(400, "POST", crm+"/rotate", `{"secret":"whsec_short"}`)
	expect(204, "POST", "/v1/default/push/secret/rotate", `{"overlap":"0s"}`)
	if expect(200, "GET", "/v1/default/push/secret", "") == before {
		t.Error("a rotation leaves the secret of the namespace as it is")
	}
	if n := strings.Count(f.log.String(), "a secret was shown"); n != 4 {
		t.Errorf("the log has %d of 4 uses of the route", n)
	}

	expect(200, "POST", "/v1/default/queues/orders/jobs", `{"callback":"target:crm"}`)
	f.until("the job", func() bool { return len(rc.requests()) == 3 })
	expect(200, "GET", "/v1/default/push/hosts", "", `"host":"`+rc.URL+`"`, `"limit":`)
	expect(200, "GET", crm, "", `"host":{`)
	if a := f.send("GET", "/v1/other/push/hosts", "", "foreign"); a.status == 200 && strings.Contains(a.body, rc.URL) {
		t.Errorf("another namespace sees the hosts: %s", a.body)
	}
	expect(204, "DELETE", crm, "")
	expect(404, "DELETE", crm, "")
}

// C16.15, C16.16, C16.17: another server sends jobs of a new push queue within 2 s, and each job is
// sent by only one server.
func TestOtherServerSendsJobsOfNewQueue(t *testing.T) {
	t.Parallel()
	rc := newReceiver(t)
	first := pushing(t, func(c *Config) { c.Push.Off = true })
	second := pushing(t, func(c *Config) {
		c.Engine, c.Store.Registry, c.Store.Targeter, c.Store.Watcher, c.Push.Keys = first.engine, first.engine,
			first.engine, first.engine, first.cfg.Push.Keys
		c.Store.Maintainer, c.Store.Limiter, c.Clock = first.engine, first.engine, first.clock
	})

	second.clock = first.clock
	if a := first.send("POST", "/v1/default/queues/orders/jobs", `{"callback":"`+rc.URL+`"}`); a.status != 200 {
		t.Fatal(a)
	}
	eventually.True(t, "the request, without a step of the clock", func() bool { return len(rc.requests()) == 1 })
	if a := first.send("GET", "/v1/default/push/hosts", ""); a.body != `{"hosts":[]}` {
		t.Errorf("a server that sends nothing has the hosts %s", a.body)
	}
	if a := second.send("GET", "/v1/default/push/hosts", ""); !strings.Contains(a.body, rc.URL) {
		t.Errorf("the server that sends has the hosts %s", a.body)
	}
}

// C16.16, C16.63, C16.108, C16.109: a target answers 410 and is disabled while many jobs wait. The
// target gets no requests, even while its namespace moves to another pool. After it is enabled,
// every job arrives, and none stays in the old pool.
func TestDisabledTargetGetsItsJobsLater(t *testing.T) {
	t.Parallel()
	jobs := 200
	if proctest.Long() {
		jobs = 10_000
	}
	rc := newReceiver(t)
	rc.answer = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) }
	var old *model.Engine
	f := pushing(t, func(c *Config) {
		old = model.New(model.Config{Clock: c.Clock})
		in, err := pools.New(pools.Config{Clock: c.Clock, Logger: slog.New(slog.DiscardHandler),
			Engines: map[string]pools.Engine{
				contract.DefaultPool: {Open: c.Engine}, "old": {Open: old},
			}})
		if err != nil {
			t.Fatal(err)
		}
		*c = Config{Pools: in, Clock: c.Clock, Logger: c.Logger, Settings: c.Settings, Push: c.Push}
	})
	send := func(status int, method, path, body string) string {
		t.Helper()
		a := f.send(method, path, body, "shop")
		if a.status != status {
			t.Fatalf("%s %s: %d %s, want %d", method, path, a.status, a.body, status)
		}
		return a.body
	}
	// On a busy machine the fake clock would pass the end of a shorter lease while a request runs.
	push := func(from, to int) {
		for i := from; i < to; i++ {
			send(200, "POST", "/v1/shop/queues/orders/jobs", fmt.Sprintf(`{"id":"j%d","callback":"target:crm","lease":"10h"}`, i))
		}
	}
	if a := f.token("shop", "?pool=old", `{"namespace":"shop","rights":["admin"]}`); a.status != 201 {
		t.Fatal(a)
	}
	send(204, "PUT", "/v1/shop/push/targets/crm", `{"url":"`+rc.URL+`"}`)
	push(0, 1)
	f.until("the target is disabled", func() bool {
		return strings.Contains(send(200, "GET", "/v1/shop/push/targets/crm", ""), `"enabled":false`)
	})
	before := len(rc.requests())

	push(1, jobs/2)
	running, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); f.cfg.Pools.Run(running) }()
	t.Cleanup(func() { stop(); <-done })
	if a := f.send("POST", "/admin/moves", `{"namespace":"shop","to":"default"}`); a.status != 202 {
		t.Fatal(a)
	}
	f.until("new jobs go to the other pool", func() bool {
		return strings.Contains(f.send("GET", "/admin/moves?namespace=shop", "").body, `"phase":"drain"`)
	})
	push(jobs/2, jobs)
	for range 100 {
		f.clock.Advance(10 * time.Second)
	}
	if n := len(rc.requests()); n != before {
		t.Fatalf("a disabled target got %d requests", n-before)
	}

	rc.mu.Lock()
	rc.answer = nil
	rc.mu.Unlock()
	send(204, "POST", "/v1/shop/push/targets/crm/enable", "")
	f.until("every job", func() bool { return len(rc.requests()) >= before+jobs })
	f.until("the end of the move", func() bool { return f.send("GET", "/admin/moves", "").body == `{"moves":[]}` })
	got := map[string]int{}
	for _, r := range rc.requests()[before:] {
		got[r.header.Get("duly-id")]++
	}
	if len(got) != jobs || len(rc.requests()) != before+jobs {
		t.Errorf("%d of %d jobs arrived, with %d requests", len(got), jobs, len(rc.requests())-before)
	}
	if queues, err := old.Queues(t.Context(), "shop", duly.PageParams{}); err != nil || len(queues.Names) != 0 {
		t.Errorf("left behind are %v, %v", queues.Names, err)
	}
}

// C16.13, C16.57: a server without HTTP push answers unsupported.
func TestServerWithoutPushReturnsUnsupported(t *testing.T) {
	t.Parallel()
	f := serve(t, func(c *Config) { c.Push = nil })
	for _, path := range []string{"/v1/default/push/targets", "/v1/default/push/hosts", "/v1/default/push/secret"} {
		if a := f.send("GET", path, ""); a.err() == nil || a.err().Code != duly.CodeUnsupported {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	if _, err := New(Config{Engine: f.engine, Store: Store{Registry: f.engine}, Push: &PushConfig{}}); err == nil ||
		!strings.Contains(err.Error(), "push.keys") {
		t.Errorf("a server without keys: %v", err)
	}
}

// C16.16: the server sends the jobs of every pool, even of a queue that is created later.
func TestServerSendsJobsOfAllPools(t *testing.T) {
	t.Parallel()
	rc := newReceiver(t)
	var orders *model.Engine

	f := pushing(t, func(c *Config) {
		orders = model.New(model.Config{Clock: c.Clock})
		in, err := pools.New(pools.Config{Clock: c.Clock, Logger: slog.New(slog.DiscardHandler),
			Engines: map[string]pools.Engine{
				contract.DefaultPool: {Open: c.Engine}, "orders": {Open: orders},
			}})
		if err != nil {
			t.Fatal(err)
		}
		*c = Config{Pools: in, Clock: c.Clock, Logger: c.Logger, Settings: c.Settings, Push: c.Push}
	})

	if a := f.token("shop", "?pool=orders", `{"namespace":"shop","rights":["admin"]}`); a.status != 201 {
		t.Fatal(a)
	}
	for i, queue := range []string{"/v1/default/queues/a", "/v1/shop/queues/b", "/v1/shop/queues/c"} {
		if a := f.send("POST", queue+"/jobs", `{"callback":"`+rc.URL+`"}`); a.status != 200 {
			t.Fatal(a)
		}
		f.until("the request", func() bool { return len(rc.requests()) == i+1 })
	}

	if _, err := orders.FindTarget(t.Context(), "shop", ""); !errors.Is(err, duly.ErrNotFound) {
		t.Errorf("the secret of a namespace is not in the default pool alone: %v", err)
	}
}
