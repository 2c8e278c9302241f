package top

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/model"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var format = &Format{
	Count:    func(n int64) string { return strconv.FormatInt(n, 10) },
	Duration: func(d time.Duration) string { return d.String() },
	Safe:     func(s string) string { return strings.ReplaceAll(s, "\x1b", "?") },
}

// stats returns stats whose numbers grow with n.
func stats(n int64) duly.Stats {
	return duly.Stats{
		Sizes: duly.Sizes{Ready: n % 100, Delayed: 2 * n, Leased: n % 7, Blocked: n % 2, Dead: n % 3, Done: 1},
		Counters: duly.Counters{
			Pushed: 10 * n, Delivered: 8 * n, Acked: 6 * n, Failed: 2 * n, Stalled: n / 50, Dead: n % 3,
		},
		OldestReady: time.Duration(n) * time.Second,
	}
}

// sampled returns a model with two samples, 2 s apart.
func sampled() *Model {
	m := NewModel("sqlite:duly.db  namespace default", 2*time.Second)
	m.Add(&Sample{At: time.Second, Queues: []Queue{
		{Name: "emails", Stats: stats(100)},
		{Name: "gone", Stats: stats(7)},
		{Name: "invoices", Stats: stats(3)},
		{Name: "recreated", Stats: stats(50)},
	}}, nil)
	m.Add(&Sample{At: 3 * time.Second, Queues: []Queue{
		{Name: "emails", Stats: stats(161)},
		{Name: "invoices", Stats: stats(3)},
		{Name: "recreated", Stats: stats(1)},
		{Name: "new", Stats: stats(2)},
		{Name: "thumbnails-of-pictures-that-are-very-large", Stats: duly.Stats{}},
	}}, nil)
	return m
}

// C15.18: the view fits screens of every size.
func TestViewFitsScreen(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for _, size := range [][2]int{{140, 12}, {100, 10}, {80, 10}, {50, 10}, {24, 8}, {80, 6}, {10, 3}, {1, 1}, {0, 0}} {
		lines := sampled().View(format, size[0], size[1])
		fmt.Fprintf(&b, "--- %d x %d\n%s\n", size[0], size[1], strings.Join(lines, "\n"))
		if len(lines) > size[1] {
			t.Errorf("%d lines on a screen of %d", len(lines), size[1])
		}
		for _, line := range lines {
			if utf8.RuneCountInString(line) > size[0] {
				t.Errorf("wider than %d: %q", size[0], line)
			}
		}
	}
	golden(t, "view", b.String())
}

// Hosts take at most a third of the rows, and the view still fits the screen.
func TestViewLimitsHosts(t *testing.T) {
	t.Parallel()
	m := sampled()
	for i := range 50 {
		m.current.Hosts = append(m.current.Hosts, contract.PushHost{
			Host: fmt.Sprintf("https://h%d.example:443", i), Open: i%10 > 0, Limit: 4, HeldBack: i,
		})
	}

	for _, size := range [][2]int{{120, 40}, {80, 24}, {30, 10}, {10, 5}, {1, 1}} {
		lines := m.View(format, size[0], size[1])
		hosts := 0
		for _, line := range lines {
			if utf8.RuneCountInString(line) > size[0] {
				t.Errorf("%d x %d: the line %q is too long", size[0], size[1], line)
			}
			if strings.Contains(line, ".example") || strings.Contains(line, "more hosts") {
				hosts++
			}
		}
		if len(lines) != size[1] || hosts > size[1]/3 {
			t.Errorf("%d x %d: %d lines, %d of hosts", size[0], size[1], len(lines), hosts)
		}
	}

	text := strings.Join(m.View(format, 120, 40), "\n")
	if !strings.Contains(text, "https://h40.example") || !strings.Contains(text, "more hosts") {
		t.Errorf("the closed hosts are not first, or the others are not counted:\n%s", text)
	}
}

// C15.18: keys sort, filter, freeze and scroll.
func TestHandleKey(t *testing.T) {
	t.Parallel()
	var b strings.Builder

	for _, keys := range []string{
		"y", "yy", "x", "a", "o", "s", "S", "\x1b[C\x1b[C", "nr", "/in", "/in\r", "/in\x7f\x7f\x7fNEW\r", "/in\r\x1b",
		"/in\x1b",
		" ", "  ", "jj", "jjk", "\x1b[6~", "\x1b[6~\x1b[5~", "\x1bOB", "/\x01é\x1b[A", "?",
	} {
		m := sampled()
		for _, key := range splitKeys(keys) {
			if c := m.HandleKey(key); c != Nothing {
				t.Errorf("%q returns %d", key, c)
			}
		}
		fmt.Fprintf(&b, "--- %q frozen %v\n%s\n", keys, m.Frozen(), strings.Join(m.View(format, 80, 8)[2:], "\n"))
	}

	golden(t, "keys", b.String())

	for key, want := range map[string]Command{"q": Quit, "Q": Quit, "\x03": Quit, "\r": Refresh, "p": Nothing} {
		if c := sampled().HandleKey(key); c != want {
			t.Errorf("%q returns %d, want %d", key, c, want)
		}
	}

	m := sampled()
	m.HandleKey("/")
	if m.HandleKey("q") != Nothing || m.HandleKey("\x03") != Quit {
		t.Error("while the filter is typed, Ctrl-C does not quit, or q does")
	}
}

// C15.18: the view marks queues that hold ready jobs back, also on narrow screens.
func TestViewMarksPausedAndLimitedQueues(t *testing.T) {
	t.Parallel()
	none := contract.Throttle{MaxLeased: duly.None, Rate: duly.Rate{PerSecond: duly.None}}
	leased, rate, paused := none, none, none
	leased.MaxLeased, rate.Rate.PerSecond, paused.Paused = 2, 10, true
	both := leased
	both.Paused = true
	at := func(when time.Duration, delivered int64) *Sample {
		stats := func(ready, leased int64) duly.Stats {
			return duly.Stats{
				Sizes: duly.Sizes{Ready: ready, Leased: leased}, Counters: duly.Counters{Delivered: delivered},
			}
		}
		return &Sample{At: when, Queues: []Queue{
			{"a", stats(1, 1), none}, {"b", stats(0, 0), paused}, {"c", stats(1, 2), both}, {"d", stats(1, 2), leased},
			{"e", stats(0, 2), leased}, {"f", stats(1, 1), leased}, {"g", stats(1, 0), rate}, {"h", stats(0, 0), rate},
		}}
	}

	for delivered, atRate := range map[int64]string{20: "limited", 17: "free"} { // in 2 s
		m := NewModel("here", 2*time.Second)
		m.Add(at(time.Second, 0), nil)
		m.Add(at(3*time.Second, delivered), nil)
		var got []string
		for _, line := range m.Lines() {
			state := "free"
			if line.Paused {
				state = "paused"
			} else if line.Limited {
				state = "limited"
			}
			got = append(got, state)
			for _, width := range []int{140, 40} {
				view := strings.Join(m.View(format, width, 20), "\n")
				marked := strings.Contains(view, line.Name+" ["+state+"]")
				if marked != (state != "free") {
					t.Errorf("%d columns: queue %s is %s, marked: %v", width, line.Name, state, marked)
				}
			}
		}
		want := "free paused paused limited free free " + atRate + " free"
		if text := strings.Join(got, " "); text != want {
			t.Errorf("after %d deliveries the queues are %s, want %s", delivered, text, want)
		}
	}
}

// C18.12: the view marks a closed queue with the time until it opens.
func TestViewMarksClosedQueues(t *testing.T) {
	t.Parallel()
	now := clock.Epoch
	none := contract.Throttle{MaxLeased: duly.None, Rate: duly.Rate{PerSecond: duly.None}}
	paused := none
	paused.Paused = true
	closed := duly.Stats{Closing: duly.Closing{Until: now.Add(12*time.Second + 300*time.Millisecond)}}
	ending := duly.Stats{Closing: duly.Closing{Until: now.Add(time.Millisecond)}}
	m := NewModel("here", 2*time.Second)
	m.Add(&Sample{Wall: now, Queues: []Queue{
		{"a", closed, none}, {"b", ending, none}, {"c", closed, paused}, {"d", duly.Stats{}, none},
	}}, nil)

	view := strings.Join(m.View(format, 140, 20), "\n")
	for _, want := range []string{"a [closed 12s]", "b [closed 1s]", "c [paused]", "d "} {
		if !strings.Contains(view, want) {
			t.Errorf("the view lacks %q:\n%s", want, view)
		}
	}
	var got []string
	for _, line := range m.Lines() {
		got = append(got, line.Name+":"+line.Closed)
	}
	if text := strings.Join(got, " "); text != "a:12.3s b:1ms c:12.3s d:" {
		t.Errorf("the lines are %s", text)
	}
}

// C18.55: the view marks a queue whose limits are lowered, or that is in probing.
func TestViewShowsAdaptiveLimits(t *testing.T) {
	t.Parallel()
	now := clock.Epoch
	rate := contract.Throttle{MaxLeased: duly.None, Rate: duly.Rate{PerSecond: 100}}
	leased := contract.Throttle{MaxLeased: 20, Rate: duly.Rate{PerSecond: duly.None}}
	both := contract.Throttle{MaxLeased: 20, Rate: duly.Rate{PerSecond: 0.5}}
	m := NewModel("here", 2*time.Second)
	m.Add(&Sample{Wall: now, Queues: []Queue{
		{"a", duly.Stats{Factor: 0.379}, rate}, {"b", duly.Stats{Factor: 0.999999}, leased},
		{"c", duly.Stats{Factor: 0.0125}, both}, {"d", duly.Stats{Factor: 1}, rate},
		{"e", duly.Stats{Factor: 0.1, Probing: 2}, rate},
		{"f", duly.Stats{Factor: 0.1, Probing: 1, Closing: duly.Closing{Until: now.Add(12 * time.Second)}}, rate},
		{"g", duly.Stats{Factor: 0.29}, rate},
		{"h", duly.Stats{Sizes: duly.Sizes{Ready: 1, Leased: 10}}, leased},
	}}, nil)

	view := strings.Join(m.View(format, 140, 20), "\n")
	for _, want := range []string{
		"a [37 % of 100/s]", "b [99 % of 20 leased]", "c [1.2 % of 0.5/s and 20 leased]", "d  ", "e [probing]",
		"f [closed 12s, probing]", "g [29 % of 100/s]", "h  ",
	} {
		if !strings.Contains(view, want) {
			t.Errorf("the view lacks %q:\n%s", want, view)
		}
	}
	lines := m.Lines()
	if l := lines[4]; l.Factor != 0.1 || l.Probing != 2 {
		t.Errorf("the line of queue e is %+v", l)
	}

	// Half of the limit is in use, and that is the limit which the queue enforces.
	half := row{Queue: Queue{Stats: duly.Stats{Factor: 0.5, Sizes: duly.Sizes{Ready: 1, Leased: 10}}, Throttle: leased}}
	if !half.limited() {
		t.Error("a queue with half of its leased jobs at factor 0.5 is not limited")
	}
}

// C4.117, C4.118: the view marks a queue whose rate allows no delivery, with the time until the next one.
func TestViewMarksQueuesWithoutTokens(t *testing.T) {
	t.Parallel()
	now := clock.Epoch
	rate := contract.Throttle{MaxLeased: duly.None, Rate: duly.Rate{PerSecond: 0.1, Burst: 2}}
	none := contract.Throttle{MaxLeased: duly.None, Rate: duly.Rate{PerSecond: duly.None}}
	empty := func(ready int64, wait time.Duration) duly.Stats {
		return duly.Stats{Sizes: duly.Sizes{Ready: ready}, NextToken: now.Add(wait)}
	}
	closed := empty(1, 7*time.Second)
	closed.Closing.Until = now.Add(3 * time.Second)
	m := NewModel("here", 2*time.Second)
	m.Add(&Sample{Wall: now, Queues: []Queue{
		{"a", empty(1, 7200*time.Millisecond), rate}, {"b", empty(1, 999*time.Millisecond), rate},
		{"c", empty(0, 7*time.Second+1234), rate}, {"d", closed, rate},
		{"e", duly.Stats{Sizes: duly.Sizes{Ready: 1}, Tokens: 2}, rate},
		{"f", duly.Stats{Sizes: duly.Sizes{Ready: 1}, Tokens: duly.None}, none},
	}}, nil)

	view := strings.Join(m.View(format, 140, 20), "\n")
	for _, want := range []string{"a [limited, next in 7s]", "b [limited]", "c  ", "d [closed 3s]", "e  ", "f  "} {
		if !strings.Contains(view, want) {
			t.Errorf("the view lacks %q:\n%s", want, view)
		}
	}
	var got []string
	for _, line := range m.Lines() {
		tokens := "none"
		if line.Tokens != nil {
			tokens = strconv.FormatInt(*line.Tokens, 10)
		}
		got = append(got, tokens+" "+line.NextTokenIn)
	}
	if text := strings.Join(got, ", "); text != "0 7.2s, 0 999ms, 0 7s, 0 7s, 2 , none " {
		t.Errorf("the tokens of the lines are %s", text)
	}
}

// Names and errors are escaped, and colours do not change the width of lines.
func TestViewEscapesTexts(t *testing.T) {
	t.Parallel()
	colourful := *format
	colourful.Colour = true
	m := sampled()
	m.current.Queues[0].Name = "\x1b[2Jred"
	m.Add(nil, errors.New("\x1b[31mbroken"))
	f := newTerminal(t, 80, 12)
	fmt.Fprint(f, clearFirst+strings.Join(m.View(&colourful, 80, 12), clearNext)+resetStyle)
	plain := strings.Join(m.View(format, 80, 12), "\n")
	got := strings.Join(f.lines, "\n")
	if got != plain || !strings.Contains(got, "not read: ?[31mbroken") || !strings.Contains(got, "?[2Jred") {
		t.Errorf("shows\n%s\nwant\n%s", got, plain)
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := "testdata/" + name + ".txt"
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs, see git diff after go test -update; shown is:\n%s", path, got)
	}
}

// rig is a live view of a model engine.
type rig struct {
	*fakeTerminal
	clock  *clock.Fake
	engine *model.Engine
	broken chan error // errors of the next calls to Queues
	log    chan string
	ended  chan error
	cancel context.CancelFunc
}

// breaking is an engine whose Queues returns the errors of a channel.
type breaking struct {
	contract.Engine
	broken chan error
}

func (b *breaking) Queues(ctx context.Context, namespace string, p duly.PageParams) (duly.NamePage, error) {
	select {
	case err := <-b.broken:
		return duly.NamePage{}, err
	default:
		return b.Engine.Queues(ctx, namespace, p)
	}
}

// startView starts a view and waits for its first sample.
func startView(t *testing.T) *rig {
	c := clock.NewFake()
	r := &rig{
		fakeTerminal: newTerminal(t, 100, 10), clock: c, engine: model.New(model.Config{Clock: c}),
		broken: make(chan error, 1), log: make(chan string), ended: make(chan error, 1),
	}
	t.Cleanup(func() { r.engine.Close() })
	r.push(5)
	sampler := &Sampler{Engine: &breaking{r.engine, r.broken}, Namespace: duly.DefaultNamespace, Clock: c}
	l := &LiveView{
		Model: NewModel("here", 2*time.Second), Sampler: sampler, Terminal: r, Format: format, Clock: c, Log: r.log,
	}
	first, err := sampler.Take(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	leave, err := l.Enter()
	if err != nil || !r.raw || !r.second || !r.hidden {
		t.Fatalf("%v, raw %v, second screen %v, cursor hidden %v", err, r.raw, r.second, r.hidden)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r.cancel = cancel
	go func() {
		err := l.Run(ctx, first)
		leave()
		r.ended <- err
	}()
	r.until("the first sample", func(s string) bool { return strings.Contains(s, "mail") })
	return r
}

func (r *rig) push(n int) {
	r.t.Helper()
	for range n {
		if _, err := r.engine.Push(r.t.Context(), []duly.Job{{Queue: "mail"}}); err != nil {
			r.t.Fatal(err)
		}
	}
}

// end waits for the end of the view and checks that the terminal is restored.
func (r *rig) end() {
	r.t.Helper()
	if err := <-r.ended; err != nil {
		r.t.Error(err)
	}
	if r.raw || r.second || r.hidden {
		r.t.Errorf("not restored: raw %v, second screen %v, cursor hidden %v", r.raw, r.second, r.hidden)
	}
}

// cellOf returns the cell under a title in the row of the queue.
func cellOf(screen, title string) string {
	lines := strings.Split(screen, "\n")
	for i, line := range lines {
		if at := strings.Index(line, title); at >= 0 && strings.HasPrefix(line, "QUEUE") {
			for _, row := range lines[i+1:] {
				if strings.HasPrefix(row, "mail") {
					cells := strings.Fields(row)
					return cells[slices.Index(strings.Fields(line), title)]
				}
			}
		}
	}
	return ""
}

// C15.18: the view shows rates, and refreshes them.
func TestLiveViewShowsRates(t *testing.T) {
	t.Parallel()
	r := startView(t)
	r.push(30)
	r.clock.Advance(2 * time.Second)
	r.until("15 a second", func(s string) bool { return cellOf(s, "PUSH/s") == "15" && cellOf(s, "READY") == "35" })
	r.keys <- " "
	r.until("frozen", func(s string) bool { return strings.Contains(s, "frozen") })
	r.push(1)
	r.keys <- "\r" // a key also refreshes a frozen view
	r.until("a sample on demand", func(s string) bool { return cellOf(s, "READY") == "36" })
	r.keys <- " "
	r.until("that it is not frozen", func(s string) bool { return !strings.Contains(s, "frozen") })
	r.broken <- errors.New("the engine is gone")
	r.clock.Advance(2 * time.Second)
	r.until("the error", func(s string) bool {
		return strings.Contains(s, "not read: the engine is gone") && cellOf(s, "READY") == "36"
	})
	r.clock.Advance(2 * time.Second)
	r.until("that the error is gone", func(s string) bool {
		return !strings.Contains(s, "not read") &&
			cellOf(s, "LATE") != "-"
	})
	r.keys <- "q"
	r.end()
}

// The view shows a line of the engine's log until the next key.
func TestLiveViewShowsLog(t *testing.T) {
	t.Parallel()
	r := startView(t)
	r.log <- "level=WARN msg=\"the disk is slow\x1b[2J\""
	r.until("the line", func(s string) bool { return strings.Contains(s, "level=WARN msg=\"the disk is slow?[2J\"") })
	r.keys <- " "
	r.until("no line after a key", func(s string) bool {
		return !strings.Contains(s, "WARN") && strings.Contains(s, "frozen")
	})
	r.keys <- "q"
	r.end()
}

// C15.18: the terminal is restored however the view ends.
func TestLiveViewRestoresTerminal(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(r *rig){
		"q":            func(r *rig) { r.keys <- "q" },
		"Ctrl-C":       func(r *rig) { r.keys <- "\x03" },
		"signal":       func(r *rig) { r.cancel() },
		"end of input": func(r *rig) { close(r.keys) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := startView(t)
			end(r)
			r.end()
		})
	}
}

// C4.94: a sample leaves out queues that fail, whether all queues are read or selected
// ones.
func TestSampleLeavesOutFailedQueues(t *testing.T) {
	t.Parallel()
	e := &failing{names: []string{"a", "b", "c"}}
	for name, filter := range map[string]func(string) bool{"all": nil, "selected": func(string) bool { return true }} {
		s, err := (&Sampler{Engine: e, Namespace: "x", Clock: clock.NewFake(), Filter: filter}).Take(t.Context())
		if err != nil || len(s.Queues) != 1 || s.Queues[0].Name != "a" || s.Missing != 2 ||
			!errors.Is(s.Failed, duly.ErrUnavailable) {
			t.Fatalf("%s: %+v, %v", name, s, err)
		}
		m := NewModel("here", time.Second)
		m.Add(s, nil)
		m.HandleKey(" ")
		if line := m.View(format, 100, 10)[2]; !strings.HasPrefix(line, "frozen  2 queues not read: unavailable: ") {
			t.Errorf("%s: the status line is %q", name, line)
		}
		none := &Sampler{Engine: &failing{names: []string{"b"}}, Namespace: "x", Clock: clock.NewFake(), Filter: filter}
		if s, err := none.Take(t.Context()); s != nil || !errors.Is(err, duly.ErrUnavailable) {
			t.Errorf("%s: no queue can be read: %v, %v", name, s, err)
		}
	}

	onlyA := func(name string) bool { return name == "a" }
	s, err := (&Sampler{Engine: e, Namespace: "x", Clock: clock.NewFake(), Filter: onlyA}).Take(t.Context())
	if err != nil || len(s.Queues) != 1 || s.Queues[0].Stats.Sizes.Ready != 1 || s.Failed != nil {
		t.Errorf("%v, %v", s, err)
	}
}

// failing is an engine that has stats only for its queue a.
type failing struct {
	contract.Engine
	names []string
}

func (f *failing) Queues(context.Context, string, duly.PageParams) (duly.NamePage, error) {
	return duly.NamePage{Names: f.names}, nil
}

func (f *failing) Config(context.Context, duly.QueueRef) (duly.QueueConfig, error) {
	return contract.DefaultQueueConfig(), nil
}

func (f *failing) Stats(_ context.Context, q duly.QueueRef) (duly.Stats, error) {
	if q.Name != "a" {
		return duly.Stats{}, duly.ErrUnavailable
	}
	return duly.Stats{Sizes: duly.Sizes{Ready: 1}}, nil
}
