package server

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

// slowBody starts a push of 8 MB. It sends the first bytes at once, and then 1100 bytes a second
// until the connection is closed.
func (f *fixture) slowBody(token string, sent int) net.Conn {
	f.t.Helper()
	conn := f.connect()
	const head = "POST /v1/default/push HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n" +
		"Content-Length: 8000000\r\n\r\n%s"
	go func() {
		_, err := fmt.Fprintf(conn, head, f.tokens[token], `{"jobs":[{"queue":"q","body":"`+strings.Repeat("x", sent))
		for err == nil && clock.Sleep(f.t.Context(), clock.System(), time.Second) == nil {
			_, err = io.WriteString(conn, strings.Repeat("x", 1100))
		}
	}()
	return conn
}

// ask is like [fixture.send], for an API that is served in memory.
func (f *fixture) ask(method, path, body, caller string) answer {
	f.t.Helper()
	req, err := http.NewRequest(method, "http://memory"+path, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+f.tokens[caller])
	req.Header.Set("X-Token", f.tokens[caller])
	return f.do(req)
}

// oneJob returns a push of one job with a body of this size.
func oneJob(size int) string {
	return `{"jobs":[{"queue":"honest","body":"` + strings.Repeat("x", size) + `"}]}`
}

// largeSettle returns a settle of more than 64 KiB, which acks a receipt.
func largeSettle(receipt string) string {
	b := `{"outcomes":[{"receipt":"` + receipt + `","as":"ack"}`
	return b + strings.Repeat(`,{"receipt":"honest:0:01J0000000000000000000000A:1","as":"nack","error":"`+
		strings.Repeat("x", 100)+`"}`, 500) + `]}`
}

// mustServe checks that a caller's long requests succeed within a second.
func (f *fixture) mustServe(namespace, caller string) {
	f.t.Helper()
	begin := clock.Monotonic()

	for _, size := range []int{70_000, 900_000} {
		if a := f.ask("POST", "/v1/"+namespace+"/push", oneJob(size), caller); a.status != 200 ||
			!strings.Contains(a.body, "created") {
			f.t.Errorf("%s pushes %d bytes: %d %.300s", caller, size, a.status, a.body)
		}
	}
	taken, err := f.engine.Reserve(f.t.Context(),
		duly.ReserveParams{Namespace: namespace, Queues: []string{"honest"}, Max: 1})
	if err != nil || len(taken) != 1 {
		f.t.Fatal(taken, err)
	}
	a := f.ask("POST", "/v1/"+namespace+"/settle", largeSettle(string(taken[0].Receipt)), caller)
	if a.status != 200 || !strings.HasPrefix(a.body, `{"results":[{"ok":true},`) {
		f.t.Errorf("%s settles in 70 KB: %d %.300s", caller, a.status, a.body)
	}
	if took := clock.Monotonic() - begin; took > time.Second {
		f.t.Errorf("%s waited %s", caller, took)
	}
}

// C14.43: the slow bodies of one token leave memory for the long requests of other tokens and
// other namespaces.
func TestSlowBodiesOfOneTokenDoNotBlockOthers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ connections, sent int }{
		"140 that have sent 66 kB":  {140, 66_000},
		"200 of 70 KB":              {200, 70_000},
		"60 that fill their budget": {60, 400_000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inMemory(t, nil, func(f *fixture) {
				for range c.connections {
					f.slowBody("admin", c.sent)
				}
				synctest.Wait()
				f.mustServe("other", "foreign")
				clock.Sleep(f.t.Context(), clock.System(), 3*time.Second)
				f.mustServe("other", "foreign")
				f.mustServe("shop", "operator")
				f.mustServe("default", "operator")
			})
		})
	}
}

// If a token's slow bodies use all of its memory, its next request cuts the slow requests off one
// by one. Their answer is 503 with Retry-After.
func TestWaitingRequestCutsSlowestBodies(t *testing.T) {
	t.Parallel()
	inMemory(t, nil, func(f *fixture) {
		var conns []net.Conn
		for range 10 {
			conns = append(conns, f.slowBody("admin", 1<<20))
		}
		synctest.Wait()
		clock.Sleep(f.t.Context(), clock.System(), 3*time.Second)
		if strings.Contains(f.log.String(), "it was cut") {
			f.t.Fatal("a body was cut before another request waited")
		}
		f.mustServe("default", "admin")
		cut := strings.Count(f.log.String(), "it was cut")
		if cut == 0 || cut == len(conns) {
			f.t.Fatalf("%d of %d slow bodies were cut", cut, len(conns))
		}

		synctest.Wait()
		for _, conn := range conns {
			conn.SetReadDeadline(clock.System().Now().Add(time.Millisecond))
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				continue // this request has no answer yet
			}
			cut--
			if resp.StatusCode != 503 || resp.Header.Get("Retry-After") != "1" || !resp.Close {
				f.t.Errorf("a body that was cut is answered %d %v", resp.StatusCode, resp.Header)
			}
		}
		if cut != 0 {
			f.t.Errorf("%d more were cut than answered", cut)
		}
	})
}

// C14.43: both APIs answer 503 with Retry-After if no memory is free within the grace. The error
// text of lmstfy's API is lmstfy's.
func TestRequestWithoutMemoryGetsRetryAfter(t *testing.T) {
	t.Parallel()
	for path, method := range map[string]string{"/v1/default/push": "POST", "/api/default/q": "PUT",
		"/api/default/q/bulk": "PUT", "/api/default/q/job/x": "PUT"} {
		// shorter than the time of a slow body
		inMemory(t, func(c *Config) { c.Settings.Grace = time.Second }, func(f *fixture) {
			for range 10 { // the last request exceeds the budget
				f.slowBody("admin", 1<<20)
			}
			synctest.Wait()
			f.slowBody("admin", 350_000) // uses the rest of the token's share
			synctest.Wait()
			a := f.ask(method, path, oneJob(500_000), "admin")
			if a.status != 503 || a.header.Get("Retry-After") != "1" || !strings.Contains(a.body, "memory") {
				f.t.Errorf("%s %s: %d %v %s", method, path, a.status, a.header, a.body)
			}
		})
	}
}

// The server refuses a body that is too long without reading it. It then reads a limited part of
// the rest, so that a client that first writes the whole body gets the answer.
func TestRefusalReachesClientThatWritesFirst(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		method, path, caller, length string
		size                         int
		status                       int
	}{
		// the client gives up
		"push":               {"POST", "/v1/default/push", "admin", "Content-Length: 20000000", 1<<20 + 16<<20, 413},
		"lmstfy":             {"PUT", "/api/default/q", "admin", "Content-Length: 5000000", 5_000_000, 413},
		"lmstfy in chunks":   {"PUT", "/api/default/q", "admin", "Transfer-Encoding: chunked", 5 << 20, 413},
		"without a token":    {"PUT", "/api/default/q", "none", "Content-Length: 5000000", 5_000_000, 401},
		"with a wrong right": {"POST", "/v1/default/push", "consume", "Content-Length: 5000000", 5_000_000, 403},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := serve(t, nil)
			conn := f.connect()
			fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nX-Token: %[3]s\r\n%s\r\n\r\n",
				c.method, c.path, f.tokens[c.caller], c.length)
			body := strings.Repeat("x", min(c.size, 16<<20))
			if strings.HasPrefix(c.length, "T") {
				body = strings.Repeat("100000\r\n"+strings.Repeat("x", 1<<20)+"\r\n", c.size>>20) + "0\r\n\r\n"
			}
			if n, err := io.WriteString(conn, body); err != nil {
				t.Fatalf("after %d of %d bytes: %v", n, len(body), err)
			}
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil || resp.StatusCode != c.status || !resp.Close {
				t.Fatalf("%+v, %v", resp, err)
			}
			if b, err := io.ReadAll(resp.Body); err != nil || len(b) == 0 {
				t.Errorf("%q, %v", b, err)
			}
		})
	}
}
