package browser

import (
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/eventually"
)

// die buries the next job of a queue with an error.
func (s *dashboardServer) die(queue, err string) {
	s.t.Helper()
	d, failed := s.engine.Reserve(s.t.Context(), duly.ReserveParams{Queues: []string{queue}, Max: 1})
	if failed != nil || len(d) != 1 {
		s.t.Fatal(d, failed)
	}
	s.settle(duly.SettleRequest{Receipt: d[0].Receipt, As: duly.Bury, Error: err})
}

// P8.2, G7: a job that dies appears in its group while the page is open. The rows of the other groups stay in place.
func TestGroupsChangeInPlace(t *testing.T) {
	t.Parallel()
	server := newDashboardServer(t)
	_, b := newSession(t)
	server.login(b)
	b.open(server.URL + "/ui/n/default/dead")
	server.watched(b)
	for range 5 {
		server.die("orders.invoices", "disk <b>full</b>")
	}
	server.tick(b)
	b.waitFor("document.querySelectorAll('[data-group]').length === 2")
	const row = "document.querySelectorAll('[data-group]')"
	b.waitFor(row + "[0].textContent.includes('refused') && " + row + "[1].textContent.includes('disk <b>full</b>')")
	b.waitFor(row + "[1].querySelector('.number').textContent === '5'")
	b.clean()
}

// G11, P8: with script off and by keyboard, a person finds the group of an error and starts an operation that
// requeues its jobs.
func TestGroupWithoutScript(t *testing.T) {
	t.Parallel()
	server := newDashboardServer(t)
	_, b := newSession(t)
	call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	b.open(server.URL + "/ui/login")
	b.waitFor("document.activeElement.tagName === 'INPUT'") // autofocus may follow the load
	b.do(chromedp.KeyEvent(server.token), chromedp.KeyEvent(kb.Enter))
	b.waitForTitle("Overview")
	b.follow("Dead letters")
	b.waitForTitle("Dead letters")
	b.follow("dial tcp 10.1.2.3:25: connect: connection refused")
	b.waitFor("document.readyState === 'complete' && document.getElementById('groups-title').textContent[0] === '4'")
	b.follow("emails")
	b.waitForTitle("emails: dead")
	b.follow("Requeue all …")
	b.waitForTitle("Requeue 4 dead jobs of emails with this error?")
	server.clock.Advance(time.Second)
	b.follow("Start")
	b.waitForTitle("requeue emails")
	eventually.True(t, "the end of the operation", func() bool {
		server.clock.Advance(100 * time.Millisecond)
		list, _, err := server.operations.List(duly.DefaultNamespace, duly.PageParams{})
		return err == nil && len(list) == 1 && list[0].State == contract.OperationDone && list[0].Done == 4
	})
	b.follow("Load again")
	b.waitFor(`document.querySelector('[data-number="field state"]').textContent === 'done'`)
	b.clean()
}
