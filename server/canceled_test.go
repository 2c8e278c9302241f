package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/server/cancelfeed"
)

// canceledPath is the path of the route for removed jobs in the namespace default.
const canceledPath = "/v1/default/canceled"

// poll sends one request to the route for removed jobs.
func (f *fixture) poll(path string, ask wire.CanceledAsk, caller ...string) wire.Canceled {
	f.t.Helper()
	a := f.send("POST", path, string(wire.CanceledAskForm.Append(nil, ask)), caller...)
	answer, err := wire.CanceledForm.ReadAnswer(a.body)
	if a.status != 200 || err != nil {
		f.t.Fatalf("%s: %d %s, %v", path, a.status, a.body, err)
	}
	return answer
}

// follow polls until the feed has started, and returns the cursor.
func (f *fixture) follow(path string, caller ...string) string {
	f.t.Helper()
	first := f.poll(path, wire.CanceledAsk{Wait: time.Minute}, caller...)
	if !first.Any || first.Cursor == "" {
		f.t.Fatalf("a new caller is answered %+v, want any and a cursor", first)
	}
	return first.Cursor
}

// C14.47: polls get the jobs that were deleted, purged or destroyed through the server.
func TestRemovedJobsAreReportedToPolls(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	at := f.follow(canceledPath, "consume")
	f.send("POST", "/v1/default/push", `{"jobs":[{"queue":"q","id":"a"},{"queue":"q","id":"b"}]}`)
	f.send("POST", "/v1/default/reserve", `{"queues":["q"],"max":2}`)

	for _, removal := range []struct{ method, path, body, want string }{
		{"DELETE", "/v1/default/queues/q/jobs/a", "", `[{"queue":"q","ids":["a"]}]`},
		{"POST", "/v1/default/queues/q/purge", `{"state":"leased"}`, `[{"queue":"q"}]`},
		{"DELETE", "/v1/default/queues/q", "", `[{"queue":"q"}]`},
	} {
		if a := f.send(removal.method, removal.path, removal.body); a.status/100 != 2 {
			t.Fatalf("%s %s: %d %s", removal.method, removal.path, a.status, a.body)
		}
		a := f.send("POST", canceledPath, fmt.Sprintf(`{"after":%q,"wait":"1m"}`, at), "consume")
		answer, err := wire.CanceledForm.ReadAnswer(a.body)
		if want := `{"canceled":` + removal.want + `,"any":false,`; err != nil || !strings.HasPrefix(a.body, want) {
			t.Errorf("after %s %s: %s, want %s", removal.method, removal.path, a.body, want)
		}
		at = answer.Cursor
	}
}

// C14.47: the error of a bad field has its name, its bound and the fix.
func TestBadFieldOfCanceledIsNamed(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)

	for body, want := range map[string]string{
		`{"after":1}`:               "needs a string for after",
		`{"wait":"11m"}`:            "wait is 11m, must be between 0s and 10m",
		`{"wait":"-1s"}`:            "wait",
		`{"wait":5}`:                "needs a string for wait",
		`{"queues":["q"]}`:          "queues",
		`{"after":"a","after":"b"}`: "after",
		`["a"]`:                     "needs an object",
		`{"after":"` + strings.Repeat("x", 513) + `"}`: "after has 513 bytes, may have at most 512",
	} {
		a := f.send("POST", canceledPath, body)
		if a.status != 400 || a.err().Code != duly.CodeInvalid || !strings.Contains(a.body, want) {
			t.Errorf("%.40s: %d %s, want %s", body, a.status, a.body, want)
		}
	}

	if a := f.send("POST", "/v1/a%20b/canceled", `{}`); a.status != 400 || !strings.Contains(a.body, "namespace") {
		t.Errorf("a bad namespace: %d %s", a.status, a.body)
	}
	if a := f.send("POST", canceledPath, strings.Repeat(" ", 70<<10)); a.status != 413 {
		t.Errorf("a long body: %d %s", a.status, a.body)
	}
}

// Fault X1, C14.47: a token gets only the reports of its own namespace, with any cursor.
func TestTokenGetsOnlyReportsOfItsNamespace(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	for _, caller := range []string{"none", "unknown", "revoked", "produce", "foreign"} {
		if a := f.send("POST", canceledPath, `{}`, caller); a.status != 401 && a.status != 403 {
			t.Errorf("%s: %d %s", caller, a.status, a.body)
		}
	}

	const otherPath = "/v1/other/canceled"
	mine, theirs := f.follow(canceledPath, "consume"), f.follow(otherPath, "foreign")
	f.send("POST", "/v1/other/push", `{"jobs":[{"queue":"q","id":"secret"}]}`)
	f.send("DELETE", "/v1/other/queues/q/jobs/secret", "")
	if got := f.poll(otherPath, wire.CanceledAsk{After: theirs, Wait: time.Minute}, "foreign"); len(got.Canceled) != 1 {
		t.Fatalf("its own namespace: %+v", got)
	}
	if got := f.poll(canceledPath, wire.CanceledAsk{After: mine}, "consume"); got.Any || len(got.Canceled) != 0 {
		t.Errorf("another namespace: %+v", got)
	}
	if got := f.poll(canceledPath, wire.CanceledAsk{After: theirs}, "consume"); !got.Any || len(got.Canceled) != 0 {
		t.Errorf("another namespace by its cursor: %+v", got)
	}
}

// C14.47: with two servers of one engine, a poll of one server gets the jobs that were removed
// through the other one. The first poll of each server has the field any set.
func TestRemovedJobsAreReportedThroughTwoServers(t *testing.T) {
	t.Parallel()
	here := serve(t, nil)
	there := here.beside()
	at := here.follow(canceledPath)
	first := there.poll(canceledPath, wire.CanceledAsk{After: at, Wait: time.Minute})
	if !first.Any {
		t.Errorf("a cursor of the other server: %+v", first)
	}
	here.push("q", "x")
	id := here.push("q", "y")
	there.send("DELETE", "/v1/default/queues/q/jobs/"+id, "")
	at = first.Cursor

	for i, f := range []*fixture{here, there} {
		got := f.poll(canceledPath, wire.CanceledAsk{After: at, Wait: time.Minute})
		if at = got.Cursor; got.Any || len(got.Canceled) != 1 || !got.Canceled[0].Names("q", id) {
			t.Errorf("server %d: %+v", i, got)
		}
	}
}

// C14.47: without an engine that reports removed jobs, the route is unsupported.
func TestCanceledWithoutReportingEngineIsUnsupported(t *testing.T) {
	t.Parallel()
	f := serve(t, func(c *Config) { c.Engine = watch(c.Engine) })
	if a := f.send("POST", canceledPath, `{"wait":"1m"}`); a.status != 501 || a.err().Code != duly.CodeUnsupported {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// waiting starts a poll in the background and returns when it waits.
func (f *fixture) waiting(at string, caller string) <-chan answer {
	f.t.Helper()
	answers := make(chan answer, 1)
	go func() {
		answers <- f.send("POST", canceledPath, fmt.Sprintf(`{"after":%q,"wait":"10m"}`, at), caller)
	}()
	until(f.t, "the poll waits", func() bool { return f.longPolls("1") })
	return answers
}

// longPolls reports whether the metric of long polls has this value.
func (f *fixture) longPolls(n string) bool {
	f.t.Helper()
	return strings.Contains(f.send("GET", "/metrics", "").body, "\nduly_long_polls "+n+"\n")
}

// C14.47: a drain ends each poll at once. The cursor stays valid.
func TestDrainEndsCanceledPolls(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	at := f.follow(canceledPath)
	poll := f.waiting(at, "consume")
	f.drain()
	if a, want := <-poll, `{"canceled":[],"any":false,"cursor":"`+at+`"}`; a.status != 200 || a.body != want {
		t.Errorf("%d %s, want %s", a.status, a.body, want)
	}
	if a := f.send("POST", canceledPath, `{"wait":"10m"}`); a.status != 200 {
		t.Errorf("a poll of a server that drains: %d %s", a.status, a.body)
	}
}

// C14.47: a server that stops ends its polls and its watch of the engine.
func TestStopEndsCanceledPolls(t *testing.T) {
	t.Parallel()
	f := serve(t, func(c *Config) { c.Listen.Addr, c.Listen.AdminAddr = "127.0.0.1:0", "127.0.0.1:0" })
	if err := f.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- f.Serve(ctx) }()
	at := f.follow(canceledPath)
	body := fmt.Sprintf(`{"after":%q,"wait":"10m"}`, at)
	req, err := http.NewRequest("POST", f.URL()+canceledPath, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+f.tokens["consume"])
	poll := make(chan answer)
	go func() { poll <- f.do(req) }()
	until(t, "the poll waits", func() bool { return f.longPolls("1") })

	stop()
	if a := <-poll; a.status != 200 || !strings.Contains(a.body, at) {
		t.Errorf("the poll: %d %s", a.status, a.body)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := f.removed.Poll(t.Context(), "default", cancelfeed.Query{}); !errors.Is(err, duly.ErrClosed) {
		t.Errorf("a poll after the end: %v", err)
	}
}

// Fault X4, C14.39, C14.47: a poll for removed jobs ends with an empty answer when its token changes, and
// as unauthorized when the token is revoked.
func TestPollOfRemovedJobsEndsWhenItsTokenChanges(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	at := f.follow(canceledPath)
	poll := f.waiting(at, "consume")
	if a := f.send("PATCH", "/admin/tokens/"+f.id("consume"), `{"limits":{"consume":1,"per":"1h"}}`); a.status != 204 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if a := <-poll; a.status != 200 || !strings.Contains(a.body, at) {
		t.Errorf("the poll of a changed token: %d %s", a.status, a.body)
	}

	poll = f.waiting(at, "consume") // a poll takes no job, so the limit does not apply
	if a := f.send("DELETE", "/admin/tokens/"+f.id("consume"), ""); a.status != 204 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if a := <-poll; a.status != 401 {
		t.Errorf("the poll of a revoked token: %d %s", a.status, a.body)
	}
}

// C14.47: a waiting poll counts as a long poll, and it ends after its time.
func TestCanceledPollsAreCounted(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	poll := f.waiting(f.follow(canceledPath), "consume")
	f.clock.Advance(10 * time.Minute)
	if a := <-poll; a.status != 200 || !strings.Contains(a.body, `{"canceled":[],"any":false,`) {
		t.Errorf("after the time has passed: %d %s", a.status, a.body)
	}
	if !f.longPolls("0") {
		t.Error("the metrics count a poll that has ended")
	}
}

// C14.47: a poll ends when its caller closes the connection.
func TestCanceledPollEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	inMemory(t, nil, func(f *fixture) {
		defer f.engine.Close()
		req, err := http.NewRequest("POST", "http://memory"+canceledPath, strings.NewReader(`{"wait":"1m"}`))
		if err != nil {
			f.t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+f.tokens["consume"])
		first, err := wire.CanceledForm.ReadAnswer(f.do(req).body)
		if err != nil || !first.Any {
			f.t.Fatalf("%+v, %v", first, err)
		}

		conn := f.dial("POST", canceledPath, fmt.Sprintf(`{"after":%q,"wait":"10m"}`, first.Cursor))
		synctest.Wait()
		if strings.Contains(f.log.String(), `"status":499`) {
			f.t.Error("the poll does not wait")
		}
		conn.Close()
		synctest.Wait()
		if !strings.Contains(f.log.String(), `"status":499`) {
			f.t.Error("the poll goes on without its caller")
		}
	})
}
