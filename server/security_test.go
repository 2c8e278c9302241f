package server

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/eventually"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/server/auth"
)

// beside starts another server with the same engine and the same tokens.
func (f *fixture) beside() *fixture {
	f.t.Helper()
	other := serve(f.t, func(c *Config) {
		c.Engine, c.Store.Registry, c.Store.Watcher, c.Store.Limiter, c.Store.Maintainer, c.Clock = f.cfg.Engine,
			f.engine, f.engine, f.engine, f.engine, f.clock
	})
	other.engine, other.clock = f.engine, f.clock
	for name, secret := range f.tokens {
		other.tokens[name] = secret
	}
	return other
}

// id returns the ID of one of the fixture's tokens.
func (f *fixture) id(caller string) string {
	f.t.Helper()
	hash, ok := auth.Hash(f.tokens[caller])
	if !ok {
		f.t.Fatalf("%s has no token", caller)
	}
	return wire.TokenID(hash)
}

// Fault X4, C14.39: both servers refuse a token that was revoked through one of them, and end its long
// polls. The clock does not advance, so the servers do not poll.
func TestTokenInUseIsRevokedOnBothServers(t *testing.T) {
	t.Parallel()
	var g *gate
	here := serve(t, func(c *Config) { g = watch(c.Engine); c.Engine = g })
	there := here.beside()
	polls := make(chan answer)

	for _, f := range []*fixture{here, there} {
		for _, poll := range []string{"/v1/default/reserve", "/v1/default/wait"} {
			go func() { polls <- f.send("POST", poll, `{"queues":["q"],"wait":"10m"}`, "consume") }()
			eventually.Receive(t, "a Wait to begin", g.waiting)
		}
	}

	others := make(chan answer)
	go func() {
		others <- there.send("POST", "/v1/default/reserve", `{"queues":["q"],"wait":"10m"}`, "admin")
	}()
	eventually.Receive(t, "a Wait to begin", g.waiting)
	if a := here.send("DELETE", "/admin/tokens/"+here.id("consume"), ""); a.status != 204 {
		t.Fatalf("%d %s", a.status, a.body)
	}

	for range 4 {
		if a := eventually.Receive(t, "the answer to a poll", polls); a.status != 401 ||
			a.err().Code != duly.CodeUnauthorized {
			t.Errorf("a poll with a revoked token: %d %s", a.status, a.body)
		}
	}
	for _, f := range []*fixture{here, there} {
		if a := f.send("GET", "/v1/default/queues", "", "consume"); a.status != 401 {
			t.Errorf("the revoked token: %d", a.status)
		}
	}
	here.push("q", "for the other")
	if a := eventually.Receive(t, "the answer to a poll", others); a.status != 200 ||
		!strings.Contains(a.body, "for the other") || !strings.Contains(a.body, `"attempt":1`) {
		t.Errorf("the poll of another token: %d %s", a.status, a.body)
	}
}

// C14.39: after a change of limits or rights, a token stays valid. Its long polls end empty, so
// that the next request is checked with the new settings.
func TestPollsOfAChangedTokenEndEmpty(t *testing.T) {
	t.Parallel()
	var g *gate
	f := serve(t, func(c *Config) { g = watch(c.Engine); c.Engine = g })
	polls := make(chan answer)
	for path, want := range map[string]string{"/v1/default/reserve": `{"deliveries":[]}`,
		"/v1/default/wait": `{"ready":false}`} {
		go func() { polls <- f.send("POST", path, `{"queues":["q"],"wait":"10m"}`, "consume") }()
		eventually.Receive(t, "a Wait to begin", g.waiting)
		if a := f.send("PATCH", "/admin/tokens/"+f.id("consume"),
			fmt.Sprintf(`{"limits":{"consume":%d,"per":"1h"}}`, len(want))); a.status != 204 {
			t.Fatalf("%d %s", a.status, a.body)
		}
		if a := eventually.Receive(t, "the answer to a poll", polls); a.status != 200 || a.body != want {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
}

// changing is an engine that changes a token after each Reserve.
type changing struct {
	contract.Engine
	change func()
}

func (c *changing) Reserve(ctx context.Context, p duly.ReserveParams) ([]duly.Delivery, error) {
	got, err := c.Engine.Reserve(ctx, p)
	c.change()
	return got, err
}

// C14.39: a poll ends empty too if its token changes just before it waits.
func TestPollOfJustChangedTokenEndsEmpty(t *testing.T) {
	t.Parallel()
	e := &changing{}
	f := serve(t, func(c *Config) { e.Engine, c.Engine = c.Engine, e })
	changes := 0
	e.change = func() {
		changes++
		if a := f.send("PATCH", "/admin/tokens/"+f.id("consume"),
			fmt.Sprintf(`{"limits":{"consume":%d,"per":"1h"}}`, 100+changes)); a.status != 204 {
			t.Errorf("%d %s", a.status, a.body)
		}
	}

	poll := make(chan answer, 1)
	go func() { poll <- f.send("POST", "/v1/default/reserve", `{"queues":["q"],"wait":"10m"}`, "consume") }()
	if a := eventually.Receive(t, "the answer to the poll", poll); a.status != 200 || a.body != `{"deliveries":[]}` ||
		changes != 1 {
		t.Errorf("%d %s after %d changes", a.status, a.body, changes)
	}
}

// lasting is an engine whose check and backup continue until their context ends.
type lasting struct {
	contract.Maintainer
	begun chan struct{}
}

func (l lasting) Check(ctx context.Context, _ contract.CheckParams) (contract.CheckReport, error) {
	l.begun <- struct{}{}
	<-ctx.Done()
	return contract.CheckReport{}, ctx.Err()
}

func (l lasting) Backup(ctx context.Context, w io.Writer) error {
	w.Write([]byte("half"))
	l.begun <- struct{}{}
	<-ctx.Done()
	return ctx.Err()
}

// Fault X4: a check and a backup end when their token is revoked.
func TestCheckAndBackupEndWithTheirToken(t *testing.T) {
	t.Parallel()
	l := lasting{begun: make(chan struct{})}
	f := serve(t, func(c *Config) { c.Store.Maintainer, c.Store.Backuper = l, l })

	for _, path := range []string{"/admin/check", "/admin/backup"} {
		secret, made, err := f.guard.Create(t.Context(), contract.Token{Namespace: "*", Rights: contract.RightAdmin})
		if err != nil {
			t.Fatal(err)
		}
		req, _ := http.NewRequest("POST", f.admin.URL+path, nil)
		req.Header.Set("Authorization", "Bearer "+secret)
		ended := make(chan string)
		go func() {
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				ended <- err.Error()
				return
			}
			defer resp.Body.Close()
			b, err := io.ReadAll(resp.Body)
			ended <- fmt.Sprintf("%s %v", b, err)
		}()
		<-l.begun
		if err := f.guard.Revoke(t.Context(), made.Hash); err != nil {
			t.Fatal(err)
		}
		if how := <-ended; !strings.Contains(how, "unauthorized") && !strings.Contains(how, "unexpected EOF") {
			t.Errorf("%s: %s", path, how)
		}
	}
}

// Fault X5, C14.41: a caller that guesses tokens gets 429 with Retry-After, even through a proxy that
// adds its own header after that of the client. Other callers are not delayed.
func TestGuesserBehindProxyGetsRetryAfter(t *testing.T) {
	t.Parallel()
	ada, err := auth.NewAccount("ada", "correct horse")
	if err != nil {
		t.Fatal(err)
	}
	f := serve(t, func(c *Config) {
		c.Settings.Accounts, c.Settings.Proxies = []auth.Account{ada},
			[]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	})
	sent := 0

	try := func(password, client string) answer {
		req, _ := http.NewRequest("GET", f.admin.URL+"/admin/namespaces", nil)
		req.SetBasicAuth("ada", password)
		// The header that the client chose.
		req.Header.Add("X-Forwarded-For", fmt.Sprintf("203.0.113.%d", sent%250))
		// The header line that the proxy adds.
		req.Header.Add("X-Forwarded-For", client)
		sent++
		return f.do(req)
	}

	for range 10 {
		if a := try("wrong horse", "198.51.100.1"); a.status != 401 {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	f.clock.Advance(1500 * time.Millisecond)
	a := try("wrong horse", "198.51.100.1")
	if a.status != 429 || a.err().Code != duly.CodeLimited || a.header.Get("Retry-After") != "59" ||
		a.header.Get("WWW-Authenticate") != "" {
		t.Errorf("%d %v %s", a.status, a.header, a.body)
	}
	if a := try("wrong horse", "203.0.113.77"); a.status != 401 {
		t.Errorf("another client: %d %s", a.status, a.body)
	}
	if a := try("correct horse", "198.51.100.1"); a.status != 200 {
		t.Errorf("the right password from the address that guessed: %d %s", a.status, a.body)
	}
	if a := f.send("GET", "/v1/default/queues", "", "produce"); a.status != 200 {
		t.Errorf("a token: %d %s", a.status, a.body)
	}
}

// Fault X7, C14.42: a secret in any part of a request is neither in the log nor in an answer.
func TestSecretsAreNotInLogsAndAnswers(t *testing.T) {
	t.Parallel()
	ada, err := auth.NewAccount("ada", "CANARYpassword")
	if err != nil {
		t.Fatal(err)
	}
	f := serve(t, func(c *Config) { c.Settings.Accounts = []auth.Account{ada} })
	const canary = "CANARY"
	secrets := []string{canary, base64.StdEncoding.EncodeToString([]byte("ada:CANARYpassword")),
		base64.StdEncoding.EncodeToString([]byte("ada:CANARYguess"))}

	for _, secret := range f.tokens {
		if secret != "" {
			secrets = append(secrets, secret)
		}
	}
	leaks := func(what, text string) {
		t.Helper()
		for _, s := range secrets {
			if strings.Contains(text, s) {
				t.Errorf("%s has the secret %s: %s", what, s, text)
			}
		}
	}

	send := func(base, method, path, authorization, body string) {
		t.Helper()
		req, err := http.NewRequest(method, base+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", authorization)
		for _, h := range []string{"X-Token", "Cookie", "Referer", "User-Agent", "X-Request-Id", "X-Forwarded-For"} {
			req.Header.Set(h, canary+f.tokens["operator"])
		}
		a := f.do(req)
		leaks(method+" "+path, a.body)
		for name, values := range a.header {
			leaks(name, strings.Join(values, " "))
		}
		f.clock.Advance(time.Minute)
	}

	good := "Bearer " + f.tokens["operator"]
	basic := func(credentials string) string {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(credentials))
	}
	for _, authorization := range []string{good, "Bearer " + f.tokens["revoked"], "Bearer " + f.tokens["unknown"],
		"Bearer duly_CANARY", f.tokens["operator"], "CANARY", basic("ada:CANARYguess"), basic("ada:CANARYpassword")} {
		send(f.api.URL, "GET", "/v1/default/queues", authorization, "")
		send(f.admin.URL, "GET", "/admin/namespaces", authorization, "")
	}
	send(f.api.URL, "GET", "/v1/default/queues?token="+f.tokens["operator"]+"&CANARY=CANARY", good, "")
	send(f.api.URL, "GET", "/CANARY/"+f.tokens["operator"], good, "")
	send(f.api.URL, "GET", "/v1//CANARY", good, "")
	send(f.api.URL, "CANARY", "/v1/default/push", good, "")
	send(f.api.URL, "GET", "/v1/"+f.tokens["consume"]+"/queues", "Bearer "+f.tokens["consume"], "")
	send(f.api.URL, "POST", "/v1/default/push", good,
		`{"jobs":[{"queue":"q","body":"CANARY","headers":{"authorization":"CANARY"}}]}`)
	send(f.api.URL, "POST", "/v1/default/push", good, `{"CANARY`)
	send(f.admin.URL, "DELETE", "/admin/tokens/"+f.tokens["consume"], good, "")
	send(f.admin.URL, "DELETE", "/admin/tokens/CANARY", good, "")
	send(f.admin.URL, "PATCH", "/admin/tokens/"+f.id("consume"), good, `{"limits":"CANARY"}`)
	send(f.admin.URL, "GET", "/admin/tokens", good, "")
	send(f.admin.URL, "GET", "/debug/pprof/CANARY", good, "")
	leaks("the log", f.log.String())
	if !strings.Contains(f.log.String(), f.id("operator")[:8]) {
		t.Error("the log does not say whose requests these are")
	}
}

// Fault X7: a token in the URL does not authorize a request.
func TestTokenInTheURLOpensNothing(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	for _, r := range f.apiRoutes {
		if r.Access != auth.Open {
			if a := f.send(r.Method, pathOf(r, "default")+"?token="+f.tokens["operator"], r.Doc.Example,
				"none"); a.status != 401 {
				t.Errorf("%s %s: %d", r.Method, r.Path, a.status)
			}
		}
	}
}

// Fault X8: only the health routes and the documents need no token. On the admin address, only the
// health routes.
func TestOnlyHealthAndDocumentsAreOpen(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	open := map[string]bool{"/healthz": true, "/readyz": true, "/openapi.json": true, "/docs": true,
		"/favicon.ico": true, "/{$}": true}
	for _, r := range f.apiRoutes {
		if open[r.Path] != (r.Access == auth.Open) {
			t.Errorf("%s %s needs %s", r.Method, r.Path, r.Access)
		}
	}
	for _, r := range f.adminRoutes {
		if health := r.Path == "/healthz" || r.Path == "/readyz"; health != (r.Access == auth.Open) {
			t.Errorf("%s %s needs %s", r.Method, r.Path, r.Access)
		}
	}
}

// Fault X8, C14.37: an account authorizes requests on the admin address, but not on the API.
func TestAccountsOpenOnlyTheAdminAddress(t *testing.T) {
	t.Parallel()
	ada, err := auth.NewAccount("ada", "correct horse")
	if err != nil {
		t.Fatal(err)
	}
	f := serve(t, func(c *Config) { c.Settings.Accounts = []auth.Account{ada} })

	send := func(url, method, password string, header ...string) answer {
		req, _ := http.NewRequest(method, url, nil)
		req.SetBasicAuth("ada", password)
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		f.clock.Advance(time.Minute)
		return f.do(req)
	}

	for _, r := range f.adminRoutes {
		if r.Method == "GET" && r.Access == auth.Operator {
			if a := send(f.admin.URL+pathOf(r, "default"), "GET", "correct horse"); a.status != 200 {
				t.Errorf("%s: %d %s", r.Path, a.status, a.body)
			}
		}
	}

	if a := send(f.admin.URL+"/admin/tokens", "GET", "wrong horse"); a.status != 401 ||
		len(a.header["Www-Authenticate"]) != 2 {
		t.Errorf("a wrong password: %d %v", a.status, a.header)
	}
	if a := send(f.api.URL+"/v1/default/queues", "GET", "correct horse"); a.status != 401 ||
		len(a.header["Www-Authenticate"]) != 1 {
		t.Errorf("an account at the API: %d %v", a.status, a.header)
	}

	// Fault X16: a browser adds the account to requests of any page.
	for _, header := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"},
		{"Origin", "https://evil.example"}} {
		if a := send(f.admin.URL+"/admin/check", "POST", "correct horse", header...); a.status != 403 {
			t.Errorf("%v: %d %s", header, a.status, a.body)
		}
	}
	if a := send(f.admin.URL+"/admin/check", "POST", "correct horse", "Sec-Fetch-Site",
		"same-origin"); a.status != 200 {
		t.Errorf("from its own page: %d %s", a.status, a.body)
	}
	if a := f.send("POST", "/admin/check", ""); a.status != 200 {
		t.Errorf("a token beside accounts: %d %s", a.status, a.body)
	}
}

// Fault X8, C14.38: a public admin address needs an operator: a token or an account.
func TestPublicAdminAddressNeedsAnOperator(t *testing.T) {
	t.Parallel()
	public := func(c *Config) { c.Listen.AdminAddr = "0.0.0.0:0" }
	s := bare(t, public)
	if _, _, err := s.Guard().Create(t.Context(),
		contract.Token{Namespace: "a", Rights: contract.RightAdmin}); err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(t.Context()); duly.CodeOf(err) != duly.CodeInvalid ||
		!strings.Contains(err.Error(), "admin_addr") || !strings.Contains(err.Error(), "account") {
		t.Errorf("with a token that is no operator's: %v", err)
	}
	if _, _, err := s.Guard().Create(t.Context(),
		contract.Token{Namespace: "*", Rights: contract.RightAdmin}); err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(t.Context()); err != nil {
		t.Errorf("with an operator's token: %v", err)
	}
	ada, err := auth.NewAccount("ada", "correct horse")
	if err != nil {
		t.Fatal(err)
	}
	s = bare(t, func(c *Config) { public(c); c.Settings.Accounts = []auth.Account{ada} })
	if err := s.Listen(t.Context()); err != nil {
		t.Errorf("with an account: %v", err)
	}

	if _, err := New(Config{
		Engine: s.cfg.Engine, Store: Store{Registry: s.cfg.Store.Registry},
		Settings: Settings{Accounts: []auth.Account{{}}},
	}); duly.CodeOf(err) != duly.CodeInvalid {
		t.Errorf("an account without a name: %v", err)
	}
}

// C14.36, fault X8: profiles are for operators, one at a time, and do not contain the command line.
func TestProfilesAreForOperatorsOnly(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)

	for path, want := range map[string]string{"goroutine?debug=1": "text/plain; charset=utf-8",
		"heap": "application/octet-stream", "allocs?debug=0": "application/octet-stream",
		"trace?seconds=0": "application/octet-stream"} {
		if a := f.send("GET", "/debug/pprof/"+path, ""); a.status != 200 || a.header.Get("Content-Type") != want ||
			a.body == "" {
			t.Errorf("%s: %d %v, %d bytes", path, a.status, a.header, len(a.body))
		}
	}
	for path, want := range map[string]int{"cmdline": 404, "nothing": 404, "goroutine?debug=3": 400,
		"profile?seconds=301": 400, "profile?seconds=x": 400, "profile?gc=1": 400} {
		if a := f.send("GET", "/debug/pprof/"+path, ""); a.status != want {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	first := make(chan answer)
	timers := f.clock.Timers()
	go func() { first <- f.send("GET", "/debug/pprof/profile?seconds=5", "") }()
	until(t, "it records", func() bool { return f.clock.Timers() > timers })
	if a := f.send("GET", "/debug/pprof/profile", ""); a.status != 409 {
		t.Errorf("a second one: %d %s", a.status, a.body)
	}
	f.clock.Advance(5 * time.Second)
	if a := <-first; a.status != 200 || a.body == "" {
		t.Errorf("%d, %d bytes", a.status, len(a.body))
	}
}
