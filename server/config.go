package server

import (
	"crypto/tls"
	"log/slog"
	"net"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/server/lmstfy"
	"github.com/dulymq/duly/server/metrics"
	"github.com/dulymq/duly/server/pools"
	"github.com/dulymq/duly/server/route"
)

// Config is how a server is set up. Engine and Registry must be set.
type Config struct {
	// Engine is what is served. The server does not close it.
	Engine duly.Contract
	// Registry holds the tokens and knows the namespaces.
	Registry duly.Registry
	// Watcher tells of changes of tokens, on whatever server they are made. Nil:
	// every request looks its token up, and a long poll outlasts a token that
	// another server revokes.
	Watcher duly.Watcher
	// Limiter counts the calls of tokens with limits. Nil: none can have any.
	Limiter duly.Limiter
	// Targeter stores the targets of HTTP push. Nil: this server has no HTTP push.
	Targeter duly.Targeter
	// Maintainer, if set, is swept by the server, and checked on demand.
	Maintainer duly.Maintainer
	// Resetter, if set, tells when the store was reset; the server is then not
	// ready for a minute.
	Resetter duly.Resetter
	// Accepter, if set, reports whether new jobs are refused because the disk is
	// full; the server is then degraded.
	Accepter duly.Accepter
	// Backuper, if set, can be asked for a backup.
	Backuper duly.Backuper
	// Pools, if set, are several engines as one. They are then also the Engine,
	// Registry and Maintainer that are not set, and the Watcher and Limiter are
	// those of the default one. The server does not close them.
	Pools *pools.Pools

	// Addr is the API's address. Default 127.0.0.1:7777; port 0 takes a free
	// one.
	Addr string
	// AdminAddr is the admin API's. Default 127.0.0.1:7778.
	AdminAddr string
	// TLS, if set, is what the API is served with, and AdminTLS the admin API;
	// see package certs. Default: plain HTTP.
	TLS, AdminTLS *tls.Config
	// DataDir is where the first token and the addresses are left for the
	// command line. Empty: nowhere, and no first token is made.
	DataDir string

	Live

	// MaxBody is the engine's bound on a body, in bytes; it sets those of
	// requests. Default duly.DefaultMaxBody.
	MaxBody int
	// AnswerMemory is for all answers over 64 KiB together and what they are
	// made of, in bytes: who asks while others use it waits, and is refused
	// after Grace. The process takes up to twice that. Default 128 MiB, or four
	// times MaxBody where that is more.
	AnswerMemory int64
	// DrainDelay is for how long a server that stops goes on as before, but for
	// /readyz, which is red, and for answers, which ask their callers to close the
	// connection: the time that a balancer takes to notice. Default 0.
	DrainDelay time.Duration
	// SweepEvery is how often the queues' heads are looked at; at most 30 s,
	// the default.
	SweepEvery time.Duration

	// Lmstfy says how the lmstfy-compatible API is served beside the native one.
	// Default LmstfyToken.
	Lmstfy LmstfyMode

	// LmstfyDefaults is what requests of that API take that do not say it. Nil:
	// what lmstfy itself takes.
	LmstfyDefaults *lmstfy.Defaults

	// Push, if set, sends the jobs of push queues, if there is a Targeter.
	Push *PushConfig

	// Metrics is what is counted, where counting has begun before: of the engine's
	// calls to its store. Default: new ones.
	Metrics *metrics.Metrics
	// Tracer, if set, puts requests into traces; see package traces.
	Tracer route.Tracer
	// Version is told by the API's description.
	Version string
	// Clock is for tests; deadlines of connections are always real time.
	// Default the system's.
	Clock clock.Clock
	// Logger. Default slog's.
	Logger *slog.Logger
}

// LmstfyMode is how the lmstfy-compatible API is served.
type LmstfyMode string

// The modes.
const (
	// LmstfyToken: its admin routes need a token or an account.
	LmstfyToken LmstfyMode = "token"
	// LmstfyOpen: they also take every caller on the same machine, if the admin
	// address is on the loopback and there are no accounts. Without a token they
	// still show no metrics and touch no token with the right admin.
	LmstfyOpen LmstfyMode = "open"
	// LmstfyOff: it is not served.
	LmstfyOff LmstfyMode = "off"
)

// The defaults.
const (
	DefaultAddr      = "127.0.0.1:7777"
	DefaultAdminAddr = "127.0.0.1:7778"
	DefaultDrain     = 30 * time.Second
	maxSweepEvery    = 30 * time.Second
)

func (c Config) withDefaults() Config {
	if c.Pools != nil {
		c = c.withPools()
	}
	if c.Addr == "" {
		c.Addr = DefaultAddr
	}
	if c.AdminAddr == "" {
		c.AdminAddr = DefaultAdminAddr
	}
	if c.MaxBody == 0 {
		c.MaxBody = duly.DefaultMaxBody
	}
	if c.AnswerMemory == 0 {
		c.AnswerMemory = max(route.DefaultAnswerMemory, 4*int64(c.MaxBody))
	}
	if c.SweepEvery == 0 {
		c.SweepEvery = maxSweepEvery
	}
	c.Live = c.Live.withDefaults()
	if c.Lmstfy == "" {
		c.Lmstfy = LmstfyToken
	}
	if c.Version == "" {
		c.Version = "dev"
	}
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

func (c Config) withPools() Config {
	if c.Engine == nil {
		c.Engine = c.Pools
	}
	if c.Resetter == nil {
		c.Resetter = c.Pools
	}
	if c.Registry == nil {
		c.Registry = c.Pools
	}
	if c.Maintainer == nil {
		c.Maintainer = c.Pools
	}
	if c.Watcher == nil {
		c.Watcher, _ = c.Pools.Registry.(duly.Watcher)
	}
	if c.Limiter == nil {
		c.Limiter, _ = c.Pools.Registry.(duly.Limiter)
	}
	if c.Targeter == nil {
		c.Targeter, _ = c.Pools.Registry.(duly.Targeter)
	}
	return c
}

// validate reports everything that is wrong.
func (c Config) validate() error {
	var bad duly.BadFields
	if c.Engine == nil {
		bad.Add("engine", "is nil")
	}
	if c.Registry == nil {
		bad.Add("registry", "is nil; it holds the tokens")
	}
	checkAddr(&bad, "addr", c.Addr)
	checkAddr(&bad, "admin_addr", c.AdminAddr)
	if c.MaxBody < 1 || c.MaxBody > duly.MaxMaxBody {
		bad.Add("max_body", "is %d, must be between 1 and %d", c.MaxBody, duly.MaxMaxBody)
	}
	if c.AnswerMemory < 0 {
		bad.Add("answer_memory", "is %d, must be at least 1", c.AnswerMemory)
	}
	bad.Take(c.Live.validate())
	if c.DrainDelay < 0 {
		bad.Add("drain_delay", "is %s, must be at least 0s", duly.FormatDuration(c.DrainDelay))
	}
	if c.SweepEvery < 0 || c.SweepEvery > maxSweepEvery {
		bad.Add("sweep_every", "is %s, must be between 0s and %s", duly.FormatDuration(c.SweepEvery), duly.FormatDuration(maxSweepEvery))
	}
	if c.Lmstfy != LmstfyToken && c.Lmstfy != LmstfyOpen && c.Lmstfy != LmstfyOff {
		bad.Add("lmstfy", "is %q, must be %s, %s or %s", c.Lmstfy, LmstfyToken, LmstfyOpen, LmstfyOff)
	}
	if c.Push != nil && c.Push.Keys == nil {
		bad.Add("push.keys", "are nil; they seal the secrets of HTTP push")
	}
	return bad.Err()
}

func checkAddr(bad *duly.BadFields, field, addr string) {
	if _, _, err := net.SplitHostPort(addr); err != nil {
		bad.Add(field, "is not host:port: %v", err)
	}
}

// loopback tells whether an address can be reached from this machine alone.
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
