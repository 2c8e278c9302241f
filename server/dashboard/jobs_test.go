package dashboard

import (
	"fmt"
	"html"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/server/failures"
)

// rows returns the IDs of the jobs in the list of a page.
func rows(page string) string {
	var ids []string
	_, page, _ = strings.Cut(page, `aria-label="Jobs"`)
	for _, part := range strings.Split(page, "/j/")[1:] {
		id, _, _ := strings.Cut(part, `"`)
		ids = append(ids, id)
	}
	return strings.Join(ids, " ")
}

// P5: a list has its jobs oldest or newest first, and begins at a time.
func TestOrderOfJobs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i := range 5 {
		r.push(duly.Job{ID: fmt.Sprint("d", i), Delay: time.Duration(i) * time.Hour})
	}
	b := r.login("both")
	at := url.QueryEscape(moment(r.clock.Now().Add(2 * time.Hour)))
	for query, want := range map[string]string{
		"delayed?from=2h30m":                        "d3 d4",
		"delayed":                                   "d1 d2 d3 d4",
		"delayed?order=newest":                      "d4 d3 d2 d1",
		"delayed?order=newest&from=2h30m":           "d2 d1",
		"delayed?from=" + at:                        "d2 d3 d4",
		"delayed?order=newest&from=" + at:           "d2 d1",
		"delayed?from=2000-01-01&order=":            "d1 d2 d3 d4",
		"delayed?from=2000-01-01+10:00:00":          "d1 d2 d3 d4",
		"delayed?from=2000-01-01T10:00:00%2B01:00":  "d1 d2 d3 d4",
		"delayed?order=newest&from=2000-01-01&fp=x": "",
		"ready?order=newest":                        "d0",
	} {
		a := b.get("/ui/n/shop/q/mail/" + query)
		if got := rows(a.body); a.status != 200 || got != want {
			t.Errorf("%s has the status %d and shows %q, want %q", query, a.status, got, want)
		}
	}

	for query, want := range map[string]string{
		"delayed?from=yesterday":  "write a time in UTC like",
		"delayed?from=0001-01-01": "write a time in UTC like",
		"delayed?from=1969-01-01": "must be between 1970",
		"ready?from=10m":          "needs the state delayed",
	} {
		if a := b.get("/ui/n/shop/q/mail/" + query); a.status != 400 || !strings.Contains(a.body, want) {
			t.Errorf("%s has the status %d and not the text %q", query, a.status, want)
		}
	}
	part := html.UnescapeString(b.get("/ui/n/shop/q/mail/delayed?order=newest&from=30m").body)
	for _, want := range []string{
		"No delayed job is in this range.", "duly jobs mail --state delayed --newest --from 20",
		"/v1/shop/queues/mail/jobs?state=delayed&from=20",
	} {
		if !strings.Contains(part, want) {
			t.Errorf("the page of a part lacks %q", want)
		}
	}
	admin := r.login("admin")
	for query, want := range map[string]bool{"": true, "?order=newest": true, "?from=30m": false} {
		if got := strings.Contains(admin.get("/ui/n/shop/q/mail/delayed"+query).body, "Purge …"); got != want {
			t.Errorf("%q has the button to purge the whole state: %v", query, got)
		}
	}
	ready := b.get("/ui/n/shop/q/mail/ready").body
	if strings.Contains(ready, `name="from"`) || !strings.Contains(ready, ">last first<") {
		t.Error("ready jobs have another form for their order")
	}
}

// P5: all pages of a list have one order and begin at one time, although the clock goes on.
func TestPagesKeepOrderAndTime(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.die("mail", slices.Repeat([]string{"too early"}, 10)...)
	r.clock.Advance(20 * time.Minute)
	r.die("mail", slices.Repeat([]string{"boom"}, 250)...)
	r.clock.Advance(time.Minute)
	b := r.login("both")
	for _, query := range []string{"?from=10m", "?order=newest", "?from=10h&fp=" + failures.Fingerprint("boom")} {
		seen, order := map[string]bool{}, strings.Contains(query, "newest")
		page, pages, last := "/ui/n/shop/q/mail/dead"+query, 0, ""
		for ; page != ""; pages++ {
			body := b.get(page).body
			for id := range strings.FieldsSeq(rows(body)) {
				if seen[id] || last != "" && (id < last) != order {
					t.Errorf("%s: %s follows %s", query, id, last)
				}
				seen[id], last = true, id
			}
			r.clock.Advance(5 * time.Minute)
			before, _, more := strings.Cut(body, `">Next page</a>`)
			page = ""
			if more {
				page = html.UnescapeString(before[strings.LastIndex(before, `"`)+1:])
			}
		}
		want := 250
		if order {
			want = 260
		}
		if len(seen) != want || pages != 3 {
			t.Errorf("%s: %d jobs on %d pages, want %d on 3", query, len(seen), pages, want)
		}
	}
}
