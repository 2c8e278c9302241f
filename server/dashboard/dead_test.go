package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/audit"
	"github.com/dulymq/duly/server/failures"
	"github.com/dulymq/duly/server/operations"
)

// die pushes jobs into a queue and buries each with an error.
func (r *rig) die(queue string, errors ...string) {
	r.t.Helper()
	for errors := range slices.Chunk(errors, duly.MaxBatch) {
		jobs, settle := make([]duly.Job, len(errors)), make([]duly.SettleRequest, len(errors))
		for i := range jobs {
			jobs[i] = duly.Job{Namespace: "shop", Queue: queue}
		}
		if _, err := r.engine.Push(r.t.Context(), jobs); err != nil {
			r.t.Fatal(err)
		}
		d, err := r.engine.Reserve(r.t.Context(), duly.ReserveParams{
			Namespace: "shop", Queues: []string{queue}, Max: len(errors),
		})
		if err != nil || len(d) != len(errors) {
			r.t.Fatal(len(d), err)
		}
		for i := range d {
			settle[i] = duly.SettleRequest{Receipt: d[i].Receipt, As: duly.Bury, Error: errors[i]}
		}
		if _, err := r.engine.Settle(r.t.Context(), "shop", settle); err != nil {
			r.t.Fatal(err)
		}
	}
}

// sizes returns the dead and the ready jobs of a queue.
func (r *rig) sizes(queue string) [2]int64 {
	r.t.Helper()
	s, err := r.engine.Stats(r.t.Context(), duly.QueueRef{Namespace: "shop", Name: queue})
	if err != nil {
		r.t.Fatal(err)
	}
	return [2]int64{s.Sizes.Dead, s.Sizes.Ready}
}

// numbered returns errors that differ in a number.
func numbered(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("order %d is gone", i)
	}
	return list
}

var orderGone = failures.Fingerprint("order 1 is gone")

var groupRow = regexp.MustCompile(`data-group="([0-9a-f]{12})".*<td class="number">(\d+)</td>`)

// groupsOf returns the counts of a page's groups by fingerprint.
func groupsOf(page string) map[string]string {
	counts := map[string]string{}
	for _, row := range groupRow.FindAllStringSubmatch(page, -1) {
		counts[row[1]] = row[2]
	}
	return counts
}

// P8, P8.2: the pages of a namespace and of a queue show dead jobs by error, the largest group first, and a new one at
// most 5 s later. A group has a page with its samples and jobs.
func TestGroupsOfDeadJobs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.die("mail", append(numbered(30), "", "disk is full")...)
	r.die("orders", numbered(8)...)
	b := r.login("consume")
	all := b.get("/ui/n/shop/dead").body
	if got := groupsOf(all); len(got) != 3 || got[orderGone] != "38" || got[failures.Fingerprint("")] != "1" ||
		!strings.Contains(all, `<progress max="40" value="38" aria-label="share"></progress> 95.0 %`) ||
		!strings.Contains(all, "40 of 40 examined, 0s ago") || !strings.Contains(all, "<bdi>mail, orders</bdi>") ||
		strings.Index(all, orderGone) > strings.Index(all, failures.Fingerprint("")) || !strings.Contains(all, `<path d="M`) {
		t.Errorf("the groups are %v: %s", got, all)
	}

	r.die("orders", "disk is full")
	r.clock.Advance(5 * time.Second)
	if got := groupsOf(b.get("/ui/n/shop/dead").body)[failures.Fingerprint("disk is full")]; got != "2" {
		t.Errorf("5 s later the group has %s jobs", got)
	}
	if got := groupsOf(b.get("/ui/n/shop/dead?queue=orders").body); got[orderGone] != "8" || len(got) != 2 {
		t.Errorf("the groups of a queue are %v", got)
	}
	queue := b.get("/ui/n/shop/q/mail/dead").body
	if got := groupsOf(queue); got[orderGone] != "30" || strings.Count(queue, `name="id" value=`) != 0 ||
		!strings.Contains(queue, `href="/ui/n/shop/q/mail/dead?fp=`+orderGone) {
		t.Errorf("the queue has the groups %v", got)
	}

	group := b.get("/ui/n/shop/dead?fp=" + orderGone).body
	for _, want := range []string{
		"38 dead jobs have this error", "order &lt;n&gt; is gone", "<dt>1</dt>",
		`href="/ui/n/shop/q/orders/dead?fp=` + orderGone,
	} {
		if !strings.Contains(group, want) {
			t.Errorf("the group has no %q: %s", want, group)
		}
	}
	list := b.get("/ui/n/shop/q/mail/dead?fp=" + orderGone).body
	if strings.Count(list, `<th scope="row">`) != 30 || !strings.Contains(list, "32 of 32 examined · 30 found") ||
		strings.Contains(list, "disk is full") {
		t.Errorf("the list of the group is %s", list)
	}
	none := b.get("/ui/n/shop/q/mail/dead?fp=0123456789ab")
	if none.status != 200 || !strings.Contains(none.body, "No dead job has this error now") ||
		!strings.Contains(none.body, "None of the examined jobs matches.") {
		t.Errorf("an unknown group has the status %d: %s", none.status, none.body)
	}
	for _, page := range []string{"/ui/n/shop/dead", "/ui/n/shop/q/mail/dead"} {
		if a := b.get(page + "?fp=%3Cb%3E"); a.status != http.StatusBadRequest {
			t.Errorf("%s with a bad fingerprint has the status %d", page, a.status)
		}
	}
	if a := b.get("/ui/n/none/dead"); a.status != http.StatusForbidden {
		t.Errorf("another namespace has the status %d", a.status)
	}
}

// A list of 250 jobs of a group shows each once.
func TestPagesOfAGroup(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for range 5 {
		r.die("mail", append(numbered(50), "disk is full")...)
	}
	b := r.login("consume")
	seen := map[string]bool{}
	page := "/ui/n/shop/q/mail/dead?fp=" + orderGone
	for range 6 {
		body := b.get(page).body
		_, rows, _ := strings.Cut(body, "<tbody>")
		for _, part := range strings.Split(rows, `href="/ui/n/shop/q/mail/j/`)[1:] {
			id, _, _ := strings.Cut(part, `"`)
			seen[id] = true
		}
		before, _, more := strings.Cut(body, `">Next page</a>`)
		if !more {
			break
		}
		page = strings.ReplaceAll(before[strings.LastIndex(before, `"`)+1:], "&amp;", "&")
	}
	if len(seen) != 250 {
		t.Errorf("the pages have %d jobs", len(seen))
	}
}

// hidden returns the hidden fields of the form of an action.
func hidden(page, action string) url.Values {
	_, form, _ := strings.Cut(page, "/"+action+`"`)
	form, _, _ = strings.Cut(form, "</form>")
	values := url.Values{}
	fields := regexp.MustCompile(`type="hidden" name="(\w+)" value="([^"]*)"`)
	for _, field := range fields.FindAllStringSubmatch(form, -1) {
		values.Add(field[1], field[2])
	}
	return values
}

// startGroup opens the form of an operation on a group, and returns its URL and the page.
func (b *browser) startGroup(kind string) (at string, page answer) {
	b.t.Helper()
	list := b.get("/ui/n/shop/q/mail/dead?fp=" + orderGone).body
	at = "/ui/n/shop/q/mail/start?group=" + orderGone + "&kind=" + kind
	if !strings.Contains(list, strings.ReplaceAll(at, "&", "&amp;")) {
		b.t.Fatalf("the group has no link to %s: %s", kind, list)
	}
	return at, b.get(at)
}

// P8.3, C14.61: an operation on a group takes the jobs that died before the click, and no job that is not dead any more.
// The form states their number. A double click starts one operation, which is one action of the audit log.
func TestGroupActions(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		kind, question string
		ready          int64
	}{
		{"requeue", "Requeue 12 dead jobs of mail with this error?", 12},
		{"delete", "Delete 12 dead jobs of mail with this error?", 1},
	} {
		r := newRig(t)
		r.die("mail", append(numbered(12), "disk is full")...)
		b := r.login("admin")
		at, ask := b.startGroup(tt.kind)
		form := fieldsOfForm(ask.body)
		if ask.status != 200 || !strings.Contains(ask.body, tt.question) || form.Get("queue") != "mail" ||
			!strings.Contains(ask.body, "Jobs that die after the start stay dead.") ||
			strings.Contains(ask.body, `name="tries"`) != (tt.kind == "requeue") {
			t.Fatalf("the form has the status %d: %s", ask.status, ask.body)
		}
		form.Set("rate", "")
		r.audited()
		answers := [2]answer{b.post(at, form), b.post(at, form)} // a double click
		to, _, _ := strings.Cut(answers[0].header.Get("Location"), "?")
		if answers[0].status != http.StatusSeeOther || answers[0].header.Get("Location") != answers[1].header.Get("Location") ||
			!strings.Contains(b.get(answers[1].header.Get("Location")).body, "The operation is started.") {
			t.Fatalf("the answers have the status %d and %d: %s", answers[0].status, answers[1].status, answers[0].body)
		}

		// After the click a job dies, and somebody else requeues another one.
		r.clock.Advance(time.Second)
		r.die("mail", "order 99 is gone")
		page, err := r.engine.List(t.Context(), duly.QueueRef{Namespace: "shop", Name: "mail"}, duly.ListParams{State: duly.StateDead})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.engine.Requeue(t.Context(), duly.QueueRef{Namespace: "shop", Name: "mail"}, duly.RequeueParams{
			IDs: []string{page.Jobs[0].ID},
		}); err != nil {
			t.Fatal(err)
		}
		o := r.await(to)
		if o.State != contract.OperationDone || o.Done != 11 || o.By == "" || r.sizes("mail") != [2]int64{2, tt.ready} {
			t.Errorf("the sizes are %v, the operation is %+v", r.sizes("mail"), o)
		}
		lines := r.audited()
		if len(lines) != 2 || lines[0].Via != "dashboard" || lines[0].Session == "" || lines[1].Done != 11 ||
			!strings.Contains(fmt.Sprint(lines[0].Jobs), tt.kind+": dead jobs of the group "+orderGone) {
			t.Errorf("the audit log has %+v", lines)
		}
	}
}

// A form for more jobs than those of a page takes the typed name of the queue. A refused form keeps its content, and
// starts nothing.
func TestLargeGroup(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.die("mail", numbered(maxSelected+50)...)
	b := r.login("admin")
	at, ask := b.startGroup("requeue")
	form := fieldsOfForm(ask.body)
	if form.Has("queue") || !strings.Contains(ask.body, "type the name of the queue: mail") {
		t.Fatalf("the form is %s", ask.body)
	}
	form.Set("canary.jobs", "7")
	for _, bad := range [][2]string{{"queue", ""}, {"queue", "male"}, {"rate", "fast"}, {"rate", "-1"}, {"canary.then", "hope"}} {
		form.Set("queue", "mail")
		form.Set("rate", "50")
		form.Set("canary.then", "continue")
		form.Set(bad[0], bad[1])
		a := b.post(at, form)
		if a.status != http.StatusBadRequest || !strings.Contains(a.body, `name="canary.jobs" value="7"`) ||
			!strings.Contains(a.body, `<p role="alert">`+bad[0]) {
			t.Errorf("%v has the status %d: %s", bad, a.status, a.body)
		}
	}
	if n := len(r.dashboard.cfg.Operations.States()); n != 0 {
		t.Fatalf("there are operations in %d states", n)
	}

	form.Set("queue", "mail")
	form.Set("canary.then", "continue")
	to, _, _ := strings.Cut(b.post(at, form).header.Get("Location"), "?")
	o, err := r.dashboard.cfg.Operations.Get("shop", to[strings.LastIndex(to, "/")+1:])
	if err != nil || o.Rate != 50 || o.Canary == nil || o.Canary.Jobs != 7 || o.Canary.Then != "continue" {
		t.Errorf("the operation is %+v, %v", o, err)
	}
}

// fullLog is the audit log of operations on a full disk.
type fullLog struct{ fullAudit }

func (fullLog) End(string, audit.Outcome, bool) {}

// A start whose intent cannot be stored is refused, and nothing changes.
func TestFullDiskRefusesStart(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.die("mail", numbered(3)...)
	b := r.login("admin")
	at, ask := b.startGroup("requeue")
	var err error
	if r.dashboard.cfg.Operations, err = operations.New(operations.Config{
		Engine: r.engine, Clock: r.clock, Audit: fullLog{}, Log: r.logger,
	}); err != nil {
		t.Fatal(err)
	}
	a := b.post(at, fieldsOfForm(ask.body))
	if a.status != http.StatusServiceUnavailable || !strings.Contains(a.body, "nothing was started") {
		t.Errorf("the status is %d: %s", a.status, a.body)
	}
	if n := len(r.dashboard.cfg.Operations.States()); n != 0 || r.sizes("mail")[0] != 3 {
		t.Errorf("operations in %d states, sizes %v", n, r.sizes("mail"))
	}
}

// fieldsOfForm returns the values of the inputs of a form that starts an operation.
func fieldsOfForm(page string) url.Values {
	_, form, _ := strings.Cut(page, `class="push"`)
	form, _, _ = strings.Cut(form, "</form>")
	values := url.Values{}
	for _, field := range regexp.MustCompile(`<input[^>]* name="([\w.]+)" value="([^"]*)"`).FindAllStringSubmatch(form, -1) {
		if field[2] != "" {
			values.Add(field[1], field[2])
		}
	}
	return values
}

// P8: a session sees the operations that it may start, and the form of another one is refused.
func TestGroupRights(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.die("mail", numbered(3)...)
	lists := map[string]string{"consume": "", "both": "delete", "admin": "all:purge all:requeue delete requeue"}
	groups := map[string]string{"consume": "", "both": "all:delete delete", "admin": "all:delete all:requeue delete requeue"}
	for caller, want := range lists {
		b := r.login(caller)
		if got := offers(b.get("/ui/n/shop/q/mail/dead").body); got != want {
			t.Errorf("the list offers %q to %s, want %q", got, caller, want)
		}
		if got := offers(b.get("/ui/n/shop/q/mail/dead?fp=" + orderGone).body); got != groups[caller] {
			t.Errorf("the group offers %q to %s, want %q", got, caller, groups[caller])
		}
	}
	for caller, want := range map[string]bool{"produce": false, "consume": true} {
		if page := r.login(caller).get("/ui/n/shop/queues").body; strings.Contains(page, "Dead letters") != want {
			t.Errorf("the navigation of %s has dead letters: %v", caller, !want)
		}
	}
	b := r.login("admin")
	for query, want := range map[string]int{
		"kind=requeue&group=x": 400, "kind=hope": 400, "kind=purge": 400, "kind=purge&state=hope": 400, "kind=delete": 400,
		"": 400, "kind=requeue&group=" + failures.Fingerprint("none"): 404,
	} {
		if a := b.get("/ui/n/shop/q/mail/start?" + query); a.status != want {
			t.Errorf("%s has the status %d, want %d", query, a.status, want)
		}
	}
}

// groupEngine lets something happen before lists.
type groupEngine struct {
	contract.Engine
	list func()
}

func (e *groupEngine) List(ctx context.Context, q duly.QueueRef, p duly.ListParams) (duly.ListPage, error) {
	if e.list != nil {
		e.list()
	}
	return e.Engine.List(ctx, q, p)
}

// The form of a group is careful while its jobs are not all counted.
func TestQuestionAboutAnUncountedGroup(t *testing.T) {
	t.Parallel()
	e := &groupEngine{}
	r := newRig(t, func(c *Config) { e.Engine, c.Engine = c.Engine, e })
	full := make([]string, 1000)
	for i := range full {
		full[i] = "disk is full"
	}
	r.die("mail", append(full, numbered(1000)...)...)
	b := r.login("admin")
	e.list = func() { r.clock.Advance(2 * time.Second) }
	ask := b.get("/ui/n/shop/q/mail/start?kind=requeue&group=" + orderGone)
	if ask.status != 200 || !strings.Contains(ask.body, "Requeue 0 or more dead jobs of mail with this error?") ||
		!strings.Contains(ask.body, `<input name="queue"`) {
		t.Errorf("the form has the status %d: %s", ask.status, ask.body)
	}
}

// partSurveyor is a surveyor of a namespace with more queues than a survey.
type partSurveyor struct{ queues []contract.QueueStats }

func (s partSurveyor) Survey(context.Context, string, duly.PageParams) (contract.SurveyPage, error) {
	return contract.SurveyPage{Queues: s.queues, Next: "more"}, nil
}

// A survey has the first 1000 queues. The groups of another queue stay on its page, and a queue without statistics is
// a problem.
func TestGroupsOfAQueueBehindTheSurvey(t *testing.T) {
	t.Parallel()
	broken := contract.QueueStats{Name: "broken", Err: duly.ErrUnavailable}
	r := newRig(t, func(c *Config) { c.Surveyor = partSurveyor{[]contract.QueueStats{broken, {Name: "a"}}} })
	r.die("mail", numbered(3)...)
	b := r.login("consume")
	if page := b.get("/ui/n/shop/dead?queue=a").body; strings.Contains(page, "first 2 queues") {
		t.Error("the groups of one queue have the note of the namespace")
	}
	if page := b.get("/ui/n/shop/dead?queue=mail").body; groupsOf(page)[orderGone] != "3" {
		t.Errorf("the groups of the queue are %s", page)
	}
	if a := b.get("/ui/n/shop/dead?queue=broken"); a.status != http.StatusServiceUnavailable {
		t.Errorf("a queue without statistics has the status %d", a.status)
	}
	if a := b.get("/ui/n/shop/dead?queue=%2F"); a.status != http.StatusBadRequest {
		t.Errorf("a bad name has the status %d", a.status)
	}
}
