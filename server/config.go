package server

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/lmstfy"
	"github.com/dulymq/duly/server/metrics"
	"github.com/dulymq/duly/server/pools"
	"github.com/dulymq/duly/server/route"
	"github.com/dulymq/duly/server/webhook/guard"
)

// Config configures a server. Engine and Store.Registry must be set, or Pools.
type Config struct {
	// Engine is the engine that the server serves. The server does not close it.
	Engine contract.Engine
	// Store has the parts of the engine that the server needs in addition to jobs.
	Store Store
	// Pools, if set, are several engines as one. Pools replace the Engine and the empty fields of
	// Store. The server does not close Pools.
	Pools *pools.Pools

	Listen   Listen
	Settings Settings
	Limits   Limits
	Lmstfy   Lmstfy
	// UI, if set, makes the server serve the dashboard.
	UI *UIConfig
	// Push, if set, makes the server send the jobs of push queues. It needs a Targeter.
	Push *PushConfig

	// SweepEvery is how often the server sweeps the queues, at most 30 s. Default 30 s.
	SweepEvery time.Duration
	// DrainDelay is how long a stopping server continues to serve, while /readyz is red and every
	// answer asks its caller to close the connection. A balancer notices in that time.
	// Default 0.
	DrainDelay time.Duration

	// Metrics counts calls. Set it if other code counts with the same metrics. Default: new
	// metrics.
	Metrics *metrics.Metrics
	// Tracer, if set, traces requests and pushes; see package traces.
	Tracer Tracer
	// Version appears in the API's description. Default "dev".
	Version string
	// Clock is for tests. Deadlines of connections always use the system's. Default the
	// system's.
	Clock duly.Clock
	// Logger is slog's default unless set.
	Logger *slog.Logger
}

// Tracer traces requests, pushes and ticks.
type Tracer interface {
	route.Tracer
	// Pushing is the function of [observe.Observer].
	Pushing(ctx context.Context, jobs []duly.Job) (
		context.Context, []duly.Job, func(results []duly.PushResult, err error))
	// Firing is the function of [observe.Observer].
	Firing(ctx context.Context, q duly.QueueRef, now int64, items []contract.FireItem) (
		context.Context, []contract.FireItem, func(results []contract.FireResult, err error))
}

// Store has the parts of an engine that a server needs in addition to jobs. Only Registry must be
// set.
type Store struct {
	// Registry stores the tokens and knows the namespaces.
	Registry contract.Registry
	// Watcher reports changes of tokens on any server. If it is nil, every request looks its token
	// up, and a long poll continues after another server has revoked its token.
	Watcher contract.Watcher
	// Limiter counts the calls of tokens with limits. Nil: no token can have limits.
	Limiter contract.Limiter
	// Targeter stores the targets of HTTP push. Nil: this server has no HTTP push.
	Targeter contract.Targeter
	// Maintainer sweeps and checks the queues. If it is nil, another process must sweep them.
	Maintainer contract.Maintainer
	// Resetter reports when the store was reset. The server is not ready for a minute
	// after that.
	Resetter contract.Resetter
	// Accepter reports whether new jobs are refused because the disk is full. While they are
	// refused, the server reports itself as degraded.
	Accepter contract.Accepter
	// Backuper makes backups. Nil: backups are unsupported.
	Backuper contract.Backuper
}

// StoreOf returns the Store of an engine that owns its storage: every optional interface that the
// engine implements.
func StoreOf(engine contract.Engine) (s Store) {
	s.Registry, _ = engine.(contract.Registry)
	s.Watcher, _ = engine.(contract.Watcher)
	s.Limiter, _ = engine.(contract.Limiter)
	s.Targeter, _ = engine.(contract.Targeter)
	s.Maintainer, _ = engine.(contract.Maintainer)
	s.Resetter, _ = engine.(contract.Resetter)
	s.Accepter, _ = engine.(contract.Accepter)
	s.Backuper, _ = engine.(contract.Backuper)
	return s
}

// Listen is where a server listens.
type Listen struct {
	// Addr is the address of the API, AdminAddr that of the admin API. Port 0 selects a free port.
	// Default DefaultAddr and DefaultAdminAddr.
	Addr, AdminAddr string
	// TLS and AdminTLS are for the two addresses; see package certs. Default: plain HTTP.
	TLS, AdminTLS *tls.Config
	// DataDir is where the server writes the first token and its addresses for the command line. If
	// it is empty, the server writes no files and creates no first token.
	DataDir string
}

// Limits bound the memory of a server.
type Limits struct {
	// MaxBody is the largest body that the engine accepts, in bytes. The size limits of requests
	// are derived from it. Default duly.DefaultMaxBody.
	MaxBody int
	// AnswerMemory limits the memory, in bytes, of all answers over 64 KiB together and of the data
	// that they are built from. A caller waits while other callers use the memory, and is refused
	// after Settings.Grace. The process takes up to twice as much. Default 128 MiB, or four times
	// MaxBody if that is more.
	AnswerMemory int64
}

// Lmstfy has the settings of the lmstfy-compatible API, which is served next to the native API.
type Lmstfy struct {
	// Mode is LmstfyToken by default.
	Mode LmstfyMode
	// Defaults are the values of parameters that requests leave out. If it is nil, the defaults of
	// lmstfy apply.
	Defaults *lmstfy.Defaults
}

// LmstfyMode is how the lmstfy-compatible API is served.
type LmstfyMode string

// The modes of the lmstfy-compatible API.
const (
	// LmstfyToken: its admin routes need a token or an account.
	LmstfyToken LmstfyMode = "token"
	// LmstfyOpen means that the admin routes also accept every caller on the same machine, if the
	// admin address is on the loopback and there are no accounts. Without a token, these routes
	// show no metrics and change no token with the right admin.
	LmstfyOpen LmstfyMode = "open"
	// LmstfyOff means that the server does not serve the lmstfy-compatible API.
	LmstfyOff LmstfyMode = "off"
)

// Settings are the settings that may change while a server serves, see [Server.Apply].
type Settings struct {
	// Accounts may use the admin address by basic auth.
	Accounts []auth.Account
	// Proxies are the networks whose X-Forwarded-For the server trusts when it counts failed
	// attempts per address. Default: no networks, not even the loopback.
	Proxies []netip.Prefix
	// Drain is how long requests may take to end when the server stops. Default 30 s.
	Drain time.Duration
	// Grace is how long a request may take to arrive, and an answer to be read, before
	// both must flow at 1 KiB a second. Default 10 s.
	Grace time.Duration
	// AccessLog logs every request at info level. Otherwise requests that succeed are at debug
	// level. POST /accesslog of lmstfy's admin API changes AccessLog as well.
	AccessLog bool
	// Push limits what HTTP push may call.
	Push PushSettings
}

// PushSettings limit what HTTP push may call.
type PushSettings struct {
	// Guard checks addresses. The server adds its own listeners.
	Guard guard.Config
	// TargetsOnly refuses jobs and queues that name a URL instead of a target.
	TargetsOnly bool
}

// The defaults of Config and Settings.
const (
	DefaultAddr      = "127.0.0.1:7777"
	DefaultAdminAddr = "127.0.0.1:7778"
	DefaultDrain     = 30 * time.Second
	defaultGrace     = 10 * time.Second
	maxSweepEvery    = 30 * time.Second
)

func (c Config) withDefaults() Config {
	if c.Pools != nil {
		c = c.withPools()
	}
	setDefault(&c.Listen.Addr, DefaultAddr)
	setDefault(&c.Listen.AdminAddr, DefaultAdminAddr)
	setDefault(&c.Limits.MaxBody, duly.DefaultMaxBody)
	setDefault(&c.Limits.AnswerMemory, max(route.DefaultAnswerMemory, 4*int64(c.Limits.MaxBody)))
	setDefault(&c.SweepEvery, maxSweepEvery)
	setDefault(&c.Lmstfy.Mode, LmstfyToken)
	setDefault(&c.Version, "dev")
	c.Settings = c.Settings.withDefaults()

	if c.Metrics == nil {
		c.Metrics = metrics.New(metrics.Config{Version: c.Version})
	}
	if c.Clock == nil {
		c.Clock = clock.System()
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

func (s Settings) withDefaults() Settings {
	setDefault(&s.Drain, DefaultDrain)
	setDefault(&s.Grace, defaultGrace)
	return s
}

func setDefault[T comparable](v *T, preset T) {
	if *v == *new(T) {
		*v = preset
	}
}

// withPools fills the fields that are not set from the pools.
func (c Config) withPools() Config {
	if c.Engine == nil {
		c.Engine = c.Pools
	}
	s := &c.Store
	if s.Resetter == nil {
		s.Resetter = c.Pools
	}
	if s.Registry == nil {
		s.Registry = c.Pools
	}
	if s.Maintainer == nil {
		s.Maintainer = c.Pools
	}

	// The default pool has the tokens and the targets.
	if s.Watcher == nil {
		s.Watcher, _ = c.Pools.Registry.(contract.Watcher)
	}
	if s.Limiter == nil {
		s.Limiter, _ = c.Pools.Registry.(contract.Limiter)
	}
	if s.Targeter == nil {
		s.Targeter, _ = c.Pools.Registry.(contract.Targeter)
	}
	return c
}

// validate returns an error with every fault.
func (c Config) validate() error {
	var bad contract.BadFields
	if c.Engine == nil {
		bad.Add("engine", "is nil")
	}
	if c.Store.Registry == nil {
		bad.Add("registry", "is nil; it holds the tokens")
	}
	checkAddr(&bad, "addr", c.Listen.Addr)
	checkAddr(&bad, "admin_addr", c.Listen.AdminAddr)
	if n := c.Limits.MaxBody; n < 1 || n > duly.MaxMaxBody {
		bad.Add("max_body", "is %d, must be between 1 and %d", n, duly.MaxMaxBody)
	}
	if n := c.Limits.AnswerMemory; n < 0 {
		bad.Add("answer_memory", "is %d, must be at least 1", n)
	}
	bad.Take(c.Settings.validate())

	checkNotNegative(&bad, "drain_delay", c.DrainDelay)
	if c.SweepEvery < 0 || c.SweepEvery > maxSweepEvery {
		bad.Add("sweep_every", "is %s, must be between 0s and %s",
			duly.FormatDuration(c.SweepEvery), duly.FormatDuration(maxSweepEvery))
	}
	if m := c.Lmstfy.Mode; m != LmstfyToken && m != LmstfyOpen && m != LmstfyOff {
		bad.Add("lmstfy", "is %q, must be %s, %s or %s", m, LmstfyToken, LmstfyOpen, LmstfyOff)
	}
	if c.Push != nil && c.Push.Keys == nil {
		bad.Add("push.keys", "are nil; they seal the secrets of HTTP push")
	}
	return bad.Err()
}

func (s Settings) validate() error {
	var bad contract.BadFields
	for _, a := range s.Accounts {
		if a.Name == "" {
			bad.Add("accounts", "have one without a name")
		}
	}
	checkNotNegative(&bad, "drain", s.Drain)
	checkNotNegative(&bad, "grace", s.Grace)
	_, err := guard.New(s.Push.Guard)
	bad.Take(err)
	return bad.Err()
}

func checkNotNegative(bad *contract.BadFields, field string, d time.Duration) {
	if d < 0 {
		bad.Add(field, "is %s, must be at least 0s", duly.FormatDuration(d))
	}
}

func checkAddr(bad *contract.BadFields, field, addr string) {
	if _, _, err := net.SplitHostPort(addr); err != nil {
		bad.Add(field, "is not host:port: %v", err)
	}
}

// loopback reports whether an address can be reached only from this machine.
func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
