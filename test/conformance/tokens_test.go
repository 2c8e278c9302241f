package conformance_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/enginetest"
	"github.com/dulymq/duly/httpengine"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine"
	"github.com/dulymq/duly/server"
	"github.com/dulymq/duly/test/conformance"
)

// running is a server as `duly serve` runs it.
type running struct {
	*server.Server
	admin *httpengine.Admin
}

// run serves an engine until the test ends.
func run(t *testing.T, store conformance.Owner, c duly.Clock, admin string) running {
	t.Helper()
	s, err := server.New(server.Config{
		Engine: store,
		Store: server.Store{Registry: store, Watcher: store.(contract.Watcher), Limiter: store.(contract.Limiter),
			Maintainer: store},
		Listen: server.Listen{Addr: "127.0.0.1:0", AdminAddr: "127.0.0.1:0"}, Clock: c,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	a, err := httpengine.OpenAdmin(t.Context(), httpengine.AdminConfig{URL: s.AdminURL(), Token: admin})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return running{s, a}
}

func (r running) engine(t *testing.T, token string, c duly.Clock) *httpengine.Engine {
	t.Helper()
	e, err := httpengine.Open(t.Context(), httpengine.Config{URL: r.URL() + "/shop", Token: token, Clock: c})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// shared returns one engine for two servers.
func shared(open conformance.Opener) func(t *testing.T, c duly.Clock) (mine, other conformance.Owner) {
	return func(t *testing.T, c duly.Clock) (mine, other conformance.Owner) {
		store := open(t, c, enginetest.Options{})
		t.Cleanup(func() { store.Close() })
		return store, store
	}
}

// openRedisTwice opens two engines on one Redis.
func openRedisTwice(t *testing.T, c duly.Clock) (mine, other conformance.Owner) {
	s, prefix := redistest.Shared(t)
	open := func() conformance.Owner {
		e, err := redisengine.Open(t.Context(), redisengine.Config{URL: s.URL() + "?prefix=" + prefix, Clock: c,
			Manual: true, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { e.Close() })
		return e
	}
	return open(), open()
}

// TestTwoServersShareTokens runs two servers on one engine (fault X4, C14.39, C14.40). If one server
// revokes a token, the other refuses it within a second of real time, and a wait with it ends.
// The test allows ten seconds and moves no clock. Calls with the token count towards its limits
// on both servers.
func TestTwoServersShareTokens(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T, c duly.Clock) (mine, other conformance.Owner){
		"Model": shared(openModel), "SQLite": shared(openSQLite), "Redis": openRedisTwice,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := clock.NewFake()
			store, other := open(t, c)
			bare, err := server.New(server.Config{Engine: store, Store: server.Store{Registry: store}, Clock: c})
			if err != nil {
				t.Fatal(err)
			}
			root, _, err := bare.Guard().Create(t.Context(), contract.Token{Namespace: "*", Rights: contract.RightAdmin})
			if err != nil {
				t.Fatal(err)
			}
			here, there := run(t, store, c, root), run(t, other, c, root)
			secret, err := here.admin.CreateToken(t.Context(), contract.Token{
				Namespace: "shop", Rights: contract.RightProduce | contract.RightConsume,
				Limits: contract.Limits{Produce: 2, Per: time.Minute},
			})
			if err != nil {
				t.Fatal(err)
			}
			for i, r := range []running{here, there, here} {
				_, err := r.engine(t, secret, c).Push(t.Context(), []duly.Job{{Queue: "q"}})
				if want := i == 2; errors.Is(err, duly.ErrLimited) != want || !want && err != nil {
					t.Errorf("push %d: %v", i, err)
				}
			}
			page, err := there.admin.Tokens(t.Context(), "shop", duly.PageParams{})
			if err != nil || len(page.Tokens) != 1 {
				t.Fatalf("%+v, %v", page, err)
			}
			waits := make(chan error)
			waiter := there.engine(t, secret, c)
			go func() {
				for { // until the token is refused: the call may come before or after the revocation
					if _, err := waiter.Wait(context.Background(), duly.WaitParams{Queues: []string{"empty"},
						Timeout: duly.MaxWait}); err != nil {
						waits <- err
						return
					}
				}
			}()
			if err := here.admin.DeleteToken(t.Context(), page.Tokens[0].Hash); err != nil {
				t.Fatal(err)
			}
			limit, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			select {
			case err := <-waits:
				if !errors.Is(err, duly.ErrUnauthorized) || strings.Contains(err.Error(), secret) {
					t.Errorf("the wait ended with %v", err)
				}
			case <-limit.Done():
				t.Fatal("the wait has not ended after the revocation")
			}
			for _, r := range []running{here, there} {
				if _, err := r.engine(t, secret, c).Stats(t.Context(), duly.QueueRef{Namespace: "shop",
					Name: "q"}); !errors.Is(err, duly.ErrUnauthorized) {
					t.Errorf("a call with the revoked token returned %v", err)
				}
			}
		})
	}
}
