package dashboard

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/eventually"
	"github.com/dulymq/duly/internal/model"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/dashboard/session"
	"github.com/dulymq/duly/sqliteengine"
)

// hostileTexts are texts that a page must show as text.
var hostileTexts = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onmouseover='alert(1)`, `javascript:alert(1)`,
	`</pre></bdi><svg onload=alert(1)>`, `{{.Frame}}`, "\u202Eevil\u202C", `<!--`, `]]>`, `&lt;b&gt;`,
	`<ScRiPt>alert(1)</sCrIpT>`, `<scr<script>ipt>alert(1)</script>`, `<script/src=//evil.example>`, `<script\x0a>a()</script>`,
	`<<script>alert(1);//<</script>`, `<script>alert(1)//`, `</title><script>a()</script>`, `</textarea><script>a()</script>`,
	`</style><script>a()</script>`, `</noscript><script>a()</script>`, `<img src="x" onerror="a()">`, `<img/src=x onerror=a()>`,
	"<img src=`x`onerror=a()>", `<img src=x:alert(1) onerror=eval(src)>`, `<image src=x onerror=a()>`, `<svg><script>a()</script>`,
	`<svg/onload=a()>`, `<svg><animate onbegin=a() attributeName=x>`, `<svg><a xlink:href="javascript:a()">x</a>`,
	`<math><mtext><img src=x onerror=a()>`, `<body onload=a()>`, `<body/onpageshow=a()>`, `<iframe src="javascript:a()">`,
	`<iframe srcdoc="<script>a()</script>">`, `<object data="javascript:a()">`, `<embed src="javascript:a()">`,
	`<link rel=stylesheet href=//evil.example>`, `<style>@import "//evil.example"</style>`, `<base href=//evil.example>`,
	`<meta http-equiv=refresh content="0;url=javascript:a()">`, `<form action="javascript:a()"><button>x</button>`,
	`<button formaction="javascript:a()">x</button>`, `<input autofocus onfocus=a()>`, `<select onfocus=a() autofocus>`,
	`<textarea onfocus=a() autofocus>`, `<details open ontoggle=a()>`, `<marquee onstart=a()>`, `<video src=x onerror=a()>`,
	`<audio src=x onerror=a()>`, `<a href="javascript:a()">x</a>`, `<a href="java&#x09;script:a()">x</a>`,
	`<a href="data:text/html,<script>a()</script>">x</a>`, `" style="background:url(javascript:a())`, `" autofocus onfocus="a()`,
	`' autofocus onfocus='a()`, `x" hx-on:click="a()`, `x" hx-get="//evil.example`, `<div hx-get="/ui/logout" hx-trigger=load>`,
	`<div data-hx-post="//evil.example">`, `<div hx-vals="js:{a:1}">`, `&#60;script&#62;a()&#60;/script&#62;`, `%3Cscript%3Ea()%3C/script%3E`,
	"\u003cscript\u003ea()\u003c/script\u003e", "<\u00a0script>", "\u2028<script>", "a b<b>", `\"><script>a()</script>`,
	"`${a()}`", `<template><script>a()</script></template>`, `<dialog open><script>a()</script>`,
}

// pages returns the paths of all pages, for a queue and a job of some states.
func (r *rig) pages(jobs map[duly.State][2]string) []string {
	list := []string{"/ui", "/ui/login", "/ui/login?code=x", "/ui/n/shop", "/ui/n/shop?range=7d", "/ui/n/shop?range=none",
		"/ui/n/shop/queues", "/ui/n/shop/queues?cursor=bad", "/ui/none",
		"/ui/n/none/queues", "/ui/n/shop/q/none", "/ui/n/shop/q/none/dead", "/ui/n/shop/schedules", "/ui/n/shop/set/schedule",
		"/ui/n/shop/schedules/none/none", "/ui/n/shop/targets", crm, "/ui/n/shop/targets/none", "/ui/n/shop/set/target?name=crm",
		"/ui/n/shop/find", "/ui/n/shop/find?q=q&x=1", "/ui/n/shop/find?q=key%3Ak",
		"/ui/n/shop/ops", "/ui/n/shop/ops?cursor=bad", "/ui/n/shop/ops/none"}
	list = append(list, r.start(contract.NewOperation{Kind: "purge", Queue: "mail", State: duly.StateDone}))
	for _, at := range jobs {
		queue := "/ui/n/shop/q/" + at[0]
		list = append(list, "/ui/n/shop/schedules/"+at[0]+"/nightly", "/ui/n/shop/set/schedule?name=nightly&queue="+at[0], queue+"/push",
			queue+"/push?copy="+at[1], queue+"/settings", queue+"/start?kind=requeue",
			queue+"/start?kind=requeue&group="+boom, queue+"/start?kind=purge&state=dead",
			queue+"/keys?prefix=k", queue+"/keys?key=k", "/ui/n/shop/find?q="+at[1], "/ui/n/shop/find?q="+at[0])
		list = append(list, queue, queue+"?range=3d", queue+"/j/"+at[1], queue+"/j/none", queue+"/none")
		for _, state := range duly.States {
			list = append(list, queue+"/"+state.String(), queue+"/"+state.String()+"?select=all", queue+"/"+state.String()+"?where=error~x+-id:y",
				queue+"/export/"+state.String(), queue+"/export/"+state.String()+"?format=csv&where=error~x")
		}
	}
	return list
}

// G14: no page changes the store, on SQLite and on Redis.
func TestPagesChangeNothing(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T, c *clock.Fake) (engine store, state func() string){
		"SQLite": openSQLite, "Redis": openRedis,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fake := clock.NewFake()
			engine, state := open(t, fake)
			r := newRigOn(t, engine, fake)
			b := r.login("admin")
			jobs := map[duly.State][2]string{}
			for _, s := range []duly.State{duly.StateReady, duly.StateDelayed, duly.StateDead} {
				queue, id := r.newJob(s)
				r.things("/schedule", queue)
				r.things("/target", queue)
				jobs[s] = [2]string{queue, id}
			}
			r.push(duly.Job{Queue: "lane", OrderKey: "k"})
			jobs[duly.StateBlocked] = [2]string{"lane", r.push(duly.Job{Queue: "lane", OrderKey: "k"})}
			before := state()
			for _, at := range r.pages(jobs) {
				fake.Advance(time.Second) // a search may begin again
				b.get(at)
				if state() != before {
					t.Fatalf("%s changes the store", at)
				}
			}
			// The comparison sees a change.
			r.push(duly.Job{})
			if state() == before {
				t.Error("a push does not change the state")
			}
		})
	}
}

func openSQLite(t *testing.T, c *clock.Fake) (store, func() string) {
	t.Helper()
	e, err := sqliteengine.Open(t.Context(), sqliteengine.Config{
		Path: filepath.Join(t.TempDir(), "duly.db"), Clock: c, Manual: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e, func() string {
		var copied bytes.Buffer
		if err := e.Backup(context.Background(), &copied); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%x", sha256.Sum256(copied.Bytes()))
	}
}

func openRedis(t *testing.T, _ *clock.Fake) (store, func() string) {
	t.Helper()
	server := redistest.Single(t, redistest.Config("enable-debug-command yes"))
	e, err := redisengine.Open(t.Context(), redisengine.Config{URL: server.URL(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e, func() string { return fmt.Sprint(server.Must("DEBUG", "DIGEST")) }
}

// counted counts the calls to an engine that pages make.
type counted struct {
	store
	calls atomic.Int64
}

func (c *counted) Get(ctx context.Context, q duly.QueueRef, id string) (duly.JobInfo, error) {
	c.calls.Add(1)
	return c.store.Get(ctx, q, id)
}

func (c *counted) List(ctx context.Context, q duly.QueueRef, p duly.ListParams) (duly.ListPage, error) {
	c.calls.Add(1)
	return c.store.List(ctx, q, p)
}

func (c *counted) Stats(ctx context.Context, q duly.QueueRef) (duly.Stats, error) {
	c.calls.Add(1)
	return c.store.Stats(ctx, q)
}

func (c *counted) Config(ctx context.Context, q duly.QueueRef) (duly.QueueConfig, error) {
	c.calls.Add(1)
	return c.store.Config(ctx, q)
}

// countedExplainer counts the explanations.
type countedExplainer struct {
	contract.Explainer
	*counted
}

func (c countedExplainer) Explain(ctx context.Context, q duly.QueueRef, id string) (contract.Explanation, error) {
	c.calls.Add(1)
	return c.Explainer.Explain(ctx, q, id)
}

// countedFinder counts the searches for IDs and order keys.
type countedFinder struct {
	*model.Engine
	*counted
}

func (c countedFinder) Find(ctx context.Context, namespace, id string) (contract.Found, error) {
	c.calls.Add(1)
	return c.Engine.Find(ctx, namespace, id)
}

func (c countedFinder) Keys(ctx context.Context, q duly.QueueRef, p contract.KeysParams) (contract.KeyPage, error) {
	c.calls.Add(1)
	return c.Engine.Keys(ctx, q, p)
}

func (c countedFinder) Holder(ctx context.Context, q duly.QueueRef, key string) (contract.KeyInfo, error) {
	c.calls.Add(1)
	return c.Engine.Holder(ctx, q, key)
}

// countedScheduler counts the calls about schedules.
type countedScheduler struct {
	duly.Scheduler
	*counted
}

func (c countedScheduler) GetSchedule(ctx context.Context, q duly.QueueRef, name string) (duly.ScheduleInfo, error) {
	c.calls.Add(1)
	return c.Scheduler.GetSchedule(ctx, q, name)
}

func (c countedScheduler) Schedules(ctx context.Context, q duly.QueueRef, p duly.PageParams) (duly.SchedulePage, error) {
	c.calls.Add(1)
	return c.Scheduler.Schedules(ctx, q, p)
}

// G3: every page makes at most 4 calls to the engine, and the pages with jobs make at least one.
func TestCallsOfPages(t *testing.T) {
	t.Parallel()
	fake := clock.NewFake()
	plain := model.New(model.Config{Clock: fake})
	engine := &counted{store: plain}
	r := newRigOn(t, engine, fake, func(c *Config) {
		c.Scheduler, c.Surveyor = countedScheduler{plain, engine}, contract.SurveyorOf(plain) // a survey is one call
		c.Explainer = countedExplainer{plain, engine}
		c.Finder, c.KeyLister = countedFinder{plain, engine}, countedFinder{plain, engine}
	})
	b := r.login("admin")
	queue, id := r.newJob(duly.StateDead)
	for range 5 {
		more, _ := r.newJob(duly.StateReady)
		r.things("/schedule", more)
	}
	r.things("/schedule", queue)
	r.push(duly.Job{Queue: queue, OrderKey: "k"})
	waits := r.push(duly.Job{Queue: queue, OrderKey: "k"})
	jobs := map[duly.State][2]string{duly.StateDead: {queue, id}, duly.StateBlocked: {queue, waits}}
	for _, at := range r.pages(jobs) {
		engine.calls.Store(0)
		fake.Advance(time.Second) // a search may begin again
		b.get(at)
		if n := engine.calls.Load(); n > 4 || n == 0 && strings.Contains(at, queue) && !strings.HasSuffix(at, "/none") {
			t.Errorf("%s makes %d calls", at, n)
		}
	}
}

// S4: a token that one server revokes opens no page of another one, within a second.
func TestRevokedTokenEndsSessionsOnOtherServers(t *testing.T) {
	t.Parallel()
	fake, key := clock.NewFake(), session.NewKey()
	engine := model.New(model.Config{Clock: fake})
	sameKey := func(c *Config) { c.Key = key }
	here, there := newRigOn(t, engine, fake, sameKey), newRigOn(t, engine, fake, sameKey)
	for _, r := range []*rig{here, there} {
		ctx, stop := context.WithCancel(t.Context())
		t.Cleanup(stop)
		go r.guard.Watch(ctx)
	}
	b := here.login("admin")
	elsewhere := &browser{there, b.client}
	at, err := url.Parse(there.server.URL)
	if err != nil {
		t.Fatal(err)
	}
	from, err := url.Parse(here.server.URL)
	if err != nil {
		t.Fatal(err)
	}
	// The name of the cookie has the port.
	for _, cookie := range b.client.Jar.Cookies(from) {
		cookie.Name = "duly_ui_" + at.Port()
		b.client.Jar.SetCookies(at, append(b.client.Jar.Cookies(at), cookie))
	}
	eventually.True(t, "a session on both servers", func() bool {
		return b.get("/ui/n/shop/queues").status == 200 && elsewhere.get("/ui/n/shop/queues").status == 200
	})

	if err := here.guard.Revoke(t.Context(), here.hashes["admin"]); err != nil {
		t.Fatal(err)
	}
	if a := b.get("/ui/n/shop/queues"); a.status != 303 {
		t.Errorf("the server that revoked the token answers %d", a.status)
	}
	begin := clock.Monotonic()
	eventually.True(t, "the end of the session elsewhere", func() bool {
		return elsewhere.get("/ui/n/shop/queues").status == 303
	})
	if took := clock.Monotonic() - begin; took > 10*time.Second { // ten times the bound, on a busy machine
		t.Errorf("the session lived for %v", took)
	}
}

// S6: no secret of a caller or a job is in a log, in the audit log, or in a page that does not show the job.
func TestSecretsStayOut(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const canary = "CANARY"
	r.push(duly.Job{Body: []byte(canary), Headers: map[string]string{"authorization": canary}, OrderKey: "key"})
	b := r.login("admin")
	var bodies strings.Builder
	for _, form := range []url.Values{
		{"token": {canary}}, {"token": {auth.NewSecret() + canary}}, {"code": {canary}},
		{"name": {"ada"}, "password": {canary}}, {"name": {canary}, "password": {canary}},
	} {
		a := r.browser().post("/ui/login", form)
		fmt.Fprint(&bodies, a.body, a.header)
	}
	for _, headers := range [][]string{
		{"Authorization", "Bearer " + canary}, {"Referer", canary}, {"User-Agent", canary}, {"X-Forwarded-For", canary},
		{"Cookie", "duly_ui=" + canary},
	} {
		a := b.do("GET", "/ui/n/shop/queues", "", headers...)
		fmt.Fprint(&bodies, a.body, a.header)
	}
	form := url.Values{"once": {canary}, "back": {canary}, "name": {canary}, "confirmed": {canary}}
	for _, name := range []string{"pause", "resume"} {
		a := b.post("/ui/n/shop/q/mail/"+name, form)
		fmt.Fprint(&bodies, a.body, a.header)
	}
	b.get("/ui/n/shop/queues?token=" + r.tokens["admin"] + "&x=" + canary)
	b.get("/ui/n/" + r.tokens["admin"] + "/queues")
	b.get("/ui/n/shop/q/mail/j/" + r.tokens["admin"])

	text, err := os.ReadFile(filepath.Join(r.dir, "audit-00000001.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for what, in := range map[string]string{"the log": r.log.String(), "the audit log": string(text), "a page": bodies.String()} {
		for _, secret := range []string{canary, r.tokens["admin"]} {
			if strings.Contains(in, secret) {
				t.Errorf("%s has the secret %s", what, secret)
			}
		}
	}
}

// G16: a job with a line of 1 MiB in its error and bytes that are no UTF-8 has pages of the usual size.
func TestLongAndInvalidTexts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b := r.login("both")
	queue, _ := r.newJob(duly.StateReady)
	d, err := r.engine.Reserve(t.Context(), duly.ReserveParams{Namespace: "shop", Queues: []string{queue}, Max: 1})
	if err != nil || len(d) != 1 {
		t.Fatal(d, err)
	}
	results, err := r.engine.Settle(t.Context(), "shop", []duly.SettleRequest{{
		Receipt: d[0].Receipt, As: duly.Bury, Error: "\xff<b>" + strings.Repeat("x", 1<<20),
	}})
	if err != nil || results[0] != nil {
		t.Fatal(err, results)
	}
	for _, at := range []string{"/dead", "/j/" + d[0].ID} {
		if a := b.get("/ui/n/shop/q/" + queue + at); a.status != 200 || len(a.body) > 32<<10 || strings.Contains(a.body, "<b>") {
			t.Errorf("%s has the status %d and %d bytes", at, a.status, len(a.body))
		}
	}
}

var _ contract.Watcher = (*model.Engine)(nil)
