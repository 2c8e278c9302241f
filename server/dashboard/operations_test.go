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

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/eventually"
	"github.com/dulymq/duly/server/operations"
)

// start starts an operation and returns its page.
func (r *rig) start(n contract.NewOperation) string {
	r.t.Helper()
	o, err := r.dashboard.cfg.Operations.Start("shop", n, operations.Actor{Caller: "test <b>", Via: "api"})
	if err != nil {
		r.t.Fatal(err)
	}
	return "/ui/n/shop/ops/" + o.ID
}

// await runs the operations. It returns the one of a page when it has ended, or waits after its canary.
func (r *rig) await(page string) contract.Operation {
	r.t.Helper()
	r.running.Do(func() {
		ctx, end := context.WithCancel(context.Background())
		over := make(chan struct{})
		go func() { defer close(over); r.dashboard.cfg.Operations.Run(ctx) }()
		r.t.Cleanup(func() { end(); <-over })
	})
	id, _, _ := strings.Cut(page[strings.LastIndex(page, "/")+1:], "?")
	var o contract.Operation
	eventually.True(r.t, "the end of the operation "+id, func() (ended bool) {
		var err error
		if o, err = r.dashboard.cfg.Operations.Get("shop", id); err != nil {
			r.t.Fatal(err)
		}
		return o.State.Ended() || o.State == contract.OperationWaiting
	})
	return o
}

var numberOf = regexp.MustCompile(`data-number="([^"]*)"(?: max="\d+" value="(\d+)"[^>]*)?>([^<]*)<`)

// numbersOf returns the numbers of a page that change, by name.
func numbersOf(page string) map[string]string {
	list := map[string]string{}
	for _, found := range numberOf.FindAllStringSubmatch(page, -1) {
		list[found[1]] = found[2] + found[3]
	}
	return list
}

// P9, P9.5: the list and the page of an operation show its progress. Two browsers see the same, and the same as the API.
func TestOperationPages(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.die("mail", append(numbered(12), "disk is full")...)
	r.clock.Advance(time.Second)
	at := r.start(contract.NewOperation{
		Kind: "requeue", Queue: "mail", Group: orderGone, Canary: &contract.OperationCanary{Jobs: 10, Then: "continue"}, Rate: 1000,
	})
	one, two := r.login("admin"), r.login("consume")
	if page := one.get(at).body; !strings.Contains(page, `data-every="2"`) || numbersOf(page)["field state"] != "queued" ||
		numbersOf(page)["found"] != "0+" {
		t.Errorf("a new operation has the page %s", page)
	}
	o := r.await(at)
	if o.State != contract.OperationWaiting || o.Done == 0 {
		t.Fatalf("the operation is %+v", o)
	}

	r.clock.Advance(time.Second)
	first, second := one.get(at).body, two.get(at).body
	want := map[string]string{
		"found": "12", "taken": fmt.Sprint(o.Taken), "done": fmt.Sprint(o.Done), "skipped": "0", "failed": "0",
		o.ID + " progress": fmt.Sprint(o.Taken), "field state": "waiting",
		"field canary": fmt.Sprintf("%d jobs, then continue when 90 %% have succeeded: 0 succeeded, 0 failed", o.Canary.Jobs),
	}
	a, b := numbersOf(first), numbersOf(second)
	for name, value := range want {
		if a[name] != value || b[name] != value {
			t.Errorf("%s is %q and %q, want %q", name, a[name], b[name], value)
		}
	}
	if !strings.Contains(first, "of the server <bdi>host-1</bdi>") || !strings.Contains(first, o.Filter) ||
		!strings.Contains(first, "test &lt;b&gt;") || strings.Count(first, "<td>done</td>") != int(o.Done) {
		t.Errorf("the page is %s", first)
	}
	if offers(first) != "continue stop" || offers(second) != "" {
		t.Errorf("the page offers %q to an admin and %q to a consumer", offers(first), offers(second))
	}

	list := two.get("/ui/n/shop/ops").body
	if n := numbersOf(list); n[o.ID+" done"] != fmt.Sprint(o.Done) || n[o.ID+" state"] != "waiting" ||
		!strings.Contains(list, `<a href="`+at+`"><bdi>requeue mail</bdi>`) || !strings.Contains(list, "host-1") {
		t.Errorf("the list is %s", list)
	}
	if page := r.login("produce").get(at).body; strings.Contains(page, "Last answers") {
		t.Error("a producer sees the answers of a requeue")
	}
	if a := r.login("other").get("/ui/n/other/ops/" + o.ID); a.status != http.StatusNotFound {
		t.Errorf("another namespace has the status %d", a.status)
	}
}

// P9, C14.100: an operation is paused, continued and stopped by buttons, without lines of the audit log but with its own
// end. A disk that is full does not prevent a stop. Its page asks for no more numbers then.
func TestChangesOfOperations(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	at := r.start(contract.NewOperation{Kind: "promote", Queue: "mail"})
	b := r.login("both")
	r.audited()
	r.dashboard.cfg.Audit = fullAudit{}
	for _, tt := range []struct{ action, result, state, offers string }{
		{"pause", "The operation is paused.", "paused", "continue stop"},
		{"continue", "The operation continues.", "queued", "pause stop"},
		{"pause", "The operation is paused.", "paused", "continue stop"},
		{"stop", "The operation is stopped.", "stopped", ""},
	} {
		form := hidden(b.get(at).body, tt.action)
		a := b.post(at+"/"+tt.action, form)
		page := b.get(a.header.Get("Location")).body
		if !strings.HasPrefix(a.header.Get("Location"), at+"?result=") || !strings.Contains(page, tt.result) ||
			numbersOf(page)["field state"] != tt.state || offers(page) != tt.offers {
			t.Errorf("%s has the status %d: %s", tt.action, a.status, page)
		}
		if strings.Contains(page, "data-every") != (tt.offers != "") {
			t.Errorf("after %s the page is live: %v", tt.action, tt.offers == "")
		}
	}
	if lines := r.audited(); len(lines) != 1 || lines[0].Phase != "outcome" || lines[0].Result != "stopped" {
		t.Errorf("the audit log has %+v", lines)
	}
	if n := strings.Count(r.log.String(), "an operation was changed"); n != 4 {
		t.Errorf("the log has %d changes", n)
	}
	if a := b.post(at+"/continue", url.Values{"once": {"x"}}); a.status != http.StatusConflict {
		t.Errorf("an ended operation has the status %d", a.status)
	}
}

// The list has pages of 100 operations, each operation once, the newest first.
func TestPagesOfOperations(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var want []string
	for range operationsPerPage + 20 {
		at := r.start(contract.NewOperation{Kind: "purge", Queue: "mail", State: duly.StateDone})
		want = append([]string{at}, want...)
		r.operation("", "", "", duly.StateReady) // stops it
		r.clock.Advance(time.Second)
	}
	b := r.login("produce")
	var got []string
	for page := "/ui/n/shop/ops"; page != ""; {
		body := b.get(page).body
		for _, part := range strings.Split(body, `<th scope="row"><a href="`)[1:] {
			at, _, _ := strings.Cut(part, `"`)
			got = append(got, at)
		}
		before, _, more := strings.Cut(body, `">Next page</a>`)
		if page = ""; more {
			page = before[strings.LastIndex(before, `"`)+1:]
		}
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("the pages have %d operations, want %d", len(got), len(want))
	}
}

// hostileEngine refuses to delete jobs, with a hostile text.
type hostileEngine struct {
	contract.Engine
	text string
}

func (e *hostileEngine) DeleteJobs(context.Context, duly.QueueRef, []string, duly.State) ([]error, error) {
	return []error{contract.Errorf(duly.CodeConflict, "%s", e.text)}, nil
}

// S3, G16: hostile texts appear as text on the pages of operations: the caller, the filter, and the errors of answers.
func TestHostileTextsOfOperations(t *testing.T) {
	t.Parallel()
	e := &hostileEngine{}
	r := newRig(t, func(c *Config) { e.Engine, c.Engine = c.Engine, e })
	b := r.login("both")
	for i, text := range hostileTexts {
		e.text = text
		id := r.push(duly.Job{})
		o, err := r.dashboard.cfg.Operations.Start("shop", contract.NewOperation{
			Kind: "delete", Queue: "mail", IDs: []string{id},
		}, operations.Actor{Caller: text})
		if err != nil {
			t.Fatal(err)
		}
		at := "/ui/n/shop/ops/" + o.ID
		if o = r.await(at); o.Failed+o.Skipped != 1 || o.Answers[0].Error == "" {
			t.Fatalf("case %d: the operation is %+v", i, o)
		}
		for _, page := range []string{"/ui/n/shop/ops", at} {
			a := b.get(page)
			if a.status != 200 || strings.ContainsAny(text, `<"'`) && strings.Contains(a.body, text) {
				t.Errorf("case %d: %s has the status %d, or %q as markup", i, page, a.status, text)
			}
		}
	}
}
