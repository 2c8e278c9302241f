package dashboard

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/logtest"
	"github.com/dulymq/duly/internal/model"
	"github.com/dulymq/duly/server/audit"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/dashboard/session"
	"github.com/dulymq/duly/server/failures"
	"github.com/dulymq/duly/server/native"
	"github.com/dulymq/duly/server/operations"
	"github.com/dulymq/duly/server/route"
)

// store is an engine with tokens.
type store interface {
	contract.Engine
	contract.Registry
}

// rig is a dashboard on an engine, with a token of each kind.
type rig struct {
	t      *testing.T
	engine store
	clock  *clock.Fake
	guard  *auth.Guard
	log    *logtest.Log
	server *httptest.Server
	tokens map[string]string
	hashes map[string][32]byte
	routes []route.Route

	targets   native.Push
	hosts     []contract.PushHost // the gates of HTTP push
	dashboard *Dashboard
	running   sync.Once // of the operations
	logger    *slog.Logger
	audit     *audit.Log
	dir       string       // of the audit log
	seen      int          // lines of the audit log that a test has read
	queues    int          // queues that a test has made
	receipt   duly.Receipt // of a delivery that a test keeps
}

// newRig returns a rig on the reference model.
func newRig(t *testing.T, changes ...func(*Config)) *rig {
	t.Helper()
	fake := clock.NewFake()
	return newRigOn(t, model.New(model.Config{Clock: fake}), fake, changes...)
}

func newRigOn(t *testing.T, engine store, fake *clock.Fake, changes ...func(*Config)) *rig {
	t.Helper()
	r := &rig{
		t: t, engine: engine, clock: fake, log: new(logtest.Log),
		tokens: map[string]string{}, hashes: map[string][32]byte{},
	}
	account, err := auth.NewAccount("ada", "lovelace-1815")
	if err != nil {
		t.Fatal(err)
	}
	watcher, _ := engine.(contract.Watcher)
	r.guard = auth.NewGuard(auth.Config{Registry: r.engine, Watcher: watcher, Clock: r.clock, Accounts: []auth.Account{account}})
	logger := slog.New(slog.NewJSONHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	r.dir = t.TempDir()
	if r.audit, err = audit.Open(audit.Config{Dir: r.dir, Clock: r.clock, Logger: logger}); err != nil {
		t.Fatal(err)
	}
	cfg := Config{
		Engine: r.engine, Surveyor: contract.SurveyorOf(r.engine), Explainer: contract.ExplainerOf(r.engine),
		Finder: contract.FinderOf(r.engine), KeyLister: contract.KeyListerOf(r.engine), Guard: r.guard,
		Clock: r.clock, Audit: r.audit, Version: "test", Key: session.NewKey(), Server: "host-1",
	}
	cfg.Scheduler, _ = engine.(duly.Scheduler)
	if _, ok := engine.(contract.Targeter); ok {
		r.targets = r.httpPush()
		cfg.Targets = r.targets.Of
	}
	for _, change := range changes {
		change(&cfg)
	}
	cfg.Operations, err = operations.New(operations.Config{Engine: cfg.Engine, Clock: r.clock, Audit: r.audit, Log: logger})
	if err != nil {
		t.Fatal(err)
	}
	d, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.routes, r.dashboard, r.logger = d.Routes(), d, logger
	r.serve()

	for name, token := range map[string]contract.Token{
		"produce": {Namespace: "shop", Rights: contract.RightProduce},
		"consume": {Namespace: "shop", Rights: contract.RightConsume},
		"both":    {Namespace: "shop", Rights: contract.RightProduce | contract.RightConsume},
		"admin":   {Namespace: "shop", Rights: contract.RightAdmin},
		"owner":   {Namespace: contract.AllNamespaces, Rights: contract.RightAdmin},
		"other":   {Namespace: "other", Rights: contract.RightAdmin},
		"revoked": {Namespace: "shop", Rights: contract.RightAdmin},
	} {
		secret, made, err := r.guard.Create(t.Context(), token)
		if err != nil {
			t.Fatal(err)
		}
		r.tokens[name], r.hashes[name] = secret, made.Hash
	}
	return r
}

// serve serves the routes of the rig.
func (r *rig) serve() {
	router := &route.Router{Guard: r.guard, Log: r.logger, Draining: r.t.Context()}
	r.server = httptest.NewServer(r.dashboard.Handler(router.Mount(r.routes), http.NotFoundHandler()))
	r.t.Cleanup(r.server.Close)
}

// push pushes a job and returns its ID.
func (r *rig) push(j duly.Job) string {
	r.t.Helper()
	j.Namespace = "shop"
	if j.Queue == "" {
		j.Queue = "mail"
	}
	results, err := r.engine.Push(r.t.Context(), []duly.Job{j})
	if err != nil || results[0].Err != nil {
		r.t.Fatal(err, results)
	}
	return results[0].ID
}

// browser is one browser: it keeps cookies and follows no redirect.
type browser struct {
	*rig
	client *http.Client
}

func (r *rig) browser() *browser {
	jar, err := cookiejar.New(nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return &browser{r, &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}}
}

// answer is a response with its whole body.
type answer struct {
	status int
	header http.Header
	body   string
}

// do sends a request. headers are pairs; Host sets the host.
func (b *browser) do(method, path, body string, headers ...string) answer {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.server.URL+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	if method == "POST" {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
	}
	resp, err := b.client.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(text)}
}

func (b *browser) get(path string) answer { b.t.Helper(); return b.do("GET", path, "") }

// post sends a form as a browser on the same site does.
func (b *browser) post(path string, form url.Values) answer {
	b.t.Helper()
	return b.do("POST", path, form.Encode(), "Sec-Fetch-Site", "same-origin")
}

// login begins a session with a token of the rig.
func (r *rig) login(token string) *browser {
	r.t.Helper()
	b := r.browser()
	if a := b.post("/ui/login", url.Values{"token": {r.tokens[token]}}); a.status != http.StatusSeeOther {
		r.t.Fatalf("the login of %s has the status %d", token, a.status)
	}
	return b
}

// C14.53, C14.54: a login opens the first page of the session's namespace. A logout ends it.
func TestSession(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b := r.browser()
	if a := b.get("/ui/n/shop/queues"); a.status != http.StatusSeeOther || a.header.Get("Location") != "/ui/login" {
		t.Fatalf("without a session: %d to %s", a.status, a.header.Get("Location"))
	}
	a := b.post("/ui/login", url.Values{"token": {" " + r.tokens["both"] + "\n"}})
	if a.header.Get("Location") != "/ui/n/shop" {
		t.Fatalf("the login goes to %q", a.header.Get("Location"))
	}
	cookie := a.header.Get("Set-Cookie")
	for _, part := range []string{"duly_ui_", "HttpOnly", "SameSite=Strict", "Max-Age=43200"} {
		if !strings.Contains(cookie, part) {
			t.Errorf("the cookie lacks %s: %s", part, cookie)
		}
	}
	if a := b.get("/ui/n/shop/queues"); a.status != 200 || a.header.Get("Cache-Control") != "no-store" {
		t.Fatalf("the page has the status %d and Cache-Control %s", a.status, a.header.Get("Cache-Control"))
	}
	if a := b.get("/ui"); a.header.Get("Location") != "/ui/n/shop" {
		t.Errorf("/ui goes to %q", a.header.Get("Location"))
	}

	if a := b.get("/ui?namespace=a%2Fb"); a.header.Get("Location") != "/ui/n/a%2Fb" {
		t.Errorf("another namespace goes to %q", a.header.Get("Location"))
	}
	if body := b.get("/ui/n/shop/queues").body; strings.Contains(body, `name="namespace"`) {
		t.Error("a session of one namespace can switch it")
	}
	if body := r.login("owner").get("/ui/n/shop/queues").body; !strings.Contains(body, `name="namespace" value="shop"`) {
		t.Error("a session of all namespaces cannot switch")
	}

	if a := b.post("/ui/logout", nil); a.header.Get("Location") != "/ui/login" {
		t.Errorf("the logout goes to %q", a.header.Get("Location"))
	}
	if a := b.get("/ui/n/shop/queues"); a.status != http.StatusSeeOther {
		t.Errorf("after the logout: %d", a.status)
	}
}

// C14.54: a session ends after 30 minutes without a request, and 12 h after its login.
func TestSessionEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	idle, busy := r.login("both"), r.login("both")
	for passed := time.Duration(0); passed < session.Lifetime-20*time.Minute; passed += 20 * time.Minute {
		r.clock.Advance(20 * time.Minute)
		if a := busy.get("/ui/n/shop/queues"); a.status != 200 {
			t.Fatalf("a session in use ends after %v: %d", passed, a.status)
		}
	}
	if a := idle.get("/ui/n/shop/queues"); a.status != http.StatusSeeOther {
		t.Errorf("an idle session opens the page: %d", a.status)
	}
	r.clock.Advance(20 * time.Minute)
	if a := busy.get("/ui/n/shop/queues"); a.status != http.StatusSeeOther {
		t.Errorf("a session of 12 h opens the page: %d", a.status)
	}
}

// P1: an account logs in with its password, as the owner. A failed login has one text for every cause, and ten of them
// from one address make further ones wait. A right token logs in even then.
func TestLogin(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b := r.browser()
	if a := b.post("/ui/login", url.Values{"name": {"ada"}, "password": {"lovelace-1815"}}); a.header.Get("Location") !=
		"/ui/n/default" {
		t.Errorf("the account goes to %q with %d", a.header.Get("Location"), a.status)
	}
	if a := b.get("/ui/n/any/queues"); a.status != 200 || !strings.Contains(a.body, "account ada") {
		t.Errorf("the account's page has the status %d", a.status)
	}
	// An account whose password changes has to log in again, as does one that is gone.
	changed, err := auth.NewAccount("ada", "countess-1815")
	if err != nil {
		t.Fatal(err)
	}
	r.guard.SetAccounts([]auth.Account{changed})
	if a := b.get("/ui/n/any/queues"); a.status != http.StatusSeeOther {
		t.Errorf("an account with another password opens the page: %d", a.status)
	}
	b.post("/ui/login", url.Values{"name": {"ada"}, "password": {"countess-1815"}})
	if a := b.get("/ui/n/any/queues"); a.status != 200 {
		t.Errorf("the account with its new password gets the status %d", a.status)
	}
	r.guard.SetAccounts(nil)
	if a := b.get("/ui/n/any/queues"); a.status != http.StatusSeeOther {
		t.Errorf("a removed account opens the page: %d", a.status)
	}

	b, wrong := r.browser(), map[string]bool{}
	for i := range 10 {
		form := url.Values{"token": {auth.NewSecret()}}
		if i%2 == 0 {
			form.Set("token", "no token at all")
		}
		a := b.post("/ui/login", form)
		if a.status != http.StatusUnauthorized {
			t.Fatalf("try %d has the status %d", i, a.status)
		}
		wrong[a.body] = true
	}
	if len(wrong) != 1 {
		t.Errorf("failed logins have %d texts", len(wrong))
	}
	if a := b.post("/ui/login", url.Values{"token": {"no"}}); a.status != http.StatusTooManyRequests ||
		a.header.Get("Retry-After") == "" {
		t.Errorf("the eleventh try has the status %d and Retry-After %q", a.status, a.header.Get("Retry-After"))
	}
	r.login("both")
}

// C14.56: a login code opens one session with the rights of its token, and a preview of its page uses nothing up. A
// used, old or wrong code counts as a failed login.
func TestLoginCodes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	code := func(name string) (page, text string) {
		grant, err := r.guard.Admit(t.Context(), r.hashes[name])
		if err != nil {
			t.Fatal(err)
		}
		page, expires := r.dashboard.NewLoginCode(grant)
		if until := r.clock.Now().Add(session.CodeLifetime); !expires.Equal(until) {
			t.Errorf("the code expires at %v, want %v", expires, until)
		}
		_, text, _ = strings.Cut(page, "?code=")
		return page, text
	}
	page, text := code("consume")
	b := r.browser()
	for range 2 {
		if a := b.get(page); a.status != 200 || !strings.Contains(a.body, `name="code" value="`+text+`"`) {
			t.Fatalf("the page of the code has the status %d: %s", a.status, a.body)
		}
	}
	if a := b.post("/ui/login", url.Values{"code": {text}}); a.header.Get("Location") != "/ui/n/shop" {
		t.Fatalf("the code goes to %q with %d", a.header.Get("Location"), a.status)
	}
	if a := b.get("/ui/n/shop/q/mail/ready"); a.status != http.StatusOK {
		t.Errorf("the session of a code has the status %d", a.status)
	}

	_, old := code("both")
	r.clock.Advance(session.CodeLifetime)
	for i := range 10 {
		a := r.browser().post("/ui/login", url.Values{"code": {[]string{text, old, "none"}[i%3]}})
		if a.status != http.StatusUnauthorized || !strings.Contains(a.body, "Run duly ui again") {
			t.Errorf("try %d has the status %d", i, a.status)
		}
	}
	if a := r.browser().post("/ui/login", url.Values{"code": {"none"}}); a.status != http.StatusTooManyRequests {
		t.Errorf("the eleventh try has the status %d", a.status)
	}
	_, fresh := code("both")
	if a := r.browser().post("/ui/login", url.Values{"code": {fresh}}); a.status != http.StatusSeeOther {
		t.Errorf("a good code has the status %d after failed tries", a.status)
	}
	// A token that is revoked after it has made a code opens nothing.
	_, late := code("revoked")
	if err := r.guard.Revoke(t.Context(), r.hashes["revoked"]); err != nil {
		t.Fatal(err)
	}
	if a := r.browser().post("/ui/login", url.Values{"code": {late}}); a.status != http.StatusUnauthorized {
		t.Errorf("a code of a revoked token has the status %d", a.status)
	}
}

// S2, C14.55: a form of another site changes nothing, nor one that names no site. The loopback serves no foreign host.
func TestOtherSites(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	form := url.Values{"token": {r.tokens["both"]}}.Encode()
	for name, headers := range map[string][]string{
		"Nothing":   nil,
		"CrossSite": {"Sec-Fetch-Site", "cross-site"},
		"SameSite":  {"Sec-Fetch-Site", "same-site"},
		"Origin":    {"Origin", "http://evil.example"},
		"SubDomain": {"Origin", "http://x.127.0.0.1"},
		"Null":      {"Origin", "null"},
		"Host":      {"Sec-Fetch-Site", "same-origin", "Host", "evil.example"},
		"HostPort":  {"Sec-Fetch-Site", "same-origin", "Host", "evil.example:7778"},
	} {
		if a := r.browser().do("POST", "/ui/login", form, headers...); a.status != http.StatusForbidden {
			t.Errorf("%s: a login has the status %d", name, a.status)
		}
		if a := r.login("both").do("POST", "/ui/logout", "", headers...); a.status != http.StatusForbidden {
			t.Errorf("%s: a logout has the status %d", name, a.status)
		}
	}
	if a := r.browser().do("GET", "/ui/login", "", "Host", "evil.example"); a.status != http.StatusForbidden {
		t.Errorf("a foreign host has the status %d", a.status)
	}
	if a := r.browser().do("GET", "/ui/login", "", "Host", "localhost:7778"); a.status != http.StatusOK {
		t.Errorf("localhost has the status %d", a.status)
	}
}

// S2: with ui.origin the pages work behind a proxy on the same machine, which passes its own host on. The cookie is for
// TLS then. Other hosts stay refused.
func TestOriginOfProxy(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.Origin = "https://duly.example.com" })
	form := url.Values{"token": {r.tokens["both"]}}.Encode()
	for name, tt := range map[string]struct {
		host, origin string
		want         int
	}{
		"HostPassed":   {"duly.example.com", "https://duly.example.com", http.StatusSeeOther},
		"HostReplaced": {"127.0.0.1:7778", "https://duly.example.com", http.StatusSeeOther},
		"OtherOrigin":  {"duly.example.com", "https://evil.example", http.StatusForbidden},
		"OtherHost":    {"evil.example", "https://duly.example.com", http.StatusForbidden},
	} {
		a := r.browser().do("POST", "/ui/login", form, "Host", tt.host, "Origin", tt.origin)
		if a.status != tt.want {
			t.Errorf("%s: a login has the status %d, want %d", name, a.status, tt.want)
		}
		if cookie := a.header.Get("Set-Cookie"); tt.want == http.StatusSeeOther &&
			(!strings.HasPrefix(cookie, "__Host-") || !strings.Contains(cookie, "Secure")) {
			t.Errorf("%s: the cookie is %s", name, cookie)
		}
	}
	for _, bad := range []string{"duly.example.com", "https://duly.example.com/ui", "ftp//x"} {
		cfg := r.dashboard.cfg
		cfg.Origin = bad
		if _, err := New(cfg); err == nil {
			t.Errorf("the origin %q is accepted", bad)
		}
	}
}

// S8: every answer has the headers that confine a page, errors included.
func TestHeaders(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b := r.login("produce")
	for _, path := range []string{"/ui", "/ui/login", "/ui/n/shop/queues", "/ui/n/shop/q/none", "/ui/n/shop/q/none/ready",
		"/ui/n/other/queues", "/ui/nothing", "/ui/", "/ui//x", "/ui/assets/x/app.css", "/ui/logout"} {
		h := b.get(path).header
		if !strings.HasPrefix(h.Get("Content-Security-Policy"), "default-src 'none'; script-src 'self';") ||
			!strings.Contains(h.Get("Content-Security-Policy"), "frame-ancestors 'none'") ||
			h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Referrer-Policy") != "no-referrer" ||
			h.Get("X-Frame-Options") != "DENY" || h.Get("Cross-Origin-Opener-Policy") != "same-origin" ||
			h.Get("Cross-Origin-Resource-Policy") != "same-origin" || h["Permissions-Policy"] == nil ||
			h.Get("Cache-Control") != "no-store" {
			t.Errorf("%s has the headers %v", path, h)
		}
	}
}

// G1: an asset is compressed and never expires.
func TestAssets(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	page := r.browser().get("/ui/login").body
	_, rest, _ := strings.Cut(page, `<link rel="stylesheet" href="`)
	style, _, _ := strings.Cut(rest, `"`)
	a := r.browser().get(style) // Go's client unpacks gzip
	if a.status != 200 || !strings.Contains(a.body, "color-scheme") ||
		!strings.Contains(a.header.Get("Cache-Control"), "immutable") {
		t.Errorf("%q has the status %d and the headers %v", style, a.status, a.header)
	}
}

// S3, G16: hostile texts appear as text.
func TestHostileTexts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b := r.login("both")
	for i, text := range hostileTexts {
		id := r.push(duly.Job{
			Body: []byte(text), OrderKey: text, Merge: duly.Merge{Key: text, Mode: duly.MergeKeep},
			Headers: map[string]string{"x": text},
		})
		d, err := r.engine.Reserve(t.Context(), duly.ReserveParams{Namespace: "shop", Queues: []string{"mail"}, Max: 1})
		if err != nil || len(d) != 1 {
			t.Fatal(d, err)
		}
		if _, err := r.engine.Settle(t.Context(), "shop", []duly.SettleRequest{
			{Receipt: d[0].Receipt, As: duly.Bury, Error: text},
		}); err != nil {
			t.Fatal(err)
		}
		r.put(duly.Schedule{
			Name: "nightly", Spec: "@daily", Template: duly.Job{Body: []byte(text), Headers: map[string]string{"x": text}, OrderKey: text},
		})
		r.push(duly.Job{Queue: "lane", OrderKey: text})
		waits := r.push(duly.Job{Queue: "lane", OrderKey: text})
		r.clock.Advance(5 * time.Second)
		for _, page := range []string{
			"/ui/n/shop/q/lane/keys", "/ui/n/shop/q/lane/keys?key=" + url.QueryEscape(text), "/ui/n/shop/q/lane/j/" + waits,
			"/ui/n/shop/find?q=" + url.QueryEscape(text), "/ui/n/shop/find?q=" + url.QueryEscape("key:"+text),
			nightly, "/ui/n/shop/set/schedule?queue=reports&name=nightly", "/ui/n/shop/schedules",
			"/ui/n/shop/q/mail/dead", "/ui/n/shop/q/mail/j/" + id, "/ui/n/shop/dead",
			"/ui/n/shop/q/mail/dead?fp=" + failures.Fingerprint(text), "/ui/n/shop/dead?fp=" + failures.Fingerprint(text),
		} {
			a := b.get(page)
			if a.status != 200 || strings.ContainsAny(text, `<"'`) && strings.Contains(a.body, text) {
				t.Errorf("case %d: %s has the status %d, or %q as markup", i, page, a.status, text)
			}
		}
	}
}

// P6.2: numbers in a body appear as they were pushed. A long body appears in part, bytes in hexadecimal.
func TestBodies(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b := r.login("both")
	for _, tt := range []struct{ body, want string }{
		{`{"n":9007199254740993,"e":1e400}`, `{&#34;n&#34;:9007199254740993,&#34;e&#34;:1e400}`},
		{strings.Repeat("x", 1<<20), "1048576 bytes, the first 16384 of them."},
		{"\xff\x00", "00000000  ff 00"},
		{"", "Empty."},
	} {
		id := r.push(duly.Job{Body: []byte(tt.body)})
		a := b.get("/ui/n/shop/q/mail/j/" + id)
		if a.status != 200 || !strings.Contains(a.body, tt.want) || len(a.body) > 64<<10 {
			t.Errorf("the page with %.40q has the status %d, %d bytes, and no %q", tt.body, a.status, len(a.body), tt.want)
		}
	}
}

// P3, P4, P5: the lists show every queue and job once, over all pages.
func TestLists(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const jobs = 250
	for range jobs {
		r.push(duly.Job{Delay: time.Hour})
	}
	b := r.login("both")
	queues := b.get("/ui/n/shop/queues").body
	if strings.Count(queues, `href="/ui/n/shop/q/mail"`) != 1 || !strings.Contains(queues, ">250<") {
		t.Error("the list of queues lacks mail, or its size")
	}
	queue := b.get("/ui/n/shop/q/mail").body
	if !strings.Contains(queue, "Every job is accounted for: 250 pushed = 0 ended + 250 stored.") {
		t.Error("the queue's counters do not account for its jobs")
	}

	seen, pages := map[string]int{}, 0
	for page := "/ui/n/shop/q/mail/delayed"; page != ""; pages++ {
		body := b.get(page).body
		for _, part := range strings.Split(body, `href="/ui/n/shop/q/mail/j/`)[1:] {
			id, _, _ := strings.Cut(part, `"`)
			seen[id]++
		}
		_, next, more := strings.Cut(body, `</a> <a href="`)
		if pages == 0 {
			_, next, more = strings.Cut(body, `<p> <a href="`)
		}
		page, _, _ = strings.Cut(next, `"`)
		if !more {
			page = ""
		}
	}
	if len(seen) != jobs || pages != 3 {
		t.Errorf("%d pages show %d of %d jobs", pages, len(seen), jobs)
	}
}

// P3, P5: the list of queues is filtered by a part of the name and sorted by a column, largest first. An ID leads to its
// job.
func TestFilters(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for queue, n := range map[string]int{"mail.in": 1, "mail.out": 3, "orders": 2} {
		for range n {
			r.push(duly.Job{Queue: queue, Delay: time.Hour})
		}
	}
	b := r.login("both")
	for query, want := range map[string]string{
		"":                                "mail.in mail.out orders",
		"?filter=mail":                    "mail.in mail.out",
		"?sort=delayed":                   "mail.out orders mail.in",
		"?sort=delayed&filter=.":          "mail.out mail.in",
		"?sort=oldest+ready":              "mail.in mail.out orders",
		"?sort=none&filter=%3Cb%3E":       "",
		"?filter=mail&sort=name&cursor=m": "mail.in mail.out",
	} {
		body := b.get("/ui/n/shop/queues" + query).body
		var names []string
		for _, part := range strings.Split(body, `<tr data-queue="`)[1:] {
			name, _, _ := strings.Cut(part, `"`)
			names = append(names, name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s shows %q, want %q", query, got, want)
		}
		if fresh := strings.Contains(body, `id="fresh"`); fresh != (!strings.Contains(query, "filter")) {
			t.Errorf("%s announces new queues: %v", query, fresh)
		}
	}
	for query, want := range map[string]string{
		"?id=a+b": "/ui/n/shop/q/mail.in/j/a%20b", "": "/ui/n/shop/q/mail.in", "?id=..%2Fx": "/ui/n/shop/q/mail.in/j/..%2Fx",
	} {
		if got := b.get("/ui/n/shop/q/mail.in/find" + query).header.Get("Location"); got != want {
			t.Errorf("%s goes to %q, want %q", query, got, want)
		}
	}
}

// An error has the page of its code, with the status of the API.
func TestProblems(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b := r.login("both")
	r.push(duly.Job{})
	for page, want := range map[string]struct {
		status int
		code   duly.Code
	}{
		"/ui/n/shop/q/mail/j/none":            {404, duly.CodeNotFound},
		"/ui/n/shop/q/mail/strange":           {404, duly.CodeNotFound},
		"/ui/n/shop/q/mail/ready?cursor=%3Cb": {400, duly.CodeInvalid},
		"/ui/n/other/queues":                  {403, duly.CodeForbidden},
		"/ui/strange":                         {404, duly.CodeNotFound},
	} {
		a := b.get(page)
		if a.status != want.status || !strings.Contains(a.body, "<code>"+string(want.code)+"</code>") {
			t.Errorf("%s has the status %d, want %d and the code %s", page, a.status, want.status, want.code)
		}
	}
}
