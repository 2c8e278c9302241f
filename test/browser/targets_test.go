package browser

import (
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/native"
	"github.com/dulymq/duly/server/webhook/guard"
	"github.com/dulymq/duly/server/webhook/target"
)

// pushTargets returns the targets of the server, one of each state, with a busy host.
func (s *dashboardServer) pushTargets() func(namespace string) contract.PushTargets {
	s.t.Helper()
	ring, err := target.OpenKeys(filepath.Join(s.t.TempDir(), "push.key"))
	if err != nil {
		s.t.Fatal(err)
	}
	g, err := guard.New(guard.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	if err != nil {
		s.t.Fatal(err)
	}
	s.gate.Store(&contract.PushHost{Host: "http://127.0.0.1:9999", Open: true, Limit: 8, InFlight: 2, Usual: time.Second})
	push := native.Push{
		Targets: target.NewStore(s.engine, ring, g, s.clock),
		Hosts: func(namespace string) []contract.PushHost {
			if namespace != duly.DefaultNamespace {
				return nil
			}
			return []contract.PushHost{*s.gate.Load()}
		},
	}
	for name, settings := range map[string]contract.PushTargetSettings{
		"crm":     {URL: "http://127.0.0.1:9999/hook", Headers: map[string]string{"authorization": "Bearer x"}},
		"billing": {URL: "http://127.0.0.1:9998/a-long-path-of-a-receiver-of-invoices", Disabled: true},
	} {
		if err := push.Of(duly.DefaultNamespace).SetTarget(s.t.Context(), name, settings); err != nil {
			s.t.Fatal(err)
		}
	}
	return push.Of
}

// P23.1: a host that the dispatcher closes appears as closed while the page is open. The page asks every 2 s.
func TestClosedHostAppears(t *testing.T) {
	t.Parallel()
	server := newDashboardServer(t)
	_, b := newSession(t)
	server.login(b)
	b.open(server.URL + "/ui/n/default/targets")
	server.watched(b)
	closed := *server.gate.Load()
	closed.Open, closed.Closed = false, 40*time.Second
	server.gate.Store(&closed)
	b.waitFor("document.getElementById('targets').textContent.includes('closed, next probe in 40s')")
	b.clean()
}
