package dashboard

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/native"
	"github.com/dulymq/duly/server/webhook"
	"github.com/dulymq/duly/server/webhook/guard"
	targets "github.com/dulymq/duly/server/webhook/target"
)

// httpPush returns the HTTP push of the rig. A test request gets 204, and the gates are those of the rig.
func (r *rig) httpPush() native.Push {
	r.t.Helper()
	ring, err := targets.OpenKeys(filepath.Join(r.t.TempDir(), "push.key"))
	if err != nil {
		r.t.Fatal(err)
	}
	g, err := guard.New(guard.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	if err != nil {
		r.t.Fatal(err)
	}
	return native.Push{
		Targets: targets.NewStore(r.engine.(contract.Targeter), ring, g, r.clock),
		Hosts:   func(string) []contract.PushHost { return r.hosts },
		Test: func(context.Context, string, string) (webhook.Tested, error) {
			return webhook.Tested{Status: 204, As: duly.Ack, Took: time.Millisecond}, nil
		},
	}
}

const crm = "/ui/n/shop/targets/crm"

// setTarget stores the target crm.
func (r *rig) setTarget(s contract.PushTargetSettings) {
	r.t.Helper()
	s.URL = "http://127.0.0.1:9999/hook"
	if err := r.targets.Of("shop").SetTarget(r.t.Context(), "crm", s); err != nil {
		r.t.Fatal(err)
	}
}

// P23.1: a host that the dispatcher has closed appears as closed, with its next probe, on the next view.
func TestClosedHost(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b := r.login("produce")
	r.setTarget(contract.PushTargetSettings{Rate: duly.Rate{PerSecond: 5}})
	if page := b.get("/ui/n/shop/targets").body; !strings.Contains(page, "<td>not used</td>") ||
		!strings.Contains(page, "<td>5 per second</td>") || !strings.Contains(page, `data-every="2"`) {
		t.Errorf("an unused target has the page %s", page)
	}
	host := contract.PushHost{Host: "http://127.0.0.1:9999", Open: true, Limit: 8, InFlight: 3, HeldBack: 4, Usual: 20 * time.Millisecond}
	r.hosts = []contract.PushHost{host}
	page := b.get("/ui/n/shop/targets").body
	for _, part := range []string{"<td>open</td>", "<td>3 / 64</td>", "<td>3 / 8</td>", "<td>4</td>", "<td>20ms</td>"} {
		if !strings.Contains(page, part) {
			t.Errorf("the page of an open host lacks %s: %s", part, page)
		}
	}
	r.hosts[0].Open, r.hosts[0].Closed = false, 40*time.Second
	if page := b.get("/ui/n/shop/targets").body; strings.Count(page, "<td>closed, next probe in 40s</td>") != 2 {
		t.Errorf("a closed host has the page %s", page)
	}
	r.hosts[0].Closed = 0
	if page := b.get("/ui/n/shop/targets").body; !strings.Contains(page, "closed, one probe is under way") {
		t.Errorf("a host with a probe has the page %s", page)
	}
}

// P23.2: a disabled target says so, and its jobs wait. The page has their number.
func TestDisableTarget(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b := r.login("admin")
	r.setTarget(contract.PushTargetSettings{})
	for range 3 {
		r.push(duly.Job{Queue: "hooks", Callback: "target:crm"})
	}
	r.audited()
	a := b.post(crm+"/disable", url.Values{"once": {"1"}})
	page := b.get(a.header.Get("Location")).body
	if !strings.Contains(page, "The target is disabled. Its jobs wait.") || !strings.Contains(page, "<dt>enabled</dt><dd><bdi>false</bdi>") ||
		offers(page) != "delete enable rotate test" {
		t.Fatalf("the status is %d, and the page offers %q: %s", a.status, offers(page), page)
	}
	if lines := r.audited(); len(lines) != 2 || lines[0].Route != "POST /v1/{namespace}/push/targets/{name}/disable" ||
		lines[0].Jobs[0] != "crm" || lines[1].Result != "ok" {
		t.Errorf("the lines are %+v", lines)
	}
	list := b.get("/ui/n/shop/targets").body
	if !strings.Contains(list, "<td>disabled</td>") || !strings.Contains(list, `<bdi>hooks</bdi></a></th>
<td class="number">3</td>`) {
		t.Errorf("the list is %s", list)
	}
	b.post(crm+"/enable", url.Values{"once": {"2"}})
	if found, err := r.targets.Of("shop").Target(t.Context(), "crm"); err != nil || found.Settings.Disabled {
		t.Errorf("the target is %+v, %v", found, err)
	}
}

// P23: a target is created, tested, rotated and deleted. The last two ask first.
func TestTargetActions(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b := r.login("admin")
	form := url.Values{
		"once": {"1"}, "name": {"crm"}, "url": {"http://127.0.0.1:9999/hook"}, "method": {"PUT"}, "timeout": {"20s"}, "success": {"302, 404"},
		"concurrency": {"7"}, "rate": {"2.5"}, "sign": {"v1,v1a"}, "enabled": {"false"}, "headers": {"authorization: Bearer x"},
	}
	a := b.post("/ui/n/shop/set/target", form)
	if to, _, _ := strings.Cut(a.header.Get("Location"), "?"); to != crm {
		t.Fatalf("the form has the status %d and goes to %q: %s", a.status, to, a.body)
	}
	found, err := r.targets.Of("shop").Target(t.Context(), "crm")
	s := found.Settings
	if err != nil || s.Method != "PUT" || s.Timeout != 20*time.Second || fmt.Sprint(s.Success) != "[302 404]" || s.Concurrency != 7 ||
		s.Rate.PerSecond != 2.5 || fmt.Sprint(s.Sign) != "[v1 v1a]" || !s.Disabled || fmt.Sprint(found.HeaderNames) != "[authorization]" {
		t.Fatalf("the target is %+v, %v", found, err)
	}
	page := b.get("/ui/n/shop/set/target?name=crm").body
	for _, part := range []string{
		`name="timeout" value="20s"`, `value="302, 404"`, `<option value="false" selected>`, "removed: authorization.",
	} {
		if !strings.Contains(page, part) {
			t.Errorf("the form lacks %s: %s", part, page)
		}
	}

	a = b.post(crm+"/test", url.Values{"once": {"2"}})
	if page := b.get(a.header.Get("Location")).body; !strings.Contains(page, "The test has the status 204 after 1ms: ack.") {
		t.Errorf("the page after the test is %s", page)
	}
	for _, name := range []string{"rotate", "delete"} {
		if a := b.post(crm+"/"+name, url.Values{}); a.status != 200 || !strings.Contains(a.body, "crm?") {
			t.Errorf("%s asks with the status %d: %s", name, a.status, a.body)
		}
		a := b.post(crm+"/"+name, url.Values{"once": {name}, "confirmed": {"yes"}, "back": {"targets"}})
		if to, _, _ := strings.Cut(a.header.Get("Location"), "?"); to != "/ui/n/shop/targets" {
			t.Errorf("%s has the status %d and goes to %q", name, a.status, to)
		}
	}
	if a := b.get(crm); a.status != http.StatusNotFound {
		t.Errorf("a deleted target has the status %d", a.status)
	}
}

// P23.3: a canary in the secret and in the headers of a target is in no page, log or audit line.
func TestSecretsOfTargets(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b := r.login("admin")
	const canary = "CANARY-OF-A-TARGET-WITH-24-BYTES"
	secret := "whsec_" + base64.StdEncoding.EncodeToString([]byte(canary))
	form := url.Values{
		"once": {"1"}, "name": {"crm"}, "url": {"http://127.0.0.1:9999/hook"}, "headers": {"authorization: " + canary}, "secret": {secret},
	}
	var pages strings.Builder
	a := b.post("/ui/n/shop/set/target", form)
	fmt.Fprint(&pages, a.body, a.header)
	for _, bad := range [][2]string{{"timeout", "soon"}, {"secret", "x" + secret}, {"headers", "host: " + canary}, {"url", "ftp://x"}} {
		refused := url.Values{"once": {"2"}}
		for name, values := range form {
			refused[name] = values
		}
		refused.Set(bad[0], bad[1])
		a := b.post("/ui/n/shop/set/target", refused)
		if a.status != http.StatusBadRequest {
			t.Errorf("a bad %s has the status %d", bad[0], a.status)
		}
		fmt.Fprint(&pages, a.body, a.header)
	}
	for _, at := range []string{crm, "/ui/n/shop/targets", "/ui/n/shop/set/target?name=crm"} {
		fmt.Fprint(&pages, b.get(at).body)
	}
	a = b.post(crm+"/rotate", url.Values{"once": {"3"}, "confirmed": {"yes"}})
	fmt.Fprint(&pages, b.get(a.header.Get("Location")).body)

	lines, err := os.ReadFile(filepath.Join(r.dir, "audit-00000001.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(pages.String(), "authorization") {
		t.Error("no page names the header")
	}
	for what, in := range map[string]string{"a page": pages.String(), "the log": r.log.String(), "the audit log": string(lines)} {
		if strings.Contains(in, canary) || strings.Contains(in, secret[6:]) {
			t.Errorf("%s has the canary", what)
		}
	}
}

// Without HTTP push, there are no pages of targets. A session that cannot push has no link to them.
func TestServerWithoutTargets(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.Targets = nil })
	b := r.login("admin")
	if a := b.get("/ui/n/shop/targets"); a.status != http.StatusNotFound || strings.Contains(b.get("/ui/n/shop").body, "Push targets") {
		t.Errorf("the list has the status %d", a.status)
	}
	if page := newRig(t).login("consume").get("/ui/n/shop").body; strings.Contains(page, "Push targets") {
		t.Error("a consumer has a link to the targets")
	}
}
