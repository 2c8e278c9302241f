package browser

import (
	"fmt"
	"testing"
	"time"
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
