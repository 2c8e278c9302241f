package server

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/model"
	"github.com/dulymq/duly/server/pools"
)

// withPools starts a server with two pools, and returns the engine of the second one.
func withPools(t *testing.T) (f *fixture, orders *model.Engine) {
	t.Helper()
	f = serve(t, func(c *Config) {
		orders = model.New(model.Config{Clock: c.Clock})
		in, err := pools.New(pools.Config{Clock: c.Clock, Logger: slog.New(slog.DiscardHandler),
			Engines: map[string]pools.Engine{
				contract.DefaultPool: {Open: c.Engine}, "orders": {Open: orders},
			}})
		if err != nil {
			t.Fatal(err)
		}
		*c = Config{Pools: in, Clock: c.Clock, Logger: c.Logger, Lmstfy: Lmstfy{Mode: LmstfyOpen}}
	})
	return f, orders
}

// token creates a token with the admin API.
func (f *fixture) token(name, query, body string) answer {
	f.t.Helper()
	a := f.send("POST", "/admin/tokens"+query, body)
	var made struct{ Token string }
	if a.status == 201 && json.Unmarshal([]byte(a.body), &made) == nil {
		f.tokens[name] = made.Token
	}
	return a
}

func TestTokenSetsPoolOfNamespace(t *testing.T) {
	t.Parallel()
	f, orders := withPools(t)
	const shop = `{"namespace":"shop","rights":["produce","consume"]}`
	if a := f.token("shop", "?pool=orders", shop); a.status != 201 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if a := f.send("POST", "/v1/shop/push", `{"jobs":[{"queue":"q","id":"x"}]}`, "shop"); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if _, err := orders.Get(t.Context(), duly.QueueRef{Namespace: "shop", Name: "q"}, "x"); err != nil {
		t.Errorf("the job is not in its pool: %v", err)
	}
	f.push("q", "y")

	for what, want := range map[[2]string]int{
		{"", shop}: 201, {"?pool=orders", shop}: 201, {"?pool=default", shop}: 409, {"?pool=ordres", shop}: 400,
		{"?pool=orders", `{"namespace":"*","rights":["admin"]}`}: 400, {"?pool=orders", `{"namespace":"new"}`}: 400,
		{"?pool=orders", `{"namespace":"default","rights":["admin"]}`}: 409,
	} {
		if a := f.token("again", what[0], what[1]); a.status != want {
			t.Errorf("%v: %d %s, want %d", what, a.status, a.body, want)
		}
	}

	if a := f.send("POST", "/admin/tokens?pool=ordres", shop); !strings.Contains(a.body, `default orders`) {
		t.Errorf("an unknown pool: %s", a.body)
	}
	if a := f.send("GET", "/admin/namespaces", ""); !strings.Contains(a.body, `"default"`) ||
		!strings.Contains(a.body, `"shop"`) {
		t.Errorf("the namespaces: %s", a.body)
	}
	if a := f.send("POST", "/admin/backup?pool=x", ""); a.status != 400 {
		t.Errorf("a backup of no pool: %d", a.status)
	}
	if a := f.send("POST", "/admin/backup?pool=orders", ""); a.status != 501 {
		t.Errorf("a backup of an engine that has none: %d", a.status)
	}
}

// A token that was created elsewhere is added by its hash.
func TestTokenIsAddedByHash(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	id := strings.Repeat("ab", 32)
	const body = `{"namespace":"shop","rights":["produce"],"limits":{"produce":1,"per":"1m"}}`
	for _, want := range []int{204, 409} {
		if a := f.send("PUT", "/admin/tokens/"+id, body); a.status != want {
			t.Errorf("%d %s, want %d", a.status, a.body, want)
		}
	}
	if a := f.send("GET", "/admin/tokens?namespace=shop", ""); !strings.Contains(a.body, id) {
		t.Errorf("the list: %s", a.body)
	}
	for _, bad := range [][2]string{{"xyz", body}, {id, `{"namespace":"shop"}`},
		{id, `{"namespace":"shop","rights":["produce"],"token":"x"}`}, {id + "?pool=orders", body}} {
		if a := f.send("PUT", "/admin/tokens/"+bad[0], bad[1]); a.status != 400 {
			t.Errorf("%v: %d %s", bad, a.status, a.body)
		}
	}
}

// The answer of /readyz names a pool that is down. /readyz fails only if the default pool is down.
func TestReadinessReportsPools(t *testing.T) {
	t.Parallel()
	f, orders := withPools(t)
	if a := f.send("GET", "/readyz", ""); a.status != 200 || a.body != healthy {
		t.Errorf("%d %s", a.status, a.body)
	}
	orders.Close()
	if a := f.send("GET", "/readyz", ""); a.status != 200 ||
		a.body != `{"status":"degraded","unavailable":["orders"]}` {
		t.Errorf("%d %s", a.status, a.body)
	}
	f.push("q", "still")
	f.engine.Close()
	if a := f.send("GET", "/readyz", ""); a.status != 503 {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// lmstfy's API has pools in tokens and in its admin routes.
func TestLmstfyTokensSelectThePool(t *testing.T) {
	t.Parallel()
	f, orders := withPools(t)

	ask := func(method, url, token string) answer {
		req, err := http.NewRequest(method, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if token == "" { // this token is for the admin address
			req.Header.Set("Authorization", "Bearer "+f.tokens["operator"])
		}
		req.Header.Set("X-Token", token)
		req.Host = "127.0.0.1"
		return f.do(req)
	}

	var made struct{ Token string }
	a := ask("POST", f.admin.URL+"/token/shop?description=x&pool=orders", "")
	if json.Unmarshal([]byte(a.body), &made); a.status != 201 || !strings.HasPrefix(made.Token, "orders:duly_") {
		t.Fatalf("%d %s", a.status, a.body)
	}
	bare := strings.TrimPrefix(made.Token, "orders:")

	for token, want := range map[string]int{made.Token: 201, bare: 201, "default:" + bare: 401, ":" + bare: 401,
		"nowhere:" + bare: 404, "orders:" + bare + "x": 401} {
		if a := ask("PUT", f.api.URL+"/api/shop/q", token); a.status != want {
			t.Errorf("%s: %d %s, want %d", token, a.status, a.body, want)
		}
	}
	if s, err := orders.Stats(t.Context(), duly.QueueRef{Namespace: "shop", Name: "q"}); err != nil ||
		s.Sizes.Ready != 2 {
		t.Errorf("in the pool are %+v, %v", s.Sizes, err)
	}
	f.push("mail", "x")

	for url, want := range map[string]string{
		"/pools":            "[\n    \"default\",\n    \"orders\"\n]",
		"/info":             "{\n    \"default\": [\n        \"mail\"\n    ]\n}\n",
		"/info?pool=orders": "{\n    \"shop\": [\n        \"q\"\n    ]\n}\n", "/info?pool=x": "",
		"/token/shop?pool=x":       `{"error":"the pool was not exists"}`,
		"/token/shop?pool=default": "{\n    \"tokens\": {}\n}",
	} {
		if a := ask("GET", f.admin.URL+url, ""); a.body != want {
			t.Errorf("%s: %s", url, a.body)
		}
	}

	if a := ask("GET", f.admin.URL+"/token/shop?pool=orders", ""); !strings.Contains(a.body, `"orders:`) {
		t.Errorf("the tokens: %s", a.body)
	}
	for url, want := range map[string]string{
		"/token/shop?description=x&pool=default":                      "namespace shop is in pool orders",
		"/token/shop?description=x&pool=y":                            "the pool was not exists",
		"/token/new?description=x&token=nowhere:aaaaaaaaaaaaaaaaaaaa": "the pool was not exists",
	} {
		if a := ask("POST", f.admin.URL+url, ""); a.status != 400 || !strings.Contains(a.body, want) {
			t.Errorf("%s: %d %s", url, a.status, a.body)
		}
	}

	if a := ask("POST", f.admin.URL+"/token/new?description=x&token=orders:aaaaaaaaaaaaaaaaaaaa",
		""); a.status != 201 || !strings.Contains(a.body, "orders:aaaaaaaaaaaaaaaaaaaa") {
		t.Errorf("a text that names a pool: %d %s", a.status, a.body)
	}
	if a := ask("DELETE", f.admin.URL+"/token/shop/"+made.Token, ""); a.status != 204 {
		t.Errorf("%d %s", a.status, a.body)
	}
	metrics := f.send("GET", "/metrics", "").body

	for _, want := range []string{`infra_lmstfy_redis_timer_sizes{pool="orders"} 0`,
		`infra_lmstfy_redis_timer_sizes{pool="default"} 0`} {
		if !slices.Contains(strings.Split(metrics, "\n"), want) {
			t.Errorf("no line %s", want)
		}
	}
}

// The admin API moves a namespace while the other APIs use it.
func TestNamespaceMovesByAPI(t *testing.T) {
	t.Parallel()
	f, orders := withPools(t)
	if a := f.token("shop", "", `{"namespace":"shop","rights":["produce","consume"]}`); a.status != 201 {
		t.Fatalf("%d %s", a.status, a.body)
	}

	push := func(id string) {
		t.Helper()
		if a := f.send("POST", "/v1/shop/push", `{"jobs":[{"queue":"q","id":"`+id+`"}]}`, "shop"); a.status != 200 {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}

	push("old")
	if a := f.send("GET", "/admin/pools",
		""); a.body != `{"pools":[{"name":"default","ready":true},{"name":"orders","ready":true}]}` {
		t.Errorf("%d %s", a.status, a.body)
	}

	for body, want := range map[string]int{`{"pool":"orders"}`: 204, `{"pool":"default"}`: 409, `{"pool":"x"}`: 400,
		`{}`: 400} {
		if body != `{"pool":"orders"}` {
			f.send("PUT", "/admin/namespaces/placed", `{"pool":"orders"}`)
		}
		if a := f.send("PUT", "/admin/namespaces/placed", body); a.status != want {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
	}

	if a := f.send("GET", "/admin/moves", ""); a.body != `{"moves":[]}` {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := f.send("GET", "/admin/moves?namespace=shop",
		""); a.body != `{"moves":[{"namespace":"shop","pool":"default"}]}` {
		t.Errorf("%d %s", a.status, a.body)
	}

	for body, want := range map[string]int{`{}`: 400, `{"namespace":"shop"}`: 400,
		`{"namespace":"shop","to":"x"}`: 400, `{"namespace":"a/b","to":"orders"}`: 400,
		`{"namespace":"shop","to":"orders"}`: 202} {
		if a := f.send("POST", "/admin/moves", body); a.status != want {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
	}
	running, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); f.cfg.Pools.Run(running) }()
	defer func() { stop(); <-done }()

	look := func(want string) func() bool {
		return func() bool {
			f.clock.Advance(time.Second)
			return strings.Contains(f.send("GET", "/admin/moves?namespace=shop", "").body, want)
		}
	}

	until(t, "jobs go to the new pool", look(`"phase":"drain"`))
	push("new")
	if _, err := orders.Get(t.Context(), duly.QueueRef{Namespace: "shop", Name: "q"}, "new"); err != nil {
		t.Errorf("the new job is not in the new pool: %v", err)
	}

	for range 2 {
		a := f.send("POST", "/v1/shop/reserve", `{"queues":["q"],"max":1}`, "shop")
		var got struct{ Deliveries []struct{ Receipt string } }
		if err := json.Unmarshal([]byte(a.body), &got); err != nil || len(got.Deliveries) != 1 {
			t.Fatalf("%d %s", a.status, a.body)
		}
		if a := f.send("POST", "/v1/shop/settle",
			`{"outcomes":[{"receipt":"`+got.Deliveries[0].Receipt+`","as":"ack"}]}`, "shop"); a.status != 200 {
			t.Errorf("%d %s", a.status, a.body)
		}
	}

	until(t, "the move ends", func() bool {
		f.clock.Advance(time.Second)
		return f.send("GET", "/admin/moves", "").body == `{"moves":[]}`
	})
	if queues, err := f.engine.Queues(t.Context(), "shop", duly.PageParams{}); err != nil || len(queues.Names) != 0 {
		t.Errorf("left behind are %v, %v", queues.Names, err)
	}
	push("after")
}
