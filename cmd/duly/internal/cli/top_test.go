package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/cmd/duly/internal/top"
	"github.com/dulymq/duly/contract"
)

// once runs a top that prints one table, with n jobs pushed in its interval of
// two seconds.
func (r *rig) once(n int, args ...string) string {
	r.t.Helper()
	done := make(chan string)
	before := r.clock.Timers()
	var out bytes.Buffer
	env := r.env(&out, &out, append([]string{"top"}, args...)...)
	go func() {
		Run(r.t.Context(), env)
		done <- out.String()
	}()

	for r.clock.Timers() == before {
		select {
		case out := <-done:
			r.t.Fatalf("it has not waited: %s", out)
		case <-time.NewTimer(time.Millisecond).C:
		}
	}

	for range n {
		r.ok("push", "emails", "x")
	}
	r.clock.Advance(2 * time.Second)
	return <-done
}

// C15.18: without a terminal, top prints one table with rates, as text or JSON.
func TestTopPrintsTable(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.ok("push", "emails", "x", "--delay", "1h")
	r.ok("push", "invoices", "x")
	r.transcript.WriteString(r.once(30))
	r.transcript.WriteString(r.once(3, "--once", "emails"))
	r.golden("top")
	var lines []top.Line

	for line := range strings.Lines(r.once(5, "--json")) {
		var l top.Line
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		lines = append(lines, l)
	}

	if len(lines) != 2 || lines[0].Name != "emails" || lines[0].PerSecond.Pushed != 2.5 ||
		lines[0].Sizes["delayed"] != 1 || lines[1].OldestReady == "" {
		t.Errorf("%+v", lines)
	}
	if code, _, errs := r.run("top", "--interval", "50ms"); code != exitUsage ||
		!strings.Contains(errs, "at least 100ms") {
		t.Errorf("%d %s", code, errs)
	}
}

// top and queues have the states in the same order.
func TestTopHasStatesOfQueues(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.ok("push", "emails", "x")
	states := func(table string) (titles []string) {
		head, _, _ := strings.Cut(table, "\n")
		for _, title := range strings.Fields(head) {
			if _, err := contract.ParseState(strings.ToLower(title)); err == nil {
				titles = append(titles, title)
			}
		}
		return titles
	}
	if top, queues := states(r.once(1)), states(r.ok("queues")); len(top) != len(duly.States) ||
		!slices.Equal(top, queues) {
		t.Errorf("top has %v, queues %v", top, queues)
	}
}

// hostEngine is an engine with hosts of HTTP push.
type hostEngine struct {
	unclosable
	hosts []contract.PushHost
	err   error
}

func (h hostEngine) Hosts(context.Context) ([]contract.PushHost, error) { return h.hosts, h.err }

// C16.105: top shows the hosts of HTTP push, closed ones first.
func TestTopShowsHosts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.ok("push", "orders", "x")
	hosts := hostEngine{hosts: []contract.PushHost{
		{Host: "https://fine.example:443", Open: true, Limit: 64, InFlight: 3, Usual: 40 * time.Millisecond},
		{Host: "https://busy.example:443", Open: true, Limit: 4, InFlight: 4, HeldBack: 120, Usual: 2 * time.Second},
		{Host: "https://back.example:443", Limit: 1, InFlight: 1, HeldBack: 7},
		{Host: "https://gone.example:443", Closed: 40 * time.Second, Limit: 1, HeldBack: 12345},
	}}
	r.open = func() contract.Engine { hosts.unclosable = unclosable{r.engine}; return hosts }
	r.transcript.WriteString(r.once(0))
	r.transcript.WriteString(r.once(0, "--json"))
	if hosts.err = duly.ErrForbidden; strings.Contains(r.once(0), "example") {
		t.Error("hosts are shown that the caller may not see")
	}
	r.golden("top_hosts")
}
