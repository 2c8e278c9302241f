package lmstfy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/server"
	"github.com/dulymq/duly/server/lmstfy"
)

// The configured defaults apply to every route. Parameters of a request override them.
func TestRequestsOverrideConfiguredDefaults(t *testing.T) {
	t.Parallel()
	p := open(t, inMemory(t), func(c *server.Config) {
		c.Lmstfy.Defaults = &lmstfy.Defaults{TTL: time.Hour, Delay: time.Minute, Tries: 3, TTR: 30 * time.Second}
	})
	token := p.token("ns")

	for target, want := range map[string]struct {
		ttl   time.Duration
		delay time.Duration
		tries int
		state duly.State
	}{
		"/api/ns/unsaid":                       {time.Hour, time.Minute, 3, duly.StateDelayed},
		"/api/ns/said?ttl=120&delay=0&tries=1": {2 * time.Minute, 0, 1, duly.StateReady},
	} {
		if a := p.send("PUT", target, "x", "X-Token", token); a.status != 201 {
			t.Fatalf("%s: %d %s", target, a.status, a.body)
		}
		queue, _, _ := strings.Cut(strings.TrimPrefix(target, "/api/ns/"), "?")
		page, err := p.engine.List(t.Context(), duly.QueueRef{Namespace: "ns", Name: queue},
			duly.ListParams{State: want.state})
		if err != nil || len(page.Jobs) != 1 {
			t.Fatal(err, len(page.Jobs))
		}
		j := page.Jobs[0]
		if j.TTL != want.ttl || j.Tries != want.tries || j.Due.Sub(j.PushedAt) != want.delay {
			t.Errorf("%s: ttl %s, tries %d, due after %s; want %+v", target, j.TTL, j.Tries, j.Due.Sub(j.PushedAt),
				want)
		}
	}

	p.advance(time.Minute)
	if a := p.send("GET", "/api/ns/unsaid", "", "X-Token", token); a.status != 200 {
		t.Fatalf("consume: %d %s", a.status, a.body)
	}
	page, err := p.engine.List(t.Context(), duly.QueueRef{Namespace: "ns", Name: "unsaid"},
		duly.ListParams{State: duly.StateLeased})
	if err != nil || len(page.Jobs) != 1 || page.Jobs[0].LeaseEnd.Sub(p.clock.Now()) != 30*time.Second {
		t.Errorf("the lease: %v, %+v", err, page)
	}
}
