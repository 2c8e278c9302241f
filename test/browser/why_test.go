package browser

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// P7.3: the page of a blocked job links to the job that has its order key, and names the moment of its retry. So does
// the page behind that link.
func TestWhyLeadsToTheHolder(t *testing.T) {
	t.Parallel()
	server := newDashboardServer(t)
	_, b := newSession(t)
	server.login(b)
	retry := server.clock.Now().Add(10 * time.Minute).UTC().Format("2006-01-02 15:04:05")
	facts := fmt.Sprintf("[...document.querySelectorAll('.facts li')].filter(f => f.textContent.includes(%q)).length", retry)
	b.open(server.URL + "/ui/n/lanes/q/orders/j/second")
	if n := eval[int](b, facts); n != 2 {
		t.Errorf("%d facts name the retry at %s", n, retry)
	}
	b.submit(`document.querySelector('.facts a[href$="/j/holder"]').click()`)
	b.waitForTitle("holder")
	if n := eval[int](b, facts); n != 1 {
		t.Errorf("%d facts of the holder name the retry at %s", n, retry)
	}
	b.clean()
}

// P15.2: the key / goes to the field of the header, and Enter opens the job with the ID, or a list of results that the
// page announces.
func TestFindByKeyboard(t *testing.T) {
	t.Parallel()
	server := newDashboardServer(t)
	_, b := newSession(t)
	server.login(b)
	b.open(server.URL + "/ui/n/lanes/q/orders")
	b.do(chromedp.KeyEvent("/"))
	if focused := eval[string](b, "document.activeElement.closest('header') && document.activeElement.name"); focused != "q" {
		t.Fatalf("the key / leads to %s", focused)
	}
	// The protocol sends the character although the page prevented the key.
	eval[chromedp.Void](b, "document.activeElement.value = ''; undefined")
	b.do(chromedp.KeyEvent("third"), chromedp.KeyEvent(kb.Enter))
	b.waitForTitle("third")
	b.open(server.URL + "/ui/n/lanes/find?q=ord")
	b.waitForText("1 result.")
	b.do(chromedp.KeyEvent("j"))
	if focused := b.focused(); focused != "A orders" {
		t.Errorf("the key j leads to %s", focused)
	}
	b.clean()
}
