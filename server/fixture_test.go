package server

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/eventually"
	"github.com/dulymq/duly/internal/logtest"
	"github.com/dulymq/duly/internal/memnet"
	"github.com/dulymq/duly/internal/model"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/server/webhook/seal"
)

// fixture is a server with the model engine and two listeners.
type fixture struct {
	*Server
	t      *testing.T
	engine *model.Engine
	clock  *clock.Fake
	log    *logtest.Log
	api    *httptest.Server
	admin  *httptest.Server
	firing contract.Firing   // observer of ticks that the server has set
	pipes  *memnet.Listener  // connections to an API that is served in memory; else nil
	tokens map[string]string // tokens by name; see makeTokens
}

// firingEngine is the model with an observer of ticks, which tests call themselves.
type firingEngine struct {
	*model.Engine
	f *fixture
}

// ObserveFire implements contract.FireObserver.
func (e *firingEngine) ObserveFire(f contract.Firing) { e.f.firing = f }

// serve starts a server. change, if set, changes its configuration.
func serve(t *testing.T, change func(*Config)) *fixture {
	t.Helper()
	f := assemble(t, change)
	f.api, f.admin = listen(t, f.Handler()), listen(t, f.AdminHandler())
	return f
}

// assemble is like serve, without listeners.
func assemble(t *testing.T, change func(*Config)) *fixture {
	t.Helper()
	f := &fixture{t: t, clock: clock.NewFake(), log: new(logtest.Log)}
	f.engine = model.New(model.Config{Clock: f.clock})
	keys, err := seal.Parse(seal.NewKey())
	if err != nil {
		t.Fatal(err)
	}

	cfg := Config{
		Engine: &firingEngine{f.engine, f},
		Store: Store{Registry: f.engine, Targeter: f.engine, Watcher: f.engine, Limiter: f.engine,
			Maintainer: f.engine},
		Push: &PushConfig{Keys: keys}, Clock: f.clock,
		Logger: slog.New(slog.NewJSONHandler(f.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}

	if change != nil {
		change(&cfg)
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	f.Server = s
	f.listenToTokens()
	f.makeTokens()
	return f
}

// listenToTokens watches tokens, like Serve.
func (f *fixture) listenToTokens() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); f.watchTokens(ctx) }()
	f.t.Cleanup(func() { cancel(); <-done })
}

// inMemory runs a test with a server in a bubble of package synctest. A write returns when the
// other side has read the data. Only the API is served, to [fixture.dial] and [fixture.do].
func inMemory(t *testing.T, change func(*Config), test func(f *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := assemble(t, change)
		f.pipes = memnet.Listen()
		served := f.httpServer(f.Handler(), nil)
		go served.Serve(f.pipes)
		defer func() {
			served.Close()
			// net/http waits a little before it closes some connections
			clock.Sleep(t.Context(), clock.System(), time.Second)
		}()
		test(f)
	})
}

// listen serves a handler with the bounds of a listener of Serve.
func listen(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	ts := httptest.NewUnstartedServer(h)
	ts.Config.MaxHeaderBytes, ts.Config.ReadHeaderTimeout = maxHeader, headerTimeout
	ts.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	ts.Start()
	t.Cleanup(ts.Close)
	return ts
}

func (f *fixture) makeTokens() {
	f.tokens = map[string]string{"none": "", "malformed": "duly_no-token", "unknown": "duly_" + strings.Repeat("A", 43)}
	for name, t := range map[string]contract.Token{
		"produce":  {Namespace: "default", Rights: contract.RightProduce},
		"consume":  {Namespace: "default", Rights: contract.RightConsume},
		"admin":    {Namespace: "default", Rights: contract.RightAdmin},
		"operator": {Namespace: "*", Rights: contract.RightAdmin},
		"reader":   {Namespace: "*", Rights: contract.RightConsume},
		"foreign":  {Namespace: "other", Rights: contract.RightAdmin},
	} {
		secret, _, err := f.guard.Create(f.t.Context(), t)
		if err != nil {
			f.t.Fatal(err)
		}
		f.tokens[name] = secret
	}

	secret, made, err := f.guard.Create(f.t.Context(),
		contract.Token{Namespace: "default", Rights: contract.RightAdmin})
	if err == nil {
		err = f.guard.Revoke(f.t.Context(), made.Hash)
	}
	if err != nil {
		f.t.Fatal(err)
	}
	f.tokens["revoked"] = secret
}

// answer is a response whose body was read.
type answer struct {
	status int
	header http.Header
	body   string
}

// err returns the error in the answer. Its code is empty if the answer has no error.
func (a answer) err() *duly.Error {
	e, _ := wire.ReadProblem(a.body)
	return e
}

// send sends one request with the operator's token, or with the named one.
func (f *fixture) send(method, path, body string, caller ...string) answer {
	f.t.Helper()
	base := f.api.URL
	if onAdmin(path) {
		base = f.admin.URL
	}
	req, err := http.NewRequest(method, base+path, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	name := "operator"
	if len(caller) > 0 {
		name = caller[0]
	}
	if token := f.tokens[name]; token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return f.do(req)
}

// onAdmin reports whether the admin address serves the path.
func onAdmin(path string) bool {
	return strings.HasPrefix(path, "/admin/") || strings.HasPrefix(path, "/debug/") || path == "/metrics"
}

func (f *fixture) do(req *http.Request) answer {
	f.t.Helper()
	transport := http.DefaultTransport

	if f.pipes != nil {
		own := &http.Transport{DialContext: f.pipes.Dial}
		defer own.CloseIdleConnections()
		transport = own
	}
	client := http.Client{Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		f.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		f.t.Fatalf("%s %s: the answer is not whole: %v", req.Method, req.URL.Path, err)
	}
	return answer{resp.StatusCode, resp.Header, string(b)}
}

// push pushes one job and returns its ID.
func (f *fixture) push(queue, body string) string {
	f.t.Helper()
	results, err := f.engine.Push(f.t.Context(), []duly.Job{{Queue: queue, Body: []byte(body)}})
	if err != nil || results[0].Err != nil {
		f.t.Fatal(err, results)
	}
	return results[0].ID
}

// sizes returns the sizes of a queue.
func (f *fixture) sizes(queue string) duly.Sizes {
	f.t.Helper()
	s, err := f.engine.Stats(context.Background(), duly.Q(queue))
	if err != nil {
		f.t.Fatal(err)
	}
	return s.Sizes
}

// until waits until a condition holds, and fails the test after some time.
var until = eventually.True
