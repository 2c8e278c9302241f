package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // embeds the time zones, because the tests need the same zones on every host

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// put puts a schedule into the queue reports.
func (r *rig) put(s duly.Schedule) {
	r.t.Helper()
	q := duly.QueueRef{Namespace: "shop", Name: "reports"}
	if _, err := r.dashboard.cfg.Scheduler.PutSchedule(r.t.Context(), q, s); err != nil {
		r.t.Fatal(err)
	}
}

// runs lets the due ticks fire, and returns the jobs that wait in the queue reports.
func (r *rig) runs() []duly.JobInfo {
	r.t.Helper()
	if err := r.engine.(interface{ Sweep(context.Context) error }).Sweep(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	var jobs []duly.JobInfo
	for _, state := range []duly.State{duly.StateDelayed, duly.StateReady} {
		page, err := r.engine.List(r.t.Context(), duly.QueueRef{Namespace: "shop", Name: "reports"}, duly.ListParams{State: state})
		if err != nil {
			r.t.Fatal(err)
		}
		jobs = append(jobs, page.Jobs...)
	}
	return jobs
}

var runRow = regexp.MustCompile(`<tr><td><bdi>([^<]*)</bdi></td><td><bdi>([^<]*)</bdi></td><td><bdi>in `)

const nightly = "/ui/n/shop/schedules/reports/nightly"

// P22.1: the five moments that the page predicts equal those of the real runs, into and out of daylight saving time.
func TestPredictedRunsEqualRealOnes(t *testing.T) {
	t.Parallel()
	for _, from := range []string{"2030-03-29T12:00:00Z", "2030-10-25T12:00:00Z"} {
		begin, err := time.Parse(time.RFC3339, from)
		if err != nil {
			t.Fatal(err)
		}
		r := newRig(t)
		r.clock.Advance(begin.Sub(r.clock.Now()))
		r.put(duly.Schedule{
			Name: "nightly", Spec: "30 2 * * *", Zone: "Europe/Berlin", Overlap: duly.OverlapAllow, Jitter: time.Hour,
		})
		r.clock.Advance(time.Second)
		page := r.login("both").get(nightly).body
		if !strings.Contains(page, "Runs at 02:30 every day, in the zone Europe/Berlin.") {
			t.Errorf("the page has no rule in words: %s", page)
		}
		predicted := runRow.FindAllStringSubmatch(page, -1)
		if len(predicted) != upcomingRuns {
			t.Fatalf("the page predicts %d runs: %s", len(predicted), page)
		}

		for range 6 * 24 {
			r.clock.Advance(time.Hour)
			r.runs()
		}
		real := map[string]string{}
		for _, j := range r.runs() {
			tick, err := time.Parse(time.RFC3339Nano, j.Headers[duly.HeaderTick])
			if err != nil {
				t.Fatal(err)
			}
			real[moment(j.Due)] = tick.UTC().Format(time.DateTime)
		}
		for _, row := range predicted {
			tick, err := time.Parse("Mon 2006-01-02 15:04:05 -07:00", strings.ReplaceAll(row[1], "&#43;", "+"))
			if err != nil || real[row[2]] != tick.UTC().Format(time.DateTime) {
				t.Errorf("the run of %s is due at %s, %v; the real ones are %v", row[1], row[2], err, real)
			}
		}
	}
}

// P22.2: a paused schedule pushes nothing, and the page counts the ticks of the pause.
func TestPausedSchedule(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b := r.login("both")
	r.put(duly.Schedule{Name: "nightly", Spec: "0 * * * *"})
	if a := b.post(nightly+"/pause", url.Values{"once": {"1"}}); a.status != http.StatusSeeOther {
		t.Fatalf("the pause has the status %d", a.status)
	}
	r.clock.Advance(3*time.Hour + time.Minute)
	if n := len(r.runs()); n != 0 {
		t.Errorf("a paused schedule pushed %d jobs", n)
	}
	b = r.login("both") // the session was idle
	page := b.get(nightly).body
	if !strings.Contains(page, "Ticks of the pause that make no run: 3.") || offers(page) != "delete resume trigger" {
		t.Errorf("the page offers %q: %s", offers(page), page)
	}
	if list := b.get("/ui/n/shop/schedules").body; !strings.Contains(list, "<td>paused</td>") {
		t.Errorf("the list is %s", list)
	}

	b.post(nightly+"/resume", url.Values{"once": {"2"}})
	r.clock.Advance(time.Hour)
	b = r.login("both")
	if n := len(r.runs()); n != 1 {
		t.Errorf("after the pause there are %d jobs", n)
	}
	if page := b.get(nightly).body; !strings.Contains(page, "<dt>missed</dt><dd><bdi>3</bdi>") {
		t.Errorf("the page shows no missed ticks: %s", page)
	}
}

// P22.3: Run now creates one job, and the page links to it. A merged run says so.
func TestRunNow(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b := r.login("both")
	r.put(duly.Schedule{Name: "nightly", Spec: "@daily"})
	r.audited()
	for i, want := range []string{"The run is pushed.", "The run is merged into a job that waits or runs."} {
		a := b.post(nightly+"/trigger", url.Values{"once": {fmt.Sprint(i)}})
		page := b.get(a.header.Get("Location")).body
		jobs := r.runs()
		if len(jobs) != 1 || !strings.Contains(page, want) || !strings.Contains(page, `href="/ui/n/shop/q/reports/j/`+jobs[0].ID+`"`) {
			t.Fatalf("there are %d jobs, and the page is %s", len(jobs), page)
		}
	}
	lines := r.audited()
	if len(lines) != 4 || lines[0].Route != "POST /v1/{namespace}/queues/{queue}/schedules/{name}/trigger" ||
		lines[0].Queue != "reports" || lines[0].Jobs[0] != "nightly" || lines[1].Result != "ok" {
		t.Errorf("the lines are %+v", lines)
	}
}

// P22: the form creates and changes a schedule with every field of the API. A refusal stays in the form.
func TestScheduleForm(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) {
		c.CheckDestination = func(field, text string) error {
			if strings.Contains(text, "10.0.0.1") {
				return contract.Invalid(field, "is a private address")
			}
			return nil
		}
	})
	b := r.login("both")
	const at = "/ui/n/shop/set/schedule"
	form := url.Values{
		"once": {"1"}, "queue": {"reports"}, "name": {"nightly"}, "spec": {"0 3 * * 1-5"}, "zone": {"Europe/Berlin"}, "jitter": {"5m"},
		"catchup": {"all"}, "overlap": {"one"}, "owner": {"billing"}, "template.body": {"<report>"}, "template.tries": {"3"},
		"template.headers": {"kind: sales\r\n"}, "template.priority": {"-2"}, "window": {"2h"},
	}
	a := b.post(at, form)
	if page := b.get(a.header.Get("Location")).body; !strings.Contains(page, "The schedule is created.") {
		t.Fatalf("the form has the status %d: %s", a.status, page)
	}
	q := duly.QueueRef{Namespace: "shop", Name: "reports"}
	s, err := r.dashboard.cfg.Scheduler.GetSchedule(t.Context(), q, "nightly")
	if err != nil || s.Spec != "0 3 * * 1-5" || s.Jitter != 5*time.Minute || s.Catchup != duly.CatchupAll || s.Overlap != duly.OverlapOne ||
		s.Owner != "billing" || string(s.Template.Body) != "<report>" || s.Template.Tries != 3 || s.Template.Priority != -2 ||
		s.Template.Headers["kind"] != "sales" || s.Window != 2*time.Hour {
		t.Fatalf("the schedule is %+v, %v", s, err)
	}

	// The form of a schedule has its values, so that saving it changes nothing.
	page := b.get(at + "?queue=reports&name=nightly").body
	for _, part := range []string{
		`name="spec" value="0 3 * * 1-5"`, `<option value="all" selected>`, "&lt;report&gt;</textarea>", "kind: sales\n</textarea>",
		`name="template.tries" value="3"`, `name="name" value="nightly"`, `name="owner" value="billing"`,
	} {
		if !strings.Contains(page, part) {
			t.Errorf("the form lacks %s: %s", part, page)
		}
	}
	form.Set("once", "2")
	if a := b.post(at, form); !strings.Contains(b.get(a.header.Get("Location")).body, "The schedule is unchanged.") {
		t.Error("the same form changes the schedule")
	}

	for _, tt := range []struct{ field, value, want string }{
		{"spec", "0 3 * *", "spec has 4 fields"}, {"zone", "Mars", "zone "}, {"owner", "other", "billing"}, {"window", "1s", "window "},
		{"template.callback", "https://10.0.0.1/", "callback is a private address"}, {"template.tries", "many", "template.tries must be"},
	} {
		bad := url.Values{"once": {"3"}}
		for name, values := range form {
			bad[name] = values
		}
		bad.Set(tt.field, tt.value)
		a := b.post(at, bad)
		if a.status < 400 || !strings.Contains(a.body, tt.want) || !strings.Contains(a.body, "&lt;report&gt;</textarea>") {
			_, alert, _ := strings.Cut(a.body, `<p role="alert">`)
			t.Errorf("%s %q has the status %d: %.150s", tt.field, tt.value, a.status, alert)
		}
	}
}

// The list has every schedule once over all pages, with at most three calls for each.
func TestListOfSchedules(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i := range 9 {
		q := duly.QueueRef{Namespace: "shop", Name: fmt.Sprint("q", i)}
		for n := range 1 + 40*i {
			s := duly.Schedule{Name: fmt.Sprint("s-", n), Spec: "@daily"}
			if _, err := r.dashboard.cfg.Scheduler.PutSchedule(t.Context(), q, s); err != nil {
				t.Fatal(err)
			}
		}
	}
	b, seen := r.login("consume"), map[string]int{}
	pages := 0
	for at := "/ui/n/shop/schedules"; at != ""; pages++ {
		body := b.get(at).body
		for _, part := range strings.Split(body, `href="/ui/n/shop/schedules/q`)[1:] {
			name, _, _ := strings.Cut(part, `"`)
			seen[name]++
		}
		_, next, more := strings.Cut(body, `</a> <a href="`)
		if pages == 0 {
			_, next, more = strings.Cut(body, `<p> <a href="`)
		}
		if at, _, _ = strings.Cut(next, `"`); !more {
			at = ""
		}
		at = strings.ReplaceAll(at, "&amp;", "&")
	}
	if len(seen) != 9+40*36 || pages < 10 {
		t.Errorf("%d pages show %d schedules", pages, len(seen))
	}
	for name, n := range seen {
		if n != 1 {
			t.Errorf("%s appears %d times", name, n)
		}
	}
	if page := b.get("/ui/n/shop/schedules").body; !strings.Contains(page, `data-key="s"`) || strings.Contains(page, "set/schedule") {
		t.Error("the navigation has no schedules, or a session that cannot push may create one")
	}
}

// Without schedules, there are neither pages nor a link to them.
func TestEngineWithoutSchedules(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.Scheduler = nil })
	b := r.login("admin")
	if strings.Contains(b.get("/ui/n/shop/queues").body, "/schedules") {
		t.Error("a page links to schedules")
	}
	for _, at := range []string{"/ui/n/shop/schedules", nightly, "/ui/n/shop/set/schedule"} {
		if a := b.get(at); a.status != http.StatusNotFound {
			t.Errorf("%s has the status %d", at, a.status)
		}
	}
}

// Run now is limited by the rate of the session's token, as its route of the API is.
func TestRunNowIsLimited(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	limited := 0
	for _, route := range r.routes {
		switch route.Method + " " + route.Path {
		case "POST " + ofSchedule.at + "/trigger", "POST " + scheduleForm.at, "POST " + pushForm.at:
			limited++
			if route.LimitedBy != contract.RightProduce {
				t.Errorf("%s is not limited", route.Path)
			}
		}
	}
	if limited != 3 {
		t.Errorf("%d routes are found", limited)
	}
}
