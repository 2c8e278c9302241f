package dashboard

import (
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/model"
)

// watched returns a rig whose namespace has a history, and a session that looks at its overview.
func watched(t *testing.T, changes ...func(*Config)) (*rig, *browser) {
	t.Helper()
	r := newRig(t, changes...)
	b := r.login("admin")
	// The first page begins the history, the second one makes its first look.
	b.get("/ui/n/shop")
	r.pass(time.Second)
	b.get("/ui/n/shop")
	return r, b
}

// pass lets a time pass. A page after it makes a new look.
func (r *rig) pass(d time.Duration) { r.clock.Advance(d) }

// looks lets a time pass with a page every 10 s.
func (b *browser) looks(lasts time.Duration) {
	b.t.Helper()
	for range lasts / (10 * time.Second) {
		b.pass(10 * time.Second)
		b.get("/ui/n/shop")
	}
}

// P2.1: conditions of queues, caused for real, appear on the page and disappear after their end.
func TestAttention(t *testing.T) {
	t.Parallel()
	queue := duly.QueueRef{Namespace: "shop", Name: "mail"}
	reserve := func(r *rig) duly.Receipt {
		d, err := r.engine.Reserve(r.t.Context(), duly.ReserveParams{Namespace: "shop", Queues: []string{"mail"}, Max: 1})
		if err != nil || len(d) != 1 {
			r.t.Fatal(d, err)
		}
		return d[0].Receipt
	}
	settle := func(r *rig, receipt duly.Receipt, as duly.Settlement) {
		results, err := r.engine.Settle(r.t.Context(), "shop", []duly.SettleRequest{{Receipt: receipt, As: as}})
		if err != nil || results[0] != nil {
			r.t.Fatal(err, results)
		}
	}
	configure := func(r *rig, c duly.QueueConfig) {
		if err := r.engine.Configure(r.t.Context(), queue, c); err != nil {
			r.t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		code string
		// cause makes the condition hold after a time, end ends it after another one.
		cause  func(r *rig) time.Duration
		end    func(r *rig)
		lasts  time.Duration
		silent string // a code that must not appear
	}{
		{code: "late", cause: func(r *rig) time.Duration { r.push(duly.Job{}); return 70 * time.Second },
			end: func(r *rig) { settle(r, reserve(r), duly.Ack) }},
		{code: "no_consumer", cause: func(r *rig) time.Duration { r.push(duly.Job{}); return 70 * time.Second },
			end: func(r *rig) { reserve(r) }},
		{code: "dead_growing", cause: func(r *rig) time.Duration {
			r.push(duly.Job{})
			r.bury("mail")
			return 10 * time.Second
		}, end: func(*rig) {}, lasts: 15 * time.Minute},
		{code: "limit_saturated", cause: func(r *rig) time.Duration {
			configure(r, duly.QueueConfig{MaxLeased: 1})
			r.push(duly.Job{Lease: time.Hour})
			r.receipt = reserve(r)
			return 5*time.Minute + 20*time.Second
		}, end: func(r *rig) { settle(r, r.receipt, duly.Ack) }},
		{code: "paused_long", silent: "late", cause: func(r *rig) time.Duration {
			r.push(duly.Job{})
			if err := r.engine.Pause(r.t.Context(), queue); err != nil {
				r.t.Fatal(err)
			}
			r.pass(time.Second)
			r.login("admin").get("/ui/n/shop")
			r.pass(24 * time.Hour)
			return 10 * time.Second
		}, end: func(r *rig) {
			if err := r.engine.Resume(r.t.Context(), queue); err != nil {
				r.t.Fatal(err)
			}
			settle(r, reserve(r), duly.Ack)
		}},
	} {
		t.Run(tt.code, func(t *testing.T) {
			t.Parallel()
			r, b := watched(t)
			if page := b.get("/ui/n/shop").body; !strings.Contains(page, "Nothing needs attention.") {
				t.Errorf("at first the page is %s", page)
			}
			wait := tt.cause(r)
			r.pass(time.Second)
			b = r.login("admin")
			b.looks(wait)
			page := b.get("/ui/n/shop").body
			if !strings.Contains(page, "<code>"+tt.code+"</code>") || !strings.Contains(page, "Since 20") {
				t.Fatalf("the condition is not on %s", page)
			}
			if tt.silent != "" && strings.Contains(page, "<code>"+tt.silent+"</code>") {
				t.Errorf("%s is on %s", tt.silent, page)
			}
			tt.end(r)
			r.pass(time.Second + tt.lasts)
			if page := r.login("admin").get("/ui/n/shop").body; strings.Contains(page, "<code>"+tt.code+"</code>") {
				t.Errorf("after its end the condition is on %s", page)
			}
		})
	}
}

// P2.1: conditions of the server appear by its facts, and disappear.
func TestAttentionOfServer(t *testing.T) {
	t.Parallel()
	refused, reset, slow := int64(7), time.Time{}, uint64(0)
	r, b := watched(t, func(c *Config) {
		c.Facts = Facts{
			Calls:      func() map[string][]uint64 { return map[string][]uint64{"sqlite": {1000, slow, 0}} },
			CallBounds: []time.Duration{100 * time.Millisecond, time.Second},
			Refused:    func() int64 { return refused }, Reset: func() time.Time { return reset },
		}
	})
	codes := func() string {
		r.pass(11 * time.Second)
		var list []string
		for _, m := range regexp.MustCompile("<code>([a-z_]+)</code>").FindAllStringSubmatch(b.get("/ui/n/shop").body, -1) {
			list = append(list, m[1])
		}
		return strings.Join(list, " ")
	}
	if got := codes(); got != "" {
		t.Errorf("at first there is %s", got)
	}
	refused, reset, slow = 8, r.clock.Now(), 500
	if got := codes(); got != "store_reset not_stored engine_slow" {
		t.Errorf("the conditions are %s", got)
	}
	r.pass(5 * time.Minute)
	b = r.login("admin")
	codes() // the sample of the slow calls becomes the oldest one
	r.pass(5 * time.Minute)
	if got := codes(); got != "store_reset" {
		t.Errorf("ten minutes later there is %s", got)
	}
}

// P2.4: the table of a chart has the numbers that the counters have, and the label their range.
func TestChartsHaveTables(t *testing.T) {
	t.Parallel()
	r, b := watched(t)
	for range 60 { // 10 minutes, 0.5 pushes per second
		for range 5 {
			r.push(duly.Job{})
		}
		b.looks(10 * time.Second)
	}
	for _, at := range []string{"/ui/n/shop?range=15min", "/ui/n/shop/q/mail?range=15min"} {
		page := b.get(at).body
		_, flow, _ := strings.Cut(page, `<figure id="flow"`)
		sum, rows := 0.0, 0
		for _, m := range regexp.MustCompile(`<th scope="row">[^<]*</th><td class="number">([^<]*)</td>`).
			FindAllStringSubmatch(flow, -1) {
			v, err := strconv.ParseFloat(m[1], 64)
			if err != nil {
				t.Fatal(err)
			}
			sum += 10 * v
			rows++
		}
		if sum < 295 || sum > 306 || rows < 60 {
			t.Errorf("%s has %d rows with %v pushes, want 300", at, rows, sum)
		}
		if !regexp.MustCompile("pushed: from (0|0.5) to 0.5, last").MatchString(flow) {
			t.Errorf("the label is not in %.400s", flow)
		}
		if !strings.Contains(page, `aria-current="true">15min<`) || !strings.Contains(page, "uPlot.iife.min.js") {
			t.Errorf("%s has no range or no chart", at)
		}
	}
	if page := b.get("/ui/n/shop/queues").body; strings.Contains(page, "uPlot") || !strings.Contains(page, ">0.50<") ||
		!strings.Contains(page, "█") || !strings.Contains(page, ">grows<") {
		t.Errorf("the list of queues is %s", page)
	}
}

// The first ten queues by each number are on the page, the largest first.
func TestTopQueues(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i := range 12 {
		for range i + 1 {
			r.push(duly.Job{Queue: fmt.Sprintf("queue-%02d", i)})
		}
	}
	page := r.login("produce").get("/ui/n/shop").body
	_, list, _ := strings.Cut(page, "<h3>Ready and blocked jobs</h3>")
	list, _, _ = strings.Cut(list, "</section>")
	if strings.Count(list, "<li>") != topQueues || strings.Index(list, "queue-11") > strings.Index(list, "queue-10") ||
		strings.Contains(list, "queue-01") {
		t.Errorf("the list is %s", list)
	}
	if !strings.Contains(page, `<dt>ready</dt><dd><span data-live="1">78</span>`) {
		t.Errorf("the sum is not on %s", page)
	}
}

// G3: the overview makes one call to the engine.
func TestOverviewMakesOneSurvey(t *testing.T) {
	t.Parallel()
	fake := clock.NewFake()
	engine := &surveyed{Engine: model.New(model.Config{Clock: fake})}
	r := newRigOn(t, engine, fake)
	b := r.login("admin")
	for _, at := range []string{"/ui/n/shop", "/ui/n/shop?range=7d", "/ui/n/shop/queues"} {
		b.get(at)
	}
	if n := engine.surveys.Load(); n != 1 {
		t.Errorf("pages within a second make %d surveys", n)
	}
}

// The stream of the overview has the sums, and says when the findings change.
func TestLiveOverview(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.push(duly.Job{Delay: time.Hour})
	r.push(duly.Job{Queue: "other", Delay: time.Hour})
	p := r.login("both").stream("shop", "?view=overview")
	if got := p.next("n").Queues; len(got) != 1 || got[""][0] != "2" {
		t.Errorf("the stream begins with %v", got)
	}
	r.push(duly.Job{})
	for range 200 {
		select {
		case got := <-p.events:
			if got[0] != "a" {
				continue
			}
			if got[1] == "0" {
				t.Errorf("the event has %s findings", got[1])
			}
			return
		default:
			r.tick()
		}
	}
	t.Error("a late job causes no event")
}

// The theme is a cookie. The form returns to its page, and to no other site.
func TestTheme(t *testing.T) {
	t.Parallel()
	b := newRig(t).login("both")
	page := b.get("/ui/n/shop/queues").body
	if !strings.Contains(page, `class=""`) || !strings.Contains(page, "Theme: system") {
		t.Errorf("at first the page is %.300s", page)
	}
	for _, tt := range []struct{ theme, back, to, class string }{
		{"dark", "/ui/n/shop/queues?sort=dead", "/ui/n/shop/queues?sort=dead", `class="dark"`},
		{"light", "//evil.example", "/ui", `class="light"`},
		{"light", "/ui/\\evil.example", "/ui", `class="light"`},
		{"system", "https://evil.example", "/ui", `class=""`},
		{"<script>", "/uix", "/ui", `class=""`},
	} {
		a := b.post("/ui/theme", url.Values{"theme": {tt.theme}, "back": {tt.back}})
		if a.status != 303 || a.header.Get("Location") != tt.to {
			t.Errorf("the theme %s goes to %q with %d", tt.theme, a.header.Get("Location"), a.status)
		}
		if page := b.get("/ui/n/shop/queues").body; !strings.Contains(page, tt.class) {
			t.Errorf("the page has not %s: %.300s", tt.class, page)
		}
	}
	if a := b.do("POST", "/ui/theme", "theme=dark"); a.status != 403 {
		t.Errorf("a form of another site has the status %d", a.status)
	}
}

// The page of a queue that does not exist says so, with the command that creates it. A configured queue exists.
func TestUnknownQueue(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b := r.login("admin")
	a := b.get("/ui/n/shop/q/nothing")
	if a.status != 404 || !strings.Contains(a.body, "duly push nothing") {
		t.Errorf("the page has the status %d: %s", a.status, a.body)
	}
	q := duly.QueueRef{Namespace: "shop", Name: "nothing"}
	if err := r.engine.Configure(t.Context(), q, duly.QueueConfig{MaxLeased: 1}); err != nil {
		t.Fatal(err)
	}
	if a := b.get("/ui/n/shop/q/nothing"); a.status != 200 {
		t.Errorf("an empty queue has the status %d", a.status)
	}
}
