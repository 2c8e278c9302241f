package lmstfy_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/dulytest"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/eventually"
	"github.com/dulymq/duly/internal/logtest"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine"
	"github.com/dulymq/duly/server"
	"github.com/dulymq/duly/sqliteengine"
)

// stage is an engine of a test, with its clock.
type stage struct {
	engine   contract.Engine
	registry contract.Registry
	clock    duly.Clock
	// advance advances the clock. With the system's clock, it waits.
	advance func(time.Duration)
	// still is true if the clock is fake.
	still bool
}

// stages has the engines that run all scripts, by name.
var stages = map[string]func(*testing.T) *stage{"memory": inMemory, "sqlite": onSQLite, "redis": onRedis}

// longAgo is earlier than the time in any real ID, so that elapsed times count from the push, by the
// fake clock.
var longAgo = time.Date(2001, time.September, 9, 1, 46, 40, 0, time.UTC)

func stopped() *clock.Fake {
	c := clock.NewFake()
	c.Step(longAgo.Sub(c.Now()))
	return c
}

func inMemory(t *testing.T) *stage {
	e := dulytest.New(t)
	e.Clock.Step(longAgo.Sub(e.Clock.Now()))
	return &stage{engine: e, registry: e, clock: e.Clock, advance: e.Advance, still: true}
}

func onSQLite(t *testing.T) *stage {
	c := stopped()
	e, err := sqliteengine.Open(t.Context(),
		sqliteengine.Config{Path: filepath.Join(t.TempDir(), "duly.db"), Clock: c,
			Logger: slog.New(slog.DiscardHandler), Synchronous: sqliteengine.SyncNormal})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return &stage{engine: e, registry: e, clock: c, advance: c.Advance, still: true}
}

func onRedis(t *testing.T) *stage {
	server, prefix := redistest.Shared(t)
	c := stopped()
	e, err := redisengine.Open(t.Context(),
		redisengine.Config{URL: server.URL() + "?prefix=" + prefix, Clock: c, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return &stage{engine: e, registry: e, clock: c, advance: c.Advance, still: true}
}

// onTheClock returns an SQLite engine with the system's clock. So scripts take real time.
func onTheClock(t *testing.T) *stage {
	e, err := sqliteengine.Open(t.Context(),
		sqliteengine.Config{Path: filepath.Join(t.TempDir(), "duly.db"), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return &stage{engine: e, registry: e, clock: clock.System(),
		advance: func(d time.Duration) { <-time.NewTimer(d).C }}
}

// onTheClockOfRedis is like onTheClock, for Redis.
func onTheClockOfRedis(t *testing.T) *stage {
	server, prefix := redistest.Shared(t)
	e, err := redisengine.Open(t.Context(),
		redisengine.Config{URL: server.URL() + "?prefix=" + prefix, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return &stage{engine: e, registry: e, clock: clock.System(),
		advance: func(d time.Duration) { <-time.NewTimer(d).C }}
}

// live has the stages with the system's clock.
var live = map[string]func(*testing.T) *stage{"sqlite": onTheClock, "redis": onTheClockOfRedis}

// play is a server with the engine of a stage.
type play struct {
	*stage
	t     *testing.T
	s     *server.Server
	api   *httptest.Server
	admin *httptest.Server
	gate  *gate
	log   *logtest.Log
	peers atomic.Uint32
}

func open(t *testing.T, on *stage, change func(*server.Config)) *play {
	t.Helper()
	p := &play{stage: on, t: t, gate: newGate(on.engine), log: new(logtest.Log)}

	cfg := server.Config{
		Engine: p.gate, Store: server.Store{Registry: on.registry}, Clock: on.clock,
		Lmstfy:   server.Lmstfy{Mode: server.LmstfyOpen},
		Settings: server.Settings{Proxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
		Logger:   slog.New(slog.NewJSONHandler(p.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}

	cfg.Store.Watcher, _ = on.registry.(contract.Watcher)
	cfg.Store.Limiter, _ = on.registry.(contract.Limiter)
	if change != nil {
		change(&cfg)
	}
	var err error
	if p.s, err = server.New(cfg); err != nil {
		t.Fatal(err)
	}
	p.api, p.admin = listen(t, p.s.Handler()), listen(t, p.s.AdminHandler())
	return p
}

func listen(t *testing.T, h http.Handler) *httptest.Server {
	s := httptest.NewUnstartedServer(h)
	s.Config.MaxHeaderBytes = 12 << 10 // as Serve does: 16 KiB with the slack of net/http
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// token creates a token, by default with lmstfy's rights: produce and consume.
func (p *play) token(namespace string, rights ...contract.Right) string {
	p.t.Helper()
	t := contract.Token{Namespace: namespace, Rights: contract.RightProduce | contract.RightConsume}
	if rights != nil {
		t.Rights = rights[0]
	}
	secret, _, err := p.s.Guard().Create(p.t.Context(), t)
	if err != nil {
		p.t.Fatal(err)
	}
	return secret
}

// answer is a response whose body was read.
type answer struct {
	status int
	header http.Header
	body   string
	err    error
}

var client = http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// peer returns a new client address for X-Forwarded-For, because wrong tokens are counted per
// address.
func (p *play) peer() string {
	n := p.peers.Add(1)
	return fmt.Sprintf("10.%d.%d.%d", byte(n>>16), byte(n>>8), byte(n))
}

// send sends a request. headers are pairs.
func (p *play) send(method, target, body string, headers ...string) answer {
	req, err := http.NewRequest(method, p.api.URL+target, strings.NewReader(body))
	if err != nil {
		return answer{err: err}
	}
	req.Header.Set("X-Forwarded-For", p.peer())
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	return do(req)
}

func do(req *http.Request) answer {
	resp, err := client.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(b), err}
}

// gate is an engine that reports its waits.
type gate struct {
	contract.Engine
	waiting chan struct{} // receives a value after the start of each Wait
	left    chan struct{} // receives a value when the caller of a Wait disconnects
}

func newGate(e contract.Engine) *gate {
	return &gate{e, make(chan struct{}, 1<<16), make(chan struct{}, 1<<16)}
}

// Wait reports its start when the engine has registered the caller, as far as a caller can know: a
// later push wakes it, or it finds the job in its first check.
func (g *gate) Wait(ctx context.Context, p duly.WaitParams) (bool, error) {
	g.waiting <- struct{}{}
	ready, err := g.Engine.Wait(ctx, p)
	if ctx.Err() != nil {
		g.left <- struct{}{}
	}
	return ready, err
}

// until waits until a condition holds.
var until = eventually.True
