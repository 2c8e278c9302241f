package browser

import (
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/operations"
)

// P9, G7: the numbers of an operation change in place while its page is open. The selection and the focus stay. The page
// asks no more after the end.
func TestOperationChangesInPlace(t *testing.T) {
	t.Parallel()
	server := newDashboardServer(t)
	o, err := server.operations.Start("batch", contract.NewOperation{
		Kind: "delete", Queue: "emails", IDs: []string{"job-1", "job-2"}, Rate: 1,
	}, operations.Actor{Caller: "test"})
	if err != nil {
		t.Fatal(err)
	}
	_, b := newSession(t)
	server.login(b)
	b.open(server.URL + "/ui/n/batch/ops/" + o.ID)
	b.waitFor("document.getElementById('live').textContent === 'live'")
	const link = "document.querySelector('main a')"
	eval[chromedp.Void](b, link+".focus(); getSelection().selectAllChildren(document.querySelector('h1')); undefined")

	if _, err := server.operations.Stop(t.Context(), "batch", o.ID, "account <i>ada</i>"); err != nil {
		t.Fatal(err)
	}
	b.waitFor(`document.querySelector('[data-number="field state"]').textContent === 'stopped'`)
	b.waitFor("!document.querySelector('#change button') && document.getElementById('live').hidden")
	b.waitFor(`document.querySelector('[data-number="field reason"]').textContent === 'stopped by account <i>ada</i>'`)
	b.waitFor("document.activeElement === " + link + " && getSelection().toString() === 'delete emails'")
	b.clean()
}
