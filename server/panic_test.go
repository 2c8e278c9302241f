package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/lmstfy"
	"github.com/dulymq/duly/server/route"
)

// failing is an engine whose calls all run the same function.
type failing struct {
	contract.Engine
	fail func() error
}

func (e *failing) Push(context.Context, []duly.Job) ([]duly.PushResult, error) { return nil, e.fail() }
func (e *failing) Reserve(context.Context, duly.ReserveParams) ([]duly.Delivery, error) {
	return nil, e.fail()
}
func (e *failing) Wait(context.Context, duly.WaitParams) (bool, error) { return false, e.fail() }
func (e *failing) Settle(context.Context, string, []duly.SettleRequest) ([]error, error) {
	return nil, e.fail()
}
func (e *failing) Extend(context.Context, string, []duly.Receipt, time.Duration) ([]error, error) {
	return nil, e.fail()
}
func (e *failing) Get(context.Context, duly.QueueRef, string) (duly.JobInfo, error) {
	return duly.JobInfo{}, e.fail()
}
func (e *failing) Explain(context.Context, duly.QueueRef, string) (contract.Explanation, error) {
	return contract.Explanation{}, e.fail()
}
func (e *failing) GetByReceipt(context.Context, string, duly.Receipt) (duly.JobInfo, error) {
	return duly.JobInfo{}, e.fail()
}
func (e *failing) Peek(context.Context, duly.QueueRef) (duly.JobInfo, error) {
	return duly.JobInfo{}, e.fail()
}
func (e *failing) List(context.Context, duly.QueueRef, duly.ListParams) (duly.ListPage, error) {
	return duly.ListPage{}, e.fail()
}
func (e *failing) Keys(context.Context, duly.QueueRef, contract.KeysParams) (contract.KeyPage, error) {
	return contract.KeyPage{}, e.fail()
}
func (e *failing) Holder(context.Context, duly.QueueRef, string) (contract.KeyInfo, error) {
	return contract.KeyInfo{}, e.fail()
}
func (e *failing) Queues(context.Context, string, duly.PageParams) (duly.NamePage, error) {
	return duly.NamePage{}, e.fail()
}
func (e *failing) Stats(context.Context, duly.QueueRef) (duly.Stats, error) {
	return duly.Stats{}, e.fail()
}
func (e *failing) Config(context.Context, duly.QueueRef) (duly.QueueConfig, error) {
	return duly.QueueConfig{}, e.fail()
}
func (e *failing) Delete(context.Context, duly.QueueRef, string) error { return e.fail() }
func (e *failing) GetJobs(context.Context, duly.QueueRef, []string, bool) ([]contract.JobResult, error) {
	return nil, e.fail()
}
func (e *failing) PromoteJobs(context.Context, duly.QueueRef, []string) ([]error, error) {
	return nil, e.fail()
}
func (e *failing) DeleteJobs(context.Context, duly.QueueRef, []string, duly.State) ([]error, error) {
	return nil, e.fail()
}
func (e *failing) Update(context.Context, duly.QueueRef, string, duly.Update) error {
	return e.fail()
}
func (e *failing) Promote(context.Context, duly.QueueRef, string) error { return e.fail() }
func (e *failing) Requeue(context.Context, duly.QueueRef, duly.RequeueParams) ([]duly.RequeueResult, error) {
	return nil, e.fail()
}
func (e *failing) Purge(context.Context, duly.QueueRef, duly.State, int) (int, error) {
	return 0, e.fail()
}
func (e *failing) Configure(context.Context, duly.QueueRef, duly.QueueConfig) error { return e.fail() }
func (e *failing) Pause(context.Context, duly.QueueRef) error                       { return e.fail() }
func (e *failing) Resume(context.Context, duly.QueueRef) error                      { return e.fail() }
func (e *failing) Destroy(context.Context, duly.QueueRef) error                     { return e.fail() }
func (e *failing) WatchCancels(context.Context, string, contract.CancelWatch) error { return e.fail() }

func (e *failing) Publish(context.Context, []duly.Message) ([]duly.PublishResult, error) {
	return nil, e.fail()
}
func (e *failing) Read(context.Context, duly.QueueRef, contract.ReadParams) (contract.ReadPage, error) {
	return contract.ReadPage{}, e.fail()
}
func (e *failing) Delayed(context.Context, duly.QueueRef, contract.DelayedParams) (contract.DelayedPage, error) {
	return contract.DelayedPage{}, e.fail()
}
func (e *failing) DelayedMessage(context.Context, duly.QueueRef, string, string) (duly.Message, error) {
	return duly.Message{}, e.fail()
}
func (e *failing) CancelDelayed(context.Context, duly.QueueRef, string, string) error {
	return e.fail()
}
func (e *failing) Topics(context.Context, string, duly.PageParams) (duly.NamePage, error) {
	return duly.NamePage{}, e.fail()
}
func (e *failing) Topic(context.Context, duly.QueueRef) (duly.TopicInfo, error) {
	return duly.TopicInfo{}, e.fail()
}
func (e *failing) ConfigureTopic(context.Context, duly.QueueRef, duly.TopicConfig) error {
	return e.fail()
}
func (e *failing) DestroyTopic(context.Context, duly.QueueRef) error { return e.fail() }
func (e *failing) Groups(context.Context, duly.QueueRef, duly.PageParams) (duly.NamePage, error) {
	return duly.NamePage{}, e.fail()
}
func (e *failing) CreateGroup(context.Context, duly.QueueRef, duly.From) (bool, error) {
	return false, e.fail()
}
func (e *failing) Seek(context.Context, duly.QueueRef, duly.From) (contract.SeekResult, error) {
	return contract.SeekResult{}, e.fail()
}

func (e *failing) PutSchedule(context.Context, duly.QueueRef, duly.Schedule) (duly.SchedulePut, error) {
	return duly.SchedulePut{}, e.fail()
}
func (e *failing) GetSchedule(context.Context, duly.QueueRef, string) (duly.ScheduleInfo, error) {
	return duly.ScheduleInfo{}, e.fail()
}
func (e *failing) Schedules(context.Context, duly.QueueRef, duly.PageParams) (duly.SchedulePage, error) {
	return duly.SchedulePage{}, e.fail()
}
func (e *failing) DeleteSchedule(context.Context, duly.QueueRef, string, int64) error {
	return e.fail()
}
func (e *failing) PauseSchedule(context.Context, duly.QueueRef, string) error  { return e.fail() }
func (e *failing) ResumeSchedule(context.Context, duly.QueueRef, string) error { return e.fail() }

// failingTargets is a store of targets whose calls all run the same function.
type failingTargets struct {
	contract.Targeter
	fail func() error
}

func (r *failingTargets) PutTarget(context.Context, contract.Target) error { return r.fail() }
func (r *failingTargets) FindTarget(context.Context, string, string) (contract.Target, error) {
	return contract.Target{}, r.fail()
}
func (r *failingTargets) Targets(context.Context, string, duly.PageParams) (contract.TargetPage, error) {
	return contract.TargetPage{}, r.fail()
}
func (r *failingTargets) DeleteTarget(context.Context, string, string) error { return r.fail() }

// failWith makes all calls to the store of a server fail, except those that read tokens.
func failWith(c *Config, fail func() error) {
	c.Engine = &failing{c.Engine, fail}
	c.Store.Targeter = &failingTargets{c.Store.Targeter, fail}
}

// storeRoutes returns the native routes that use the store: all except the route of the hosts.
func storeRoutes(f *fixture) []route.Route {
	return slices.DeleteFunc(nativeRoutes(f),
		func(r route.Route) bool {
			return strings.HasSuffix(r.Path, "/push/hosts") || strings.Contains(r.Path, "/operations")
		})
}

func nativeRoutes(f *fixture) (routes []route.Route) {
	for _, r := range f.apiRoutes {
		if strings.HasPrefix(r.Path, "/v1/") {
			routes = append(routes, r)
		}
	}
	return routes
}

// Fault R8, C13.16: a panic in any route is answered 500 internal, without details, and the process
// survives.
func TestPanicInAnyRouteIs500(t *testing.T) {
	t.Parallel()
	f := serve(t, func(c *Config) {
		failWith(c, func() error { panic("CANARY at 10.0.0.1\n\x1b[31mred") })
	})
	routes := storeRoutes(f)

	for _, r := range routes {
		a := f.send(r.Method, pathOf(r, "default")+r.Doc.ExampleQuery, r.Doc.Example)
		if a.status != 500 || a.err().Code != duly.CodeInternal || strings.Contains(a.body, "CANARY") ||
			strings.Contains(a.body, ".go") {
			t.Errorf("%s %s: %d %s", r.Method, r.Path, a.status, a.body)
		}
	}

	// The watch of removed jobs panics outside its route, for all callers.
	if n := strings.Count(f.log.String(), `"panic in `); n != len(routes) {
		t.Errorf("%d of %d panics are in the log", n, len(routes))
	}
	if a := f.send("GET", "/healthz", ""); a.status != 200 {
		t.Errorf("healthz: %d", a.status)
	}
}

// Fault R8: after a panic in any route the server continues. The routes are those of both APIs, both
// addresses, health and documents. Each panic is counted once.
func TestServerContinuesAfterAPanicInAnyRoute(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	compatible := lmstfy.New(f.engine, nil, nil, f.guard, f.clock)
	routes := slices.Concat(f.apiRoutes, f.adminRoutes, compatible.Routes(), f.lmstfyAdmin(nil).Routes())
	if len(routes) < 55 {
		t.Errorf("%d routes; are they all here?", len(routes))
	}

	for i, r := range routes {
		r.Handler = func(*route.Call) error { panic("CANARY at 10.0.0.1") }
		req := httptest.NewRequest(r.Method, "http://127.0.0.1:7778/x", nil)
		req.RemoteAddr = "127.0.0.1:5"
		req.Header.Set("Authorization", "Bearer "+f.tokens["operator"])
		req.Header.Set("X-Token", f.tokens["operator"])
		for _, name := range []string{"namespace", "queue", "id", "profile"} {
			req.SetPathValue(name, "default")
		}
		w := httptest.NewRecorder()
		f.router.Handle(&r).ServeHTTP(w, req)
		if w.Code != 500 || strings.Contains(w.Body.String(), "CANARY") ||
			strings.Contains(w.Body.String(), "10.0.0.1") {
			t.Errorf("%s %s: %d %s", r.Method, r.Path, w.Code, w.Body)
		}
		if n := f.router.Panics.Load(); n != int64(i+1) {
			t.Errorf("%s %s: %d panics are counted after %d", r.Method, r.Path, n, i+1)
		}
	}

	if a := f.send("GET", "/healthz", ""); a.status != 200 {
		t.Errorf("healthz: %d", a.status)
	}
}

// C13.1–C13.16, fault X20: each code has its status in the answer. An internal error has no details.
func TestEveryErrorOfAnEngineHasItsStatus(t *testing.T) {
	t.Parallel()
	var current error
	f := serve(t, func(c *Config) { failWith(c, func() error { return current }) })
	secret := errors.New("SELECT CANARY FROM /var/lib/duly at 10.0.0.1:5432")

	for _, code := range duly.Codes() {
		current = &duly.Error{Code: code, Message: "m", State: duly.StateDead, RetryAfter: 1500 * time.Millisecond,
			Cause: secret}
		for _, r := range storeRoutes(f) {
			a := f.send(r.Method, pathOf(r, "default")+r.Doc.ExampleQuery, r.Doc.Example)
			if a.status != code.HTTPStatus() || a.err().Code != code || strings.Contains(a.body, "CANARY") {
				t.Errorf("%s %s with %s: %d %s", r.Method, r.Path, code, a.status, a.body)
			}
			if code == duly.CodeLimited && a.header.Get("Retry-After") != "2" {
				t.Errorf("limited, retry after %q", a.header.Get("Retry-After"))
			}
		}
	}

	for _, current = range []error{secret, fmt.Errorf("wrapped: %w", secret), context.DeadlineExceeded} {
		a := f.send("POST", "/v1/default/push", `{"jobs":[{"queue":"q"}]}`)
		if a.status < 500 || strings.Contains(a.body, "CANARY") {
			t.Errorf("%v: %d %s", current, a.status, a.body)
		}
	}
}

// Fault X14: for any request, each log line is one line of JSON without control characters, bodies and
// secrets.
func TestOneEventIsOneLineOfTheLog(t *testing.T) {
	t.Parallel()
	f := serve(t, func(c *Config) {
		c.Engine = &failing{c.Engine, func() error { panic("a\nb\x1b[31m\u2028c\"d\u0085") }}
	})

	for _, path := range []string{"/v1/a%0Ab/push", "/v1/%1b[31mred/push", "/v1/%22%e2%80%a8/push", "/v1/%C2%85/push",
		"/x%0d%0aSet-Cookie:x"} {
		a := f.send("POST", path, `{"jobs":[{"queue":"q","body":"CANARY"}]}`)
		if a.header.Get("Set-Cookie") != "" {
			t.Errorf("%s splits the answer", path)
		}
	}

	f.raw(t, "GET\x1b /x HTTP/1.1\r\nHost: x\r\n\r\n")
	for line := range strings.Lines(f.log.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("not JSON: %q", line)
		}
		for _, r := range strings.TrimSuffix(line, "\n") {
			if r < 0x20 || r >= 0x7f && r < 0xa0 || r == 0x2028 || r == 0x2029 {
				t.Errorf("control character %q in %q", r, line)
			}
		}
	}

	for name, token := range f.tokens {
		if token != "" && strings.Contains(f.log.String(), token) {
			t.Errorf("the token %s is in the log", name)
		}
	}
	if strings.Contains(f.log.String(), "CANARY") {
		t.Error("a body is in the log")
	}
}

// Fault X17: a request that only reads changes nothing in the store.
func TestReadingChangesNothing(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	f.push("q", "x")
	before, _ := f.engine.Stats(t.Context(), duly.Q("q"))
	for _, r := range append(f.apiRoutes, f.adminRoutes...) {
		if r.Method == "GET" {
			for _, method := range []string{"GET", "HEAD"} {
				f.send(method, pathOf(r, "default")+r.Doc.ExampleQuery, "")
				f.send(method, pathOf(r, "nowhere")+r.Doc.ExampleQuery, "")
			}
		}
	}
	after, _ := f.engine.Stats(t.Context(), duly.Q("q"))
	names, err := f.engine.Namespaces(t.Context(), duly.PageParams{})
	if err != nil || before != after || len(names.Names) != 1 {
		t.Errorf("before %+v, after %+v, namespaces %v, %v", before, after, names.Names, err)
	}
}

// C14.34: the health routes need no token on both addresses, and readyz reports the state.
func TestHealthNeedsNoTokenOnBothAddresses(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)

	for _, ts := range []*httptest.Server{f.api, f.admin} {
		for _, path := range []string{"/healthz", "/readyz"} {
			req, _ := http.NewRequest("GET", ts.URL+path, nil)
			if a := f.do(req); a.status != 200 || a.body != `{"status":"ok"}` {
				t.Errorf("%s: %d %s", path, a.status, a.body)
			}
		}
	}

	f.engine.Close()
	if a := f.send("GET", "/readyz", "", "none"); a.status != 503 {
		t.Errorf("readyz with a closed engine: %d", a.status)
	}
	if text := f.log.String(); !strings.Contains(text, `"the engine is not ready"`) ||
		!strings.Contains(text, `"error":"`+duly.ErrClosed.Error()) {
		t.Errorf("the log does not say why it is not ready: %s", text)
	}
	if a := f.send("GET", "/healthz", "", "none"); a.status != 200 {
		t.Errorf("healthz with a closed engine: %d", a.status)
	}
	g := serve(t, nil)
	g.drain()
	if a := g.send("GET", "/readyz", "", "none"); a.status != 503 {
		t.Errorf("readyz while draining: %d", a.status)
	}
}

// crammed is an engine with an error of Accepts, for instance of a full disk.
type crammed struct{ err error }

// Accepts implements contract.Accepter.
func (c *crammed) Accepts(context.Context) error { return c.err }

// C9.12: a server with a full disk stays ready, for its workers, and reports the full disk.
func TestReadyzReportsAFullDisk(t *testing.T) {
	t.Parallel()
	store := &crammed{}
	f := serve(t, func(c *Config) { c.Store.Accepter = store })
	ready := func(want string) {
		t.Helper()
		if a := f.send("GET", "/readyz", "", "none"); a.status != 200 || a.body != want {
			t.Errorf("readyz: %d %s, want %s", a.status, a.body, want)
		}
	}
	ready(healthy)
	store.err = duly.ErrFull
	ready(`{"status":"degraded","full":["default"]}`)
	store.err = nil
	ready(healthy)
}

// forgetful is an engine that reports that its store was reset.
type forgetful struct{ at time.Time }

// LastReset implements contract.Resetter.
func (f *forgetful) LastReset() contract.Reset {
	return contract.Reset{At: f.at, Queues: []duly.QueueRef{{Namespace: "shop", Name: "secret"}}}
}

// Fault F10: a server whose store was reset is not ready for a minute. The answer has no details of the
// loss.
func TestReadyzIsRedAfterAReset(t *testing.T) {
	t.Parallel()
	store := &forgetful{}
	f := serve(t, func(c *Config) { c.Store.Resetter = store })

	ready := func(want int, why string) answer {
		t.Helper()
		a := f.send("GET", "/readyz", "", "none")
		if a.status != want {
			t.Errorf("readyz %s: %d %s", why, a.status, a.body)
		}
		return a
	}

	ready(200, "before")
	store.at = f.clock.Now()
	if a := ready(503, "after it"); !strings.Contains(a.body, "reset") || strings.Contains(a.body, "secret") {
		t.Errorf("readyz says %s", a.body)
	}
	if !strings.Contains(f.log.String(), "secret") {
		t.Error("the log does not name what was lost")
	}
	f.clock.Advance(time.Minute - 1)
	ready(503, "a minute later")
	f.clock.Advance(1)
	ready(200, "after that")
}
