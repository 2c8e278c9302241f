package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	_ "time/tzdata" // embeds the time zones of schedules

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/eventually"
	"github.com/dulymq/duly/internal/model"
	"github.com/dulymq/duly/server/audit"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/dashboard"
	uisession "github.com/dulymq/duly/server/dashboard/session"
	"github.com/dulymq/duly/server/failures"
	"github.com/dulymq/duly/server/operations"
	"github.com/dulymq/duly/server/route"
)

// dashboardServer serves the dashboard of an engine of the reference model. The clock of the engine moves only when a
// test moves it.
type dashboardServer struct {
	*httptest.Server
	t      *testing.T
	clock  *clock.Fake
	engine *model.Engine
	token  string
	// operations run until the end of the test.
	operations *operations.Manager
	// down makes the surveys of the engine fail. streams counts the open streams.
	down    atomic.Bool
	streams atomic.Int64
	// gate is that of the host of a push target.
	gate atomic.Pointer[contract.PushHost]
}

func newDashboardServer(t *testing.T) *dashboardServer {
	t.Helper()
	fake := clock.NewFake()
	s := &dashboardServer{t: t, clock: fake, engine: model.New(model.Config{Clock: fake, Manual: true})}
	guard := auth.NewGuard(auth.Config{Registry: s.engine, Clock: fake})
	log := slog.New(slog.DiscardHandler)
	lines, err := audit.Open(audit.Config{Clock: fake, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	s.operations, err = operations.New(operations.Config{Engine: s.engine, Clock: fake, Audit: lines, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	go s.operations.Run(ctx)
	t.Cleanup(end)
	d, err := dashboard.New(dashboard.Config{
		Engine: s.engine, Surveyor: s, Scheduler: s.engine, Explainer: s.engine, Targets: s.pushTargets(),
		Finder: s.engine, KeyLister: s.engine, Guard: guard,
		Clock: fake, Audit: lines, Version: "v1.0.0", Key: uisession.NewKey(), Label: "staging", Color: "orange",
		Operations: s.operations, Server: "host-1",
	})
	if err != nil {
		t.Fatal(err)
	}
	s.token, _, err = guard.Create(t.Context(), contract.Token{
		Namespace: contract.AllNamespaces, Rights: contract.RightAdmin, Description: "test",
	})
	if err != nil {
		t.Fatal(err)
	}
	router := &route.Router{Guard: guard, Log: log, Draining: context.Background()}
	pages := d.Handler(router.Mount(d.Routes()), http.NotFoundHandler())
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/live") {
			s.streams.Add(1)
			defer s.streams.Add(-1)
		}
		pages.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	s.fill()
	return s
}

// fill pushes jobs in every state, some with hostile texts.
func (s *dashboardServer) fill() {
	s.t.Helper()
	for i, queue := range []string{"emails", "orders.invoices", "thumbnails", strings.Repeat("a-long-name.", 10) + "x"} {
		for n := range 8 + 40*i {
			s.push(duly.Job{Queue: queue, ID: fmt.Sprintf("job-%d", n), Body: []byte(`{"to": "ada@example.com"}`)})
		}
	}
	for n := range 3 {
		s.push(duly.Job{Queue: "emails", ID: fmt.Sprint("later-", n), Delay: time.Hour, Priority: n})
	}
	s.push(duly.Job{
		Queue: "emails", ID: "full", Body: []byte(`<script>alert(1)</script>` + strings.Repeat("{\"x\": 1}", 200)),
		OrderKey: "customer-4711", Headers: map[string]string{"trace-parent": "00-1", "x": `"><img src=x onerror=alert(1)>`},
	})
	for range 4 {
		d, err := s.engine.Reserve(s.t.Context(), duly.ReserveParams{Queues: []string{"emails"}, Max: 1})
		if err != nil || len(d) != 1 {
			s.t.Fatal(d, err)
		}
		s.settle(duly.SettleRequest{Receipt: d[0].Receipt, As: duly.Bury,
			Error: "dial tcp 10.1.2.3:25: connect: connection refused\nafter 30 s and 3 tries"})
	}
	if _, err := s.engine.Reserve(s.t.Context(), duly.ReserveParams{Queues: []string{"emails"}, Max: 2}); err != nil {
		s.t.Fatal(err)
	}
	if err := s.engine.Pause(s.t.Context(), duly.Q("thumbnails")); err != nil {
		s.t.Fatal(err)
	}
	s.lane()
	s.batch()
	for _, p := range []duly.Schedule{
		{Name: "nightly", Spec: "30 2 * * 1-5", Zone: "Europe/Berlin", Owner: "billing", Template: duly.Job{Body: []byte("<b>")}},
		{Name: "weekly", Spec: "@weekly"},
	} {
		if _, err := s.engine.PutSchedule(s.t.Context(), duly.Q("emails"), p); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := s.engine.PauseSchedule(s.t.Context(), duly.Q("emails"), "weekly"); err != nil {
		s.t.Fatal(err)
	}
}

// lane pushes jobs of one order key into a queue of another namespace. The first one waits for a retry.
func (s *dashboardServer) lane() {
	s.t.Helper()
	for _, id := range []string{"holder", "second", "third"} {
		s.push(duly.Job{Namespace: "lanes", Queue: "orders", ID: id, OrderKey: "customer 4711/ä"})
	}
	d, err := s.engine.Reserve(s.t.Context(), duly.ReserveParams{Namespace: "lanes", Queues: []string{"orders"}, Max: 1})
	if err != nil || len(d) != 1 {
		s.t.Fatal(d, err)
	}
	results, err := s.engine.Settle(s.t.Context(), "lanes", []duly.SettleRequest{
		{Receipt: d[0].Receipt, As: duly.Nack, Delay: new(10 * time.Minute), Error: "timeout"},
	})
	if err != nil || results[0] != nil {
		s.t.Fatal(err, results)
	}
}

// batch pushes jobs into a queue of another namespace and starts operations on them. The last one is paused.
func (s *dashboardServer) batch() {
	s.t.Helper()
	for n := range 3 {
		s.push(duly.Job{Namespace: "batch", Queue: "emails", ID: fmt.Sprint("job-", n), Delay: time.Hour})
	}
	for _, n := range []contract.NewOperation{
		{Kind: "delete", Queue: "emails", IDs: []string{"job-0", "none"}}, {Kind: "promote", Queue: "emails", Rate: 0.001},
	} {
		o, err := s.operations.Start("batch", n, operations.Actor{Caller: `account <b>ada</b>`})
		if err == nil && n.Rate > 0 {
			_, err = s.operations.Pause(s.t.Context(), "batch", o.ID, "account ada")
		}
		if err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *dashboardServer) push(j duly.Job) {
	s.t.Helper()
	results, err := s.engine.Push(s.t.Context(), []duly.Job{j})
	if err != nil || results[0].Err != nil {
		s.t.Fatal(err, results)
	}
}

func (s *dashboardServer) settle(r duly.SettleRequest) {
	s.t.Helper()
	results, err := s.engine.Settle(s.t.Context(), duly.DefaultNamespace, []duly.SettleRequest{r})
	if err != nil || results[0] != nil {
		s.t.Fatal(err, results)
	}
}

// login begins a session by the form.
func (s *dashboardServer) login(b *tab) {
	b.t.Helper()
	b.open(s.URL + "/ui/login")
	b.submit(fmt.Sprintf("document.querySelector('[name=token]').value = %q; "+
		"document.querySelector('.login button').click()", s.token))
	b.waitFor("document.querySelector('h1').textContent === 'Overview'")
}

// list opens the list of queues, and waits until it is live.
func (s *dashboardServer) list(b *tab) {
	b.t.Helper()
	s.login(b)
	b.open(s.URL + "/ui/n/default/queues")
	s.watched(b)
}

// remember opens the overview some times, so that the charts have points.
func (s *dashboardServer) remember(b *tab) {
	b.t.Helper()
	for range 4 {
		s.clock.Advance(10 * time.Second)
		s.push(duly.Job{Queue: "thumbnails"})
		b.open(s.URL + "/ui/n/default")
	}
}

// submit runs a script that leaves the page, and waits for the next page.
func (b *tab) submit(script string) {
	b.t.Helper()
	eval[chromedp.Void](b, "window.left = true; "+script+"; undefined")
	b.waitFor("!window.left && document.readyState === 'complete'")
}

// shownPage is a page in one state.
type shownPage struct {
	name, path string
	// open is a script that leads from the path to the page.
	open string
	// failing is set if the answer has the status of an error, which Chromium reports.
	failing bool
}

// sessionPages are the pages behind the login: full, empty and with an error.
var sessionPages = []shownPage{
	{name: "overview", path: "/n/default?range=15min"},
	{name: "overview-empty", path: "/n/empty"},
	{name: "queues", path: "/n/default/queues"},
	{name: "queues-filtered", path: "/n/default/queues?filter=e&sort=dead"},
	{name: "queues-empty", path: "/n/empty/queues"},
	{name: "queues-error", path: "/n/default/queues?cursor=bad", failing: true},
	{name: "queue", path: "/n/default/q/emails"},
	{name: "queue-paused", path: "/n/default/q/thumbnails"},
	{name: "queue-error", path: "/n/default/q/none", failing: true},
	{name: "dead", path: "/n/default/q/emails/dead"},
	{name: "groups", path: "/n/default/dead"},
	{name: "groups-empty", path: "/n/empty/dead"},
	{name: "groups-error", path: "/n/default/dead?fp=x", failing: true},
	{name: "group", path: "/n/default/dead?fp=" + refused},
	{name: "group-queue", path: "/n/default/q/emails/dead?fp=" + refused},
	{
		name: "start-group", path: "/n/default/q/emails/dead?fp=" + refused,
		open: `document.querySelector('[href*="kind=requeue"]').click()`,
	},
	{name: "delayed", path: "/n/default/q/emails/delayed?select=all"},
	{name: "leased", path: "/n/default/q/emails/leased"},
	{name: "ready-pages", path: "/n/default/q/thumbnails/ready"},
	{name: "ready-where", path: "/n/default/q/thumbnails/ready?where=priority%3A0"},
	{name: "ready-where-error", path: "/n/default/q/thumbnails/ready?where=priority", failing: true},
	{name: "done-empty", path: "/n/default/q/emails/done"},
	{name: "job", path: "/n/default/q/emails/j/full"},
	{name: "job-dead", path: "/n/default/q/emails/j/job-1"},
	{name: "keys", path: "/n/lanes/q/orders/keys"},
	{name: "keys-empty", path: "/n/default/q/emails/keys?prefix=none"},
	{name: "key", path: "/n/lanes/q/orders/keys?key=customer+4711%2F%C3%A4"},
	{name: "key-error", path: "/n/lanes/q/orders/keys?key=none", failing: true},
	{name: "find", path: "/n/default/find?q=e"},
	{name: "find-key", path: "/n/lanes/find?q=key%3Acustomer+4711%2F%C3%A4"},
	{name: "find-nothing", path: "/n/empty/find?q=nothing"},
	{name: "job-blocked", path: "/n/lanes/q/orders/j/third"},
	{name: "job-error", path: "/n/default/q/emails/j/none", failing: true},
	{
		name: "ask-delete", path: "/n/default/q/emails/dead?select=all",
		open: `document.querySelector('[formaction$="/delete"]').click()`,
	},
	{
		name: "start-purge", path: "/n/default/q/emails/dead",
		open: `document.querySelector('[href*="kind=purge"]').click()`,
	},
	{
		name: "start-refused", path: "/n/default/q/emails/start?kind=promote", failing: true,
		open: `document.querySelector('[name=queue]').value = 'e'; document.querySelector('.push button').click()`,
	},
	{
		name: "ask-destroy", path: "/n/default/q/emails",
		open: `document.querySelector('[action$="/destroy"] button').click()`,
	},
	{
		name: "result", path: "/n/default/q/emails",
		open: `document.querySelector('[action$="/pause"] button').click()`,
	},
	{name: "push", path: "/n/default/q/emails/push"},
	{name: "push-copy", path: "/n/default/q/emails/push?copy=full"},
	{
		name: "push-refused", path: "/n/default/q/emails/push", failing: true,
		open: `document.querySelector('[name=delay]').value = 'soon'; document.querySelector('.push button').click()`,
	},
	{name: "settings", path: "/n/default/q/emails/settings"},
	{
		name: "settings-ask", path: "/n/default/q/emails/settings",
		open: `document.querySelector('[name=max_leased]').value = '1'; document.querySelector('.push button').click()`,
	},
	{
		name: "settings-refused", path: "/n/default/q/emails/settings", failing: true,
		open: `document.querySelector('[name=rate]').value = 'fast'; document.querySelector('.push button').click()`,
	},
	{name: "schedules", path: "/n/default/schedules"},
	{name: "schedules-empty", path: "/n/empty/schedules"},
	{name: "schedule", path: "/n/default/schedules/emails/nightly"},
	{name: "schedule-paused", path: "/n/default/schedules/emails/weekly"},
	{name: "schedule-error", path: "/n/default/schedules/emails/none", failing: true},
	{name: "schedule-new", path: "/n/default/set/schedule"},
	{name: "schedule-change", path: "/n/default/set/schedule?queue=emails&name=nightly"},
	{
		name: "schedule-refused", path: "/n/default/set/schedule?queue=emails&name=nightly", failing: true,
		open: `document.querySelector('[name=spec]').value = 'often'; document.querySelector('.push button').click()`,
	},
	{
		name: "ask-schedule", path: "/n/default/schedules/emails/nightly",
		open: `document.querySelector('[action$="/delete"] button').click()`,
	},
	{name: "targets", path: "/n/default/targets"},
	{name: "targets-empty", path: "/n/empty/targets"},
	{name: "target", path: "/n/default/targets/crm"},
	{name: "target-disabled", path: "/n/default/targets/billing"},
	{name: "target-error", path: "/n/default/targets/none", failing: true},
	{name: "target-change", path: "/n/default/set/target?name=crm"},
	{
		name: "target-refused", path: "/n/default/set/target?name=crm", failing: true,
		open: `document.querySelector('[name=url]').value = 'ftp://x'; document.querySelector('.push button').click()`,
	},
	{
		name: "ask-rotate", path: "/n/default/targets/crm",
		open: `document.querySelector('[action$="/rotate"] button').click()`,
	},
	{name: "operations", path: "/n/batch/ops"},
	{name: "operations-empty", path: "/n/empty/ops"},
	{name: "operations-error", path: "/n/batch/ops?cursor=bad", failing: true},
	{name: "operation", path: "/n/batch/ops", open: `document.querySelector('tbody tr:first-child a').click()`},
	{name: "operation-ended", path: "/n/batch/ops", open: `document.querySelector('tbody tr:last-child a').click()`},
	{name: "operation-error", path: "/n/batch/ops/none", failing: true},
	{name: "unknown", path: "/nothing", failing: true},
}

// refused is the group of the dead jobs.
var refused = failures.Fingerprint("dial tcp 10.1.2.3:25: connect: connection refused")

// loginPages are the pages before the login.
var loginPages = []shownPage{
	{name: "login", path: "/login"},
	{name: "login-code", path: "/login?code=ABC"},
	{
		name: "login-failed", path: "/login", failing: true,
		open: `document.querySelector('[name=token]').value = 'x'; document.querySelector('.login button').click()`,
	},
}

// show opens a page. Afterwards no fault may be there, except the report of the status of a failing one.
func (s *dashboardServer) show(b *tab, p shownPage) {
	b.t.Helper()
	if strings.Contains(p.path, "fp=") || strings.Contains(p.path, "where=") {
		s.clock.Advance(time.Second) // a search may begin again
	}
	b.open(s.URL + "/ui" + p.path)
	if p.open != "" {
		b.submit(p.open)
	}
	for _, fault := range b.found() {
		if !p.failing || !strings.Contains(fault, "Failed to load resource") {
			b.t.Errorf("%s: %s", p.name, fault)
		}
	}
	b.forget()
	// The queue is open again for the next visit.
	if err := s.engine.Resume(b.t.Context(), duly.Q("emails")); err != nil {
		b.t.Fatal(err)
	}
}

// forget drops the faults so far.
func (b *tab) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = nil
}

// theme makes the browser ask for light or dark pages, and for no transition between their colors.
func (b *tab) theme(name string) {
	b.t.Helper()
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: name}, {Name: "prefers-reduced-motion", Value: "reduce"},
		},
	})
}

// TestPages visits every page once, because the style sheet follows the theme and the width of the browser. The browser
// reports no violation of the policy, no error and no warning (G8).
func TestPages(t *testing.T) {
	t.Parallel()
	server := newDashboardServer(t)
	_, b := newSession(t)
	axe, err := os.ReadFile("testdata/axe.min.js")
	if err != nil {
		t.Fatal(err)
	}

	visit := func(pages []shownPage) {
		for _, p := range pages {
			b.theme("light")
			b.do(chromedp.EmulateViewport(1280, 800))
			server.show(b, p)
			eval[chromedp.Void](b, string(axe)+"; undefined")
			checkAccess(b, p)
			checkWidths(b, p)
		}
	}
	visit(loginPages)
	server.login(b)
	server.remember(b)
	visit(sessionPages)
}

// checkAccess checks that axe-core finds no violation on a page, in both themes (G9). The themes differ in colors alone.
func checkAccess(b *tab, p shownPage) {
	b.t.Helper()
	const run = `axe.run({runOnly: %s})
		.then(r => r.violations.flatMap(v => v.nodes.map(n => v.id + ': ' + n.html + ' ' + n.failureSummary)))`
	for _, look := range []struct{ theme, rules string }{
		{"light", `['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']`},
		{"dark", `['color-contrast']`},
	} {
		b.theme(look.theme)
		script := fmt.Sprintf(run, look.rules)
		found, err := chromedp.Run(b.ctx, chromedp.Evaluate[[]string](script, chromedp.EvalAwaitPromise))
		if err != nil {
			b.t.Fatalf("%s: %v", p.name, err)
		}
		for _, violation := range found {
			b.t.Errorf("%s, %s: %s", p.name, look.theme, violation)
		}
		screen(b, fmt.Sprintf("%s-%s-wide", p.name, look.theme))
	}
}

// checkWidths checks that a page does not scroll sideways at 320 px, and at 1280 px with a zoom of 200 %. What a finger
// touches has 24 px (G10).
func checkWidths(b *tab, p shownPage) {
	b.t.Helper()
	b.theme("light")
	for _, width := range []int64{640, 320} {
		b.do(chromedp.EmulateViewport(width, 800))
		if got := eval[int64](b, "document.documentElement.scrollWidth"); got > width {
			b.t.Errorf("%s is %d px wide", p.name, got)
		}
		small := eval[[]string](b, `[...document.querySelectorAll('button, input:not([type=hidden]), nav a')]
			.filter(e => {
				const r = e.getBoundingClientRect();
				return e.checkVisibility() && (r.height < 24 || r.width < 16);
			})
			.map(e => e.outerHTML)`)
		if len(small) > 0 {
			b.t.Errorf("%s has small targets: %v", p.name, small)
		}
	}
	screen(b, p.name+"-light-narrow")
}

// screen writes a picture of the page into the folder of DULY_SCREENS, if that is set.
func screen(b *tab, name string) {
	b.t.Helper()
	dir := os.Getenv("DULY_SCREENS")
	if dir == "" {
		return
	}
	picture, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// G11, and the path by keyboard of section 6: with script off, a person without a mouse logs in, finds a dead job,
// requeues it and logs out.
func TestKeyboardWithoutScript(t *testing.T) {
	t.Parallel()
	server := newDashboardServer(t)
	_, b := newSession(t)
	call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	b.open(server.URL + "/ui/login")
	// The browser honors autofocus when it first draws the page, which may be after the page has loaded.
	b.waitFor("document.activeElement.tagName === 'INPUT'")
	b.do(chromedp.KeyEvent(server.token), chromedp.KeyEvent(kb.Enter))
	b.waitForTitle("Overview")
	b.follow("Queues")
	b.waitForTitle("Queues")
	b.follow("emails")
	b.waitForTitle("emails")
	b.follow("dead")
	b.waitForTitle("emails: dead")
	b.follow("job-2")
	b.waitForTitle("job-2")
	b.follow("Requeue")
	b.waitForText("1 job is requeued.")
	j, err := server.engine.Get(t.Context(), duly.Q("emails"), "job-2")
	if err != nil || j.State != duly.StateReady {
		t.Errorf("the job is %v, %v", j.State, err)
	}
	b.follow("Log out")
	b.waitForTitle("Log in")
	b.clean()
}

// focused describes the element with the focus.
func (b *tab) focused() string {
	b.t.Helper()
	return eval[string](b, "document.activeElement.tagName + ' ' + document.activeElement.textContent.trim()")
}

// follow moves the focus by Tab to the element with a text, and presses Enter.
func (b *tab) follow(text string) {
	b.t.Helper()
	// The page may be new, and have no focus yet.
	for range 60 {
		if _, label, _ := strings.Cut(b.focused(), " "); label == text {
			b.do(chromedp.KeyEvent(kb.Enter))
			return
		}
		b.do(chromedp.KeyEvent(kb.Tab))
	}
	b.t.Fatalf("Tab does not reach %q", text)
}

func (b *tab) waitForTitle(title string) {
	b.t.Helper()
	b.waitFor(fmt.Sprintf("document.readyState === 'complete' && document.querySelector('h1')?.textContent === %q", title))
}

func (b *tab) waitForText(text string) {
	b.t.Helper()
	quoted, _ := json.Marshal(text)
	b.waitFor(fmt.Sprintf("document.querySelector('[role=status]')?.textContent === %s", quoted))
}

// G7, P3.4, P4.2: numbers change in place while a page is open. The selection and the focus stay, a new queue is
// announced and moves no row, and a queue that another browser pauses says so.
func TestLiveNumbersChangeInPlace(t *testing.T) {
	t.Parallel()
	server := newDashboardServer(t)
	_, b := newSession(t)
	server.list(b)
	const cell = `document.querySelector('tr[data-queue="orders.invoices"] [data-live="0"]')`
	eval[chromedp.Void](b, `{const row = document.querySelector('tr[data-queue="orders.invoices"] th a'); row.focus();
		getSelection().selectAllChildren(row); window.row = row; window.cell = `+cell+`; undefined}`)
	rows := eval[[]string](b, "[...document.querySelectorAll('tbody tr')].map(r => r.dataset.queue)")

	for n := range 20 {
		server.push(duly.Job{Queue: "orders.invoices", ID: fmt.Sprint("more-", n), Delay: time.Hour})
		server.tick(b)
		b.waitFor(fmt.Sprintf("%s.textContent === '%d'", cell, n+1))
	}
	server.push(duly.Job{Queue: "a-new-queue"})
	if err := server.engine.Pause(t.Context(), duly.Q("orders.invoices")); err != nil {
		t.Fatal(err)
	}
	server.tick(b)
	b.waitFor("!document.getElementById('fresh').hidden")
	b.waitFor(`document.querySelector('tr[data-queue="orders.invoices"] .flags').textContent === 'paused'`)
	const kept = `document.activeElement === row && cell === ` + cell +
		` && getSelection().toString() === 'orders.invoices'`
	if !eval[bool](b, kept) {
		t.Error("the focus, the selection or the element has changed")
	}
	after := eval[[]string](b, "[...document.querySelectorAll('tbody tr')].map(r => r.dataset.queue)")
	if fmt.Sprint(after) != fmt.Sprint(rows) {
		t.Errorf("the rows were %v, are %v", rows, after)
	}
	b.clean()
}

// G13: while the engine fails, the page keeps its numbers, dimmed, and a banner says so. Both end with the failure.
func TestLiveBanner(t *testing.T) {
	t.Parallel()
	server := newDashboardServer(t)
	_, b := newSession(t)
	server.list(b)
	server.down.Store(true)
	server.tick(b)
	b.waitFor("!document.getElementById('trouble').hidden && document.body.classList.contains('old')")
	banner := eval[string](b, "document.getElementById('trouble').textContent")
	if !strings.Contains(banner, "unavailable") || !strings.Contains(banner, "2030-01-01 00:00:0") {
		t.Errorf("the banner is %q", banner)
	}
	if n := eval[int](b, "document.querySelectorAll('tbody tr').length"); n != 4 {
		t.Errorf("the page has %d rows", n)
	}
	server.down.Store(false)
	server.tick(b)
	b.waitFor("document.getElementById('trouble').hidden && !document.body.classList.contains('old')")
	b.clean()
}

// G6: of eight tabs the visible one holds a stream. So every navigation finds one of the browser's six connections.
func TestLiveTabs(t *testing.T) {
	t.Parallel()
	server := newDashboardServer(t)
	s, first := newSession(t)
	server.login(first)
	tabs := []*tab{first}
	for len(tabs) < 8 {
		tabs = append(tabs, s.newTab())
	}
	for _, b := range tabs {
		call(b, page.BringToFront, cdp.Empty{})
		b.open(server.URL + "/ui/n/default/q/emails")
		b.waitFor("document.visibilityState === 'visible'")
		server.watched(b)
	}
	for _, i := range []int{0, 5} {
		call(tabs[i], page.BringToFront, cdp.Empty{})
		tabs[i].waitFor("document.visibilityState === 'visible'")
		server.watched(tabs[i])
	}
	for _, b := range tabs {
		b.clean()
	}
}

// watched waits until the visible tab alone has a stream.
func (s *dashboardServer) watched(b *tab) {
	b.t.Helper()
	eventually.True(b.t, "one stream", func() bool { return s.streams.Load() == 1 })
	b.waitFor("document.getElementById('live').textContent === 'live'")
}

// tick lets the next look of the feed happen. The feed and the stream wait with three timers.
func (s *dashboardServer) tick(b *tab) {
	b.t.Helper()
	eventually.True(b.t, "the waits of the feed and the stream", func() bool { return s.clock.Timers() == 3 })
	s.clock.Advance(time.Second)
}

// Survey implements contract.Surveyor for the feed.
func (s *dashboardServer) Survey(
	ctx context.Context, namespace string, p duly.PageParams,
) (contract.SurveyPage, error) {
	if s.down.Load() {
		return contract.SurveyPage{}, duly.ErrUnavailable
	}
	return contract.SurveyorOf(s.engine).Survey(ctx, namespace, p)
}
