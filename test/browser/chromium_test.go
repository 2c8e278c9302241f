package browser

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/dulymq/duly/internal/eventually"
	"github.com/dulymq/duly/internal/proctest"
)

// chromium is the browser of the run. The first test starts it.
var chromium struct {
	once sync.Once
	ctx  context.Context
	stop context.CancelFunc
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if chromium.stop != nil {
		chromium.stop()
	}
	os.Exit(code)
}

// startChromium starts the browser with an empty profile, which ends with it.
func startChromium() {
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath("chromium"), chromedp.NoSandbox, chromedp.Headless,
		chromedp.WSURLReadTimeout(time.Minute),
	}
	// Without the last flag a hidden tab gets no processor on a busy machine.
	for _, name := range []string{"disable-gpu", "disable-quic", "no-first-run", "disable-background-networking",
		"disable-component-update", "disable-sync", "enable-precise-memory-info", "disable-renderer-backgrounding"} {
		options = append(options, chromedp.Flag(name, true))
	}
	alloc, stopAlloc := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, stop := chromedp.NewContext(alloc)
	chromium.ctx, chromium.stop = ctx, func() { stop(); stopAlloc() }
	chromium.err = chromedp.Do(ctx)
}

// session is a browser context of a test: its tabs share cookies and connections.
type session struct {
	t   *testing.T
	ctx context.Context
}

// newSession returns a session with one blank tab.
func newSession(t *testing.T) (*session, *tab) {
	t.Helper()
	proctest.Need(t, "chromium")
	chromium.once.Do(startChromium)
	if chromium.err != nil {
		t.Fatalf("chromium does not start: %v", chromium.err)
	}
	limited, cancel := context.WithTimeout(chromium.ctx, patience())
	t.Cleanup(cancel)
	s := &session{t: t, ctx: limited}
	first := s.newTab(chromedp.WithNewBrowserContext())
	s.ctx = first.ctx
	return s, first
}

// patience bounds one test. A busy machine may take long for what takes milliseconds.
func patience() time.Duration {
	if proctest.Long() {
		return 20 * time.Minute
	}
	return 5 * time.Minute
}

// newTab opens a further tab in the window of the session, where only one tab is visible.
func (s *session) newTab(options ...chromedp.ContextOption) *tab {
	s.t.Helper()
	options = append(options, chromedp.WithNewWindow(false))
	b := &tab{t: s.t}
	ctx, stop := chromedp.NewContext(s.ctx, append(options, chromedp.WithListener(b.listen))...)
	s.t.Cleanup(stop)
	b.ctx = ctx
	call(b, log.Enable, cdp.Empty{})
	call(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: instrument})
	return b
}

// tab is one page and what it reports.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu     sync.Mutex
	faults []string
}

// instrument runs in every page before its own scripts.
const instrument = `window.violations = []; window.longTasks = [];
addEventListener('securitypolicyviolation', e => violations.push(e.violatedDirective + ' ' + e.blockedURI));
new PerformanceObserver(l => l.getEntries().forEach(e => longTasks.push(e.duration))).observe({type: 'longtask'});`

// listen records console errors and warnings, exceptions, and errors that Chromium itself reports.
func (b *tab) listen(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			b.faults = append(b.faults, fmt.Sprintf("%s: %s (%s)", e.Entry.Level, e.Entry.Text, e.Entry.URL))
		}
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			b.faults = append(b.faults, "console: "+argsOf(e))
		}
	case *runtime.EventExceptionThrown:
		b.faults = append(b.faults, "exception: "+exceptionText(e.ExceptionDetails))
	}
}

func argsOf(e *runtime.EventConsoleAPICalled) string {
	var args []string
	for _, a := range e.Args {
		args = append(args, strings.TrimSpace(string(a.Value)+" "+a.Description))
	}
	return strings.Join(args, " ")
}

func exceptionText(d *runtime.ExceptionDetails) string {
	if d.Exception != nil {
		return d.Text + " " + d.Exception.Description
	}
	return d.Text
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

// call sends a command of the DevTools protocol.
func call[P, R any](b *tab, command cdp.Command[P, R], params P) R {
	b.t.Helper()
	result, err := chromedp.Call(b.ctx, command, params)
	if err != nil {
		b.t.Fatalf("%s: %v", command.Method, err)
	}
	return result
}

// open loads a page and waits for its load event.
func (b *tab) open(url string) {
	b.t.Helper()
	b.do(chromedp.Navigate(url))
}

// eval returns the value of a script, which runs outside the page's policy.
func eval[T any](b *tab, script string) T {
	b.t.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](script))
	if err != nil {
		b.t.Fatalf("%s: %v", script, err)
	}
	return value
}

// waitFor waits until a script returns true. While the tab goes to another page, a script fails.
func (b *tab) waitFor(script string) {
	b.t.Helper()
	eventually.True(b.t, script, func() bool {
		value, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](script))
		if b.ctx.Err() != nil {
			b.t.Fatalf("%s: %v", script, err)
		}
		return err == nil && value
	})
}

// found returns the violations of the Content-Security-Policy and the faults so far.
func (b *tab) found() []string {
	b.t.Helper()
	found := eval[[]string](b, "violations")
	b.mu.Lock()
	defer b.mu.Unlock()
	return append(found, b.faults...)
}

// clean fails the test on a violation of the Content-Security-Policy, an error or a warning.
func (b *tab) clean() {
	b.t.Helper()
	for _, f := range b.found() {
		b.t.Error(f)
	}
}
