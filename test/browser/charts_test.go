package browser

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/dulymq/duly/internal/eventually"
)

// P2.3, P2.4: the overview draws its tables as charts under the policy, each line with a dashed part of its own. While
// the page is open, new points and new findings appear, and what somebody reads stays.
func TestChartsAreDrawn(t *testing.T) {
	t.Parallel()
	server := newDashboardServer(t)
	_, b := newSession(t)
	server.login(b)
	server.remember(b)
	b.open(server.URL + "/ui/n/default?range=15min")
	server.watched(b)
	b.waitFor("document.querySelectorAll('.plot canvas').length === 2")
	for figure, lines := range map[string]int{"lateness": 1, "flow": 4} {
		const dashed = `document.querySelectorAll('#%s .u-legend .unfinished').length`
		if n := eval[int](b, fmt.Sprintf(dashed, figure)); n != lines {
			t.Errorf("the chart %s has %d dashed lines, want %d", figure, n, lines)
		}
	}
	// A pixel of the first line proves that something is drawn.
	const painted = `(() => {
		const c = document.querySelector('#flow canvas');
		const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
		for (let i = 0; i < d.length; i += 4) if (d[i + 3] > 200 && d[i + 2] > d[i] + 90) return true;
		return false;
	})()`
	if !eval[bool](b, painted) {
		t.Error("the chart has no line")
	}

	const rows = "document.querySelectorAll('#flow tbody tr').length"
	before := eval[int](b, rows)
	eval[chromedp.Void](b, `window.kept = document.querySelector('#flow');
		kept.querySelector('summary').click(); undefined`)
	for range 70 {
		server.tick(b)
	}
	b.waitFor("document.querySelector('#attention code')?.textContent === 'no_consumer'")
	eval[chromedp.Void](b, "document.activeElement.blur(), document.dispatchEvent(new Event('refresh')), undefined")
	b.waitFor(fmt.Sprintf("%s > %d", rows, before))
	if !eval[bool](b, "kept === document.querySelector('#flow') && kept.querySelector('details').open") {
		t.Error("the table was closed")
	}
	b.clean()
}

// Section 6: keys open pages, move over rows, select, pause, change the theme and show the help. They do nothing while
// somebody types, and when they are turned off.
func TestKeys(t *testing.T) {
	t.Parallel()
	server := newDashboardServer(t)
	_, b := newSession(t)
	server.login(b)
	press := func(keys ...string) {
		for _, key := range keys {
			b.do(chromedp.KeyEvent(key))
		}
	}
	press("g", "q")
	b.waitForTitle("Queues")
	server.watched(b)
	press("j", "j", "j", "k")
	if focused := b.focused(); focused != "A emails" {
		t.Errorf("after four keys the focus is at %s", focused)
	}
	press("p")
	b.waitFor("document.getElementById('live').textContent === 'paused'")
	eventually.True(t, "no stream", func() bool { return server.streams.Load() == 0 })
	press("p")
	server.watched(b)
	press("/")
	if focused := b.focused(); !strings.HasPrefix(focused, "INPUT") {
		t.Errorf("the key / leads to %s", focused)
	}
	// The protocol sends the character although the page prevented the key, which Chromium itself does not.
	eval[chromedp.Void](b, "document.activeElement.value = ''; undefined")
	press("g", "o", "p", "t")
	const typed = "document.activeElement.value + ' ' + document.querySelector('h1').textContent"
	if got := eval[string](b, typed); got != "gopt Queues" {
		t.Errorf("typing gives %q", got)
	}
	eval[chromedp.Void](b, "document.activeElement.blur()")
	b.submit("document.getElementById('theme').click()")
	b.waitFor("document.documentElement.className === 'light' && document.querySelector('h1').textContent === 'Queues'")
	press("t")
	b.waitFor("document.documentElement.className === 'dark' && document.readyState === 'complete'")
	if scheme := eval[string](b, "getComputedStyle(document.documentElement).colorScheme"); scheme != "dark" {
		t.Errorf("the scheme is %s", scheme)
	}

	b.open(server.URL + "/ui/n/default/q/emails/dead")
	press("j", "x")
	if n := eval[int](b, "document.querySelectorAll('[name=id]:checked').length"); n != 1 {
		t.Errorf("%d rows are selected", n)
	}
	press("?")
	b.waitFor("document.getElementById('keys').open")
	press(kb.Escape)
	b.waitFor("!document.getElementById('keys').open")
	eval[chromedp.Void](b, "document.getElementById('help').click(), document.getElementById('use-keys').click()")
	press(kb.Escape)
	b.open(server.URL + "/ui/n/default/queues")
	press("g", "o", "j")
	if focused := b.focused(); strings.HasPrefix(focused, "A") {
		t.Errorf("without keys the focus is at %s", focused)
	}
	b.clean()
}
