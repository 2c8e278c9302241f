package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/proctest"
	"github.com/dulymq/duly/server/dashboard/assets"
)

// G8: the policy blocks inline code and foreign files, and the instruments of the other tests see each violation.
func TestPolicyBlocksInlineCode(t *testing.T) {
	t.Parallel()
	for _, inline := range []string{
		"<script>window.ran = true</script>", "<p style='color: red'>", "<img src=x onerror='window.ran = true'>",
		"<script src='http://127.0.0.2:1/x.js'></script>",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Security-Policy", assets.Policy)
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			fmt.Fprint(w, "<!doctype html><title>trial</title>", inline)
		}))
		t.Cleanup(server.Close)
		_, b := newSession(t)
		b.open(server.URL)
		if len(eval[[]string](b, "violations")) == 0 || eval[bool](b, "!!window.ran") {
			t.Errorf("the policy permits %s", inline)
		}
	}
}

// G5: at each look, the numbers of 300 of 1 000 rows change. Every number is right, the number of nodes is constant,
// and the heap grows by at most 5 MB. The script takes at most ten times its figure of 30 ms of processor time per look.
func TestLiveRows(t *testing.T) {
	t.Parallel()
	const rows, changed = 1000, 300
	ticks := 10
	if proctest.Long() {
		ticks = 600
	}
	server := newDashboardServer(t)
	name := func(row int) string { return fmt.Sprintf("row-%03d", row) }
	want := make([]int, rows)
	push := func(row int) {
		want[row]++
		server.push(duly.Job{Namespace: "rows", Queue: name(row), Delay: time.Hour})
	}
	for row := range rows {
		push(row)
	}
	_, b := newSession(t)
	call(b, performance.Enable, performance.EnableParams{TimeDomain: performance.EnableTimeDomainThreadTicks})
	server.login(b)
	b.open(server.URL + "/ui/n/rows/queues")
	server.watched(b)

	const cell = `document.querySelector('tr[data-queue="%s"] [data-live="0"]').textContent === '%d'`
	look := func(n int) {
		for i := range changed {
			push((n*changed + i) % rows)
		}
		server.tick(b)
		last := (n*changed + changed - 1) % rows
		b.waitFor(fmt.Sprintf(cell, name(last), want[last]))
	}
	// The first looks warm caches up.
	for n := range 4 {
		look(n)
	}
	eval[chromedp.Void](b, "longTasks.length = 0")
	before := b.metrics()
	for n := range ticks {
		look(4 + n)
	}
	after := b.metrics()

	for row, n := range eval[[]int](b,
		`[...document.querySelectorAll('tbody [data-live="0"]')].map(e => Number(e.textContent))`) {
		if n != want[row] {
			t.Fatalf("row %d shows %d, want %d", row, n, want[row])
		}
	}
	b.bounded(before, after, ticks)

	b.filters("row-12", 10)
	b.clean()
}

// filters checks how many rows a filter shows. The filter reacts to each key within 16 ms of processor time, here
// within ten times of that.
func (b *tab) filters(text string, want int) {
	b.t.Helper()
	const typed = `(text => {
		const field = document.querySelector('[name=filter]');
		field.value = text;
		field.dispatchEvent(new Event('input'));
		return [...document.querySelectorAll('tbody tr')].filter(row => row.checkVisibility()).length;
	})('%s')`
	before := b.metrics()
	shown := eval[int](b, fmt.Sprintf(typed, text))
	after := b.metrics()

	took := 0.0
	for _, part := range []string{"ScriptDuration", "RecalcStyleDuration", "LayoutDuration"} {
		took += after[part] - before[part]
	}
	if shown != want || took > 0.160 {
		b.t.Errorf("the filter %s shows %d rows after %.0f ms of processor time, want %d within 160 ms", text, shown,
			1000*took, want)
	}
}

// bounded compares the counters of a page before and after some looks.
func (b *tab) bounded(before, after map[string]float64, looks int) {
	b.t.Helper()
	grown, script := after["JSHeapUsedSize"]-before["JSHeapUsedSize"], after["ScriptDuration"]-before["ScriptDuration"]
	b.t.Logf("%d looks: %.1f ms of script each, longest task %.0f ms, heap %+.2f MB", looks,
		1000*script/float64(looks), eval[float64](b, "Math.max(0, ...longTasks)"), grown/1e6)
	if before["Nodes"] != after["Nodes"] {
		b.t.Errorf("the page had %v nodes, has %v", before["Nodes"], after["Nodes"])
	}
	if grown > 5e6 {
		b.t.Errorf("the heap grew by %.1f MB", grown/1e6)
	}
	if each := script / float64(looks); each > 0.300 {
		b.t.Errorf("a look takes %.3f s of script", each)
	}
}

// metrics returns Chromium's counters of the page after a collection of garbage.
func (b *tab) metrics() map[string]float64 {
	b.t.Helper()
	call(b, heapprofiler.CollectGarbage, cdp.Empty{})
	values := map[string]float64{}
	for _, m := range call(b, performance.GetMetrics, cdp.Empty{}).Metrics {
		values[m.Name] = m.Value
	}
	return values
}
