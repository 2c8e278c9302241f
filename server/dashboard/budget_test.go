package dashboard

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/server/dashboard/history"
)

// G1, P3.1: compressed, a page of 100 jobs has at most 45 KB, a list of 1000 queues 60 KB, and the first visit with its
// style and scripts 150 KB in 20 requests, from this server alone.
func TestSizesOfPages(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for range jobsPerPage {
		r.push(duly.Job{Delay: time.Hour, OrderKey: "customer-4711", Body: []byte("x")})
	}
	b := r.login("both")
	get := func(at string) int {
		a := b.do("GET", at, "", "Accept-Encoding", "gzip")
		if a.status != 200 || a.header.Get("Content-Encoding") != "gzip" {
			t.Errorf("%s has the status %d and the encoding %q", at, a.status, a.header.Get("Content-Encoding"))
		}
		return len(a.body)
	}
	first := get("/ui/n/shop/q/mail/delayed")
	if first > 45_000 {
		t.Errorf("a page of 100 jobs has %d bytes", first)
	}

	// The first visit opens the overview, which has charts.
	page, requests := b.get("/ui/n/shop").body, 1
	total := get("/ui/n/shop")
	for _, attribute := range []string{`href="`, `src="`} {
		for _, part := range strings.Split(page, attribute)[1:] {
			if at, _, _ := strings.Cut(part, `"`); strings.HasPrefix(at, "/ui/assets/") {
				n := get(at)
				total, requests = total+n, requests+1
				if strings.HasSuffix(at, ".css") && n > 12_000 || strings.HasSuffix(at, ".js") && n > 60_000 {
					t.Errorf("%s has %d bytes", at, n)
				}
			}
		}
	}
	if strings.Contains(page, "://") || total > 150_000 || requests < 7 || requests > 20 {
		t.Errorf("the first visit has %d requests with %d bytes", requests, total)
	}

	for i := range 300 {
		r.put(duly.Schedule{Name: fmt.Sprint("nightly-report-of-", i), Spec: "30 2 * * 1-5", Zone: "Europe/Berlin"})
	}
	for i := range 2 * keysPerPage {
		for range 2 {
			r.push(duly.Job{Queue: "lanes", OrderKey: fmt.Sprint("a-customer-with-a-long-name-", i)})
		}
		r.push(duly.Job{Queue: "lanes", OrderKey: "busy"})
	}
	for _, at := range []string{
		"/ui/n/shop/schedules", "/ui/n/shop/schedules/reports/nightly-report-of-1", "/ui/n/shop/set/schedule",
		"/ui/n/shop/q/lanes/keys", "/ui/n/shop/q/lanes/keys?key=busy",
		"/ui/n/shop/find?q=l", "/ui/n/shop/q/lanes/ready?where=size%3C1",
	} {
		if n := get(at); n > 45_000 {
			t.Errorf("%s has %d bytes", at, n)
		}
	}

	for i := range 999 {
		r.push(duly.Job{Queue: fmt.Sprint("queue-", i)})
	}
	// All queues are busy for 20 minutes, each in its own way.
	for minute := range 20 {
		for i := range 999 {
			if (i*7+minute*minute)%(3+i%5) == 0 {
				r.push(duly.Job{Queue: fmt.Sprint("queue-", i)})
			}
		}
		r.clock.Advance(time.Minute)
		b.get("/ui/n/shop/queues")
	}
	if page := b.get("/ui/n/shop/queues").body; strings.Count(page, `class="spark"`) != 999 {
		t.Errorf("%d queues have a trend", strings.Count(page, `class="spark"`))
	}
	if n := get("/ui/n/shop/queues"); n > 60_000 {
		t.Errorf("the list of 1000 queues has %d bytes", n)
	}
	for _, at := range history.Ranges {
		if n := get("/ui/n/shop?range=" + at.Name); n > 45_000 {
			t.Errorf("the overview of %s has %d bytes", at.Name, n)
		}
	}
}

// Section 9: the dashboard and the audit log have at most 7 400 lines of Go, 2 500 of templates, 900 of CSS, and 1 000 of
// script in 10 modules.
func TestSizesOfCode(t *testing.T) {
	t.Parallel()
	lines, modules := map[string]int{}, 0
	for _, root := range []string{".", "../audit"} {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			kind := filepath.Ext(path)
			if err != nil || entry.IsDir() || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "vendor") {
				return err
			}
			text, err := os.ReadFile(path)
			lines[kind] += bytes.Count(text, []byte("\n"))
			if kind == ".js" {
				modules++
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for kind, most := range map[string]int{".go": 7400, ".html": 2500, ".css": 900, ".js": 1000} {
		if n := lines[kind]; n == 0 || n > most {
			t.Errorf("%d lines of %s, at most %d", n, kind, most)
		}
	}
	if modules > 10 {
		t.Errorf("%d modules", modules)
	}
}
