package browser

import (
	"embed"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"

	"github.com/dulymq/duly/internal/eventually"
	"github.com/dulymq/duly/internal/proctest"
	"github.com/dulymq/duly/server/dashboard/assets"
)

//go:embed trial
var trial embed.FS

// trialServer serves one page under the dashboard's policy, with the vendored files and a stream.
type trialServer struct {
	*httptest.Server
	rows    int
	inline  string       // markup that the policy must block
	streams atomic.Int64 // open now
	parts   atomic.Int64 // fragments sent

	mu     sync.Mutex
	events map[chan string]bool
}

func newTrialServer(t *testing.T, rows int, inline string) *trialServer {
	t.Helper()
	set, err := assets.Load()
	if err != nil {
		t.Fatal(err)
	}
	s := &trialServer{rows: rows, inline: inline, events: map[chan string]bool{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", s.page)
	mux.HandleFunc("GET /part", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, s.part()) })
	mux.HandleFunc("GET /live", s.live)
	mux.Handle("GET /trial/", http.FileServerFS(trial))
	mux.HandleFunc("GET /icon.svg", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "image/svg+xml")
		fmt.Fprint(w, `<svg xmlns="http://www.w3.org/2000/svg"/>`)
	})
	mux.HandleFunc("GET /assets/{name...}", func(w http.ResponseWriter, r *http.Request) {
		f, _ := set.File(r.PathValue("name"))
		w.Header().Set("Content-Type", f.Type)
		w.Write(f.Raw)
	})

	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", assets.Policy)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func (s *trialServer) page(w http.ResponseWriter, _ *http.Request) {
	text, _ := trial.ReadFile("trial/page.html")
	var rows strings.Builder
	for i := range s.rows {
		fmt.Fprintf(&rows, `<tr id="r%d"><th scope="row">queue-%d</th>%s</tr>`, i, i, strings.Repeat("<td>0</td>", 6))
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	strings.NewReplacer("PART", s.part()+s.inline, "ROWS", rows.String()).WriteString(w, string(text))
}

// part is a fragment that differs each time, before and inside of everything that a morph must keep.
func (s *trialServer) part() string {
	n := s.parts.Add(1)
	return fmt.Sprintf(`<section id="part"><p id="count">part %d</p><p id="text">some text to select</p>`+
		`<input id="field" value="typed"><details id="more"><summary>more %d</summary>inside</details>`+
		`<div id="scroll">%s</div></section>`, n, n, strings.Repeat(fmt.Sprintf("<p>%d</p>", n), 20))
}

func (s *trialServer) live(w http.ResponseWriter, r *http.Request) {
	events := make(chan string, 100)
	s.mu.Lock()
	s.events[events] = true
	s.mu.Unlock()
	s.streams.Add(1)
	defer func() {
		s.mu.Lock()
		delete(s.events, events)
		s.mu.Unlock()
		s.streams.Add(-1)
	}()

	w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(w)
	for {
		_ = flush.Flush()
		select {
		case e := <-events:
			fmt.Fprint(w, e)
		case <-r.Context().Done():
			return
		}
	}
}

// send sends an event to all streams: a fragment without a name, or numbers as n.
func (s *trialServer) send(name, data string) {
	event := "data: " + data + "\n\n"
	if name != "" {
		event = "event: " + name + "\n" + event
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for events := range s.events {
		events <- event
	}
}

// waitStreams waits until the server has n streams.
func (s *trialServer) waitStreams(t *testing.T, n int64) {
	t.Helper()
	eventually.True(t, fmt.Sprintf("%d streams", n), func() bool { return s.streams.Load() == n })
}

// T1: under the policy htmx, hx-sse and uPlot run without a violation.
func TestTrialPolicy(t *testing.T) {
	t.Parallel()
	server := newTrialServer(t, 1, "")
	_, b := newSession(t)
	b.open(server.URL)
	server.waitStreams(t, 1)

	eval[chromedp.Void](b, "document.getElementById('fetch').click()")
	b.waitFor("document.getElementById('count').textContent !== 'part 1'")
	server.send("", server.part())
	b.waitFor("document.getElementById('count').textContent === 'part 3'")
	server.send("n", `{"r0":[1,2,3,4,5,6]}`)
	b.waitFor("document.getElementById('r0').textContent === 'queue-0123456'")
	if n := eval[int](b, "draw(), document.querySelectorAll('#chart canvas').length"); n != 1 {
		t.Errorf("the chart has %d canvases", n)
	}
	b.clean()

	// The instruments must see what the policy blocks.
	t.Run("BlocksInline", func(t *testing.T) {
		for _, inline := range []string{
			"<script>window.ran = true</script>", "<p style='color: red'>", "<img src=x onerror='window.ran = true'>",
			"<script src='http://127.0.0.2:1/x.js'></script>",
		} {
			b.open(newTrialServer(t, 1, inline).URL)
			if len(eval[[]string](b, "violations")) == 0 || eval[bool](b, "!!window.ran") {
				t.Errorf("the policy permits %s", inline)
			}
		}
	})
}

// T2 (G7): twenty morphs keep the selection, focus, caret, open parts, scroll positions and the elements themselves. The
// open parts need open in morphIgnore, because a morph copies attributes.
func TestTrialMorph(t *testing.T) {
	t.Parallel()
	for _, focus := range []struct{ name, prepare, state string }{
		{"Field", `field.focus(); field.value = 'typed and more'; field.setSelectionRange(2, 5)`,
			`[document.activeElement.id, field.value, field.selectionStart, field.selectionEnd].join()`},
		{"Selection", `getSelection().setBaseAndExtent(text.firstChild, 5, text.firstChild, 9)`,
			`[getSelection().toString(), getSelection().anchorNode === text.firstChild].join()`},
	} {
		t.Run(focus.name, func(t *testing.T) {
			t.Parallel()
			server := newTrialServer(t, 100, "")
			_, b := newSession(t)
			b.open(server.URL)
			server.waitStreams(t, 1)
			const find = `const [field, text, more, scroll] =
				['field', 'text', 'more', 'scroll'].map(id => document.getElementById(id));`
			eval[chromedp.Void](b, `{`+find+` more.open = true; scroll.scrollTop = 77; scrollTo(0, 55);
				for (const e of [field, text, more, scroll]) e.mark = 'kept'; `+focus.prepare+`}`)
			state := `(() => {` + find + ` return [more.open, scroll.scrollTop, scrollY,
				[field, text, more, scroll].map(e => e.mark).join(), ` + focus.state + `].join(' ')})()`
			before := eval[string](b, state)

			for range 20 {
				next := server.part()
				server.send("", next)
				b.waitFor(fmt.Sprintf("document.getElementById('count').textContent === 'part %d'", server.parts.Load()))
			}
			if after := eval[string](b, state); after != before || !strings.Contains(before, "kept,kept,kept,kept") {
				t.Errorf("the page was %q, is %q", before, after)
			}
			b.clean()
		})
	}
}

// T3 (G5): an event changes 300 of 1 000 rows. Every number is right, the number of nodes is constant, and the heap
// grows by at most 5 MB. The script takes at most ten times its figure of 30 ms of processor time per event.
func TestTrialRows(t *testing.T) {
	t.Parallel()
	const rows, changed = 1000, 300
	ticks, every := 20, 100*time.Millisecond
	if proctest.Long() {
		ticks, every = 600, time.Second
	}
	server := newTrialServer(t, rows, "")
	_, b := newSession(t)
	call(b, performance.Enable, performance.EnableParams{TimeDomain: performance.EnableTimeDomainThreadTicks})
	b.open(server.URL)
	server.waitStreams(t, 1)
	want := make([]int, rows)
	tick := func(n int) {
		numbers := map[string][6]int{}
		for i := range changed {
			row := (n*changed + i) % rows
			want[row] = n
			numbers[fmt.Sprint("r", row)] = [6]int{n, n, n, n, n, n}
		}
		text, _ := json.Marshal(numbers)
		server.send("n", string(text))
		b.waitFor(fmt.Sprintf("ticks === %d", n))
	}
	// The first events warm caches up.
	for n := 1; n <= 4; n++ {
		tick(n)
	}
	eval[chromedp.Void](b, "longTasks.length = 0")
	before := b.metrics()

	beat := time.NewTicker(every)
	defer beat.Stop()
	for n := 5; n < 5+ticks; n++ {
		<-beat.C
		tick(n)
	}
	after := b.metrics()
	got := eval[[]int](b, "[...document.querySelectorAll('#rows tr')].map(r => Number(r.cells[6].textContent))")
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("row %d shows %d, want %d", i, got[i], want[i])
		}
	}
	if before["Nodes"] != after["Nodes"] {
		t.Errorf("the page had %v nodes, has %v", before["Nodes"], after["Nodes"])
	}
	grown, script := after["JSHeapUsedSize"]-before["JSHeapUsedSize"], after["ScriptDuration"]-before["ScriptDuration"]
	longest := eval[float64](b, "Math.max(0, ...longTasks)")
	t.Logf("%d events of %d rows: %.1f ms of script each, longest task %.0f ms, heap %+.2f MB",
		ticks, changed, 1000*script/float64(ticks), longest, grown/1e6)
	if grown > 5e6 {
		t.Errorf("the heap grew by %.1f MB", grown/1e6)
	}
	if each := script / float64(ticks); each > 0.300 {
		t.Errorf("an event takes %.3f s of script", each)
	}
	b.clean()
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

// T4 (G6): of eight tabs over HTTP/1.1 the visible one holds a stream and the hidden ones none. So every navigation finds
// one of the browser's six connections.
func TestTrialTabs(t *testing.T) {
	t.Parallel()
	server := newTrialServer(t, 1, "")
	s, first := newSession(t)
	tabs := []*tab{first}
	for len(tabs) < 8 {
		tabs = append(tabs, s.newTab())
	}
	defer func() {
		for i, b := range tabs {
			if t.Failed() {
				t.Log("tab", i, eval[string](b, `[document.visibilityState, document.readyState, location,
					document.getElementById('live')?._htmx?.sse?.status].join(' ')`))
			}
		}
	}()
	for i, b := range tabs {
		call(b, page.BringToFront, cdp.Empty{})
		begin := time.Now()
		b.open(fmt.Sprintf("%s/tab%d", server.URL, i))
		t.Logf("tab %d loaded in %v", i, time.Since(begin))
		b.waitFor("document.visibilityState === 'visible'")
		server.waitStreams(t, 1)
	}

	// The stream moves with the visible tab, also back and forth.
	for _, i := range []int{0, 5, 0} {
		call(tabs[i], page.BringToFront, cdp.Empty{})
		server.waitStreams(t, 1)
		visible := 0
		for _, b := range tabs {
			if eval[string](b, "document.visibilityState") == "visible" {
				visible++
			}
		}
		if visible != 1 {
			t.Fatalf("%d tabs are visible", visible)
		}
		n := eval[int](tabs[i], "ticks")
		eventually.True(t, "an event in the visible tab", func() bool {
			server.send("n", `{"r0":[1,1,1,1,1,1]}`)
			return eval[int](tabs[i], "ticks") > n
		})
	}

	// A tab that loads while it is hidden connects only when it is shown.
	tabs[7].open(server.URL + "/hidden")
	if eval[bool](tabs[7], "!document.hidden") {
		t.Fatal("the tab is visible")
	}
	server.waitStreams(t, 1)
	call(tabs[7], page.BringToFront, cdp.Empty{})
	tabs[7].waitFor("!document.hidden")
	eventually.True(t, "an event in the tab that was hidden", func() bool {
		server.send("n", `{"r0":[2,2,2,2,2,2]}`)
		return eval[int](tabs[7], "ticks") > 0
	})
	server.waitStreams(t, 1)
	for _, b := range tabs {
		b.clean()
	}
}
