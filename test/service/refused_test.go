package service

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/dulymq/duly/internal/redistest"
)

// R4: what is too long or too many costs no request to the store, whichever API
// is asked.
func TestWhatIsTooMuchNeverReachesTheStore(t *testing.T) {
	t.Parallel()
	redis := redistest.Single(t)
	s := serve(t, redis.URL())
	s.call("GET", s.url+"/v1/default/queues", "") // the token is known
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
		{"POST", "/v1/default/push", "", `{"jobs":[` + many(`{"queue":"q","body":"`+strings.Repeat("x", 900<<10)+`"}`, 10) + `]}`, 413},
		{"POST", "/v1/default/reserve", "", `{"queues":["` + strings.Join(queues, `","`) + `"]}`, 400},
		{"POST", "/v1/default/reserve", "", `{"queues":["q"],"max":1001}`, 400},
		{"POST", "/v1/default/wait", "", `{"queues":["` + strings.Join(queues, `","`) + `"]}`, 400},
		{"POST", "/v1/default/settle", "", `{"outcomes":[` + many(`{"receipt":"q:0:01J0000000000000000000000A:1","as":"ack"}`, 1001) + `]}`, 413},
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
		for range 200 { // now and then the server looks at the store by itself
			before := asked(redis)
			if status := s.raw(t, c.method, c.path, c.header, c.body); status != c.status {
				t.Errorf("%s %.60s: %d, want %d", c.method, c.path, status, c.status)
			}
			if caused = more(before, asked(redis)); len(caused) == 0 {
				break
			}
		}
		if len(caused) > 0 {
			t.Errorf("%s %.60s asks the store: %s", c.method, c.path, caused)
		}
	}
}

// asked is how often the store was asked for what, by command, as its statistics
// tell it. A server's connections ask several times a second whether somebody is
// there still: that is none of a request's doing, and neither is the question for
// the statistics.
func asked(redis *redistest.Server) map[string]string {
	calls := map[string]string{}
	for line := range strings.Lines(redis.Must("INFO", "commandstats").(string)) {
		command, rest, _ := strings.Cut(line, ":calls=")
		if command != "cmdstat_ping" && command != "cmdstat_info" {
			calls[command], _, _ = strings.Cut(rest, ",")
		}
	}
	return calls
}

// more lists the commands that were called between two looks.
func more(before, after map[string]string) (names []string) {
	for command, calls := range after {
		if before[command] != calls {
			names = append(names, command)
		}
	}
	return names
}

// raw sends a request over a connection of its own and tells the status.
func (s *served) raw(t *testing.T, method, path, header, body string) (status int) {
	t.Helper()
	conn, err := net.Dial("tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nX-Token: %s\r\nX-Long: %s\r\nContent-Length: %d\r\n\r\n%s",
		method, path, s.token, s.token, header, len(body), body)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}
