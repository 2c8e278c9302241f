package dashboard

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/model"
)

// slow is an engine whose lists take time, by a clock that only they move.
type slow struct {
	store
	clock *clock.Fake
	takes time.Duration
}

func (s *slow) List(ctx context.Context, q duly.QueueRef, p duly.ListParams) (duly.ListPage, error) {
	s.clock.Advance(s.takes)
	return s.store.List(ctx, q, p)
}

// P5: a search examines jobs for 250 ms, says how many, and continues at the same place with the same counts. It finds
// every job once.
func TestSearchContinues(t *testing.T) {
	t.Parallel()
	fake := clock.NewFake()
	r := newRigOn(t, &slow{model.New(model.Config{Clock: fake}), fake, 100 * time.Millisecond}, fake)
	for i := range 4000 {
		r.push(duly.Job{ID: fmt.Sprint("j", i), Headers: map[string]string{"tenant": fmt.Sprint("t", i%50)}})
	}
	b, seen, texts := r.login("consume"), map[string]bool{}, []string{}
	next := "/ui/n/shop/q/mail/ready?where=" + url.QueryEscape("size<1 header.tenant:t7")
	for ; next != ""; r.clock.Advance(time.Second) {
		a := b.get(next)
		for id := range strings.FieldsSeq(rows(a.body)) {
			if seen[id] {
				t.Errorf("%s appears twice", id)
			}
			seen[id] = true
		}
		_, progress, _ := strings.Cut(a.body, `<p class="counted">`)
		progress, _, _ = strings.Cut(progress, "<")
		texts = append(texts, strings.TrimSuffix(progress, " · "))
		before, _, more := strings.Cut(a.body, `">Continue</a>`)
		if next = ""; more {
			next = html.UnescapeString(before[strings.LastIndex(before, `"`)+1:])
		}
	}
	want := "1500 of 4000 examined · 30 found, 3000 of 4000 examined · 60 found, 4000 of 4000 examined · 80 found"
	if got := strings.Join(texts, ", "); len(seen) != 80 || got != want {
		t.Errorf("%d jobs: %s", len(seen), got)
	}
}

// At most four searches and two exports begin in a second. Lists without conditions are no searches.
func TestSearchesAreBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.push(duly.Job{})
	b, at := r.login("consume"), "/ui/n/shop/q/mail/ready"
	for i := range 6 {
		want := http.StatusOK
		if i >= maxSearches {
			want = http.StatusServiceUnavailable
		}
		if a := b.get(at + "?where=size%3E0"); a.status != want || i >= maxSearches && a.header.Get("Retry-After") != "1" {
			t.Errorf("search %d has the status %d", i, a.status)
		}
	}
	for i, want := range []int{200, 200, 503} {
		if a := b.get("/ui/n/shop/q/mail/export/ready"); a.status != want {
			t.Errorf("export %d has the status %d", i, a.status)
		}
	}
	if a := b.get(at); a.status != 200 {
		t.Errorf("a list has the status %d", a.status)
	}
	r.clock.Advance(time.Second)
	if a := b.get(at + "?where=size%3E0"); a.status != 200 {
		t.Errorf("a second later a search has the status %d", a.status)
	}
}

// P5.5: a dashboard without bodies has no conditions on them, and a bad condition is a clear error.
func TestRefusedConditions(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.HideBodies = true })
	r.push(duly.Job{Body: []byte("secret"), Headers: map[string]string{"tenant": "acme"}})
	b := r.login("both")
	for where, want := range map[string]int{
		"body~secret": 403, "result:x": 403, "-header.tenant:acme": 403, "size>2": 200, "size": 400, "nothing:1": 400, "priority>x": 400,
		strings.Repeat("x", 300): 400, `error~"`: 400,
	} {
		for _, page := range []string{"ready", "export/ready"} {
			r.clock.Advance(time.Second)
			if a := b.get("/ui/n/shop/q/mail/" + page + "?where=" + url.QueryEscape(where)); a.status != want {
				t.Errorf("%s: %s has the status %d, want %d", page, where, a.status, want)
			}
		}
	}
	if a := b.get("/ui/n/shop/q/mail/export/ready"); strings.Contains(a.body, "secret") || strings.Contains(a.body, "acme") {
		t.Errorf("a file has %s", a.body)
	}
}

// P5.6: a file has each matching job once, in the order of the list, as JSON or for a spreadsheet. A cell is no formula.
// The audit log has two lines of it.
func TestExport(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i := range 1200 {
		r.push(duly.Job{ID: fmt.Sprint("j", i), Priority: -(i % 2), Body: []byte("body"), OrderKey: fmt.Sprint("=1+1 ", i)})
	}
	b := r.login("both")
	r.audited()
	a := b.get("/ui/n/shop/q/mail/export/ready?where=priority%3A-1&order=newest")
	if a.status != 200 || a.header.Get("Content-Type") != "application/x-ndjson" ||
		a.header.Get("Content-Disposition") != "attachment; filename*=UTF-8''mail-ready.ndjson" {
		t.Fatalf("the file has the status %d and %v", a.status, a.header)
	}
	lines := strings.Split(strings.TrimSpace(a.body), "\n")
	var first struct{ ID, Body, Queue string }
	if err := json.Unmarshal([]byte(lines[0]), &first); err != nil || len(lines) != 600 || first.Body != "body" ||
		first.ID != "j1" && first.ID != "j1199" {
		t.Errorf("%d lines, the first is %+v, %v", len(lines), first, err)
	}
	log := r.audited()
	if len(log) != 2 || log[0].Route != "GET /v1/{namespace}/queues/{queue}/jobs" || log[1].Done != 600 || log[1].Result != "ok" {
		t.Errorf("the audit log has %+v", log)
	}

	a = b.get("/ui/n/shop/q/mail/export/ready?format=csv")
	table, err := csv.NewReader(strings.NewReader(a.body)).ReadAll()
	if err != nil || len(table) != 1201 || a.header.Get("Content-Type") != "text/csv; charset=utf-8" {
		t.Fatalf("the table has %d rows, %v, %v", len(table), err, a.header)
	}
	seen := map[string]bool{}
	for _, row := range table[1:] {
		if seen[row[0]] || !strings.HasPrefix(row[12], "'=1+1") || row[2] != "0" && row[2] != "-1" {
			t.Fatalf("a row is %q", row)
		}
		seen[row[0]] = true
	}
	b.has("/ui/n/shop/q/mail/ready?where=priority%3A-1", "/ui/n/shop/q/mail/export/ready?where=priority%3A-1&format=csv",
		"duly jobs mail --state ready --where priority:-1")
}
