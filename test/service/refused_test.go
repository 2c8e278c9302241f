package service

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/dulymq/duly/internal/faultproxy"
	"github.com/dulymq/duly/internal/redistest"
)

// TestOversizedInputDoesNotReachTheStore checks that input that is too long or too much causes no
// request to the store, in either API (fault R4).
func TestOversizedInputDoesNotReachTheStore(t *testing.T) {
	t.Parallel()
	proxy := faultproxy.Redis(t, redistest.Single(t).Addr())
	s := serve(t, "redis://"+proxy.Addr())
	var store asked
	proxy.Inject(faultproxy.Fault{Times: -1, Before: store.note})
	s.call("GET", s.url+"/v1/default/queues", "") // caches the token
	many := func(item string, n int) string { return strings.TrimSuffix(strings.Repeat(item+",", n), ",") }
	queues := make([]string, 101)
	for i := range queues {
		queues[i] = fmt.Sprintf("q%d", i)
	}
	head := strings.Repeat("x", 20<<10)
	for _, c := range []struct {
		method, path, header, body string
		status                     int
	}{
		{"POST", "/v1/default/push", "", `{"jobs":[` + many(`{"queue":"q"}`, 1001) + `]}`, 413},
		{"POST", "/v1/default/push", "", `{"jobs":[` + many(`{"queue":"q","body":"`+strings.Repeat("x", 900<<10)+`"}`, 10) +
			`]}`, 413},
		{"POST", "/v1/default/reserve", "", `{"queues":["` + strings.Join(queues, `","`) + `"]}`, 400},
		{"POST", "/v1/default/reserve", "", `{"queues":["q"],"max":1001}`, 400},
		{"POST", "/v1/default/wait", "", `{"queues":["` + strings.Join(queues, `","`) + `"]}`, 400},
		{"POST", "/v1/default/settle", "",
			`{"outcomes":[` + many(`{"receipt":"q:0:01J0000000000000000000000A:1","as":"ack"}`, 1001) + `]}`, 413},
		{"POST", "/v1/default/extend", "", `{"receipts":[` + many(`"r"`, 1001) + `],"lease":"1s"}`, 413},
		{"GET", "/v1/default/queues?limit=1001", "", "", 400},
		{"GET", "/v1/default/queues?cursor=" + strings.Repeat("x", 9<<10), "", "", 413},
		{"GET", "/v1/default/queues", head, "", 431},
		{"GET", "/api/default/" + strings.Join(queues, ","), "", "", 400},
		{"GET", "/api/default/q?count=101", "", "", 400},
		{"GET", "/api/default/q/job/" + strings.Repeat("x", 9<<10), "", "", 414},
		{"GET", "/api/default/q", head, "", 431},
		{"PUT", "/api/default/q", "", strings.Repeat("x", 1<<20+1), 413},
		{"PUT", "/api/default/q/bulk", "", "[" + many("1", 65) + "]", 400},
		{"PUT", "/api/default/" + strings.Repeat("x", 300), "", "x", 400},
	} {
		var caused []string
		for range 20 { // the server polls the store by itself from time to time
			store.forget()
			if status := s.raw(t, c.method, c.path, c.header, c.body); status != c.status {
				t.Errorf("%s %.60s: %d, want %d", c.method, c.path, status, c.status)
			}
			if caused = store.requests(); len(caused) == 0 {
				break
			}
		}
		if len(caused) > 0 {
			t.Errorf("%s %.60s causes requests to the store: %s", c.method, c.path, caused)
		}
	}
}

// asked collects the requests of a server to its store. It skips those that the server makes
// several times per second: pings of its connections, and reads of the key that reports token
// changes.
type asked struct {
	mu   sync.Mutex
	what []string
}

func (a *asked) note(args []string) {
	if args[0] == "PING" || args[0] == "GET" && strings.HasSuffix(args[1], ":{tokens}:changes") {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.what = append(a.what, strings.Join(args[:min(3, len(args))], " "))
}

func (a *asked) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.what = nil
}

func (a *asked) requests() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.what)
}

// raw sends a request over a new connection and returns the status.
func (s *served) raw(t *testing.T, method, path, header, body string) (status int) {
	t.Helper()
	conn, err := net.Dial("tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nX-Token: %s\r\nX-Long: "+
		"%s\r\nContent-Length: %d\r\n\r\n%s",
		method, path, s.token, s.token, header, len(body), body)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}
