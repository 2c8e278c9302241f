package lmstfy_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/server"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/lmstfy"
)

// askAdmin sends a request to the admin address. headers are pairs, and may have Host.
func (p *play) askAdmin(method, target string, headers ...string) answer {
	p.t.Helper()
	req, err := http.NewRequest(method, p.admin.URL+target, strings.NewReader(`{"read":1,"interval":1}`))
	if err != nil {
		p.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
		req.Header.Set(headers[i], headers[i+1])
	}
	return do(req)
}

// C15.40, faults X1, X8, X18: the admin routes need a token with the right admin for *, or
// an account. Callers on the same machine need neither, except for the metrics, if the routes
// are open, the address is on the loopback and there are no accounts.
func TestAdminRoutesNeedAnAdmin(t *testing.T) {
	t.Parallel()
	account, err := auth.NewAccount("ada", "correct horse")
	if err != nil {
		t.Fatal(err)
	}

	for name, tt := range map[string]struct {
		change func(*server.Config)
		open   bool
	}{
		"open":             {func(*server.Config) {}, true},
		"by default":       {func(c *server.Config) { c.Lmstfy.Mode = "" }, false},
		"token":            {func(c *server.Config) { c.Lmstfy.Mode = server.LmstfyToken }, false},
		"with accounts":    {func(c *server.Config) { c.Settings.Accounts = []auth.Account{account} }, false},
		"a public address": {func(c *server.Config) { c.Listen.AdminAddr = "0.0.0.0:7778" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := open(t, inMemory(t), tt.change)
			api := lmstfy.Admin{Router: nil}
			for _, r := range api.Routes() {
				target := strings.NewReplacer("{namespace}", "ns", "{token}",
					"some-token-0123456789").Replace(r.Path) + "?status=enable&description=x"
				open := tt.open && r.Path != "/metrics"
				for who, c := range map[string]struct {
					headers []string
					may     bool
				}{
					"nobody": {nil, open},
					"operator": {[]string{"Authorization",
						"Bearer " + p.token("*", contract.RightAdmin)}, true},
					"operator, from afar": {[]string{"Authorization", "Bearer " + p.token("*", contract.RightAdmin),
						"Host", "duly.example"}, true},
					"admin of a namespace": {[]string{"Authorization",
						"Bearer " + p.token("ns", contract.RightAdmin)}, false},
					"a token of lmstfy's": {[]string{"X-Token", p.token("ns")}, open},
					"account": {[]string{"Authorization", "Basic YWRhOmNvcnJlY3QgaG9yc2U="}, open ||
						name == "with accounts"},
					"account of another":     {[]string{"Authorization", "Basic YWRhOndyb25nIGhvcnNl"}, open},
					"another name":           {[]string{"Host", "duly.example"}, false},
					"a name on the loopback": {[]string{"Host", "127.0.0.1.duly.example"}, false},
					"behind a proxy":         {[]string{"X-Forwarded-For", p.peer()}, false},
					"another site":           {[]string{"Origin", "http://duly.example"}, open && r.Method == "GET"},
					"another site, account": {[]string{"Authorization", "Basic YWRhOmNvcnJlY3QgaG9yc2U=",
						"Sec-Fetch-Site", "cross-site"}, r.Method == "GET" && (open || name == "with accounts")},
				} {
					a := p.askAdmin(r.Method, target, c.headers...)
					p.advance(time.Minute) // failed requests are counted
					refused := a.status == http.StatusUnauthorized || a.status == http.StatusForbidden
					if a.err != nil || refused == c.may || a.status == http.StatusTooManyRequests || a.status == 500 {
						t.Errorf("%s %s as %s: %d %s %v", r.Method, target, who, a.status, a.body, a.err)
					}
					if a.status == http.StatusUnauthorized &&
						(a.body != "" || a.header.Get("WWW-Authenticate") != `Basic realm="Authorization Required"`) {
						t.Errorf("%s %s as %s: %v %s", r.Method, target, who, a.header, a.body)
					}
				}
			}
		})
	}
}

// Fault X8, C15.40: without a token no route reaches the metrics or a token with the
// right admin, whether the admin routes are open or not.
func TestAdminTokensAndMetricsNeedAToken(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]server.LmstfyMode{"by default": "", "open": server.LmstfyOpen} {
		p := open(t, inMemory(t), func(c *server.Config) { c.Lmstfy.Mode = mode })
		admin := p.token("ns", contract.RightAdmin)
		hash, _ := auth.Hash(admin)
		id := wire.TokenID(hash)

		for _, one := range []string{id, admin} {
			for _, r := range (&lmstfy.Admin{}).Routes() {
				target := strings.NewReplacer("{namespace}", "ns", "{token}", one).Replace(r.Path) +
					"?description=x&status=enable"
				a := p.askAdmin(r.Method, target)
				if mode == "" && a.status != http.StatusUnauthorized || strings.Contains(a.body, id) ||
					strings.Contains(a.body, "duly_queue") {
					t.Errorf("%s: %s %s: %d %s", name, r.Method, r.Path, a.status, a.body)
				}
			}
		}

		if a := p.askAdmin("GET", "/metrics"); a.status != http.StatusUnauthorized {
			t.Errorf("%s: the metrics: %d", name, a.status)
		}
		left, err := p.registry.FindToken(t.Context(), hash)
		if err != nil || left.Limits != (contract.Limits{}) {
			t.Errorf("%s: the admin token is now %+v, %v", name, left, err)
		}
	}
}

// Fault X17: a request that only reads changes nothing in the store.
func TestReadingAdminRoutesChangesNothing(t *testing.T) {
	t.Parallel()
	p := open(t, inMemory(t), nil)
	p.send("PUT", "/api/ns/q", "x", "X-Token", p.token("ns"))
	var before string
	for range 2 {
		var all strings.Builder
		for _, target := range []string{"/info", "/pools", "/version", "/accesslog", "/limits", "/token/ns",
			"/token/ns/x/limit"} {
			all.WriteString(p.askAdmin("GET", target).body)
		}
		if before != "" && before != all.String() {
			t.Errorf("%s\nthen %s", before, all.String())
		}
		before = all.String()
	}
}

// If lmstfy's API is switched off, the server has none of its routes and metrics.
func TestSwitchedOffAPIHasNoRoutes(t *testing.T) {
	t.Parallel()
	p := open(t, inMemory(t), func(c *server.Config) { c.Lmstfy.Mode = server.LmstfyOff })
	for _, a := range []answer{p.send("GET", "/api/ns/q/size", ""), p.askAdmin("GET", "/pools"),
		p.askAdmin("POST", "/token/ns?description=x")} {
		if a.status != http.StatusNotFound || a.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%d %v %s", a.status, a.header, a.body)
		}
	}
	if a := p.send("GET", "/healthz", ""); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// The access log, if enabled, has successful requests, without tokens.
func TestAccessLogHasNoTokens(t *testing.T) {
	t.Parallel()
	p := open(t, inMemory(t), nil)
	token := p.token("ns")

	shown := func() int {
		p.send("GET", "/api/ns/q?token="+token, "")
		return strings.Count(p.log.String(), `"level":"INFO","msg":"request"`)
	}
	if n := shown(); n != 0 {
		t.Errorf("%d lines before", n)
	}
	p.askAdmin("POST", "/accesslog?status=enable")
	before := shown()
	if after := shown(); after != before+1 {
		t.Errorf("%d lines, then %d", before, after)
	}
	p.askAdmin("POST", "/accesslog?status=disable")
	before = shown()
	if after := shown(); after != before {
		t.Errorf("%d lines, then %d", before, after)
	}
	if strings.Contains(p.log.String(), token) {
		t.Error("it shows a token")
	}
}

// A deleted token is refused at once, and its waiting consumes end.
func TestDeletedTokenEndsItsConsumes(t *testing.T) {
	t.Parallel()
	for name, on := range stages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := open(t, on(t), nil)
			p.askAdmin("POST", "/token/ns?description=x&token=0123456789-0123456789")
			ended := make(chan answer, 1)
			go func() { ended <- p.send("GET", "/api/ns/q?timeout=600", "", "X-Token", "0123456789-0123456789") }()
			<-p.gate.waiting
			if a := p.askAdmin("DELETE", "/token/ns/0123456789-0123456789"); a.status != http.StatusNoContent {
				t.Fatal(a)
			}
			if a := <-ended; a.status != http.StatusUnauthorized || a.body != `{"error":"invalid token"}` {
				t.Errorf("the consume that waits: %d %s", a.status, a.body)
			}
			if a := p.send("GET", "/api/ns/q", "", "X-Token",
				"0123456789-0123456789"); a.status != http.StatusUnauthorized {
				t.Errorf("the next one: %d %s", a.status, a.body)
			}
		})
	}
}
