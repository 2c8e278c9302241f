package lmstfy_test

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/dulytest"
	"github.com/dulymq/duly/server"
)

// raw sends bytes and reads one answer, or "".
func (p *play) raw(text string) (status int, header http.Header, body string) {
	p.t.Helper()
	conn, err := net.Dial("tcp", p.api.Listener.Addr().String())
	if err != nil {
		p.t.Fatal(err)
	}
	defer conn.Close()
	// The server may answer and close the connection before it has read the whole request.
	go io.WriteString(conn, text)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header, string(b)
}

// Faults X13, X2: CR, LF, NUL and 64 KiB in names, queries, tokens and attributes are
// refused. They never become a header, and no job is stored.
func TestControlCharactersAndHugeInputsAreRefused(t *testing.T) {
	t.Parallel()
	p := open(t, inMemory(t), nil)
	token := p.token("ns")
	huge := strings.Repeat("x", 64<<10)

	cases := map[string]struct {
		line, headers string
		want          []int
	}{
		"CRLF in a queue":      {"PUT /api/ns/q%0d%0aX-Evil:%201", "", []int{400}},
		"NUL in a queue":       {"PUT /api/ns/q%00", "", []int{400}},
		"LF in a namespace":    {"PUT /api/n%0as/q", "", []int{400}},
		"CR in a list":         {"GET /api/ns/a,b%0d", "", []int{400}},
		"CRLF in a delay":      {"PUT /api/ns/q?delay=1%0d%0aX-Evil:1", "", []int{400}},
		"NUL in tries":         {"PUT /api/ns/q?tries=1%00", "", []int{400}},
		"CRLF in the token":    {"PUT /api/ns/q?token=x%0d%0aX-Evil%20", "-", []int{401}},
		"NUL in the pool":      {"PUT /api/ns/q?token=a%00:x", "-", []int{404}},
		"raw NUL in attribute": {"PUT /api/ns/q", "Enable-Job-Version: YES\r\nJob-Attr-A: a\x00b\r\n", []int{400}},
		"raw CR in attribute": {"PUT /api/ns/q", "Enable-Job-Version: YES\r\nJob-Attr-A: a\rX-Evil: 1\r\n",
			[]int{400}},
		"folded attribute": {"PUT /api/ns/q", "Enable-Job-Version: YES\r\nJob-Attr-A: a\r\n X-Evil: 1\r\n",
			[]int{201, 400}},
		"raw space in the path": {"PUT /api/ns/q x", "", []int{400}},
		"huge queue":            {"PUT /api/ns/" + huge, "", []int{431}},
		"long queue":            {"PUT /api/ns/" + huge[:9<<10], "", []int{400}},
		"long list":             {"GET /api/ns/" + strings.Repeat("q,", 4<<10), "", []int{414}},
		"huge query":            {"PUT /api/ns/q?x=" + huge, "", []int{431}},
		"long query":            {"PUT /api/ns/q?x=" + huge[:9<<10], "", []int{414}},
		"long ID":               {"DELETE /api/ns/q/job/" + huge[:9<<10], "", []int{414}},
		"many queues":           {"GET /api/ns/" + manyQueues(101), "", []int{400}},
		"huge attribute": {"PUT /api/ns/q", "Enable-Job-Version: YES\r\nJob-Attr-A: " + huge + "\r\n",
			[]int{431}},
		"huge attribute name": {"PUT /api/ns/q", "Enable-Job-Version: YES\r\nJob-Attr-" + huge + ": a\r\n", []int{431}},
	}

	for name, c := range cases {
		headers := "X-Token: " + token + "\r\n" + c.headers
		if c.headers == "-" {
			headers = ""
		}
		status, header, body := p.raw(c.line + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + headers + "\r\n")
		found := false
		for _, want := range c.want {
			found = found || status == want
		}
		if !found || header.Get("X-Evil") != "" || strings.Contains(body, "Evil") || strings.Contains(body, "xxxx") {
			t.Errorf("%s: %d, want %v: %v %s", name, status, c.want, header, body)
		}
	}

	if a := p.send("GET", "/api/ns/q?count=100", "", "X-Token", token); strings.Contains(a.body, "Evil\":") {
		t.Errorf("a header was split: %s", a.body)
	}
	if status, _, body := p.raw("GET /api/ns/" + manyQueues(100) + " HTTP/1.1\r\nHost: x\r\nX-Token: " + token +
		"\r\n\r\n"); status != 404 {
		t.Errorf("100 queues: %d %s", status, body)
	}
}

func manyQueues(n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = "q" + strings.Repeat("x", i%40) + string(rune('a'+i/40))
	}
	return strings.Join(names, ",")
}

// Fault X7: a token in any part of a request is neither in the log nor in an answer.
func TestTokenIsNeverRepeated(t *testing.T) {
	t.Parallel()
	p := open(t, inMemory(t), nil)
	token := p.token("ns")
	const canary = "CANARY-0123456789-0123456789"
	if err := p.s.Guard().CreateAs(t.Context(),
		contract.Token{Hash: [32]byte{1}, Namespace: "ns", Rights: contract.RightProduce}); err != nil {
		t.Fatal(err)
	}
	answers := p.log

	for _, secret := range []string{token, canary} {
		for _, c := range calls() {
			for _, suffix := range []string{"", "/", "x"} {
				a := p.send(c.method, c.target+suffix+"?delay=x&count=0&limit=0&token="+secret, c.body)
				b := p.send(c.method, c.target+suffix, c.body, "X-Token", secret)
				d := p.send(c.method, c.target+suffix+"?token=nowhere:"+secret, c.body)
				for _, answer := range []answer{a, b, d} {
					io.WriteString(answers, answer.body)
					for _, values := range answer.header {
						io.WriteString(answers, strings.Join(values, " "))
					}
				}
			}
		}
		// The native API ignores a token in the query, and does not repeat it in the answer.
		a := p.send("POST", "/v1/ns/push?token="+secret, `{"jobs":[]}`)
		if a.status != http.StatusUnauthorized {
			t.Errorf("the native API takes a token from a URL: %d %s", a.status, a.body)
		}
		io.WriteString(answers, a.body)
	}

	io.WriteString(answers, p.askAdmin("GET", "/metrics").body)
	io.WriteString(answers, p.askAdmin("GET", "/token/ns").body)
	p.gate.Engine = struct{ contract.Engine }{} // an engine whose calls panic
	p.send("GET", "/api/ns/q?token="+token, "")
	if said := answers.String(); strings.Contains(said, token) || strings.Contains(said, canary) {
		at := max(strings.Index(said, token), strings.Index(said, canary))
		t.Errorf("it is repeated: %s", said[max(0, at-300):at+100])
	}
	if !strings.Contains(p.log.String(), "panic in a route") {
		t.Error("nothing has panicked")
	}
}

// An incomplete body, and a body without a length, are answered with an error.
func TestIncompleteBodyIsAnError(t *testing.T) {
	t.Parallel()
	p := open(t, inMemory(t), func(c *server.Config) { c.Settings.Grace = 100 * time.Millisecond })
	token := p.token("ns")
	head := func(target, more string) string {
		return "PUT " + target + " HTTP/1.1\r\nHost: x\r\nX-Token: " + token + "\r\n" + more + "\r\n\r\n"
	}
	chunk := "100000\r\n" + strings.Repeat("x", 1<<20) + "\r\n"

	tests := map[string]struct {
		request string
		status  int
		body    string
	}{
		"it comes too slowly": {head("/api/ns/q", "Content-Length: 10") + "abc", 400,
			`{"error":"failed to read body"}`},
		"a chunk that is none": {head("/api/ns/q", "Transfer-Encoding: chunked") + "zz\r\n", 400,
			`{"error":"failed to read body"}`},
		"of a bulk": {head("/api/ns/q/bulk", "Content-Length: 10") + "[1,", 400,
			`{"error":"failed to read body"}`},
		"it says that it is too big": {head("/api/ns/q", "Content-Length: 1048577"), 413, `{"error":"body too large"}`},
		"it does not end": {head("/api/ns/q", "Transfer-Encoding: chunked") + chunk + "1\r\nx\r\n", 413,
			`{"error":"body too large"}`},
		"it says nothing, and ends": {head("/api/ns/q", "Transfer-Encoding: chunked") + chunk + "0\r\n\r\n", 201, ""},
		"parameters come first": {head("/api/ns/q?delay=x", "Content-Length: 1048577"), 400,
			`{"error":"invalid delay"}`},
		"so does the token": {"PUT /api/ns/q HTTP/1.1\r\nHost: x\r\nContent-Length: 1048577\r\n\r\n", 401,
			`{"error":"token not found"}`},
		"a huge bulk": {head("/api/ns/q/bulk", "Content-Length: 67174401"), 413, `{"error":"body too large"}`},
	}

	// The server lets a caller finish for a while before it closes the connection, so
	// the requests wait together.
	t.Run("requests", func(t *testing.T) {
		for name, tt := range tests {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				if status, _, body := p.raw(tt.request); status != tt.status || tt.body != "" && body != tt.body {
					t.Errorf("%d %s, want %d %s", status, body, tt.status, tt.body)
				}
			})
		}
	})

	if a := p.send("GET", "/api/ns/q/size", ""); !strings.Contains(a.body, `"size":1`) {
		t.Errorf("stored: %s", a.body)
	}
}

// No request ends the process or is answered with a 500.
func FuzzRequests(f *testing.F) {
	for _, s := range []string{
		"PUT /api/ns/q?tries=3&delay=1 HTTP/1.1\r\nX-Token: TOKEN\r\nEnable-Job-Version: YES\r\nJob-Attr-A: b\r\n" +
			"Content-Length: 2\r\n\r\nhi",
		"PUT /api/ns/q/bulk HTTP/1.1\r\nX-Token: TOKEN\r\nContent-Length: 5\r\n\r\n[1,2]",
		"GET /api/ns/q,r?timeout=1&ttr=1&count=9 HTTP/1.1\r\nX-Token: default:TOKEN\r\n\r\n",
		"DELETE /api/ns/q/job/x HTTP/1.1\r\nX-Token: TOKEN\r\n\r\n", "GET /api/ns/q/peek?token=TOKEN HTTP/1.1\r\n\r\n",
		"PUT /api/ns/q/job/../?ttl=0 HTTP/1.1\r\nX-Token: TOKEN\r\n\r\n",
		"PUT /api/ns/q/deadletter?limit=99&ttl=1 HTTP/1.1\r\nX-Token: TOKEN\r\n\r\n",
		"POST /token/ns HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n" +
			"Content-Length: 13\r\n\r\ndescription=x",
		"PUT /token/ns/TOKEN/limit HTTP/1.1\r\nHost: localhost\r\nContent-Length: 23\r\n\r\n" +
			"{\"read\":1,\"interval\":1}", "GET /info HTTP/1.1\r\nHost: localhost\r\n\r\n",
	} {
		f.Add([]byte(s))
	}

	e := dulytest.New(nil)
	s, err := server.New(server.Config{
		Engine: e, Store: server.Store{Registry: e, Watcher: e, Limiter: e}, Clock: e.Clock,
		Lmstfy: server.Lmstfy{Mode: server.LmstfyOpen}, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		f.Fatal(err)
	}
	const token = "0123456789-0123456789"
	w := httptest.NewRecorder()
	r := httptest.NewRequest("POST", "/token/ns?description=x&token="+token, nil)
	r.Host, r.RemoteAddr = "localhost", "127.0.0.1:1"
	if s.AdminHandler().ServeHTTP(w, r); w.Code != http.StatusCreated {
		f.Fatal(w.Code, w.Body)
	}

	f.Fuzz(func(t *testing.T, request []byte) {
		text := strings.ReplaceAll(string(request), "TOKEN", token)
		for _, h := range []http.Handler{s.Handler(), s.AdminHandler()} {
			r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
			if err != nil {
				return
			}
			// Disconnects a request that waits.
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			r.RemoteAddr = "127.0.0.1:1"
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r.WithContext(ctx))
			hungUp := ctx.Err() != nil
			cancel()
			if w.Code >= 500 && !hungUp && w.Code != http.StatusInsufficientStorage &&
				!strings.Contains(text, "/limit") {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		}
	})
}
