package conformance

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/enginetest"
	"github.com/dulymq/duly/httpengine"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/memnet"
	"github.com/dulymq/duly/internal/model"
	"github.com/dulymq/duly/server"
)

// Owner is an engine that owns its storage. If its calls leave the process, it also has a method
// Quiet that blocks until none of them is in flight.
type Owner interface {
	contract.Engine
	contract.Maintainer
	contract.Registry
}

// Opener creates an empty engine that steps nothing by itself.
type Opener func(t testing.TB, c duly.Clock, o enginetest.Options) Owner

// remote is a running server with its engine and the clients of the tests.
type remote struct {
	store   Owner
	clock   *clock.Fake
	rest    *rest
	url     string // with a token for every namespace
	network numbering

	mu      sync.Mutex
	engines map[string]*httpengine.Engine
}

// start serves an engine on a listener until the test ends.
func start(t testing.TB, open Opener, o enginetest.Options, l net.Listener, network *http.Transport) *remote {
	t.Helper()
	c := clock.NewFake()
	network.MaxIdleConnsPerHost = 1000
	network.DisableCompression = true
	r := &remote{store: open(t, c, o), clock: c, rest: newRest(), network: numbering{network},
		engines: map[string]*httpengine.Engine{}}
	r.serve(t, o, l)
	return r
}

func (r *remote) serve(t testing.TB, o enginetest.Options, l net.Listener) {
	t.Helper()
	// Tokens are stored outside the engine, so that only the test changes its registry. The
	// server does not sweep, because only the test moves the clock.
	c := r.clock
	s, err := server.New(server.Config{
		Engine: farOf(r.store, r.rest), Store: server.Store{Registry: model.New(model.Config{Clock: c})},
		Limits: server.Limits{MaxBody: o.MaxBody}, Clock: c, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	secret, _, err := s.Guard().Create(context.Background(), contract.Token{Namespace: contract.AllNamespaces,
		Rights: contract.RightAdmin})
	if err != nil {
		t.Fatal(err)
	}
	r.url = "http://" + secret + "@" + l.Addr().String() + "/"
	web := &http.Server{Handler: numbered(s.Handler()), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}

	var serving sync.WaitGroup
	serving.Go(func() { _ = web.Serve(l) })
	t.Cleanup(func() {
		// Each part ends before the part that it calls.
		r.close(t)
		if err := web.Close(); err != nil {
			t.Errorf("closing the server returned %v, want no error", err)
		}
		serving.Wait()
		if err := r.store.Close(); err != nil {
			t.Errorf("closing the engine returned %v, want no error", err)
		}
	})
}

// in returns a client for one namespace.
func (r *remote) in(t testing.TB, namespace string) *httpengine.Engine {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.engines[namespace]; e != nil {
		return e
	}
	// A Wait has to be one request. The clock jumps, so a second request would come after the
	// time that the test waits for.
	e, err := httpengine.Open(context.Background(), httpengine.Config{
		URL: r.url + namespace, Client: &http.Client{Transport: r.network}, Clock: r.clock, Poll: duly.MaxWait,
	})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(e.String(), "duly_") {
		t.Errorf("%s shows its token", e)
	}
	r.engines[namespace] = e
	return e
}

func (r *remote) close(t testing.TB) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.engines {
		if err := e.Close(); err != nil {
			t.Errorf("closing the client returned %v, want no error", err)
		}
	}
	r.network.CloseIdleConnections()
}

func (r *remote) harness(t testing.TB) *enginetest.Harness {
	in := func(namespace string) contract.Engine { return nearOf(r.in(t, namespace), r.store, r.rest) }
	h := &enginetest.Harness{
		Engine: in(duly.DefaultNamespace), In: in,
		Dispatcher: r.store, Maintainer: r.store, Registry: r.store, Clock: r.clock,
	}
	if b, ok := r.store.(contract.Backuper); ok {
		h.Backuper = b
	}
	return h
}

// quiet blocks until clients, server and engine are idle.
func (r *remote) quiet() {
	for {
		r.rest.quiet()
		q, leaves := r.store.(interface{ Quiet() })
		if !leaves {
			return
		}
		q.Quiet()
		// The engine's calls may have started something at the server again.
		if r.rest.still() {
			return
		}
	}
}

// InMemory returns the suite that runs through a server in a bubble, with an in-memory network.
func InMemory(open Opener) enginetest.Suite {
	return enginetest.Suite{Bubble: true, New: func(t testing.TB, o enginetest.Options) *enginetest.Harness {
		l := memnet.Listen()
		return start(t, open, o, l, &http.Transport{DialContext: l.Dial}).harness(t)
	}}
}

// OnLoopback returns the suite that runs through a server on real sockets.
func OnLoopback(open Opener) enginetest.Suite {
	return enginetest.Suite{New: func(t testing.TB, o enginetest.Options) *enginetest.Harness {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		r := start(t, open, o, l, &http.Transport{})
		h := r.harness(t)
		r.rest.turn = newTurn(t)
		h.Quiet = r.quiet
		return h
	}}
}
