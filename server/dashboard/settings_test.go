package dashboard

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/model"
)

// fields returns the values of the inputs of a page's main form.
func fields(page string) url.Values {
	_, page, _ = strings.Cut(page, "<main")
	values := url.Values{}
	for _, part := range strings.Split(page, "<input ")[1:] {
		tag, _, _ := strings.Cut(part, ">")
		_, name, named := strings.Cut(tag, `name="`)
		_, value, _ := strings.Cut(tag, `value="`)
		if name, _, _ = strings.Cut(name, `"`); named && !strings.Contains(tag, "search") {
			value, _, _ = strings.Cut(value, `"`)
			values.Set(name, html.UnescapeString(value))
		}
	}
	return values
}

// config returns the configuration of a queue.
func (r *rig) config(queue string) duly.QueueConfig {
	r.t.Helper()
	c, err := r.engine.Config(r.t.Context(), duly.QueueRef{Namespace: "shop", Name: queue})
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

// P13: a change of settings shows the difference, its effects and both commands first. Then it is one action.
func TestChangeOfSettings(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b, at := r.login("admin"), "/ui/n/shop/q/mail/settings"
	for range 3 {
		r.push(duly.Job{})
		r.reserve("mail")
	}
	b.has("/ui/n/shop/q/mail", `href="`+at+`"`)
	form := fields(b.get(at).body)
	if form.Get("max_leased") != "none" || form.Get("defaults.tries") != "16" || form.Get("adapt") != "none" || form.Has("idle") {
		t.Fatalf("the form has %v", form)
	}
	form.Set("max_leased", "2")
	form.Set("adapt", "0.05")
	form.Set("defaults.backoff", "fixed:10s")
	form.Set("max_jobs", "")
	r.audited()

	a := b.post(at, form)
	page := html.UnescapeString(a.body)
	for _, text := range []string{
		"Change the settings of mail?", "<dt>max_leased</dt><dd><bdi>none → 2</bdi></dd>", "<dt>adapt</dt><dd><bdi>none → 0.05</bdi>",
		"3 jobs are leased now and max_leased is 2: no job is reserved before 2 leases have ended.",
		"duly queue set mail --backoff fixed:10s --max-leased 2 --adapt 0.05",
		`PATCH /v1/shop/queues/mail {"adapt":{"floor":0.05},"defaults":{"backoff":"fixed:10s"},"max_leased":2}`,
	} {
		if !strings.Contains(page, text) {
			t.Errorf("the question lacks %q: %s", text, page)
		}
	}
	if r.config("mail").MaxLeased != duly.None || len(r.audited()) != 0 {
		t.Fatal("the question changes the queue")
	}

	confirm := fields(a.body)
	a = b.post(at, confirm)
	if again := b.post(at, confirm); again.status != http.StatusSeeOther && again.status != http.StatusBadRequest {
		t.Errorf("a second click has the status %d", again.status)
	}
	if !strings.HasPrefix(a.header.Get("Location"), "/ui/n/shop/q/mail?result=") {
		t.Fatalf("the change goes to %q with %d: %s", a.header.Get("Location"), a.status, a.body)
	}
	b.has(a.header.Get("Location"), "The settings are saved.")
	c := r.config("mail")
	if c.MaxLeased != 2 || c.Adapt.Floor != 0.05 || c.Defaults.Backoff != "fixed:10s" || c.MaxJobs != duly.None {
		t.Errorf("the queue has %+v", c)
	}
	lines := r.audited()
	if len(lines) != 2 || lines[0].Route != "PATCH /v1/{namespace}/queues/{queue}" || lines[0].Phase != "intent" ||
		strings.Join(lines[0].Jobs, " ") != "defaults.backoff max_leased adapt" || lines[1].Result != "ok" {
		t.Errorf("the audit log has %+v", lines)
	}
}

// P13.1: of two operators who save at once, the second one sees the first change before an overwrite. A setting that
// only the first one has changed stays.
func TestSettingsOfTwoOperators(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.push(duly.Job{})
	b, at := r.login("admin"), "/ui/n/shop/q/mail/settings"
	second := fields(b.get(at).body)
	r.configure("mail", duly.QueueConfig{MaxLeased: 7, MaxJobs: 50})
	second.Set("max_leased", "9")
	const first = "Somebody has changed the settings meanwhile: max_jobs none → 50, max_leased none → 7."
	a := b.post(at, second)
	if page := html.UnescapeString(a.body); !strings.Contains(page, first) || !strings.Contains(page, "7 → 9") ||
		strings.Contains(page, "<dt>max_jobs") {
		t.Fatalf("the second operator sees %d %s", a.status, page)
	}

	// The same again, between the question and the confirmation.
	r.configure("mail", duly.QueueConfig{MaxLeased: 8})
	a = b.post(at, fields(a.body))
	if page := html.UnescapeString(a.body); !strings.Contains(page, "meanwhile: max_leased 7 → 8.") || r.config("mail").MaxLeased != 8 {
		t.Fatalf("the confirmation has the status %d and saves %+v", a.status, r.config("mail"))
	}
	if a = b.post(at, fields(a.body)); a.status != http.StatusSeeOther {
		t.Errorf("the second confirmation has the status %d: %s", a.status, a.body)
	}
	if c := r.config("mail"); c.MaxLeased != 9 || c.MaxJobs != 50 {
		t.Errorf("the queue has %+v", c)
	}
}

// P13.2: the stated effect equals the result.
func TestEffectOfSettings(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i := range 5 {
		r.push(duly.Job{ID: fmt.Sprint("d", i)})
		r.bury("mail")
		r.clock.Advance(time.Second)
	}
	b, at := r.login("admin"), "/ui/n/shop/q/mail/settings"
	form := fields(b.get(at).body)
	form.Set("dead_count", "2")
	a := b.post(at, form)
	if !strings.Contains(a.body, "3 dead jobs are dropped, the oldest first: the queue has 5 and dead_count is 2.") {
		t.Fatalf("the question is %s", a.body)
	}
	b.post(at, fields(a.body))
	if _, err := r.engine.(*model.Engine).Step(t.Context(), duly.QueueRef{Namespace: "shop", Name: "mail"}); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		want := duly.StateDead
		if i < 3 {
			want = duly.StateNone
		}
		if got := r.state("mail", fmt.Sprint("d", i)); got != want {
			t.Errorf("the job d%d is %v", i, got)
		}
	}
}

// Every refusal appears with the content of the form, and nothing is saved.
func TestRefusedSettings(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) {
		c.CheckDestination = func(field, text string) error {
			return fmt.Errorf("%s is private", field)
		}
	})
	r.push(duly.Job{})
	b, at := r.login("admin"), "/ui/n/shop/q/mail/settings"
	for _, tt := range []struct{ field, value, want string }{
		{"max_leased", "many", "max_leased must be a number"}, {"defaults.tries", "99999999", "tries"}, {"dead_age", "1x", "dead_age"},
		{"shards", "4", "shards"}, {"delivery", "push", "delivery"}, {"push_url", "http://10.0.0.1/", "push_url is private"},
		{"max_leased", "", "the queue has these settings; change a field"}, {"adapt", "2", "adapt"},
	} {
		form := fields(b.get(at).body)
		form.Set(tt.field, tt.value)
		before := r.config("mail")
		a := b.post(at, form)
		if a.status < 400 || !strings.Contains(a.body, tt.want) || fields(a.body).Get("dead_count") != "100000" {
			_, alert, _ := strings.Cut(a.body, `<p role="alert">`)
			t.Errorf("%s %q has the status %d: %.150s", tt.field, tt.value, a.status, alert)
		}
		if r.config("mail") != before {
			t.Errorf("%s %q changes the queue", tt.field, tt.value)
		}
	}
}
