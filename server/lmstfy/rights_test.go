package lmstfy_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/lmstfy"
)

// call is a valid request of a route.
type call struct{ method, target, body string }

func calls() []call {
	var all []call
	api := lmstfy.New(nil, nil, nil, nil, clock.NewFake())
	for _, r := range api.Routes() {
		target := strings.NewReplacer("{namespace}", "ns", "{queue}", "q", "{id}", "some-job").Replace(r.Path)
		all = append(all, call{r.Method, target, "[1]"})
	}
	return all
}

// Fault X1: for every route and every kind of token, access is as declared. lmstfy's own tokens have both
// rights, so they may use all routes.
func TestEveryRouteIsOpenToTheDeclaredRightsAlone(t *testing.T) {
	t.Parallel()
	p := open(t, inMemory(t), nil)
	const produce, consume, both = contract.RightProduce, contract.RightConsume,
		contract.RightProduce | contract.RightConsume

	tokens := map[string]string{
		"none": "", "unknown": "duly_" + strings.Repeat("A", 43), "malformed": "x",
		"produce": p.token("ns", produce), "consume": p.token("ns", consume), "both": p.token("ns", both),
		"admin": p.token("ns", contract.RightAdmin), "operator": p.token("*", contract.RightAdmin),
		"foreign": p.token("other", both),
	}
	may := map[auth.Access]string{
		auth.Open:    "none unknown malformed produce consume both admin operator foreign",
		auth.Produce: "produce both admin operator",
		auth.Consume: "consume both admin operator", auth.Either: "produce consume both admin operator",
		auth.Both: "both admin operator",
	}

	want := map[string]auth.Access{
		"PUT /api/ns/q": auth.Produce, "PUT /api/ns/q/bulk": auth.Produce, "PUT /api/ns/q/job/some-job": auth.Produce,
		"GET /api/ns/q": auth.Consume, "GET /api/ns/q/peek": auth.Consume, "GET /api/ns/q/job/some-job": auth.Consume,
		"GET /api/ns/q/deadletter": auth.Consume, "DELETE /api/ns/q/job/some-job": auth.Either,
		"GET /api/ns/q/size": auth.Open, "GET /api/ns/q/deadletter/size": auth.Open,
		"DELETE /api/ns/q": auth.Both, "PUT /api/ns/q/deadletter": auth.Both, "DELETE /api/ns/q/deadletter": auth.Both,
	}

	all := calls()
	if len(all) != len(want) {
		t.Errorf("%d routes, %d are declared here", len(all), len(want))
	}

	for _, c := range all {
		need, declared := want[c.method+" "+c.target]
		if !declared {
			t.Errorf("%s %s is not declared here", c.method, c.target)
		}
		for who, token := range tokens {
			a := p.send(c.method, c.target, c.body, "X-Token", token)
			allowed := strings.Contains(" "+may[need]+" ", " "+who+" ")
			refused := a.status == http.StatusUnauthorized || a.status == http.StatusForbidden
			if a.err != nil || refused == allowed {
				t.Errorf("%s %s as %s: %d %s %v", c.method, c.target, who, a.status, a.body, a.err)
			}
		}
	}
}

// Faults R8, X20: after any error or panic of the store, the answer is lmstfy's 500 without details, and
// the process survives.
func TestFailureOfStoreIs500WithoutDetails(t *testing.T) {
	t.Parallel()
	for name, engine := range map[string]func(contract.Engine) contract.Engine{
		"closed": func(e contract.Engine) contract.Engine { e.Close(); return e },
		"panics": func(contract.Engine) contract.Engine { return struct{ contract.Engine }{} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := open(t, inMemory(t), nil)
			token := p.token("ns")
			p.send("GET", "/api/ns/q", "", "X-Token", token) // puts the token into the cache
			p.gate.Engine = engine(p.gate.Engine)

			for _, c := range calls() {
				a := p.send(c.method, c.target, c.body, "X-Token", token)
				if a.err != nil || a.status != 500 || a.body != `{"error":"internal error"}` ||
					a.header.Get("Content-Type") != "application/json; charset=utf-8" {
					t.Errorf("%s %s: %d %s %v", c.method, c.target, a.status, a.body, a.err)
				}
			}

			if a := p.send("GET", "/healthz", ""); a.status != 200 {
				t.Errorf("it lives no more: %v", a)
			}
		})
	}
}
