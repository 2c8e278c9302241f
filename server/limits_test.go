package server

import (
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
)

// C4.84, C13.8, C14.40: all servers count the calls of a token together. Beyond the limit, a call
// is answered 429 with the time to wait, before its body is read.
func TestLimitOfTokenAppliesOnAllServers(t *testing.T) {
	t.Parallel()
	here := serve(t, nil)
	there := here.beside()
	if a := here.send("PATCH", "/admin/tokens/"+here.id("admin"),
		`{"limits":{"produce":3,"consume":2,"per":"1m"}}`); a.status != 204 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	const push, take = `{"jobs":[{"queue":"q"},{"queue":"q"},{"queue":"q"}]}`, `{"queues":["q"],"max":5}`
	until(t, "the other server knows", func() bool {
		p, err := there.engine.FindToken(t.Context(), hashOfID(t, here.id("admin")))
		return err == nil && p.Limits.Produce == 3
	})

	for i, f := range []*fixture{here, there, here} {
		if a := f.send("POST", "/v1/default/push", push, "admin"); a.status != 200 {
			t.Errorf("push %d: %d %s", i, a.status, a.body)
		}
	}
	here.clock.Advance(10500 * time.Millisecond)

	for _, f := range []*fixture{here, there} {
		for _, body := range []string{push, `{"no JSON`} {
			a := f.send("POST", "/v1/default/push", body, "admin")
			if a.status != 429 || a.err().Code != duly.CodeLimited || a.header.Get("Retry-After") != "50" ||
				a.err().RetryAfter != 49500*time.Millisecond {
				t.Errorf("a push too many: %d %v %s", a.status, a.header, a.body)
			}
		}
	}

	if n := here.sizes("q").Ready; n != 9 {
		t.Errorf("%d jobs were pushed, want 9: calls are counted, not jobs", n)
	}
	for i, f := range []*fixture{here, there} {
		if a := f.send("POST", "/v1/default/reserve", take, "admin"); a.status != 200 {
			t.Errorf("reserve %d: %d %s", i, a.status, a.body)
		}
	}
	if a := here.send("POST", "/v1/default/reserve", take, "admin"); a.status != 429 ||
		a.header.Get("Retry-After") != "60" {
		t.Errorf("a reserve too many: %d %v", a.status, a.header)
	}

	for _, free := range []string{
		`POST /wait {"queues":["q"]}`, `POST /settle {"outcomes":[]}`, `POST /extend {"receipts":[],"lease":"1s"}`,
		`GET /queues`, `GET /queues/q/jobs?state=ready`, `PATCH /queues/q {"max_jobs":100}`,
	} {
		method, rest, _ := strings.Cut(free, " ")
		path, body, _ := strings.Cut(rest, " ")
		if a := there.send(method, "/v1/default"+path, body, "admin"); a.status/100 != 2 {
			t.Errorf("%s is not limited: %d %s", free, a.status, a.body)
		}
	}

	if a := there.send("POST", "/v1/default/push", push, "produce"); a.status != 200 {
		t.Errorf("another token: %d %s", a.status, a.body)
	}
	here.clock.Advance(49500 * time.Millisecond)
	if a := there.send("POST", "/v1/default/push", push, "admin"); a.status != 200 {
		t.Errorf("in the next window: %d %s", a.status, a.body)
	}
}

func hashOfID(t *testing.T, id string) (hash [32]byte) {
	t.Helper()
	for i := range hash {
		for _, c := range []byte(id[2*i : 2*i+2]) {
			hash[i] = hash[i]<<4 | byte(strings.IndexByte("0123456789abcdef", c))
		}
	}
	return hash
}

// C14.35: a removed limit ends at once, also in the current window.
func TestRemovedLimitEndsAtOnce(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	path := "/admin/tokens/" + f.id("produce")
	push := func() int {
		return f.send("POST", "/v1/default/push", `{"jobs":[{"queue":"q"}]}`, "produce").status
	}
	if a := f.send("PATCH", path, `{"limits":{"produce":1,"per":"366d"}}`); a.status != 204 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if first, second := push(), push(); first != 200 || second != 429 {
		t.Errorf("%d, %d", first, second)
	}
	if a := f.send("PATCH", path, `{"limits":{}}`); a.status != 204 || push() != 200 {
		t.Errorf("%d %s, and still limited", a.status, a.body)
	}

	for body, want := range map[string]int{`{}`: 400, `{"limits":{"produce":1}}`: 400,
		`{"limits":{"produce":0,"per":"1m"}}`: 400, `{"limits":{"per":"1m"}}`: 400,
		`{"limits":{"produce":1,"per":"1ms"}}`: 400, `{"limits":{"produce":1,"per":"1m","x":1}}`: 400,
		`{"rights":["admin"]}`: 400, ``: 400} {
		if a := f.send("PATCH", path, body); a.status != want {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
	}

	if a := f.send("PATCH", "/admin/tokens/"+strings.Repeat("0", 64), `{"limits":{}}`); a.status != 404 {
		t.Errorf("nobody's limits: %d", a.status)
	}
}

// If the engine does not count calls, a token with a limit is refused.
func TestLimitsWithoutLimiterAreRefused(t *testing.T) {
	t.Parallel()
	f := serve(t, func(c *Config) { c.Store.Limiter = nil })
	if a := f.send("PATCH", "/admin/tokens/"+f.id("produce"), `{"limits":{"produce":1,"per":"1m"}}`); a.status != 501 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := f.send("POST", "/admin/tokens",
		`{"namespace":"a","rights":["produce"],"limits":{"produce":1,"per":"1m"}}`); a.status != 501 {
		t.Errorf("%d %s", a.status, a.body)
	}
}
