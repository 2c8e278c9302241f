package dashboard

import (
	"context"
	"errors"
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
	"github.com/dulymq/duly/server/failures"
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

// P8.3: an action on a group states the number of jobs, and takes those that died before the click. The audit log has
// the group.
func TestGroupActions(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		action, question, result string
		ready                    int64
	}{
		{"requeue", "Requeue 12 dead jobs of mail with this error?", "12 jobs are requeued.", 12},
		{"delete", "Delete 12 jobs of mail with this error?", "12 jobs are deleted.", 0},
	} {
		r := newRig(t)
		r.die("mail", append(numbered(12), "disk is full")...)
		b := r.login("admin")
		at := "/ui/n/shop/q/mail/" + tt.action
		click := hidden(b.get("/ui/n/shop/q/mail/dead?fp="+orderGone).body, tt.action)
		ask := b.post(at, click)
		form := hidden(ask.body, tt.action)
		if ask.status != 200 || !strings.Contains(ask.body, tt.question) || form.Get("before") == "" ||
			!strings.Contains(ask.body, "stay dead") {
			t.Fatalf("the question has the status %d: %s", ask.status, ask.body)
		}
		r.clock.Advance(time.Second)
		r.die("mail", "order 99 is gone")
		r.audited()
		answers := [2]answer{b.post(at, form), b.post(at, form)} // a double click
		if page := b.get(answers[1].header.Get("Location")).body; !strings.Contains(page, tt.result) ||
			groupsOf(page)[orderGone] != "1" {
			t.Errorf("the result is %s", page)
		}
		if got := r.sizes("mail"); got != [2]int64{2, tt.ready} {
			t.Errorf("after %s the sizes are %v", tt.action, got)
		}
		lines := r.audited()
		if len(lines) != 2 || !strings.HasPrefix(fmt.Sprint(lines[0].Jobs), "[group "+orderGone+", dead until 2030-01-01T") ||
			lines[1].Done != 12 || lines[1].Result != "ok" {
			t.Errorf("the audit log has %+v", lines)
		}
		if a := b.post(at, url.Values{"fp": {failures.Fingerprint("none")}}); a.status != http.StatusNotFound {
			t.Errorf("an empty group has the status %d", a.status)
		}
		for _, bad := range []url.Values{{"fp": {"x"}}, {"fp": {orderGone}, "before": {"soon"}}} {
			if a := b.post(at, bad); a.status != http.StatusBadRequest {
				t.Errorf("%v has the status %d", bad, a.status)
			}
		}
	}
}

// A group with more jobs than one action takes needs the typed name, says how many were done, and continues with the
// jobs of the first click.
func TestLargeGroup(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.die("mail", numbered(failures.MaxSelected+50)...)
	b := r.login("admin")
	const at = "/ui/n/shop/q/mail/requeue"
	form := hidden(b.post(at, url.Values{"fp": {orderGone}}).body, "requeue")
	if a := b.post(at, form); a.status != http.StatusBadRequest || !strings.Contains(a.body, "The name is different.") {
		t.Errorf("without the name the status is %d", a.status)
	}
	form.Set("name", "mail")
	first := b.post(at, form)
	if second := b.post(at, form); second.header.Get("Location") != first.header.Get("Location") {
		t.Errorf("a double click leads to %s and to %s", first.header.Get("Location"), second.header.Get("Location"))
	}
	r.clock.Advance(time.Second)
	r.die("mail", "order 99 is gone")
	page := b.get(first.header.Get("Location")).body
	const said = "10000 jobs are requeued. The group has more jobs."
	if !strings.Contains(page, said) || !strings.Contains(page, "Requeue more …") {
		t.Fatalf("the result is %s", page)
	}
	if got := r.sizes("mail"); got[0] != 51 {
		t.Errorf("%d jobs are dead", got[0])
	}
	form = hidden(b.post(at, hidden(page, "requeue")).body, "requeue")
	form.Set("name", "mail")
	second := b.get(b.post(at, form).header.Get("Location")).body
	if got := r.sizes("mail"); !strings.Contains(second, "50 jobs are requeued.</p>") || got[0] != 1 {
		t.Errorf("%d jobs are dead: %s", got[0], second)
	}
}

// A session sees the actions that it may use, and the others are refused.
func TestGroupRights(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.die("mail", numbered(3)...)
	wants := map[string]string{"consume": "", "both": "delete", "admin": "delete purge requeue"}
	for _, caller := range []string{"consume", "both", "admin"} { // the last one requeues the jobs
		b, want := r.login(caller), wants[caller]
		if got := offers(b.get("/ui/n/shop/q/mail/dead").body); got != want {
			t.Errorf("the list offers %q to %s, want %q", got, caller, want)
		}
		want = strings.Replace(want, " purge", "", 1)
		if got := offers(b.get("/ui/n/shop/q/mail/dead?fp=" + orderGone).body); got != want {
			t.Errorf("the group offers %q to %s, want %q", got, caller, want)
		}
		form := url.Values{"fp": {orderGone}, "confirmed": {"yes"}, "once": {"x"}, "name": {"mail"}}
		a := b.post("/ui/n/shop/q/mail/requeue", form)
		if forbidden := a.status == http.StatusForbidden; forbidden != (caller != "admin") {
			t.Errorf("requeue by %s has the status %d", caller, a.status)
		}
	}
	for caller, want := range map[string]bool{"produce": false, "consume": true} {
		if page := r.login(caller).get("/ui/n/shop/queues").body; strings.Contains(page, "Dead letters") != want {
			t.Errorf("the navigation of %s has dead letters: %v", caller, !want)
		}
	}
}

// groupEngine lets something happen before calls.
type groupEngine struct {
	contract.Engine
	list    func()
	requeue func(call int, ids []string) error
	deletes func(ids []string)
	calls   int
}

func (e *groupEngine) List(ctx context.Context, q duly.QueueRef, p duly.ListParams) (duly.ListPage, error) {
	if e.list != nil {
		e.list()
	}
	return e.Engine.List(ctx, q, p)
}

func (e *groupEngine) Requeue(
	ctx context.Context, q duly.QueueRef, p duly.RequeueParams,
) ([]duly.RequeueResult, error) {
	e.calls++
	if e.requeue != nil {
		if err := e.requeue(e.calls, p.IDs); err != nil {
			return nil, err
		}
	}
	return e.Engine.Requeue(ctx, q, p)
}

func (e *groupEngine) DeleteJobs(
	ctx context.Context, q duly.QueueRef, ids []string, state duly.State,
) ([]error, error) {
	if e.deletes != nil {
		e.deletes(ids)
	}
	return e.Engine.DeleteJobs(ctx, q, ids, state)
}

// newGroupRig returns a rig whose dashboard uses a groupEngine.
func newGroupRig(t *testing.T) (*rig, *groupEngine) {
	e := &groupEngine{}
	return newRig(t, func(c *Config) { e.Engine, c.Engine = c.Engine, e }), e
}

// An action on a group continues behind jobs that somebody else has changed, and says what it has done if the engine
// fails between two steps.
func TestGroupActionEndsPartly(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		first, second error // before the calls
		result        string
		ready         int64
		err           string // in the audit log
	}{
		"AnotherRequeue": {nil, nil, "500 jobs are requeued. 1000 could not be changed", 1500, "ok"},
		"EngineFails": {errors.New("other"), duly.ErrUnavailable,
			"1000 jobs are requeued. The action ended early: ", 1000,
			"unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, e := newGroupRig(t)
			r.die("mail", numbered(1500)...)
			b := r.login("admin")
			e.requeue = func(call int, ids []string) error {
				if call == 2 {
					return tt.second
				}
				if tt.first == nil {
					_, err := r.engine.Requeue(t.Context(), duly.QueueRef{Namespace: "shop", Name: "mail"},
						duly.RequeueParams{IDs: ids})
					return err
				}
				return nil
			}
			form := hidden(b.post("/ui/n/shop/q/mail/requeue", url.Values{"fp": {orderGone}}).body, "requeue")
			form.Set("name", "mail")
			r.audited()
			a := b.post("/ui/n/shop/q/mail/requeue", form)
			page := b.get(a.header.Get("Location")).body
			if a.status != http.StatusSeeOther || !strings.Contains(page, tt.result) || r.sizes("mail")[1] != tt.ready {
				t.Errorf("status %d, sizes %v: %s%s", a.status, r.sizes("mail"), a.body, page)
			}
			if (tt.second != nil) != strings.Contains(page, "Requeue more …") {
				t.Error("the button is not that of the rest")
			}
			if lines := r.audited(); len(lines) != 2 || lines[1].Result != tt.err || lines[1].Done == 0 {
				t.Errorf("the audit log has %+v", lines)
			}
		})
	}
}

// C14.61: Delete all of a group leaves a job that somebody else has requeued since it was listed.
func TestDeleteAllLeavesRequeuedJobs(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		requeued int
		result   string // on the page of the status
		status   int
	}{
		"One":  {1, "11 jobs are deleted. 1 could not be changed, the first one because: ", http.StatusSeeOther},
		"All":  {12, " is ready, not dead", http.StatusConflict},
		"None": {0, "12 jobs are deleted.</p>", http.StatusSeeOther},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, e := newGroupRig(t)
			r.die("mail", numbered(12)...)
			b := r.login("admin")
			e.deletes = func(ids []string) {
				if tt.requeued == 0 {
					return
				}
				_, err := r.engine.Requeue(t.Context(), duly.QueueRef{Namespace: "shop", Name: "mail"},
					duly.RequeueParams{IDs: ids[:tt.requeued]})
				if err != nil {
					t.Error(err)
				}
			}

			form := hidden(b.post("/ui/n/shop/q/mail/delete", url.Values{"fp": {orderGone}}).body, "delete")
			a := b.post("/ui/n/shop/q/mail/delete", form)
			page := a.body
			if a.status == http.StatusSeeOther {
				page = b.get(a.header.Get("Location")).body
			}
			if a.status != tt.status || !strings.Contains(page, tt.result) {
				t.Errorf("the status is %d: %s", a.status, page)
			}
			if got := r.sizes("mail"); got != [2]int64{0, int64(tt.requeued)} {
				t.Errorf("the numbers of dead and ready jobs are %v", got)
			}
		})
	}
}

// The question about a group is careful while its jobs are not all counted.
func TestQuestionAboutAnUncountedGroup(t *testing.T) {
	t.Parallel()
	r, e := newGroupRig(t)
	full := make([]string, 1000)
	for i := range full {
		full[i] = "disk is full"
	}
	r.die("mail", append(full, numbered(1000)...)...)
	b := r.login("admin")
	e.list = func() { r.clock.Advance(2 * time.Second) }
	ask := b.post("/ui/n/shop/q/mail/requeue", url.Values{"fp": {orderGone}})
	if ask.status != 200 || !strings.Contains(ask.body, "Requeue 0 dead jobs or more of mail with this error?") ||
		!strings.Contains(ask.body, `<input name="name"`) {
		t.Errorf("the question has the status %d: %s", ask.status, ask.body)
	}
	form := hidden(ask.body, "requeue")
	form.Set("name", "mail")
	if a := b.post("/ui/n/shop/q/mail/requeue", form); a.status != http.StatusSeeOther || r.sizes("mail")[1] != 1000 {
		t.Errorf("status %d, sizes %v", a.status, r.sizes("mail"))
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
