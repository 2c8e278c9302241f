package service

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/dulymq/duly/internal/redistest"
)

// as returns the server with another token.
func (s *served) as(token string) *served {
	other := *s
	other.token = token
	return &other
}

// field returns the value of a string field in a response.
func field(t *testing.T, answer, name string) string {
	t.Helper()
	_, rest, ok := strings.Cut(answer, `"`+name+`":"`)
	value, _, closed := strings.Cut(rest, `"`)
	if !ok || !closed {
		t.Fatalf("no %s in %s", name, answer)
	}
	return value
}

// TestTwoServersOnOneRedisAgree runs two servers on one Redis as one service. A push to one wakes
// a waiter of the other. A job is leased once, and can be settled through either server and API.
// Tokens, their limits and their revocation apply to both.
func TestTwoServersOnOneRedisAgree(t *testing.T) {
	t.Parallel()
	redis := redistest.Single(t)
	here := serve(t, redis.URL())
	there := serve(t, redis.URL(), "-token=false").as(here.token)

	// Jobs.
	for i := range 20 {
		from, to := here, there
		if i%2 == 1 {
			from, to = there, here
		}
		p := to.poll(t, "q", 1)
		if status, answer, _ := from.call("POST", from.url+"/v1/ns/push",
			fmt.Sprintf(`{"jobs":[{"queue":"q","id":"job-%d"}]}`, i)); status != 200 {
			t.Fatalf("push: %d %s", status, answer)
		}
		got := p.next(t)
		if field(t, got, "job_id") != fmt.Sprintf("job-%d", i) {
			t.Errorf("the poll at the other server returned %s", got)
		}
		if _, answer, _ := from.call("POST", from.url+"/v1/ns/reserve", `{"queues":["q"]}`); answer != `{"deliveries":[]}` {
			t.Errorf("the job is leased twice: %s", answer)
		}
		if status, _, _ := from.call("DELETE", fmt.Sprintf("%s/api/ns/q/job/job-%d", from.url, i),
			""); status != http.StatusNoContent {
			t.Errorf("an ack at the other server: %d", status)
		}
		p.close()
	}
	here.publish(t, "q")
	_, answer, _ := there.call("POST", there.url+"/v1/ns/reserve", `{"queues":["q"]}`)
	ack := fmt.Sprintf(`{"outcomes":[{"receipt":%q,"as":"ack"}]}`, field(t, answer, "receipt"))
	if _, answer, _ := here.call("POST", here.url+"/v1/ns/settle", ack); answer != `{"results":[{"ok":true}]}` {
		t.Errorf("a settle at the other server: %s", answer)
	}
	if _, answer, _ := there.call("POST", there.url+"/v1/ns/settle", ack); !strings.Contains(answer, "lease_lost") {
		t.Errorf("a second settle: %s", answer)
	}

	// Tokens.
	_, made, _ := here.call("POST", here.admin+"/admin/tokens",
		`{"namespace":"ns","rights":["produce","consume"],"limits":{"produce":4,"per":"1h"}}`)
	id, token := field(t, made, "id"), field(t, made, "token")
	limited := 0
	for i := range 6 {
		s := []*served{here, there}[i%2].as(token)
		status, answer, header := s.call("POST", s.url+"/v1/ns/push", `{"jobs":[{"queue":"limited"}]}`)
		switch {
		case status == http.StatusTooManyRequests && header.Get("Retry-After") != "":
			limited++
		case status != 200:
			t.Errorf("%d %s", status, answer)
		}
	}
	if limited != 2 {
		t.Errorf("%d of 6 calls were over a limit of 4", limited)
	}
	p := there.hold(t, "other", token, 1)
	if status, answer, _ := here.call("DELETE", here.admin+"/admin/tokens/"+id, ""); status != http.StatusNoContent {
		t.Fatalf("revoke: %d %s", status, answer)
	}
	if got := p.next(t); !strings.HasPrefix(got, "401 ") {
		t.Errorf("a long poll at the other server ended with %s", got)
	}
	for _, s := range []*served{here.as(token), there.as(token)} {
		if status, _, _ := s.call("GET", s.url+"/v1/ns/queues", ""); status != http.StatusUnauthorized {
			t.Errorf("a revoked token: %d", status)
		}
	}
}
