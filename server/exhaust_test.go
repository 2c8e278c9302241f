package server

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/eventually"
)

// Fault R1: clients that send their request's head slowly, one byte every five seconds, are cut off
// within ten seconds. Other requests are answered in the meantime. Time is virtual.
func TestSlowHeadsAreCutOffInTime(t *testing.T) {
	t.Parallel()
	inMemory(t, nil, func(f *fixture) {
		const connections, promised = 200, 10 * time.Second
		begin := clock.System().Mono()
		var all sync.WaitGroup

		for range connections {
			conn := f.connect()
			all.Go(func() {
				io.WriteString(conn, "POST /v1/default/push HTTP/1.1\r\nX: ")
				for clock.Sleep(f.t.Context(), clock.System(), 5*time.Second) == nil {
					if _, err := conn.Write([]byte("x")); err != nil {
						return
					}
				}
			})
			all.Go(func() {
				io.Copy(io.Discard, conn)
				if took := clock.System().Mono() - begin; took > promised {
					f.t.Errorf("a connection was cut off after %s", took)
				}
				conn.Close()
			})
		}

		clock.Sleep(f.t.Context(), clock.System(), 4*time.Second) // now all connections are open
		req, _ := http.NewRequest("POST", "http://memory/v1/default/push",
			strings.NewReader(`{"jobs":[{"queue":"q"}]}`))
		req.Header.Set("Authorization", "Bearer "+f.tokens["produce"])
		if a := f.do(req); a.status != 200 {
			f.t.Errorf("an honest push: %d %s", a.status, a.body)
		}
		all.Wait()
	})
}

// Fault R2: the largest request succeeds at 1 Mbit/s, although that takes more than a minute.
func TestSlowUploadOfTheLargestRequestSucceeds(t *testing.T) {
	t.Parallel()
	inMemory(t, nil, func(f *fixture) {
		const rate = 125_000 // bytes per second
		jobs := make([]string, duly.MaxBatchBytes/duly.DefaultMaxBody)
		for i := range jobs {
			jobs[i] = `{"queue":"q","body":"` + strings.Repeat("x", duly.DefaultMaxBody) + `"}`
		}
		body := `{"jobs":[` + strings.Join(jobs, ",") + `]}`
		r, w := io.Pipe()
		begin := clock.System().Mono()

		go func() {
			for from := 0; from < len(body); from += rate {
				clock.Sleep(f.t.Context(), clock.System(), time.Second)
				io.WriteString(w, body[from:min(from+rate, len(body))])
			}
			w.Close()
		}()

		req, _ := http.NewRequest("POST", "http://memory/v1/default/push", r)
		req.ContentLength = int64(len(body))
		req.Header.Set("Authorization", "Bearer "+f.tokens["produce"])
		if a := f.do(req); a.status != 200 || f.sizes("q").Ready != int64(len(jobs)) {
			f.t.Errorf("%d %.300s", a.status, a.body)
		}
		if took := clock.System().Mono() - begin; took < time.Minute {
			f.t.Errorf("it took %s, so nothing was tested", took)
		}
	})
}

// Fault R2: a client must read an answer at 1 KiB a second, or else the connection is closed after the
// grace. A slow but steady reader gets the whole answer.
func TestReaderBelowTheLowestRateIsCutOff(t *testing.T) {
	t.Parallel()
	for rate, whole := range map[int]bool{2 << 10: true, 100: false} {
		inMemory(t, nil, func(f *fixture) {
			f.push("q", strings.Repeat("x", 60<<10))
			conn := f.dial("GET", "/v1/default/queues/q/peek", "")
			got, err := 0, error(nil)

			for b := make([]byte, rate); err == nil; {
				clock.Sleep(f.t.Context(), clock.System(), time.Second)
				// Ends at the deadline, because the connection is kept alive.
				conn.SetReadDeadline(clock.System().Now().Add(time.Second))
				var n int
				n, err = io.ReadFull(conn, b)
				got += n
			}

			if done := got > 60<<10; done != whole {
				f.t.Errorf("at %d bytes a second %d bytes came, %v", rate, got, err)
			}
		})
	}
}

// counting is a connection that counts the bytes that the other side has read.
type counting struct {
	net.Conn
	n atomic.Int64
}

func (c *counting) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.n.Add(int64(n))
	return n, err
}

// Fault R3: a body that is endless or announces a huge length is refused, at the latest when the server
// has read the maximum length. The server reads at most 64 KiB beyond the bound.
func TestServerReadsAtMostTheBound(t *testing.T) {
	t.Parallel()
	const bound = 2 * duly.MaxBatchBytes
	chunk := "10000\r\n" + strings.Repeat(" ", 0x10000) + "\r\n"

	for what, c := range map[string]struct {
		head, more string
		most       int64
	}{
		"an endless body": {"Transfer-Encoding: chunked\r\n\r\n", chunk, bound + 64<<10 + bound/0x10000*9},
		"a huge length":   {"Content-Length: 999999999999\r\n\r\n", chunk, 64 << 10},
	} {
		inMemory(t, nil, func(f *fixture) {
			conn := &counting{Conn: f.connect()}
			var sending sync.WaitGroup
			sending.Go(func() {
				_, err := fmt.Fprintf(conn,
					"POST /v1/default/push HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n%s",
					f.tokens["operator"], c.head)
				for err == nil {
					_, err = io.WriteString(conn, c.more)
				}
			})
			// The server reads on after its answer, but only after the client has read the answer.
			first := make([]byte, 1)
			if _, err := io.ReadFull(conn, first); err != nil {
				f.t.Fatal(err)
			}
			read := conn.n.Load()
			resp, err := http.ReadResponse(bufio.NewReader(io.MultiReader(bytes.NewReader(first), conn)), nil)
			if err != nil || resp.StatusCode != http.StatusRequestEntityTooLarge {
				f.t.Errorf("%s: %v %v", what, resp, err)
			}
			if read > c.most+300+int64(len(f.tokens["operator"])) {
				f.t.Errorf("%s: %d bytes were read, want at most %d", what, read, c.most)
			}
			conn.Close()
			sending.Wait()
			// The server waits a little before it closes the connection.
			clock.Sleep(f.t.Context(), clock.System(), time.Second)
		})
	}
}

// Fault R4: both APIs refuse requests that are too long or have too many items, and store nothing. A
// test in test/service proves that Redis gets no command.
func TestTooLongOrTooManyFieldsAreRefused(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	many := func(item string, n int) string { return strings.TrimSuffix(strings.Repeat(item+",", n), ",") }
	queues := make([]string, 101)
	for i := range queues {
		queues[i] = fmt.Sprintf("q%d", i)
	}
	long := strings.Repeat("x", 64<<10)

	for _, c := range []struct {
		method, path, body string
		header             string
		status             int
	}{
		{"POST", "/v1/default/push", `{"jobs":[` + many(`{"queue":"q"}`, 1001) + `]}`, "", 413},
		{"POST", "/v1/default/push", `{"jobs":[` +
			many(`{"queue":"q","body":"`+strings.Repeat("x", 900<<10)+`"}`, 10) + `]}`, "", 413},
		{"POST", "/v1/default/reserve", `{"queues":["` + strings.Join(queues, `","`) + `"]}`, "", 400},
		{"POST", "/v1/default/reserve", `{"queues":["q"],"max":1001}`, "", 400},
		{"POST", "/v1/default/wait", `{"queues":["` + strings.Join(queues, `","`) + `"]}`, "", 400},
		{"POST", "/v1/default/settle",
			`{"outcomes":[` + many(`{"receipt":"q:0:01J0000000000000000000000A:1","as":"ack"}`, 1001) + `]}`, "", 413},
		{"POST", "/v1/default/extend", `{"receipts":[` + many(`"r"`, 1001) + `],"lease":"1s"}`, "", 413},
		{"GET", "/v1/default/queues?limit=1001", "", "", 400},
		{"GET", "/v1/default/queues?cursor=" + strings.Repeat("x", 9<<10), "", "", 413},
		{"GET", "/v1/default/queues", "", long[:20<<10], 431},
		{"GET", "/api/default/" + strings.Join(queues, ","), "", "", 400},
		{"GET", "/api/default/q?count=101", "", "", 400},
		{"GET", "/api/default/q/job/" + strings.Repeat("x", 9<<10), "", "", 414},
		{"GET", "/api/default/q", "", long[:20<<10], 431},
		{"PUT", "/api/default/q", strings.Repeat("x", 1<<20+1), "", 413},
		{"PUT", "/api/default/q/bulk", "[" + many("1", 65) + "]", "", 400},
		{"PUT", "/api/default/" + strings.Repeat("x", 300), "x", "", 400},
	} {
		req, err := http.NewRequest(c.method, f.api.URL+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+f.tokens["operator"])
		req.Header.Set("X-Token", f.tokens["operator"])
		if c.header != "" {
			req.Header.Set("X-Long", c.header)
		}
		if a := f.do(req); a.status != c.status {
			t.Errorf("%s %.60s: %d %.300s, want %d", c.method, c.path, a.status, a.body, c.status)
		}
	}

	if page, err := f.engine.Namespaces(t.Context(), duly.PageParams{}); err != nil || len(page.Names) > 0 {
		t.Errorf("something was stored: %v %v", page, err)
	}
}

// Fault X13: CR, LF, NUL and 64 KiB in names, IDs and headers of jobs are refused as invalid, and
// never split an answer.
func TestLineBreaksAndNULAreRefused(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)

	for _, bad := range []string{"%0d%0aSet-Cookie:%20x=1", "a%0ab", "a%0db", "a%00b",
		"%E5%98%8A%E5%98%8DSet-Cookie:x", "a%E2%80%A8b"} {
		for _, path := range []string{"/v1/" + bad + "/queues", "/v1/default/queues/" + bad,
			"/v1/default/queues/" + bad + "/peek", "/v1/default/queues/q/jobs/" + bad,
			"/v1/default/queues/q/jobs?state=ready&cursor=" + bad} {
			a := f.send("GET", path, "")
			if a.status < 400 || a.status >= 500 || a.header.Get("Set-Cookie") != "" ||
				strings.ContainsAny(a.body, "\r\n\x00\u2028") {
				t.Errorf("%s: %d %v %s", path, a.status, a.header, a.body)
			}
		}
	}

	for _, bad := range []string{`\r\nSet-Cookie: x=1`, `\u0000`, `a\nb`, strings.Repeat("x", 64<<10)} {
		for _, job := range []string{`{"queue":"%s"}`, `{"queue":"q","id":"%s"}`, `{"queue":"q","headers":{"%s":"x"}}`,
			`{"queue":"q","headers":{"x":"%s"}}`, `{"queue":"q","callback":"http://x/%s"}`} {
			body := `{"jobs":[` + strings.Replace(job, "%s", bad, 1) + `]}`
			a := f.send("POST", "/v1/default/push", body)
			if a.header.Get("Set-Cookie") != "" || !strings.Contains(a.body, `"error":{"code":"`) && a.status == 200 {
				t.Errorf("%.100s: %d %.300s", body, a.status, a.body)
			}
		}
	}
}

// During the drain delay, /readyz fails and answers ask callers to close their connections, but
// requests and long polls continue. After the delay, long polls end with an empty answer and the
// listeners close.
func TestDrainBeginsWithADelay(t *testing.T) {
	t.Parallel()
	const delay = time.Minute
	var g *gate

	f := serve(t, func(c *Config) {
		g = watch(c.Engine)
		c.Engine, c.Listen.Addr, c.Listen.AdminAddr, c.DrainDelay = g, "127.0.0.1:0", "127.0.0.1:0", delay
		c.Push.Off = true // without HTTP push, only the sweeper has a timer
	})
	if err := f.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error)
	go func() { served <- f.Serve(ctx) }()
	client := &http.Client{Transport: &http.Transport{}}

	call := func(method, path, body string) (status int, text string, closes bool, err error) {
		req, _ := http.NewRequest(method, f.URL()+path, strings.NewReader(body))
		req.Header.Set("Authorization", "Bearer "+f.tokens["operator"])
		resp, err := client.Do(req)
		if err != nil {
			return 0, "", false, err
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		return resp.StatusCode, string(b), resp.Close, err
	}

	if status, _, closes, err := call("GET", "/readyz", ""); status != 200 || closes || err != nil {
		t.Fatalf("before: %d, closes %v, %v", status, closes, err)
	}
	until(t, "the sweeper waits", func() bool { return f.clock.Timers() == 1 })
	polled := make(chan string, 1)
	go func() {
		_, text, closes, err := call("POST", "/v1/default/reserve", `{"queues":["none"],"wait":"10m"}`)
		polled <- fmt.Sprint(text, closes, err)
	}()
	eventually.Receive(t, "a Wait to begin", g.waiting)
	until(t, "the long poll waits", func() bool { return f.clock.Timers() == 2 })
	stop()
	until(t, "the delay has begun", func() bool { return f.clock.Timers() == 3 })

	for _, path := range []string{"/readyz", "/healthz", "/v1/default/queues"} {
		want := 200
		if path == "/readyz" {
			want = 503
		}
		if status, text, closes, err := call("GET", path, ""); status != want || !closes || err != nil {
			t.Errorf("%s: %d %s, closes %v, %v", path, status, text, closes, err)
		}
	}

	// lmstfy's API continues too
	if status, text, _, err := call("PUT", "/api/default/q", "x"); err != nil || status != 401 {
		t.Errorf("%d %s %v", status, text, err)
	}
	select {
	case got := <-polled:
		t.Errorf("a long poll ended before the delay was over: %s", got)
	default:
	}
	f.clock.Advance(delay)
	if got := <-polled; got != `{"deliveries":[]}true <nil>` {
		t.Errorf("the long poll ended with %s", got)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	var refused *net.OpError
	if _, _, _, err := call("GET", "/healthz", ""); !errors.As(err, &refused) {
		t.Errorf("it still listens: %v", err)
	}
}
