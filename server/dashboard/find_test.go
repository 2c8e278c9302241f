package dashboard

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
)

// P15, P15.1: one field finds a job by its ID in any queue, queues and pages by a part of their name, groups of failures
// by a word, and order keys. The only job with an ID opens at once.
func TestFind(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i := range 12 {
		r.push(duly.Job{Queue: fmt.Sprint("Orders.", i), ID: "twice"[:5-i%2] + fmt.Sprint(i%3)})
	}
	only := r.push(duly.Job{Queue: "mail", ID: "welcome-4711", OrderKey: "customer 1/ä"})
	r.push(duly.Job{Queue: "mail", OrderKey: "customer 1/ä"})
	r.die("mail2", "connection refused by 10.1.2.3")
	b := r.login("consume")

	b.has("/ui/n/shop", `<form action="/ui/n/shop/find" role="search"`)
	a := b.get("/ui/n/shop/find?q=" + only)
	if to := a.header.Get("Location"); a.status != http.StatusSeeOther || to != "/ui/n/shop/q/mail/j/welcome-4711" {
		t.Errorf("the ID of one job goes to %q with %d", to, a.status)
	}
	b.has("/ui/n/shop/find?q=twice0", "<h2>Jobs</h2>", "/ui/n/shop/q/Orders.0/j/twice0", "/ui/n/shop/q/Orders.6/j/twice0", "2 results.")
	b.has("/ui/n/shop/find?q=orders", "<h2>Queues</h2>", `href="/ui/n/shop/q/Orders.11"`, "12 results.")
	b.has("/ui/n/shop/find?q=letters", "<h2>Pages</h2>", `<a href="/ui/n/shop/dead"><bdi>Dead letters`)
	if page := b.get("/ui/n/shop/find?q=refused").body; strings.Contains(page, "Dead letters, as") {
		t.Error("a group that nobody has counted is found")
	}
	b.get("/ui/n/shop/dead")
	b.has("/ui/n/shop/find?q=REFUSED", "Dead letters, as counted last", "/ui/n/shop/dead?fp=")
	b.has("/ui/n/shop/find?q="+url.QueryEscape("key:customer 1/ä"), "<h2>Order keys</h2>",
		"/ui/n/shop/q/mail/keys?key="+url.QueryEscape("customer 1/ä"), "welcome-4711", "Look for the key in another queue")

	b.has("/ui/n/shop/find", "Write the ID of a job")
	b.has("/ui/n/shop/find?q="+url.QueryEscape("<b>no such/thing"), "0 results.")
	if a := b.get("/ui/n/shop/find?q=" + strings.Repeat("x", 257)); a.status != http.StatusBadRequest {
		t.Errorf("a long text has the status %d", a.status)
	}
	if page := r.login("produce").get("/ui/n/shop").body; strings.Contains(page, "/ui/n/shop/find") {
		t.Error("a session without the right has the field")
	}
}

// P10: the list has the keys for which jobs wait, by prefix and on pages. The page of a key has its head with the
// actions on it.
func TestKeys(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const hostile = `a/b?c&d=<script>"' ä`
	for i := range 150 {
		for range 2 {
			r.push(duly.Job{OrderKey: fmt.Sprintf("customer-%03d", i)})
		}
	}
	head := r.push(duly.Job{OrderKey: hostile, Priority: 9})
	r.push(duly.Job{OrderKey: hostile})
	r.reserve("mail")
	b, at := r.login("both"), "/ui/n/shop/q/mail/keys"

	b.has("/ui/n/shop/q/mail", `href="`+at+`"`)
	found := map[string]bool{}
	for next := at + "?prefix=customer-"; next != ""; {
		body := b.get(next).body
		for _, part := range strings.Split(body, "keys?key=")[1:] {
			key, _, _ := strings.Cut(part, `"`)
			found[key] = true
		}
		before, _, more := strings.Cut(body, `">Next page</a>`)
		if next = ""; more {
			next = html.UnescapeString(before[strings.LastIndex(before, `"`)+1:])
		}
	}
	if len(found) != 150 {
		t.Errorf("the list has %d keys", len(found))
	}

	lane := at + "?key=" + url.QueryEscape(hostile)
	b.has(at+"?prefix=a", `href="`+lane+`"`)
	b.has(lane, "<h1><bdi>"+hostile, "/ui/n/shop/q/mail/j/"+head, "leased", "Delete the first job …", "duly key get mail 'a/b?c&d=")
	if a := b.get(at + "?key=none"); a.status != http.StatusNotFound {
		t.Errorf("an unknown key has the status %d", a.status)
	}
	if a := b.get(at + "?cursor=bad"); a.status != http.StatusBadRequest {
		t.Errorf("a bad cursor has the status %d", a.status)
	}
}

// P10.2: the lane of a key equals the order in which a worker receives its jobs, with priorities and a retry.
func TestLaneIsTheOrderOfDelivery(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const keys, jobs = 20, 20
	for i := range jobs {
		for k := range keys {
			r.push(duly.Job{ID: fmt.Sprintf("k%d:%d", k, i), OrderKey: fmt.Sprint("k", k), Priority: (i * 7 % 5) - 2})
		}
	}
	for range 7 {
		r.fail("mail", time.Minute)
	}
	b, want := r.login("consume"), map[string][]string{}
	for k := range keys {
		body := b.get(fmt.Sprintf("/ui/n/shop/q/mail/keys?key=k%d", k)).body
		_, body, _ = strings.Cut(body, "<h2>The key</h2>")
		for _, part := range strings.Split(body, "/j/")[1:] {
			id, _, _ := strings.Cut(part, `"`)
			want[fmt.Sprint("k", k)] = append(want[fmt.Sprint("k", k)], id)
		}
	}

	r.clock.Advance(2 * time.Minute)
	got := map[string][]string{}
	for range keys * jobs {
		d := r.reserve("mail")
		got[d.OrderKey] = append(got[d.OrderKey], d.ID)
		results, err := r.engine.Settle(t.Context(), "shop", []duly.SettleRequest{{Receipt: d.Receipt, As: duly.Ack}})
		if err != nil || results[0] != nil {
			t.Fatal(err, results)
		}
	}
	for key, ids := range got {
		if !slices.Equal(ids, want[key]) {
			t.Errorf("the lane of %s has %v, a worker gets %v", key, want[key], ids)
		}
	}
}
